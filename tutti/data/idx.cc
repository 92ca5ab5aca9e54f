#include "tutti/data/idx.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tutti/data/gzip.h"

namespace tutti {
namespace {

struct Header {
  DType dtype = DType::kInvalid;
  Shape shape;
  std::size_t bytes = 0;        // of the header itself
  std::size_t total_bytes = 0;  // of the whole file
};

constexpr std::size_t kFixedHeaderBytes = 4;
constexpr std::size_t kMaxHeaderBytes = kFixedHeaderBytes + 4 * 255;
static_assert(std::endian::native == std::endian::little);

std::uint8_t byte_at(std::string_view bytes, std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); }

DType dtype_of_idx(std::uint8_t type) {
  switch (type) {
    case 0x08:
      return DType::kUint8;
    case 0x09:
      return DType::kInt8;
    case 0x0B:
      return DType::kInt16;
    case 0x0C:
      return DType::kInt32;
    case 0x0D:
      return DType::kFloat;
    case 0x0E:
      return DType::kDouble;
    default:
      return DType::kInvalid;
  }
}

Result<Header> parse_header(std::string_view bytes) {
  if (bytes.size() < kFixedHeaderBytes) {
    return data_loss("IDX: ", bytes.size(), " bytes are less than a header");
  }
  if (bytes[0] != 0 || bytes[1] != 0) {
    return invalid_argument("IDX: starts with bytes ", int{byte_at(bytes, 0)}, " ", int{byte_at(bytes, 1)},
                            ", not 0 0");
  }
  Header header;
  header.dtype = dtype_of_idx(byte_at(bytes, 2));
  if (header.dtype == DType::kInvalid) return invalid_argument("IDX: unknown element type ", int{byte_at(bytes, 2)});
  const int rank = byte_at(bytes, 3);
  header.bytes = kFixedHeaderBytes + 4 * static_cast<std::size_t>(rank);
  if (bytes.size() < header.bytes) {
    return data_loss("IDX: ends in the header: ", bytes.size(), " of ", header.bytes, " bytes for rank ", rank);
  }
  std::vector<std::int64_t> dims;
  for (std::size_t at = kFixedHeaderBytes; at < header.bytes; at += 4) {
    dims.push_back(std::int64_t{byte_at(bytes, at)} << 24 | byte_at(bytes, at + 1) << 16 | byte_at(bytes, at + 2) << 8 |
                   byte_at(bytes, at + 3));
  }
  Result<Shape> shape = Shape::create(dims);
  if (!shape.ok()) return shape.status().with_context("IDX");
  header.shape = *std::move(shape);
  std::size_t content = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(header.shape.num_elements()), dtype_size(header.dtype),
                             &content) ||
      __builtin_add_overflow(content, header.bytes, &header.total_bytes)) {
    return invalid_argument("IDX: dimensions ", header.shape, " are too large");
  }
  return header;
}

// Elements as they lie in the file to elements as they lie in memory.
void copy_elements(std::string_view bytes, Tensor& tensor) {
  const std::size_t width = dtype_size(tensor.dtype());
  char* out = static_cast<char*>(tensor.raw());
  if (bytes.empty()) return;
  if (width == 1) {
    std::memcpy(out, bytes.data(), bytes.size());
    return;
  }
  for (std::size_t at = 0; at < bytes.size(); at += width) {
    for (std::size_t i = 0; i < width; ++i) out[at + i] = bytes[at + width - 1 - i];
  }
}

Result<Tensor> parse_plain(std::string_view bytes, const Header& header) {
  if (bytes.size() < header.total_bytes) {
    return data_loss("IDX: ends early: ", bytes.size(), " of ", header.total_bytes, " bytes for ",
                     dtype_name(header.dtype), " ", header.shape);
  }
  if (bytes.size() > header.total_bytes) {
    return invalid_argument("IDX: more bytes than the ", header.total_bytes, " for ", dtype_name(header.dtype), " ",
                            header.shape);
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::create(header.dtype, header.shape, heap_allocator()));
  copy_elements(bytes.substr(header.bytes), tensor);
  return tensor;
}

}  // namespace

Result<Tensor> parse_idx(std::string_view bytes) {
  if (!is_gzip(bytes)) {
    TUTTI_ASSIGN_OR_RETURN(const Header header, parse_header(bytes));
    return parse_plain(bytes, header);
  }
  // The header first: it says how much there may be, so a small file cannot unfold into all memory.
  TUTTI_ASSIGN_OR_RETURN(const std::string start, gunzip(bytes, kMaxHeaderBytes));
  TUTTI_ASSIGN_OR_RETURN(const Header header, parse_header(start));
  const std::size_t limit = header.total_bytes + (header.total_bytes < SIZE_MAX ? 1 : 0);
  TUTTI_ASSIGN_OR_RETURN(const std::string content, gunzip(bytes, limit));
  return parse_plain(content, header);
}

Result<Tensor> read_idx(FileSystem& fs, const std::string& path) {
  TUTTI_ASSIGN_OR_RETURN(const std::string bytes, read_file(fs, path));
  Result<Tensor> tensor = parse_idx(bytes);
  if (!tensor.ok()) return tensor.status().with_context(path);
  return tensor;
}

}  // namespace tutti
