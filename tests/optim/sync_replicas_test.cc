#include "tutti/optim/sync_replicas.h"

#include <gtest/gtest.h>

#include "tests/support/graph_eval.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"
#include "tutti/optim/sgd.h"

namespace tutti::sync_replicas_test {

class SyncReplicasTest : public ::testing::Test {
 protected:
  SyncReplicasTest() {
    w_ = variable(graph_, Tensor::scalar(10.0f), "w");
    step_ = variable(graph_, Tensor::scalar(std::int64_t{0}), "global_step", false);
    gradient_ = placeholder(graph_, DType::kFloat, PartialShape(Shape{}), "gradient");
  }
  SyncReplicas sync(SyncReplicasOptions options) { return SyncReplicas(optimizer_, std::move(options)); }
  Code code_of(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.code();
    }
    return Code::kOk;
  }

  Graph graph_{builtin_ops()};
  SGD optimizer_{0.5};
  std::optional<Var> w_, step_;
  Output gradient_;
};

TEST_F(SyncReplicasTest, NamesAreTensorFlows) {
  SyncReplicas s = sync({.replicas_to_aggregate = 2, .total_num_replicas = 3});
  Node* train = s.apply_gradients({{Gradient(gradient_), *w_}}, *step_);
  EXPECT_EQ(train->name(), "AssignVariableOp_1");
  EXPECT_EQ(s.local_step_init()->name(), "AssignVariableOp");
  EXPECT_EQ(s.ready_for_local_init().name(), "report_uninitialized_variables/boolean_mask/GatherV2:0");
  EXPECT_EQ(s.sync()->name(), "sync_token_q_EnqueueMany");
  EXPECT_EQ(s.close()->name(), "sync_token_q_Close");
  EXPECT_EQ(s.cancel()->name(), "sync_token_q_Close_1");
  EXPECT_EQ(s.init_tokens()->name(), "sync_token_q_EnqueueMany_1");
  EXPECT_EQ(s.init_tokens(0)->name(), "no_init_tokens");
  EXPECT_EQ(s.token_queue().name(), "sync_token_q:0");
  EXPECT_EQ(s.local_step().name(), "sync_rep_local_step");
  EXPECT_EQ(s.presence(), nullptr);
  EXPECT_EQ(s.interrupt(), nullptr);
  Node* accumulator = graph_.find("sync_replicas/conditional_accumulator");
  ASSERT_NE(accumulator, nullptr);
  EXPECT_EQ(accumulator->attr<std::string>("shared_name"), "w:0/grad_accum");
  EXPECT_EQ(graph_.collection("local_variables").size(), 1u);
  EXPECT_EQ(global_variables(graph_).size(), 2u) << "the local step goes into no checkpoint";
  Node* apply = graph_.find("sync_replicas/ResourceAccumulatorApplyGradient");
  ASSERT_NE(apply, nullptr);
  EXPECT_EQ(apply->find_attr("_tutti_worker"), nullptr);
}

TEST_F(SyncReplicasTest, AWorkerMayNameItself) {
  SyncReplicas s = sync({.worker = "me"});
  s.apply_gradients({{Gradient(gradient_), *w_}}, *step_);
  EXPECT_EQ(graph_.find("sync_replicas/ResourceAccumulatorApplyGradient")->attr<std::string>("_tutti_worker"), "me");
}

TEST_F(SyncReplicasTest, TheAveragesFollowTheTokens) {
  Node* averages = nullptr;
  SyncReplicas s = sync({.variable_averages = [&] { return averages = no_op(graph_, "averages"); }});
  s.apply_gradients({{Gradient(gradient_), *w_}}, *step_);
  EXPECT_EQ(s.sync(), averages);
  ASSERT_EQ(averages->control_inputs().size(), 1u);
  EXPECT_EQ(averages->control_inputs()[0]->name(), "sync_token_q_EnqueueMany");
}

TEST_F(SyncReplicasTest, Errors) {
  EXPECT_EQ(code_of([&] { sync({.replicas_to_aggregate = 0}); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { sync({.replicas_to_aggregate = 1, .total_num_replicas = -1}); }), Code::kInvalidArgument);
  SyncReplicas s = sync({.replicas_to_aggregate = 3, .total_num_replicas = 1});
  EXPECT_EQ(code_of([&] { s.train(); }), Code::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { s.init_tokens(); }), Code::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { s.apply_gradients({}, *step_); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] {
              s.apply_gradients({{Gradient(gradient_), *w_}}, *w_);
            }),
            Code::kInvalidArgument)
      << "a step that is a float";
  s.apply_gradients({{Gradient(gradient_), *w_}}, *step_);
  EXPECT_EQ(code_of([&] { s.init_tokens(1); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { s.init_tokens(2); }), Code::kOk);
  EXPECT_EQ(code_of([&] { s.apply_gradients({{Gradient(gradient_), *w_}}, *step_); }), Code::kFailedPrecondition);
}

}  // namespace tutti::sync_replicas_test
