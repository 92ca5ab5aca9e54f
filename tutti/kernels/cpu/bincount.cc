#include "tutti/kernels/cpu/bincount.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "tutti/kernels/cpu/cancellable.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/sparse_view.h"

namespace tutti::cpu {

namespace {

class Bucketize : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    auto kernel = std::make_unique<Bucketize>();
    for (const float boundary : init.attr<std::vector<float>>("boundaries")) kernel->boundaries_.push_back(boundary);
    if (!std::is_sorted(kernel->boundaries_.begin(), kernel->boundaries_.end())) {
      return invalid_argument("Expected sorted boundaries");
    }
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  Status compute(KernelContext& ctx) override {
    const Tensor& input = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, input.shape()));
    std::int32_t* to = out->data<std::int32_t>();
    return with_real(
        input.dtype(),
        [&]<typename T>(T) -> Status {
          if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
            return unimplemented("no buckets of 16-bit numbers");
          } else {
            for (const T value : input.flat<T>()) {
              const auto above = std::upper_bound(boundaries_.begin(), boundaries_.end(), value);
              *to++ = static_cast<std::int32_t>(above - boundaries_.begin());
            }
            return {};
          }
        },
        [&]() -> Status { return unimplemented("no buckets of ", dtype_name(input.dtype())); });
  }

 private:
  std::vector<float> boundaries_;
};

// Bins of one row of counts.
template <typename T>
struct Bins {
  T* counts;
  std::int64_t size;
  bool binary;

  // Values beyond the last bin are dropped. REQUIRES: value >= 0.
  void add(std::int64_t value, T weight) const {
    if (value >= size) return;
    counts[value] = binary ? T{1} : add_wrapping(counts[value], weight);
  }
};

// Calls use(counts, weights), both of one type that bins may have; `weights` is null where there are none.
template <typename Use>
Status with_bins(KernelContext& ctx, Tensor& out, const Tensor& weights, const Use& use) {
  TUTTI_RETURN_IF_ERROR(zero_cancellable(ctx, out));
  const auto run = [&]<typename T>(T) -> Status {
    return use(out.data<T>(), weights.num_elements() > 0 ? weights.data<T>() : nullptr);
  };
  switch (out.dtype()) {
    case DType::kInt32:
      return run(std::int32_t{});
    case DType::kInt64:
      return run(std::int64_t{});
    case DType::kFloat:
      return run(float{});
    case DType::kDouble:
      return run(double{});
    default:
      return unimplemented("no counts of ", dtype_name(out.dtype()));
  }
}

Result<std::int64_t> read_size(const Tensor& size) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t count, read_scalar_integer(size, "size"));
  if (count < 0) return invalid_argument("size (", count, ") must be non-negative");
  return count;
}

Status check_values(const Tensor& values) {
  for (std::int64_t i = 0; i < values.num_elements(); ++i) {
    const std::int64_t value = index_at(values.raw(), values.dtype(), i);
    if (value < 0) return invalid_argument("Input arr must be non-negative, got ", value, " at ", i);
  }
  return {};
}

Status check_weights(const Tensor& values, const Tensor& weights) {
  if (weights.num_elements() == 0 || weights.shape() == values.shape()) return {};
  return invalid_argument("weights ", weights.shape(), " must be empty or have the shape of the values, ",
                          values.shape());
}

}  // namespace

KernelFactory bucketize_kernel() { return kernel_of<Bucketize>(); }

Status bincount(KernelContext& ctx) {
  const Tensor &values = ctx.input(0), &weights = ctx.input(2);
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t size, read_size(ctx.input(1)));
  TUTTI_RETURN_IF_ERROR(check_weights(values, weights));
  TUTTI_RETURN_IF_ERROR(check_values(values));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{size}));
  return with_bins(ctx, *out, weights, [&]<typename T>(T* counts, const T* weight) -> Status {
    const Bins<T> bins{counts, size, false};
    for (std::int64_t i = 0; i < values.num_elements(); ++i) {
      bins.add(index_at(values.raw(), values.dtype(), i), weight != nullptr ? weight[i] : T{1});
    }
    return {};
  });
}

namespace {

Result<Tensor*> allocate_bins(KernelContext& ctx, std::int64_t rows, std::int64_t size) {
  const std::int64_t dims[] = {rows, size};
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims));
  return ctx.allocate_output(0, shape);
}

class DenseBincount : public Kernel {
 public:
  explicit DenseBincount(const KernelInit& init) : binary_(init.attr<bool>("binary_output")) {}
  Status compute(KernelContext& ctx) override {
    const Tensor &values = ctx.input(0), &weights = ctx.input(2);
    if (values.rank() > 2) return invalid_argument("Shape must be at most rank 2 but is rank ", values.rank());
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t size, read_size(ctx.input(1)));
    TUTTI_RETURN_IF_ERROR(check_weights(values, weights));
    TUTTI_RETURN_IF_ERROR(check_values(values));
    const std::int64_t rows = values.rank() == 2 ? values.dim(0) : 1;
    const std::int64_t row = rows > 0 ? values.num_elements() / rows : 0;
    TUTTI_ASSIGN_OR_RETURN(Tensor * out,
                           values.rank() == 2 ? allocate_bins(ctx, rows, size) : ctx.allocate_output(0, Shape{size}));
    return with_bins(ctx, *out, weights, [&]<typename T>(T* counts, const T* weight) -> Status {
      for (std::int64_t i = 0; i < values.num_elements(); ++i) {
        const Bins<T> bins{counts + i / row * size, size, binary_};
        bins.add(index_at(values.raw(), values.dtype(), i), weight != nullptr ? weight[i] : T{1});
      }
      return {};
    });
  }

 private:
  const bool binary_;
};

Status check_inside(const SparseView& view) {
  for (std::int64_t i = 0; i < view.count; ++i) {
    for (int d = 0; d < view.rank; ++d) {
      if (view.row(i)[d] >= 0 && view.row(i)[d] < view.dims[d]) continue;
      const std::vector<std::int64_t> tuple(view.row(i), view.row(i) + view.rank);
      return invalid_argument("Sparse index tuple indices[", i, ", :] = [", str_join(tuple, ", "),
                              "] is out of bounds");
    }
  }
  return {};
}

class SparseBincount : public Kernel {
 public:
  explicit SparseBincount(const KernelInit& init) : binary_(init.attr<bool>("binary_output")) {}
  Status compute(KernelContext& ctx) override {
    const Tensor &values = ctx.input(1), &weights = ctx.input(4);
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t size, read_size(ctx.input(3)));
    TUTTI_ASSIGN_OR_RETURN(const SparseView view, read_sparse(ctx, 0));
    if (view.rank < 1 || view.rank > 2) return invalid_argument("expected 1 or 2 dimensions, got ", view.rank);
    TUTTI_RETURN_IF_ERROR(check_weights(values, weights));
    TUTTI_RETURN_IF_ERROR(check_values(values));
    TUTTI_RETURN_IF_ERROR(check_inside(view));
    const bool flat = view.rank == 1;
    if (!flat && view.dims[0] < 0) return invalid_argument("dense_shape has ", view.dims[0], " rows");
    TUTTI_ASSIGN_OR_RETURN(Tensor * out,
                           flat ? ctx.allocate_output(0, Shape{size}) : allocate_bins(ctx, view.dims[0], size));
    return with_bins(ctx, *out, weights, [&]<typename T>(T* counts, const T* weight) -> Status {
      for (std::int64_t i = 0; i < view.count; ++i) {
        const std::int64_t row = flat ? 0 : view.row(i)[0];
        const Bins<T> bins{counts + row * size, size, binary_};
        bins.add(index_at(values.raw(), values.dtype(), i), weight != nullptr ? weight[i] : T{1});
      }
      return {};
    });
  }

 private:
  const bool binary_;
};

class RaggedBincount : public Kernel {
 public:
  explicit RaggedBincount(const KernelInit& init) : binary_(init.attr<bool>("binary_output")) {}
  Status compute(KernelContext& ctx) override {
    const Tensor &splits = ctx.input(0), &values = ctx.input(1), &weights = ctx.input(3);
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t size, read_size(ctx.input(2)));
    TUTTI_RETURN_IF_ERROR(check_splits(splits, values));
    TUTTI_RETURN_IF_ERROR(check_weights(values, weights));
    TUTTI_RETURN_IF_ERROR(check_values(values));
    const std::int64_t rows = splits.dim(0) - 1;
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, allocate_bins(ctx, rows, size));
    const std::int64_t* ends = splits.data<std::int64_t>();
    return with_bins(ctx, *out, weights, [&]<typename T>(T* counts, const T* weight) -> Status {
      for (std::int64_t r = 0; r < rows; ++r) {
        const Bins<T> bins{counts + r * size, size, binary_};
        for (std::int64_t i = ends[r]; i < ends[r + 1]; ++i) {
          bins.add(index_at(values.raw(), values.dtype(), i), weight != nullptr ? weight[i] : T{1});
        }
      }
      return {};
    });
  }

 private:
  static Status check_splits(const Tensor& splits, const Tensor& values) {
    if (splits.rank() != 1 || splits.dim(0) == 0) {
      return invalid_argument("splits must be a vector that is not empty, got shape ", splits.shape());
    }
    if (values.rank() != 1) return invalid_argument("values must be a vector, got shape ", values.shape());
    const std::span<const std::int64_t> ends = splits.flat<std::int64_t>();
    if (ends.front() != 0) return invalid_argument("splits must start with 0, not with ", ends.front());
    if (ends.back() != values.dim(0)) {
      return invalid_argument("splits must end with the number of values, ", values.dim(0), ", not with ", ends.back());
    }
    if (!std::is_sorted(ends.begin(), ends.end())) return invalid_argument("splits must not decrease");
    return {};
  }

  const bool binary_;
};

}  // namespace

KernelFactory dense_bincount_kernel() { return kernel_of<DenseBincount>(); }
KernelFactory sparse_bincount_kernel() { return kernel_of<SparseBincount>(); }
KernelFactory ragged_bincount_kernel() { return kernel_of<RaggedBincount>(); }

}  // namespace tutti::cpu
