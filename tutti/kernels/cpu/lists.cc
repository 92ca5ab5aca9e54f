#include "tutti/kernels/cpu/lists.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/tensor_list.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/internal/list_access.h"
#include "tutti/kernels/resources/slots.h"
#include "tutti/kernels/resources/stack.h"

namespace tutti::cpu {

// --- Stacks. ---

namespace {

class MakeStack : public Kernel {
 public:
  explicit MakeStack(const KernelInit& init)
      : name_(str_cat(init.attr<std::string>("stack_name"), "/", init.node)),
        device_(init.device),
        dtype_(init.attr<DType>("elem_type")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t max_items, read_integer(ctx.input(0), "max_size"));
    // A loop around this node makes a stack in every iteration.
    const std::string name = str_cat(name_, "_", made_.fetch_add(1, std::memory_order_relaxed));
    auto slot = ctx.step().step_resources().slot("stacks", name);
    slot->get_or_create([&] { return std::make_shared<Stack>(name, dtype_, max_items); });
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
    *out->data<ResourceHandle>() = ResourceHandle(device_, std::move(slot));
    return {};
  }

 private:
  const std::string name_;
  const std::string device_;
  const DType dtype_;
  std::atomic<std::uint64_t> made_{0};  // numbers only, orders nothing
};

Result<std::shared_ptr<Stack>> input_stack(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
  return resource_in<Stack>(*slot, "stack");
}

class StackPop : public Kernel {
 public:
  explicit StackPop(const KernelInit& init) : dtype_(init.attr<DType>("elem_type")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto stack, input_stack(ctx));
    TUTTI_ASSIGN_OR_RETURN(Tensor item, stack->pop());
    if (item.dtype() != dtype_) {
      return invalid_argument("the stack holds ", dtype_name(item.dtype()), ", not ", dtype_name(dtype_));
    }
    ctx.set_output(0, std::move(item));
    return {};
  }

 private:
  const DType dtype_;
};

}  // namespace

KernelFactory stack_kernel() { return kernel_of<MakeStack>(); }
KernelFactory stack_pop_kernel() { return kernel_of<StackPop>(); }

Status stack_push(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto stack, input_stack(ctx));
  TUTTI_RETURN_IF_ERROR(stack->push(ctx.input(1)));
  ctx.set_output(0, ctx.input(1));
  return {};
}

Status stack_close(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto stack, input_stack(ctx));
  stack->close();
  return {};
}

// --- Lists. ---

Result<PartialShape> read_partial_shape(const Tensor& tensor, std::string_view what) {
  DimList dims;
  TUTTI_RETURN_IF_ERROR(read_dims(tensor, what, &dims));
  if (tensor.rank() == 0) {
    if (dims[0] == -1) return PartialShape();
    return invalid_argument(what, " must be a vector, or the scalar -1; it is the scalar ", dims[0]);
  }
  return PartialShape::create(std::vector<std::int64_t>(dims.span().begin(), dims.span().end()));
}

Tensor row_of(const Tensor& tensor, std::int64_t i) {
  return tensor.slice(i, i + 1).reshaped(tensor.shape().without_dim(0));
}

Status stack_items(KernelContext& ctx, int out, const std::vector<Tensor>& items, const Shape& each) {
  if (each.rank() == kMaxRank) return invalid_argument("items of ", kMaxRank, " dimensions cannot be stacked");
  DimList dims;
  dims.push_back(static_cast<std::int64_t>(items.size()));
  for (const std::int64_t dim : each.dims()) dims.push_back(dim);
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
  TUTTI_ASSIGN_OR_RETURN(Tensor * stacked, ctx.allocate_output(out, shape));
  const std::int64_t row = each.num_elements();
  const DType dtype = stacked->dtype();
  for (std::size_t i = 0; row > 0 && i < items.size(); ++i) {
    void* to = at_element(dtype, stacked->raw(), static_cast<std::int64_t>(i) * row);
    if (items[i].has_value()) {
      copy_elements(dtype, to, items[i].raw(), row);
    } else {
      zero_elements(dtype, to, row);
    }
  }
  return {};
}

namespace {
// A list takes memory before its items hold anything: not more than this.
constexpr std::int64_t kMaxListBytes = std::int64_t{1} << 30;
constexpr std::int64_t kMaxListItems = kMaxListBytes / std::int64_t{sizeof(Tensor)};
}  // namespace

Result<const TensorList*> input_list(KernelContext& ctx, int i, DType dtype) {
  const Tensor& tensor = ctx.input(i);
  const TensorList* list = nullptr;
  if (tensor.dtype() == DType::kVariant && tensor.num_elements() == 1)
    list = tensor.scalar<Variant>().get<TensorList>();
  if (list == nullptr) return invalid_argument("Input handle is not a list. Saw: ", tensor);
  if (dtype != DType::kInvalid && list->dtype() != dtype) {
    return invalid_argument("Invalid data types; op elements ", dtype_name(dtype), " but list elements ",
                            dtype_name(list->dtype()));
  }
  return list;
}

Status set_list(KernelContext& ctx, int out, std::shared_ptr<const TensorList> list) {
  if (list->depth() > kMaxVariantDepth) {
    return invalid_argument("lists cannot lie more than ", kMaxVariantDepth, " deep in one another");
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * tensor, ctx.allocate_output(out, Shape{}));
  *tensor->data<Variant>() = Variant(std::move(list));
  return {};
}

Status check_list_size(std::int64_t size) {
  if (size < 0) return invalid_argument("a list cannot have ", size, " items");
  if (size <= kMaxListItems) return {};
  return resource_exhausted("a list of ", size, " items, each of which takes ", sizeof(Tensor),
                            " bytes before it holds anything, is longer than ", kMaxListItems);
}

namespace {

// Output `out` is `item`, or zeros of the shape that list and op agree on when it has no value.
Status set_item_output(KernelContext& ctx, int out, const TensorList& list, Tensor item, const Tensor& shape_input) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape asked, read_partial_shape(shape_input, "element_shape"));
  if (item.has_value()) {
    if (!asked.compatible_with(item.shape())) {
      return invalid_argument("Incompatible shapes during merge: the item is ", item.shape(), ", the op says ", asked);
    }
    ctx.set_output(out, std::move(item));
    return {};
  }
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, list.element_shape().merge(asked));
  if (!shape.fully_known()) {
    TUTTI_ASSIGN_OR_RETURN(const PartialShape common, list.common_shape());
    TUTTI_ASSIGN_OR_RETURN(shape, shape.merge(common));
  }
  const auto known = shape.as_shape();
  if (!known) {
    return invalid_argument("Trying to read an uninitialized tensor but element_shape is not fully defined: ", shape);
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * zeros, ctx.allocate_output(out, *known));
  zero_elements(zeros->dtype(), zeros->raw(), zeros->num_elements());
  return {};
}

// Base of the kernels that know the element type by attribute.
class ListKernel : public Kernel {
 public:
  explicit ListKernel(const KernelInit& init) : dtype_(init.attr<DType>("element_dtype")) {}

 protected:
  const DType dtype_;
};

class EmptyTensorList : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(PartialShape shape, read_partial_shape(ctx.input(0), "element_shape"));
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t max_items, read_integer(ctx.input(1), "max_num_elements"));
    return set_list(ctx, 0, std::make_shared<const TensorList>(dtype_, std::move(shape), max_items));
  }
};

class TensorListReserve : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(PartialShape shape, read_partial_shape(ctx.input(0), "element_shape"));
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t count, read_integer(ctx.input(1), "num_elements"));
    TUTTI_RETURN_IF_ERROR(check_list_size(count));
    return set_list(ctx, 0, std::make_shared<const TensorList>(dtype_, std::move(shape), std::vector<Tensor>(count)));
  }
};

class TensorListPushBack : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const TensorList* list, input_list(ctx, 0, dtype_));
    const Tensor& item = ctx.input(1);
    if (!list->element_shape().compatible_with(item.shape())) {
      return invalid_argument("Tried to append a tensor with incompatible shape to a list. Op element shape: ",
                              item.shape(), " list shape: ", list->element_shape());
    }
    if (list->max_items() >= 0 && list->size() >= list->max_items()) {
      return invalid_argument("Tried to push item into a full list list size: ", list->size(),
                              " max_num_elements: ", list->max_items());
    }
    return set_list(ctx, 0, list->with_pushed(item));
  }
};

class TensorListPopBack : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const TensorList* list, input_list(ctx, 0, dtype_));
    if (list->size() == 0) return invalid_argument("Trying to pop from an empty list.");
    TUTTI_RETURN_IF_ERROR(set_item_output(ctx, 1, *list, list->item(list->size() - 1), ctx.input(1)));
    return set_list(ctx, 0, list->with_popped());
  }
};

class TensorListGetItem : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const TensorList* list, input_list(ctx, 0, dtype_));
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t index, read_integer(ctx.input(1), "index"));
    if (index < 0 || index >= list->size()) {
      return invalid_argument("Trying to access element ", index, " in a list with ", list->size(), " elements.");
    }
    return set_item_output(ctx, 0, *list, list->item(index), ctx.input(2));
  }
};

// The list in input `in`, which is known to hold one. It is taken out of the input where nobody else needs that.
std::shared_ptr<const TensorList> take_list(KernelContext& ctx, int in) {
  std::shared_ptr<const VariantObject> object = ctx.input(in).scalar<Variant>().object();
  if (Tensor* forwarded = ctx.forward(in, 0, ctx.input(in).shape())) *forwarded->data<Variant>() = Variant();
  return std::dynamic_pointer_cast<const TensorList>(std::move(object));
}

class TensorListSetItem : public ListKernel {
 public:
  explicit TensorListSetItem(const KernelInit& init)
      : ListKernel(init), resize_(init.attr<bool>("resize_if_index_out_of_bounds")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const TensorList* list, input_list(ctx, 0, dtype_));
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t index, read_integer(ctx.input(1), "index"));
    const Tensor& item = ctx.input(2);
    const bool grows = resize_ && index >= list->size();
    if (grows) {
      TUTTI_RETURN_IF_ERROR(check_list_size(index + 1));
    } else if (index < 0 || index >= list->size()) {
      return invalid_argument("Trying to modify element ", index, " in a list with ", list->size(), " elements.");
    }
    if (!list->element_shape().compatible_with(item.shape())) {
      return invalid_argument("Tried to set a tensor with incompatible shape at a list index. Item element shape: ",
                              item.shape(), " list shape: ", list->element_shape());
    }
    std::shared_ptr<const TensorList> taken = take_list(ctx, 0);
    if (grows) taken = taken->resized(index + 1);
    return set_list(ctx, 0, TensorList::with_item(std::move(taken), index, item));
  }

 private:
  const bool resize_;
};

class TensorListStack : public ListKernel {
 public:
  explicit TensorListStack(const KernelInit& init)
      : ListKernel(init), expected_(init.attr<std::int64_t>("num_elements")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const TensorList* list, input_list(ctx, 0, dtype_));
    if (expected_ != -1 && list->size() != expected_) {
      return invalid_argument("Operation expected a list with ", expected_, " elements but got a list with ",
                              list->size(), " elements.");
    }
    TUTTI_ASSIGN_OR_RETURN(const PartialShape asked, read_partial_shape(ctx.input(1), "element_shape"));
    TUTTI_ASSIGN_OR_RETURN(const PartialShape common, list->common_shape());
    TUTTI_ASSIGN_OR_RETURN(const PartialShape shape, common.merge(asked));
    const auto each = shape.as_shape();
    if (!each) {
      return invalid_argument("Tried to stack elements of a list whose element_shape is not fully defined: ", shape);
    }
    return stack_items(ctx, 0, list->items(), *each);
  }

 private:
  const std::int64_t expected_;
};

class TensorListFromTensor : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status compute(KernelContext& ctx) override {
    const Tensor& tensor = ctx.input(0);
    if (tensor.rank() < 1) return invalid_argument("Tensor must be at least a vector, but saw shape: ", tensor.shape());
    TUTTI_ASSIGN_OR_RETURN(PartialShape shape, read_partial_shape(ctx.input(1), "element_shape"));
    if (!shape.compatible_with(tensor.shape().without_dim(0))) {
      return invalid_argument("Specified a list with shape ", shape, " from a tensor with shape ", tensor.shape());
    }
    // Rows of nothing may be of any number; an item of the list is not nothing.
    TUTTI_RETURN_IF_ERROR(check_list_size(tensor.dim(0)));
    std::vector<Tensor> items;
    items.reserve(tensor.dim(0));
    for (std::int64_t i = 0; i < tensor.dim(0); ++i) items.push_back(row_of(tensor, i));
    return set_list(ctx, 0, std::make_shared<const TensorList>(dtype_, std::move(shape), std::move(items)));
  }
};

}  // namespace

KernelFactory empty_tensor_list_kernel() { return kernel_of<EmptyTensorList>(); }
KernelFactory tensor_list_reserve_kernel() { return kernel_of<TensorListReserve>(); }
KernelFactory tensor_list_push_back_kernel() { return kernel_of<TensorListPushBack>(); }
KernelFactory tensor_list_pop_back_kernel() { return kernel_of<TensorListPopBack>(); }
KernelFactory tensor_list_get_item_kernel() { return kernel_of<TensorListGetItem>(); }
KernelFactory tensor_list_set_item_kernel() { return kernel_of<TensorListSetItem>(); }
KernelFactory tensor_list_stack_kernel() { return kernel_of<TensorListStack>(); }
KernelFactory tensor_list_from_tensor_kernel() { return kernel_of<TensorListFromTensor>(); }

Status tensor_list_length(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const TensorList* list, input_list(ctx, 0));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
  *out->data<std::int32_t>() = static_cast<std::int32_t>(list->size());
  return {};
}

Status tensor_list_element_shape(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const TensorList* list, input_list(ctx, 0));
  const PartialShape& shape = list->element_shape();
  std::vector<std::int64_t> dims{-1};
  if (shape.has_rank()) dims.assign(shape.dims().begin(), shape.dims().end());
  TUTTI_RETURN_IF_ERROR(check_fits(dims, ctx.output_type(0), "dimension"));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape.has_rank() ? Shape{shape.rank()} : Shape{}));
  write_indices(dims, *out);
  return {};
}

}  // namespace tutti::cpu
