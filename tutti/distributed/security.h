// Who may talk to a task, and how much.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace tutti {

// How peers prove who they are. Empty: plaintext, for loopback and where `insecure` was said.
struct SecurityOptions {
  std::string ca_file;           // PEM; whose certificates are believed
  std::string certificate_file;  // PEM; names this task
  std::string key_file;
  // The cluster's secret; every Tutti peer must know it. Empty: what the environment variable TUTTI_JOIN_TOKEN says,
  // which `tutti run` draws for each job; none where that is not set, or with `insecure`.
  std::string join_token;
  bool insecure = false;  // plaintext on any address, and anybody may run graphs here
};

// What a server gives anybody before it knows more of them. Beyond: kResourceExhausted, with the flag of `tutti server`
// that sets the limit.
struct ServerLimits {
  std::size_t message_bytes = std::size_t{64} << 30;    // of one message; a request over gRPC never has more than 2 GiB
  std::size_t connection_bytes = std::size_t{4} << 30;  // received and not yet answered, of one connection
  std::size_t step_bytes = std::size_t{4} << 30;        // sent and not yet received, of one step
  int calls_per_connection = 1000;                      // at one time
  // Over gRPC, of one host on all of its connections, after as many at once; 0: any number. The default is several
  // times what a server can answer.
  int calls_per_second = 100'000;
  int sessions = 10'000;                        // of one master at one time; 0: any number
  std::chrono::milliseconds handshake{10'000};  // from a connection's first byte to its being usable
  // In such a time a connection that owes the rest of a message over gRPC sends one of its messages completely, or 4 KB
  // for each second. Rounded up to seconds.
  std::chrono::milliseconds message{60'000};
};

}  // namespace tutti
