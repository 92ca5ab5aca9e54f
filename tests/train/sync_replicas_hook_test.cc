#include "tutti/train/sync_replicas_hook.h"

#include <gtest/gtest.h>

#include "tests/train/train_fixture.h"
#include "tutti/ops/math.h"
#include "tutti/optim/sgd.h"
#include "tutti/optim/strict_replicas.h"
#include "tutti/optim/sync_replicas.h"
#include "tutti/train/coordinator.h"
#include "tutti/train/hooks/stop_at_step_hook.h"
#include "tutti/train/monitored_training_session.h"

namespace tutti::sync_replicas_hook_test {

// One worker, its own chief, on one machine: each step takes 0.5 from w, which starts at 10.
class SyncReplicasHookTest : public ::testing::Test {
 protected:
  SyncReplicasHookTest()
      : step_(create_global_step(graph_)), w_(variable(graph_, Tensor::scalar(10.0f), "w")), loss_(w_.read() * 0.5) {}
  MonitoredTrainingSessionOptions options(ReplicaSync& sync, std::int64_t last_step) {
    MonitoredTrainingSessionOptions options;
    options.hooks = {SyncReplicasHook(sync, true), StopAtStepHook({.last_step = last_step})};
    options.environment.log = lines_.sink();
    return options;
  }
  Code code_of(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.code();
    }
    return Code::kOk;
  }

  Graph graph_{builtin_ops()};
  SGD optimizer_{1.0};
  test::Lines lines_;
  Var step_, w_;
  Output loss_;
};

TEST_F(SyncReplicasHookTest, TensorFlowsWay) {
  SyncReplicas sync(optimizer_, {.replicas_to_aggregate = 1});
  Node* train = sync.minimize(loss_, step_);
  MonitoredTrainingSession session(graph_, options(sync, 4));
  float last = 10;
  while (!session.should_stop()) last = session.run({}, {w_.read()}, {train})[0].scalar<float>();
  EXPECT_LE(last, 9.0f) << "read beside the last step, which began at global step 3 or 2";
  session.close();
}

TEST_F(SyncReplicasHookTest, Strictly) {
  StrictReplicas sync(graph_, optimizer_, {.num_shards = 3, .worker = "me"});
  Node* train = sync.minimize(loss_, step_);
  MonitoredTrainingSession session(graph_, options(sync, 4));
  int runs = 0;
  Tensor claim;
  while (!session.should_stop()) {
    claim = session.run({}, {sync.next_claim()}, {train})[0];
    ++runs;
  }
  EXPECT_EQ(runs, 4 * 3);
  EXPECT_TRUE(bitwise_equal(claim, Tensor::vector<std::int64_t>({4, 0})));
  session.close();
}

TEST_F(SyncReplicasHookTest, Errors) {
  SyncReplicas early(optimizer_, {.replicas_to_aggregate = 1});
  EXPECT_EQ(code_of([&] { MonitoredTrainingSession(graph_, options(early, 1)); }), Code::kFailedPrecondition);
  SyncReplicas sync(optimizer_, {.replicas_to_aggregate = 3, .total_num_replicas = 1});
  sync.minimize(loss_, step_);
  MonitoredTrainingSessionOptions few = options(sync, 1);
  few.hooks = {SyncReplicasHook(sync, true, 1)};
  EXPECT_EQ(code_of([&] { MonitoredTrainingSession(graph_, few); }), Code::kInvalidArgument);
}

}  // namespace tutti::sync_replicas_hook_test
