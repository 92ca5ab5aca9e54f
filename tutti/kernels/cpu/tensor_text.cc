#include "tutti/kernels/cpu/tensor_text.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "tutti/core/strings.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/number_types.h"

namespace tutti::cpu {
namespace {

std::string print_number(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

// Element i of a tensor whose elements have a text; see has_text.
std::string element_text(const Tensor& tensor, std::int64_t i, bool quote) {
  if (tensor.dtype() == DType::kString) {
    const std::string text = escaped(tensor.data<std::string>()[i]);
    return quote ? str_cat("\"", text, "\"") : text;
  }
  if (tensor.dtype() == DType::kBool) return tensor.data<bool>()[i] ? "1" : "0";
  return with_real(
      tensor.dtype(),
      [&]<typename T>(T) -> std::string {
        const T value = tensor.data<T>()[i];
        if constexpr (std::is_integral_v<T>)
          return str_cat(value);
        else if constexpr (std::is_same_v<T, double>)
          return number_text(value);
        else
          return number_text(static_cast<float>(value));
      },
      [] { return std::string("?"); });
}

bool has_text(DType dtype) { return dtype == DType::kString || dtype == DType::kBool || kReals.contains(dtype); }

// Complex numbers, handles and such: one "?" an element, whatever the shape.
std::string question_marks(std::int64_t shown, std::int64_t count) {
  std::string text;
  for (std::int64_t i = 0; i < shown; ++i) text += i > 0 ? " ?" : "?";
  if (shown < count) text += "...";
  return text;
}

// Rows are visited in order until `limit` elements were printed; a row that was begun gets its bracket.
class FlatPrinter {
 public:
  FlatPrinter(const Tensor& tensor, std::int64_t limit) : tensor_(tensor), limit_(limit) {}

  std::string print() {
    if (tensor_.rank() == 0) {
      if (limit_ > 0) text_ = element_text(tensor_, 0, false);
    } else {
      print_dim(0);
    }
    if (tensor_.num_elements() > limit_) text_ += "...";
    return std::move(text_);
  }

 private:
  void print_dim(int dim) {
    if (next_ >= limit_) return;
    if (dim == tensor_.rank() - 1) return print_row(dim);
    for (std::int64_t i = 0; i < tensor_.dim(dim) && next_ < limit_; ++i) {
      text_ += '[';
      print_dim(dim + 1);
      text_ += ']';
    }
  }
  void print_row(int dim) {
    for (std::int64_t i = 0; i < tensor_.dim(dim); ++i) {
      if (next_ >= limit_) {
        if (dim != 0) text_ += "...";
        return;
      }
      if (i > 0) text_ += ' ';
      text_ += element_text(tensor_, next_++, false);
    }
  }

  const Tensor& tensor_;
  const std::int64_t limit_;
  std::int64_t next_ = 0;
  std::string text_;
};

class NestedPrinter {
 public:
  NestedPrinter(const Tensor& tensor, std::int64_t at_ends) : tensor_(tensor), at_ends_(at_ends) {}

  std::string print() {
    print_dim(0, 0);
    return std::move(text_);
  }

 private:
  void print_dim(int dim, std::int64_t first_element) {
    if (dim == tensor_.rank()) {
      text_ += element_text(tensor_, first_element, true);
      return;
    }
    const std::int64_t count = tensor_.dim(dim);
    const std::int64_t row = elements_from(tensor_.shape(), dim + 1);
    const std::int64_t head = std::min(at_ends_, count);
    text_ += '[';
    for (std::int64_t i = 0; i < head; ++i) {
      if (i > 0) space(dim);
      print_dim(dim + 1, first_element + row * i);
    }
    if (count - head > at_ends_) {
      space(dim);
      text_ += "...";
    }
    for (std::int64_t i = std::max(head, count - at_ends_); i < count; ++i) {
      space(dim);
      print_dim(dim + 1, first_element + row * i);
    }
    text_ += ']';
  }
  // Columns are one space apart, rows one line, matrices two, ...; a line begins under its bracket.
  void space(int dim) {
    const int inner = tensor_.rank() - 1 - dim;
    if (inner > 0) text_.append(static_cast<std::size_t>(inner), '\n');
    text_.append(inner > 0 ? static_cast<std::size_t>(dim + 1) : 1, ' ');
  }

  const Tensor& tensor_;
  const std::int64_t at_ends_;
  std::string text_;
};

std::int64_t shown_of(const Tensor& tensor, std::int64_t limit) {
  return limit < 0 ? tensor.num_elements() : std::min(limit, tensor.num_elements());
}

}  // namespace

std::string summary_of(const Tensor& tensor, std::int64_t limit) {
  const std::int64_t shown = shown_of(tensor, limit);
  if (!has_text(tensor.dtype())) return question_marks(shown, tensor.num_elements());
  return FlatPrinter(tensor, shown).print();
}

std::string nested_text_of(const Tensor& tensor, std::int64_t at_ends) {
  if (tensor.dtype() == DType::kBool && tensor.num_elements() == 0) return {};  // as TensorFlow does, of bools alone
  const std::int64_t shown = shown_of(tensor, at_ends);
  if (!has_text(tensor.dtype())) {
    const std::string marks = question_marks(shown, tensor.num_elements());
    return tensor.rank() > 0 ? str_cat("[", marks, "]") : marks;
  }
  if (tensor.rank() == 0) return shown > 0 ? element_text(tensor, 0, true) : "...";
  return NestedPrinter(tensor, shown).print();
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '"':
      case '\'':
      case '\\':
        out += '\\';
        out += c;
        break;
      default:
        if (byte >= 0x20 && byte != 0x7f) {
          out += c;
        } else {
          char octal[5];
          std::snprintf(octal, sizeof octal, "\\%03o", byte);
          out += octal;
        }
    }
  }
  return out;
}

std::string number_text(float value) {
  std::string text = print_number(static_cast<double>(value), FLT_DIG);
  if (std::isnan(value) || std::strtof(text.c_str(), nullptr) == value) return text;
  return print_number(static_cast<double>(value), FLT_DIG + 3);
}

std::string number_text(double value) {
  std::string text = print_number(value, DBL_DIG);
  if (std::isnan(value) || std::strtod(text.c_str(), nullptr) == value) return text;
  return print_number(value, DBL_DIG + 2);
}

}  // namespace tutti::cpu
