#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <thread>

#include "tests/support/graph_eval.h"
#include "tutti/graph/function.h"
#include "tutti/graph/gradients.h"
#include "tutti/kernels/cpu/function_kernels.h"
#include "tutti/kernels/services.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/control_flow.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/state.h"

namespace tutti::function_ops_test {

using testing::GraphEvaluator;
using testing::to_doubles;
using Doubles = std::vector<double>;

template <typename F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// ---- Kernels, over functions that are plain C++ ----

// Runs functions given as lambdas. A blocking one finishes at once, on another thread, or when told.
class ScriptedRunner : public FunctionRunner {
 public:
  using Function = std::function<Result<std::vector<Tensor>>(std::vector<Tensor>)>;
  enum class Mode { kInline, kAsyncAtOnce, kAsyncOnThread, kNever };

  void add(const std::string& name, Function function, Mode mode = Mode::kInline) {
    names_[name] = static_cast<Handle>(functions_.size());
    functions_.push_back({std::move(function), mode});
  }
  ~ScriptedRunner() override {
    for (std::thread& thread : threads_) thread.join();
  }

  Result<Handle> instantiate(const FunctionRef& function) override {
    ++instantiations;
    auto it = names_.find(function.name);
    if (it == names_.end()) return not_found("no function ", function.name);
    return it->second;
  }
  bool may_block(Handle handle) const override { return functions_[handle].mode != Mode::kInline; }
  Status run_inline(Handle handle, StepScope&, std::vector<Tensor> args, std::vector<Tensor>* results) override {
    TUTTI_ASSIGN_OR_RETURN(*results, functions_[handle].function(std::move(args)));
    return Status();
  }
  void run(Handle handle, StepScope&, std::vector<Tensor> args, Done done) override {
    auto finish = [this, handle](std::vector<Tensor> inputs, const Done& then) {
      Result<std::vector<Tensor>> results = functions_[handle].function(std::move(inputs));
      if (results.ok()) {
        then(Status(), *std::move(results));
      } else {
        then(results.status(), {});
      }
    };
    switch (functions_[handle].mode) {
      case Mode::kAsyncOnThread:
        threads_.emplace_back([finish, args = std::move(args), done] { finish(args, done); });
        return;
      case Mode::kNever:
        waiting = std::move(done);
        return;
      default:
        finish(std::move(args), done);
    }
  }

  int instantiations = 0;
  Done waiting;

 private:
  struct Entry {
    Function function;
    Mode mode;
  };
  std::map<std::string, Handle> names_;
  std::vector<Entry> functions_;
  std::vector<std::thread> threads_;
};
using Mode = ScriptedRunner::Mode;

class Scope : public StepScope {
 public:
  explicit Scope(FunctionRunner* runner) {
    cancellation = &cancel;
    allocator = &heap_allocator();
    services.functions = runner;
  }
  ResourceStore& step_resources() override { throw_error(internal_error("none")); }
  Cancellation cancel;
};

// A kernel with its inputs and outputs.
class KernelRun {
 public:
  KernelRun(const std::string& op, AttrMap attrs, std::vector<Tensor> inputs, FunctionRunner* runner)
      : scope(runner), outputs(8) {
    auto table = builtin_ops();
    const OpDef* def = table->registry()->find(op);
    for (Tensor& input : inputs) {
      slots.push_back({input, nullptr});
      index.push_back(static_cast<std::uint32_t>(index.size()));
      last_use.push_back(1);
      input_types.push_back({input.dtype(), false});
    }
    throw_if_error(infer_attrs(*def, input_types, &attrs));
    throw_if_error(complete_attrs(*def, &attrs));
    throw_if_error(resolve_types(*def, attrs, &input_types, &output_types));
    for (const EdgeType& type : output_types) types.push_back(type.dtype);
    KernelInit init{.node = "node",
                    .op = op,
                    .attrs = attrs,
                    .input_types = input_types,
                    .output_types = output_types,
                    .device = "/device:CPU:0",
                    .services = scope.services};
    kernel = table->find_kernel(op, attrs, kCpu)->make(init).value_or_throw();
    context =
        std::make_unique<KernelContext>(scope, KernelContext::Frame{.slots = slots.data(),
                                                                    .input_index = index.data(),
                                                                    .last_use = last_use.data(),
                                                                    .outputs = outputs.data(),
                                                                    .output_types = types.data(),
                                                                    .num_inputs = static_cast<int>(slots.size()),
                                                                    .num_outputs = static_cast<int>(types.size())});
  }
  Status compute() { return kernel->compute(*context); }
  Status compute_async() {
    Mutex mu;
    CondVar cv;
    bool called = false;
    Status result;
    start([&](Status status) {
      MutexLock lock(mu);
      EXPECT_FALSE(called);
      called = true;
      result = std::move(status);
      cv.notify_all();
    });
    MutexLock lock(mu);
    while (!called) cv.wait(mu);
    return result;
  }
  void start(AsyncKernel::Done done) { dynamic_cast<AsyncKernel&>(*kernel).compute_async(*context, std::move(done)); }
  const Tensor& output(int i) { return outputs[i].tensor; }

  Scope scope;
  std::vector<Value> slots;
  std::vector<std::uint32_t> index;
  std::vector<std::uint8_t> last_use;
  std::vector<Value> outputs;
  std::vector<EdgeType> input_types;
  std::vector<EdgeType> output_types;
  std::vector<DType> types;
  std::unique_ptr<Kernel> kernel;
  std::unique_ptr<KernelContext> context;
};

FunctionRef ref(const std::string& name) { return FunctionRef{name, nullptr}; }
Tensor int64(std::int64_t value) { return Tensor::scalar(value); }

ScriptedRunner::Function less_than(std::int64_t limit) {
  return [limit](std::vector<Tensor> args) -> Result<std::vector<Tensor>> {
    return std::vector<Tensor>{Tensor::scalar(args[0].scalar<std::int64_t>() < limit)};
  };
}

// Counts in place, so that a lost copy shows.
Result<std::vector<Tensor>> increment(std::vector<Tensor> args) {
  Tensor& value = args[0];
  if (!value.unique()) value = value.clone().value_or_throw();
  value.data<std::int64_t>()[0] += 1;
  return args;
}

AttrMap while_attrs() { return {{"cond", ref("cond")}, {"body", ref("body")}}; }

TEST(WhileKernel, RunsInlineWhenNothingWaits) {
  ScriptedRunner runner;
  int copies = 0;
  runner.add("cond", less_than(1000));
  runner.add("body", [&copies](std::vector<Tensor> args) -> Result<std::vector<Tensor>> {
    if (!args[0].unique()) ++copies;
    return increment(std::move(args));
  });
  KernelRun run("While", while_attrs(), {int64(0)}, &runner);
  EXPECT_FALSE(run.kernel->may_block());
  ASSERT_TRUE(run.compute().ok());
  EXPECT_EQ(run.output(0).scalar<std::int64_t>(), 1000);
  EXPECT_EQ(run.slots[0].tensor.scalar<std::int64_t>(), 0);
  EXPECT_EQ(copies, 1);  // the first iteration, of the node's input
}

TEST(WhileKernel, MillionIterationsThatFinishAtOnce) {
  ScriptedRunner runner;
  runner.add("cond", less_than(1000000), Mode::kAsyncAtOnce);
  runner.add("body", increment, Mode::kAsyncAtOnce);
  KernelRun run("While", while_attrs(), {int64(0)}, &runner);
  EXPECT_TRUE(run.kernel->may_block());
  ASSERT_TRUE(run.compute_async().ok());
  EXPECT_EQ(run.output(0).scalar<std::int64_t>(), 1000000);
}

TEST(WhileKernel, BodyOnOtherThreads) {
  ScriptedRunner runner;
  runner.add("cond", less_than(200));
  runner.add("body", increment, Mode::kAsyncOnThread);
  KernelRun run("While", while_attrs(), {int64(0)}, &runner);
  ASSERT_TRUE(run.compute_async().ok());
  EXPECT_EQ(run.output(0).scalar<std::int64_t>(), 200);
}

TEST(WhileKernel, NoIteration) {
  ScriptedRunner runner;
  runner.add("cond", less_than(0));
  runner.add("body", increment);
  KernelRun run("While", while_attrs(), {int64(7)}, &runner);
  ASSERT_TRUE(run.compute().ok());
  EXPECT_EQ(run.output(0).scalar<std::int64_t>(), 7);
}

TEST(WhileKernel, StopsWhenCancelled) {
  for (Mode mode : {Mode::kInline, Mode::kAsyncAtOnce}) {
    ScriptedRunner runner;
    KernelRun* running = nullptr;
    runner.add("cond", less_than(std::int64_t{1} << 60), mode);
    runner.add(
        "body",
        [&running](std::vector<Tensor> args) {
          if (args[0].scalar<std::int64_t>() == 500) running->scope.cancel.cancel(cancelled("enough"));
          return increment(std::move(args));
        },
        mode);
    KernelRun run("While", while_attrs(), {int64(0)}, &runner);
    running = &run;
    Status status = mode == Mode::kInline ? run.compute() : run.compute_async();
    EXPECT_EQ(status.message(), "enough");
  }
}

TEST(WhileKernel, ErrorsEndTheLoop) {
  for (Mode mode : {Mode::kInline, Mode::kAsyncAtOnce}) {
    ScriptedRunner runner;
    runner.add("cond", less_than(10), mode);
    runner.add(
        "body", [](std::vector<Tensor>) -> Result<std::vector<Tensor>> { return aborted("broken"); }, mode);
    KernelRun run("While", while_attrs(), {int64(0)}, &runner);
    EXPECT_EQ((mode == Mode::kInline ? run.compute() : run.compute_async()).message(), "broken");
  }
}

TEST(WhileKernel, ChecksWhatFunctionsReturn) {
  ScriptedRunner runner;
  runner.add("cond", less_than(10));
  runner.add("body", [](std::vector<Tensor>) -> Result<std::vector<Tensor>> {
    return std::vector<Tensor>{Tensor::scalar(1.0)};
  });
  KernelRun wrong_type("While", while_attrs(), {int64(0)}, &runner);
  EXPECT_EQ(wrong_type.compute().message(), "the function's result 0 is double, int64 is expected");
  KernelRun wrong_count("While", while_attrs(), {int64(0), int64(1)}, &runner);
  EXPECT_EQ(wrong_count.compute().message(), "the function returns 1 values, 2 are expected");
}

TEST(IfKernel, TakesOneBranch) {
  for (bool pred : {true, false}) {
    ScriptedRunner runner;
    auto give = [](double factor) {
      return [factor](std::vector<Tensor> args) -> Result<std::vector<Tensor>> {
        return std::vector<Tensor>{Tensor::scalar(factor * args[0].scalar<double>())};
      };
    };
    runner.add("then", give(2));
    runner.add("else", give(3));
    KernelRun run("If",
                  {{"then_branch", ref("then")}, {"else_branch", ref("else")}, {"Tout", std::vector{DType::kDouble}}},
                  {Tensor::scalar(pred), Tensor::scalar(5.0)}, &runner);
    ASSERT_TRUE(run.compute().ok());
    EXPECT_EQ(run.output(0).scalar<double>(), pred ? 10 : 15);
  }
}

TEST(IfKernel, UntakenBranchMayBeBroken) {
  ScriptedRunner runner;
  runner.add("then", [](std::vector<Tensor>) -> Result<std::vector<Tensor>> { return std::vector{int64(1)}; });
  AttrMap attrs = {{"then_branch", ref("then")}, {"else_branch", ref("missing")}, {"Tout", std::vector{DType::kInt64}}};
  KernelRun good("If", attrs, {Tensor::scalar(true)}, &runner);
  EXPECT_TRUE(good.kernel->may_block());
  ASSERT_TRUE(good.compute_async().ok());
  KernelRun bad("If", attrs, {Tensor::scalar(false)}, &runner);
  EXPECT_EQ(bad.compute_async().message(), "no function missing");
}

TEST(CaseKernel, OutOfRangeIsTheLast) {
  for (auto [index, expected] :
       std::vector<std::pair<std::int32_t, std::int64_t>>{{0, 10}, {1, 11}, {2, 11}, {-1, 11}}) {
    ScriptedRunner runner;
    runner.add("a", [](std::vector<Tensor>) -> Result<std::vector<Tensor>> { return std::vector{int64(10)}; });
    runner.add("b", [](std::vector<Tensor>) -> Result<std::vector<Tensor>> { return std::vector{int64(11)}; });
    KernelRun run("Case", {{"branches", std::vector{ref("a"), ref("b")}}, {"Tout", std::vector{DType::kInt64}}},
                  {Tensor::scalar(index)}, &runner);
    ASSERT_TRUE(run.compute().ok());
    EXPECT_EQ(run.output(0).scalar<std::int64_t>(), expected) << index;
  }
}

TEST(CallKernel, WaitsWithoutAThread) {
  ScriptedRunner runner;
  runner.add("f", nullptr, Mode::kNever);
  KernelRun run("PartitionedCall", {{"f", ref("f")}, {"Tout", std::vector{DType::kInt64}}}, {int64(1)}, &runner);
  int calls = 0;
  run.start([&](Status status) {
    EXPECT_TRUE(status.ok());
    ++calls;
  });
  EXPECT_EQ(calls, 0);
  runner.waiting(Status(), {int64(9)});
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(run.output(0).scalar<std::int64_t>(), 9);
}

TEST(CallKernel, EndlessRecursionIsAnError) {
  ScriptedRunner runner;
  std::function<Result<std::vector<Tensor>>(std::vector<Tensor>)> again =
      [&](std::vector<Tensor> args) -> Result<std::vector<Tensor>> {
    KernelRun inner("PartitionedCall", {{"f", ref("f")}, {"Tout", std::vector{DType::kInt64}}}, {args[0]}, &runner);
    TUTTI_RETURN_IF_ERROR(inner.compute_async());
    return std::vector<Tensor>{inner.output(0)};
  };
  runner.add("f", again, Mode::kAsyncAtOnce);
  Status status = again({int64(1)}).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.message().find("nested deeper"), std::string::npos);
}

TEST(CallKernel, TaskWithoutFunctions) {
  KernelRun run("PartitionedCall", {{"f", ref("f")}, {"Tout", std::vector{DType::kInt64}}}, {int64(1)}, nullptr);
  EXPECT_NE(run.compute_async().message().find("cannot call f"), std::string::npos);
}

TEST(TruthOf, EveryKind) {
  EXPECT_TRUE(*truth_of(Tensor::scalar(true)));
  EXPECT_FALSE(*truth_of(Tensor::scalar(false)));
  EXPECT_TRUE(*truth_of(Tensor::scalar(-0.5f)));
  EXPECT_FALSE(*truth_of(Tensor::scalar(0.0)));
  EXPECT_FALSE(*truth_of(Tensor::scalar(-0.0)));
  EXPECT_TRUE(*truth_of(Tensor::scalar(std::uint8_t{2})));
  EXPECT_FALSE(truth_of(Tensor::scalar(Half(0.0f))).ok()) << "as in TensorFlow";
  EXPECT_TRUE(*truth_of(Tensor::scalar(std::string("no"))));
  EXPECT_FALSE(*truth_of(Tensor::scalar(std::string())));
  EXPECT_TRUE(*truth_of(Tensor::vector<double>({0, 0})));
  EXPECT_FALSE(*truth_of(Tensor(DType::kDouble, Shape{0})));
  EXPECT_FALSE(truth_of(Tensor(DType::kVariant, Shape{})).ok());
}

TEST(FakeParam, OpenDimensionsAreEmpty) {
  KernelRun run("FakeParam", {{"dtype", DType::kFloat}, {"shape", PartialShape{2, -1}}}, {}, nullptr);
  ASSERT_TRUE(run.compute().ok());
  EXPECT_EQ(run.output(0).shape(), (Shape{2, 0}));
  KernelRun filled("FakeParam", {{"dtype", DType::kFloat}, {"shape", PartialShape{2}}}, {}, nullptr);
  ASSERT_TRUE(filled.compute().ok());
  EXPECT_EQ(to_doubles(filled.output(0)), (Doubles{0, 0}));
}

// ---- Builders and gradients ----

class ControlFlowTest : public ::testing::Test {
 protected:
  static Output constant(Graph& graph, Tensor value) {
    const DType dtype = value.dtype();
    return add_op(graph, "Const", {}, {{"dtype", dtype}, {"value", value}})->output();
  }
  static Output number(Graph& graph, double value) { return constant(graph, Tensor::scalar(value)); }
  Output placeholder(DType dtype, PartialShape shape = PartialShape::scalar()) {
    return add_op(graph_, "Placeholder", {}, {{"dtype", dtype}, {"shape", shape}})->output();
  }
  Doubles eval(Output value, const GraphEvaluator::Feeds& feeds = {}) {
    return to_doubles(evaluator_.run(value, feeds));
  }
  // Central differences of sum(y) with respect to the feed x.
  Doubles numeric(Output y, GraphEvaluator::Feeds feeds, std::size_t which) {
    constexpr double kStep = 1e-6;
    Doubles result;
    const Tensor original = feeds[which].second;
    auto sum_at = [&](std::int64_t i, double delta) {
      Tensor moved = original.clone().value_or_throw();
      moved.data<double>()[i] += delta;
      feeds[which].second = moved;
      double sum = 0;
      for (double value : eval(y, feeds)) sum += value;
      return sum;
    };
    for (std::int64_t i = 0; i < original.num_elements(); ++i) {
      result.push_back((sum_at(i, kStep) - sum_at(i, -kStep)) / (2 * kStep));
    }
    return result;
  }
  void expect_gradient(Output y, const GraphEvaluator::Feeds& feeds) {
    std::vector<Output> xs;
    for (const auto& [x, value] : feeds) {
      if (value.dtype() == DType::kDouble) xs.push_back(x);
    }
    std::vector<Gradient> symbolic = gradients({y}, xs);
    for (std::size_t i = 0, k = 0; i < feeds.size(); ++i) {
      if (feeds[i].second.dtype() != DType::kDouble) continue;
      const Doubles expected = numeric(y, feeds, i);
      Doubles got = symbolic[k] ? eval(symbolic[k].dense(), feeds) : Doubles(expected.size(), 0.0);
      ++k;
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t e = 0; e < got.size(); ++e) {
        EXPECT_NEAR(got[e], expected[e], 1e-6 * std::max(1.0, std::abs(expected[e]))) << "x " << i << " element " << e;
      }
    }
  }

  Graph graph_{builtin_ops()};
  GraphEvaluator evaluator_;
};

// x² or x³·w
std::vector<Output> square_or_cube(Output pred, Output x, Output w) {
  return cond(
      pred, {x, w},
      [](Graph&, const std::vector<Output>& a) {
        return std::vector{op1("Mul", {a[0], a[0]})};
      },
      [](Graph&, const std::vector<Output>& a) {
        return std::vector{op1("Mul", {op1("Mul", {a[0], op1("Mul", {a[0], a[0]})}), a[1]})};
      });
}

TEST_F(ControlFlowTest, Cond) {
  Output pred = placeholder(DType::kBool);
  Output x = placeholder(DType::kDouble);
  Output w = placeholder(DType::kDouble);
  Output y = square_or_cube(pred, x, w)[0];
  EXPECT_EQ(y.node->op_name(), "StatelessIf");
  EXPECT_EQ(y.shape(), PartialShape::scalar());
  for (bool choice : {true, false}) {
    GraphEvaluator::Feeds feeds = {{pred, Tensor::scalar(choice)}, {x, Tensor::scalar(2.0)}, {w, Tensor::scalar(5.0)}};
    EXPECT_EQ(eval(y, feeds), Doubles{choice ? 4.0 : 40.0});
    expect_gradient(y, feeds);
  }
}

TEST_F(ControlFlowTest, CondBranchesDisagree) {
  Output pred = placeholder(DType::kBool);
  Output x = placeholder(DType::kDouble);
  auto same = [](Graph&, const std::vector<Output>& a) { return a; };
  auto none = [](Graph&, const std::vector<Output>&) { return std::vector<Output>(); };
  EXPECT_NE(error_of([&] { cond(pred, {x}, same, none); }).find("branch 0 returns (double), branch 1 returns ()"),
            std::string::npos);
}

TEST_F(ControlFlowTest, OuterValueInsideIsRefused) {
  Output pred = placeholder(DType::kBool);
  Output x = placeholder(DType::kDouble);
  auto direct = [&](Graph&, const std::vector<Output>&) { return std::vector{x}; };
  EXPECT_NE(error_of([&] { cond(pred, {}, direct, direct); }).find("another graph"), std::string::npos);
  auto mixed = [&](Graph&, const std::vector<Output>& a) { return std::vector{op1("Mul", {a[0], x})}; };
  EXPECT_NE(error_of([&] { cond(pred, {x}, mixed, mixed); }).find("another graph"), std::string::npos);
}

TEST_F(ControlFlowTest, ArgumentsAreChecked) {
  auto same = [](Graph&, const std::vector<Output>& a) { return a; };
  define_function(graph_, "f", {DType::kDouble}, same);
  Output i = placeholder(DType::kInt32);
  EXPECT_NE(error_of([&] { call(graph_, "f", {i}); }).find("function f takes (double), is given (int32)"),
            std::string::npos);
  EXPECT_NE(error_of([&] { call(graph_, "g", {i}); }).find("there is no function g"), std::string::npos);
  EXPECT_NE(error_of([&] { define_function(graph_, "f", {}, same); }).find("taken"), std::string::npos);
}

TEST_F(ControlFlowTest, CaseAndItsGradient) {
  Output index = placeholder(DType::kInt32);
  Output x = placeholder(DType::kDouble, {3});
  auto sin_branch = [](Graph&, const std::vector<Output>& a) { return std::vector{op1("Sin", {a[0]})}; };
  auto exp_branch = [](Graph&, const std::vector<Output>& a) { return std::vector{op1("Exp", {a[0]})}; };
  auto const_branch = [](Graph& g, const std::vector<Output>&) {
    return std::vector{constant(g, Tensor::vector<double>({1, 2, 3}))};
  };
  Output y = case_(index, {x}, {sin_branch, exp_branch, const_branch})[0];
  for (std::int32_t choice : {0, 1, 2}) {
    expect_gradient(y, {{index, Tensor::scalar(choice)}, {x, Tensor::vector<double>({0.1, 0.2, -0.3})}});
  }
}

TEST_F(ControlFlowTest, CallAndItsGradient) {
  define_function(graph_, "f", {DType::kDouble, DType::kDouble}, [](Graph&, const std::vector<Output>& a) {
    return std::vector{op1("Exp", {op1("Mul", {a[0], a[1]})}), op1("Sin", {a[0]})};
  });
  Output x = placeholder(DType::kDouble, {2});
  Output w = placeholder(DType::kDouble, {2});
  std::vector<Output> y = call(graph_, "f", {x, w});
  GraphEvaluator::Feeds feeds = {{x, Tensor::vector<double>({0.5, -1})}, {w, Tensor::vector<double>({2, 0.25})}};
  expect_gradient(y[0], feeds);
  expect_gradient(y[1], feeds);
  expect_gradient(op1("Mul", {y[0], y[1]}), feeds);
  // By the function's own name.
  Output named = add_op(graph_, "f", {x, w})->output();
  expect_gradient(named, feeds);
}

TEST_F(ControlFlowTest, AFunctionMayHaveAGradientInTheLibrary) {
  // f(x, n) = (x², x n); what it calls its gradient is another thing, so that it can be told.
  define_function(graph_, "f", {DType::kDouble, DType::kDouble}, [](Graph&, const std::vector<Output>& a) {
    return std::vector{op1("Mul", {a[0], a[0]}), op1("Mul", {a[0], a[1]})};
  });
  define_function(graph_, "df", std::vector(4, DType::kDouble), [](Graph&, const std::vector<Output>& a) {
    return std::vector{op1("Mul", {a[0], a[2]}), op1("Sub", {a[1], a[3]})};
  });
  graph_.library().set_gradient("f", "df");
  Output x = placeholder(DType::kDouble);
  Output n = placeholder(DType::kDouble);
  const GraphEvaluator::Feeds feeds = {{x, Tensor::scalar(5.0)}, {n, Tensor::scalar(7.0)}};
  const std::vector<Output> called = call(graph_, "f", {x, n});
  Output named = add_op(graph_, "f", {x, n})->output();
  for (Output y : {called[0], named}) {
    std::vector<Gradient> found = gradients({op1("Mul", {y, number(graph_, 3)})}, {x, n});
    EXPECT_EQ(eval(found[0].dense(), feeds), Doubles{15});
    EXPECT_EQ(eval(found[1].dense(), feeds), Doubles{7}) << "nothing comes from the second result";
  }
  // df is differentiated as it is: d(x * 1)/dx.
  EXPECT_EQ(eval(gradients({gradients({called[0]}, {x})[0].dense()}, {x})[0].dense(), feeds), Doubles{1});
  graph_.library().set_gradient("f", "missing");
  EXPECT_NE(error_of([&] { gradients({called[0]}, {x}); }).find("missing"), std::string::npos);
}

TEST_F(ControlFlowTest, CustomGradientsHoldInside) {
  define_function(
      graph_, "f", {DType::kDouble},
      [](Graph&, const std::vector<Output>& a) {
        return std::vector{op1("Identity", {op1("StopGradient", {a[0]})}, {{"_gradient_op_type", "Tripled"}})};
      },
      {PartialShape::scalar()});
  Output x = placeholder(DType::kDouble);
  Output called = call(graph_, "f", {x})[0];
  Output looped = while_loop(
      {constant(graph_, Tensor::scalar(std::int32_t{0})), x},
      [](Graph& g, const std::vector<Output>& v) {
        return std::vector{op1("Less", {v[0], constant(g, Tensor::scalar(std::int32_t{2}))})};
      },
      [](Graph& g, const std::vector<Output>& v) {
        return std::vector{op1("AddV2", {v[0], constant(g, Tensor::scalar(std::int32_t{1}))}), call(g, "f", {v[1]})[0]};
      })[1];
  EXPECT_FALSE(gradients({called}, {x})[0]);
  GradientOptions options;
  options.overrides["op:Tripled"] = [](GradContext& c) { c.set(0, op1("Mul", {c.grad(), number(c.graph(), 3)})); };
  options.overrides["op:StopGradient"] = [](GradContext& c) { c.set(0, c.raw_grad(0)); };
  EXPECT_EQ(eval(gradients({called}, {x}, options)[0].dense(), {{x, Tensor::scalar(1.0)}}), Doubles{3});
  EXPECT_EQ(eval(gradients({looped}, {x}, options)[0].dense(), {{x, Tensor::scalar(1.0)}}), Doubles{9});
}

TEST_F(ControlFlowTest, RecursiveFunctionHasNoGradient) {
  FunctionBody body = make_function_body(graph_, {DType::kDouble});
  Node* again = add_op(*body.graph, "PartitionedCall", {body.args[0]->output()},
                       {{"Tout", std::vector{DType::kDouble}}, {"f", ref("f")}});
  set_results(body, {again->output()});
  ASSERT_TRUE(graph_.library().add("f", body).ok());
  Output x = placeholder(DType::kDouble);
  Output y = add_op(graph_, "PartitionedCall", {x}, {{"Tout", std::vector{DType::kDouble}}, {"f", ref("f")}})->output();
  EXPECT_NE(error_of([&] { gradients({y}, {x}); }).find("function f calls itself"), std::string::npos);
}

// for (i = 0; i < n; ++i) v = v * w
std::vector<Output> power_loop(Graph& graph, Output n, Output v, Output w) {
  Output zero =
      add_op(graph, "Const", {}, {{"dtype", DType::kInt32}, {"value", Tensor::scalar(std::int32_t{0})}})->output();
  return while_loop(
      {zero, n, v, w},
      [](Graph&, const std::vector<Output>& a) {
        return std::vector{op1("Less", {a[0], a[1]})};
      },
      [](Graph& g, const std::vector<Output>& a) {
        Output one =
            add_op(g, "Const", {}, {{"dtype", DType::kInt32}, {"value", Tensor::scalar(std::int32_t{1})}})->output();
        return std::vector{op1("AddV2", {a[0], one}), a[1], op1("Mul", {a[2], a[3]}), a[3]};
      });
}

TEST_F(ControlFlowTest, WhileAndItsGradient) {
  Output n = placeholder(DType::kInt32);
  Output v = placeholder(DType::kDouble);
  Output w = placeholder(DType::kDouble);
  Output y = power_loop(graph_, n, v, w)[2];
  EXPECT_EQ(y.node->op_name(), "StatelessWhile");
  for (std::int32_t times : {0, 1, 3, 10}) {
    GraphEvaluator::Feeds feeds = {{n, Tensor::scalar(times)}, {v, Tensor::scalar(2.0)}, {w, Tensor::scalar(1.1)}};
    EXPECT_NEAR(eval(y, feeds)[0], 2 * std::pow(1.1, times), 1e-12);
    expect_gradient(y, feeds);  // again and again through the same node
  }
}

TEST_F(ControlFlowTest, WhileKeepsWhatDoesNotChangeOutOfTheLists) {
  Output n = placeholder(DType::kInt32);
  Output v = placeholder(DType::kDouble);
  Output w = placeholder(DType::kDouble);
  Output y = power_loop(graph_, n, v, w)[2];
  gradients({y}, {v});
  // d/dv reads w only, which is the same in every iteration: a counter and no list.
  EXPECT_EQ(y.node->num_outputs(), 5);
  gradients({y}, {w});
  // d/dw reads v of every iteration: a counter and a list more.
  EXPECT_EQ(y.node->num_outputs(), 7);
}

TEST_F(ControlFlowTest, WhileWithVariablesThatSwap) {
  Output n = placeholder(DType::kInt32);
  Output a = placeholder(DType::kDouble, {2});
  Output b = placeholder(DType::kDouble, {2});
  Output zero = constant(graph_, Tensor::scalar(std::int32_t{0}));
  std::vector<Output> out = while_loop(
      {zero, a, b, n},
      [](Graph&, const std::vector<Output>& v) {
        return std::vector{op1("Less", {v[0], v[3]})};
      },
      [](Graph& g, const std::vector<Output>& v) {
        Output next = op1("AddV2", {v[0], constant(g, Tensor::scalar(std::int32_t{1}))});
        return std::vector{next, op1("Mul", {v[2], op1("Sin", {v[1]})}), v[1], v[3]};
      });
  for (std::int32_t times : {0, 1, 2, 5}) {
    GraphEvaluator::Feeds feeds = {
        {n, Tensor::scalar(times)}, {a, Tensor::vector<double>({0.5, -0.7})}, {b, Tensor::vector<double>({1.5, 0.3})}};
    expect_gradient(out[1], feeds);
    expect_gradient(op1("AddV2", {out[1], op1("Mul", {out[2], out[2]})}), feeds);
  }
}

TEST_F(ControlFlowTest, WhileWithUnknownShapes) {
  Output n = placeholder(DType::kInt32);
  Output x = placeholder(DType::kDouble, PartialShape());
  Output w = placeholder(DType::kDouble, PartialShape());
  Output y = power_loop(graph_, n, x, w)[2];
  expect_gradient(y, {{n, Tensor::scalar(std::int32_t{3})},
                      {x, Tensor::of<double>({2, 2}, {1, 2, 3, 4})},
                      {w, Tensor::of<double>({2, 2}, {0.5, 0.25, -1, 1})}});
}

TEST_F(ControlFlowTest, VariableWithoutPathHasNoGradient) {
  Output n = placeholder(DType::kInt32);
  Output v = placeholder(DType::kDouble);
  Output w = placeholder(DType::kDouble);
  std::vector<Output> out = power_loop(graph_, n, v, w);
  EXPECT_FALSE(gradients({out[3]}, {v})[0]);
  EXPECT_EQ(eval(gradients({out[3]}, {w})[0].dense(),
                 {{n, Tensor::scalar(std::int32_t{3})}, {v, Tensor::scalar(2.0)}, {w, Tensor::scalar(3.0)}}),
            Doubles{1});
}

TEST_F(ControlFlowTest, NestedControlFlow) {
  Output n = placeholder(DType::kInt32);
  Output x = placeholder(DType::kDouble);
  Output zero = constant(graph_, Tensor::scalar(std::int32_t{0}));
  // Inside each outer iteration: x^(inner loop), then a branch on the size of the value.
  std::vector<Output> out = while_loop(
      {zero, n, x},
      [](Graph&, const std::vector<Output>& v) {
        return std::vector{op1("Less", {v[0], v[1]})};
      },
      [](Graph& g, const std::vector<Output>& v) {
        Output two = constant(g, Tensor::scalar(std::int32_t{2}));
        Output inner = power_loop(g, two, v[2], number(g, 1.3))[2];
        Output big = op1("Greater", {inner, number(g, 2)});
        Output next = cond(
            big, {inner}, [](Graph&, const std::vector<Output>& a) { return std::vector{op1("Sin", {a[0]})}; },
            [](Graph&, const std::vector<Output>& a) {
              return std::vector{op1("Mul", {a[0], a[0]})};
            })[0];
        return std::vector{op1("AddV2", {v[0], constant(g, Tensor::scalar(std::int32_t{1}))}), v[1], next};
      });
  for (std::int32_t times : {1, 2, 4}) {
    expect_gradient(out[2], {{n, Tensor::scalar(times)}, {x, Tensor::scalar(0.9)}});
  }
}

TEST_F(ControlFlowTest, SecondDerivativeThroughCond) {
  Output pred = placeholder(DType::kBool);
  Output x = placeholder(DType::kDouble);
  Output w = placeholder(DType::kDouble);
  Output y = square_or_cube(pred, x, w)[0];
  Output first = gradients({y}, {x})[0].dense();
  Output second = gradients({first}, {x})[0].dense();
  EXPECT_NEAR(eval(second, {{pred, Tensor::scalar(true)}, {x, Tensor::scalar(3.0)}, {w, Tensor::scalar(5.0)}})[0], 2,
              1e-9);
  EXPECT_NEAR(eval(second, {{pred, Tensor::scalar(false)}, {x, Tensor::scalar(3.0)}, {w, Tensor::scalar(5.0)}})[0], 90,
              1e-9);
}

TEST_F(ControlFlowTest, SecondDerivativeThroughWhile) {
  Output n = placeholder(DType::kInt32);
  Output v = placeholder(DType::kDouble);
  Output w = placeholder(DType::kDouble);
  Output y = power_loop(graph_, n, v, w)[2];
  Output first = gradients({y}, {w})[0].dense();
  GraphEvaluator::Feeds feeds = {
      {n, Tensor::scalar(std::int32_t{4})}, {v, Tensor::scalar(2.0)}, {w, Tensor::scalar(1.5)}};
  EXPECT_NEAR(eval(first, feeds)[0], 2 * 4 * std::pow(1.5, 3), 1e-9);
  Output second = gradients({first}, {w})[0].dense();
  EXPECT_NEAR(eval(second, feeds)[0], 2 * 4 * 3 * std::pow(1.5, 2), 1e-9);
}

TEST_F(ControlFlowTest, WhileErrors) {
  Output x = placeholder(DType::kDouble, {2});
  auto yes = [](Graph& g, const std::vector<Output>&) { return std::vector{constant(g, Tensor::scalar(true))}; };
  auto same = [](Graph&, const std::vector<Output>& a) { return a; };
  auto none = [](Graph&, const std::vector<Output>&) { return std::vector<Output>(); };
  EXPECT_NE(error_of([&] { while_loop({}, yes, same); }).find("no loop variables"), std::string::npos);
  EXPECT_NE(error_of([&] { while_loop({x}, none, same); }).find("condition returns 0 values"), std::string::npos);
  EXPECT_NE(error_of([&] { while_loop({x}, yes, none); }).find("1 variables, but the body returns 0"),
            std::string::npos);
  auto to_int = [](Graph&, const std::vector<Output>& a) {
    return std::vector{op1("Cast", {a[0]}, {{"DstT", DType::kInt32}})};
  };
  EXPECT_NE(error_of([&] { while_loop({x}, yes, to_int); }).find("variable 0 is double, the body makes it int32"),
            std::string::npos);
  auto doubled = [](Graph& g, const std::vector<Output>& a) {
    return std::vector{op1("ConcatV2", {a[0], a[0], constant(g, Tensor::scalar(std::int32_t{0}))})};
  };
  EXPECT_NE(error_of([&] { while_loop({x}, yes, doubled); }).find("has shape [2], the body makes it [4]"),
            std::string::npos);
}

TEST_F(ControlFlowTest, ShapeInvariants) {
  Output n = placeholder(DType::kInt32);
  Output x = placeholder(DType::kDouble, {1});
  Output zero = constant(graph_, Tensor::scalar(std::int32_t{0}));
  WhileOptions options;
  options.shape_invariants = {PartialShape::scalar(), PartialShape::scalar(), PartialShape{-1}};
  std::vector<Output> out = while_loop(
      {zero, n, x},
      [](Graph&, const std::vector<Output>& v) {
        return std::vector{op1("Less", {v[0], v[1]})};
      },
      [](Graph& g, const std::vector<Output>& v) {
        Output grown = op1("ConcatV2", {v[2], op1("Mul", {v[2], v[2]}), constant(g, Tensor::scalar(std::int32_t{0}))});
        return std::vector{op1("AddV2", {v[0], constant(g, Tensor::scalar(std::int32_t{1}))}), v[1], grown};
      },
      options);
  EXPECT_EQ(out[2].shape(), PartialShape{-1});
  GraphEvaluator::Feeds feeds = {{n, Tensor::scalar(std::int32_t{3})}, {x, Tensor::vector<double>({1.1})}};
  EXPECT_EQ(eval(out[2], feeds).size(), 8u);
  expect_gradient(out[2], feeds);
}

TEST_F(ControlFlowTest, ShapesAreKeptInsteadOfValues) {
  Output n = placeholder(DType::kInt32);
  Output x = placeholder(DType::kDouble, PartialShape());
  Output w = placeholder(DType::kDouble, PartialShape());
  Output zero = constant(graph_, Tensor::scalar(std::int32_t{0}));
  std::vector<Output> out = while_loop(
      {zero, n, x, w},
      [](Graph&, const std::vector<Output>& v) {
        return std::vector{op1("Less", {v[0], v[1]})};
      },
      [](Graph& g, const std::vector<Output>& v) {
        Output next = op1("AddV2", {v[0], constant(g, Tensor::scalar(std::int32_t{1}))});
        return std::vector{next, v[1], op1("AddV2", {v[2], v[3]}), v[3]};
      });
  expect_gradient(out[2], {{n, Tensor::scalar(std::int32_t{3})},
                           {x, Tensor::of<double>({2, 2}, {1, 2, 3, 4})},
                           {w, Tensor::vector<double>({5, 6})}});
  int lists = 0;
  for (Output input : out[2].node->inputs()) {
    if (input.node->op_name() != "EmptyTensorList") continue;
    ++lists;
    EXPECT_EQ(input.node->attr<DType>("element_dtype"), DType::kInt32);
  }
  EXPECT_GT(lists, 0);
}

// A loop over the rows of a list, appending to another: as recurrent networks do.
TEST_F(ControlFlowTest, WhileOverLists) {
  const AttrMap doubles = {{"element_dtype", DType::kDouble}};
  Output xs = placeholder(DType::kDouble, {4, 2});
  Output w = placeholder(DType::kDouble, {2});
  Output any = constant(graph_, Tensor::scalar(std::int32_t{-1}));
  Output list = op1("TensorListFromTensor", {xs, any}, doubles);
  Output empty = op1("EmptyTensorList", {any, any}, doubles);
  Output zero = constant(graph_, Tensor::scalar(std::int32_t{0}));
  Output state = constant(graph_, Tensor::vector<double>({0.1, 0.2}));
  std::vector<Output> out = while_loop(
      {zero, list, empty, state, w},
      [](Graph& g, const std::vector<Output>& v) {
        return std::vector{op1("Less", {v[0], constant(g, Tensor::scalar(std::int32_t{4}))})};
      },
      [doubles](Graph& g, const std::vector<Output>& v) {
        Output anything = constant(g, Tensor::scalar(std::int32_t{-1}));
        Output x = op1("TensorListGetItem", {v[1], v[0], anything}, doubles);
        Output next = op1("Tanh", {op1("AddV2", {op1("Mul", {v[3], v[4]}), x})});
        return std::vector{op1("AddV2", {v[0], constant(g, Tensor::scalar(std::int32_t{1}))}), v[1],
                           op1("TensorListPushBack", {v[2], next}), next, v[4]};
      },
      {.shape_invariants = {PartialShape::scalar(), PartialShape::scalar(), PartialShape::scalar(), PartialShape(),
                            PartialShape{2}}});
  Output all = op1("TensorListStack", {out[2], any}, doubles);
  GraphEvaluator::Feeds feeds = {{xs, Tensor::of<double>({4, 2}, {0.5, -1, 0.25, 0.75, -0.3, 0.6, 0.9, -0.2})},
                                 {w, Tensor::vector<double>({0.8, -1.2})}};
  expect_gradient(all, feeds);
  expect_gradient(out[3], feeds);
}

// ---- Variables inside ----

class VariablesInsideTest : public ControlFlowTest {
 protected:
  // The gradient of `y` with respect to the variable, against differences of its value.
  void expect_variable_gradient(Output y, const Var& w, const GraphEvaluator::Feeds& feeds = {}) {
    Gradient symbolic = gradients({y}, {w.handle()})[0];
    ASSERT_TRUE(symbolic);
    Output dense = symbolic.dense();
    Output value = placeholder(DType::kDouble, w.shape());
    Node* assign = w.assign(value);
    evaluator_.run_target(w.initializer());
    const Tensor at = evaluator_.run(w.read());
    const Doubles got = eval(dense, feeds);
    ASSERT_EQ(static_cast<std::int64_t>(got.size()), at.num_elements());
    for (std::int64_t i = 0; i < at.num_elements(); ++i) {
      double sides[2];
      for (int side = 0; side < 2; ++side) {
        Tensor moved = at.clone().value_or_throw();
        moved.data<double>()[i] += side == 0 ? 1e-6 : -1e-6;
        evaluator_.run_target(assign, {{value, moved}});
        sides[side] = 0;
        for (double element : eval(y, feeds)) sides[side] += element;
      }
      EXPECT_NEAR(got[i], (sides[0] - sides[1]) / 2e-6, 1e-6) << "element " << i;
    }
  }
};

TEST_F(VariablesInsideTest, While) {
  Var w = variable(graph_, Tensor::vector<double>({0.5, -0.8, 1.2}), "w");
  Output n = placeholder(DType::kInt32);
  Output x = constant(graph_, Tensor::vector<double>({1, 2, 3}));
  Output zero = constant(graph_, Tensor::scalar(std::int32_t{0}));
  std::vector<Output> out = while_loop(
      {zero, n, x, w.handle()},
      [](Graph&, const std::vector<Output>& v) {
        return std::vector{op1("Less", {v[0], v[1]})};
      },
      [](Graph& g, const std::vector<Output>& v) {
        Output weight = op1("ReadVariableOp", {v[3]}, {{"dtype", DType::kDouble}});
        EXPECT_EQ(weight.shape(), PartialShape{3});
        return std::vector{op1("AddV2", {v[0], constant(g, Tensor::scalar(std::int32_t{1}))}), v[1],
                           op1("Sin", {op1("Mul", {v[2], weight})}), v[3]};
      });
  EXPECT_EQ(out[2].node->op_name(), "While");
  for (std::int32_t times : {0, 1, 3}) expect_variable_gradient(out[2], w, {{n, Tensor::scalar(times)}});
}

TEST_F(VariablesInsideTest, OneBranchOnly) {
  Var w = variable(graph_, Tensor::vector<double>({0.5, -0.8}), "w");
  Output pred = placeholder(DType::kBool);
  Output x = constant(graph_, Tensor::vector<double>({1, 2}));
  Output y = cond(
      pred, {x, w.handle()},
      [](Graph&, const std::vector<Output>& a) {
        return std::vector{op1("Mul", {a[0], op1("ReadVariableOp", {a[1]}, {{"dtype", DType::kDouble}})})};
      },
      [](Graph&, const std::vector<Output>& a) { return std::vector{a[0]}; })[0];
  expect_variable_gradient(y, w, {{pred, Tensor::scalar(true)}});
  expect_variable_gradient(y, w, {{pred, Tensor::scalar(false)}});
}

TEST_F(VariablesInsideTest, RowsInsideALoop) {
  Var table = variable(graph_, Tensor::of<double>({3, 2}, {1, 2, 3, 4, 5, 6}), "table");
  Output zero = constant(graph_, Tensor::scalar(std::int32_t{0}));
  Output x = constant(graph_, Tensor::vector<double>({1, 1}));
  std::vector<Output> out = while_loop(
      {zero, x, table.handle()},
      [](Graph& g, const std::vector<Output>& v) {
        return std::vector{op1("Less", {v[0], constant(g, Tensor::scalar(std::int32_t{2}))})};
      },
      [](Graph& g, const std::vector<Output>& v) {
        Output row = op1("ResourceGather", {v[2], v[0]}, {{"dtype", DType::kDouble}});
        return std::vector{op1("AddV2", {v[0], constant(g, Tensor::scalar(std::int32_t{1}))}), op1("Mul", {v[1], row}),
                           v[2]};
      });
  expect_variable_gradient(out[1], table);
}

// Rows `ids` of the table, squared.
std::vector<Output> squared_rows(Output handle, Output ids) {
  Output rows = op1("ResourceGather", {handle, ids}, {{"dtype", DType::kDouble}});
  return {op1("Mul", {rows, rows})};
}

TEST_F(VariablesInsideTest, RowsStayRowsThroughCalls) {
  Var table = variable(graph_, Tensor::of<double>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), "table");
  Output ids = constant(graph_, Tensor::vector<std::int32_t>({2, 0, 2}));
  define_function(graph_, "inner", {DType::kResource, DType::kInt32},
                  [](Graph&, const std::vector<Output>& a) { return squared_rows(a[0], a[1]); });
  define_function(graph_, "outer", {DType::kResource, DType::kInt32},
                  [](Graph& g, const std::vector<Output>& a) { return call(g, "inner", a); });
  Output y = call(graph_, "outer", {table.handle(), ids})[0];
  Gradient gradient = gradients({y}, {table.handle()})[0];
  ASSERT_TRUE(gradient.is_sparse());
  evaluator_.run_target(table.initializer());
  EXPECT_EQ(eval(gradient.slices().indices), (Doubles{2, 0, 2}));
  EXPECT_EQ(eval(gradient.slices().values), (Doubles{10, 12, 2, 4, 10, 12}));
  EXPECT_EQ(eval(gradient.slices().dense_shape), (Doubles{4, 2}));
  expect_variable_gradient(y, table);
  // Of a table that is read outside.
  define_function(graph_, "gathers", {DType::kDouble, DType::kInt32}, [](Graph& g, const std::vector<Output>& a) {
    return std::vector{op1("GatherV2", {a[0], a[1], constant(g, Tensor::scalar(std::int32_t{0}))})};
  });
  Output read = call(graph_, "gathers", {table.read(), ids})[0];
  EXPECT_TRUE(gradients({read}, {table.read()})[0].is_sparse());
  expect_variable_gradient(op1("Mul", {read, read}), table);
}

TEST_F(VariablesInsideTest, RowsStayRowsWhereAllBranchesReadRows) {
  Var table = variable(graph_, Tensor::of<double>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), "table");
  Output pred = placeholder(DType::kBool);
  auto one = [](Graph& g, const std::vector<Output>& a) {
    return squared_rows(a[0], constant(g, Tensor::vector<std::int32_t>({3})));
  };
  auto two = [](Graph& g, const std::vector<Output>& a) {
    return squared_rows(a[0], constant(g, Tensor::vector<std::int32_t>({1, 0})));
  };
  auto whole = [](Graph&, const std::vector<Output>& a) {
    return std::vector{op1("ReadVariableOp", {a[0]}, {{"dtype", DType::kDouble}})};
  };
  Output rows = cond(pred, {table.handle()}, one, two)[0];
  Output mixed = cond(pred, {table.handle()}, one, whole)[0];
  EXPECT_TRUE(gradients({rows}, {table.handle()})[0].is_sparse());
  EXPECT_FALSE(gradients({mixed}, {table.handle()})[0].is_sparse());
  for (bool taken : {true, false}) {
    expect_variable_gradient(rows, table, {{pred, Tensor::scalar(taken)}});
    expect_variable_gradient(mixed, table, {{pred, Tensor::scalar(taken)}});
  }
}

TEST_F(VariablesInsideTest, EffectsRunThoughNothingReadsThem) {
  Var count = variable(graph_, Tensor::scalar(0.0), "count", false);
  Output pred = placeholder(DType::kBool);
  std::vector<Output> out = cond(
      pred, {count.handle()},
      [](Graph& g, const std::vector<Output>& a) {
        add_op(g, "AssignAddVariableOp", {a[0], number(g, 1)}, {{"dtype", DType::kDouble}});
        return std::vector{number(g, 5)};
      },
      [](Graph& g, const std::vector<Output>&) { return std::vector{number(g, 6)}; });
  EXPECT_EQ(out[0].node->op_name(), "If");
  evaluator_.run_target(count.initializer());
  EXPECT_EQ(eval(out[0], {{pred, Tensor::scalar(true)}}), Doubles{5});
  EXPECT_EQ(eval(out[0], {{pred, Tensor::scalar(false)}}), Doubles{6});
  EXPECT_EQ(eval(count.read()), Doubles{1});
}

}  // namespace tutti::function_ops_test
