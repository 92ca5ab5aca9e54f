// A peer that speaks TCP, and HTTP/2 as far as it is told to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tutti/core/mutex.h"

namespace tutti::test {

// To a port of this host. Moves, does not copy.
class RawConnection {
 public:
  // `from`: the own address, one of 127.0.0.0/8.
  explicit RawConnection(int port, const char* from = "127.0.0.1");
  explicit RawConnection(RawConnection&& other) noexcept;
  ~RawConnection();

  bool connected() const { return fd_ >= 0; }
  // As far as the peer takes it; false when it has hung up.
  bool send(std::string_view bytes);
  // What arrives until the peer hangs up, `limit` bytes have come or nothing has for `quiet_ms`.
  std::string receive(std::size_t limit, int quiet_ms);
  // Waits until the peer hangs up; false when nothing has come from it for `quiet_ms`.
  bool wait_closed(int quiet_ms = 60'000);

 private:
  int fd_ = -1;
};

// The bytes of HTTP/2 that begin a connection.
std::string http2_hello();
enum class FrameType : char { kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kContinuation = 9 };
inline constexpr int kEndStream = 1;
inline constexpr int kEndHeaders = 4;
std::string http2_frame(FrameType type, int flags, std::uint32_t stream, std::string_view payload);
// The frame that opens a unary call.
std::string http2_headers(std::uint32_t stream, std::string_view method, int flags = kEndHeaders);
// A whole unary call. The message may have up to 16,000 bytes.
std::string http2_call(std::uint32_t stream, std::string_view method, std::string_view message = {});

// A process with connections that greet and then say nothing; each process has its own limit of file descriptors.
class IdlePeers {
 public:
  IdlePeers(int port, int count);
  // Ends the process.
  ~IdlePeers();
  // How many the server has greeted, when all have tried.
  int wait_connected();

 private:
  int report_ = -1;   // read end
  int release_ = -1;  // write end; closing it ends the process
  int process_ = -1;
};

// Passes bytes between clients and the server at `port`, and remembers what the client has sent.
class RecordingProxy {
 public:
  explicit RecordingProxy(int port);
  ~RecordingProxy();
  int port() const { return port_; }
  // What the clients sent on the connection that carried the most.
  std::string longest_sent() const;

 private:
  void run(int server_port);

  int listener_ = -1;
  int port_ = 0;
  int stop_[2] = {-1, -1};  // a pipe; closing its end tells the thread to stop
  mutable Mutex mu_;
  std::vector<std::string> sent_ TUTTI_GUARDED_BY(mu_) = {""};  // on each connection
  std::thread thread_;
};

}  // namespace tutti::test
