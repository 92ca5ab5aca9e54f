// Sums and maxima of sparse tensors over some of their dimensions.
#include <algorithm>
#include <memory>

#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/sparse_arithmetic.h"
#include "tutti/kernels/cpu/sparse_view.h"

namespace tutti::cpu {

namespace {

// The dimensions that stay.
Result<DimList> kept_dimensions(const Tensor& axes, int rank) {
  if (axes.rank() > 1) return invalid_argument("reduction_axes must be a scalar or a vector, got ", axes.shape());
  std::vector<bool> reduced(static_cast<std::size_t>(rank), false);
  for (const std::int32_t axis : axes.flat<std::int32_t>()) {
    TUTTI_ASSIGN_OR_RETURN(const int at, normalise_axis(axis, rank));
    reduced[static_cast<std::size_t>(at)] = true;
  }
  DimList kept;
  for (int d = 0; d < rank; ++d) {
    if (!reduced[static_cast<std::size_t>(d)]) kept.push_back(d);
  }
  return kept;
}

// Entries in groups: those that agree in the kept dimensions. `keys` has the kept indices of every entry.
struct Groups {
  std::vector<std::int64_t> keys, order;
  std::vector<std::size_t> starts;  // in `order`; one more than there are groups
};

Groups group_entries(const SparseView& view, const DimList& kept) {
  Groups groups;
  for (std::int64_t i = 0; i < view.count; ++i) {
    for (int k = 0; k < kept.size; ++k) groups.keys.push_back(view.row(i)[kept[k]]);
  }
  SparseView keys;
  keys.indices = groups.keys.data();
  keys.count = view.count;
  keys.rank = kept.size;
  groups.order = sorted_entries(keys);
  for (std::size_t i = 0; i < groups.order.size(); ++i) {
    const bool same = i > 0 && compare_rows(keys.row(groups.order[i - 1]), keys.row(groups.order[i]), kept.size) == 0;
    if (!same) groups.starts.push_back(i);
  }
  groups.starts.push_back(groups.order.size());
  return groups;
}

template <bool kSum, typename T>
T reduce_group(const T* values, std::span<const std::int64_t> entries) {
  T result = values[entries[0]];
  for (const std::int64_t entry : entries.subspan(1)) {
    const T value = values[entry];
    if constexpr (kSum) {
      result = add_wrapping(result, value);
    } else {
      result = result < value ? value : result;
    }
  }
  return result;
}

// Calls use(values of T, groups) with a function that reduces group g.
template <bool kSum, typename Use>
Status with_reduced(const SparseView& view, const Groups& groups, const Use& use) {
  const auto of_type = [&]<typename T>(T) -> Status {
    return use([&](std::size_t g) {
      const std::span<const std::int64_t> all(groups.order);
      return reduce_group<kSum>(view.values->data<T>(),
                                all.subspan(groups.starts[g], groups.starts[g + 1] - groups.starts[g]));
    });
  };
  const auto otherwise = [&]() -> Status {
    return unimplemented("no reductions of ", dtype_name(view.values->dtype()));
  };
  if constexpr (kSum) {
    return with_number(view.values->dtype(), of_type, otherwise);
  } else {
    return with_real(view.values->dtype(), of_type, otherwise);
  }
}

template <bool kSum, bool kSparse>
class SparseReduce : public Kernel {
 public:
  explicit SparseReduce(const KernelInit& init) : keep_dims_(init.attr<bool>("keep_dims")) {}

  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const SparseView view, read_sparse(ctx, 0));
    TUTTI_RETURN_IF_ERROR(dense_shape(view).status());
    TUTTI_ASSIGN_OR_RETURN(const DimList kept, kept_dimensions(ctx.input(3), view.rank));
    DimList dims;
    for (int d = 0, k = 0; d < view.rank; ++d) {
      const bool stays = k < kept.size && kept[k] == d;
      k += stays;
      if (stays || keep_dims_) dims.push_back(stays ? view.dims[d] : 1);
    }
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
    const Groups groups = group_entries(view, kept);
    if constexpr (kSparse) return write_sparse(ctx, view, kept, groups, shape);
    return write_dense(ctx, view, kept, groups, shape);
  }

 private:
  Status write_dense(KernelContext& ctx, const SparseView& view, const DimList& kept, const Groups& groups,
                     const Shape& shape) {
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    zero_elements(out->dtype(), out->raw(), out->num_elements());
    return with_reduced<kSum>(view, groups, [&](const auto& reduce) -> Status {
      using T = decltype(reduce(0));
      for (std::size_t g = 0; g + 1 < groups.starts.size(); ++g) {
        const std::int64_t* key = groups.keys.data() + groups.order[groups.starts[g]] * kept.size;
        std::int64_t offset = 0;
        for (int k = 0; k < kept.size; ++k) {
          const std::int64_t limit = view.dims[kept[k]];
          if (key[k] < 0 || key[k] >= limit) return outside(key[k], limit, kept[k]);
          offset = offset * limit + key[k];
        }
        out->data<T>()[offset] = reduce(g);
      }
      return {};
    });
  }

  // TensorFlow's class of error for it.
  static Status outside(std::int64_t index, std::int64_t limit, std::int64_t dimension) {
    return internal_error("index ", index, " of dimension ", dimension, " is not in [0, ", limit, ")");
  }

  Status write_sparse(KernelContext& ctx, const SparseView& view, const DimList& kept, const Groups& groups,
                      const Shape& shape) {
    const auto count = static_cast<std::int64_t>(groups.starts.size()) - 1;
    TUTTI_ASSIGN_OR_RETURN(Tensor * indices, allocate_index_rows(ctx, 0, count, shape.rank()));
    TUTTI_ASSIGN_OR_RETURN(Tensor * values, ctx.allocate_output(1, Shape{count}));
    TUTTI_RETURN_IF_ERROR(set_int64_vector(ctx, 2, shape.dims()));
    std::fill_n(indices->data<std::int64_t>(), indices->num_elements(), 0);
    return with_reduced<kSum>(view, groups, [&](const auto& reduce) -> Status {
      using T = decltype(reduce(0));
      std::int64_t* to = indices->data<std::int64_t>();
      for (std::int64_t g = 0; g < count; ++g, to += shape.rank()) {
        const std::size_t first = groups.starts[static_cast<std::size_t>(g)];
        const std::int64_t* key = groups.keys.data() + groups.order[first] * kept.size;
        for (int k = 0; k < kept.size; ++k) to[keep_dims_ ? kept[k] : k] = key[k];
        values->data<T>()[g] = reduce(static_cast<std::size_t>(g));
      }
      return {};
    });
  }

  const bool keep_dims_;
};

}  // namespace

KernelFactory sparse_reduce_sum_kernel() { return kernel_of<SparseReduce<true, false>>(); }
KernelFactory sparse_reduce_max_kernel() { return kernel_of<SparseReduce<false, false>>(); }
KernelFactory sparse_reduce_sum_sparse_kernel() { return kernel_of<SparseReduce<true, true>>(); }
KernelFactory sparse_reduce_max_sparse_kernel() { return kernel_of<SparseReduce<false, true>>(); }

}  // namespace tutti::cpu
