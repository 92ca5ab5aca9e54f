#include "tutti/optim/strict_replicas.h"

#include <gtest/gtest.h>

#include "tutti/ops/array.h"
#include "tutti/ops/op_table.h"
#include "tutti/optim/sgd.h"

namespace tutti::strict_replicas_test {

using namespace std::chrono_literals;

class StrictReplicasTest : public ::testing::Test {
 protected:
  StrictReplicasTest() {
    w_ = variable(graph_, Tensor::scalar(10.0f), "w");
    step_ = variable(graph_, Tensor::scalar(std::int64_t{0}), "global_step", false);
    gradient_ = placeholder(graph_, DType::kFloat, PartialShape(Shape{}), "gradient");
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
  SGD optimizer_{0.5};
  std::optional<Var> w_, step_;
  Output gradient_;
};

TEST_F(StrictReplicasTest, MakesItsClaimFirst) {
  StrictReplicas s(graph_, optimizer_, {.num_shards = 4, .worker = "me"});
  EXPECT_EQ(s.claim().dtype(), DType::kInt64);
  EXPECT_EQ(s.claim().shape(), PartialShape{2});
  EXPECT_EQ(code_of([&] { s.next_claim(); }), Code::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { s.init_tokens(); }), Code::kFailedPrecondition);
  Node* train = s.apply_gradients({{Gradient(gradient_), *w_}}, *step_);
  EXPECT_EQ(train, s.train());
  EXPECT_EQ(s.next_claim().shape(), PartialShape{2});
  EXPECT_NE(s.presence(), nullptr);
  EXPECT_NE(s.interrupt(), nullptr);
  EXPECT_EQ(s.init_tokens()->op_name(), "NoOp");
  EXPECT_EQ(global_variables(graph_).size(), 2u) << "the claim goes into no checkpoint";
  Node* accumulator = graph_.find("strict_replicas/accumulator");
  ASSERT_NE(accumulator, nullptr);
  EXPECT_EQ(accumulator->attr<std::string>("shared_name"), "w:0/shard_accum");
  EXPECT_EQ(accumulator->attr<std::int64_t>("num_shards"), 4);
}

TEST_F(StrictReplicasTest, Errors) {
  EXPECT_EQ(code_of([&] { StrictReplicas(graph_, optimizer_, {.num_shards = 0, .worker = "me"}); }),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { StrictReplicas(graph_, optimizer_, {.num_shards = 1}); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { StrictReplicas(graph_, optimizer_, {.worker = "me", .lease = 0ms}); }),
            Code::kInvalidArgument);
  Graph other(builtin_ops());
  StrictReplicas s(other, optimizer_, {.worker = "me"});
  EXPECT_EQ(code_of([&] { s.apply_gradients({{Gradient(gradient_), *w_}}, *step_); }), Code::kInvalidArgument);
}

}  // namespace tutti::strict_replicas_test
