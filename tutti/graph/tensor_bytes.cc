#include "tutti/graph/tensor_bytes.h"

#include "proto/tensor.pb.h"
#include "tutti/graph/tensor_codec.h"

namespace tutti {

namespace {

void append_varint(std::uint64_t value, std::string* bytes) {
  for (; value >= 0x80; value >>= 7) bytes->push_back(static_cast<char>(value | 0x80));
  bytes->push_back(static_cast<char>(value));
}

// The lengths of all, then all.
std::string packed_strings(const Tensor& tensor) {
  std::string bytes;
  for (const std::string& text : tensor.flat<std::string>()) append_varint(text.size(), &bytes);
  for (const std::string& text : tensor.flat<std::string>()) bytes += text;
  return bytes;
}

}  // namespace

Result<std::string> tensor_to_bytes(const Tensor& tensor) {
  if (tensor.dtype() == DType::kVariant || tensor.dtype() == DType::kResource) {
    return unimplemented("tensors of ", dtype_name(tensor.dtype()), " have no bytes");
  }
  tensorflow::TensorProto proto;
  TUTTI_RETURN_IF_ERROR(encode_tensor(tensor, &proto));
  if (tensor.dtype() == DType::kString) {
    clear_elements(&proto);
    if (tensor.num_elements() > 0) proto.set_tensor_content(packed_strings(tensor));
  }
  return proto.SerializeAsString();
}

Result<Tensor> tensor_from_bytes(std::string_view bytes) {
  tensorflow::TensorProto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return invalid_argument("Could not parse serialized proto of ", bytes.size(), " bytes");
  }
  return decode_tensor(proto);
}

}  // namespace tutti
