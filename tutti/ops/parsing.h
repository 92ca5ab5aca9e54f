// Builders that turn strings into tensors, named as in TensorFlow's tf.io. They throw Error.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tutti/graph/graph.h"

namespace tutti::io {

// A feature with as many values in every example. `default_value` of no elements: every example must have it. With an
// open first dimension examples are padded, by the one element of `default_value`.
struct FixedLenFeature {
  std::string key;
  PartialShape shape;
  DType dtype = DType::kFloat;  // kFloat, kInt64 or kString
  Tensor default_value = {};    // nothing: as of no elements
};

// A feature of any length, as a sparse tensor.
struct VarLenFeature {
  std::string key;
  DType dtype = DType::kFloat;
};

struct SparseOutputs {
  Output indices;  // [values, 2]: the example, the place in it
  Output values;
  Output dense_shape;
};

struct ParsedExamples {
  std::map<std::string, Output> dense;  // by key
  std::map<std::string, SparseOutputs> sparse;
};

// `serialized`: a vector of serialised Examples.
ParsedExamples parse_example(Output serialized, const std::vector<FixedLenFeature>& dense,
                             const std::vector<VarLenFeature>& sparse = {}, const std::string& name = "");

// One output per default, each of the shape of `records`. A default is one element, or none where the field is
// required.
std::vector<Output> decode_csv(Output records, const std::vector<Tensor>& record_defaults,
                               const std::string& field_delim = ",", const std::string& name = "");

Output serialize_tensor(Output tensor, const std::string& name = "");
Output parse_tensor(Output serialized, DType out_type, const std::string& name = "");

}  // namespace tutti::io
