// Lists that are gathered, scattered, cut and joined: what is refused, and items that were never set.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/kernel_runner.h"

namespace tutti::list_part_ops_test {

using testing::KernelRunner;
using testing::value_of;

Tensor ints(std::initializer_list<std::int32_t> values) { return Tensor::vector<std::int32_t>(values); }
Tensor longs(std::initializer_list<std::int64_t> values) { return Tensor::vector<std::int64_t>(values); }

class ListPartOps : public ::testing::Test {
 protected:
  std::unique_ptr<testing::KernelRun> run(const std::string& op, AttrMap attrs, const std::vector<Tensor>& inputs) {
    std::vector<Value> values;
    for (const Tensor& input : inputs) values.push_back(value_of(input));
    return runner_.run(op + std::to_string(count_++), op, std::move(attrs), std::move(values));
  }
  Tensor get(const std::string& op, AttrMap attrs, const std::vector<Tensor>& inputs) {
    auto done = run(op, std::move(attrs), inputs);
    EXPECT_TRUE(done->status().ok()) << done->status().to_string();
    return done->tensor(0);
  }
  void expect_fails(const std::string& op, AttrMap attrs, const std::vector<Tensor>& inputs, const std::string& text) {
    const Status status = run(op, std::move(attrs), inputs)->status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.to_string();
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  }

  const Tensor any_ = Tensor::scalar(std::int32_t{-1});
  const Tensor rows_ = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
  const AttrMap floats_{{"element_dtype", DType::kFloat}};
  KernelRunner runner_;
  int count_ = 0;
};

TEST_F(ListPartOps, ScattersAndGathers) {
  const Tensor list = get("TensorListScatterV2", {}, {rows_, ints({3, 0}), any_, Tensor::scalar(std::int32_t{5})});
  const Tensor got = get("TensorListGather", floats_, {list, ints({0, 1, 3}), any_});
  EXPECT_TRUE(bitwise_equal(got, Tensor::of<float>({3, 2}, {3, 4, 0, 0, 1, 2}))) << got.to_string();
  expect_fails("TensorListGather", floats_, {list, ints({5}), any_}, "element 5 in a list with 5");
  expect_fails("TensorListGather", floats_, {list, ints({1}), any_}, "non-fully-defined");
  expect_fails("TensorListScatterV2", {}, {rows_, ints({3, 0}), any_, Tensor::scalar(std::int32_t{3})}, "index 3");
  expect_fails("TensorListScatter", {}, {rows_, ints({-1, 0}), any_}, "non-negative");
  expect_fails("TensorListScatter", {}, {rows_, ints({0}), any_}, "rows");
  const Tensor far = ints({0, std::numeric_limits<std::int32_t>::max()});
  EXPECT_EQ(run("TensorListScatter", {}, {rows_, far, any_})->status().code(), Code::kResourceExhausted);
  expect_fails("TensorListResize", {}, {list, Tensor::scalar(std::int32_t{-2})}, "non-negative");
}

TEST_F(ListPartOps, CutsAndJoins) {
  const Tensor list = get("TensorListSplit", {}, {rows_, any_, longs({0, 2})});
  EXPECT_TRUE(bitwise_equal(get("TensorListConcat", floats_, {list}), rows_));
  const Tensor longer = get("TensorListResize", {}, {list, Tensor::scalar(std::int32_t{3})});
  expect_fails("TensorListConcatV2", floats_, {longer, any_, longs({})}, "uninitialized tensor at index 2");
  const Tensor joined = get("TensorListConcatV2", floats_, {longer, any_, longs({0, 2, 1})});
  EXPECT_TRUE(bitwise_equal(joined, Tensor::of<float>({3, 2}, {1, 2, 3, 4, 0, 0}))) << joined.to_string();
  expect_fails("TensorListSplit", {}, {rows_, any_, longs({1})}, "Unused values");
  expect_fails("TensorListSplit", {}, {rows_, any_, longs({3})}, "length 2");
  expect_fails("TensorListSplit", {}, {rows_, any_, longs({-1, 3})}, "-1");
  constexpr std::int64_t kMany = std::int64_t{1} << 62;
  expect_fails("TensorListConcatV2", floats_, {longer, any_, longs({0, 2, kMany})}, "");
}

// As TensorFlow 2.15 has it.
TEST_F(ListPartOps, JoinsItemsThatWereNeverSet) {
  const Tensor pair = get("TensorListResize", {},
                          {get("TensorListSplit", {}, {rows_, any_, longs({2})}), Tensor::scalar(std::int32_t{2})});
  const Tensor as_the_other = Tensor::of<float>({4, 2}, {1, 2, 3, 4, 0, 0, 0, 0});
  EXPECT_TRUE(bitwise_equal(get("TensorListConcatV2", floats_, {pair, any_, longs({})}), as_the_other));
  EXPECT_TRUE(bitwise_equal(get("TensorListConcatV2", floats_, {pair, ints({-1, 2}), longs({7})}), as_the_other));
  EXPECT_TRUE(bitwise_equal(get("TensorListConcatV2", floats_, {pair, ints({2, 2}), longs({7, 1})}),
                            Tensor::of<float>({3, 2}, {1, 2, 3, 4, 0, 0})));
  expect_fails("TensorListConcatV2", floats_, {pair, ints({3, 2}), longs({})}, "at index: 0 Expected: 3 Actual: 2");
  const Tensor unset =
      get("TensorListReserve", {{"element_dtype", DType::kFloat}}, {any_, Tensor::scalar(std::int32_t{2})});
  expect_fails("TensorListConcatV2", floats_, {unset, any_, longs({1, 1})}, "only uninitialized tensors");
}

TEST_F(ListPartOps, RefusesWhatIsNoList) {
  const Tensor list = get("TensorListScatter", {}, {rows_, ints({0, 1}), any_});
  const Tensor nothing(DType::kVariant, {1});
  expect_fails("TensorListPushBackBatch", {}, {nothing, rows_.slice(0, 1)}, "not a list");
  expect_fails("TensorListPushBackBatch", {}, {nothing, rows_}, "a list for each row");
  expect_fails("TensorListConcatLists", {{"element_dtype", DType::kInt32}}, {list, list}, "Invalid data types");
  expect_fails("TensorListConcatLists", floats_, {list, nothing}, "Incompatible shapes");
}

}  // namespace tutti::list_part_ops_test
