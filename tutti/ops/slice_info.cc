#include "tutti/ops/slice_info.h"

namespace tutti {
namespace {

constexpr const char* kName = "_full_name";
constexpr const char* kShape = "_full_shape";
constexpr const char* kOffset = "_slice_offset";

template <typename T>
const T* find_attr(const Node& node, const char* name) {
  const AttrValue* value = node.find_attr(name);
  return value == nullptr ? nullptr : value->get<T>();
}

bool fits(const SliceInfo& info) {
  const std::size_t rank = static_cast<std::size_t>(info.full_shape.rank());
  if (info.offset.size() != rank || info.shape.rank() != info.full_shape.rank()) return false;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t full = info.full_shape.dim(static_cast<int>(i)), part = info.shape.dim(static_cast<int>(i));
    if (info.offset[i] < 0 || part > full || info.offset[i] > full - part) return false;
  }
  return true;
}

}  // namespace

std::string SliceInfo::spec() const {
  std::vector<std::string> extents;
  for (std::size_t i = 0; i < offset.size(); ++i) {
    extents.push_back(str_cat(offset[i], ",", shape.dim(static_cast<int>(i))));
  }
  return str_cat(str_join(full_shape.dims(), " "), " ", str_join(extents, ":"));
}

std::optional<SliceInfo> slice_info(const Var& variable) { return slice_info(*variable.handle().node); }

std::optional<SliceInfo> slice_info(const Node& variable) {
  const auto* name = find_attr<std::string>(variable, kName);
  const auto* shape = find_attr<PartialShape>(variable, kShape);
  const auto* offset = find_attr<std::vector<std::int64_t>>(variable, kOffset);
  const auto* own = find_attr<PartialShape>(variable, "shape");
  if (name == nullptr || name->empty() || shape == nullptr || offset == nullptr || own == nullptr) return {};
  const std::optional<Shape> full = shape->as_shape(), part = own->as_shape();
  if (!full || !part) return {};
  SliceInfo info{*name, *full, *offset, *part};
  if (!fits(info)) return {};
  return info;
}

void set_slice_info(const Var& variable, const SliceInfo& info) {
  if (!fits(info) || variable.shape().as_shape() != info.shape) {
    throw_error(invalid_argument("variable \"", printable(variable.name()), "\" of shape ", variable.shape(),
                                 " cannot be the part [", str_join(info.offset, ", "), "] + ", info.shape, " of \"",
                                 printable(info.full_name), "\" of shape ", info.full_shape));
  }
  Graph& graph = variable.handle().graph();
  Node& handle = *variable.handle().node;
  graph.set_attr(handle, kName, info.full_name);
  graph.set_attr(handle, kShape, PartialShape(info.full_shape));
  graph.set_attr(handle, kOffset, info.offset);
}

}  // namespace tutti
