// libFuzzer target: bytes are a record file, plain or compressed as the first byte says; all records are read.
// Anything may fail, with a status; nothing may crash, read out of bounds, hang, or take memory that the file does not
// account for. In a quarter of the inputs checksums are put right first: else hardly one would get past a length.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "memory_files.h"
#include "tutti/io/crc32c.h"
#include "tutti/io/internal/coding.h"
#include "tutti/io/record_reader.h"

extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=256:detect_leaks=0"; }

namespace tutti {
namespace {

// The input cut into records by the lengths in it, with checksums that match.
std::string with_checksums(std::string_view input) {
  std::string file;
  ByteCursor cursor(input);
  std::uint64_t length = 0;
  while (cursor.fixed64(&length)) {
    std::string header;
    put_fixed64(header, length);
    put_fixed32(header, mask_crc(crc32c(header)));
    file += header;
    std::string_view record;
    if (!cursor.bytes(length, &record)) break;
    file += record;
    put_fixed32(file, mask_crc(crc32c(record)));
  }
  return file + std::string(cursor.rest());
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  if (size == 0) return 0;
  constexpr std::string_view kCompressions[] = {"", "", "ZLIB", "GZIP"};
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  fuzz::MemoryFileSystem files;
  files.put("/records", data[0] % 4 == 1 ? with_checksums(input) : std::string(input));
  const RecordReaderOptions options{.compression = std::string(kCompressions[data[0] % 4]), .buffer_bytes = 64};
  const auto reader = RecordReader::open(files, "/records", options);
  std::string record;
  while (reader.ok()) {
    const Result<bool> more = (*reader)->next(&record);
    if (!more.ok() || !*more) break;
  }
  return 0;
}
