#include "tutti/kernels/ref/reference.h"

#include "tutti/kernels/ref/elementwise.h"
#include "tutti/kernels/ref/networks.h"
#include "tutti/kernels/ref/products.h"
#include "tutti/kernels/ref/reductions.h"
#include "tutti/kernels/ref/windows.h"

namespace tutti {
namespace {

ref::References all_references() {
  ref::References all;
  ref::add_elementwise_references(all);
  ref::add_reduction_references(all);
  ref::add_product_references(all);
  ref::add_network_references(all);
  ref::add_window_references(all);
  return all;
}

}  // namespace

const ReferenceFn* find_reference(std::string_view op) {
  static const ref::References all = all_references();
  auto it = all.find(op);
  return it == all.end() ? nullptr : &it->second;
}

}  // namespace tutti
