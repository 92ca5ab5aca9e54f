#pragma once

#include <string>
#include <string_view>

#include "tutti/core/strings.h"

namespace tutti::internal {

inline std::string join_path(std::string_view directory, std::string_view name) {
  if (directory.empty()) return std::string(name);
  return str_cat(directory, directory.ends_with('/') ? "" : "/", name);
}

}  // namespace tutti::internal
