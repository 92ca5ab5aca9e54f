// Variants as TensorFlow writes them: the three fields of a VariantTensorDataProto.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/core/status.h"
#include "tutti/core/tensor.h"
#include "tutti/graph/tensor_codec.h"

namespace tutti {

// Each variant puts two messages into one another, and protobuf reads a hundred: those of the graphs and calls around
// them have the rest.
inline constexpr int kMaxWrittenVariantDepth = 40;
// As much as protobuf allows one message.
inline constexpr std::int64_t kMaxWrittenVariantBytes = (std::int64_t{1} << 31) - 1;

struct VariantData {
  std::string type_name;  // empty: the variant holds nothing
  std::string metadata;
  std::vector<Tensor> tensors;
};

// Whether the variants of a tensor, and those within them, can be written, and read again within a budget such as
// `readers`: kUnimplemented names a type that has no bytes, kInvalidArgument a depth or size that is too large. An
// object that is held several times is written as often, and counts so here, which takes time by the number of objects
// only.
Status check_writable(const Tensor& variants, const ExpansionBudget& readers = {});
// REQUIRES: check_writable() of the tensor that it, or an object around it, lies in.
VariantData to_variant_data(const Variant& variant);

// kUnimplemented names a type that Tutti does not know; kInvalidArgument says what does not fit together;
// kResourceExhausted when items that were never set, a few bits each in the metadata, take more than `budget` has.
Result<Variant> from_variant_data(VariantData data, ExpansionBudget& budget);

// What readers count, and check_writable() with them: the places of elements that are variants, and of strings and
// handles in variants. A byte or two of a message are one. To be called before they are made.
Status take_objects(DType dtype, const Shape& shape, ExpansionBudget& budget);

// A variant that is being read: while this lives, `budget` counts it among those around its tensors.
class VariantReading {
 public:
  explicit VariantReading(ExpansionBudget& budget) : budget_(budget) { ++budget_.variants_around; }
  ~VariantReading() { --budget_.variants_around; }
  VariantReading(const VariantReading&) = delete;
  VariantReading& operator=(const VariantReading&) = delete;

  // kInvalidArgument when it lies too deep in others.
  Status check_depth() const;
  // To be called for each of its tensors, before that is made.
  Status count_tensor();

 private:
  ExpansionBudget& budget_;
};

}  // namespace tutti
