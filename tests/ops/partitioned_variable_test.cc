#include "tutti/ops/partitioned_variable.h"

#include <gtest/gtest.h>

#include "tests/support/graph_eval.h"
#include "tutti/graph/gradients.h"
#include "tutti/ops/array.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"

namespace tutti::partitioned_variable_test {

using Doubles = std::vector<double>;

class PartitionedVariableTest : public ::testing::Test {
 protected:
  // rows x 2, the element of row r being 10 r and 10 r + 1.
  PartitionedVar table(std::int64_t rows, std::int64_t parts, const std::string& name = "table") {
    Tensor value(DType::kDouble, {rows, 2});
    for (std::int64_t i = 0; i < rows * 2; ++i) {
      value.data<double>()[i] = static_cast<double>(10 * (i / 2) + i % 2);
    }
    return partitioned_variable(graph_, value, name, fixed_size_partitioner(parts));
  }
  Doubles run(Output value) { return testing::to_doubles(evaluator_.run(value)); }
  void initialize() { evaluator_.run_target(global_variables_initializer(graph_)); }

  Graph graph_{builtin_ops()};
  testing::GraphEvaluator evaluator_;
};

TEST_F(PartitionedVariableTest, PartsAreNamedAndCutAsInTensorFlow) {
  const PartitionedVar w = table(5, 2);
  ASSERT_EQ(w.parts().size(), 2u);
  EXPECT_EQ(w.name(), "table");
  EXPECT_EQ(w.parts()[0].name(), "table/part_0");
  EXPECT_EQ(w.parts()[1].name(), "table/part_1");
  EXPECT_EQ(w.parts()[0].shape(), (PartialShape{3, 2}));
  EXPECT_EQ(w.parts()[1].shape(), (PartialShape{2, 2}));
  EXPECT_EQ(slice_info(w.parts()[0])->spec(), "5 2 0,3:0,2");
  EXPECT_EQ(slice_info(w.parts()[1])->spec(), "5 2 3,2:0,2");
  EXPECT_EQ(slice_info(w.parts()[1])->full_name, "table");
  EXPECT_EQ(trainable_variables(graph_).size(), 2u);
}

TEST_F(PartitionedVariableTest, Sizes) {
  auto sizes = [this](std::int64_t rows, std::int64_t parts) {
    std::vector<std::int64_t> found;
    const PartitionedVar whole = table(rows, parts, str_cat("t", rows, "_", parts));
    for (const Var& part : whole.parts()) found.push_back(part.shape().dim(0));
    return found;
  };
  EXPECT_EQ(sizes(9, 2), (std::vector<std::int64_t>{5, 4}));
  EXPECT_EQ(sizes(7, 3), (std::vector<std::int64_t>{3, 2, 2}));
  EXPECT_EQ(sizes(11, 4), (std::vector<std::int64_t>{3, 3, 3, 2}));
  EXPECT_EQ(sizes(3, 8), (std::vector<std::int64_t>{1, 1, 1}));
  EXPECT_EQ(sizes(4, 1), (std::vector<std::int64_t>{4}));
}

TEST_F(PartitionedVariableTest, ReadsAsTheWhole) {
  const PartitionedVar w = table(5, 3);
  initialize();
  EXPECT_EQ(run(w), (Doubles{0, 1, 10, 11, 20, 21, 30, 31, 40, 41}));
  EXPECT_EQ(Output(w), w.read());
}

TEST_F(PartitionedVariableTest, AlongAnotherAxis) {
  const PartitionedVar w =
      partitioned_variable(graph_, Tensor::of<double>({2, 3}, {1, 2, 3, 4, 5, 6}), "w", fixed_size_partitioner(2, 1));
  initialize();
  EXPECT_EQ(w.axis(), 1);
  EXPECT_EQ(slice_info(w.parts()[1])->spec(), "2 3 0,2:2,1");
  EXPECT_EQ(run(w.parts()[0].read()), (Doubles{1, 2, 4, 5}));
  EXPECT_EQ(run(w), (Doubles{1, 2, 3, 4, 5, 6}));
  EXPECT_THROW(w.gather(constant(graph_, Tensor::vector<std::int32_t>({0}))), Error);
}

TEST_F(PartitionedVariableTest, GathersRowsFromTheirParts) {
  for (std::int64_t parts : {1, 2, 3, 4, 13}) {
    for (DType dtype : {DType::kInt32, DType::kInt64}) {
      Graph graph(builtin_ops());
      testing::GraphEvaluator evaluator;
      Tensor value(DType::kDouble, {13, 1});
      for (int i = 0; i < 13; ++i) value.data<double>()[i] = 10 * i;
      const PartitionedVar w = partitioned_variable(graph, value, "w", fixed_size_partitioner(parts));
      Output ids = cast(constant(graph, Tensor::of<std::int32_t>({2, 4}, {12, 0, 5, 5, 7, 1, 11, 4})), dtype);
      Output found = w.gather(ids);
      evaluator.run_target(global_variables_initializer(graph));
      const Tensor rows = evaluator.run(found);
      EXPECT_EQ(rows.shape(), (Shape{2, 4, 1})) << parts;
      EXPECT_EQ(testing::to_doubles(rows), (Doubles{120, 0, 50, 50, 70, 10, 110, 40})) << parts;
    }
  }
}

TEST_F(PartitionedVariableTest, IdsOutsideFailTheStep) {
  const PartitionedVar w = table(5, 2);
  Output ids = placeholder(graph_, DType::kInt64, PartialShape{1});
  Output found = w.gather(ids);
  initialize();
  for (std::int64_t id : {-1, 5, 1000}) {
    EXPECT_THROW(evaluator_.run(found, {{ids, Tensor::vector<std::int64_t>({id})}}), Error) << id;
  }
}

TEST_F(PartitionedVariableTest, GradientsReachTheParts) {
  const PartitionedVar w = table(3, 2);
  Output factor = constant(graph_, Tensor::of<double>({3, 2}, {1, 2, 3, 4, 5, 6}));
  Output rows = w.gather(constant(graph_, Tensor::vector<std::int32_t>({2, 0, 2})));
  const std::vector<Output> handles = {w.parts()[0].handle(), w.parts()[1].handle()};
  const std::vector<Gradient> dense = gradients({reduce_sum(w * factor)}, handles);
  const std::vector<Gradient> sparse = gradients({reduce_sum(rows * 2.0)}, handles);
  initialize();
  EXPECT_EQ(run(dense[0].dense()), (Doubles{1, 2, 3, 4}));
  EXPECT_EQ(run(dense[1].dense()), (Doubles{5, 6}));
  ASSERT_TRUE(sparse[1].is_sparse());
  EXPECT_EQ(run(sparse[0].dense()), (Doubles{2, 2, 0, 0}));
  EXPECT_EQ(run(sparse[1].dense()), (Doubles{4, 4}));
}

TEST_F(PartitionedVariableTest, EachPartHasItsInitializer) {
  auto offset = [](Graph& graph, const SliceInfo& part) {
    return fill(part.shape, constant(graph, static_cast<double>(part.offset[0]), DType::kDouble));
  };
  const PartitionedVar w = partitioned_variable(graph_, {5}, DType::kDouble, offset, "w", fixed_size_partitioner(2));
  initialize();
  EXPECT_EQ(run(w), (Doubles{0, 0, 0, 3, 3}));
  auto wrong = [](Graph& graph, const SliceInfo&) { return constant(graph, Tensor::scalar(1.0)); };
  EXPECT_THROW(partitioned_variable(graph_, {5}, DType::kDouble, wrong, "v", fixed_size_partitioner(2)), Error);
}

// A device function sees each part by itself, as replica_device_setter must.
TEST_F(PartitionedVariableTest, PartsAreSpreadOverDevices) {
  int next = 0;
  ScopeGuard scope = graph_.device_scope(
      [&](const NodeSpec& node) { return node.op == "VarHandleOp" ? str_cat("/job:ps/task:", next++) : node.device; });
  const PartitionedVar w = table(4, 2);
  EXPECT_EQ(w.parts()[0].handle().node->requested_device(), "/job:ps/task:0");
  EXPECT_EQ(w.parts()[1].handle().node->requested_device(), "/job:ps/task:1");
  Output found = w.gather(constant(graph_, Tensor::vector<std::int32_t>({0, 3})));
  int gathers = 0;
  for (Node* node : graph_.nodes()) {
    if (node->op_name() != "ResourceGather") continue;
    EXPECT_EQ(node->requested_device(), w.parts()[gathers++].handle().node->requested_device());
  }
  EXPECT_EQ(gathers, 2);
  EXPECT_EQ(found.shape(), (PartialShape{kUnknownDim, 2}));
}

TEST_F(PartitionedVariableTest, Refusals) {
  const Tensor value = Tensor::of<double>({2, 2}, {1, 2, 3, 4});
  auto counts = [](std::vector<std::int64_t> list) { return [list](const Shape&, DType) { return list; }; };
  EXPECT_THROW(partitioned_variable(graph_, value, "w", counts({2, 2})), Error);
  EXPECT_THROW(partitioned_variable(graph_, value, "w", counts({2})), Error);
  EXPECT_THROW(partitioned_variable(graph_, value, "w", counts({3, 1})), Error);
  EXPECT_THROW(partitioned_variable(graph_, value, "w", counts({0, 1})), Error);
  EXPECT_THROW(partitioned_variable(graph_, value, "w", fixed_size_partitioner(2, 2)), Error);
  EXPECT_THROW(partitioned_variable(graph_, Tensor::scalar(1.0), "w", counts({})), Error);
  EXPECT_THROW(partitioned_variable(graph_, Tensor(), "w", fixed_size_partitioner(2)), Error);
  Var whole = variable(graph_, value, "v");
  EXPECT_FALSE(slice_info(whole));
  EXPECT_THROW(set_slice_info(whole, {"v", {3, 2}, {2, 0}, {2, 2}}), Error);
}

TEST(Partitioners, FixedSize) {
  EXPECT_EQ(fixed_size_partitioner(3)({7, 2}, DType::kFloat), (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(fixed_size_partitioner(3, 1)({7, 2}, DType::kFloat), (std::vector<std::int64_t>{1, 2}));
  EXPECT_THROW(fixed_size_partitioner(0), Error);
}

TEST(Partitioners, MinMax) {
  const Partitioner many = min_max_variable_partitioner({.max_partitions = 100});
  EXPECT_EQ(many({1024, 1024}, DType::kFloat), (std::vector<std::int64_t>{16, 1}));
  EXPECT_EQ(many({3, 1000000}, DType::kFloat), (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(many({4}, DType::kFloat), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(many({1 << 20}, DType::kString), (std::vector<std::int64_t>{64}));
  EXPECT_EQ(min_max_variable_partitioner({})({1024, 1024}, DType::kFloat), (std::vector<std::int64_t>{1, 1}));
  EXPECT_THROW(many({}, DType::kFloat), Error);
}

TEST(Partitioners, AxisSize) {
  // 64 rows of 256 bytes: 4 in a shard of 1024, 3 in one of 1000.
  EXPECT_EQ(variable_axis_size_partitioner({.max_shard_bytes = 1024})({64, 64}, DType::kFloat),
            (std::vector<std::int64_t>{16, 1}));
  EXPECT_EQ(variable_axis_size_partitioner({.max_shard_bytes = 1000})({64, 64}, DType::kFloat),
            (std::vector<std::int64_t>{22, 1}));
  EXPECT_EQ(variable_axis_size_partitioner({.max_shard_bytes = 1})({64, 64}, DType::kFloat),
            (std::vector<std::int64_t>{64, 1}));
  EXPECT_EQ(variable_axis_size_partitioner({.max_shard_bytes = 1, .max_shards = 5})({64, 64}, DType::kFloat),
            (std::vector<std::int64_t>{5, 1}));
  EXPECT_EQ(variable_axis_size_partitioner({.max_shard_bytes = 1})({0, 64}, DType::kFloat),
            (std::vector<std::int64_t>{1, 1}));
  EXPECT_THROW(variable_axis_size_partitioner({}), Error);
}

}  // namespace tutti::partitioned_variable_test
