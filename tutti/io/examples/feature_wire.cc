#include "tutti/io/examples/feature_wire.h"

#include <bit>
#include <cstring>

namespace tutti {

static_assert(std::endian::native == std::endian::little, "floats are copied as they lie in the message");

bool WireCursor::long_varint(std::uint64_t* value) {
  std::uint64_t result = 0;
  for (int shift = 0; shift < 70 && at_ < end_; shift += 7) {
    const auto byte = static_cast<unsigned char>(*at_++);
    if (shift < 64) result |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) {
      *value = result;
      return true;
    }
  }
  return false;
}

bool WireCursor::fixed32(std::uint32_t* value) {
  if (end_ - at_ < 4) return false;
  std::memcpy(value, at_, 4);
  at_ += 4;
  return true;
}

bool WireCursor::skip(std::uint64_t tag) {
  std::uint64_t number = 0;
  std::uint32_t word = 0;
  std::string_view text;
  if (tag >> 3 == 0) return false;
  switch (tag & 7) {
    case 0:
      return varint(&number);
    case 1:
      return fixed32(&word) && fixed32(&word);
    case 2:
      return bytes(&text);
    case 5:
      return fixed32(&word);
    default:
      return false;
  }
}

namespace {

// How many numbers a packed list has; -1 when the last breaks off, or one is longer than numbers are.
std::int64_t count_varints(std::string_view packed) {
  std::int64_t count = 0;
  int length = 0;
  for (const char c : packed) {
    ++length;
    if (static_cast<signed char>(c) >= 0) {
      ++count;
      length = 0;
    } else if (length >= 10) {
      return -1;
    }
  }
  return length == 0 ? count : -1;
}

bool count_list(FeatureRef* ref) {
  WireCursor in(ref->list);
  std::uint64_t tag = 0, number = 0;
  std::uint32_t word = 0;
  std::string_view text;
  while (!in.done()) {
    if (!in.varint(&tag)) return false;
    if (tag == wire_tag_bytes(1)) {
      if (!in.bytes(&text)) return false;
      if (ref->dtype == DType::kString) {
        ++ref->count;
      } else if (ref->dtype == DType::kFloat) {
        if (text.size() % 4 != 0) return false;
        ref->count += static_cast<std::int64_t>(text.size() / 4);
      } else {
        const std::int64_t count = count_varints(text);
        if (count < 0) return false;
        ref->count += count;
      }
    } else if (tag == wire_tag_fixed32(1) && ref->dtype == DType::kFloat) {
      if (!in.fixed32(&word)) return false;
      ++ref->count;
    } else if (tag == wire_tag_varint(1) && ref->dtype == DType::kInt64) {
      if (!in.varint(&number)) return false;
      ++ref->count;
    } else if (!in.skip(tag)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool read_feature(std::string_view feature, FeatureRef* ref) {
  *ref = FeatureRef();
  WireCursor in(feature);
  std::uint64_t tag = 0;
  while (!in.done()) {
    if (!in.varint(&tag)) return false;
    constexpr DType kKinds[] = {DType::kInvalid, DType::kString, DType::kFloat, DType::kInt64};
    const std::uint64_t field = tag >> 3;
    if ((tag & 7) == 2 && field >= 1 && field <= 3) {
      // Of several lists the last counts, as in any oneof.
      ref->dtype = kKinds[field];
      if (!in.bytes(&ref->list)) return false;
    } else if (!in.skip(tag)) {
      return false;
    }
  }
  return ref->dtype == DType::kInvalid || count_list(ref);
}

void copy_feature(const FeatureRef& ref, float* to) {
  WireCursor in(ref.list);
  std::uint64_t tag = 0;
  std::string_view packed;
  std::uint32_t word = 0;
  while (!in.done() && in.varint(&tag)) {
    if (tag == wire_tag_bytes(1) && in.bytes(&packed)) {
      if (packed.empty()) continue;
      std::memcpy(to, packed.data(), packed.size());
      to += packed.size() / 4;
    } else if (tag == wire_tag_fixed32(1) && in.fixed32(&word)) {
      std::memcpy(to++, &word, 4);
    } else if (!in.skip(tag)) {
      return;
    }
  }
}

void copy_feature(const FeatureRef& ref, std::int64_t* to) {
  WireCursor in(ref.list);
  std::uint64_t tag = 0, number = 0;
  std::string_view packed;
  while (!in.done() && in.varint(&tag)) {
    if (tag == wire_tag_bytes(1) && in.bytes(&packed)) {
      WireCursor numbers(packed);
      while (!numbers.done() && numbers.varint(&number)) *to++ = static_cast<std::int64_t>(number);
    } else if (tag == wire_tag_varint(1) && in.varint(&number)) {
      *to++ = static_cast<std::int64_t>(number);
    } else if (!in.skip(tag)) {
      return;
    }
  }
}

void copy_feature(const FeatureRef& ref, std::string* to) {
  WireCursor in(ref.list);
  std::uint64_t tag = 0;
  std::string_view text;
  while (!in.done() && in.varint(&tag)) {
    if (tag == wire_tag_bytes(1) && in.bytes(&text)) {
      (to++)->assign(text);
    } else if (!in.skip(tag)) {
      return;
    }
  }
}

}  // namespace tutti
