#include "tutti/graph/internal/proto_util.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <climits>

namespace tutti {

std::string serialize(const google::protobuf::MessageLite& message) {
  std::string bytes;
  bytes.reserve(message.ByteSizeLong());
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

Status parse_message(std::string_view bytes, std::string_view what, google::protobuf::MessageLite* message) {
  if (bytes.size() > INT_MAX) {
    return invalid_argument(what, " of ", bytes.size(), " bytes is over the limit of ", INT_MAX);
  }
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetTotalBytesLimit(INT_MAX);
  if (message->ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage()) return {};
  return invalid_argument(what, " of ", bytes.size(), " bytes is cut short or malformed");
}

}  // namespace tutti
