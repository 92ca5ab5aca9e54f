// What a call between two processes of one host costs, beside what the machine can do.
//
//   Memcpy/N         a copy of N bytes: the limit of anything that copies once
//   ShmEmpty         an empty call and its reply, one at a time: the round trip
//   ShmSmall/K       calls of 64 bytes, K under way at once: calls a second
//   ShmHeap/N        a call with N bytes from the heap, which are copied into a segment
//   ShmShared/N      a call with N bytes that lie in a shared segment, which are lent
//   ShmSharedRead/N  the same, and the receiver adds them up
//   UnixEmpty, TcpEmpty      64 bytes there and back, blocking sockets: the round trip of a wake-up
//   UnixBytes/N, TcpBytes/N  N bytes one way into reused memory, and one byte back
//   InprocEmpty      an empty call within the process: what the interface costs
//
// The other end of each is a process of its own, forked before anything else happens. Bytes a second count one way.
// The receiver's sum is compared once in every case that carries values.

#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/transport/inproc/inproc_channel.h"
#include "tutti/transport/shm/shm_transport.h"

namespace tutti {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 30;

std::uint64_t sum_words(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    sum += word;
  }
  return sum;
}

// "/sum" adds the request up, any other method drops it.
class SumHandler : public CallHandler {
 public:
  void handle(IncomingCall call, Reply reply) override {
    if (call.method != "/sum") return reply({}, {});
    std::uint64_t sum = 0;
    for (const Payload::Piece& piece : call.request.pieces()) sum += sum_words(piece.bytes);
    reply({}, Payload(std::to_string(sum)));
  }
};

ShmOptions shm_options(Clock& clock) {
  ShmOptions options;
  options.task = "bench";
  options.clock = &clock;
  options.segment_bytes = 2 * kLargest;
  return options;
}

bool read_all(int fd, char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::read(fd, data, bytes);
    if (got <= 0) return false;
    data += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int fd, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t put = ::write(fd, data, bytes);
    if (put <= 0) return false;
    data += put;
    bytes -= static_cast<std::size_t>(put);
  }
  return true;
}

// Takes messages of a length and bytes, answers each with one byte.
void serve_socket(int fd) {
  std::vector<char> memory;
  std::uint64_t bytes = 0;
  while (read_all(fd, reinterpret_cast<char*>(&bytes), sizeof bytes)) {
    if (memory.size() < bytes) memory.resize(bytes);
    if (!read_all(fd, memory.data(), bytes) || !write_all(fd, "k", 1)) return;
  }
}

void serve_shm(int announce) {
  const auto clock = make_system_clock();
  SumHandler handler;
  auto transport = ShmTransport::create(shm_options(*clock), &handler).value_or_throw();
  const std::string line = transport->name() + "\n";
  write_all(announce, line.data(), line.size());
  ::pause();
}

struct TcpPair {
  int client = -1;
  int server = -1;
};

TcpPair make_tcp_pair() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ::bind(listener, reinterpret_cast<sockaddr*>(&address), size);
  ::listen(listener, 1);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  TcpPair pair;
  pair.client = ::socket(AF_INET, SOCK_STREAM, 0);
  ::connect(pair.client, reinterpret_cast<sockaddr*>(&address), size);
  pair.server = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  const int on = 1;
  for (const int fd : {pair.client, pair.server}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return pair;
}

// Runs `body` in a process of its own, which dies with this one.
template <typename Body>
pid_t start_process(const Body& body) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  body();
  ::_exit(0);
}

// The other ends of all cases. Made once, before there are threads.
class Servers {
 public:
  static Servers& get() {
    static Servers servers;
    return servers;
  }

  int unix_socket = -1;
  int tcp_socket = -1;
  std::unique_ptr<Clock> clock;
  std::unique_ptr<ShmTransport> transport;
  std::shared_ptr<Channel> channel;

 private:
  Servers() {
    int announce[2] = {-1, -1};
    int pair[2] = {-1, -1};
    if (::pipe(announce) != 0 || ::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) std::abort();
    const TcpPair tcp = make_tcp_pair();
    processes_.push_back(start_process([&] { serve_shm(announce[1]); }));
    processes_.push_back(start_process([&] { serve_socket(pair[1]); }));
    processes_.push_back(start_process([&] { serve_socket(tcp.server); }));
    unix_socket = pair[0];
    tcp_socket = tcp.client;
    std::string name;
    for (char c = 0; ::read(announce[0], &c, 1) == 1 && c != '\n';) name += c;
    clock = make_system_clock();
    transport = ShmTransport::create(shm_options(*clock), nullptr).value_or_throw();
    channel = transport->connect(name, nullptr).value_or_throw();
  }
  ~Servers() {
    channel.reset();
    transport.reset();
    for (const pid_t pid : processes_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }

  std::vector<pid_t> processes_;
};

// Waits for several calls.
class Gate {
 public:
  void enter() {
    MutexLock lock(mu_);
    ++inside_;
  }
  void leave() {
    MutexLock lock(mu_);
    --inside_;
    changed_.notify_one();
  }
  void wait_below(int limit) {
    MutexLock lock(mu_);
    while (inside_ >= limit) changed_.wait(mu_);
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int inside_ TUTTI_GUARDED_BY(mu_) = 0;
};

std::string call_and_wait(Channel& channel, std::string_view method, const Payload& request) {
  Gate gate;
  std::string answer;
  gate.enter();
  channel.call(method, request, {}, [&](const Status& status, const Payload& reply) {
    if (!status.ok()) answer = status.to_string();
    if (!reply.empty()) answer = reply.flatten();
    gate.leave();
  });
  gate.wait_below(1);
  return answer;
}

Payload numbered_payload(Allocator& allocator, std::size_t bytes) {
  const BufferPtr buffer = allocator.allocate(bytes);
  auto* words = static_cast<std::uint64_t*>(buffer->data());
  for (std::size_t i = 0; i < bytes / 8; ++i) words[i] = i * 0x9e3779b97f4a7c15;
  Payload payload;
  payload.append({static_cast<const std::byte*>(buffer->data()), bytes}, buffer);
  return payload;
}

void send_values(benchmark::State& state, Allocator& allocator, std::string_view method) {
  Channel& channel = *Servers::get().channel;
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Payload payload = numbered_payload(allocator, bytes);
  if (call_and_wait(channel, "/sum", payload) != std::to_string(sum_words(payload.pieces()[0].bytes))) {
    state.SkipWithError("the receiver saw something else");
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(call_and_wait(channel, method, payload));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void Memcpy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<char> from(bytes, 'x');
  std::vector<char> to(bytes);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void ShmEmpty(benchmark::State& state) {
  Channel& channel = *Servers::get().channel;
  for (auto _ : state) call_and_wait(channel, "/none", {});
}

void ShmSmall(benchmark::State& state) {
  Channel& channel = *Servers::get().channel;
  const Payload payload(std::string(64, 'x'));
  Gate gate;
  for (auto _ : state) {
    gate.wait_below(static_cast<int>(state.range(0)));
    gate.enter();
    channel.call("/none", payload, {}, [&gate](const Status&, const Payload&) { gate.leave(); });
  }
  gate.wait_below(1);
  state.SetItemsProcessed(state.iterations());
}

void ShmHeap(benchmark::State& state) { send_values(state, heap_allocator(), "/none"); }
void ShmShared(benchmark::State& state) { send_values(state, Servers::get().transport->shared_allocator(), "/none"); }
void ShmSharedRead(benchmark::State& state) {
  send_values(state, Servers::get().transport->shared_allocator(), "/sum");
}

void send_through_socket(benchmark::State& state, int fd, std::size_t bytes) {
  const std::vector<char> data(bytes, 'x');
  const std::uint64_t length = bytes;
  char answer = 0;
  for (auto _ : state) {
    if (!write_all(fd, reinterpret_cast<const char*>(&length), sizeof length) ||
        !write_all(fd, data.data(), data.size()) || !read_all(fd, &answer, 1)) {
      state.SkipWithError("the socket closed");
      return;
    }
  }
}
void UnixEmpty(benchmark::State& state) { send_through_socket(state, Servers::get().unix_socket, 56); }
void TcpEmpty(benchmark::State& state) { send_through_socket(state, Servers::get().tcp_socket, 56); }
void UnixBytes(benchmark::State& state) {
  send_through_socket(state, Servers::get().unix_socket, static_cast<std::size_t>(state.range(0)));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
void TcpBytes(benchmark::State& state) {
  send_through_socket(state, Servers::get().tcp_socket, static_cast<std::size_t>(state.range(0)));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void InprocEmpty(benchmark::State& state) {
  SumHandler handler;
  ManualClock clock;
  const auto channel = make_inproc_channel(handler, clock, "bench");
  for (auto _ : state) channel->call("/none", {}, {}, [](const Status&, const Payload&) {});
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->RangeMultiplier(32)->Range(1 << 10, kLargest)->Arg(2'600'000)->UseRealTime();
}

// The first case makes the servers, so none may start threads before.
BENCHMARK(ShmEmpty)->UseRealTime();
BENCHMARK(ShmSmall)->Arg(1)->Arg(64)->UseRealTime();
BENCHMARK(UnixEmpty)->UseRealTime();
BENCHMARK(TcpEmpty)->UseRealTime();
BENCHMARK(InprocEmpty);
BENCHMARK(Memcpy)->Apply(sizes);
BENCHMARK(ShmHeap)->Apply(sizes);
BENCHMARK(ShmShared)->Apply(sizes);
BENCHMARK(ShmSharedRead)->Apply(sizes);
BENCHMARK(UnixBytes)->Apply(sizes);
BENCHMARK(TcpBytes)->Apply(sizes);

}  // namespace
}  // namespace tutti
