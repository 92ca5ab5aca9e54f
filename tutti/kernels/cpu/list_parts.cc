#include "tutti/kernels/cpu/list_parts.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/internal/list_access.h"
#include "tutti/kernels/cpu/lists.h"

namespace tutti::cpu {
namespace {

class ElementKernel : public Kernel {
 public:
  explicit ElementKernel(const KernelInit& init) : dtype_(init.attr<DType>("element_dtype")) {}

 protected:
  const DType dtype_;
};

Status check_index_vector(const Tensor& indices) {
  if (indices.rank() == 1) return {};
  return invalid_argument("Expected indices to be a vector, but received shape: ", indices.shape());
}

class TensorListGather : public ElementKernel {
 public:
  using ElementKernel::ElementKernel;
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const TensorList* list, input_list(ctx, 0, dtype_));
    TUTTI_ASSIGN_OR_RETURN(PartialShape shape, read_partial_shape(ctx.input(2), "element_shape"));
    TUTTI_ASSIGN_OR_RETURN(shape, shape.merge(list->element_shape()));
    std::vector<Tensor> items;
    for (const std::int32_t index : ctx.input(1).flat<std::int32_t>()) {
      if (index < 0 || index >= list->size()) {
        return invalid_argument("Trying to gather element ", index, " in a list with ", list->size(), " elements.");
      }
      items.push_back(list->item(index));
      if (!items.back().has_value()) continue;
      TUTTI_ASSIGN_OR_RETURN(shape, shape.merge(items.back().shape()));
    }
    const auto each = shape.as_shape();
    if (!each) {
      return invalid_argument(
          "Tried to gather uninitialized tensors from a list with non-fully-defined element_shape: ", shape);
    }
    return stack_items(ctx, 0, items, *each);
  }
};

// Rows of `tensor` put at `indices` of the items.
Status scatter_rows(const Tensor& tensor, const Tensor& indices, const PartialShape& element_shape,
                    std::vector<Tensor>& items) {
  for (std::int64_t i = 0; i < indices.num_elements(); ++i) {
    Tensor row = row_of(tensor, i);
    if (!element_shape.compatible_with(row.shape())) {
      return invalid_argument("Tried to put a tensor of shape ", row.shape(), " into a list of ", element_shape);
    }
    items[static_cast<std::size_t>(indices.data<std::int32_t>()[i])] = std::move(row);
  }
  return {};
}

// Checks indices against the rows that go there and gives how long a list must be for them.
Result<std::int64_t> length_for(const Tensor& tensor, const Tensor& indices) {
  TUTTI_RETURN_IF_ERROR(check_index_vector(indices));
  if (tensor.rank() < 1) return invalid_argument("Tensor must be at least a vector, but saw shape: ", tensor.shape());
  if (tensor.dim(0) != indices.dim(0)) {
    return invalid_argument("Invalid number of rows in input tensor. Expected: ", indices.dim(0),
                            " Actual: ", tensor.dim(0));
  }
  std::int64_t length = 0;
  for (const std::int32_t index : indices.flat<std::int32_t>()) {
    if (index < 0) return invalid_argument("Indices in TensorListScatter must all be non-negative, got ", index);
    length = std::max<std::int64_t>(length, std::int64_t{index} + 1);
  }
  TUTTI_RETURN_IF_ERROR(check_list_size(length));
  return length;
}

class TensorListScatter : public ElementKernel {
 public:
  using ElementKernel::ElementKernel;
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(PartialShape shape, read_partial_shape(ctx.input(2), "element_shape"));
    TUTTI_ASSIGN_OR_RETURN(std::int64_t length, length_for(ctx.input(0), ctx.input(1)));
    if (ctx.num_inputs() > 3) {
      TUTTI_ASSIGN_OR_RETURN(const std::int64_t asked, read_integer(ctx.input(3), "num_elements"));
      if (asked < -1) return invalid_argument("TensorListScatter expects num_elements >= -1, found: ", asked);
      if (asked >= 0 && asked < length) {
        return invalid_argument("TensorListScatter: Trying to scatter at index ", length - 1, " in list with size ",
                                asked);
      }
      if (asked >= 0) length = asked;
      TUTTI_RETURN_IF_ERROR(check_list_size(length));
    }
    std::vector<Tensor> items(static_cast<std::size_t>(length));
    TUTTI_RETURN_IF_ERROR(scatter_rows(ctx.input(0), ctx.input(1), shape, items));
    return set_list(ctx, 0, std::make_shared<const TensorList>(dtype_, std::move(shape), std::move(items)));
  }
};

class TensorListScatterInto : public ElementKernel {
 public:
  using ElementKernel::ElementKernel;
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const TensorList* list, input_list(ctx, 0, dtype_));
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t length, length_for(ctx.input(1), ctx.input(2)));
    std::vector<Tensor> items = list->items();
    if (length > list->size()) items.resize(static_cast<std::size_t>(length));
    TUTTI_RETURN_IF_ERROR(scatter_rows(ctx.input(1), ctx.input(2), list->element_shape(), items));
    return set_list(ctx, 0, std::make_shared<const TensorList>(dtype_, list->element_shape(), std::move(items)));
  }
};

PartialShape without_leading(const PartialShape& shape) {
  if (!shape.has_rank()) return shape;
  return PartialShape(std::vector<std::int64_t>(shape.dims().begin() + 1, shape.dims().end()));
}

class TensorListConcat : public ElementKernel {
 public:
  explicit TensorListConcat(const KernelInit& init) : ElementKernel(init) {
    auto it = init.attrs.find("element_shape");
    if (it != init.attrs.end()) attr_shape_ = init.attr<PartialShape>("element_shape");
  }

  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const TensorList* list, input_list(ctx, 0, dtype_));
    PartialShape asked = attr_shape_;
    if (ctx.num_inputs() > 1) {
      TUTTI_ASSIGN_OR_RETURN(asked, read_partial_shape(ctx.input(1), "element_shape"));
    }
    TUTTI_ASSIGN_OR_RETURN(asked, asked.merge(list->element_shape()));
    if (asked.has_rank() && asked.rank() < 1) {
      return invalid_argument("Concat requires elements to be at least vectors, found scalars instead.");
    }
    const std::vector<Tensor> items = list->items();
    PartialShape rest = without_leading(asked);
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t rows, common_rows(items, asked, rest));
    std::vector<std::int64_t> lengths;
    for (std::size_t i = 0; i < items.size(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(const std::int64_t length, length_of(ctx, items[i], i, rows));
      lengths.push_back(length);
    }
    const auto known = rest.as_shape();
    if (!known && !items.empty()) {
      return invalid_argument(
          "Trying to concat list with only uninitialized tensors but element_shape_except_first_dim is not fully "
          "defined: ",
          rest);
    }
    if (!known) {
      return invalid_argument(
          "All except the first dimension must be fully defined when concating an empty tensor "
          "list. element_shape: ",
          asked);
    }
    return join(ctx, items, lengths, *known);
  }

 private:
  // The rows that all items have that were set, or kUnknownDim where they differ; what is behind them is merged into
  // `rest`.
  static Result<std::int64_t> common_rows(const std::vector<Tensor>& items, const PartialShape& asked,
                                          PartialShape& rest) {
    const std::int64_t asked_rows = asked.has_rank() ? asked.dim(0) : kUnknownDim;
    std::int64_t rows = asked_rows;
    bool is_first = true;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!items[i].has_value()) continue;
      if (items[i].rank() < 1) {
        return invalid_argument("Concat saw a scalar shape at index ", i, " but requires at least vectors.");
      }
      const std::int64_t found = items[i].dim(0);
      if (asked_rows >= 0 && asked_rows != found) {
        return invalid_argument(
            "First entry of element_shape input does not match the first dim of list element at index: ", i,
            " Expected: ", asked_rows, " Actual: ", found);
      }
      TUTTI_ASSIGN_OR_RETURN(rest, rest.merge(items[i].shape().without_dim(0)));
      rows = is_first || rows == found ? found : kUnknownDim;
      is_first = false;
    }
    return rows;
  }

  // Rows of item i. One that was never set has those that leading_dims says, or else those of the others.
  static Result<std::int64_t> length_of(KernelContext& ctx, const Tensor& item, std::size_t i,
                                        std::int64_t rows_of_others) {
    if (item.has_value()) return item.dim(0);
    const std::int64_t given = ctx.num_inputs() > 2 ? ctx.input(2).num_elements() : 0;
    if (static_cast<std::int64_t>(i) >= given) {
      if (rows_of_others >= 0) return rows_of_others;
      return invalid_argument("List contains uninitialized tensor at index ", i, " but leading_dims has only ", given,
                              " elements.");
    }
    const std::int64_t length = ctx.input(2).data<std::int64_t>()[i];
    if (length < 0) return invalid_argument("leading_dims has ", length, " for item ", i);
    return length;
  }

  static Status join(KernelContext& ctx, const std::vector<Tensor>& items, const std::vector<std::int64_t>& lengths,
                     const Shape& rest) {
    std::vector<std::int64_t> dims{0};
    for (const std::int64_t length : lengths) {
      if (__builtin_add_overflow(dims[0], length, &dims[0])) return invalid_argument("the list has too many rows");
    }
    dims.insert(dims.end(), rest.dims().begin(), rest.dims().end());
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims));
    TUTTI_ASSIGN_OR_RETURN(Tensor * joined, ctx.allocate_output(0, shape));
    TUTTI_ASSIGN_OR_RETURN(Tensor * counts, ctx.allocate_output(1, Shape{static_cast<std::int64_t>(items.size())}));
    std::int64_t at = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::int64_t count = lengths[i] * rest.num_elements();
      void* const to = at_element(joined->dtype(), joined->raw(), at);
      if (count > 0 && items[i].has_value()) copy_elements(joined->dtype(), to, items[i].raw(), count);
      if (count > 0 && !items[i].has_value()) zero_elements(joined->dtype(), to, count);
      counts->data<std::int64_t>()[i] = lengths[i];
      at += count;
    }
    return {};
  }

  PartialShape attr_shape_;
};

class TensorListSplit : public ElementKernel {
 public:
  using ElementKernel::ElementKernel;
  Status compute(KernelContext& ctx) override {
    const Tensor& tensor = ctx.input(0);
    const Tensor& lengths = ctx.input(2);
    if (tensor.rank() < 1) {
      return invalid_argument("Tensor must be at least a vector, but saw shape: ", tensor.shape());
    }
    if (lengths.rank() != 1) {
      return invalid_argument("Expected lengths to be a vector, received shape: ", lengths.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(PartialShape shape, read_partial_shape(ctx.input(1), "element_shape"));
    if (shape.has_rank() && shape.rank() < 1) {
      return invalid_argument("TensorListSplit requires element_shape to be at least of rank 1, but saw: ", shape);
    }
    if (!without_leading(shape).compatible_with(tensor.shape().without_dim(0))) {
      return invalid_argument("tensor shape ", tensor.shape(), " is not compatible with element_shape ", shape);
    }
    TUTTI_ASSIGN_OR_RETURN(std::vector<Tensor> items, parts(tensor, lengths, shape));
    return set_list(ctx, 0, std::make_shared<const TensorList>(dtype_, std::move(shape), std::move(items)));
  }

 private:
  static Result<std::vector<Tensor>> parts(const Tensor& tensor, const Tensor& lengths, const PartialShape& shape) {
    std::vector<Tensor> items;
    std::int64_t begin = 0;
    for (const std::int64_t length : lengths.flat<std::int64_t>()) {
      if (length < 0) return invalid_argument("Invalid value in lengths: ", length);
      if (length > tensor.dim(0) - begin) {
        return invalid_argument("Attempting to slice [", begin, ", ", begin, " + ", length,
                                "] from tensor with length ", tensor.dim(0));
      }
      if (shape.has_rank() && shape.dim(0) >= 0 && shape.dim(0) != length) {
        return invalid_argument("lengths has ", length, " where element_shape is ", shape);
      }
      items.push_back(tensor.slice(begin, begin + length));
      begin += length;
    }
    if (begin != tensor.dim(0)) {
      return invalid_argument("Unused values in tensor. Length of tensor: ", tensor.dim(0), " Values used: ", begin);
    }
    return items;
  }
};

// The list at place i of a variant tensor of any shape.
Result<const TensorList*> list_at(const Tensor& tensor, std::int64_t i, DType dtype) {
  const TensorList* list = tensor.data<Variant>()[i].get<TensorList>();
  if (list == nullptr) return invalid_argument("element ", i, " is not a list");
  if (list->dtype() == dtype) return list;
  return invalid_argument("Invalid data types; op elements ", dtype_name(dtype), " but list ", i, " has ",
                          dtype_name(list->dtype()));
}

Status put_list(Tensor& to, std::int64_t i, std::shared_ptr<const TensorList> list) {
  if (list->depth() > kMaxVariantDepth) {
    return invalid_argument("lists cannot lie more than ", kMaxVariantDepth, " deep in one another");
  }
  to.data<Variant>()[i] = Variant(std::move(list));
  return {};
}

class TensorListConcatLists : public ElementKernel {
 public:
  using ElementKernel::ElementKernel;
  Status compute(KernelContext& ctx) override {
    const Tensor& a = ctx.input(0);
    const Tensor& b = ctx.input(1);
    if (a.shape() != b.shape()) {
      return invalid_argument("Incompatible shapes between list variants: ", a.shape(), " and ", b.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, a.shape()));
    for (std::int64_t i = 0; i < a.num_elements(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(const TensorList* first, list_at(a, i, dtype_));
      TUTTI_ASSIGN_OR_RETURN(const TensorList* second, list_at(b, i, dtype_));
      TUTTI_ASSIGN_OR_RETURN(PartialShape shape, first->element_shape().merge(second->element_shape()));
      TUTTI_RETURN_IF_ERROR(check_list_size(first->size() + second->size()));
      std::vector<Tensor> items = first->items();
      for (Tensor& item : second->items()) items.push_back(std::move(item));
      TUTTI_RETURN_IF_ERROR(
          put_list(*out, i, std::make_shared<const TensorList>(dtype_, std::move(shape), std::move(items))));
    }
    return {};
  }
};

class TensorListPushBackBatch : public ElementKernel {
 public:
  using ElementKernel::ElementKernel;
  Status compute(KernelContext& ctx) override {
    const Tensor& lists = ctx.input(0);
    const Tensor& rows = ctx.input(1);
    if (lists.rank() < 1 || rows.rank() < 1 || lists.dim(0) != rows.dim(0) || lists.num_elements() != rows.dim(0)) {
      return invalid_argument("Expected a list for each row, got lists ", lists.shape(), " and tensor ", rows.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, lists.shape()));
    for (std::int64_t i = 0; i < rows.dim(0); ++i) {
      TUTTI_ASSIGN_OR_RETURN(const TensorList* list, list_at(lists, i, dtype_));
      Tensor row = row_of(rows, i);
      if (!list->element_shape().compatible_with(row.shape())) {
        return invalid_argument("Tried to append a tensor with incompatible shape to a list. Op element shape: ",
                                row.shape(), " list shape: ", list->element_shape());
      }
      TUTTI_RETURN_IF_ERROR(put_list(*out, i, list->with_pushed(std::move(row))));
    }
    return {};
  }
};

}  // namespace

Status tensor_list_resize(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const TensorList* list, input_list(ctx, 0));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t size, read_integer(ctx.input(1), "size"));
  if (size < 0) return invalid_argument("TensorListSlice expects size to be non-negative. Got: ", size);
  TUTTI_RETURN_IF_ERROR(check_list_size(size));
  return set_list(ctx, 0, list->resized(size));
}

KernelFactory tensor_list_gather_kernel() { return kernel_of<TensorListGather>(); }
KernelFactory tensor_list_scatter_kernel() { return kernel_of<TensorListScatter>(); }
KernelFactory tensor_list_scatter_into_kernel() { return kernel_of<TensorListScatterInto>(); }
KernelFactory tensor_list_concat_kernel() { return kernel_of<TensorListConcat>(); }
KernelFactory tensor_list_split_kernel() { return kernel_of<TensorListSplit>(); }
KernelFactory tensor_list_concat_lists_kernel() { return kernel_of<TensorListConcatLists>(); }
KernelFactory tensor_list_push_back_batch_kernel() { return kernel_of<TensorListPushBackBatch>(); }

}  // namespace tutti::cpu
