#include "tests/ops/sparse_samples.h"

#include <random>
#include <utility>

namespace tutti::testing {
namespace {

using Kind = SampleInput::Kind;

class SparseSamples {
 public:
  SampleInput value(const Shape& shape, double low = -2, double high = 2) {
    Tensor tensor(DType::kDouble, shape);
    std::uniform_real_distribution<double> uniform(low, high);
    for (double& element : tensor.flat<double>()) element = uniform(random_);
    return {tensor, Kind::kValue};
  }
  static SampleInput ids(std::vector<std::int32_t> values) { return {Tensor::vector<std::int32_t>(values)}; }
  static SampleInput count(std::int32_t value) { return {Tensor::scalar(value)}; }
  // Rows of `rank` indices.
  static SampleInput places(std::int64_t rank, std::vector<std::int64_t> values) {
    return {Tensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(values.size()) / rank, rank}, values)};
  }
  static SampleInput sizes(std::vector<std::int64_t> values) { return {Tensor::vector<std::int64_t>(values)}; }

  OpSample& add(std::string op, std::vector<SampleInput> inputs, AttrMap attrs = {}) {
    samples_.push_back({.op = std::move(op), .attrs = std::move(attrs), .inputs = std::move(inputs)});
    return samples_.back();
  }
  std::vector<OpSample> take() { return std::move(samples_); }

 private:
  std::mt19937 random_{20240301};
  std::vector<OpSample> samples_;
};

using S = SparseSamples;

void add_segments(S& s) {
  for (const char* op : {"SegmentMean", "SegmentProd", "SegmentMin", "SegmentMax"}) {
    s.add(op, {s.value({5, 2}), S::ids({0, 0, 0, 2, 2})});
  }
  for (const char* op : {"UnsortedSegmentProd", "UnsortedSegmentMin", "UnsortedSegmentMax"}) {
    s.add(op, {s.value({5, 2}), S::ids({2, 0, -1, 2, 1}), S::count(3)});
    s.add(op, {s.value({4}), S::ids({1, 1, 0, 1}), S::count(2)});
  }
  for (const std::string law : {"Sum", "Mean", "SqrtN"}) {
    for (const bool sparse : {false, true}) {
      const AttrMap attrs = {{"sparse_gradient", sparse}};
      s.add("SparseSegment" + law, {s.value({4, 3}), S::ids({1, 3, 1, 0}), S::ids({0, 0, 2, 2})}, attrs);
      s.add("SparseSegment" + law + "WithNumSegments",
            {s.value({4, 3}), S::ids({1, 3, 1, 0}), S::ids({0, 0, 2, 2}), S::count(4)}, attrs);
    }
  }
}

void add_sparse_tensors(S& s) {
  const SampleInput places = S::places(2, {0, 1, 0, 2, 2, 0}), shape = S::sizes({3, 3});
  s.add("SparseFillEmptyRows", {places, s.value({3}), shape, s.value({})});
  s.add("SparseReorder", {S::places(2, {2, 0, 0, 2, 0, 1}), s.value({3}), shape});
  s.add("SparseSlice", {places, s.value({3}), shape, S::sizes({0, 1}), S::sizes({2, 2})});
  s.add("SparseAdd", {places, s.value({3}), shape, S::places(2, {0, 2, 1, 1}), s.value({2}), shape,
                      SampleInput{Tensor::scalar(0.0)}});
  s.add("SparseTensorDenseAdd", {places, s.value({3}), shape, s.value({3, 3})});
  for (const char* op : {"SparseDenseCwiseMul", "SparseDenseCwiseDiv"}) {
    s.add(op, {places, s.value({3}), shape, s.value({3, 3}, 0.5, 2)});
    s.add(op, {places, s.value({3}), shape, s.value({3, 1}, 0.5, 2)});
    s.add(op, {places, s.value({3}), shape, s.value({3}, 0.5, 2)});
  }
  s.add("SparseSoftmax", {places, s.value({3}), shape});
  for (const bool keep : {false, true}) {
    s.add("SparseReduceSum", {places, s.value({3}), shape, S::ids({-1})}, {{"keep_dims", keep}});
    s.add("SparseReduceSum", {places, s.value({3}), shape, S::ids({0, 1})}, {{"keep_dims", keep}});
  }
}

void add_ragged(S& s) {
  const SampleInput outer = S::sizes({0, 2, 2, 3}), inner = S::sizes({0, 1, 3, 4});
  s.add("RaggedTensorToSparse", {outer, inner, s.value({4, 2})});
  s.add("RaggedGather", {outer, inner, s.value({4, 2}), S::ids({2, 0, 0})},
        {{"PARAMS_RAGGED_RANK", std::int64_t{2}}, {"OUTPUT_RAGGED_RANK", std::int64_t{2}}});
  const AttrMap attrs = {{"row_partition_types", std::vector<std::string>{"ROW_SPLITS", "ROW_SPLITS"}},
                         {"num_row_partition_tensors", std::int64_t{2}}};
  s.add("RaggedTensorToTensor", {S::sizes({-1, -1, 1, 2}), s.value({4, 2}), s.value({2}), outer, inner}, attrs);
  s.add("RaggedTensorToTensor", {S::sizes({4, 3, -1, 2}), s.value({4, 2}), s.value({}), outer, inner}, attrs);
}

}  // namespace

std::vector<OpSample> sparse_gradient_samples() {
  SparseSamples samples;
  add_segments(samples);
  add_sparse_tensors(samples);
  add_ragged(samples);
  return samples.take();
}

}  // namespace tutti::testing
