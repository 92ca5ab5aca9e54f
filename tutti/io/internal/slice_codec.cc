#include "tutti/io/internal/slice_codec.h"

#include <bit>
#include <cstdint>

#include "proto/tensor_slice.pb.h"

namespace tutti {

namespace {

// OrderedCode: bytes whose order is the order of the values.

// The count of significant bytes, then those, most significant first.
void put_ordered_unsigned(std::string& out, std::uint64_t value) {
  const int bytes = (std::bit_width(value) + 7) / 8;
  out += static_cast<char>(bytes);
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
}

// Escapes the two bytes that the end mark is made of.
void put_ordered_string(std::string& out, std::string_view text) {
  for (char c : text) {
    out += c;
    if (c == '\x00') out += '\xff';
    if (c == '\xff') out += '\x00';
  }
  out += '\x00';
  out += '\x01';
}

// Two's complement, most significant byte first, in as many bytes as its length marks leave room for: a number of n
// bytes begins with n one bits and a zero (negative numbers: the opposite), which are xored over the sign's copies.
void put_ordered_signed(std::string& out, std::int64_t value) {
  const std::uint64_t magnitude = static_cast<std::uint64_t>(value < 0 ? ~value : value);
  const int bytes = 1 + std::bit_width(magnitude) / 7;  // 1 to 10
  const char sign = value < 0 ? '\xff' : '\x00';
  std::string number;
  for (int i = bytes - 1; i >= 0; --i) {
    number += i >= 8 ? sign : static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
  for (int bit = 0; bit < bytes; ++bit) number[bit / 8] ^= static_cast<char>(0x80 >> (bit % 8));
  out += number;
}

}  // namespace

std::string slice_key(std::string_view tensor, const TensorSlice& slice) {
  std::string key;
  put_ordered_unsigned(key, 0);
  put_ordered_string(key, tensor);
  put_ordered_unsigned(key, static_cast<std::uint64_t>(slice.rank()));
  for (int d = 0; d < slice.rank(); ++d) {
    put_ordered_signed(key, slice.extent(d).start);
    put_ordered_signed(key, slice.extent(d).length);
  }
  return key;
}

void encode_slice(const TensorSlice& slice, tensorflow::TensorSliceProto* proto) {
  proto->Clear();
  for (int d = 0; d < slice.rank(); ++d) {
    tensorflow::TensorSliceProto::Extent* extent = proto->add_extent();
    if (slice.extent(d).whole()) continue;
    extent->set_start(slice.extent(d).start);
    extent->set_length(slice.extent(d).length);
  }
}

Result<TensorSlice> decode_slice(const tensorflow::TensorSliceProto& proto) {
  if (proto.extent_size() > kMaxRank) return data_loss("a stored slice of ", proto.extent_size(), " dimensions");
  std::vector<TensorSlice::Extent> extents;
  for (const auto& stored : proto.extent()) {
    TensorSlice::Extent extent;
    const bool has_length = stored.has_length_case() == tensorflow::TensorSliceProto::Extent::kLength;
    if (has_length && stored.length() != TensorSlice::Extent::kWhole) {
      extent = {stored.start(), stored.length()};
      if (extent.start < 0 || extent.length < 0) {
        return data_loss("a stored slice from ", extent.start, " of length ", extent.length);
      }
    }
    extents.push_back(extent);
  }
  return TensorSlice(std::move(extents));
}

}  // namespace tutti
