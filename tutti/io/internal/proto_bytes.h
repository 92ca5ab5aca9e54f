// Messages from and to the bytes of files.
#pragma once

#include <string>
#include <string_view>

#include "tutti/core/shape.h"
#include "tutti/core/status.h"

namespace google::protobuf {
class MessageLite;
}
namespace tensorflow {
class TensorShapeProto;
class VersionDef;
}  // namespace tensorflow

namespace tutti {

// kDataLoss, naming `what`, when the bytes are no such message.
Status parse_stored(std::string_view bytes, std::string_view what, google::protobuf::MessageLite* message);
std::string stored_bytes(const google::protobuf::MessageLite& message);

// The shape of a stored tensor: every dimension known. kDataLoss otherwise.
Result<Shape> stored_shape(const tensorflow::TensorShapeProto& proto);
void set_stored_shape(const Shape& shape, tensorflow::TensorShapeProto* proto);

// Whether the reader of a format, itself of version `reader`, may read what a writer marked with `version`.
Status check_stored_version(const tensorflow::VersionDef& version, int reader);

}  // namespace tutti
