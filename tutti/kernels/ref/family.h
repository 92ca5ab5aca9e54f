// What the families of references share.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/kernels/ref/reference.h"

namespace tutti::ref {

using References = std::map<std::string, ReferenceFn, std::less<>>;
using Tensors = std::vector<Tensor>;

// The attribute, or `otherwise` where it is missing or of another type.
template <typename T>
T attr_or(const AttrMap& attrs, std::string_view name, T otherwise) {
  auto it = attrs.find(name);
  if (it == attrs.end()) return otherwise;
  const T* value = it->second.get<T>();
  return value != nullptr ? *value : otherwise;
}

// Where `data_format` puts the channels of an image or a volume.
inline int channel_axis(const AttrMap& attrs, const Tensor& value) {
  const std::string format = attr_or(attrs, "data_format", std::string("NHWC"));
  return format == "NCHW" || format == "NCDHW" ? 1 : value.rank() - 1;
}

}  // namespace tutti::ref
