// Messages to bytes and back.
#pragma once

#include <google/protobuf/message_lite.h>

#include <string>
#include <string_view>

#include "tutti/core/status.h"

namespace tutti {

// The same bytes for the same message: map entries are sorted.
std::string serialize(const google::protobuf::MessageLite& message);
// kInvalidArgument, naming `what`, when the bytes are cut short, malformed or over 2 GiB.
Status parse_message(std::string_view bytes, std::string_view what, google::protobuf::MessageLite* message);

}  // namespace tutti
