// What a call between tasks costs over gRPC, beside the same bytes over a bare TCP connection. Both ends are in this
// process and talk over loopback.
//
//   EmptyCall/TLS        one empty call after the other: the round trip
//   ManyCalls/TLS/N      N empty calls in flight: calls a second
//   Fetch/TLS/BYTES      one call after the other, answered with so many bytes, as a tensor is: bytes a second
//   Send/TLS/BYTES       the same the other way: so many bytes in the request
//   TcpRoundTrip         one byte there and one back: what EmptyCall could be at best
//   TcpFetch/BYTES       one byte there, so many back: what Fetch could be at best
//
// TLS: 0 plaintext, 1 certificates on both sides. Bytes are never copied by Tutti; the answers share one buffer.

#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/distributed/rpc/certificates.h"
#include "tutti/distributed/rpc/grpc_transport.h"

namespace tutti {
namespace {

constexpr std::int64_t kMostBytes = 64 << 20;

// Shared by all messages: pages that are there.
const std::shared_ptr<std::string>& block() {
  static const auto bytes = std::make_shared<std::string>(kMostBytes, 'x');
  return bytes;
}

Payload payload_of(std::size_t bytes) {
  Payload payload;
  payload.append(std::as_bytes(std::span(*block())).first(bytes), block());
  return payload;
}

// Answers with as many bytes as the method's name says: "/bench/4096".
class BenchHandler final : public CallHandler {
 public:
  void handle(IncomingCall call, Reply reply) override {
    std::int64_t bytes = 0;
    if (!parse_int64(call.method.substr(call.method.rfind('/') + 1), &bytes)) bytes = 0;
    reply({}, payload_of(static_cast<std::size_t>(bytes)));
  }
};

class Peers {
 public:
  explicit Peers(bool tls) {
    GrpcServerOptions options;
    options.address = "127.0.0.1:0";
    GrpcClient::Options client;
    if (tls) {
      make_certificates();
      options.security = files("ps-0");
      client.security = files("worker-0");
    }
    server_ = GrpcServer::start(options, handler_).value_or_throw();
    client_ = std::make_unique<GrpcClient>(client);
    channel_ = client_->channel(str_cat("127.0.0.1:", server_->port()));
  }
  ~Peers() {
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  Channel& channel() { return *channel_; }

  // Waits for the answer, of which it gives the size.
  std::size_t call(const std::string& method, const Payload& request) {
    std::mutex mu;
    std::condition_variable ended;
    bool done = false;
    std::size_t size = 0;
    channel_->call(method, request, {}, [&](const Status& status, const Payload& payload) {
      const std::lock_guard lock(mu);
      size = status.ok() ? payload.size() : SIZE_MAX;
      done = true;
      ended.notify_one();
    });
    std::unique_lock lock(mu);
    ended.wait(lock, [&] { return done; });
    return size;
  }

 private:
  void make_certificates() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tutti-bench-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    throw_if_error(make_cluster_certificates(directory_, {"/job:ps/task:0", "/job:worker/task:0"}, {}, 1));
  }
  SecurityOptions files(const std::string& name) const {
    SecurityOptions security;
    security.ca_file = directory_ + "/ca.pem";
    security.certificate_file = str_cat(directory_, "/", name, ".pem");
    security.key_file = str_cat(directory_, "/", name, ".key");
    return security;
  }

  std::string directory_;
  BenchHandler handler_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<GrpcClient> client_;
  std::shared_ptr<Channel> channel_;
};

void expect_size(benchmark::State& state, std::size_t got, std::size_t wanted) {
  if (got != wanted) state.SkipWithError("the call failed");
}

void empty_call(benchmark::State& state) {
  Peers peers(state.range(0) != 0);
  expect_size(state, peers.call("/bench/0", {}), 0);
  for (auto _ : state) expect_size(state, peers.call("/bench/0", {}), 0);
}

void many_calls(benchmark::State& state) {
  Peers peers(state.range(0) != 0);
  expect_size(state, peers.call("/bench/0", {}), 0);
  const std::int64_t in_flight = state.range(1);
  std::mutex mu;
  std::condition_variable changed;
  std::int64_t open = 0;
  for (auto _ : state) {
    {
      std::unique_lock lock(mu);
      changed.wait(lock, [&] { return open < in_flight; });
      ++open;
    }
    peers.channel().call("/bench/0", {}, {}, [&](const Status&, const Payload&) {
      const std::lock_guard lock(mu);
      --open;
      changed.notify_one();
    });
  }
  std::unique_lock lock(mu);
  changed.wait(lock, [&] { return open == 0; });
  state.SetItemsProcessed(state.iterations());
}

void fetch(benchmark::State& state) {
  Peers peers(state.range(0) != 0);
  const auto bytes = static_cast<std::size_t>(state.range(1));
  const std::string method = str_cat("/bench/", bytes);
  expect_size(state, peers.call(method, {}), bytes);
  for (auto _ : state) expect_size(state, peers.call(method, {}), bytes);
  state.SetBytesProcessed(state.iterations() * state.range(1));
}

void send(benchmark::State& state) {
  Peers peers(state.range(0) != 0);
  const Payload request = payload_of(static_cast<std::size_t>(state.range(1)));
  expect_size(state, peers.call("/bench/0", request), 0);
  for (auto _ : state) expect_size(state, peers.call("/bench/0", request), 0);
  state.SetBytesProcessed(state.iterations() * state.range(1));
}

// Two ends of a TCP connection; a thread at one of them answers each byte with `bytes` of them.
class TcpPair {
 public:
  explicit TcpPair(std::size_t bytes) {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    bind(listener, reinterpret_cast<sockaddr*>(&address), size);
    listen(listener, 1);
    getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
    near_ = socket(AF_INET, SOCK_STREAM, 0);
    connect(near_, reinterpret_cast<sockaddr*>(&address), size);
    far_ = accept(listener, nullptr, nullptr);
    close(listener);
    const int yes = 1;
    for (const int fd : {near_, far_}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    thread_ = std::thread([this, bytes] { answer(bytes); });
  }
  ~TcpPair() {
    close(near_);
    thread_.join();
    close(far_);
  }

  // False when the connection broke.
  bool fetch(std::size_t bytes, std::vector<char>& into) {
    if (::send(near_, "x", 1, MSG_NOSIGNAL) != 1) return false;
    for (std::size_t got = 0; got < bytes;) {
      const ssize_t more = recv(near_, into.data(), into.size(), 0);
      if (more <= 0) return false;
      got += static_cast<std::size_t>(more);
    }
    return true;
  }

 private:
  void answer(std::size_t bytes) {
    char asked = 0;
    while (recv(far_, &asked, 1, 0) == 1) {
      for (std::size_t sent = 0; sent < bytes;) {
        const ssize_t more = ::send(far_, block()->data() + sent, bytes - sent, MSG_NOSIGNAL);
        if (more <= 0) return;
        sent += static_cast<std::size_t>(more);
      }
    }
  }

  int near_ = -1;
  int far_ = -1;
  std::thread thread_;
};

void tcp_fetch(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  TcpPair pair(bytes);
  std::vector<char> into(1 << 20);
  for (auto _ : state) {
    if (!pair.fetch(bytes, into)) state.SkipWithError("the connection broke");
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (const int tls : {0, 1}) {
    for (std::int64_t bytes = 1024; bytes <= kMostBytes; bytes *= 16) bench->Args({tls, bytes});
  }
}

void tcp_sizes(benchmark::internal::Benchmark* bench) {
  for (std::int64_t bytes = 1024; bytes <= kMostBytes; bytes *= 16) bench->Arg(bytes);
}

BENCHMARK(empty_call)->Name("EmptyCall")->Arg(0)->Arg(1)->UseRealTime();
BENCHMARK(many_calls)->Name("ManyCalls")->ArgsProduct({{0, 1}, {8, 64, 512}})->UseRealTime();
BENCHMARK(fetch)->Name("Fetch")->Apply(sizes)->UseRealTime();
BENCHMARK(send)->Name("Send")->Apply(sizes)->UseRealTime();
BENCHMARK(tcp_fetch)->Name("TcpRoundTrip")->Arg(1)->UseRealTime();
BENCHMARK(tcp_fetch)->Name("TcpFetch")->Apply(tcp_sizes)->UseRealTime();

}  // namespace
}  // namespace tutti
