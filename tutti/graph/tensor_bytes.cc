#include "tutti/graph/tensor_bytes.h"

#include <limits>

#include "proto/tensor.pb.h"
#include "tutti/core/varints.h"
#include "tutti/graph/tensor_codec.h"
#include "tutti/graph/variant_data.h"

namespace tutti {

namespace {

constexpr auto kLongestMessage = static_cast<std::size_t>(std::numeric_limits<int>::max());

// The lengths of all, then all.
std::string packed(std::span<const std::string> pieces) {
  std::string bytes;
  for (const std::string& piece : pieces) append_varint(piece.size(), &bytes);
  for (const std::string& piece : pieces) bytes += piece;
  return bytes;
}

Result<std::string> message_bytes(const google::protobuf::MessageLite& message, const Tensor& tensor) {
  std::string bytes;
  if (message.ByteSizeLong() > kLongestMessage || !message.SerializeToString(&bytes)) {
    return invalid_argument("a tensor of shape ", tensor.shape(), " is too large for one message");
  }
  return bytes;
}

// Type and shape, elements end to end.
tensorflow::TensorProto packed_message(const Tensor& tensor, std::span<const std::string> pieces) {
  tensorflow::TensorProto proto;
  proto.set_dtype(static_cast<tensorflow::DataType>(tensor.dtype()));
  encode_shape(tensor.shape(), proto.mutable_tensor_shape());
  if (!pieces.empty()) proto.set_tensor_content(packed(pieces));
  return proto;
}

}  // namespace

Result<std::string> tensor_to_bytes(const Tensor& tensor, StringElements strings) {
  if (tensor.dtype() == DType::kResource) {
    return unimplemented("tensors of ", dtype_name(tensor.dtype()), " have no bytes");
  }
  if (tensor.dtype() == DType::kVariant) {
    TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> elements, variants_to_bytes(tensor));
    return message_bytes(packed_message(tensor, elements), tensor);
  }
  if (tensor.dtype() == DType::kString && strings == StringElements::kPacked) {
    return message_bytes(packed_message(tensor, tensor.flat<std::string>()), tensor);
  }
  tensorflow::TensorProto proto;
  TUTTI_RETURN_IF_ERROR(encode_tensor(tensor, &proto));
  return message_bytes(proto, tensor);
}

Result<Tensor> tensor_from_bytes(std::string_view bytes) {
  tensorflow::TensorProto proto;
  if (bytes.size() > kLongestMessage || !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return invalid_argument("Could not parse ", bytes.size(), " bytes as TensorProto");
  }
  return decode_tensor(proto);
}

Result<std::vector<std::string>> variants_to_bytes(const Tensor& tensor) {
  TUTTI_RETURN_IF_ERROR(check_writable(tensor));
  std::vector<std::string> elements;
  for (const Variant& variant : tensor.flat<Variant>()) {
    tensorflow::VariantTensorDataProto proto;
    encode_variant(variant, NestedElements::kTyped, &proto);
    TUTTI_ASSIGN_OR_RETURN(std::string bytes, message_bytes(proto, tensor));
    elements.push_back(std::move(bytes));
  }
  return elements;
}

Status variants_from_bytes(std::span<const std::string_view> bytes, Tensor& tensor) {
  ExpansionBudget budget;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    tensorflow::VariantTensorDataProto proto;
    if (bytes[i].size() > kLongestMessage ||
        !proto.ParseFromArray(bytes[i].data(), static_cast<int>(bytes[i].size()))) {
      return invalid_argument("element ", i, " is no variant");
    }
    TUTTI_ASSIGN_OR_RETURN(tensor.data<Variant>()[i], decode_variant(proto, budget));
  }
  return {};
}

}  // namespace tutti
