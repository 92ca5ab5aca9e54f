#include "tutti/graph/tensor_bytes.h"

#include <limits>

#include "proto/tensor.pb.h"
#include "tutti/graph/tensor_codec.h"

namespace tutti {

namespace {

constexpr auto kLongestMessage = static_cast<std::size_t>(std::numeric_limits<int>::max());

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

Result<std::string> tensor_to_bytes(const Tensor& tensor, StringElements strings) {
  if (tensor.dtype() == DType::kVariant || tensor.dtype() == DType::kResource) {
    return unimplemented("tensors of ", dtype_name(tensor.dtype()), " have no bytes");
  }
  tensorflow::TensorProto proto;
  TUTTI_RETURN_IF_ERROR(encode_tensor(tensor, &proto));
  if (tensor.dtype() == DType::kString && strings == StringElements::kPacked) {
    clear_elements(&proto);
    if (tensor.num_elements() > 0) proto.set_tensor_content(packed_strings(tensor));
  }
  std::string bytes;
  if (proto.ByteSizeLong() > kLongestMessage || !proto.SerializeToString(&bytes)) {
    return invalid_argument("a tensor of shape ", tensor.shape(), " is too large for one message");
  }
  return bytes;
}

Result<Tensor> tensor_from_bytes(std::string_view bytes) {
  tensorflow::TensorProto proto;
  if (bytes.size() > kLongestMessage || !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return invalid_argument("Could not parse ", bytes.size(), " bytes as TensorProto");
  }
  return decode_tensor(proto);
}

}  // namespace tutti
