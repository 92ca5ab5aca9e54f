#include "tutti/train/scaffold.h"

#include "tests/train/train_fixture.h"
#include "tutti/ops/builders.h"
#include "tutti/runtime/local_session.h"
#include "tutti/train/saver.h"
#include "tutti/train/uninitialized.h"

namespace tutti::scaffold_test {

using test::thrown_by;

std::vector<std::string> strings(const Tensor& tensor) {
  const auto values = tensor.flat<std::string>();
  return {values.begin(), values.end()};
}

TEST(ScaffoldTest, MakesWhatIsMissing) {
  test::CountingJob job;
  Scaffold scaffold;
  scaffold.finalize(job.graph);
  ASSERT_NE(scaffold.init_op, nullptr);
  ASSERT_NE(scaffold.local_init_op, nullptr);
  ASSERT_NE(scaffold.saver, nullptr);
  EXPECT_FALSE(scaffold.summary_op);  // there are no summaries
  LocalSession session(job.graph);
  EXPECT_EQ(strings(session.run({}, {scaffold.ready_op})[0]), (std::vector<std::string>{"global_step", "w"}));
  EXPECT_EQ(strings(session.run({}, {scaffold.ready_for_local_init_op})[0]),
            (std::vector<std::string>{"global_step", "w"}));
  session.run({job.w->initializer()});
  EXPECT_EQ(strings(session.run({}, {scaffold.ready_op})[0]), std::vector<std::string>{"global_step"});
  session.run({scaffold.init_op});
  session.run({scaffold.local_init_op});
  EXPECT_TRUE(strings(session.run({}, {scaffold.ready_op})[0]).empty());
}

TEST(ScaffoldTest, LocalVariablesAreReadyAfterLocalInit) {
  Graph graph(builtin_ops());
  const Var global = variable(graph, Tensor::scalar(1.0f), "global");
  // As a local variable's builder makes it: known to its own collection only.
  Node* handle =
      add_op(graph, "VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", PartialShape::scalar()}}, "local");
  add_op(graph, "AssignVariableOp", {handle->output(), global.read()}, {{"dtype", DType::kFloat}}, "local/Assign");
  add_op(graph, "ReadVariableOp", {handle->output()}, {{"dtype", DType::kFloat}}, "local/Read/ReadVariableOp");
  graph.add_to_collection("local_variables", *handle);
  Scaffold scaffold;
  scaffold.finalize(graph);
  LocalSession session(graph);
  session.run({scaffold.init_op});
  EXPECT_TRUE(strings(session.run({}, {scaffold.ready_for_local_init_op})[0]).empty());
  EXPECT_EQ(strings(session.run({}, {scaffold.ready_op})[0]), std::vector<std::string>{"local"});
  session.run({scaffold.local_init_op});
  EXPECT_TRUE(strings(session.run({}, {scaffold.ready_op})[0]).empty());
}

TEST(ScaffoldTest, TakesTheCollectionsOneAndKeepsWhatTheUserGave) {
  test::CountingJob job;
  Node* init = group(job.graph, {job.w->initializer(), job.step->initializer()}, "my_init");
  job.graph.add_to_collection("init_op", *init);
  Scaffold first;
  first.finalize(job.graph);
  EXPECT_EQ(first.init_op, init);
  Scaffold second;
  second.finalize(job.graph);
  EXPECT_EQ(second.ready_op, first.ready_op);
  EXPECT_EQ(second.local_init_op, first.local_init_op);
  Scaffold copied = first;
  copied.init_op = job.w->initializer();
  copied.finalize(job.graph);
  EXPECT_EQ(copied.init_op, job.w->initializer());
  EXPECT_EQ(copied.saver, first.saver);

  job.graph.add_to_collection("init_op", *job.train);
  Scaffold third;
  const Status several = thrown_by([&] { third.finalize(job.graph); });
  EXPECT_EQ(several.code(), Code::kInvalidArgument);
  EXPECT_NE(several.message().find("More than one item in the collection \"init_op\""), std::string::npos)
      << several.message();
}

TEST(ScaffoldTest, MergesSummaries) {
  Graph graph(builtin_ops());
  for (const char* tag : {"a", "b"}) {
    const Output name = constant(graph, Tensor::scalar<std::string>(tag));
    graph.add_to_collection("summaries",
                            *add_op(graph, "ScalarSummary", {name, constant(graph, Tensor::scalar(1.0f))}));
  }
  Scaffold scaffold;
  scaffold.finalize(graph);
  ASSERT_TRUE(scaffold.summary_op);
  LocalSession session(graph);
  const std::string merged = session.run({}, {scaffold.summary_op})[0].scalar<std::string>();
  EXPECT_NE(merged.find('a'), std::string::npos);
  EXPECT_NE(merged.find('b'), std::string::npos);
}

TEST(ScaffoldTest, AGraphWithoutVariablesIsReady) {
  Graph graph(builtin_ops());
  constant(graph, Tensor::scalar(1.0f));
  Scaffold scaffold;
  scaffold.finalize(graph);
  LocalSession session(graph);
  EXPECT_EQ(session.run({}, {scaffold.ready_op})[0].num_elements(), 0);
}

}  // namespace tutti::scaffold_test
