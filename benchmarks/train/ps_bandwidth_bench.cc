// How many bytes a second a parameter server gives and takes.
//
//   Pull/SHM/PS/BYTES   a worker reads a variable of so many bytes from each of PS parameter servers
//   Push/SHM/PS/BYTES   it assigns one on each of them from a value of its own
//
// SHM: 1 through shared memory, 0 over gRPC (what tasks of different hosts have). bytes_per_second is one server's;
// every server is a process of its own, forked before anything else happens, and so are its threads. The values that
// arrive are compared once in each case.
#include <benchmark/benchmark.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/distributed/server.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/state.h"

namespace tutti {
namespace {

constexpr int kMostServers = 2;

ServerOptions options_of(const std::string& job, int task, int num_ps, bool shared_memory) {
  ServerOptions options;
  for (int i = 0; i < num_ps; ++i) options.cluster.set("ps", i, "127.0.0.1:0");
  options.cluster.set("worker", 0, "127.0.0.1:0");
  options.job = job;
  options.task = task;
  options.shared_memory = shared_memory;
  options.log = [](const std::string&) {};
  return options;
}

std::string address_of(const Server& server) { return server.target().substr(std::string("grpc://").size()); }

// A process that becomes parameter server `task` when it is told: one line says how, the next one where all tasks are.
class ServerProcess {
 public:
  explicit ServerProcess(int task) : task_(task) {
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0) std::abort();
    const pid_t parent = getpid();
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      close(to[1]);
      close(from[0]);
      in_ = to[0], out_ = from[1];
      serve();
      _exit(0);
    }
    close(to[0]);
    close(from[1]);
    in_ = from[0], out_ = to[1];
  }
  ~ServerProcess() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // Its address.
  std::string start(int num_ps, bool shared_memory) {
    write_line(str_cat(num_ps, shared_memory ? "s" : "g"));
    return read_line();
  }
  // When this returns it knows the others.
  void tell(const std::vector<std::string>& addresses) {
    write_line(str_join(addresses, ","));
    read_line();
  }

 private:
  // One server after the other; each ends when the next is wanted.
  void serve() {
    std::unique_ptr<Server> server;
    for (std::string how = read_line(); !how.empty(); how = read_line()) {
      server.reset();
      const int num_ps = how[0] - '0';
      server = Server::start(options_of("ps", task_, num_ps, how[1] == 's')).value_or_throw();
      write_line(address_of(*server));
      throw_if_error(server->set_addresses(cluster_at(read_line(), num_ps)));
      write_line("ok");
    }
  }
  static ClusterSpec cluster_at(const std::string& addresses, int num_ps) {
    ClusterSpec spec;
    std::size_t begin = 0;
    for (int i = 0; i <= num_ps; ++i) {
      const std::size_t end = addresses.find(',', begin);
      const std::string address = addresses.substr(begin, end - begin);
      i < num_ps ? spec.set("ps", i, address) : spec.set("worker", 0, address);
      begin = end + 1;
    }
    return spec;
  }
  void write_line(const std::string& line) {
    const std::string text = line + "\n";
    if (write(out_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::abort();
  }
  std::string read_line() {
    std::string line;
    for (char c = 0; read(in_, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }

  const int task_;
  pid_t process_ = -1;
  int in_ = -1, out_ = -1;
};

std::vector<std::unique_ptr<ServerProcess>>& servers() {
  static std::vector<std::unique_ptr<ServerProcess>> all;
  return all;
}

// A worker in this process with a session, and a variable on each parameter server.
class Cluster {
 public:
  Cluster(bool shared_memory, int num_ps, std::int64_t bytes)
      : worker_(Server::start(options_of("worker", 0, num_ps, shared_memory)).value_or_throw()), graph_(builtin_ops()) {
    connect_all(num_ps, shared_memory);
    const Shape shape{bytes / 4};
    {
      const auto here = graph_.device_scope("/job:worker/task:0");
      mine_.emplace(variable(graph_, fill(shape, constant(graph_, Tensor::scalar(1.5f))), "mine"));
    }
    std::vector<Node*> pulls, pushes;
    for (int i = 0; i < num_ps; ++i) {
      const auto there = graph_.device_scope(str_cat("/job:ps/task:", i));
      variables_.push_back(variable(graph_, fill(shape, constant(graph_, Tensor::scalar(0.0f))), str_cat("v", i)));
      pushes.push_back(variables_.back().assign(mine_->read()));
      const auto here = graph_.device_scope("/job:worker/task:0");
      pulls.push_back(identity(variables_.back().read()).node);
    }
    const auto here = graph_.device_scope("/job:worker/task:0");
    pull_ = group(graph_, pulls, "pull");
    push_ = group(graph_, pushes, "push");
    for (const Var& variable : variables_) {
      checks_.emplace_back(reduce_max(variable.read()));
      checks_.emplace_back(reduce_min(variable.read()));
    }
    Node* init = global_variables_initializer(graph_);
    session_ = connect(worker_->target(), graph_).value_or_throw();
    session_->run({init});
  }

  void pull() { session_->run({pull_}); }
  void push() { session_->run({push_}); }
  // Every server has what was pushed.
  bool is_right() {
    push();
    for (const Tensor& value : session_->run({}, checks_)) {
      if (value.scalar<float>() != 1.5f) return false;
    }
    return true;
  }

 private:
  void connect_all(int num_ps, bool shared_memory) {
    std::vector<std::string> addresses;
    ClusterSpec spec;
    for (int i = 0; i < num_ps; ++i) {
      addresses.push_back(servers()[static_cast<std::size_t>(i)]->start(num_ps, shared_memory));
      spec.set("ps", i, addresses.back());
    }
    addresses.push_back(address_of(*worker_));
    spec.set("worker", 0, addresses.back());
    for (int i = 0; i < num_ps; ++i) servers()[static_cast<std::size_t>(i)]->tell(addresses);
    throw_if_error(worker_->set_addresses(spec));
  }

  const std::unique_ptr<Server> worker_;
  Graph graph_;
  std::optional<Var> mine_;
  std::vector<Var> variables_;
  std::vector<TensorName> checks_;
  Node* pull_ = nullptr;
  Node* push_ = nullptr;
  std::unique_ptr<Session> session_;
};

void measure(benchmark::State& state, void (Cluster::*step)()) {
  const std::int64_t bytes = state.range(2);
  Cluster cluster(state.range(0) == 1, static_cast<int>(state.range(1)), bytes);
  if (!cluster.is_right()) return state.SkipWithError("a server has other values than it was given");
  for (int i = 0; i < 3; ++i) (cluster.*step)();
  for (auto _ : state) (cluster.*step)();
  state.SetBytesProcessed(state.iterations() * bytes);
}

void Pull(benchmark::State& state) { measure(state, &Cluster::pull); }
void Push(benchmark::State& state) { measure(state, &Cluster::push); }

void sizes(benchmark::internal::Benchmark* bench) {
  for (const int shm : {1, 0}) {
    for (int ps = 1; ps <= kMostServers; ++ps) {
      for (std::int64_t bytes = 4 << 10; bytes <= 256 << 20; bytes *= 16) bench->Args({shm, ps, bytes});
    }
  }
  bench->UseRealTime()->MinTime(0.2);
}
BENCHMARK(Pull)->Apply(sizes);
BENCHMARK(Push)->Apply(sizes);

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  for (int i = 0; i < tutti::kMostServers; ++i) {
    tutti::servers().push_back(std::make_unique<tutti::ServerProcess>(i));
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  tutti::servers().clear();
  return 0;
}
