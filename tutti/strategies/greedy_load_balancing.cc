#include "tutti/strategies/greedy_load_balancing.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace tutti {

double byte_size_load(const NodeSpec& node) {
  auto attr = [&node](std::string_view name) {
    auto it = node.attrs.find(name);
    return it == node.attrs.end() ? nullptr : &it->second;
  };
  const AttrValue* dtype_attr = attr("dtype");
  const AttrValue* shape_attr = attr("shape");
  const DType* dtype = dtype_attr == nullptr ? nullptr : dtype_attr->get<DType>();
  const PartialShape* shape = shape_attr == nullptr ? nullptr : shape_attr->get<PartialShape>();
  if (dtype == nullptr || shape == nullptr || !shape->fully_known()) {
    throw Error(invalid_argument(node.op, " \"", printable(node.name), "\": its size is not known: it has ",
                                 shape == nullptr ? std::string("no shape") : "shape " + shape->to_string()));
  }
  double elements = 1;
  for (const std::int64_t dim : shape->dims()) elements *= static_cast<double>(dim);
  return elements * static_cast<double>(dtype_size(*dtype));
}

PsStrategy greedy_load_balancing(int num_tasks, LoadFunction load) {
  TUTTI_CHECK(num_tasks > 0, "tasks: ", num_tasks);
  auto loads = std::make_shared<std::vector<double>>(num_tasks, 0.0);
  return [loads, load = std::move(load)](const NodeSpec& node) {
    const double added = load(node);
    const auto least = std::min_element(loads->begin(), loads->end());
    *least += added;
    return static_cast<int>(least - loads->begin());
  };
}

}  // namespace tutti
