#include "tutti/graph/tensor_bytes.h"

#include <limits>

#include "proto/tensor.pb.h"
#include "tutti/graph/tensor_codec.h"

namespace tutti {

Result<Tensor> tensor_from_bytes(std::string_view bytes) {
  tensorflow::TensorProto proto;
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return invalid_argument("Could not parse ", bytes.size(), " bytes as TensorProto");
  }
  return decode_tensor(proto);
}

Result<std::string> tensor_to_bytes(const Tensor& tensor) {
  tensorflow::TensorProto proto;
  TUTTI_RETURN_IF_ERROR(encode_tensor(tensor, &proto));
  std::string bytes;
  if (proto.ByteSizeLong() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !proto.SerializeToString(&bytes)) {
    return invalid_argument("a tensor of shape ", tensor.shape(), " is too large for one message");
  }
  return bytes;
}

}  // namespace tutti
