// The feature lists of serialised SequenceExamples into tensors. Their contexts are as Examples (example_batch.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tutti/ops/host/internal/example_batch.h"

namespace tutti {

// A list of which every step has as many values; examples are padded to the longest.
struct DenseList {
  std::string key;
  DType dtype = DType::kInvalid;
  Shape shape = {};  // of a step
  bool may_be_missing = false;
};

struct SequenceSpec {
  std::vector<ListFeature> sparse;
  std::vector<DenseList> dense;
  std::vector<ListFeature> ragged;
};

// Where in a kernel's outputs each kind begins.
struct SequenceOutputs {
  int sparse_indices = 0, sparse_values = 0, sparse_shapes = 0, dense_values = 0;
  int dense_lengths = -1;  // below 0: the op has none
  int ragged_values = 0, outer_splits = 0, inner_splits = 0;
};

// As parse_examples.
Status parse_feature_lists(KernelContext& ctx, std::span<const std::string> serialized,
                           std::span<const std::string> names, bool single, const SequenceSpec& spec,
                           const SequenceOutputs& outputs);

}  // namespace tutti
