// What the executor itself costs.
//
//   Chain/N       N scalar additions, one after the other: nanoseconds a node (budget 150)
//   Wide/N        N scalar additions side by side, summed by one AddN: the same
//   Callable      an empty step through make_callable: the fixed cost of a step
//   RunByName     the same step through Session::run with names
//   ThreadsChain  the chain from several threads on one session
//   WarmFaults    page faults of a warm MLP-like step (budget 0)
//   CancelLoop    from cancelling an endless loop to the end of its step, the worst of many (budget 50 ms)
//   SessionBytes  heap bytes that an idle session with one compiled signature adds
//
// Passes are off where they would fold or fuse what is to be measured.

#include <benchmark/benchmark.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tutti/ops/array.h"
#include "tutti/ops/control_flow.h"
#include "tutti/ops/math.h"
#include "tutti/ops/nn.h"
#include "tutti/runtime/local_session.h"

namespace tutti {
namespace {

SessionOptions no_passes() {
  SessionOptions options;
  options.threads = {.intra_op_threads = 1, .inter_op_threads = 1};
  options.passes = {.fold_constants = false, .merge_common_subexpressions = false, .fuse = false};
  return options;
}

struct Program {
  Graph graph{builtin_ops()};
  std::unique_ptr<LocalSession> session;
  Session::CallableId callable = 0;

  void compile(Output feed, Output fetch) {
    session = std::make_unique<LocalSession>(graph, no_passes());
    callable = session->make_callable({.feeds = {feed.name()}, .fetches = {fetch.name()}}).value_or_throw();
  }
  Tensor step(const Tensor& value) { return session->run_callable(callable, {value}).value_or_throw()[0]; }
};

void expect_value(benchmark::State& state, const Tensor& got, float wanted) {
  if (got.scalar<float>() != wanted) state.SkipWithError("the step computed something else");
}

std::unique_ptr<Program> chain_program(int nodes) {
  auto program = std::make_unique<Program>();
  Output x = placeholder(program->graph, DType::kFloat, PartialShape::scalar(), "x");
  Output y = x;
  for (int i = 0; i < nodes; ++i) y = y + x;
  program->compile(x, y);
  return program;
}

void report_per_node(benchmark::State& state, int nodes) {
  state.counters["ns_per_node"] = benchmark::Counter(
      static_cast<double>(nodes) * 1e-9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void Chain(benchmark::State& state) {
  const int nodes = static_cast<int>(state.range(0));
  auto program = chain_program(nodes);
  expect_value(state, program->step(Tensor::scalar(1.0f)), static_cast<float>(nodes + 1));
  const Tensor one = Tensor::scalar(1.0f);
  for (auto _ : state) benchmark::DoNotOptimize(program->step(one));
  report_per_node(state, nodes);
}
BENCHMARK(Chain)->Arg(1000)->Arg(10000);

void Wide(benchmark::State& state) {
  const int nodes = static_cast<int>(state.range(0));
  Program program;
  Output x = placeholder(program.graph, DType::kFloat, PartialShape::scalar(), "x");
  std::vector<Output> branches;
  for (int i = 0; i < nodes; ++i) branches.push_back(x + x);
  program.compile(x, add_n(branches));
  const Tensor one = Tensor::scalar(1.0f);
  expect_value(state, program.step(one), 2.0f * static_cast<float>(nodes));
  for (auto _ : state) benchmark::DoNotOptimize(program.step(one));
  report_per_node(state, nodes);
}
BENCHMARK(Wide)->Arg(1000);

void Callable(benchmark::State& state) {
  auto program = chain_program(1);
  const Tensor one = Tensor::scalar(1.0f);
  for (auto _ : state) benchmark::DoNotOptimize(program->step(one));
}
BENCHMARK(Callable);

void RunByName(benchmark::State& state) {
  Graph graph(builtin_ops());
  Output x = placeholder(graph, DType::kFloat, PartialShape::scalar(), "x");
  Output y = x + x;
  LocalSession session(graph, no_passes());
  const Tensor one = Tensor::scalar(1.0f);
  for (auto _ : state) benchmark::DoNotOptimize(session.run({{x, one}}, {y}));
}
BENCHMARK(RunByName);

void ThreadsChain(benchmark::State& state) {
  static std::unique_ptr<Program> program;
  if (state.thread_index() == 0) program = chain_program(1000);
  const Tensor one = Tensor::scalar(1.0f);
  for (auto _ : state) benchmark::DoNotOptimize(program->step(one));
  if (state.thread_index() == 0) program.reset();
}
BENCHMARK(ThreadsChain)->Threads(1)->Threads(2)->Threads(8)->UseRealTime();

long minor_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

void WarmFaults(benchmark::State& state) {
  Program program;
  Output x = placeholder(program.graph, DType::kFloat, {-1, 784}, "x");
  Output y = x;
  for (std::int64_t width : {500, 500, 10}) {
    Output w = constant(program.graph, Tensor(DType::kFloat, {y.shape().dim(1), width}));
    y = nn::relu(matmul(y, w));
  }
  program.compile(x, y);
  const Tensor batch(DType::kFloat, {32, 784});
  for (int i = 0; i < 100; ++i) program.step(batch);
  const long before = minor_faults();
  long steps = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(program.step(batch));
    ++steps;
  }
  state.counters["faults_per_step"] = static_cast<double>(minor_faults() - before) / static_cast<double>(steps);
}
BENCHMARK(WarmFaults)->Iterations(2000);

void CancelLoop(benchmark::State& state) {
  Graph graph(builtin_ops());
  Output n = placeholder(graph, DType::kInt64, PartialShape::scalar(), "n");
  Output left = while_loop(
      {n},
      [](Graph& g, const std::vector<Output>& a) {
        return std::vector{greater(a[0], constant(g, Tensor::scalar(std::int64_t{0})))};
      },
      [](Graph& g, const std::vector<Output>& a) {
        return std::vector{a[0] - constant(g, Tensor::scalar(std::int64_t{1}))};
      })[0];
  LocalSession session(graph, no_passes());
  double worst_ms = 0;
  for (auto _ : state) {
    Cancellation cancellation;
    std::chrono::steady_clock::time_point asked;
    std::thread stopper([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      asked = std::chrono::steady_clock::now();
      cancellation.cancel(cancelled("enough"));
    });
    auto out =
        session.try_run({{n, Tensor::scalar(std::int64_t{1} << 60)}}, {left}, {}, {.cancellation = &cancellation});
    const auto ended = std::chrono::steady_clock::now();
    stopper.join();
    if (out.status().code() != Code::kCancelled) state.SkipWithError("the loop was not cancelled");
    worst_ms = std::max(worst_ms, std::chrono::duration<double, std::milli>(ended - asked).count());
  }
  state.counters["worst_ms"] = worst_ms;
}
BENCHMARK(CancelLoop)->Iterations(200);

double heap_bytes() { return static_cast<double>(mallinfo2().uordblks); }

void SessionBytes(benchmark::State& state) {
  Graph graph(builtin_ops());
  Output x = placeholder(graph, DType::kFloat, PartialShape::scalar(), "x");
  Output y = x + x;
  auto runtime = std::make_shared<LocalRuntime>();
  for (auto _ : state) {
    constexpr int kSessions = 1000;
    std::vector<std::unique_ptr<LocalSession>> sessions;
    const double before = heap_bytes();
    for (int i = 0; i < kSessions; ++i) {
      SessionOptions options = no_passes();
      options.runtime = runtime;
      sessions.push_back(std::make_unique<LocalSession>(graph, options));
      sessions.back()->run({{x, Tensor::scalar(1.0f)}}, {y});
    }
    state.counters["bytes_per_session"] = (heap_bytes() - before) / kSessions;
  }
}
BENCHMARK(SessionBytes)->Iterations(1);

}  // namespace
}  // namespace tutti
