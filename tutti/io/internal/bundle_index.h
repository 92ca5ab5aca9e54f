// The index of a bundle, in memory.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "tutti/core/file_system.h"

namespace tensorflow {
class BundleHeaderProto;
class BundleEntryProto;
}  // namespace tensorflow

namespace tutti {

struct BundleIndex {
  std::string path;
  std::string header;  // a BundleHeaderProto, checked
  int num_shards = 0;
  std::map<std::string, std::string, std::less<>> entries;  // BundleEntryProtos as they are stored
};

// Checks the table, the version, the byte order and the number of shards. Errors name the file.
Result<BundleIndex> read_bundle_index(FileSystem& fs, std::string_view prefix);

// kDataLoss when the entry is malformed. REQUIRES: `key` is in the index.
Status parse_bundle_entry(const BundleIndex& index, std::string_view key, tensorflow::BundleEntryProto* entry);

}  // namespace tutti
