// libFuzzer target: bytes are the index of a checkpoint (or a slice file); all tensors it names are read.
// Anything may fail, with a status; nothing may crash, read out of bounds, hang, or take memory that the files do not
// account for.
//
// Random bytes rarely match a checksum, so the input is a list of keys and values, of which the target makes a table
// whose checksums are right; one input in eight is taken as the file itself. The value of fuzz::kDataKey is the data
// file, of which there is one in any case, and nothing is on disk; in half of the tables the checksums that entries
// keep of it are right too.
#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "bundle_input.h"
#include "memory_files.h"
#include "proto/tensor_bundle.pb.h"
#include "tutti/io/bundle_reader.h"
#include "tutti/io/crc32c.h"
#include "tutti/io/internal/coding.h"
#include "tutti/io/slice_file.h"
#include "tutti/io/table_writer.h"
#include "tutti/ops/host/variant_messages.h"

// What a file may make the reader allocate is bounded by the files, which are small.
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=64:detect_leaks=0"; }

namespace tutti {
namespace {

constexpr std::string_view kPrefix = "/model";

struct Files {
  std::string index;
  std::string data;
};

std::string any_data() {
  std::string data(256, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i);
  return data;
}

// An entry whose checksum is that of the bytes of `data` it points to; other values as they are.
std::string with_checksum(std::string_view value, std::string_view data) {
  tensorflow::BundleEntryProto entry;
  const auto bytes = static_cast<std::int64_t>(data.size());
  if (!entry.ParseFromArray(value.data(), static_cast<int>(value.size())) || entry.size() <= 0 ||
      entry.size() > bytes || entry.offset() < 0 || entry.offset() > bytes - entry.size()) {
    return std::string(value);
  }
  const auto place = static_cast<std::size_t>(entry.offset()), size = static_cast<std::size_t>(entry.size());
  entry.set_crc32c(mask_crc(crc32c(data.substr(place, size))));
  return entry.SerializeAsString();
}

// Pairs, each with its lengths as varints; the order of keys is put right.
Files files_of(std::string_view input, bool with_checksums) {
  std::map<std::string, std::string> entries;
  ByteCursor cursor(input);
  std::uint64_t key_bytes = 0, value_bytes = 0;
  std::string_view key, value;
  while (cursor.varint64(&key_bytes) && cursor.varint64(&value_bytes) && cursor.bytes(key_bytes, &key) &&
         cursor.bytes(value_bytes, &value)) {
    entries.emplace(key, value);
  }
  Files files;
  const auto data = entries.extract(std::string(fuzz::kDataKey));
  files.data = data.empty() ? any_data() : data.mapped();
  fuzz::MemoryWritableFile file(files.index);
  TableWriter table(file);
  for (const auto& [k, v] : entries) (void)table.add(k, with_checksums ? with_checksum(v, files.data) : v);
  (void)table.finish();
  return files;
}

template <typename Reader>
void read_all(const Reader& reader) {
  for (const std::string& name : reader.names()) {
    (void)reader.read(name);
    (void)reader.read_slice(name, TensorSlice({{0, 1}}));
    (void)reader.read_slice(name, TensorSlice({{1, 2}, {}}));
  }
}

void read_everything(Files files) {
  const std::string prefix(kPrefix), index = prefix + ".index";
  fuzz::MemoryFileSystem system;
  system.put(index, std::move(files.index));
  system.put(prefix + ".data-00000-of-00001", std::move(files.data));
  if (const auto bundle = BundleReader::open(system, prefix, &kVariantMessages); bundle.ok()) read_all(**bundle);
  if (const auto old = SliceFileReader::open(system, index); old.ok()) read_all(**old);
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  tutti::read_everything(data[0] % 8 == 0 ? tutti::Files{std::string(input), tutti::any_data()}
                                          : tutti::files_of(input, data[0] % 2 == 1));
  return 0;
}
