// Savers in sessions: variables come back, and a disk that hangs holds up no thread that runs steps.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>

#include "tests/core/temp_directory.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/state.h"
#include "tutti/runtime/local_session.h"

namespace tutti::checkpoint_test {

Output text(Graph& graph, const std::string& value) { return constant(graph, Tensor::scalar(value)); }
Output texts(Graph& graph, const std::vector<std::string>& values) {
  return constant(graph, Tensor::vector<std::string>(values));
}

Node* save_node(Graph& graph, const std::string& prefix, Output value) {
  return add_op(graph, "SaveV2", {text(graph, prefix), texts(graph, {"w"}), texts(graph, {""}), value});
}

TEST(Checkpoints, VariablesComeBack) {
  TempDirectory directory;
  Graph graph(builtin_ops());
  Var w = variable(graph, constant(graph, Tensor::vector<float>({1, 2})), "w");
  Node* init = global_variables_initializer(graph);
  Node* save = save_node(graph, directory.file("model"), w);
  Node* clear = w.assign(constant(graph, Tensor::vector<float>({0, 0})));
  Node* read =
      add_op(graph, "RestoreV2", {text(graph, directory.file("model")), texts(graph, {"w"}), texts(graph, {""})},
             {{"dtypes", std::vector<DType>{DType::kFloat}}});
  Node* restore = w.assign(read->output());
  LocalSession session(graph);
  session.run({init});
  const Result<std::vector<Tensor>> early = session.try_run({}, {}, {restore});
  EXPECT_EQ(early.status().code(), Code::kNotFound);
  session.run({save});
  session.run({clear});
  EXPECT_TRUE(bitwise_equal(session.run({}, {w})[0], Tensor::vector<float>({0, 0})));
  session.run({restore});
  EXPECT_TRUE(bitwise_equal(session.run({}, {w})[0], Tensor::vector<float>({1, 2})));
}

TEST(Checkpoints, AHangingDiskHoldsUpNobodyElse) {
  TempDirectory directory;
  std::promise<void> disk_comes_back;
  const std::shared_future<void> back = disk_comes_back.get_future().share();
  FaultyFileSystem disk(local_file_system(), [&](FileOp op, const std::string&) {
    // Not for ever, so that the test fails rather than hangs.
    if (op == FileOp::kOpenWrite) back.wait_for(std::chrono::seconds(120));
    return Status();
  });
  Graph graph(builtin_ops());
  Output x = placeholder(graph, DType::kFloat, PartialShape::scalar(), "x");
  Node* save = save_node(graph, directory.file("model"), x);
  Output twice = x + x;
  LocalSession session(graph, {.threads = {.intra_op_threads = 1, .inter_op_threads = 1, .files = &disk}});
  std::promise<Status> saved;
  std::future<Status> end = saved.get_future();
  session.run_async({{x, Tensor::scalar(1.f)}}, {}, {save}, {},
                    [&](Status status, std::vector<Tensor>) { saved.set_value(std::move(status)); });
  EXPECT_EQ(end.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(session.run({{x, Tensor::scalar(2.f)}}, {twice})[0].scalar<float>(), 4);
  EXPECT_EQ(end.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  disk_comes_back.set_value();
  const Status status = end.get();
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(local_file_system().exists(directory.file("model.index")));
}

}  // namespace tutti::checkpoint_test
