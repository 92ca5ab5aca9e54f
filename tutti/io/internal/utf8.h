// Text that readers of messages will accept.
#pragma once

#include <string_view>

namespace tutti {

// Whether the bytes are UTF-8: shortest forms only, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view bytes);

}  // namespace tutti
