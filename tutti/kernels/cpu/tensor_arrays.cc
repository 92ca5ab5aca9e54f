#include "tutti/kernels/cpu/tensor_arrays.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/internal/list_access.h"
#include "tutti/kernels/cpu/lists.h"
#include "tutti/kernels/resources/slots.h"
#include "tutti/kernels/resources/tensor_array.h"

namespace tutti::cpu {

namespace {

constexpr std::string_view kContainer = "tensor arrays";
constexpr std::int64_t kMaxSize = std::int64_t{1} << 27;

Result<std::shared_ptr<TensorArray>> input_array(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
  return resource_in<TensorArray>(*slot, "tensor array");
}

Status set_handle(KernelContext& ctx, const std::string& device, std::shared_ptr<ResourceSlot> slot) {
  TUTTI_ASSIGN_OR_RETURN(Tensor * handle, ctx.allocate_output(0, Shape{}));
  *handle->data<ResourceHandle>() = ResourceHandle(device, std::move(slot));
  return {};
}

Status check_dtype(const TensorArray& array, DType dtype) {
  if (array.options().dtype == dtype) return {};
  return invalid_argument("TensorArray dtype is ", dtype_name(array.options().dtype), " but Op requested dtype ",
                          dtype_name(dtype), ".");
}

class MakeTensorArray : public Kernel {
 public:
  explicit MakeTensorArray(const KernelInit& init) : device_(init.device) {
    options_.name = str_cat(init.attr<std::string>("tensor_array_name"), "/", init.node);
    options_.dtype = init.attr<DType>("dtype");
    options_.element_shape = init.attr<PartialShape>("element_shape");
    options_.dynamic_size = init.attr<bool>("dynamic_size");
    options_.clear_after_read = init.attr<bool>("clear_after_read");
    options_.identical_element_shapes = init.attr<bool>("identical_element_shapes");
  }
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t size, read_integer(ctx.input(0), "size"));
    if (size < 0 || size > kMaxSize) return invalid_argument("Size should be >= 0 and at most ", kMaxSize, ": ", size);
    TensorArrayOptions options = options_;
    // A loop around this node makes an array in every iteration.
    options.name = str_cat(options_.name, "_", made_.fetch_add(1, std::memory_order_relaxed));
    auto slot = ctx.step().step_resources().slot(kContainer, options.name);
    slot->get_or_create([&] { return std::make_shared<TensorArray>(options, size); });
    TUTTI_RETURN_IF_ERROR(set_handle(ctx, device_, std::move(slot)));
    TUTTI_ASSIGN_OR_RETURN(Tensor * flow, ctx.allocate_output(1, Shape{}));
    *flow->data<float>() = 0;
    return {};
  }

 private:
  const std::string device_;
  TensorArrayOptions options_;
  std::atomic<std::uint64_t> made_{0};  // numbers only, orders nothing
};

// Finds or makes the array of gradients that belongs to (array, source): the backward parts that share a source
// add to the same one.
class TensorArrayGrad : public Kernel {
 public:
  explicit TensorArrayGrad(const KernelInit& init) : device_(init.device), source_(init.attr<std::string>("source")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto array, input_array(ctx));
    const std::string name = str_cat(array->options().name, "@", source_);
    Shape prepended;  // given by TensorArrayGradWithShape
    if (ctx.num_inputs() > 2) {
      TUTTI_ASSIGN_OR_RETURN(prepended, read_shape(ctx.input(2), "shape_to_prepend"));
    }
    auto slot = ctx.step().step_resources().slot(kContainer, name);
    Status made;
    slot->get_or_create([&]() -> std::shared_ptr<Resource> {
      auto gradient = array->make_gradient(name, prepended);
      made = gradient.status();
      return gradient.ok() ? *gradient : nullptr;
    });
    TUTTI_RETURN_IF_ERROR(made);
    TUTTI_RETURN_IF_ERROR(set_handle(ctx, device_, std::move(slot)));
    ctx.set_output(1, ctx.input(1));
    return {};
  }

 private:
  const std::string device_;
  const std::string source_;
};

class TensorArrayRead : public Kernel {
 public:
  explicit TensorArrayRead(const KernelInit& init) : dtype_(init.attr<DType>("dtype")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto array, input_array(ctx));
    TUTTI_RETURN_IF_ERROR(check_dtype(*array, dtype_));
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t index, read_integer(ctx.input(1), "index"));
    TUTTI_ASSIGN_OR_RETURN(Tensor value, array->read(index));
    ctx.set_output(0, std::move(value));
    return {};
  }

 private:
  const DType dtype_;
};

class TensorArrayGather : public Kernel {
 public:
  explicit TensorArrayGather(const KernelInit& init)
      : dtype_(init.attr<DType>("dtype")), element_shape_(init.attr<PartialShape>("element_shape")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto array, input_array(ctx));
    TUTTI_RETURN_IF_ERROR(check_dtype(*array, dtype_));
    const Tensor& indices = ctx.input(1);
    if (indices.rank() != 1) return invalid_argument("Expected indices to be a vector, but received ", indices.shape());
    std::vector<Tensor> items;
    for (const std::int32_t index : indices.flat<std::int32_t>()) {
      TUTTI_ASSIGN_OR_RETURN(Tensor item, array->read(index));
      if (!items.empty() && item.shape() != items[0].shape()) {
        return invalid_argument("TensorArray has inconsistent shapes. Index 0 has shape: ", items[0].shape(),
                                " but index ", items.size(), " has shape: ", item.shape());
      }
      items.push_back(std::move(item));
    }
    PartialShape shape = element_shape_;
    TUTTI_ASSIGN_OR_RETURN(shape, shape.merge(array->options().element_shape));
    if (!items.empty()) {
      TUTTI_ASSIGN_OR_RETURN(shape, shape.merge(items[0].shape()));
    }
    const auto each = shape.as_shape();
    if (!each) {
      return invalid_argument("TensorArray has size zero, but element shape ", shape,
                              " is not fully defined. Currently only static shapes are supported when packing "
                              "zero-size TensorArrays.");
    }
    return stack_items(ctx, 0, items, *each);
  }

 private:
  const DType dtype_;
  const PartialShape element_shape_;
};

class TensorArrayConcat : public Kernel {
 public:
  explicit TensorArrayConcat(const KernelInit& init)
      : dtype_(init.attr<DType>("dtype")), rest_(init.attr<PartialShape>("element_shape_except0")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto array, input_array(ctx));
    TUTTI_RETURN_IF_ERROR(check_dtype(*array, dtype_));
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t count, array->packed_size());
    TUTTI_RETURN_IF_ERROR(check_list_size(count));
    std::vector<Tensor> items;
    PartialShape rest = rest_;
    std::int64_t rows = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      TUTTI_ASSIGN_OR_RETURN(Tensor item, array->read(i));
      if (item.rank() == 0)
        return invalid_argument("Concat saw a scalar shape at index ", i, " but requires at least vectors.");
      TUTTI_ASSIGN_OR_RETURN(rest, rest.merge(item.shape().without_dim(0)));
      rows += item.dim(0);
      items.push_back(std::move(item));
    }
    const auto known = rest.as_shape();
    if (!known) return invalid_argument("TensorArray has size zero, but element_shape_except0 ", rest, " is not known");
    return set_outputs(ctx, items, rows, *known);
  }

 private:
  static Status set_outputs(KernelContext& ctx, const std::vector<Tensor>& items, std::int64_t rows,
                            const Shape& rest) {
    DimList dims;
    dims.push_back(rows);
    for (const std::int64_t dim : rest.dims()) dims.push_back(dim);
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
    TUTTI_ASSIGN_OR_RETURN(Tensor * value, ctx.allocate_output(0, shape));
    TUTTI_ASSIGN_OR_RETURN(Tensor * lengths, ctx.allocate_output(1, Shape{static_cast<std::int64_t>(items.size())}));
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      copy_elements(value->dtype(), at_element(value->dtype(), value->raw(), offset), items[i].raw(),
                    items[i].num_elements());
      offset += items[i].num_elements();
      lengths->data<std::int64_t>()[i] = items[i].dim(0);
    }
    return {};
  }

  const DType dtype_;
  const PartialShape rest_;
};

}  // namespace

KernelFactory tensor_array_kernel() { return kernel_of<MakeTensorArray>(); }
KernelFactory tensor_array_grad_kernel() { return kernel_of<TensorArrayGrad>(); }
KernelFactory tensor_array_read_kernel() { return kernel_of<TensorArrayRead>(); }
KernelFactory tensor_array_gather_kernel() { return kernel_of<TensorArrayGather>(); }
KernelFactory tensor_array_concat_kernel() { return kernel_of<TensorArrayConcat>(); }

Status tensor_array_write(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto array, input_array(ctx));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t index, read_integer(ctx.input(1), "index"));
  TUTTI_RETURN_IF_ERROR(array->write(index, ctx.input(2)));
  ctx.set_output(0, ctx.input(3));
  return {};
}

Status tensor_array_scatter(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto array, input_array(ctx));
  const Tensor& indices = ctx.input(1);
  const Tensor& value = ctx.input(2);
  if (indices.rank() != 1 || value.rank() < 1 || indices.dim(0) != value.dim(0)) {
    return invalid_argument("Expected len(indices) == values.shape[0], but saw indices ", indices.shape(),
                            " and values ", value.shape());
  }
  for (std::int64_t i = 0; i < indices.dim(0); ++i) {
    TUTTI_RETURN_IF_ERROR(array->write(indices.data<std::int32_t>()[i], row_of(value, i)));
  }
  array->mark_size();
  ctx.set_output(0, ctx.input(3));
  return {};
}

Status tensor_array_split(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto array, input_array(ctx));
  const Tensor& value = ctx.input(1);
  const Tensor& lengths = ctx.input(2);
  if (lengths.rank() != 1)
    return invalid_argument("Expected lengths to be a vector, received shape: ", lengths.shape());
  if (value.rank() < 1) return invalid_argument("Expected value to be at least a vector, but received ", value.shape());
  std::int64_t total = 0;
  for (const std::int64_t length : lengths.flat<std::int64_t>()) {
    if (length < 0 || __builtin_add_overflow(total, length, &total)) {
      return invalid_argument("lengths must be non-negative and add up to ", value.dim(0), ", but saw ", length);
    }
  }
  if (total != value.dim(0)) {
    return invalid_argument("Expected sum of lengths to be equal to values.shape[0], but sum of lengths is ", total,
                            " and value's shape is: ", value.shape());
  }
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t size, array->size());
  if (!array->options().dynamic_size && size != lengths.dim(0)) {
    return invalid_argument("TensorArray's size is not equal to the size of lengths (", size, " vs. ", lengths.dim(0),
                            "), and the TensorArray is not marked as dynamically resizeable.");
  }
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < lengths.dim(0); ++i) {
    const std::int64_t end = begin + lengths.data<std::int64_t>()[i];
    TUTTI_RETURN_IF_ERROR(array->write(i, value.slice(begin, end)));
    begin = end;
  }
  array->mark_size();
  ctx.set_output(0, ctx.input(3));
  return {};
}

Status tensor_array_size(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto array, input_array(ctx));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t size, array->size());
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
  *out->data<std::int32_t>() = static_cast<std::int32_t>(size);
  return {};
}

Status tensor_array_close(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto array, input_array(ctx));
  array->close();
  return {};
}

}  // namespace tutti::cpu
