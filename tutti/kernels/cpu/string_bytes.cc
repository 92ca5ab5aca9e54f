// Strings as bytes: base64 and raw numbers.
#include <algorithm>
#include <cstring>
#include <vector>

#include "tutti/core/strings.h"
#include "tutti/kernels/cpu/strings.h"

namespace tutti::cpu {
namespace {

// The alphabet that is safe in file names and addresses.
constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string base64_of(std::string_view bytes, bool pad) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0);
    }
    for (std::size_t k = 0; k <= count; ++k) text += kDigits[group >> (18 - 6 * k) & 63];
    if (pad) text.append(3 - count, '=');
  }
  return text;
}

// Padding is taken where it is complete and left out where it is not there at all.
Status bytes_of_base64(std::string_view text, std::string* bytes) {
  if (text.size() % 4 == 0 && text.ends_with('=')) text.remove_suffix(text.ends_with("==") ? 2 : 1);
  if (text.size() % 4 == 1) return invalid_argument("Base64 string length cannot be 1 modulo 4.");
  std::uint32_t group = 0;
  int bits = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return invalid_argument("Invalid character found in base64.");
    group = (group << 6 | static_cast<std::uint32_t>(digit)) & 0xffffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      *bytes += static_cast<char>(group >> bits & 0xff);
    }
  }
  return {};
}

class EncodeBase64 : public Kernel {
 public:
  explicit EncodeBase64(const KernelInit& init) : pad_(init.attr<bool>("pad")) {}
  Status compute(KernelContext& ctx) override {
    const Tensor& in = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, in.shape()));
    for (std::int64_t i = 0; i < in.num_elements(); ++i) {
      out->data<std::string>()[i] = base64_of(in.data<std::string>()[i], pad_);
    }
    return {};
  }

 private:
  const bool pad_;
};

class DecodeRaw : public Kernel {
 public:
  explicit DecodeRaw(const KernelInit& init)
      : dtype_(init.attr<DType>("out_type")), little_endian_(init.attr<bool>("little_endian")) {}

  Status compute(KernelContext& ctx) override {
    const Tensor& in = ctx.input(0);
    const std::size_t bytes = in.num_elements() == 0 ? 0 : in.data<std::string>()[0].size();
    for (std::int64_t i = 0; i < in.num_elements(); ++i) {
      if (in.data<std::string>()[i].size() != bytes) {
        return invalid_argument("DecodeRaw requires input strings to all be the same size, but element ", i,
                                " has size ", bytes, " != ", in.data<std::string>()[i].size());
      }
    }
    const std::size_t element = dtype_size(dtype_);
    if (bytes % element != 0) {
      return invalid_argument("Input to DecodeRaw has length ", bytes, " that is not a multiple of ", element,
                              ", the size of ", dtype_name(dtype_));
    }
    std::vector<std::int64_t> dims(in.shape().dims().begin(), in.shape().dims().end());
    dims.push_back(static_cast<std::int64_t>(bytes / element));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    char* to = static_cast<char*>(out->raw());
    for (std::int64_t i = 0; i < in.num_elements() && bytes != 0; ++i, to += bytes) {
      std::memcpy(to, in.data<std::string>()[i].data(), bytes);
    }
    settle(*out, element);
    return {};
  }

 private:
  // Other byte order, and only 0 and 1 in booleans: other bytes are not values of bool.
  void settle(Tensor& out, std::size_t element) const {
    char* bytes = static_cast<char*>(out.raw());
    if (dtype_ == DType::kBool) {
      for (std::int64_t i = 0; i < out.num_elements(); ++i) bytes[i] = bytes[i] != 0;
    }
    const std::size_t word = is_complex(dtype_) ? element / 2 : element;
    if (little_endian_ || word == 1) return;
    for (char* end = bytes + out.bytes(); bytes != end; bytes += word) std::reverse(bytes, bytes + word);
  }

  const DType dtype_;
  const bool little_endian_;
};

}  // namespace

KernelFactory encode_base64_kernel() { return kernel_of<EncodeBase64>(); }

Status decode_base64(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, in.shape()));
  for (std::int64_t i = 0; i < in.num_elements(); ++i) {
    TUTTI_RETURN_IF_ERROR(bytes_of_base64(in.data<std::string>()[i], &out->data<std::string>()[i]));
  }
  return {};
}

KernelFactory decode_raw_kernel() { return kernel_of<DecodeRaw>(); }

}  // namespace tutti::cpu
