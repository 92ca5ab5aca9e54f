// tf.Example on the wire, read in place: no messages are made.
//
//   Example          { Features features = 1; }
//   SequenceExample  { Features context = 1; FeatureLists feature_lists = 2; }
//   Features         { map<string, Feature> feature = 1; }        FeatureLists { map<string, FeatureList> feature_list
//   = 1; } FeatureList      { repeated Feature feature = 1; } Feature          { oneof { BytesList bytes_list = 1;
//   FloatList float_list = 2; Int64List int64_list = 3; } }
// and a list has its values in field 1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tutti/core/dtype.h"

namespace tutti {

// Reads fields one after the other. A false answer means: malformed, or nothing left.
class WireCursor {
 public:
  explicit WireCursor(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool done() const { return at_ == end_; }
  bool varint(std::uint64_t* value) {
    if (at_ < end_ && static_cast<signed char>(*at_) >= 0) {
      *value = static_cast<unsigned char>(*at_++);
      return true;
    }
    return long_varint(value);
  }
  bool bytes(std::string_view* value) {
    std::uint64_t length = 0;
    if (!varint(&length) || length > static_cast<std::uint64_t>(end_ - at_)) return false;
    *value = std::string_view(at_, static_cast<std::size_t>(length));
    at_ += length;
    return true;
  }
  bool fixed32(std::uint32_t* value);
  // Past the value of a field whose tag was read. Groups, which nobody writes, are malformed.
  bool skip(std::uint64_t tag);

 private:
  bool long_varint(std::uint64_t* value);

  const char* at_;
  const char* const end_;
};

// A tag is a field's number and the form of its value.
constexpr std::uint64_t wire_tag_varint(int field) { return static_cast<std::uint64_t>(field) << 3; }
constexpr std::uint64_t wire_tag_bytes(int field) { return static_cast<std::uint64_t>(field) << 3 | 2; }
constexpr std::uint64_t wire_tag_fixed32(int field) { return static_cast<std::uint64_t>(field) << 3 | 5; }

// A feature that was looked at: what it holds and how much of it. Points into the bytes it was found in.
struct FeatureRef {
  DType dtype = DType::kInvalid;  // kString, kFloat, kInt64; kInvalid: nothing is set
  std::int64_t count = 0;
  std::string_view list;  // the list's message
};

// False when the feature is malformed. After it the values can be copied without a look at anything.
bool read_feature(std::string_view feature, FeatureRef* ref);

// Copies `ref.count` values. REQUIRES: read_feature made `ref`, and it has that dtype.
void copy_feature(const FeatureRef& ref, float* to);
void copy_feature(const FeatureRef& ref, std::int64_t* to);
void copy_feature(const FeatureRef& ref, std::string* to);

// Calls fn(value of field `field`) for each, in order; false when something is malformed or fn says so.
template <typename Fn>
bool for_each_message(std::string_view message, int field, const Fn& fn) {
  WireCursor in(message);
  std::uint64_t tag = 0;
  std::string_view value;
  while (!in.done()) {
    if (!in.varint(&tag)) return false;
    if (tag == wire_tag_bytes(field)) {
      if (!in.bytes(&value) || !fn(value)) return false;
    } else if (!in.skip(tag)) {
      return false;
    }
  }
  return true;
}

// Calls fn(key, value) for each entry of a map in field 1, in order. Keys may come again; the last counts.
template <typename Fn>
bool for_each_entry(std::string_view message, const Fn& fn) {
  return for_each_message(message, 1, [&fn](std::string_view entry) {
    WireCursor in(entry);
    std::uint64_t tag = 0;
    std::string_view key, value;
    while (!in.done()) {
      if (!in.varint(&tag)) return false;
      if (tag == wire_tag_bytes(1)) {
        if (!in.bytes(&key)) return false;
      } else if (tag == wire_tag_bytes(2)) {
        if (!in.bytes(&value)) return false;
      } else if (!in.skip(tag)) {
        return false;
      }
    }
    return fn(key, value);
  });
}

}  // namespace tutti
