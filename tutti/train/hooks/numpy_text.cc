#include "tutti/train/hooks/numpy_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/core/strings.h"

namespace tutti {
namespace {

// numpy's print options.
constexpr std::int64_t kThreshold = 1000;
constexpr std::int64_t kEdgeItems = 3;
constexpr std::size_t kLineWidth = 75;
constexpr int kPrecision = 8;

template <typename T>
std::string to_text(T value, std::chars_format format) {
  char buffer[512];  // the largest double in fixed notation has 309 digits
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, format).ptr;
  return std::string(buffer, end);
}
template <typename T>
std::string to_text(T value, std::chars_format format, int precision) {
  char buffer[512];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, format, precision).ptr;
  return std::string(buffer, end);
}

// --- Single values ---

std::string not_finite(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

template <typename T>
std::string float_scalar(T value) {
  if (!std::isfinite(value)) return not_finite(value);
  const T size = std::abs(value);
  const bool scientific = size != 0 && (size < static_cast<T>(1e-4) || size >= static_cast<T>(1e16));
  std::string text = to_text(value, scientific ? std::chars_format::scientific : std::chars_format::fixed);
  if (!scientific && text.find('.') == std::string::npos) text += ".0";
  return text;
}

// As Python writes bytes.
std::string bytes_text(std::string_view bytes) {
  const char quote = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos ? '"' : '\'';
  std::string text = {'b', quote};
  for (const char c : bytes) {
    const auto code = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      text += {'\\', c};
    } else if (c == '\n' || c == '\r' || c == '\t') {
      text += {'\\', c == '\n' ? 'n' : c == '\r' ? 'r' : 't'};
    } else if (code < 0x20 || code >= 0x7f) {
      constexpr std::string_view kHex = "0123456789abcdef";
      text += {'\\', 'x', kHex[code >> 4], kHex[code & 15]};
    } else {
      text += c;
    }
  }
  return text + quote;
}

// --- Elements of arrays, in columns of one width ---

using Column = std::function<std::string(std::int64_t index)>;

std::string pad_left(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

// Texts that were made one by one, set flush right.
Column flush_right(std::vector<std::string> texts) {
  std::size_t width = 0;
  for (const std::string& text : texts) width = std::max(width, text.size());
  for (std::string& text : texts) text = pad_left(std::move(text), width);
  return [texts = std::move(texts)](std::int64_t i) { return texts[static_cast<std::size_t>(i)]; };
}

std::pair<std::string, std::string> split_at_point(const std::string& text) {
  const std::size_t point = text.find('.');
  if (point == std::string::npos) return {text, ""};
  return {text.substr(0, point), text.substr(point + 1)};
}

// Fixed notation with the digits that tell the value from its neighbours, at most kPrecision after the point.
template <typename T>
std::string fixed_text(T value) {
  std::string text = to_text(value, std::chars_format::fixed);
  if (split_at_point(text).second.size() > kPrecision) text = to_text(value, std::chars_format::fixed, kPrecision);
  if (text.find('.') == std::string::npos) return text + ".";
  while (text.ends_with('0')) text.pop_back();
  return text;
}

template <typename T>
Column fixed_column(const std::vector<T>& values) {
  std::size_t left = 0;
  std::size_t right = 0;
  for (const T value : values) {
    if (!std::isfinite(value)) continue;
    const auto [whole, fraction] = split_at_point(fixed_text(value));
    left = std::max(left, whole.size());
    right = std::max(right, fraction.size());
  }
  for (const T value : values) {
    if (std::isfinite(value)) continue;
    const std::size_t size = not_finite(value).size();
    if (size > right + 1) left = std::max(left, size - right - 1);
  }
  return [values, left, right](std::int64_t i) {
    const T value = values[static_cast<std::size_t>(i)];
    if (!std::isfinite(value)) return pad_left(not_finite(value), left + right + 1);
    std::string text = fixed_text(value);
    const std::size_t fraction = split_at_point(text).second.size();
    return pad_left(std::move(text), left + 1 + fraction) + std::string(right - fraction, ' ');
  };
}

template <typename T>
Column scientific_column(const std::vector<T>& values) {
  const auto digits = [](T value) {
    const std::string text = to_text(value, std::chars_format::scientific);
    const std::size_t point = text.find('.');
    return point == std::string::npos ? 0 : static_cast<int>(text.find('e') - point - 1);
  };
  int precision = 0;
  for (const T value : values) {
    if (std::isfinite(value)) precision = std::max(precision, std::min(digits(value), kPrecision));
  }
  std::vector<std::string> texts;
  for (const T value : values) {
    if (!std::isfinite(value)) {
      texts.push_back(not_finite(value));
      continue;
    }
    std::string text = to_text(value, std::chars_format::scientific, precision);
    if (precision == 0) text.insert(text.find('e'), ".");
    texts.push_back(std::move(text));
  }
  return flush_right(std::move(texts));
}

template <typename T>
Column float_column(const std::vector<T>& values) {
  T largest = 0;
  for (const T value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest >= static_cast<T>(1e8) ? scientific_column(values) : fixed_column(values);
}

// --- Rows ---

class Layout {
 public:
  Layout(const Shape& shape, Column column) : shape_(shape), column_(std::move(column)) {}

  std::string text() {
    summarise_ = shape_.num_elements() > kThreshold;
    return rows(0, " ", kLineWidth);
  }
  // The elements that are printed, by their place in the tensor.
  static std::vector<std::int64_t> shown(const Shape& shape) {
    std::vector<std::int64_t> places;
    Layout layout(shape, [&](std::int64_t place) {
      places.push_back(place);
      return std::string();
    });
    static_cast<void>(layout.text());
    return places;
  }

 private:
  // The parts of one row or block, with "..." where some are left out.
  std::vector<std::string> parts(int axis, const std::string& indent, std::size_t width) {
    const std::int64_t size = shape_.dim(axis);
    const bool cut = summarise_ && 2 * kEdgeItems < size;
    std::vector<std::string> made;
    const std::int64_t base = place_;
    const std::int64_t stride = stride_of(axis);
    for (std::int64_t i = 0; i < size; ++i) {
      if (cut && i == kEdgeItems) {
        made.emplace_back("...");
        i = size - kEdgeItems;
      }
      place_ = base + i * stride;
      made.push_back(axis + 1 == shape_.rank() ? column_(place_) : rows(axis + 1, indent, width));
    }
    place_ = base;
    return made;
  }

  std::string rows(int axis, const std::string& indent, std::size_t width) {
    const std::vector<std::string> made = parts(axis, indent + ' ', width - 1);
    const bool innermost = axis + 1 == shape_.rank();
    std::string text = innermost ? line(made, indent, width - 1) : block(made, indent, shape_.rank() - axis - 1);
    if (text.size() >= indent.size()) text.erase(0, indent.size());
    return "[" + text + "]";
  }

  static std::string line(const std::vector<std::string>& words, const std::string& indent, std::size_t width) {
    std::string text;
    std::string current = indent;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (i > 0) current += ' ';
      if (current.size() + words[i].size() > width && current.size() > indent.size()) {
        while (current.ends_with(' ')) current.pop_back();
        text += current + "\n";
        current = indent;
      }
      current += words[i];
    }
    return text + current;
  }

  static std::string block(const std::vector<std::string>& rows, const std::string& indent, int newlines) {
    std::string text;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i > 0) text += std::string(static_cast<std::size_t>(newlines), '\n');
      text += indent + rows[i];
    }
    return text;
  }

  std::int64_t stride_of(int axis) const {
    std::int64_t stride = 1;
    for (int i = axis + 1; i < shape_.rank(); ++i) stride *= shape_.dim(i);
    return stride;
  }

  const Shape& shape_;
  const Column column_;
  bool summarise_ = false;
  std::int64_t place_ = 0;
};

// --- By type ---

template <typename T, typename Text>
std::vector<std::string> texts_of(const Tensor& tensor, const std::vector<std::int64_t>& places, const Text& text) {
  std::vector<std::string> texts;
  for (const std::int64_t place : places) texts.push_back(text(tensor.data<T>()[place]));
  return texts;
}

template <typename T, typename Wide>
Column floats(const Tensor& tensor, const std::vector<std::int64_t>& places) {
  std::vector<Wide> values;
  for (const std::int64_t place : places) values.push_back(static_cast<Wide>(tensor.data<T>()[place]));
  return float_column(values);
}

template <typename T>
Column integers(const Tensor& tensor, const std::vector<std::int64_t>& places) {
  return flush_right(texts_of<T>(tensor, places, [](T value) { return str_cat(value); }));
}

// How the elements at `places` look: the column takes an index into those. Null for types that numpy has no text for.
Column column_for(const Tensor& tensor, const std::vector<std::int64_t>& places) {
  switch (tensor.dtype()) {
    case DType::kFloat:
      return floats<float, float>(tensor, places);
    case DType::kDouble:
      return floats<double, double>(tensor, places);
    case DType::kInt32:
      return integers<std::int32_t>(tensor, places);
    case DType::kInt64:
      return integers<std::int64_t>(tensor, places);
    case DType::kInt16:
      return integers<std::int16_t>(tensor, places);
    case DType::kUint16:
      return integers<std::uint16_t>(tensor, places);
    case DType::kUint32:
      return integers<std::uint32_t>(tensor, places);
    case DType::kUint64:
      return integers<std::uint64_t>(tensor, places);
    case DType::kInt8:
      return flush_right(texts_of<std::int8_t>(tensor, places, [](int value) { return str_cat(value); }));
    case DType::kUint8:
      return flush_right(texts_of<std::uint8_t>(tensor, places, [](int value) { return str_cat(value); }));
    case DType::kBool:
      return flush_right(texts_of<bool>(tensor, places, [](bool value) { return value ? "True" : "False"; }));
    case DType::kString:
      // Objects are not set in columns.
      return [texts = texts_of<std::string>(tensor, places, bytes_text)](std::int64_t i) {
        return texts[static_cast<std::size_t>(i)];
      };
    default:
      return nullptr;
  }
}

std::string scalar_text(const Tensor& tensor) {
  if (tensor.dtype() == DType::kFloat) return float_scalar(tensor.scalar<float>());
  if (tensor.dtype() == DType::kDouble) return float_scalar(tensor.scalar<double>());
  const Column column = column_for(tensor, {0});
  return column ? column(0) : tensor.to_string();
}

}  // namespace

std::string numpy_text(const Tensor& tensor) {
  if (tensor.rank() == 0) return scalar_text(tensor);
  if (tensor.num_elements() == 0) return "[]";
  const Column column = column_for(tensor, Layout::shown(tensor.shape()));
  if (!column) return tensor.to_string();
  std::int64_t next = 0;
  return Layout(tensor.shape(), [&](std::int64_t) { return column(next++); }).text();
}

}  // namespace tutti
