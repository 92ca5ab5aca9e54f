#include <gtest/gtest.h>

#include <vector>

#include "tests/support/kernel_runner.h"

namespace tutti::queue_ops_test {

using testing::KernelRunner;
using testing::value_of;

class QueueOps : public ::testing::Test {
 protected:
  Value queue(const std::string& name, int capacity = -1) {
    AttrMap attrs = floats_;
    attrs["shapes"] = std::vector<PartialShape>{PartialShape::scalar()};
    attrs["capacity"] = capacity;
    auto run = runner_.run(name, "FIFOQueueV2", attrs);
    EXPECT_TRUE(run->status().ok()) << run->status().to_string();
    return run->output(0);
  }
  std::unique_ptr<testing::KernelRun> start(const std::string& op, AttrMap attrs, std::vector<Value> inputs) {
    return runner_.start(op + std::to_string(count_++), op, std::move(attrs), std::move(inputs));
  }
  std::unique_ptr<testing::KernelRun> put(const Value& queue, float value) {
    return start("QueueEnqueueV2", {}, {queue, value_of(Tensor::scalar(value))});
  }
  std::unique_ptr<testing::KernelRun> get(const Value& queue) { return start("QueueDequeueV2", floats_, {queue}); }
  std::int32_t size(const Value& queue) { return start("QueueSizeV2", {}, {queue})->tensor().scalar<std::int32_t>(); }

  const AttrMap floats_{{"component_types", std::vector<DType>{DType::kFloat}}};
  KernelRunner runner_;
  int count_ = 0;
};

TEST_F(QueueOps, EnqueueDequeue) {
  const Value q = queue("q");
  ASSERT_TRUE(put(q, 1)->status().ok());
  auto many = start("QueueEnqueueManyV2", {}, {q, value_of(Tensor::vector<float>({2, 3, 4}))});
  ASSERT_TRUE(many->status().ok()) << many->status().to_string();
  EXPECT_EQ(size(q), 4);
  EXPECT_EQ(get(q)->tensor().scalar<float>(), 1);
  auto two = start("QueueDequeueManyV2", floats_, {q, value_of(Tensor::scalar(std::int32_t{2}))});
  EXPECT_TRUE(bitwise_equal(two->tensor(), Tensor::vector<float>({2, 3})));
  EXPECT_FALSE(start("QueueIsClosedV2", {}, {q})->tensor().scalar<bool>());
  ASSERT_TRUE(start("QueueCloseV2", {}, {q})->status().ok());
  EXPECT_TRUE(start("QueueIsClosedV2", {}, {q})->tensor().scalar<bool>());
  auto rest = start("QueueDequeueUpToV2", floats_, {q, value_of(Tensor::scalar(std::int32_t{5}))});
  EXPECT_TRUE(bitwise_equal(rest->tensor(), Tensor::vector<float>({4})));
  EXPECT_EQ(get(q)->status().message(),
            "FIFOQueue '_0_q' is closed and has insufficient elements (requested 1, current size 0)");
  EXPECT_EQ(put(q, 1)->status(), cancelled("FIFOQueue '_0_q' is closed."));
}

TEST_F(QueueOps, DequeueWaitsAndIsCancelled) {
  const Value q = queue("q");
  auto waiting = get(q);
  EXPECT_FALSE(waiting->finished());
  runner_.step().cancellation->cancel(cancelled("the step timed out"));
  ASSERT_TRUE(waiting->finished());
  EXPECT_EQ(waiting->status(), cancelled("Dequeue operation was cancelled"));
  runner_.new_step();
  auto next = get(q);
  EXPECT_FALSE(next->finished());
  ASSERT_TRUE(put(q, 7)->status().ok());
  ASSERT_TRUE(next->finished() && next->status().ok());
  EXPECT_EQ(next->tensor().scalar<float>(), 7);
}

TEST_F(QueueOps, DestroyingOneEndsWhoWaitsInIt) {
  const Value full = queue("full", 1);
  const Value empty = queue("empty");
  ASSERT_TRUE(put(full, 1)->status().ok());
  auto putting = put(full, 2);
  auto getting = get(empty);
  EXPECT_FALSE(putting->finished());
  ASSERT_TRUE(start("DestroyResourceOp", {}, {full})->status().ok());
  ASSERT_TRUE(putting->finished());
  EXPECT_EQ(putting->status().code(), Code::kAborted) << putting->status().to_string();
  EXPECT_FALSE(getting->finished()) << "in another queue";
  ASSERT_TRUE(start("DestroyResourceOp", {}, {empty})->status().ok());
  ASSERT_TRUE(getting->finished());
  EXPECT_EQ(getting->status().code(), Code::kAborted) << getting->status().to_string();
}

TEST_F(QueueOps, WithoutASharedNameItIsItsKernelsOwn) {
  auto one = std::make_unique<testing::KernelRunner>();
  one->step().services.resources = runner_.step().services.resources;
  const Value mine = queue("q");
  put(mine, 1);
  Value others = one->run("q", "FIFOQueueV2", floats_)->output(0);
  EXPECT_EQ(size(others), 0);
  put(others, 2);
  put(others, 3);
  EXPECT_EQ(size(mine), 1);
  // The handle keeps it, and without kernel and handle it is gone.
  const auto slot = others.tensor.scalar<ResourceHandle>().slot();
  const std::weak_ptr<Resource> resource = slot->get();
  one.reset();
  EXPECT_EQ(size(others), 2);
  EXPECT_FALSE(resource.expired());
}

TEST_F(QueueOps, ASharedNameIsNoPrivateOne) {
  AttrMap attrs = floats_;
  attrs["shared_name"] = "_0_q";
  EXPECT_EQ(runner_.run("q", "FIFOQueueV2", attrs)->status(),
            invalid_argument("shared_name cannot start with '_': _0_q"));
}

TEST_F(QueueOps, SharedNamesMustAgree) {
  AttrMap attrs = floats_;
  attrs["shared_name"] = "both";
  Value a = runner_.run("a", "FIFOQueueV2", attrs)->output(0);
  Value b = runner_.run("b", "FIFOQueueV2", attrs)->output(0);
  ASSERT_TRUE(put(a, 1)->status().ok());
  EXPECT_EQ(size(b), 1);
  const auto refused = [&](const std::string& op, AttrMap other) {
    for (const auto& [name, value] : attrs) other.emplace(name, value);
    const Status status = runner_.run(op + std::to_string(count_++), op, std::move(other))->status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refused("FIFOQueueV2", {{"capacity", 3}}),
            "Shared queue 'both' has capacity -1 but requested capacity was 3");
  EXPECT_EQ(refused("FIFOQueueV2", {{"component_types", std::vector<DType>{DType::kFloat, DType::kInt32}}}),
            "Shared queue 'both' has component types float but requested component types were float, int32");
  EXPECT_EQ(refused("FIFOQueueV2", {{"shapes", std::vector<PartialShape>{PartialShape{2}}}}),
            "Shared queue 'both' has component shapes [] but requested component shapes were [[2]]");
  EXPECT_EQ(refused("RandomShuffleQueueV2", {}), "Expected FIFOQueue, found RandomShuffleQueueV2");
  attrs["shared_name"] = "mixed";
  ASSERT_TRUE(runner_.run("d", "RandomShuffleQueueV2", attrs)->status().ok());
  EXPECT_EQ(refused("RandomShuffleQueueV2", {{"seed", 1}}),
            "Shared queue 'mixed' has random seeds (0, 0) but requested seeds are (1, 0).");
  // Without seeds it takes the queue as it is.
  attrs["shared_name"] = "seeded";
  AttrMap seeded = attrs;
  seeded["seed"] = 1;
  ASSERT_TRUE(runner_.run("e", "RandomShuffleQueueV2", seeded)->status().ok());
  EXPECT_TRUE(runner_.run("f", "RandomShuffleQueueV2", attrs)->status().ok());
  attrs["shared_name"] = "mixed";
  EXPECT_EQ(refused("RandomShuffleQueueV2", {{"min_after_dequeue", 1}}),
            "Shared queue 'mixed' has min_after_dequeue 0 but requested min_after_dequeue was 1.");
}

TEST_F(QueueOps, ReferenceHandles) {
  AttrMap attrs;
  attrs["component_types"] = std::vector<DType>{DType::kFloat};
  attrs["shapes"] = std::vector<PartialShape>{PartialShape::scalar()};
  const Value q = runner_.run("q", "PriorityQueue", attrs)->output(0);
  ASSERT_TRUE(q.ref);
  for (const std::int64_t priority : {5, 2}) {
    auto put = start("QueueEnqueue", {},
                     {q, value_of(Tensor::scalar(priority)), value_of(Tensor::scalar(static_cast<float>(priority)))});
    ASSERT_TRUE(put->status().ok()) << put->status().to_string();
  }
  const AttrMap types{{"component_types", std::vector<DType>{DType::kInt64, DType::kFloat}}};
  EXPECT_EQ(start("QueueDequeue", types, {q})->tensor(1).scalar<float>(), 2);
  EXPECT_EQ(start("QueueSize", {}, {q})->tensor().scalar<std::int32_t>(), 1);
  EXPECT_EQ(start("QueueDequeue", floats_, {q})->status(),
            invalid_argument("Signature mismatch, have: string_ref->float expected: string_ref->int64, float"));
  ASSERT_TRUE(start("QueueClose", {}, {q})->status().ok());
  EXPECT_TRUE(start("QueueIsClosed", {}, {q})->tensor().scalar<bool>());
}

TEST_F(QueueOps, BadNodes) {
  const Value q = queue("q");
  EXPECT_EQ(start("QueueDequeueV2", {{"component_types", std::vector<DType>{DType::kFloat}}, {"timeout_ms", 5}}, {q})
                ->status()
                .code(),
            Code::kInvalidArgument);
  const Value nothing = value_of(Tensor::scalar(ResourceHandle("", "localhost", "no such queue")));
  EXPECT_EQ(get(nothing)->status().code(), Code::kNotFound);
  ASSERT_TRUE(put(q, 1)->status().ok());
  auto wrong = start("QueueDequeueV2", {{"component_types", std::vector<DType>{DType::kInt32}}}, {q});
  EXPECT_EQ(wrong->status().code(), Code::kInvalidArgument);
}

}  // namespace tutti::queue_ops_test
