// Paths as text.
#pragma once

#include <string>
#include <string_view>

#include "tutti/core/file_system.h"

namespace tutti {

// What comes before the last '/', or "." when there is none, or "/" when that is all: a directory that can be opened.
std::string directory_of(std::string_view path);
// What comes after the last '/'.
std::string_view base_name(std::string_view path);

// Makes the directory that `path` lies in, parents included.
Status make_directory_of(FileSystem& fs, std::string_view path);

// `path` with an ending that no other writer uses: where a file is written before it gets its name.
std::string temporary_name(std::string_view path);

// "base-00003-of-00010".
std::string sharded_name(std::string_view base, int shard, int num_shards);

}  // namespace tutti
