// Einsum against a loop over all labels, in sizes that drawn cases (tests/interop/drawn) do not reach: operands that
// are read where they lie, split between threads, and small ones that are not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "tutti/ops/op_evaluator.h"
#include "tutti/ops/op_table.h"

namespace tutti::einsum_ops_test {

Result<std::vector<Tensor>> try_einsum(const std::string& equation, const std::vector<Tensor>& inputs) {
  return evaluate_op(*builtin_ops(), "Einsum", {{"equation", equation}, {"N", static_cast<int>(inputs.size())}},
                     inputs);
}

template <typename T>
Tensor drawn(const Shape& shape, unsigned seed) {
  Tensor tensor(dtype_of<T>(), shape);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (T& element : tensor.flat<T>()) element = static_cast<T>(uniform(random));
  return tensor;
}

using Sizes = std::map<char, std::int64_t>;

Shape shape_of_term(const std::string& term, const Sizes& sizes) {
  Shape shape;
  for (const char label : term) shape.append(sizes.at(label));
  return shape;
}

std::int64_t offset_in(const std::string& term, const Sizes& sizes, const Sizes& at) {
  std::int64_t offset = 0;
  for (const char label : term) offset = offset * sizes.at(label) + at.at(label);
  return offset;
}

// One label a level.
template <typename T>
void add_up(const std::string& x, const std::string& y, const std::string& out, const Sizes& sizes,
            Sizes::const_iterator label, Sizes& at, const std::array<Tensor, 2>& inputs, std::vector<double>& sums) {
  if (label == sizes.end()) {
    sums[static_cast<std::size_t>(offset_in(out, sizes, at))] +=
        static_cast<double>(inputs[0].data<T>()[offset_in(x, sizes, at)]) *
        static_cast<double>(inputs[1].data<T>()[offset_in(y, sizes, at)]);
    return;
  }
  for (at[label->first] = 0; at[label->first] < label->second; ++at[label->first]) {
    add_up<T>(x, y, out, sizes, std::next(label), at, inputs, sums);
  }
}

template <typename T>
void compare(const std::string& x, const std::string& y, const std::string& out, const Sizes& sizes) {
  SCOPED_TRACE(x + "," + y + "->" + out);
  const std::array<Tensor, 2> inputs{drawn<T>(shape_of_term(x, sizes), 1), drawn<T>(shape_of_term(y, sizes), 2)};
  Result<std::vector<Tensor>> got = try_einsum(x + "," + y + "->" + out, {inputs[0], inputs[1]});
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  const Tensor& result = (*got)[0];
  ASSERT_EQ(result.shape(), shape_of_term(out, sizes));
  std::vector<double> sums(static_cast<std::size_t>(result.num_elements()));
  Sizes at;
  add_up<T>(x, y, out, sizes, sizes.begin(), at, inputs, sums);
  double worst = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    worst = std::max(worst, std::abs(sums[i] - static_cast<double>(result.data<T>()[i])));
  }
  EXPECT_LT(worst, sizeof(T) == 4 ? 1e-4 : 1e-11);
}

TEST(Einsum, AttentionAndDenseLayers) {
  const Sizes sizes{{'a', 3}, {'b', 20}, {'c', 4}, {'d', 18}, {'e', 21}};
  for (const auto& [x, y, out] : std::vector<std::array<std::string, 3>>{{"abd", "de", "abe"},
                                                                         {"abd", "dce", "abce"},
                                                                         {"abcd", "cde", "abe"},
                                                                         {"aecd", "abcd", "acbe"},
                                                                         {"acbe", "aecd", "abcd"},
                                                                         {"acbe", "abcd", "aecd"},
                                                                         {"abe", "abd", "de"},
                                                                         {"abce", "abd", "dce"}}) {
    const std::string used = x + y + out;
    Sizes own;
    for (const auto& [label, size] : sizes) {
      if (used.find(label) != std::string::npos) own[label] = size;
    }
    compare<float>(x, y, out, own);
    compare<double>(x, y, out, own);
  }
}

TEST(Einsum, OddOrdersAndDiagonals) {
  const Sizes sizes{{'i', 17}, {'j', 30}, {'k', 33}};
  compare<float>("ij", "jk", "ki", sizes);
  compare<float>("ji", "kj", "ik", sizes);
  compare<float>("jij", "jk", "ik", sizes);    // along the diagonal of j
  compare<float>("ij", "jk", "iki", sizes);    // onto the diagonal of i
  compare<float>("ijk", "jk", "i", sizes);     // a matrix times a vector
  compare<float>("ijk", "jk", "ijk", sizes);   // repeated, without a sum
  compare<float>("ijk", "kji", "jik", sizes);  // element by element, transposed
  compare<float>("ijk", "kji", "", sizes);
  compare<float>("ij", "ki", "ijk", sizes);
}

TEST(Einsum, EmptySums) {
  const Tensor none(DType::kFloat, {3, 0}), other(DType::kFloat, {0, 2});
  EXPECT_TRUE(bitwise_equal((*try_einsum("ij,jk->ik", {none, other}))[0], Tensor(DType::kFloat, {3, 2})));
  EXPECT_TRUE(bitwise_equal((*try_einsum("ij->i", {none}))[0], Tensor(DType::kFloat, {3})));
  EXPECT_EQ((*try_einsum("ij,jk->jik", {none, other}))[0].shape(), Shape({0, 3, 2}));
}

TEST(Einsum, Refusals) {
  const Tensor x(DType::kFloat, {2, 3}), y(DType::kFloat, {4, 5});
  const auto expect_refused = [](const Result<std::vector<Tensor>>& result, const std::string& word) {
    ASSERT_FALSE(result.ok()) << word;
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    EXPECT_NE(result.status().message().find(word), std::string::npos) << result.status().to_string();
  };
  expect_refused(try_einsum("ij,jk->ik", {x, y}), "Expected dimension 3 at axis 0 of the input shaped [4,5]");
  expect_refused(try_einsum("ij,jk", {x, y}), "'->'");
  expect_refused(try_einsum("ij->->ik", {x}), "'->'");
  expect_refused(try_einsum("ij,jk,kl->il", {x, y, y}), "1 or 2");
  expect_refused(try_einsum("ij->ij", {x, y}), "inputs");
  expect_refused(try_einsum("ijk->i", {x}), "rank 3");
  expect_refused(try_einsum("ijk...->i...", {x}), "rank at least 3");
  expect_refused(try_einsum("i...->i", {x}), "ellipsis");
  expect_refused(try_einsum("......->...", {x}), "ellipsis");
  expect_refused(try_einsum("ij->ik", {x}), "in no input");
  const Tensor huge(DType::kFloat, {std::int64_t{1} << 31, 0}), flat(DType::kFloat, {std::int64_t{1} << 33, 0});
  expect_refused(try_einsum("ab,cd->ac", {huge, flat}), "");
}

}  // namespace tutti::einsum_ops_test
