#include "tutti/io/internal/bundle_format.h"

#include <limits>

#include "tutti/io/crc32c.h"
#include "tutti/io/internal/coding.h"
#include "tutti/io/paths.h"

namespace tutti {

namespace {

// The lengths have a checksum of their own, over the numbers and not over how they are written.
std::uint32_t extend_with_length(std::uint32_t crc, std::uint64_t length) {
  std::string number;
  if (length <= std::numeric_limits<std::uint32_t>::max()) {
    put_fixed32(number, static_cast<std::uint32_t>(length));
  } else {
    put_fixed64(number, length);
  }
  return crc32c_extend(crc, number);
}

// The lengths, their masked checksum, the strings; the checksum of all goes on from that of the lengths.
Result<StoredBytes> append_strings(WritableFile& file, const Tensor& tensor) {
  std::string lengths;
  std::uint32_t crc = 0;
  for (const std::string& element : tensor.flat<std::string>()) {
    put_varint64(lengths, element.size());
    crc = extend_with_length(crc, element.size());
  }
  std::string check;
  put_fixed32(check, mask_crc(crc));
  lengths += check;
  TUTTI_RETURN_IF_ERROR(file.append(lengths));
  StoredBytes stored{.bytes = lengths.size(), .crc = crc32c_extend(crc, check)};
  for (const std::string& element : tensor.flat<std::string>()) {
    TUTTI_RETURN_IF_ERROR(file.append(element));
    stored.bytes += element.size();
    stored.crc = crc32c_extend(stored.crc, element);
  }
  return stored;
}

// Variants take their lengths as eight bytes whatever they are.
std::uint32_t extend_with_variant(std::uint32_t crc, std::string_view message) {
  std::string length;
  put_fixed64(length, message.size());
  return crc32c_extend(crc32c_extend(crc, length), message);
}

}  // namespace

std::string bundle_index_path(std::string_view prefix) { return str_cat(prefix, ".index"); }

std::string bundle_data_path(std::string_view prefix, int shard, int num_shards) {
  return sharded_name(str_cat(prefix, ".data"), shard, num_shards);
}

Status check_storable(DType dtype) {
  if (dtype == DType::kString || dtype == DType::kVariant || dtype_size(dtype) > 0) return {};
  return unimplemented("checkpoints hold no values of type ", dtype_name(dtype));
}

Result<StoredBytes> append_elements(WritableFile& file, const Tensor& tensor) {
  if (tensor.dtype() == DType::kString) return append_strings(file, tensor);
  const std::string_view bytes(static_cast<const char*>(tensor.raw()), tensor.bytes());
  TUTTI_RETURN_IF_ERROR(file.append(bytes));
  return StoredBytes{.bytes = bytes.size(), .crc = crc32c(bytes)};
}

Status decode_strings(std::string_view stored, Tensor& tensor, std::uint32_t* crc) {
  ByteCursor cursor(stored);
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(tensor.num_elements()));
  std::uint32_t lengths_crc = 0;
  for (std::uint64_t& length : lengths) {
    if (!cursor.varint64(&length)) return data_loss("the lengths of its strings are malformed");
    lengths_crc = extend_with_length(lengths_crc, length);
  }
  const std::string_view tail = cursor.rest();
  std::uint32_t stored_crc = 0;
  if (!cursor.fixed32(&stored_crc) || unmask_crc(stored_crc) != lengths_crc) {
    return data_loss("the lengths of its strings do not match their checksum");
  }
  *crc = crc32c_extend(lengths_crc, tail);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::string_view element;
    if (!cursor.bytes(lengths[i], &element)) return data_loss("its strings are longer than what is stored");
    tensor.data<std::string>()[i] = element;
  }
  if (!cursor.empty()) return data_loss("its strings are ", cursor.rest().size(), " bytes shorter than what is stored");
  return {};
}

// For each: its length, its bytes, the masked checksum so far, which goes on over its own bytes.
Result<StoredBytes> append_variants(WritableFile& file, std::span<const std::string> messages) {
  StoredBytes stored;
  for (const std::string& message : messages) {
    std::string length, check;
    put_varint64(length, message.size());
    stored.crc = extend_with_variant(stored.crc, message);
    put_fixed32(check, mask_crc(stored.crc));
    stored.crc = crc32c_extend(stored.crc, check);
    for (const std::string* part : std::initializer_list<const std::string*>{&length, &message, &check}) {
      TUTTI_RETURN_IF_ERROR(file.append(*part));
      stored.bytes += part->size();
    }
  }
  return stored;
}

Result<std::vector<std::string_view>> split_variants(std::string_view stored, std::size_t count, std::uint32_t* crc) {
  ByteCursor cursor(stored);
  std::vector<std::string_view> messages(count);
  *crc = 0;
  for (std::string_view& message : messages) {
    std::uint64_t length = 0;
    if (!cursor.varint64(&length) || !cursor.bytes(length, &message)) {
      return data_loss("its variants are longer than what is stored");
    }
    *crc = extend_with_variant(*crc, message);
    const std::string_view check = cursor.rest();
    std::uint32_t stored_crc = 0;
    if (!cursor.fixed32(&stored_crc) || unmask_crc(stored_crc) != *crc) {
      return data_loss("a variant does not match its checksum");
    }
    *crc = crc32c_extend(*crc, check.substr(0, sizeof stored_crc));
  }
  if (!cursor.empty()) {
    return data_loss("its variants are ", cursor.rest().size(), " bytes shorter than what is stored");
  }
  return messages;
}

}  // namespace tutti
