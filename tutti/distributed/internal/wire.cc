#include "tutti/distributed/internal/wire.h"

#include <cstring>

namespace tutti {

static_assert(std::endian::native == std::endian::little, "fixed-size values are written as they lie in memory");

void WireWriter::fixed64(std::uint64_t value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  text_.append(bytes, sizeof value);
}

Payload WireWriter::finish() && {
  if (cuts_.empty()) return Payload(std::move(text_));
  Payload payload;
  const auto text = std::make_shared<const std::string>(std::move(text_));
  const std::span<const std::byte> all = std::as_bytes(std::span(text->data(), text->size()));
  std::size_t begin = 0;
  for (Cut& cut : cuts_) {
    payload.append(all.subspan(begin, cut.offset - begin), text);
    payload.append(cut.bytes, std::move(cut.owner));
    begin = cut.offset;
  }
  payload.append(all.subspan(begin), text);
  return payload;
}

// Bits past the 64th are dropped, as protobuf does.
bool WireReader::long_varint(std::uint64_t* value) {
  std::uint64_t result = 0;
  for (int shift = 0; shift < 70 && left_ > 0; shift += 7) {
    const std::uint8_t byte = *pos_;
    advance(1);
    result |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = result;
      return true;
    }
  }
  return false;
}

bool WireReader::fixed64(std::uint64_t* value) {
  if (left_ < sizeof *value) return false;
  WireReader bytes = *this;
  bytes.left_ = sizeof *value;
  bytes.copy_to(value);
  advance(sizeof *value);
  return true;
}

bool WireReader::skip(std::uint64_t bytes) {
  if (bytes > left_) return false;
  advance(bytes);
  return true;
}

bool WireReader::take(std::uint64_t length, WireReader* bytes) {
  if (length > left_) return false;
  *bytes = *this;
  bytes->left_ = length;
  advance(length);
  return true;
}

bool WireReader::delimited(WireReader* bytes) {
  std::uint64_t length = 0;
  return varint(&length) && take(length, bytes);
}

void WireReader::copy_to(void* out) const {
  char* to = static_cast<char*>(out);
  each_stretch([&to](std::string_view bytes) {
    std::memcpy(to, bytes.data(), bytes.size());
    to += bytes.size();
  });
}

void WireReader::append_to(std::string* out) const {
  out->reserve(out->size() + left_);
  each_stretch([out](std::string_view bytes) { out->append(bytes); });
}

}  // namespace tutti
