#include "tutti/ops/save_slice_info.h"

namespace tutti {
namespace {

constexpr std::string_view kFullName = "_save_slice_full_name";
constexpr std::string_view kFullShape = "_save_slice_full_shape";
constexpr std::string_view kOffset = "_save_slice_offset";
constexpr std::string_view kShape = "_save_slice_shape";

using Numbers = std::vector<std::int64_t>;

bool lies_within(const SaveSliceInfo& info) {
  if (info.offset.size() != info.full_shape.size() || info.shape.size() != info.full_shape.size()) return false;
  for (std::size_t i = 0; i < info.shape.size(); ++i) {
    if (info.offset[i] < 0 || info.shape[i] < 0 || info.offset[i] > info.full_shape[i]) return false;
    if (info.shape[i] > info.full_shape[i] - info.offset[i]) return false;
  }
  return true;
}

const Numbers* numbers(const Node& node, std::string_view name) {
  const AttrValue* value = node.find_attr(name);
  return value == nullptr ? nullptr : value->get<Numbers>();
}

}  // namespace

std::string SaveSliceInfo::spec() const {
  std::vector<std::string> extents;
  for (std::size_t i = 0; i < shape.size(); ++i) extents.push_back(str_cat(offset[i], ",", shape[i]));
  return str_cat(str_join(full_shape, " "), " ", str_join(extents, ":"));
}

void set_save_slice_info(Node& variable, const SaveSliceInfo& info) {
  if (info.full_name.empty() || info.full_shape.empty() || !lies_within(info)) {
    throw_error(invalid_argument(variable.describe(), ": [", str_join(info.shape, ","), "] at [",
                                 str_join(info.offset, ","), "] is no part of \"", printable(info.full_name), "\" [",
                                 str_join(info.full_shape, ","), "]"));
  }
  Graph& graph = variable.graph();
  graph.set_attr(variable, kFullName, info.full_name);
  graph.set_attr(variable, kFullShape, info.full_shape);
  graph.set_attr(variable, kOffset, info.offset);
  graph.set_attr(variable, kShape, info.shape);
}

std::optional<SaveSliceInfo> save_slice_info(const Node& variable) {
  const AttrValue* name = variable.find_attr(kFullName);
  const Numbers* full_shape = numbers(variable, kFullShape);
  const Numbers* offset = numbers(variable, kOffset);
  const Numbers* shape = numbers(variable, kShape);
  if (name == nullptr || name->get<std::string>() == nullptr || !full_shape || !offset || !shape) return {};
  SaveSliceInfo info{*name->get<std::string>(), *full_shape, *offset, *shape};
  // The graph may come from anywhere.
  if (info.full_name.empty() || info.full_shape.empty() || !lies_within(info)) return {};
  return info;
}

}  // namespace tutti
