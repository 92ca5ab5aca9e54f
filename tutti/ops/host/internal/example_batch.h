// Batches of serialised Examples into tensors.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/io/examples/feature_wire.h"
#include "tutti/io/examples/key_table.h"
#include "tutti/kernels/kernel.h"

namespace tutti {

// A feature of which every example has as many values, or, with an open first dimension, is padded to as many.
struct DenseFeature {
  std::string key;
  DType dtype = DType::kInvalid;
  PartialShape shape = {};
  bool variable = false;      // the first dimension is open
  std::int64_t stride = 0;    // values of one entry of the open dimension, or of the whole shape
  Tensor default_value = {};  // no elements: the feature must be there; of a variable one, what it is padded with
};

// A feature of any length, given as a sparse tensor or as a ragged one.
struct ListFeature {
  std::string key;
  DType dtype = DType::kInvalid;
  DType splits = DType::kInt64;  // of a ragged one
};

struct ExampleSpec {
  std::vector<ListFeature> sparse;
  std::vector<DenseFeature> dense;
  std::vector<ListFeature> ragged;
};

// Types and shapes of dense features. kInvalidArgument for a rank or an inner dimension that is not known.
Status set_dense_shapes(std::span<const DType> types, std::span<const PartialShape> shapes, ExampleSpec* spec);
// Checks defaults against the shapes and takes them.
Status set_dense_default(std::size_t i, const Tensor& value, ExampleSpec* spec);

// Where in a kernel's outputs each kind begins.
struct ExampleOutputs {
  int sparse_indices = 0, sparse_values = 0, sparse_shapes = 0, dense_values = 0, ragged_values = 0, ragged_splits = 0;
};

// Parses all of `serialized` and sets the outputs. `names` are for messages: none, or one each. `single`: there is one
// example, and outputs have no dimension for the batch. Everything malformed is kInvalidArgument, naming the example,
// the feature and the values.
Status parse_examples(KernelContext& ctx, std::span<const std::string> serialized, std::span<const std::string> names,
                      bool single, const ExampleSpec& spec, const ExampleOutputs& outputs);

}  // namespace tutti
