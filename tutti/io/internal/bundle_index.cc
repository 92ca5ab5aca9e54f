#include "tutti/io/internal/bundle_index.h"

#include "proto/tensor_bundle.pb.h"
#include "tutti/io/internal/bundle_format.h"
#include "tutti/io/internal/proto_bytes.h"
#include "tutti/io/table_reader.h"

namespace tutti {

namespace {

// Keys are stored without what they share with their neighbours, so a small file can hold very many long ones. Names
// as people give them stay far below this.
constexpr std::uint64_t kKeyBytesFree = std::uint64_t{64} << 20;
constexpr std::uint64_t kKeyBytesPerFileByte = 16;

Status check_header(std::string_view bytes, int* num_shards) {
  tensorflow::BundleHeaderProto header;
  TUTTI_RETURN_IF_ERROR(parse_stored(bytes, "the header", &header));
  TUTTI_RETURN_IF_ERROR(check_stored_version(header.version(), kBundleVersion));
  if (header.endianness() != tensorflow::BundleHeaderProto::LITTLE) {
    return unimplemented("the checkpoint was written on a big-endian machine");
  }
  if (header.num_shards() < 1) return data_loss("the header counts ", header.num_shards(), " data files");
  *num_shards = header.num_shards();
  return {};
}

Status read_entries(const TableReader& table, BundleIndex* index) {
  std::uint64_t key_bytes = 0;
  bool first = true;
  TUTTI_RETURN_IF_ERROR(table.scan([&](std::string_view key, std::string_view value) -> Status {
    if (first) {
      first = false;
      if (key != kBundleHeaderKey) return data_loss("the table has no header");
      index->header = value;
      return check_header(value, &index->num_shards);
    }
    key_bytes += key.size();
    if (key_bytes > kKeyBytesFree + kKeyBytesPerFileByte * table.file_bytes()) {
      return data_loss("its names take over ", key_bytes, " bytes");
    }
    index->entries.emplace_hint(index->entries.end(), key, value);
    return {};
  }));
  return first ? data_loss("the table is empty") : Status();
}

}  // namespace

Result<BundleIndex> read_bundle_index(FileSystem& fs, std::string_view prefix) {
  BundleIndex index{.path = bundle_index_path(prefix)};
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<TableReader> table, TableReader::open(fs, index.path));
  const Status read = read_entries(*table, &index);
  if (!read.ok()) return read.with_context(str_cat("checkpoint index \"", printable(index.path), "\""));
  return index;
}

Status parse_bundle_entry(const BundleIndex& index, std::string_view key, tensorflow::BundleEntryProto* entry) {
  return parse_stored(index.entries.find(key)->second, str_cat("the entry of \"", printable(key), "\""), entry)
      .with_context(str_cat("checkpoint index \"", printable(index.path), "\""));
}

}  // namespace tutti
