#include "tutti/runtime/local_session.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <memory>
#include <thread>

#include "tests/support/threads.h"
#include "tutti/graph/graph_def.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/state.h"

namespace tutti::local_session_test {

Node* fifo_queue(Graph& graph, const std::string& name, int capacity = -1) {
  return add_op(graph, "FIFOQueueV2", {},
                {{"component_types", std::vector<DType>{DType::kFloat}},
                 {"shapes", std::vector<PartialShape>{PartialShape::scalar()}},
                 {"capacity", capacity}},
                name);
}

Node* dequeue(Graph& graph, Node* queue, const std::string& name) {
  return add_op(graph, "QueueDequeueV2", {queue->output()}, {{"component_types", std::vector<DType>{DType::kFloat}}},
                name);
}

Node* enqueue(Graph& graph, Node* queue, Output value, const std::string& name) {
  return add_op(graph, "QueueEnqueueV2", {queue->output(), value}, {}, name);
}

// An Error's message, or "" when nothing was thrown.
template <typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << text

class LocalSessionTest : public ::testing::Test {
 protected:
  Graph graph_{builtin_ops()};
};

TEST_F(LocalSessionTest, AStepTellsTheGraphThatItRan) {
  const Output x = placeholder(graph_, DType::kFloat, {-1}, "x");
  const Output y = add_op(graph_, "Square", {x}, {}, "y")->output();
  add_op(graph_, "Neg", {x}, {}, "other");
  LocalSession session(graph_);
  RunMetadata metadata;
  RunOptions options;
  options.metadata = &metadata;
  options.partition_graphs = true;
  session.run({{x, Tensor::vector({1.0f})}}, {y}, {}, options);
  ASSERT_EQ(metadata.partition_graphs.size(), 1u);
  Graph ran(builtin_ops());
  ASSERT_TRUE(import_graph_def(metadata.partition_graphs[0], ran).ok());
  ASSERT_NE(ran.find("y"), nullptr);
  EXPECT_EQ(ran.find("y")->op_name(), "Square");
  EXPECT_EQ(ran.find("other"), nullptr);
  options.partition_graphs = false;
  session.run({{x, Tensor::vector({1.0f})}}, {y}, {}, options);
  EXPECT_TRUE(metadata.partition_graphs.empty());
}

TEST_F(LocalSessionTest, RunsWhatIsFetched) {
  Output x = placeholder(graph_, DType::kFloat, {-1}, "x");
  Output y = x * x + 1.0;
  LocalSession session(graph_);
  std::vector<Tensor> out = session.run({{x, Tensor::vector({1.0f, 2.0f, 3.0f})}}, {y});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(std::vector<float>(out[0].flat<float>().begin(), out[0].flat<float>().end()),
            (std::vector<float>{2, 5, 10}));
}

TEST_F(LocalSessionTest, AnyTensorMayBeFed) {
  Output two = constant(graph_, Tensor::scalar(2.0f), "two");
  Output sum = two + two;
  Output result = identity(sum);
  LocalSession session(graph_);
  EXPECT_EQ(session.run({}, {result})[0].scalar<float>(), 4.0f);
  EXPECT_EQ(session.run({{"two:0", Tensor::scalar(5.0f)}}, {result})[0].scalar<float>(), 10.0f);
  EXPECT_EQ(session.run({{sum, Tensor::scalar(-1.0f)}}, {result})[0].scalar<float>(), -1.0f);
  EXPECT_EQ(session.run({{sum, Tensor::scalar(7.0f)}}, {sum})[0].scalar<float>(), 7.0f) << "a feed may be fetched";
}

TEST_F(LocalSessionTest, FetchesMayRepeat) {
  Output x = constant(graph_, Tensor::scalar(2.0f)) * 3.0;
  LocalSession session(graph_);
  std::vector<Tensor> out = session.run({}, {x, x});
  EXPECT_EQ(out[0].scalar<float>(), 6.0f);
  EXPECT_EQ(out[1].scalar<float>(), 6.0f);
}

// A kernel may write its result over an input that nobody else needs, but not over one that is its other input, too.
TEST_F(LocalSessionTest, AValueThatIsReadTwiceIsNotWrittenOver) {
  const Output fed = placeholder(graph_, DType::kFloat, {3}, "fed");
  const Output value = add_op(graph_, "Neg", {fed}, {}, "value")->output();
  const Output backwards = constant(graph_, Tensor::of<std::int32_t>({3, 1}, {2, 1, 0}), "backwards");
  const Output turned = add_op(graph_, "TensorScatterUpdate", {value, backwards, value}, {}, "turned")->output();
  const Output other = add_op(graph_, "Exp", {fed}, {}, "other")->output();
  const Output sum = add_op(graph_, "AddN", {other, other, other}, {}, "sum")->output();

  const Output size = placeholder(graph_, DType::kInt32, PartialShape::scalar(), "size");
  const Output any_shape = constant(graph_, Tensor::scalar<std::int32_t>(-1), "any_shape");
  const Output zero = constant(graph_, Tensor::scalar<std::int32_t>(0), "zero");
  const AttrMap lists{{"element_dtype", DType::kVariant}};
  const Output list = add_op(graph_, "TensorListReserve", {any_shape, size}, lists, "list")->output();
  const Output nested = add_op(graph_, "TensorListSetItem", {list, zero, list}, lists, "nested")->output();
  const Output inner = add_op(graph_, "TensorListGetItem", {nested, zero, any_shape}, lists, "inner")->output();
  const Output length = add_op(graph_, "TensorListLength", {inner}, {}, "length")->output();

  LocalSession session(graph_);
  const Feeds feeds{{fed.name(), Tensor::of<float>({3}, {0, -1, -2})}, {size.name(), Tensor::scalar<std::int32_t>(2)}};
  const std::vector<Tensor> got = session.run(feeds, {turned, sum, length});
  EXPECT_TRUE(std::ranges::equal(got[0].flat<float>(), std::array{2.0f, 1.0f, 0.0f})) << got[0].to_string();
  EXPECT_FLOAT_EQ(got[1].data<float>()[1], 3 * std::exp(-1.0f));
  EXPECT_EQ(got[2].scalar<std::int32_t>(), 2);
}

TEST_F(LocalSessionTest, VariablesKeepTheirValueBetweenRuns) {
  Var w = variable(graph_, Tensor::scalar(1.0f), "w");
  Node* step = w.assign_add(constant(graph_, Tensor::scalar(2.0f)));
  LocalSession session(graph_);
  EXPECT_HAS(error_of([&] { session.run({}, {w}); }), "w");
  session.run({global_variables_initializer(graph_)});
  for (int i = 0; i < 5; ++i) session.run({step});
  EXPECT_EQ(session.run({}, {w})[0].scalar<float>(), 11.0f);
}

TEST_F(LocalSessionTest, SessionsOfOneRuntimeShareVariablesAndResetClearsThem) {
  Var w = variable(graph_, Tensor::scalar(1.0f), "w");
  auto runtime = std::make_shared<LocalRuntime>();
  LocalSession a(graph_, {.runtime = runtime});
  LocalSession b(graph_, {.runtime = runtime});
  LocalSession stranger(graph_);
  a.run({global_variables_initializer(graph_)});
  EXPECT_EQ(b.run({}, {w})[0].scalar<float>(), 1.0f);
  EXPECT_FALSE(stranger.try_run({}, {w}).ok());
  runtime->reset();
  EXPECT_EQ(b.try_run({}, {w}).status().code(), Code::kFailedPrecondition);
  a.run({global_variables_initializer(graph_)});
  EXPECT_EQ(b.run({}, {w})[0].scalar<float>(), 1.0f);
}

// As in TensorFlow, where such a queue belongs to the kernel that made it.
TEST_F(LocalSessionTest, AQueueWithoutASharedNameBelongsToItsSession) {
  const AttrMap types{{"component_types", std::vector<DType>{DType::kFloat}}};
  AttrMap shared_types = types;
  shared_types["shared_name"] = "both";
  const auto put_and_size = [&](const AttrMap& attrs, const std::string& name) {
    Output queue = add_op(graph_, "FIFOQueueV2", {}, attrs, name)->output();
    Node* put = add_op(graph_, "QueueEnqueueV2", {queue, constant(graph_, Tensor::scalar(1.0f))});
    return std::pair(put, add_op(graph_, "QueueSizeV2", {queue})->output());
  };
  const auto [put_own, own_size] = put_and_size(types, "own");
  const auto [put_shared, shared_size] = put_and_size(shared_types, "shared");
  auto runtime = std::make_shared<LocalRuntime>();
  auto a = std::make_unique<LocalSession>(graph_, SessionOptions{.runtime = runtime});
  LocalSession b(graph_, {.runtime = runtime});
  a->run({put_own, put_shared});
  a->run({put_own});  // another step of the same session uses the same queue
  EXPECT_EQ(a->run({}, {own_size})[0].scalar<std::int32_t>(), 2);
  EXPECT_EQ(b.run({}, {own_size})[0].scalar<std::int32_t>(), 0);
  EXPECT_EQ(b.run({}, {shared_size})[0].scalar<std::int32_t>(), 1);
  a.reset();
  EXPECT_EQ(b.run({}, {shared_size})[0].scalar<std::int32_t>(), 1);
}

TEST_F(LocalSessionTest, AResetEndsStepsThatWaitInItsContainers) {
  const AttrMap types{{"component_types", std::vector<DType>{DType::kFloat}}};
  const auto waiting_in = [&](const std::string& container) {
    AttrMap attrs = types;
    attrs["container"] = container;
    return dequeue(graph_, add_op(graph_, "FIFOQueueV2", {}, attrs, container), container + "_next")->output();
  };
  const Output gone = waiting_in("gone");
  const Output kept = waiting_in("kept");
  auto runtime = std::make_shared<LocalRuntime>();
  LocalSession session(graph_, {.runtime = runtime});
  const auto end_of = [&session](const Output& fetch) {
    auto end = std::make_shared<std::promise<Status>>();
    session.run_async({}, {fetch}, {}, {}, [end](Status status, const auto&) { end->set_value(std::move(status)); });
    return end->get_future();
  };
  const auto within_a_minute = [](std::future<Status> end) {
    return end.wait_for(std::chrono::minutes(1)) == std::future_status::ready ? end.get()
                                                                              : deadline_exceeded("it still waits");
  };
  std::future<Status> ended = end_of(gone);
  std::future<Status> closed = end_of(kept);
  const std::string partial = session.partial_run_setup({{}, {gone.name()}, {}}).value_or_throw();
  runtime->reset({"gone"});
  EXPECT_EQ(within_a_minute(std::move(ended)).code(), Code::kAborted);
  EXPECT_EQ(session.partial_run(partial, {}, {gone}).status().code(), Code::kAborted);
  EXPECT_TRUE(session.close().ok());
  EXPECT_EQ(within_a_minute(std::move(closed)).code(), Code::kCancelled) << "it waited on";
}

TEST_F(LocalSessionTest, TheGraphMayGrow) {
  Output x = constant(graph_, Tensor::scalar(2.0f), "x");
  LocalSession session(graph_);
  EXPECT_EQ(session.run({}, {x})[0].scalar<float>(), 2.0f);
  Output y = x * x;
  EXPECT_EQ(session.run({}, {y})[0].scalar<float>(), 4.0f);
}

TEST_F(LocalSessionTest, CallablesTakeFeedsInOrder) {
  Output x = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "x");
  Output y = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "y");
  Output difference = x - y;
  LocalSession session(graph_);
  auto callable = session.make_callable({.feeds = {"y:0", "x:0"}, .fetches = {difference.name()}});
  ASSERT_TRUE(callable.ok()) << callable.status().to_string();
  auto out = session.run_callable(*callable, {Tensor::scalar(1.0f), Tensor::scalar(10.0f)});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ((*out)[0].scalar<float>(), 9.0f);
  EXPECT_HAS(session.run_callable(*callable, {Tensor::scalar(1.0f)}).status().message(), "takes 2 feeds, but got 1");
  EXPECT_TRUE(session.release_callable(*callable).ok());
  EXPECT_FALSE(session.release_callable(*callable).ok());
  EXPECT_EQ(session.run_callable(*callable, {}).status().code(), Code::kInvalidArgument);
}

TEST_F(LocalSessionTest, ErrorsNameTheThing) {
  Output x = placeholder(graph_, DType::kFloat, {-1, 3}, "x");
  Output y = x * 2.0;
  LocalSession session(graph_);
  EXPECT_HAS(error_of([&] { session.run({}, {y}); }), "'x'");
  EXPECT_HAS(error_of([&] { session.run({{"nothing:0", Tensor::scalar(1.0f)}}, {y}); }), "nothing");
  EXPECT_HAS(error_of([&] { session.run({}, {"x:7"}); }), "x:7");
  EXPECT_HAS(error_of([&] { session.run({"missing_target"}); }), "missing_target");
  EXPECT_HAS(error_of([&] { session.run({{x, Tensor::scalar(std::int32_t{1})}}, {y}); }), "expected float, got int32");
  EXPECT_HAS(error_of([&] { session.run({{x, Tensor(DType::kFloat, {2, 4})}}, {y}); }), "[2,4]");
  EXPECT_HAS(error_of([&] {
               session.run({{x, Tensor(DType::kFloat, {2, 3})}, {x, Tensor(DType::kFloat, {2, 3})}}, {y});
             }),
             "x:0");
}

TEST_F(LocalSessionTest, NansAndEmptyBatchesPass) {
  Output x = placeholder(graph_, DType::kFloat, {-1, 3}, "x");
  Output y = x * 2.0;
  LocalSession session(graph_);
  const float inf = std::numeric_limits<float>::infinity();
  Tensor fed = Tensor::of<float>({1, 3}, {NAN, inf, -inf});
  std::vector<Tensor> out = session.run({{x, fed}}, {y});
  EXPECT_TRUE(std::isnan(out[0].flat<float>()[0]));
  EXPECT_EQ(out[0].flat<float>()[1], inf);
  EXPECT_EQ(session.run({{x, Tensor(DType::kFloat, {0, 3})}}, {y})[0].shape(), (Shape{0, 3}));
}

TEST_F(LocalSessionTest, DenormalsAreZeroInAStepAndUntouchedOutside) {
  Output x = placeholder(graph_, DType::kFloat, {-1}, "x");
  LocalSession session(graph_);
  volatile float smallest = std::numeric_limits<float>::min();
  const float half = session.run({{x, Tensor::vector({smallest, 1.0f})}}, {x * 0.5})[0].flat<float>()[0];
  EXPECT_EQ(half, 0.0f);
  EXPECT_GT(smallest * 0.5f, 0.0f) << "the caller's own arithmetic must stay as it was";
}

// oneDNN is kept on one thread by a setting of the thread that calls it, which may be the user's.
TEST_F(LocalSessionTest, TheCallersOpenMpThreadsStayAsTheyWere) {
  Output a = placeholder(graph_, DType::kFloat, {64, 64}, "a"), b = placeholder(graph_, DType::kFloat, {64, 64}, "b");
  Output product = matmul(a, b);
  Output images = placeholder(graph_, DType::kFloat, {2, 9, 9, 8}, "images");
  Output filter = placeholder(graph_, DType::kFloat, {3, 3, 8, 8}, "filter");
  Output convolved = add_op(graph_, "Conv2D", {images, filter},
                            {{"strides", std::vector<std::int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}}, "convolved")
                         ->output();
  LocalSession session(graph_, {.threads = {.intra_op_threads = 1, .inter_op_threads = 1}});
  const auto zeros = [](const Shape& shape) {
    Tensor tensor(DType::kFloat, shape);
    std::fill_n(tensor.data<float>(), tensor.num_elements(), 0.0f);
    return tensor;
  };
  // On a thread of its own, whose setting ends with it.
  std::thread user([&] {
    omp_set_num_threads(3);
    session.run({{a, zeros({64, 64})}, {b, zeros({64, 64})}}, {product});
    EXPECT_EQ(omp_get_max_threads(), 3) << "after a product";
    omp_set_num_threads(3);
    session.run({{images, zeros({2, 9, 9, 8})}, {filter, zeros({3, 3, 8, 8})}}, {convolved});
    EXPECT_EQ(omp_get_max_threads(), 3) << "after a convolution";
  });
  user.join();
}

TEST_F(LocalSessionTest, AFailedStepLeavesTheSessionUsable) {
  Output indices = placeholder(graph_, DType::kInt32, PartialShape::scalar(), "i");
  Output row = gather(constant(graph_, Tensor::vector({1.0f, 2.0f})), indices);
  LocalSession session(graph_);
  Result<std::vector<Tensor>> bad = session.try_run({{indices, Tensor::scalar(std::int32_t{5})}}, {row});
  EXPECT_EQ(bad.status().code(), Code::kInvalidArgument);
  EXPECT_HAS(bad.status().message(), row.node->name());
  EXPECT_EQ(session.run({{indices, Tensor::scalar(std::int32_t{1})}}, {row})[0].scalar<float>(), 2.0f);
}

TEST_F(LocalSessionTest, UnknownDevicesAreRefusedUnlessSoft) {
  Output x;
  {
    ScopeGuard device = graph_.device_scope("/device:GPU:0");
    x = constant(graph_, Tensor::scalar(2.0f), "x");
  }
  EXPECT_HAS(error_of([&] { LocalSession(graph_).run({}, {x}); }), "Cannot assign a device for operation x");
  LocalSession soft(graph_, {.allow_soft_placement = true});
  EXPECT_EQ(soft.run({}, {x})[0].scalar<float>(), 2.0f);
}

TEST_F(LocalSessionTest, WaitingStepsHoldNoThread) {
  Node* queue = fifo_queue(graph_, "queue");
  Node* next = dequeue(graph_, queue, "next");
  Node* put = enqueue(graph_, queue, constant(graph_, Tensor::scalar(4.0f)), "put");
  LocalSession session(graph_, {.threads = {.intra_op_threads = 1, .inter_op_threads = 2}});
  session.run({put});
  session.run({}, {next->output()});  // everything is compiled and every thread started

  const int threads_before = test::count_threads();
  constexpr int kSteps = 1000;
  std::atomic<int> ended{0};
  std::atomic<int> right{0};
  for (int i = 0; i < kSteps; ++i) {
    session.run_async({}, {next->output()}, {}, {}, [&](Status status, std::vector<Tensor> values) {
      if (status.ok() && values[0].scalar<float>() == 4.0f) ++right;
      ++ended;
      ended.notify_one();
    });
  }
  EXPECT_EQ(ended.load(), 0);
  EXPECT_EQ(test::count_threads(), threads_before);
  for (int i = 0; i < kSteps; ++i) session.run({put});
  for (int seen = ended; seen < kSteps; seen = ended) ended.wait(seen);
  EXPECT_EQ(right.load(), kSteps);
}

TEST_F(LocalSessionTest, ATimeoutEndsAStepThatWaits) {
  Node* next = dequeue(graph_, fifo_queue(graph_, "queue"), "next");
  ManualClock clock;
  LocalSession session(graph_, {.threads = {.clock = &clock}});
  std::atomic<bool> ended = false;
  Status status;
  session.run_async({}, {next->output()}, {}, {.timeout = std::chrono::milliseconds(5)},
                    [&](Status s, std::vector<Tensor>) {
                      status = std::move(s);
                      ended = true;
                      ended.notify_one();
                    });
  clock.advance(std::chrono::milliseconds(4));
  EXPECT_FALSE(ended);
  clock.advance(std::chrono::milliseconds(1));
  ended.wait(false);
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_HAS(status.message(), "5 ms");
  EXPECT_HAS(status.message(), "next");
}

TEST_F(LocalSessionTest, CancellingEndsAStepThatWaits) {
  Node* next = dequeue(graph_, fifo_queue(graph_, "queue"), "next");
  LocalSession session(graph_);
  Cancellation cancellation;
  std::atomic<bool> ended = false;
  Status status;
  session.run_async({}, {next->output()}, {}, {.cancellation = &cancellation}, [&](Status s, std::vector<Tensor>) {
    status = std::move(s);
    ended = true;
    ended.notify_one();
  });
  EXPECT_FALSE(ended);
  cancellation.cancel(cancelled("the user pressed stop"));
  ended.wait(false);
  EXPECT_EQ(status.code(), Code::kCancelled);
  EXPECT_HAS(status.message(), "the user pressed stop");
  auto late = session.try_run({}, {next->output()}, {}, {.cancellation = &cancellation});
  EXPECT_EQ(late.status().code(), Code::kCancelled) << "cancelled before it began";
}

TEST_F(LocalSessionTest, ATimeoutBeyondTheClockNeverComes) {
  LocalSession session(graph_);
  Output y = constant(graph_, Tensor::scalar(1.0f));
  EXPECT_TRUE(session.try_run({}, {y}, {}, {.timeout = std::chrono::milliseconds::max()}).ok());
}

TEST_F(LocalSessionTest, StepsMayStartStepsInTheirCallbacks) {
  Output y = constant(graph_, Tensor::scalar(1.0f)) + 1.0;
  LocalSession session(graph_);
  std::atomic<int> left = 100000;  // far more than stack for one inside the other
  std::function<void(Status, std::vector<Tensor>)> next = [&](Status status, std::vector<Tensor>) {
    ASSERT_TRUE(status.ok());
    if (--left == 0) {
      left.notify_one();
    } else {
      session.run_async({}, {y}, {}, {}, next);
    }
  };
  session.run_async({}, {y}, {}, {}, next);
  for (int now = left; now != 0; now = left) left.wait(now);
}

TEST_F(LocalSessionTest, CallbacksMayCallTheSession) {
  Output y = constant(graph_, Tensor::scalar(1.0f));
  LocalSession session(graph_);
  const Session::CallableId id = session.make_callable({.fetches = {y.name()}}).value_or_throw();
  bool released = false;
  auto release = [&](Status, std::vector<Tensor>) { released = session.release_callable(id).ok(); };
  session.run_callable_async(id, {}, {}, release);
  EXPECT_TRUE(released);
  ASSERT_TRUE(session.close().ok());
  Status late;
  session.run_callable_async(id, {}, {}, [&](Status status, std::vector<Tensor>) {
    late = std::move(status);
    static_cast<void>(session.release_callable(id));
  });
  EXPECT_EQ(late.code(), Code::kCancelled);
}

TEST_F(LocalSessionTest, ClosingEndsWaitingStepsAndRefusesLaterOnes) {
  Node* next = dequeue(graph_, fifo_queue(graph_, "queue"), "next");
  LocalSession session(graph_);
  std::atomic<int> ended{0};
  std::atomic<int> told{0};
  for (int i = 0; i < 10; ++i) {
    session.run_async({}, {next->output()}, {}, {}, [&](Status status, std::vector<Tensor>) {
      if (status.code() == Code::kCancelled && status.message().find("Session::Close") != std::string::npos) ++told;
      ++ended;
      ended.notify_one();
    });
  }
  EXPECT_TRUE(session.close().ok());
  for (int seen = ended; seen < 10; seen = ended) ended.wait(seen);
  EXPECT_EQ(told.load(), 10);
  EXPECT_EQ(session.try_run({}, {next->output()}).status().code(), Code::kCancelled);
  EXPECT_TRUE(session.close().ok());
}

TEST_F(LocalSessionTest, PartialRunsFeedAndFetchInPieces) {
  Output a = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "a");
  Output b = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "b");
  Output a2 = a * 2.0;
  Output sum = a2 + b;
  LocalSession session(graph_);
  auto handle = session.partial_run_setup({.feeds = {"a:0", "b:0"}, .fetches = {a2.name(), sum.name()}});
  ASSERT_TRUE(handle.ok()) << handle.status().to_string();
  auto early = session.partial_run(*handle, {}, {sum});
  EXPECT_HAS(early.status().message(), "needs feed \"a:0\"");
  auto first = session.partial_run(*handle, {{a, Tensor::scalar(3.0f)}}, {a2});
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  EXPECT_EQ((*first)[0].scalar<float>(), 6.0f);
  EXPECT_HAS(session.partial_run(*handle, {{a, Tensor::scalar(3.0f)}}, {}).status().message(), "given already");
  EXPECT_HAS(session.partial_run(*handle, {}, {a2}).status().message(), "taken already");
  EXPECT_HAS(session.partial_run(*handle, {}, {"zzz:0"}).status().message(), "zzz:0");
  auto second = session.partial_run(*handle, {{b, Tensor::scalar(1.0f)}}, {sum});
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  EXPECT_EQ((*second)[0].scalar<float>(), 7.0f);
  EXPECT_FALSE(session.partial_run(*handle, {}, {}).ok()) << "it is over";
}

TEST_F(LocalSessionTest, AnAbandonedPartialRunDoesNotKeepTheSessionOpen) {
  Output a = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "a");
  Output b = a * 2.0;
  LocalSession session(graph_);
  ASSERT_TRUE(session.partial_run_setup({.feeds = {"a:0"}, .fetches = {b.name()}}).ok());
  EXPECT_TRUE(session.close().ok());
}

TEST_F(LocalSessionTest, APartialRunHasATimeLimitAndACancellation) {
  Output a = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "a");
  Output b = a * 2.0;
  Output next = dequeue(graph_, fifo_queue(graph_, "queue"), "next")->output();
  Cancellation cancellation;  // outlives the session, which waits for the end of the run
  LocalSession session(graph_);
  const Signature signature{.feeds = {"a:0"}, .fetches = {b.name(), next.name()}};
  auto limited = session.partial_run_setup(signature, {.timeout = std::chrono::milliseconds(1)});
  ASSERT_TRUE(limited.ok()) << limited.status().to_string();
  EXPECT_EQ(session.partial_run(*limited, {}, {next}).status().code(), Code::kDeadlineExceeded);

  auto handle = session.partial_run_setup(signature, {.cancellation = &cancellation});
  ASSERT_TRUE(handle.ok()) << handle.status().to_string();
  EXPECT_TRUE(session.partial_run(*handle, {{a, Tensor::scalar(3.0f)}}, {b}).ok());
  std::thread stopper([&] { cancellation.cancel(cancelled("enough")); });
  const Status stuck = session.partial_run(*handle, {}, {next}).status();
  stopper.join();
  EXPECT_EQ(stuck.code(), Code::kCancelled);
  EXPECT_HAS(stuck.message(), "enough");
}

TEST_F(LocalSessionTest, APartialRunMayFetchWhatItFeeds) {
  Output a = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "a");
  Output b = a * 2.0;
  LocalSession session(graph_);
  auto handle = session.partial_run_setup({.feeds = {"a:0"}, .fetches = {"a:0", b.name()}});
  ASSERT_TRUE(handle.ok()) << handle.status().to_string();
  auto out = session.partial_run(*handle, {{a, Tensor::scalar(3.0f)}}, {a, b});
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  EXPECT_EQ((*out)[0].scalar<float>(), 3.0f);
  EXPECT_EQ((*out)[1].scalar<float>(), 6.0f);
}

TEST_F(LocalSessionTest, PartialRunsCheckTheShapesOfFeeds) {
  Output a = placeholder(graph_, DType::kFloat, {-1, 3}, "a");
  Output b = a * 2.0;
  LocalSession session(graph_);
  auto handle = session.partial_run_setup({.feeds = {"a:0"}, .fetches = {b.name()}});
  ASSERT_TRUE(handle.ok()) << handle.status().to_string();
  auto wrong = session.partial_run(*handle, {{a, Tensor(DType::kFloat, {2, 4})}}, {b});
  EXPECT_EQ(wrong.status().code(), Code::kInvalidArgument);
  EXPECT_HAS(wrong.status().message(), "feed \"a:0\": shape [2,4] does not fit [?,3]");
  auto right = session.partial_run(*handle, {{a, Tensor(DType::kFloat, {2, 3})}}, {b});
  ASSERT_TRUE(right.ok()) << right.status().to_string();
  EXPECT_EQ((*right)[0].shape(), (Shape{2, 3}));
}

TEST_F(LocalSessionTest, APartialRunTellsThatAFetchWasNotTaken) {
  Output a = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "a");
  Output take = placeholder(graph_, DType::kBool, PartialShape::scalar(), "take");
  Node* branch = add_op(graph_, "Switch", {a, take});
  Output taken = identity(branch->output(1), "taken");
  Output untaken = identity(branch->output(0), "untaken");
  LocalSession session(graph_);
  auto handle = session.partial_run_setup({.feeds = {"a:0", "take:0"}, .fetches = {taken.name(), untaken.name()}});
  ASSERT_TRUE(handle.ok()) << handle.status().to_string();
  auto first = session.partial_run(*handle, {{a, Tensor::scalar(3.0f)}, {take, Tensor::scalar(true)}}, {taken});
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  EXPECT_EQ((*first)[0].scalar<float>(), 3.0f);
  auto second = session.partial_run(*handle, {}, {untaken});
  EXPECT_EQ(second.status().code(), Code::kInvalidArgument);
  EXPECT_HAS(second.status().message(), "The tensor returned for untaken:0 was not valid");
}

TEST_F(LocalSessionTest, APartialRunGivesTheErrorsOfItsTargets) {
  Output a = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "a");
  Output late = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "late");
  Output b = a * 2.0;
  Output checked = op1("CheckNumerics", {late}, {{"message", "the target failed"}});
  LocalSession session(graph_);
  const Signature signature{
      .feeds = {"a:0", "late:0"}, .fetches = {b.name()}, .targets = {std::string(checked.node->name())}};
  for (float value : {1.0f, NAN}) {
    auto handle = session.partial_run_setup(signature);
    ASSERT_TRUE(handle.ok()) << handle.status().to_string();
    auto first = session.partial_run(*handle, {{a, Tensor::scalar(3.0f)}}, {b});
    ASSERT_TRUE(first.ok()) << "a feed is still missing: " << first.status().to_string();
    auto last = session.partial_run(*handle, {{late, Tensor::scalar(value)}}, {});
    EXPECT_EQ(last.ok(), !std::isnan(value)) << last.status().to_string();
    if (!last.ok()) {
      EXPECT_HAS(last.status().message(), "the target failed");
    }
  }
}

TEST_F(LocalSessionTest, FailedPartialRunsGoButAreExplainedForAWhile) {
  Output a = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "a");
  Output bad = op1("CheckNumerics", {constant(graph_, Tensor::scalar(NAN))}, {{"message", "the target failed"}});
  LocalSession session(graph_, {.passes = {.fold_constants = false}});
  std::vector<std::string> handles;
  Output b = a * 2.0;
  for (int i = 0; i < 100; ++i) {
    auto handle = session.partial_run_setup(
        {.feeds = {"a:0"}, .fetches = {b.name()}, .targets = {std::string(bad.node->name())}});
    ASSERT_TRUE(handle.ok()) << handle.status().to_string();
    handles.push_back(*handle);
    // Waits until it has failed: the feed is refused then.
    while (session.partial_run(*handle, {{"b:0", Tensor::scalar(1.0f)}}, {}).status().message().find("target failed") ==
           std::string::npos) {
    }
  }
  EXPECT_HAS(session.partial_run(handles.back(), {}, {}).status().message(), "the target failed");
  EXPECT_HAS(session.partial_run(handles.front(), {}, {}).status().message(), "there is no partial run");
}

TEST_F(LocalSessionTest, TracesNameEveryNode) {
  Output x = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "x");
  Output y = x * x;
  LocalSession session(graph_);
  RunMetadata metadata;
  session.run({{x, Tensor::scalar(2.0f)}}, {y}, {}, {.metadata = &metadata});
  ASSERT_EQ(metadata.step_stats.nodes.size(), 1u);
  EXPECT_EQ(metadata.step_stats.nodes[0].op, "Mul");
  EXPECT_LE(metadata.step_stats.nodes[0].start_nanos, metadata.step_stats.nodes[0].end_nanos);
}

TEST_F(LocalSessionTest, IndependentExpensiveNodesMayRunSideBySide) {
  Output x = placeholder(graph_, DType::kFloat, {-1, 8}, "x");
  Output w = constant(graph_, Tensor(DType::kFloat, {8, 8}));
  std::vector<Output> branches;
  for (int i = 0; i < 16; ++i) branches.push_back(matmul(x, w + static_cast<double>(i)));
  Output sum = add_n(branches);
  LocalSession plain(graph_);
  LocalSession parallel(graph_, {.threads = {.intra_op_threads = 1, .inter_op_threads = 4}, .parallel_nodes = true});
  Tensor ones(DType::kFloat, {4, 8});
  for (float& value : ones.flat<float>()) value = 1.0f;
  const Tensor expected = plain.run({{x, ones}}, {sum})[0];
  EXPECT_EQ(expected.flat<float>()[0], 8.0f * 120.0f);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(bitwise_equal(parallel.run({{x, ones}}, {sum})[0], expected));
}

// As in TensorFlow, where the read is an alias: synchronous training fills its tokens with the global step this way.
TEST_F(LocalSessionTest, AReferencesReadShowsUpdatesThatItsUserWaitsFor) {
  Output v =
      add_op(graph_, "VariableV2", {}, {{"shape", PartialShape::scalar()}, {"dtype", DType::kInt64}}, "v")->output();
  Output read = op1("Identity", {v}, {}, "v/read");
  Node* init = add_op(graph_, "Assign", {v, constant(graph_, Tensor::scalar<std::int64_t>(0))});
  Node* add = add_op(graph_, "AssignAdd", {v, constant(graph_, Tensor::scalar<std::int64_t>(1))});
  Output tokens;
  {
    auto after = graph_.control_dependencies({add});
    tokens = op1("Fill", {constant(graph_, Tensor::vector<std::int32_t>({2})), read}, {}, "tokens");
  }
  LocalSession session(graph_);
  session.run({init});
  for (std::int64_t step = 1; step <= 20; ++step) {
    EXPECT_EQ(session.run({}, {tokens})[0].scalar<std::int64_t>(), step);
  }
}

}  // namespace tutti::local_session_test
