#include "tutti/io/internal/proto_bytes.h"

#include <google/protobuf/message_lite.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "proto/tensor_shape.pb.h"
#include "proto/versions.pb.h"

namespace tutti {

Status parse_stored(std::string_view bytes, std::string_view what, google::protobuf::MessageLite* message) {
  if (bytes.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max()) &&
      message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return {};
  }
  return data_loss(what, ": ", bytes.size(), " bytes that are no ", message->GetTypeName());
}

std::string stored_bytes(const google::protobuf::MessageLite& message) { return message.SerializeAsString(); }

Result<Shape> stored_shape(const tensorflow::TensorShapeProto& proto) {
  if (proto.unknown_rank()) return data_loss("the stored shape has no rank");
  std::vector<std::int64_t> dims;
  for (const auto& dim : proto.dim()) dims.push_back(dim.size());
  Result<Shape> shape = Shape::create(dims);
  if (!shape.ok()) return data_loss("the stored shape is none: ", shape.status().message());
  return shape;
}

void set_stored_shape(const Shape& shape, tensorflow::TensorShapeProto* proto) {
  proto->Clear();
  for (std::int64_t dim : shape.dims()) proto->add_dim()->set_size(dim);
}

Status check_stored_version(const tensorflow::VersionDef& version, int reader) {
  if (version.min_consumer() > reader) {
    return invalid_argument("the format wants a reader of version ", version.min_consumer(),
                            ", this one is of version ", reader);
  }
  const auto& bad = version.bad_consumers();
  if (std::find(bad.begin(), bad.end(), reader) != bad.end()) {
    return invalid_argument("the format refuses readers of version ", reader);
  }
  return {};
}

}  // namespace tutti
