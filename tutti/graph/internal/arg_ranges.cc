#include "tutti/graph/internal/arg_ranges.h"

namespace tutti {

std::vector<ArgRange> arg_ranges(const std::vector<ArgDef>& args, const AttrMap& attrs) {
  std::vector<ArgRange> ranges;
  int begin = 0;
  for (const ArgDef& arg : args) {
    int count = 1;
    if (!arg.type_list_attr.empty()) {
      count = static_cast<int>(attrs.find(arg.type_list_attr)->second.get<std::vector<DType>>()->size());
    } else if (!arg.number_attr.empty()) {
      count = static_cast<int>(*attrs.find(arg.number_attr)->second.get<std::int64_t>());
    }
    ranges.push_back({begin, count});
    begin += count;
  }
  return ranges;
}

}  // namespace tutti
