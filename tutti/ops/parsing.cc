#include "tutti/ops/parsing.h"

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"

namespace tutti::io {

ParsedExamples parse_example(Output serialized, const std::vector<FixedLenFeature>& dense,
                             const std::vector<VarLenFeature>& sparse, const std::string& name) {
  Graph& graph = serialized.graph();
  std::vector<std::string> dense_keys, sparse_keys;
  std::vector<DType> dense_types, sparse_types;
  std::vector<PartialShape> shapes;
  std::vector<Output> defaults;
  for (const FixedLenFeature& feature : dense) {
    dense_keys.push_back(feature.key);
    dense_types.push_back(feature.dtype);
    shapes.push_back(feature.shape);
    const bool given = feature.default_value.has_value();
    defaults.push_back(constant(graph, given ? feature.default_value : Tensor(feature.dtype, Shape{0})));
  }
  for (const VarLenFeature& feature : sparse) {
    sparse_keys.push_back(feature.key);
    sparse_types.push_back(feature.dtype);
  }
  const auto words = [&graph](const std::vector<std::string>& values) {
    return constant(graph, Tensor::vector<std::string>(values));
  };
  std::vector<Output> inputs{serialized, words({}), words(sparse_keys), words(dense_keys), words({})};
  inputs.insert(inputs.end(), defaults.begin(), defaults.end());
  Node* node = add_op(graph, "ParseExampleV2", std::move(inputs),
                      {{"Tdense", dense_types},
                       {"num_sparse", std::ssize(sparse)},
                       {"sparse_types", sparse_types},
                       {"ragged_value_types", std::vector<DType>{}},
                       {"ragged_split_types", std::vector<DType>{}},
                       {"dense_shapes", shapes}},
                      name);
  const auto count = static_cast<int>(sparse.size());
  ParsedExamples parsed;
  for (int i = 0; i < count; ++i) {
    parsed.sparse[sparse_keys[static_cast<std::size_t>(i)]] = {node->output(i), node->output(count + i),
                                                               node->output(2 * count + i)};
  }
  for (std::size_t i = 0; i < dense.size(); ++i) {
    parsed.dense[dense_keys[i]] = node->output(3 * count + static_cast<int>(i));
  }
  return parsed;
}

std::vector<Output> decode_csv(Output records, const std::vector<Tensor>& record_defaults,
                               const std::string& field_delim, const std::string& name) {
  std::vector<Output> inputs{records};
  std::vector<DType> types;
  for (const Tensor& value : record_defaults) {
    inputs.push_back(constant(records.graph(), value));
    types.push_back(value.dtype());
  }
  Node* node = add_op(records.graph(), "DecodeCSV", std::move(inputs),
                      {{"OUT_TYPE", types}, {"field_delim", field_delim}}, name);
  std::vector<Output> columns;
  for (int i = 0; i < node->num_outputs(); ++i) columns.push_back(node->output(i));
  return columns;
}

Output serialize_tensor(Output tensor, const std::string& name) { return op1("SerializeTensor", {tensor}, {}, name); }

Output parse_tensor(Output serialized, DType out_type, const std::string& name) {
  return op1("ParseTensor", {serialized}, {{"out_type", out_type}}, name);
}

}  // namespace tutti::io
