#include "tutti/kernels/cpu/add_lists.h"

#include <memory>
#include <utility>
#include <vector>

#include "tutti/core/tensor_list.h"
#include "tutti/kernels/cpu/elementwise.h"

namespace tutti::cpu {
namespace {

Result<const TensorList*> list_in(const Tensor& tensor) {
  const TensorList* list = nullptr;
  if (tensor.num_elements() == 1) list = tensor.scalar<Variant>().get<TensorList>();
  if (list == nullptr) return invalid_argument("AddN adds tensor lists only, of variants; got ", tensor);
  return list;
}

Result<Tensor> add_items(KernelContext& context, const Tensor& a, const Tensor& b) {
  if (!a.has_value()) return b;
  if (!b.has_value()) return a;
  if (a.shape() != b.shape())
    return invalid_argument("AddN of lists with items of shapes ", a.shape(), " and ", b.shape());
  BinaryFunction add = BinaryFunction::find(BinaryOp::kAdd, a.dtype());
  if (!add) return unimplemented("AddN of lists of ", dtype_name(a.dtype()), " is not supported");
  TUTTI_ASSIGN_OR_RETURN(Tensor sum, context.allocate_temp(a.dtype(), a.shape()));
  run_elementwise(add, a, b, sum, context.team());
  return sum;
}

}  // namespace

Status add_lists(KernelContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const TensorList* first, list_in(context.input(0)));
  PartialShape shape = first->element_shape();
  std::vector<Tensor> items = first->items();
  for (int k = 1; k < context.num_inputs(); ++k) {
    TUTTI_ASSIGN_OR_RETURN(const TensorList* list, list_in(context.input(k)));
    if (list->dtype() != first->dtype() || list->size() != first->size()) {
      return invalid_argument("AddN of a list of ", first->size(), " ", dtype_name(first->dtype()), " and one of ",
                              list->size(), " ", dtype_name(list->dtype()));
    }
    TUTTI_ASSIGN_OR_RETURN(shape, shape.merge(list->element_shape()));
    for (std::size_t i = 0; i < items.size(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(items[i], add_items(context, items[i], list->item(static_cast<std::int64_t>(i))));
    }
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, Shape{}));
  out->data<Variant>()[0] =
      Variant(std::make_shared<const TensorList>(first->dtype(), std::move(shape), std::move(items)));
  return {};
}

}  // namespace tutti::cpu
