// SparseToDense, ListDiff, Cumprod, DeepCopy, strings in arithmetic: errors and edges. Values are compared with
// TensorFlow's in tests/interop/check_errors.py.
#include <gtest/gtest.h>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/op_evaluator.h"

namespace tutti::rare_ops_test {

using Ints = std::vector<std::int32_t>;

Result<std::vector<Tensor>> try_op(const std::string& op, const AttrMap& attrs, const std::vector<Tensor>& inputs) {
  return evaluate_op(*builtin_ops(), op, attrs, inputs);
}
Tensor ints(Ints values) { return Tensor::vector<std::int32_t>(values); }
Tensor scalar(float value) { return Tensor::scalar(value); }

TEST(SparseToDense, FitsOrSaysWhatDoesNot) {
  const Tensor two = Tensor::vector<float>({1, 2});
  const auto message = [&](const Tensor& indices, const Tensor& shape, const Tensor& values, bool validate = true) {
    return try_op("SparseToDense", {{"validate_indices", validate}}, {indices, shape, values, scalar(0)})
        .status()
        .message();
  };
  EXPECT_EQ(message(ints({1, 3}), ints({5}), two), "");
  EXPECT_EQ(message(ints({1, 5}), ints({5}), two), "indices[1] = [5] is out of bounds: need 0 <= index < [5]");
  EXPECT_EQ(message(ints({-1, 3}), ints({5}), two, false), "indices[0] = [-1] is out of bounds: need 0 <= index < [5]");
  EXPECT_EQ(message(ints({3, 3}), ints({5}), two), "indices[1] = [3] is repeated");
  EXPECT_EQ(message(ints({3, 3}), ints({5}), two, false), "");
  EXPECT_NE(message(ints({3, 1}), ints({5}), two).find("indices[1] = [1] is out of order"), std::string::npos);
  EXPECT_EQ(message(ints({1, 3}), ints({5, 5}), two), "output_shape has incorrect number of elements: 2 should be: 1");
  EXPECT_EQ(message(ints({1, 3}), ints({5}), Tensor::vector<float>({1})),
            "sparse_values has incorrect shape [1], should be [] or [2]");
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const Tensor wide = Tensor::of<std::int64_t>({1, 2}, {0, 0});
  EXPECT_NE(message(wide, Tensor::vector<std::int64_t>({most, most}), Tensor::vector<float>({1})), "");
}

TEST(SparseToDense, NoCoordinates) {
  const Tensor out = (*try_op("SparseToDense", {},
                              {Tensor(DType::kInt32, {0, 2}), ints({2, 2}), Tensor(DType::kFloat, {0}), scalar(7)}))[0];
  EXPECT_TRUE(bitwise_equal(out, Tensor::of<float>({2, 2}, {7, 7, 7, 7})));
  // A scalar tensor: coordinates of depth 0.
  const Tensor one = (*try_op("SparseToDense", {},
                              {Tensor(DType::kInt32, {1, 0}), ints({}), Tensor::vector<float>({3}), scalar(7)}))[0];
  EXPECT_TRUE(bitwise_equal(one, scalar(3)));
}

TEST(ListDiff, KeepsOrderAndPositions) {
  const auto out = *try_op("ListDiff", {}, {ints({1, 2, 3, 2, 5}), ints({2, 9})});
  EXPECT_TRUE(bitwise_equal(out[0], ints({1, 3, 5})));
  EXPECT_TRUE(bitwise_equal(out[1], ints({0, 2, 4})));
  const Tensor wide = Tensor::vector<std::uint64_t>({~std::uint64_t{0}, std::uint64_t{1} << 63});
  EXPECT_EQ((*try_op("ListDiff", {}, {wide, Tensor::vector<std::uint64_t>({~std::uint64_t{0}})}))[0].num_elements(), 1);
  EXPECT_EQ(try_op("ListDiff", {}, {Tensor::scalar(1), ints({1})}).status().code(), Code::kInvalidArgument);
}

TEST(Cumprod, ByHand) {
  const Tensor x = ints({2, 3, 4});
  const auto run = [&](bool exclusive, bool reverse) {
    return (*try_op("Cumprod", {{"exclusive", exclusive}, {"reverse", reverse}}, {x, Tensor::scalar(0)}))[0];
  };
  EXPECT_TRUE(bitwise_equal(run(false, false), ints({2, 6, 24})));
  EXPECT_TRUE(bitwise_equal(run(true, false), ints({1, 2, 6})));
  EXPECT_TRUE(bitwise_equal(run(false, true), ints({24, 12, 4})));
  EXPECT_TRUE(bitwise_equal(run(true, true), ints({12, 4, 1})));
  EXPECT_EQ(try_op("Cumprod", {}, {x, Tensor::scalar(1)}).status().code(), Code::kInvalidArgument);
}

TEST(DeepCopy, HasMemoryOfItsOwn) {
  const Tensor x = Tensor::vector<std::string>({"a", "b"});
  const Tensor copy = (*try_op("DeepCopy", {}, {x}))[0];
  EXPECT_TRUE(bitwise_equal(copy, x));
  EXPECT_NE(copy.raw(), x.raw());
}

TEST(StringArithmetic, AddJoins) {
  const Tensor out =
      (*try_op("Add", {}, {Tensor::of<std::string>({2, 1}, {"a", "b"}), Tensor::vector<std::string>({"x", "y"})}))[0];
  EXPECT_TRUE(bitwise_equal(out, Tensor::of<std::string>({2, 2}, {"ax", "ay", "bx", "by"})));
}

// Element counts that overflow are errors, in the rule that sees them or in the kernel.
TEST(Overflow, IsAnError) {
  const std::int64_t big = std::int64_t{1} << 62;
  const Tensor huge = Tensor::vector<std::int64_t>({big, 4}), ones = Tensor::of<float>({1, 1}, {1});
  for (const auto& [op, inputs] : std::vector<std::pair<std::string, std::vector<Tensor>>>{
           {"Reshape", {ones, huge}},
           {"Fill", {huge, scalar(1)}},
           {"BroadcastTo", {ones, huge}},
           {"Tile", {Tensor::of<float>({2, 2}, {1, 2, 3, 4}), huge}},
           {"ScatterNd", {Tensor::of<std::int64_t>({1, 2}, {0, 0}), Tensor::vector<float>({1}), huge}},
           {"Range", {Tensor::scalar(-big * 2), Tensor::scalar(big), Tensor::scalar(std::int64_t{1})}}}) {
    const Status status = try_op(op, {}, inputs).status();
    EXPECT_TRUE(status.code() == Code::kInvalidArgument || status.code() == Code::kResourceExhausted)
        << op << ": " << status.to_string();
    Graph graph(builtin_ops());
    std::vector<Output> unseen;
    for (const Tensor& input : inputs) {
      unseen.push_back(add_op(graph, "Const", {}, {{"dtype", input.dtype()}, {"value", input}})->output());
    }
    try {
      add_op(graph, op, unseen);  // either answer will do, as long as there is one
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidArgument) << op << ": " << error.what();
    }
  }
}

}  // namespace tutti::rare_ops_test
