#include "tutti/kernels/cpu/patch_window.h"

#include <vector>

namespace tutti::cpu {

Result<Shape> PatchWindow::patches_shape() const {
  std::int64_t elements = 0;
  if (__builtin_mul_overflow(rows.kernel, columns.kernel, &elements) ||
      __builtin_mul_overflow(elements, depth, &elements)) {
    return invalid_argument("patches of ", rows.kernel, "x", columns.kernel, "x", depth, " elements are too large");
  }
  return Shape::create(std::array{batch, rows.out, columns.out, elements});
}

Result<std::array<std::int64_t, 2>> read_patch_attrs(const AttrMap& map, WindowAttrs* attrs) {
  TUTTI_ASSIGN_OR_RETURN(*attrs, read_window_attrs(map));
  std::array<std::int64_t, 2> sizes{1, 1};
  const auto list = [&](std::string_view name) {
    const auto it = map.find(name);
    return it == map.end() ? nullptr : it->second.get<std::vector<std::int64_t>>();
  };
  if (const auto* rates = list("rates")) {
    TUTTI_ASSIGN_OR_RETURN(attrs->dilation, spatial_pair(*attrs, *rates, "rates"));
  }
  if (const auto* ksizes = list("ksizes")) {
    TUTTI_ASSIGN_OR_RETURN(sizes, spatial_pair(*attrs, *ksizes, "ksizes"));
  }
  return sizes;
}

Result<PatchWindow> patch_window(const WindowAttrs& attrs, const std::array<std::int64_t, 2>& sizes,
                                 const Shape& images) {
  if (images.rank() != 4) return invalid_argument("images must be 4-dimensional, not ", images);
  PatchWindow w{.batch = images.dim(0), .depth = images.dim(3)};
  TUTTI_ASSIGN_OR_RETURN(w.rows, window_axis(attrs, 0, images.dim(1), sizes[0]));
  TUTTI_ASSIGN_OR_RETURN(w.columns, window_axis(attrs, 1, images.dim(2), sizes[1]));
  return w;
}

}  // namespace tutti::cpu
