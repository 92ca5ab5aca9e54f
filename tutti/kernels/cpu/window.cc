#include "tutti/kernels/cpu/window.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace tutti::cpu {
namespace {

// Larger steps, windows and paddings are of no use and would only make arithmetic overflow.
constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();

const std::string* string_attr(const AttrMap& attrs, std::string_view name) {
  auto it = attrs.find(name);
  return it == attrs.end() ? nullptr : it->second.get<std::string>();
}

const std::vector<std::int64_t>* list_attr(const AttrMap& attrs, std::string_view name) {
  auto it = attrs.find(name);
  return it == attrs.end() ? nullptr : it->second.get<std::vector<std::int64_t>>();
}

Result<Padding> read_padding(const AttrMap& attrs) {
  const std::string* name = string_attr(attrs, "padding");
  if (name == nullptr || *name == "VALID") return Padding::kValid;
  if (*name == "SAME") return Padding::kSame;
  if (*name == "EXPLICIT") return Padding::kExplicit;
  return invalid_argument("padding must be SAME, VALID or EXPLICIT, got ", *name);
}

Status read_explicit_paddings(const AttrMap& attrs, WindowAttrs* window) {
  static const std::vector<std::int64_t> none;
  const std::vector<std::int64_t>* list = list_attr(attrs, "explicit_paddings");
  if (list == nullptr) list = &none;
  if (window->padding != Padding::kExplicit) {
    if (list->empty()) return {};
    return invalid_argument("explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT");
  }
  if (list->size() != 8) {
    return invalid_argument("explicit_paddings attribute must contain 8 values, but got: ", list->size());
  }
  for (std::int64_t value : *list) {
    if (value < 0) return invalid_argument("All elements of explicit_paddings must be nonnegative, got ", value);
    if (value > kLargest) return invalid_argument("explicit_paddings has ", value, ", more than ", kLargest);
  }
  const std::size_t channel = static_cast<std::size_t>(window->channel_dim());
  if ((*list)[0] != 0 || (*list)[1] != 0 || (*list)[2 * channel] != 0 || (*list)[2 * channel + 1] != 0) {
    return invalid_argument("Nonzero explicit padding in the batch or depth dimensions is not supported");
  }
  for (int axis = 0; axis < 2; ++axis) {
    const std::size_t at = 2 * static_cast<std::size_t>(window->spatial_dim(axis));
    window->pad_before[static_cast<std::size_t>(axis)] = (*list)[at];
    window->pad_after[static_cast<std::size_t>(axis)] = (*list)[at + 1];
  }
  return {};
}

}  // namespace

Result<Shape> WindowAttrs::image_shape(std::int64_t batch, std::int64_t rows, std::int64_t columns,
                                       std::int64_t channels) const {
  if (channels_first) return Shape::create(std::array{batch, channels, rows, columns});
  return Shape::create(std::array{batch, rows, columns, channels});
}

Result<std::array<std::int64_t, 2>> spatial_pair(const WindowAttrs& attrs, std::span<const std::int64_t> list,
                                                 std::string_view what) {
  if (list.size() != 4) {
    return invalid_argument("Sliding window ", what, " field must specify 4 dimensions, got ", list.size());
  }
  if (list[0] != 1 || list[static_cast<std::size_t>(attrs.channel_dim())] != 1) {
    return unimplemented("Current implementation does not yet support ", what, " in the batch and depth dimensions: [",
                         str_join(list, ", "), "]");
  }
  std::array<std::int64_t, 2> pair{};
  for (int axis = 0; axis < 2; ++axis) {
    const std::int64_t value = list[static_cast<std::size_t>(attrs.spatial_dim(axis))];
    if (value < 1) return invalid_argument("Row and column ", what, " should be larger than 0, got ", value);
    if (value > kLargest) return invalid_argument("Row and column ", what, " are too large: ", value);
    pair[static_cast<std::size_t>(axis)] = value;
  }
  return pair;
}

Result<WindowAttrs> read_window_attrs(const AttrMap& attrs) {
  WindowAttrs window;
  if (const std::string* format = string_attr(attrs, "data_format")) {
    if (*format != "NHWC" && *format != "NCHW") return invalid_argument("data format ", *format, " is not supported");
    window.channels_first = *format == "NCHW";
  }
  TUTTI_ASSIGN_OR_RETURN(window.padding, read_padding(attrs));
  TUTTI_RETURN_IF_ERROR(read_explicit_paddings(attrs, &window));
  if (const auto* strides = list_attr(attrs, "strides")) {
    TUTTI_ASSIGN_OR_RETURN(window.stride, spatial_pair(window, *strides, "strides"));
  }
  if (const auto* dilations = list_attr(attrs, "dilations")) {
    TUTTI_ASSIGN_OR_RETURN(window.dilation, spatial_pair(window, *dilations, "dilations"));
  }
  return window;
}

Result<WindowAxis> window_axis(const WindowAttrs& attrs, int axis, std::int64_t in, std::int64_t kernel) {
  const std::size_t a = static_cast<std::size_t>(axis);
  WindowAxis w{.in = in, .kernel = kernel, .stride = attrs.stride[a], .dilation = attrs.dilation[a]};
  if (kernel < 1 || kernel > kLargest || w.stride > kLargest || in > std::numeric_limits<std::int64_t>::max() / 4) {
    return invalid_argument("a window of ", kernel, " elements and a stride of ", w.stride,
                            " do not fit a dimension of ", in);
  }
  // Both factors are below 2^31.
  const std::int64_t reach = (kernel - 1) * w.dilation + 1;
  if (attrs.padding == Padding::kSame) {
    w.out = (in + w.stride - 1) / w.stride;
    const std::int64_t total = std::max<std::int64_t>(0, w.out == 0 ? 0 : (w.out - 1) * w.stride + reach - in);
    w.pad_before = total / 2;
    w.pad_after = total - w.pad_before;
    return w;
  }
  if (attrs.padding == Padding::kExplicit) {
    w.pad_before = attrs.pad_before[a];
    w.pad_after = attrs.pad_after[a];
  }
  const std::int64_t padded = in + w.pad_before + w.pad_after;
  w.out = (padded - reach + w.stride) / w.stride;
  if (w.out < 0) {
    return invalid_argument("Computed output size would be negative: ", w.out, " [input_size: ", in,
                            ", effective_filter_size: ", reach, ", stride: ", w.stride, "]");
  }
  return w;
}

}  // namespace tutti::cpu
