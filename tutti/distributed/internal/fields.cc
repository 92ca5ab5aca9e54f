#include "tutti/distributed/internal/fields.h"

namespace tutti {
namespace {

// TensorFlow's readers refuse a whole answer for one byte in a text that is not UTF-8, and messages quote what they
// were given. Such bytes become '?'.
std::string as_utf8(const std::string& text) {
  std::string out = text;
  for (std::size_t i = 0; i < out.size();) {
    const auto lead = static_cast<unsigned char>(out[i]);
    const std::size_t length = lead < 0x80                   ? 1
                               : lead >= 0xc2 && lead < 0xe0 ? 2
                               : lead >= 0xe0 && lead < 0xf0 ? 3
                               : lead >= 0xf0 && lead < 0xf5 ? 4
                                                             : 0;
    bool good = length > 0 && i + length <= out.size();
    for (std::size_t k = 1; good && k < length; ++k) good = (static_cast<unsigned char>(out[i + k]) & 0xc0) == 0x80;
    if (good && length > 2) {
      // Overlong forms, surrogates and what is past U+10FFFF.
      const auto second = static_cast<unsigned char>(out[i + 1]);
      good = !(lead == 0xe0 && second < 0xa0) && !(lead == 0xed && second >= 0xa0) &&
             !(lead == 0xf0 && second < 0x90) && !(lead == 0xf4 && second >= 0x90);
    }
    if (!good) out[i] = '?';
    i += good ? length : 1;
  }
  return out;
}

}  // namespace

void FieldSizer::status(std::uint32_t code, std::uint32_t message, const Status& value) {
  if (value.ok()) return;
  field(code, "status_code", static_cast<int>(value.code()));
  if (!value.message().empty()) delimited(message, value.message().size());
}

void FieldWriter::status(std::uint32_t code, std::uint32_t message, const Status& value) {
  if (value.ok()) return;
  field(code, "status_code", static_cast<int>(value.code()));
  field(message, "status_error_message", as_utf8(value.message()));
}

void FieldWriter::one_tensor(std::uint32_t number, std::string_view name, const Tensor& value) {
  if (!value.has_value()) {
    result_.update(invalid_argument(name, ": a tensor that holds nothing cannot be sent"));
    return;
  }
  header(number, tensor_wire_size(value));
  result_.update(write_tensor(value, out_).with_context(name));
}

bool FieldReader::next() {
  if (in_.left() == 0 || !error_.ok()) return false;
  std::uint64_t tag = 0;
  if (!in_.varint(&tag) || tag > UINT32_MAX || tag >> 3 == 0) {
    error_ = invalid_argument(message_, ": the tag after field ", number_, " is malformed");
    return false;
  }
  number_ = static_cast<std::uint32_t>(tag >> 3);
  type_ = static_cast<WireType>(tag & 7);
  taken_ = false;
  return true;
}

void FieldReader::skip() {
  std::uint64_t value = 0;
  WireReader bytes;
  switch (type_) {
    case WireType::kVarint:
      if (in_.varint(&value)) return;
      break;
    case WireType::kFixed64:
      if (in_.skip(8)) return;
      break;
    case WireType::kFixed32:
      if (in_.skip(4)) return;
      break;
    case WireType::kBytes:
      if (in_.delimited(&bytes)) return;
      break;
  }
  error_ = invalid_argument(message_, ": field ", number_, " is cut short or has an unknown wire type");
}

void FieldReader::text(std::string_view name, std::string& value) {
  WireReader bytes;
  if (!delimited(name, &bytes)) return;
  if (bytes.contiguous()) [[likely]] {
    value = bytes.view();
    return;
  }
  value.clear();
  bytes.append_to(&value);
}

void FieldReader::one_tensor(std::string_view name, Tensor& value) {
  WireReader bytes;
  if (!delimited(name, &bytes)) return;
  Result<Tensor> tensor = read_tensor(bytes, budget_);
  if (!tensor.ok()) return check(name, tensor.status());
  value = *std::move(tensor);
}

void FieldReader::finish_status() {
  if (status_code_ == 0) return;
  const bool known = status_code_ > 0 && status_code_ <= static_cast<int>(Code::kUnauthenticated);
  *status_ = Status(known ? static_cast<Code>(status_code_) : Code::kUnknown, std::move(status_message_));
}

void FieldReader::fail(std::string_view name, std::string_view what) {
  error_.update(invalid_argument(message_, ".", name, " ", what));
}

void FieldReader::check(std::string_view name, Status status) {
  if (!status.ok()) error_.update(status.with_context(str_cat(message_, ".", name)));
}

}  // namespace tutti
