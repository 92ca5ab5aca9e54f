// libFuzzer target: bytes are an event file; all events and the values of their summaries are read. Anything may fail,
// with a status; nothing may crash, read out of bounds, hang, or take memory that the file does not account for. Unless
// the first byte is odd, the rest is cut into records with checksums that match: else hardly one would be read.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "memory_files.h"
#include "tutti/io/event_reader.h"
#include "tutti/io/internal/coding.h"
#include "tutti/io/record_writer.h"
#include "tutti/io/summary_values.h"

extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=256:detect_leaks=0"; }

namespace tutti {
namespace {

// Each record of the input has its length before it, in one byte or more.
std::string with_frames(std::string_view input) {
  fuzz::MemoryFileSystem files;
  const auto out = RecordWriter::create(files, "/events").value_or_throw();
  ByteCursor cursor(input);
  std::uint64_t length = 0;
  std::string_view record;
  while (cursor.varint64(&length) && cursor.bytes(length, &record)) throw_if_error(out->write(record));
  return read_file(files, "/events").value_or_throw() + std::string(cursor.rest());
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  fuzz::MemoryFileSystem files;
  files.put("/events", data[0] % 2 == 1 ? std::string(input) : with_frames(input));
  const auto reader = EventReader::open(files, "/events");
  Event event;
  while (reader.ok()) {
    const Result<bool> more = (*reader)->next(&event);
    if (!more.ok() || !*more) break;
    if (const auto* summary = std::get_if<SummaryEvent>(&event.what)) (void)parse_summary(summary->summary).ok();
  }
  return 0;
}
