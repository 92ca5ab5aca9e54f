#include "tutti/kernels/cpu/top_k.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <type_traits>
#include <vector>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

template <typename T>
bool is_larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return !std::isnan(b);
    return a > b;
  } else {
    return a > b;
  }
}

// Whether element i of a row comes before element j.
template <typename T>
struct Before {
  const T* row;
  bool operator()(std::int64_t i, std::int64_t j) const {
    if (is_larger(row[i], row[j])) return true;
    return !is_larger(row[j], row[i]) && i < j;
  }
};

// Elements that are looked at together: none of a block is larger than the smallest one kept, most of the time.
constexpr std::int64_t kScanBlock = 32;

// Whether a block has an element over `limit`. Without branches, and with truth as wide as an element, so that it is
// compiled into vector code.
template <typename T>
bool any_over(const T* block, T limit) {
  using Mask = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  Mask any = 0;
  for (std::int64_t i = 0; i < kScanBlock; ++i) any |= static_cast<Mask>(!(block[i] <= limit));
  return any != 0;
}

// Few out of many: keeps a sorted list of the k best, in which most elements have no place.
template <typename T>
void pick_few(const T* row, std::int64_t size, std::int64_t k, std::int64_t* best) {
  const Before<T> before{row};
  std::iota(best, best + k, std::int64_t{0});
  std::sort(best, best + k, before);
  const auto offer = [&](std::int64_t i) {
    if (!is_larger(row[i], row[best[k - 1]])) return;  // an equal one that came first stays
    std::int64_t* at = std::upper_bound(best, best + k, i, before);
    std::move_backward(at, best + k - 1, best + k);
    *at = i;
  };
  std::int64_t i = k;
  for (; i + kScanBlock <= size; i += kScanBlock) {
    if (!any_over(row + i, row[best[k - 1]])) continue;
    for (std::int64_t j = i; j < i + kScanBlock; ++j) offer(j);
  }
  for (; i < size; ++i) offer(i);
}

// Beyond this many, moving the list costs more than sorting.
constexpr std::int64_t kFew = 64;

template <typename T>
void pick(const T* row, std::int64_t size, std::int64_t k, std::vector<std::int64_t>& order) {
  if (k <= kFew && k < size) {
    order.resize(static_cast<std::size_t>(k));
    pick_few(row, size, k, order.data());
    return;
  }
  order.resize(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const Before<T> before{row};
  if (k < size) std::nth_element(order.begin(), order.begin() + k, order.end(), before);
  std::sort(order.begin(), order.begin() + k, before);
}

void write_places(const std::vector<std::int64_t>& order, std::int64_t k, DType dtype, void* to, std::int64_t at) {
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int64_t place = order[static_cast<std::size_t>(i)];
    if (dtype == DType::kInt32) {
      static_cast<std::int32_t*>(to)[at + i] = static_cast<std::int32_t>(place);
    } else if (dtype == DType::kInt64) {
      static_cast<std::int64_t*>(to)[at + i] = place;
    } else {
      static_cast<std::int16_t*>(to)[at + i] = static_cast<std::int16_t>(place);
    }
  }
}

class TopK : public Kernel {
 public:
  explicit TopK(const KernelInit& init) {
    if (init.input_types.size() == 1) k_ = init.attr<std::int64_t>("k");
  }

  Status compute(KernelContext& ctx) override {
    const Tensor& input = ctx.input(0);
    std::int64_t k = k_;
    if (ctx.num_inputs() == 2) {
      TUTTI_ASSIGN_OR_RETURN(k, read_scalar_integer(ctx.input(1), "k"));
    }
    if (k < 0) return invalid_argument("Need k >= 0, got ", k);
    if (input.rank() < 1) return invalid_argument("input must be >= 1-D, got shape ", input.shape());
    const std::int64_t size = input.dim(input.rank() - 1);
    if (size < k) return invalid_argument("input must have at least k columns. Had ", size, ", needed ", k);
    const std::int64_t largest = ctx.output_type(1) == DType::kInt16   ? std::numeric_limits<std::int16_t>::max()
                                 : ctx.output_type(1) == DType::kInt32 ? std::numeric_limits<std::int32_t>::max()
                                                                       : std::numeric_limits<std::int64_t>::max();
    if (size - 1 > largest) {
      return invalid_argument("places in rows of ", size, " elements do not fit in ", dtype_name(ctx.output_type(1)));
    }
    Shape shape = input.shape();
    shape.set_dim(shape.rank() - 1, k);
    TUTTI_ASSIGN_OR_RETURN(Tensor * values, ctx.allocate_output(0, shape));
    TUTTI_ASSIGN_OR_RETURN(Tensor * places, ctx.allocate_output(1, shape));
    if (shape.num_elements() == 0) return {};
    // One comparison per compute type; only uint64 has none that is wider.
    TUTTI_ASSIGN_OR_RETURN(const Tensor keys, widened(ctx, input, compute_dtype(input.dtype())));
    switch (keys.dtype()) {
      case DType::kFloat:
        return run(ctx, keys.data<float>(), size, k, *values, *places);
      case DType::kDouble:
        return run(ctx, keys.data<double>(), size, k, *values, *places);
      case DType::kInt32:
        return run(ctx, keys.data<std::int32_t>(), size, k, *values, *places);
      case DType::kUint64:
        return run(ctx, keys.data<std::uint64_t>(), size, k, *values, *places);
      default:
        return run(ctx, keys.data<std::int64_t>(), size, k, *values, *places);
    }
  }

 private:
  template <typename T>
  static Status run(KernelContext& ctx, const T* keys, std::int64_t size, std::int64_t k, Tensor& values,
                    Tensor& places) {
    const Tensor& input = ctx.input(0);
    const std::int64_t rows = input.num_elements() / size;
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / 2 / size);
    with_element(input.dtype(), [&]<typename E>(const E&) {
      const E* from = static_cast<const E*>(input.raw());
      E* to = static_cast<E*>(values.raw());
      parallel_for(ctx.team(), rows, grain, [&](std::int64_t begin, std::int64_t end) {
        std::vector<std::int64_t> order;
        for (std::int64_t row = begin; row < end; ++row) {
          pick(keys + row * size, size, k, order);
          for (std::int64_t i = 0; i < k; ++i) to[row * k + i] = from[row * size + order[static_cast<std::size_t>(i)]];
          write_places(order, k, places.dtype(), places.raw(), row * k);
        }
      });
    });
    return {};
  }

  std::int64_t k_ = 0;
};

}  // namespace

KernelFactory top_k_kernel() { return kernel_of<TopK>(); }

}  // namespace tutti::cpu
