#include "tutti/io/internal/record_frame.h"

#include "tutti/io/crc32c.h"
#include "tutti/io/internal/coding.h"

namespace tutti {
namespace {

std::uint32_t fixed32_at(std::string_view bytes) {
  std::uint32_t value = 0;
  ByteCursor(bytes).fixed32(&value);
  return value;
}

}  // namespace

Result<std::uint64_t> record_length(std::string_view header) {
  constexpr std::size_t kLengthBytes = 8;
  if (unmask_crc(fixed32_at(header.substr(kLengthBytes))) != crc32c(header.substr(0, kLengthBytes))) {
    return data_loss("corrupted: its length does not match its checksum");
  }
  std::uint64_t length = 0;
  ByteCursor(header).fixed64(&length);
  return length;
}

Status check_record(std::string_view record, std::string_view footer) {
  if (unmask_crc(fixed32_at(footer)) == crc32c(record)) return {};
  return data_loss("corrupted: its ", record.size(), " bytes do not match their checksum");
}

}  // namespace tutti
