#include "tutti/train/internal/part_info.h"

namespace tutti::internal {
namespace {

template <typename T>
const T* find(const Node& node, std::string_view name) {
  const AttrValue* value = node.find_attr(name);
  return value == nullptr ? nullptr : value->get<T>();
}

bool lies_within(const PartInfo& part) {
  const int rank = part.full_shape.rank();
  if (rank == 0 || part.shape.rank() != rank || static_cast<int>(part.offset.size()) != rank) return false;
  for (int i = 0; i < rank; ++i) {
    const std::int64_t offset = part.offset[static_cast<std::size_t>(i)];
    const std::int64_t full = part.full_shape.dim(i), length = part.shape.dim(i);
    // The format has no empty slices.
    if (offset < 0 || length < 1 || offset > full || length > full - offset) return false;
  }
  return true;
}

}  // namespace

std::string PartInfo::spec() const {
  std::vector<std::string> extents;
  for (std::size_t i = 0; i < offset.size(); ++i) {
    extents.push_back(str_cat(offset[i], ",", shape.dim(static_cast<int>(i))));
  }
  return str_cat(str_join(full_shape.dims(), " "), " ", str_join(extents, ":"));
}

Result<std::optional<PartInfo>> part_info(const Node& variable) {
  const auto* name = find<std::string>(variable, "_full_name");
  const auto* full = find<PartialShape>(variable, "_full_shape");
  const auto* offset = find<std::vector<std::int64_t>>(variable, "_slice_offset");
  const auto* own = find<PartialShape>(variable, "shape");
  if (name == nullptr || full == nullptr || offset == nullptr || own == nullptr) return std::optional<PartInfo>();
  const std::optional<Shape> full_shape = full->as_shape(), shape = own->as_shape();
  if (full_shape && shape) {
    PartInfo part{*name, *full_shape, *offset, *shape};
    if (!name->empty() && lies_within(part)) return std::optional(std::move(part));
  }
  return invalid_argument(variable.describe(), " of shape ", *own, " cannot be the part at [", str_join(*offset, ","),
                          "] of \"", printable(*name), "\" of shape ", *full);
}

}  // namespace tutti::internal
