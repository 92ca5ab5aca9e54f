// libFuzzer target: bytes are a serialised Example or SequenceExample, lines of values, a serialised tensor or a sound
// file, as the first byte says, and go through the ops that parse them. Anything may fail, with a status; nothing may
// crash, read out of bounds or hang.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/ops/op_evaluator.h"

extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=2048:detect_leaks=0"; }

namespace tutti {
namespace {

using Types = std::vector<DType>;
using Shapes = std::vector<PartialShape>;

Tensor words(const std::vector<std::string>& values) { return Tensor::vector<std::string>(values); }

// The same bytes twice, and an example without features: features of every kind are asked for.
void parse_example(const OpTable& ops, const std::string& bytes) {
  const Types all{DType::kFloat, DType::kInt64, DType::kString};
  (void)evaluate_op(
      ops, "ParseExampleV2",
      {{"Tdense", Types{DType::kFloat, DType::kInt64, DType::kString}},
       {"num_sparse", 3},
       {"sparse_types", all},
       {"ragged_value_types", all},
       {"ragged_split_types", Types{DType::kInt32, DType::kInt64, DType::kInt64}},
       {"dense_shapes", Shapes{PartialShape{2}, PartialShape{kUnknownDim}, PartialShape{kUnknownDim, 2}}}},
      {words({bytes, "", bytes}), words({}), words({"a", "b", "c"}), words({"d", "e", "f"}), words({"g", "h", "i"}),
       Tensor::vector<float>({1, 2}), Tensor::scalar(std::int64_t{3}), Tensor::scalar(std::string("x"))});
}

void parse_sequence(const OpTable& ops, const std::string& bytes) {
  const Types all{DType::kFloat, DType::kInt64, DType::kString};
  (void)evaluate_op(ops, "ParseSequenceExampleV2",
                    {{"Ncontext_sparse", 1},
                     {"context_sparse_types", Types{DType::kInt64}},
                     {"Nfeature_list_sparse", 3},
                     {"feature_list_sparse_types", all},
                     {"Nfeature_list_dense", 3},
                     {"feature_list_dense_types", all},
                     {"feature_list_dense_shapes", Shapes{PartialShape{2}, PartialShape::scalar(), PartialShape{0}}},
                     {"feature_list_ragged_value_types", all},
                     {"feature_list_ragged_split_types", Types{DType::kInt32, DType::kInt64, DType::kInt64}}},
                    {words({bytes, "", bytes}), words({}), words({"a"}), words({}), words({}), words({"b", "c", "d"}),
                     words({"e", "f", "g"}), words({"h", "i", "j"}), Tensor::of<bool>({3}, {true, true, true})});
}

void parse_lines(const OpTable& ops, const std::string& bytes, unsigned how) {
  const std::size_t half = bytes.size() / 2;
  (void)evaluate_op(
      ops, "DecodeCSV",
      {{"OUT_TYPE", Types{DType::kInt32, DType::kString, DType::kDouble}},
       {"use_quote_delim", (how & 4) != 0},
       {"na_value", (how & 8) != 0 ? "NA" : ""},
       {"select_cols", (how & 16) != 0 ? std::vector<std::int64_t>{0, 2, 3} : std::vector<std::int64_t>{}}},
      {words({bytes.substr(0, half), bytes.substr(half)}), Tensor::vector<std::int32_t>({1}), words({"none"}),
       Tensor(DType::kDouble, Shape{0})});
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const OpTable& ops = *builtin_ops();
  switch (data[0] % 8) {
    case 1:
      parse_sequence(ops, bytes);
      break;
    case 2:
    case 6:
      parse_lines(ops, bytes, data[0]);
      break;
    case 3:
      (void)evaluate_op(ops, "ParseTensor", {{"out_type", DType::kFloat}}, {Tensor::scalar(bytes)});
      break;
    case 4:
      (void)evaluate_op(ops, "DecodeWav", {{"desired_channels", 2}}, {Tensor::scalar(bytes)});
      break;
    default:
      parse_example(ops, bytes);
  }
  return 0;
}
