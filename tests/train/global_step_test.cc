#include "tutti/train/global_step.h"

#include "tests/train/train_fixture.h"
#include "tutti/runtime/local_session.h"

namespace tutti::global_step_test {

using test::thrown_by;

TEST(GlobalStepTest, IsMadeOnceAtTheTopAsAnInt64) {
  Graph graph(builtin_ops());
  EXPECT_FALSE(get_global_step(graph).has_value());
  const auto scope = graph.name_scope("model");
  const Var step = get_or_create_global_step(graph);
  EXPECT_EQ(step.name(), "global_step");
  EXPECT_EQ(step.dtype(), DType::kInt64);
  EXPECT_FALSE(step.trainable());
  EXPECT_EQ(get_or_create_global_step(graph).handle(), step.handle());
  EXPECT_EQ(graph.collection("global_step").size(), 1u);
  EXPECT_EQ(graph.collection("variables").size(), 1u);
  EXPECT_EQ(thrown_by([&] { create_global_step(graph); }).code(), Code::kAlreadyExists);
}

TEST(GlobalStepTest, OnesByNameAreFoundAndBadOnesRefused) {
  Graph by_name(builtin_ops());
  const Var step = variable(by_name, Tensor::scalar<std::int32_t>(3), "global_step");
  ASSERT_TRUE(get_global_step(by_name).has_value());
  EXPECT_EQ(get_global_step(by_name)->handle(), step.handle());

  Graph of_floats(builtin_ops());
  variable(of_floats, Tensor::scalar(3.0f), "global_step");
  const Status wrong_type = thrown_by([&] { get_global_step(of_floats); });
  EXPECT_EQ(wrong_type.code(), Code::kInvalidArgument);
  EXPECT_NE(wrong_type.message().find("float"), std::string::npos) << wrong_type.message();

  Graph of_vectors(builtin_ops());
  variable(of_vectors, Tensor::vector<std::int64_t>({1, 2}), "global_step");
  EXPECT_EQ(thrown_by([&] { get_global_step(of_vectors); }).code(), Code::kInvalidArgument);
}

TEST(GlobalStepTest, TwoInTheCollectionAreNotOne) {
  Graph graph(builtin_ops());
  for (const char* name : {"a", "b"}) {
    graph.add_to_collection("global_step", *variable(graph, Tensor::scalar<std::int64_t>(0), name).handle().node);
  }
  EXPECT_EQ(thrown_by([&] { get_global_step(graph); }).code(), Code::kInvalidArgument);
}

TEST(GlobalStepTest, IsRead) {
  test::CountingJob job;
  Node* init = global_variables_initializer(job.graph);
  LocalSession session(job.graph);
  session.run({init});
  EXPECT_EQ(read_global_step(session, *job.step), 0);
  session.run({job.train});
  EXPECT_EQ(read_global_step(session, *job.step), 1);
  EXPECT_EQ(thrown_by([] { step_value(Tensor::scalar(1.5f)); }).code(), Code::kInvalidArgument);
}

}  // namespace tutti::global_step_test
