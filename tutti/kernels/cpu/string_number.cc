// Numbers as text and back, and templates filled with tensors.
#include <algorithm>
#include <charconv>
#include <complex>
#include <cstdio>
#include <limits>
#include <vector>

#include "tutti/core/strings.h"
#include "tutti/kernels/cpu/internal/number_text.h"
#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/strings.h"
#include "tutti/kernels/cpu/tensor_text.h"

namespace tutti::cpu {
namespace {

// What printf may be asked for: more is a mistake or an attack on memory.
constexpr std::int64_t kMaxWidth = 1 << 16;

template <typename... Args>
std::string printf_text(const std::string& format, Args... args) {
  char small[64];
  const int size = std::snprintf(small, sizeof small, format.c_str(), args...);
  if (size < static_cast<int>(sizeof small)) return std::string(small, static_cast<std::size_t>(std::max(size, 0)));
  std::string text(static_cast<std::size_t>(size), '\0');
  std::snprintf(text.data(), text.size() + 1, format.c_str(), args...);
  return text;
}

// Flag, width and precision of a printf format, checked.
Result<std::string> format_prefix(const KernelInit& init, DType dtype) {
  const std::int64_t precision = init.attr<std::int64_t>("precision");
  const std::int64_t width = init.attr<std::int64_t>("width");
  const std::string& fill = init.attr<std::string>("fill");
  const bool scientific = init.attr<bool>("scientific"), shortest = init.attr<bool>("shortest");
  const bool is_text = dtype == DType::kString;
  if (!is_floating(dtype) && !is_complex(dtype) && !is_text) {
    if (scientific || shortest) {
      return invalid_argument("scientific and shortest format not supported for datatype ", dtype_name(dtype));
    }
    if (precision >= 0) return invalid_argument("precision not supported for datatype ", dtype_name(dtype));
  }
  if (fill.size() > 1) return invalid_argument("Fill string must be one or fewer characters");
  if (scientific && shortest) return invalid_argument("Cannot select both scientific and shortest notation");
  if (width > kMaxWidth || precision > kMaxWidth) {
    return invalid_argument("width ", width, " and precision ", precision, " must be at most ", kMaxWidth);
  }
  std::string format = "%";
  if (width >= 0) {
    if (!fill.empty() && std::string_view(" +-0#").find(fill[0]) == std::string_view::npos) {
      return invalid_argument("Fill argument not supported: \"", printable(fill), "\"");
    }
    format += str_cat(fill, width);
  }
  if (precision >= 0 && !is_text) format += str_cat(".", precision);
  return format;
}

class AsString : public Kernel {
 public:
  explicit AsString(std::string format) : format_(std::move(format)) {}

  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    const DType dtype = init.attr<DType>("T");
    TUTTI_ASSIGN_OR_RETURN(std::string format, format_prefix(init, dtype));
    if (dtype == DType::kString) {
      format += "s";
    } else if (is_floating(dtype) || is_complex(dtype)) {
      format += init.attr<bool>("shortest") ? "g" : init.attr<bool>("scientific") ? "e" : "f";
    } else {
      const bool is_unsigned =
          dtype == DType::kUint8 || dtype == DType::kUint16 || dtype == DType::kUint32 || dtype == DType::kUint64;
      format += is_unsigned ? "llu" : "lld";
    }
    return std::unique_ptr<Kernel>(std::make_unique<AsString>(std::move(format)));
  }

  Status compute(KernelContext& ctx) override {
    const Tensor& in = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, in.shape()));
    std::string* text = out->data<std::string>();
    if (in.dtype() == DType::kString) {
      for (const std::string& element : in.flat<std::string>()) {
        *text++ = format_ == "%s" ? element : printf_text(format_, element.c_str());
      }
      return {};
    }
    if (in.dtype() == DType::kBool) {
      for (const bool element : in.flat<bool>()) *text++ = element ? "true" : "false";
      return {};
    }
    return with_number(
        in.dtype(),
        [&]<typename T>(T) -> Status {
          for (const T& element : in.flat<T>()) *text++ = text_of(element);
          return {};
        },
        [&]() -> Status { return unimplemented("AsString of ", dtype_name(in.dtype())); });
  }

 private:
  template <typename T>
  std::string text_of(const T& value) const {
    if constexpr (std::is_integral_v<T>) {
      using Wide = std::conditional_t<std::is_unsigned_v<T>, unsigned long long, long long>;
      return printf_text(format_, static_cast<Wide>(value));
    } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
      return str_cat("(", text_of(value.real()), ",", text_of(value.imag()), ")");
    } else if constexpr (std::is_same_v<T, double>) {
      return printf_text(format_, value);
    } else {
      return printf_text(format_, static_cast<double>(static_cast<float>(value)));
    }
  }

  const std::string format_;
};

bool equal_ignoring_case(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a | 0x20) == b; });
}

// A number too large or too small for its type is infinite or zero.
template <typename T>
T out_of_range_value(std::string_view text) {
  long double wide = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), wide).ec == std::errc()) return static_cast<T>(wide);
  const std::size_t exponent = text.find_first_of("eE");
  const bool tiny = exponent != std::string_view::npos && text.substr(exponent + 1).starts_with('-');
  return tiny ? T(0) : std::numeric_limits<T>::infinity();
}

template <typename T>
bool parse_hex(std::string_view digits, T* value) {
  if (digits.empty()) return false;
  *value = 0;
  for (const char c : digits) {
    const std::size_t digit = std::string_view("0123456789abcdef").find(c >= 'A' && c <= 'F' ? c | 0x20 : c);
    if (digit == std::string_view::npos) return false;
    *value = *value * 16 + static_cast<T>(digit);
  }
  return true;
}

// Decimal or hexadecimal, "inf" or "nan", white space around it; nothing but white space is zero, as in TensorFlow.
template <typename T>
bool parse_number(std::string_view text, T* value) {
  if (text.empty()) return false;
  text = str_strip(text);
  *value = 0;
  if (text.empty()) return true;
  const bool negative = text[0] == '-';
  if (negative || text[0] == '+') text.remove_prefix(1);
  if (equal_ignoring_case(text, "inf")) {
    *value = std::numeric_limits<T>::infinity();
  } else if (equal_ignoring_case(text, "nan")) {
    *value = std::numeric_limits<T>::quiet_NaN();
  } else if (text.starts_with("0x") || text.starts_with("0X")) {
    if (!parse_hex(text.substr(2), value)) return false;
  } else {
    if (text.empty() || (text[0] != '.' && (text[0] < '0' || text[0] > '9'))) return false;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
    if (end != text.data() + text.size() || error == std::errc::invalid_argument) return false;
    if (error == std::errc::result_out_of_range) *value = out_of_range_value<T>(text);
  }
  if (negative) *value = -*value;
  return true;
}

template <typename T>
requires std::is_integral_v<T>
bool parse_number(std::string_view text, T* value) {
  text = str_strip(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

template <typename T>
Status parse_numbers(const Tensor& in, Tensor& out) {
  for (std::int64_t i = 0; i < in.num_elements(); ++i) {
    const std::string& text = in.data<std::string>()[i];
    if (!parse_number(text, &out.data<T>()[i])) {
      return invalid_argument("StringToNumberOp could not correctly convert string: ", printable(text));
    }
  }
  return {};
}

// The template cut at its placeholders once.
class StringFormat : public Kernel {
 public:
  StringFormat(std::vector<std::string> pieces, std::int64_t summarize)
      : pieces_(std::move(pieces)), summarize_(summarize) {}

  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    const std::string& placeholder = init.attr<std::string>("placeholder");
    std::string_view text = init.attr<std::string>("template");
    std::vector<std::string> pieces;
    for (std::size_t at; !placeholder.empty() && (at = text.find(placeholder)) != std::string_view::npos;) {
      pieces.emplace_back(text.substr(0, at));
      text.remove_prefix(at + placeholder.size());
    }
    pieces.emplace_back(text);
    if (pieces.size() != init.input_types.size() + 1) {
      return invalid_argument("num placeholders in template and num inputs must match: ", pieces.size() - 1, " vs. ",
                              init.input_types.size());
    }
    return std::unique_ptr<Kernel>(
        std::make_unique<StringFormat>(std::move(pieces), init.attr<std::int64_t>("summarize")));
  }

  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
    std::string& text = out->data<std::string>()[0];
    text = pieces_[0];
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      text += nested_text_of(ctx.input(i), summarize_);
      text += pieces_[static_cast<std::size_t>(i) + 1];
    }
    return {};
  }

 private:
  const std::vector<std::string> pieces_;
  const std::int64_t summarize_;
};

}  // namespace

bool internal::number_from_text(std::string_view text, float* value) { return parse_number(text, value); }
bool internal::number_from_text(std::string_view text, double* value) { return parse_number(text, value); }
bool internal::number_from_text(std::string_view text, std::int32_t* value) { return parse_number(text, value); }
bool internal::number_from_text(std::string_view text, std::int64_t* value) { return parse_number(text, value); }

KernelFactory as_string_kernel() { return kernel_of<AsString>(); }
KernelFactory string_format_kernel() { return kernel_of<StringFormat>(); }

Status string_to_number(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, in.shape()));
  switch (out->dtype()) {
    case DType::kFloat:
      return parse_numbers<float>(in, *out);
    case DType::kDouble:
      return parse_numbers<double>(in, *out);
    case DType::kInt32:
      return parse_numbers<std::int32_t>(in, *out);
    default:
      return parse_numbers<std::int64_t>(in, *out);
  }
}

}  // namespace tutti::cpu
