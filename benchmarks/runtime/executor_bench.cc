// What the executor itself costs.
//
//   Chain/N       N scalar additions, one after the other: nanoseconds a node, with the verdict (budget 150)
//   Wide/N        N scalar additions side by side, summed by one AddN: the same
//   Callable      an empty step through make_callable: the fixed cost of a step
//   RunByName     the same step through Session::run with names
//   ThreadsChain  the chain from several threads on one session
//   WarmFaults    page faults of a warm training step, 784-500-500-10 with Adam, with the verdict (budget 0)
//   CancelWhile   from cancelling a long functional loop, inside of it, to the end of its step, the worst of many, with
//                 the verdict (budget 50 ms)
//   CancelFrames  the same of a v1 loop
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
#include "tutti/ops/builders.h"
#include "tutti/ops/control_flow.h"
#include "tutti/ops/math.h"
#include "tutti/ops/nn.h"
#include "tutti/ops/random.h"
#include "tutti/ops/state.h"
#include "tutti/optim/adam.h"
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

void report(benchmark::State& state, const std::string& what, double value, double budget) {
  state.counters[what] = value;
  state.SetLabel(str_cat("budget ", budget, ": ", value <= budget ? "met" : "MISSED"));
}

// Steps as often as the benchmark asks, and says what a node took.
void time_nodes(benchmark::State& state, Program& program, int nodes) {
  const Tensor one = Tensor::scalar(1.0f);
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) benchmark::DoNotOptimize(program.step(one));
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
  report(state, "ns_per_node", taken.count() / static_cast<double>(state.iterations()) / nodes, 150);
}

void Chain(benchmark::State& state) {
  const int nodes = static_cast<int>(state.range(0));
  auto program = chain_program(nodes);
  expect_value(state, program->step(Tensor::scalar(1.0f)), static_cast<float>(nodes + 1));
  time_nodes(state, *program, nodes);
}
BENCHMARK(Chain)->Arg(1000)->Arg(10000);

void Wide(benchmark::State& state) {
  const int nodes = static_cast<int>(state.range(0));
  Program program;
  Output x = placeholder(program.graph, DType::kFloat, PartialShape::scalar(), "x");
  std::vector<Output> branches;
  for (int i = 0; i < nodes; ++i) branches.push_back(x + x);
  program.compile(x, add_n(branches));
  expect_value(state, program.step(Tensor::scalar(1.0f)), 2.0f * static_cast<float>(nodes));
  time_nodes(state, program, nodes);
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
  constexpr std::int64_t kBatch = 32, kInputs = 784, kClasses = 10;
  Graph graph(builtin_ops());
  const Output x = placeholder(graph, DType::kFloat, {kBatch, kInputs}, "x");
  const Output labels = placeholder(graph, DType::kInt64, {kBatch}, "labels");
  Output y = x;
  for (std::int64_t width : {std::int64_t{500}, std::int64_t{500}, kClasses}) {
    const Ints shape{y.shape().dim(1), width};
    Var w = variable(graph, random_uniform(graph, shape, DType::kFloat, -0.05, 0.05, {1, 2}), "w");
    y = matmul(y, w);
    if (width != kClasses) y = nn::relu(y);
  }
  const Output loss = reduce_mean(nn::sparse_softmax_cross_entropy_with_logits(labels, y));
  Node* train = Adam(1e-4).minimize(loss);
  Node* init = global_variables_initializer(graph);
  LocalSession session(graph, {.threads = {.intra_op_threads = 1, .inter_op_threads = 1}});
  session.run({init});
  const auto step = session.make_callable({{x.name(), labels.name()}, {loss.name()}, {train->name()}}).value_or_throw();
  Tensor images(DType::kFloat, {kBatch, kInputs});
  std::ranges::fill(images.flat<float>(), 0.5f);
  Tensor classes(DType::kInt64, {kBatch});
  std::ranges::fill(classes.flat<std::int64_t>(), 3);
  const auto run_step = [&] {
    return session.run_callable(step, {images, classes}).value_or_throw()[0].scalar<float>();
  };
  const float first = run_step();
  for (int i = 0; i < 100; ++i) run_step();
  const long before = minor_faults();
  float last = first;
  for (auto _ : state) last = run_step();
  if (!(last < first)) state.SkipWithError("the loss does not fall");
  const double faults = static_cast<double>(minor_faults() - before);
  report(state, "faults_per_step", faults / static_cast<double>(state.iterations()), 0);
}
BENCHMARK(WarmFaults)->Iterations(2000);

// Counts its rounds in a variable, so that who cancels knows the loop to be under way.
struct CountedLoop {
  Graph graph{builtin_ops()};
  Var rounds = variable(graph, Tensor::scalar(std::int64_t{0}), "rounds");
  Output end;

  Output number(std::int64_t value) { return constant(graph, Tensor::scalar(value)); }
  // `value`, after one more round was counted.
  static Output counted(Output handle, Output one, Output value) {
    Graph& graph = value.graph();
    Node* add = add_op(graph, "AssignAddVariableOp", {handle, one}, {{"dtype", DType::kInt64}});
    graph.add_control_input(*add, *value.node);
    Output after = identity(value);
    graph.add_control_input(*after.node, *add);
    return after;
  }
};

constexpr std::int64_t kManyRounds = std::int64_t{1} << 60;

std::unique_ptr<CountedLoop> functional_loop() {
  auto loop = std::make_unique<CountedLoop>();
  loop->end = while_loop(
      {loop->number(kManyRounds), loop->rounds.handle()},
      [](Graph& g, const std::vector<Output>& a) {
        return std::vector{greater(a[0], constant(g, Tensor::scalar(std::int64_t{0})))};
      },
      [](Graph& g, const std::vector<Output>& a) {
        Output one = constant(g, Tensor::scalar(std::int64_t{1}));
        return std::vector{CountedLoop::counted(a[1], one, a[0] - one), a[1]};
      })[0];
  return loop;
}

std::unique_ptr<CountedLoop> v1_loop() {
  auto loop = std::make_unique<CountedLoop>();
  auto enter = [](Output value, bool constant) {
    return op1("Enter", {value}, {{"frame_name", "loop"}, {"is_constant", constant}});
  };
  Output one = enter(loop->number(1), true);
  Node* merge = loop->graph
                    .add_exact({.op = "Merge",
                                .name = "merge",
                                .inputs = {enter(loop->number(kManyRounds), false), Output()},
                                .attrs = {{"T", DType::kInt64}, {"N", 2}}})
                    .value_or_throw();
  Output condition = op1("LoopCond", {greater(merge->output(), enter(loop->number(0), true))});
  Node* branch = add_op(loop->graph, "Switch", {merge->output(), condition});
  Output next = CountedLoop::counted(enter(loop->rounds.handle(), true), one, branch->output(1) - one);
  throw_if_error(loop->graph.set_input(*merge, 1, op1("NextIteration", {next})));
  loop->end = op1("Exit", {branch->output(0)});
  return loop;
}

// Milliseconds from the cancelling of the running loop to the end of its step; -1: it ended otherwise.
double cancel_midway(LocalSession& session, const CountedLoop& loop) {
  auto rounds = [&] { return session.run({}, {loop.rounds})[0].scalar<std::int64_t>(); };
  const std::int64_t before = rounds();
  Cancellation cancellation;
  std::chrono::steady_clock::time_point asked;
  std::thread stopper([&] {
    while (rounds() < before + 100) std::this_thread::yield();
    asked = std::chrono::steady_clock::now();
    cancellation.cancel(cancelled("enough"));
  });
  auto out = session.try_run({}, {loop.end}, {}, {.cancellation = &cancellation});
  const auto ended = std::chrono::steady_clock::now();
  stopper.join();
  if (out.status().code() != Code::kCancelled) return -1;
  return std::chrono::duration<double, std::milli>(ended - asked).count();
}

void cancel_loop(benchmark::State& state, const CountedLoop& loop, LocalSession& session) {
  session.run({loop.rounds.initializer()});
  double worst_ms = 0;
  for (auto _ : state) {
    const double ms = cancel_midway(session, loop);
    if (ms < 0) return state.SkipWithError("the loop was not cancelled");
    worst_ms = std::max(worst_ms, ms);
  }
  report(state, "worst_ms", worst_ms, 50);
}

void CancelWhile(benchmark::State& state) {
  auto loop = functional_loop();
  LocalSession session(loop->graph, no_passes());
  cancel_loop(state, *loop, session);
}
BENCHMARK(CancelWhile)->Iterations(200);

void CancelFrames(benchmark::State& state) {
  auto loop = v1_loop();
  LocalSession session(loop->graph, no_passes());
  cancel_loop(state, *loop, session);
}
BENCHMARK(CancelFrames)->Iterations(200);

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
