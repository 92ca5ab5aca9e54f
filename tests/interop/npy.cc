#include "npy.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace tutti::interop {
namespace {

DType dtype_of_descr(std::string_view descr) {
  if (descr == "<f4") return DType::kFloat;
  if (descr == "<f8") return DType::kDouble;
  if (descr == "<f2") return DType::kHalf;
  if (descr == "<i2") return DType::kInt16;
  if (descr == "<i4") return DType::kInt32;
  if (descr == "<i8") return DType::kInt64;
  if (descr == "|i1") return DType::kInt8;
  if (descr == "|u1") return DType::kUint8;
  if (descr == "|b1") return DType::kBool;
  return DType::kInvalid;
}

// The text between `open` and `close` after "'key':".
std::string_view field(std::string_view header, std::string_view key, char open, char close) {
  std::size_t at = header.find(str_cat("'", key, "':"));
  if (at == std::string_view::npos) return {};
  at = header.find(open, at + key.size() + 3);
  const std::size_t end = at == std::string_view::npos ? at : header.find(close, at + 1);
  return end == std::string_view::npos ? std::string_view() : header.substr(at + 1, end - at - 1);
}

}  // namespace

Result<Tensor> parse_npy(std::string_view bytes) {
  if (bytes.size() < 12 || bytes.substr(0, 6) != "\x93NUMPY") return invalid_argument("npy: no magic");
  const bool wide = bytes[6] >= 2;
  const std::size_t start = wide ? 12 : 10;
  std::uint32_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data() + 8, wide ? 4 : 2);
  if (bytes.size() < start + header_bytes) return data_loss("npy: ends in the header");
  const std::string_view header = bytes.substr(start, header_bytes);
  const DType dtype = dtype_of_descr(field(header, "descr", '\'', '\''));
  if (dtype == DType::kInvalid || header.find("'fortran_order': False") == std::string_view::npos) {
    return invalid_argument("npy: header ", printable(header));
  }
  std::vector<std::int64_t> dims;
  for (std::string_view part : str_split(field(header, "shape", '(', ')'), ',')) {
    part = str_strip(part);
    if (part.empty()) continue;
    if (!parse_int64(part, &dims.emplace_back())) return invalid_argument("npy: dimension ", printable(part));
  }
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims));
  Tensor tensor(dtype, shape);
  const std::string_view content = bytes.substr(start + header_bytes);
  if (content.size() != tensor.bytes()) return data_loss("npy: ", content.size(), " bytes for ", shape);
  if (!content.empty()) std::memcpy(tensor.raw(), content.data(), content.size());
  return tensor;
}

}  // namespace tutti::interop
