#include "tutti/kernels/cpu/reduction.h"

#include <algorithm>
#include <array>
#include <complex>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

using internal::ColumnLoop;
using internal::ReduceKind;
using internal::ReduceLoop;
using internal::ReduceLoops;

ReduceKind kind_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProd:
      return ReduceKind::kMultiply;
    case ReduceOp::kMin:
    case ReduceOp::kAll:
      return ReduceKind::kMinimum;
    case ReduceOp::kMax:
    case ReduceOp::kAny:
      return ReduceKind::kMaximum;
    default:
      return ReduceKind::kAdd;
  }
}

BinaryOp join_of(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kAdd:
      return BinaryOp::kAdd;
    case ReduceKind::kMultiply:
      return BinaryOp::kMul;
    case ReduceKind::kMinimum:
      return BinaryOp::kMinimum;
    case ReduceKind::kMaximum:
      return BinaryOp::kMaximum;
  }
  return BinaryOp::kAdd;
}

// --- uint64 and complex128: the same loops in plain code. ---

template <typename T, ReduceKind kKind>
T join_plain(T a, T b) {
  if constexpr (kKind == ReduceKind::kAdd) return a + b;
  if constexpr (kKind == ReduceKind::kMultiply) return a * b;
  if constexpr (kKind == ReduceKind::kMinimum) return b < a ? b : a;
  if constexpr (kKind == ReduceKind::kMaximum) return a < b ? b : a;
}

template <typename T, ReduceKind kKind>
void reduce_row_plain(const void* from, std::int64_t n, void* to) {
  const T* in = static_cast<const T*>(from);
  T total = in[0];
  for (std::int64_t i = 1; i < n; ++i) total = join_plain<T, kKind>(total, in[i]);
  *static_cast<T*>(to) = total;
}

template <typename T, ReduceKind kKind>
void reduce_columns_plain(const void* from, std::int64_t rows, std::int64_t columns, void* to) {
  const T* in = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  std::copy_n(in, columns, out);
  for (std::int64_t r = 1; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) out[c] = join_plain<T, kKind>(out[c], in[r * columns + c]);
  }
}

template <typename T, ReduceKind kKind>
ReduceLoops plain_loops() {
  return {&reduce_row_plain<T, kKind>, &reduce_columns_plain<T, kKind>};
}

ReduceLoops find_plain_reduce(ReduceKind kind, DType dtype) {
  using U = std::uint64_t;
  using C = std::complex<double>;
  if (dtype == DType::kUint64) {
    switch (kind) {
      case ReduceKind::kAdd:
        return plain_loops<U, ReduceKind::kAdd>();
      case ReduceKind::kMultiply:
        return plain_loops<U, ReduceKind::kMultiply>();
      case ReduceKind::kMinimum:
        return plain_loops<U, ReduceKind::kMinimum>();
      case ReduceKind::kMaximum:
        return plain_loops<U, ReduceKind::kMaximum>();
    }
  }
  if (dtype == DType::kComplex128 && kind == ReduceKind::kAdd) return plain_loops<C, ReduceKind::kAdd>();
  if (dtype == DType::kComplex128 && kind == ReduceKind::kMultiply) return plain_loops<C, ReduceKind::kMultiply>();
  return {};
}

// --- What to reduce: dimensions of one kind joined, ones dropped, outermost first. ---

struct Dim {
  std::int64_t size;
  bool reduced;
};

struct Nest {
  std::array<Dim, kMaxRank> dims;
  int count = 0;
  Nest() {}  // NOLINT: the array stays uninitialised on purpose

  void add(std::int64_t size, bool reduced) {
    if (size == 1) return;
    if (count > 0 && dims[count - 1].reduced == reduced) {
      dims[count - 1].size *= size;
    } else {
      dims[count++] = {size, reduced};
    }
  }
};

struct Axes {
  std::array<bool, kMaxRank> reduced{};
};

Status read_axes(std::string_view op, const Tensor& indices, int rank, Axes* axes) {
  DimList list;
  // In any shape: TensorFlow reads them as a flat list.
  const Tensor flat = indices.reshaped(Shape{indices.num_elements()});
  TUTTI_RETURN_IF_ERROR(read_dims(flat, "reduction_indices", &list).with_context(op));
  for (std::int64_t axis : list.span()) {
    if (axis < -rank || axis >= rank) {
      return invalid_argument(op, ": Invalid reduction dimension (", axis, " for input with ", rank, " dimension(s)");
    }
    bool& taken = axes->reduced[axis < 0 ? axis + rank : axis];
    if (taken) return invalid_argument(op, ": Invalid reduction arguments: Axes contains duplicate dimension: ", axis);
    taken = true;
  }
  return {};
}

Shape reduced_shape(const Shape& in, const Axes& axes, bool keep_dims) {
  Shape out;
  for (int d = 0; d < in.rank(); ++d) {
    if (!axes.reduced[d]) {
      out.append(in.dim(d));
    } else if (keep_dims) {
      out.append(1);
    }
  }
  return out;
}

// One reduction in a compute type, over a nest of dimensions.
class Reducer {
 public:
  Reducer() = default;
  Reducer(ReduceKind kind, DType dtype) : join_(BinaryFunction::find(join_of(kind), dtype)) {
    loops_ = internal::find_simd_reduce(kind, dtype);
    if (loops_.row == nullptr) loops_ = find_plain_reduce(kind, dtype);
    size_ = static_cast<std::int64_t>(dtype_size(dtype));
  }
  explicit operator bool() const { return loops_.row != nullptr && join_; }

  // REQUIRES: no dimension of `nest` is 0. `allocator` gives room for partial results.
  Status run(const Nest& nest, const char* in, char* out, Team& team, Allocator& allocator) const {
    if (nest.count == 0 || (nest.count == 1 && !nest.dims[0].reduced)) {
      std::memcpy(out, in, static_cast<std::size_t>(size_ * (nest.count == 0 ? 1 : nest.dims[0].size)));
      return {};
    }
    const bool rows = nest.dims[nest.count - 1].reduced;
    const std::int64_t n = rows ? nest.dims[nest.count - 1].size : nest.dims[nest.count - 2].size;
    const std::int64_t columns = rows ? 1 : nest.dims[nest.count - 1].size;
    const Tile tile{n, columns, rows};
    const int outer = nest.count - (rows ? 1 : 2);
    if (outer == 0) return run_split(tile, in, out, team, allocator);
    return run_outer(nest, outer, tile, in, out, team, allocator);
  }

 private:
  // The innermost part: `n` reduced elements, or `n` reduced rows of `columns`.
  struct Tile {
    std::int64_t n;
    std::int64_t columns;
    bool rows;
    std::int64_t elements() const { return n * columns; }
  };

  void reduce(const Tile& tile, const char* in, char* out) const {
    if (tile.rows) {
      loops_.row(in, tile.n, out);
    } else {
      loops_.columns(in, tile.n, tile.columns, out);
    }
  }

  // One big tile: each thread reduces a range, and the results are joined in order.
  Status run_split(const Tile& tile, const char* in, char* out, Team& team, Allocator& allocator) const {
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / tile.columns);
    const int pieces = parallel_pieces(team, tile.n, grain);
    if (pieces <= 1) {
      reduce(tile, in, out);
      return {};
    }
    const std::int64_t bytes = tile.columns * size_;
    BufferPtr partial = allocator.allocate(static_cast<std::size_t>(bytes * pieces));
    if (!partial) return resource_exhausted("no memory for ", bytes * pieces, " bytes of partial results");
    char* parts = static_cast<char*>(partial->data());
    std::vector<std::uint8_t> used(static_cast<std::size_t>(pieces));
    parallel_ranges(team, tile.n, grain, [&](int piece, std::int64_t begin, std::int64_t end) {
      reduce({end - begin, tile.columns, tile.rows}, in + begin * bytes, parts + piece * bytes);
      used[piece] = true;
    });
    std::memcpy(out, parts, static_cast<std::size_t>(bytes));
    for (int i = 1; i < pieces; ++i) {
      if (used[i]) join_(out, parts + i * bytes, out, tile.columns, 1, 1);
    }
    return {};
  }

  Status run_outer(const Nest& nest, int outer, const Tile& tile, const char* in, char* out, Team& team,
                   Allocator& allocator) const {
    std::int64_t kept = 1;
    std::int64_t repeated = 1;
    for (int d = 0; d < outer; ++d) (nest.dims[d].reduced ? repeated : kept) *= nest.dims[d].size;
    const std::int64_t bytes = tile.columns * size_;
    // Each thread needs room for one tile's result while it joins several.
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / (repeated * tile.elements()));
    const int pieces = parallel_pieces(team, kept, grain);
    BufferPtr spare;
    if (repeated > 1) {
      spare = allocator.allocate(static_cast<std::size_t>(bytes * pieces));
      if (!spare) return resource_exhausted("no memory for ", bytes * pieces, " bytes of partial results");
    }
    parallel_ranges(team, kept, grain, [&](int piece, std::int64_t begin, std::int64_t end) {
      char* room = spare ? static_cast<char*>(spare->data()) + piece * bytes : nullptr;
      for (std::int64_t k = begin; k < end; ++k) {
        for (std::int64_t r = 0; r < repeated; ++r) {
          const char* from = in + tile_index(nest, outer, k, r) * tile.elements() * size_;
          reduce(tile, from, r == 0 ? out + k * bytes : room);
          if (r > 0) join_(out + k * bytes, room, out + k * bytes, tile.columns, 1, 1);
        }
      }
    });
    return {};
  }

  // Which tile of the input belongs to kept index k and reduced index r.
  static std::int64_t tile_index(const Nest& nest, int outer, std::int64_t k, std::int64_t r) {
    std::int64_t index = 0;
    std::int64_t scale = 1;
    for (int d = outer - 1; d >= 0; --d) {
      std::int64_t& rest = nest.dims[d].reduced ? r : k;
      index += rest % nest.dims[d].size * scale;
      rest /= nest.dims[d].size;
      scale *= nest.dims[d].size;
    }
    return index;
  }

  ReduceLoops loops_;
  BinaryFunction join_;
  std::int64_t size_ = 0;
};

// What nothing reduces to.
void fill_identity(ReduceOp op, Tensor& out) {
  const DType dtype = out.dtype();
  const ReduceKind kind = kind_of(op);
  alignas(16) char value[16] = {};
  if (is_floating(dtype) && (kind == ReduceKind::kMinimum || kind == ReduceKind::kMaximum)) {
    const double infinity = std::numeric_limits<double>::infinity();
    const double start = kind == ReduceKind::kMinimum ? infinity : -infinity;
    find_convert(DType::kDouble, dtype)(&start, value, 1);
  } else if (op == ReduceOp::kMean && is_floating(dtype)) {  // of complex numbers it is zero, as in TensorFlow
    const double nan = std::numeric_limits<double>::quiet_NaN();
    find_convert(DType::kDouble, dtype)(&nan, value, 1);
  } else if (is_integer(dtype) && (kind == ReduceKind::kMinimum || kind == ReduceKind::kMaximum)) {
    const bool is_unsigned =
        dtype == DType::kUint8 || dtype == DType::kUint16 || dtype == DType::kUint32 || dtype == DType::kUint64;
    const std::size_t bits = 8 * dtype_size(dtype);
    const std::uint64_t all = ~std::uint64_t{0} >> (64 - bits);
    const std::uint64_t largest = is_unsigned ? all : all >> 1;
    const std::uint64_t smallest = is_unsigned ? 0 : ~largest;
    const std::uint64_t start = kind == ReduceKind::kMinimum ? largest : smallest;
    find_convert(DType::kUint64, dtype)(&start, value, 1);
  } else {
    const std::int64_t start = kind == ReduceKind::kMultiply || op == ReduceOp::kAll ? 1 : 0;
    find_convert(DType::kInt64, dtype)(&start, value, 1);
  }
  fill_elements(dtype, out.raw(), value, out.num_elements());
}

class ReductionKernel : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(ReduceOp op, const KernelInit& init) {
    auto kernel = std::make_unique<ReductionKernel>(op, init);
    if (!kernel->reducer_) {
      return unimplemented(init.op, " of ", dtype_name(init.input_types[0].dtype), " is not supported");
    }
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  ReductionKernel(ReduceOp op, const KernelInit& init)
      : op_(op), keep_dims_(init.attr<bool>("keep_dims")), name_(init.op) {
    const DType dtype = init.input_types[0].dtype;
    wide_ = dtype == DType::kBool ? DType::kInt32 : compute_dtype(dtype);
    if (op == ReduceOp::kEuclideanNorm && is_integer(dtype)) wide_ = DType::kDouble;
    reducer_ = Reducer(kind_of(op), wide_);
    divide_ = BinaryFunction::find(BinaryOp::kDiv, wide_);
    square_ = UnaryFunction::find(UnaryOp::kSquare, wide_);
    sqrt_ = UnaryFunction::find(UnaryOp::kSqrt, wide_);
    if (op == ReduceOp::kEuclideanNorm && !sqrt_) reducer_ = Reducer();
  }

  Status compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    Axes axes;
    TUTTI_RETURN_IF_ERROR(read_axes(name_, context.input(1), in.rank(), &axes));
    const Shape shape = reduced_shape(in.shape(), axes, keep_dims_);
    if (in.num_elements() == shape.num_elements() && op_ != ReduceOp::kEuclideanNorm) {
      context.set_output(0, in.reshaped(shape));
      return {};
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, shape));
    if (out->num_elements() == 0) return {};
    if (in.num_elements() == 0) {
      fill_identity(op_, *out);
      return {};
    }
    Nest nest;
    for (int d = 0; d < in.rank(); ++d) nest.add(in.dim(d), axes.reduced[d]);
    return reduce(context, nest, in, *out);
  }

 private:
  // The input in the compute type, squared for a norm.
  Result<Tensor> prepare(KernelContext& context, const Tensor& in) const {
    TUTTI_ASSIGN_OR_RETURN(Tensor wide, widened(context, in, wide_));
    if (op_ != ReduceOp::kEuclideanNorm) return wide;
    TUTTI_ASSIGN_OR_RETURN(Tensor squares, context.allocate_temp(wide_, in.shape()));
    if (wide_ == DType::kComplex128) {  // the square of the magnitude
      for (std::int64_t i = 0; i < in.num_elements(); ++i) {
        squares.data<std::complex<double>>()[i] = std::norm(wide.data<std::complex<double>>()[i]);
      }
    } else {
      square_(wide.raw(), squares.raw(), in.num_elements());
    }
    return squares;
  }

  Status reduce(KernelContext& context, const Nest& nest, const Tensor& in, Tensor& out) const {
    TUTTI_ASSIGN_OR_RETURN(Tensor from, prepare(context, in));
    TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(context, out, wide_));
    TUTTI_RETURN_IF_ERROR(reducer_.run(nest, static_cast<const char*>(from.raw()), static_cast<char*>(to.raw()),
                                       context.team(), context.allocator()));
    finish(in.num_elements() / out.num_elements(), to);
    narrow_into(to, out);
    return {};
  }

  // Mean divides by the count, a norm takes the root.
  void finish(std::int64_t count, Tensor& out) const {
    if (op_ == ReduceOp::kMean) {
      alignas(16) char divisor[16];
      find_convert(DType::kInt64, wide_)(&count, divisor, 1);
      divide_(out.raw(), divisor, out.raw(), out.num_elements(), 1, 0);
    } else if (op_ == ReduceOp::kEuclideanNorm) {
      sqrt_(out.raw(), out.raw(), out.num_elements());
    }
  }

  const ReduceOp op_;
  const bool keep_dims_;
  const std::string name_;
  DType wide_;
  Reducer reducer_;
  BinaryFunction divide_;
  UnaryFunction square_;
  UnaryFunction sqrt_;
};

// --- ArgMax and ArgMin ---

void store_index(void* out, DType dtype, std::int64_t at, std::int64_t value) {
  switch (dtype) {
    case DType::kInt32:
      static_cast<std::int32_t*>(out)[at] = static_cast<std::int32_t>(value);
      return;
    case DType::kInt16:
      static_cast<std::int16_t*>(out)[at] = static_cast<std::int16_t>(value);
      return;
    case DType::kUint16:
      static_cast<std::uint16_t*>(out)[at] = static_cast<std::uint16_t>(value);
      return;
    default:
      static_cast<std::int64_t*>(out)[at] = value;
  }
}

struct ArgNest {
  std::int64_t outer;
  std::int64_t n;
  std::int64_t inner;
};

template <typename T, bool kMaximum>
void arg_reduce(const void* from, const ArgNest& nest, Tensor& out) {
  const T* in = static_cast<const T*>(from);
  for (std::int64_t o = 0; o < nest.outer; ++o) {
    for (std::int64_t i = 0; i < nest.inner; ++i) {
      const T* at = in + o * nest.n * nest.inner + i;
      T best = at[0];
      std::int64_t index = 0;
      for (std::int64_t k = 1; k < nest.n; ++k) {
        const T value = at[k * nest.inner];
        if (kMaximum ? value > best : value < best) {
          best = value;
          index = k;
        }
      }
      store_index(out.raw(), out.dtype(), o * nest.inner + i, index);
    }
  }
}

using ArgLoop = void (*)(const void*, const ArgNest&, Tensor&);

template <bool kMaximum>
ArgLoop find_arg_loop(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return &arg_reduce<float, kMaximum>;
    case DType::kDouble:
      return &arg_reduce<double, kMaximum>;
    case DType::kInt32:
      return &arg_reduce<std::int32_t, kMaximum>;
    case DType::kInt64:
      return &arg_reduce<std::int64_t, kMaximum>;
    case DType::kUint64:
      return &arg_reduce<std::uint64_t, kMaximum>;
    default:
      return nullptr;
  }
}

class ArgReductionKernel : public Kernel {
 public:
  ArgReductionKernel(const KernelInit& init, ArgLoop loop, DType wide) : name_(init.op), loop_(loop), wide_(wide) {}

  Status compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    TUTTI_ASSIGN_OR_RETURN(std::int64_t dimension, read_scalar_integer(context.input(1), "dimension"));
    Result<int> axis = normalise_axis(dimension, in.rank());
    if (!axis.ok()) {
      return invalid_argument(name_, ": Dimension (", dimension, ") must be in the range [", -in.rank(), ", ",
                              in.rank(), ")");
    }
    if (in.dim(*axis) == 0)
      return invalid_argument(name_, ": Reduction axis ", *axis, " is empty in shape ", in.shape());
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, in.shape().without_dim(*axis)));
    TUTTI_ASSIGN_OR_RETURN(Tensor from, widened(context, in, wide_));
    loop_(from.raw(), {elements_before(in.shape(), *axis), in.dim(*axis), elements_from(in.shape(), *axis + 1)}, *out);
    return {};
  }

 private:
  const std::string name_;
  const ArgLoop loop_;
  const DType wide_;
};

// --- The gradient of Prod ---

// Every element's gradient is dy times the product of the other elements that were multiplied with it: those before
// it (gathered walking forwards) times those after it (walking backwards). Dividing the product would fail at zeros.
class ProdGradKernel : public Kernel {
 public:
  explicit ProdGradKernel(const KernelInit& init) : name_(init.op), complex_(is_complex(init.input_types[0].dtype)) {}

  Status compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& dy = context.input(2);
    Axes axes;
    TUTTI_RETURN_IF_ERROR(read_axes(name_, context.input(1), in.rank(), &axes));
    if (dy.shape() != reduced_shape(in.shape(), axes, true)) {
      return invalid_argument(name_, ": dy of shape ", dy.shape(), " does not fit the input's shape ", in.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, in.shape()));
    if (in.num_elements() == 0) return {};
    return complex_ ? run<std::complex<double>>(context, axes, in, dy, *out) : run<double>(context, axes, in, dy, *out);
  }

 private:
  template <typename T>
  static T conjugate(T value) {
    if constexpr (std::is_same_v<T, double>)
      return value;
    else
      return std::conj(value);
  }

  template <typename T>
  Status run(KernelContext& context, const Axes& axes, const Tensor& in, const Tensor& dy, Tensor& out) const {
    const DType wide = dtype_of<T>();
    TUTTI_ASSIGN_OR_RETURN(Tensor x, widened(context, in, wide));
    TUTTI_ASSIGN_OR_RETURN(Tensor grad, widened(context, dy, wide));
    TUTTI_ASSIGN_OR_RETURN(Tensor result, context.allocate_temp(wide, in.shape()));
    TUTTI_ASSIGN_OR_RETURN(Tensor products, context.allocate_temp(wide, dy.shape()));
    const T* from = x.data<T>();
    T* to = result.data<T>();
    const std::int64_t n = in.num_elements();
    std::fill_n(products.data<T>(), products.num_elements(), T{1});
    for (std::int64_t i = 0; i < n; ++i) {
      T& so_far = products.data<T>()[cell(in.shape(), axes, i)];
      to[i] = so_far;
      so_far *= conjugate(from[i]);
    }
    std::fill_n(products.data<T>(), products.num_elements(), T{1});
    for (std::int64_t i = n - 1; i >= 0; --i) {
      const std::int64_t at = cell(in.shape(), axes, i);
      T& so_far = products.data<T>()[at];
      to[i] *= so_far * grad.data<T>()[at];
      so_far *= conjugate(from[i]);
    }
    find_convert(wide, out.dtype())(to, out.raw(), n);
    return {};
  }

  // Which result element i of the input goes into.
  static std::int64_t cell(const Shape& shape, const Axes& axes, std::int64_t i) {
    std::int64_t index = 0;
    std::int64_t scale = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      if (!axes.reduced[d]) {
        index += i % shape.dim(d) * scale;
        scale *= shape.dim(d);
      }
      i /= shape.dim(d);
    }
    return index;
  }

  const std::string name_;
  const bool complex_;
};

// --- L2Loss and BiasAddGrad ---

class L2LossKernel : public Kernel {
 public:
  explicit L2LossKernel(const KernelInit& init)
      : wide_(compute_dtype(init.input_types[0].dtype)), sum_squares_(internal::find_simd_sum_squares(wide_)) {}

  Status compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, Shape{}));
    TUTTI_ASSIGN_OR_RETURN(Tensor from, widened(context, in, wide_));
    alignas(8) char sum[8] = {};
    if (in.num_elements() > 0) sum_squares_(from.raw(), in.num_elements(), sum);
    double half = 0;
    find_convert(wide_, DType::kDouble)(sum, &half, 1);
    half /= 2;
    find_convert(DType::kDouble, out->dtype())(&half, out->raw(), 1);
    return {};
  }

 private:
  const DType wide_;
  const internal::ReduceLoop sum_squares_;
};

class BiasAddGradKernel : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    auto kernel = std::make_unique<BiasAddGradKernel>(init);
    if (!kernel->reducer_) {
      return unimplemented(init.op, " of ", dtype_name(init.input_types[0].dtype), " is not supported");
    }
    return std::unique_ptr<Kernel>(std::move(kernel));
  }
  explicit BiasAddGradKernel(const KernelInit& init)
      : channels_first_(init.attr<std::string>("data_format") == "NCHW"),
        wide_(compute_dtype(init.input_types[0].dtype)),
        reducer_(ReduceKind::kAdd, wide_) {}

  Status compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (in.rank() < 2) {
      return invalid_argument("BiasAddGrad: Input tensor must be at least 2D, got shape ", in.shape());
    }
    const int channel = channels_first_ ? 1 : in.rank() - 1;
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, Shape{in.dim(channel)}));
    if (out->num_elements() == 0) return {};
    if (in.num_elements() == 0) {
      zero_elements(out->dtype(), out->raw(), out->num_elements());
      return {};
    }
    Nest nest;
    for (int d = 0; d < in.rank(); ++d) nest.add(in.dim(d), d != channel);
    TUTTI_ASSIGN_OR_RETURN(Tensor from, widened(context, in, wide_));
    TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(context, *out, wide_));
    TUTTI_RETURN_IF_ERROR(reducer_.run(nest, static_cast<const char*>(from.raw()), static_cast<char*>(to.raw()),
                                       context.team(), context.allocator()));
    narrow_into(to, *out);
    return {};
  }

 private:
  const bool channels_first_;
  const DType wide_;
  const Reducer reducer_;
};

}  // namespace

KernelFactory reduction_kernel(ReduceOp op) {
  return [op](const KernelInit& init) { return ReductionKernel::create(op, init); };
}

KernelFactory arg_reduction_kernel(bool maximum) {
  return [maximum](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    const DType dtype = init.input_types[0].dtype;
    const DType wide = dtype == DType::kBool ? DType::kInt32 : compute_dtype(dtype);
    ArgLoop loop = maximum ? find_arg_loop<true>(wide) : find_arg_loop<false>(wide);
    if (loop == nullptr) return unimplemented(init.op, " of ", dtype_name(dtype), " is not supported");
    return std::unique_ptr<Kernel>(std::make_unique<ArgReductionKernel>(init, loop, wide));
  };
}

KernelFactory prod_grad_kernel() { return kernel_of<ProdGradKernel>(); }

KernelFactory l2_loss_kernel() { return kernel_of<L2LossKernel>(); }

KernelFactory bias_add_grad_kernel() { return kernel_of<BiasAddGradKernel>(); }

}  // namespace tutti::cpu
