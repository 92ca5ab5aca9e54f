// Two operands become products of matrices, many side by side:
//
//   1. A label that one operand alone has and the output lacks is summed away first.
//   2. What is left is in both operands and the output (a batch), in both but not the output (summed over: k), or in
//      one operand and the output (rows m of the left one, columns n of the right one).
//   3. An operand is read where it lies when its m, n and k each walk memory as one dimension and one of the two runs
//      along it; else it is copied into that order. The output likewise. So attention and dense layers, whose heads lie
//      between other dimensions, move nothing.
//
// A label twice in a term is a walk along the diagonal: the sum of both strides.
#include "tutti/kernels/cpu/einsum.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/kernels/cpu/einsum_equation.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/gemm.h"
#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/kernels/cpu/strided_copy.h"

namespace tutti::cpu {
namespace {

struct LabelledAxis {
  EinsumLabel label = 0;
  std::int64_t size = 1;
  std::int64_t stride = 1;  // in elements
};
using LabelledAxes = std::vector<LabelledAxis>;

const LabelledAxis* find_axis(const LabelledAxes& axes, EinsumLabel label) {
  const auto it = std::find_if(axes.begin(), axes.end(), [&](const LabelledAxis& axis) { return axis.label == label; });
  return it == axes.end() ? nullptr : &*it;
}

std::int64_t elements_of(const LabelledAxes& axes) {
  std::int64_t count = 1;
  for (const LabelledAxis& axis : axes) count *= axis.size;
  return count;
}

LabelledAxes chosen(const LabelledAxes& axes, const EinsumTerm& labels) {
  LabelledAxes result;
  for (const EinsumLabel label : labels) result.push_back(*find_axis(axes, label));
  return result;
}

// Every label once, with the strides that it has in a dense tensor of these dimensions.
LabelledAxes axes_of(const EinsumTerm& labels, const Shape& shape) {
  DimList strides;
  strides_of(shape, &strides);
  LabelledAxes axes;
  for (int d = 0; d < shape.rank(); ++d) {
    const EinsumLabel label = labels[static_cast<std::size_t>(d)];
    const auto it =
        std::find_if(axes.begin(), axes.end(), [&](const LabelledAxis& axis) { return axis.label == label; });
    if (it == axes.end()) {
      axes.push_back({label, shape.dim(d), strides[d]});
    } else {
      it->stride += strides[d];
    }
  }
  return axes;
}

// The axes of a dense tensor in this order.
void make_dense(LabelledAxes& axes) {
  std::int64_t stride = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    axis->stride = stride;
    stride *= axis->size;
  }
}

bool is_dense(const LabelledAxes& axes) {
  std::int64_t stride = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (axis->size != 1 && axis->stride != stride) return false;
    stride *= axis->size;
  }
  return true;
}

// A tensor's elements under labels.
struct LabelledOperand {
  Tensor tensor;
  LabelledAxes axes;
};

// LabelledAxes that walk memory as one.
struct Walk {
  std::int64_t size = 1;
  std::int64_t stride = 1;
};

std::optional<Walk> joined(const LabelledAxes& axes) {
  Walk walk;
  bool first = true;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (axis->size == 1) continue;
    if (first) {
      walk = {axis->size, axis->stride};
      first = false;
    } else if (axis->stride != walk.stride * walk.size) {
      return std::nullopt;
    } else {
      walk.size *= axis->size;
    }
  }
  return walk;
}

// How a matrix lies in memory: `leading` elements from one row to the next or, transposed, from column to column.
struct MatrixView {
  bool transposed = false;
  std::int64_t leading = 1;
};

// `dense`: rows must follow each other without gaps.
std::optional<MatrixView> matrix_view(const LabelledAxes& rows, const LabelledAxes& columns, bool dense) {
  const std::optional<Walk> r = joined(rows), c = joined(columns);
  if (!r || !c) return std::nullopt;
  const auto fits = [&](const Walk& outer, const Walk& inner) {
    if (inner.size != 1 && inner.stride != 1) return false;
    return outer.size == 1 || (dense ? outer.stride == inner.size : outer.stride >= inner.size);
  };
  if (fits(*r, *c)) return MatrixView{false, r->size == 1 ? c->size : r->stride};
  if (fits(*c, *r)) return MatrixView{true, c->size == 1 ? r->size : c->stride};
  return std::nullopt;
}

// One dimension of the batch.
struct BatchLoop {
  std::int64_t size, left, right, out;
};

// The labels of both operands by what becomes of them.
struct Roles {
  EinsumTerm batch, rows, columns, summed;
};

// A product that is ready to run.
struct Products {
  DType dtype;
  GemmShape shape;
  GemmStrides strides;
  std::vector<BatchLoop> batch;  // outermost first
  std::int64_t count = 1;
  const void* left = nullptr;
  const void* right = nullptr;
  void* out = nullptr;

  Status run_one(std::int64_t index, Team& team, Allocator& allocator) const {
    std::int64_t at_left = 0, at_right = 0, at_out = 0;
    for (auto loop = batch.rbegin(); loop != batch.rend(); ++loop) {
      const std::int64_t i = index % loop->size;
      index /= loop->size;
      at_left += i * loop->left;
      at_right += i * loop->right;
      at_out += i * loop->out;
    }
    const char* a = at_element(dtype, left, at_left);
    const char* b = at_element(dtype, right, at_right);
    char* c = at_element(dtype, out, at_out);
    if (dtype == DType::kFloat && strides != dense_strides(shape)) {
      return strided_gemm(shape, strides, reinterpret_cast<const float*>(a), reinterpret_cast<const float*>(b),
                          reinterpret_cast<float*>(c), team);
    }
    return multiply(dtype, shape, a, b, c, team, allocator);
  }

  // Many products run side by side; few are split themselves.
  Status run(KernelContext& ctx) const {
    const bool apart = count >= ctx.team().size();
    Team& inner = apart ? Team::alone() : ctx.team();
    Team& outer = apart ? ctx.team() : Team::alone();
    // A thread gets about 100,000 multiply-adds or more.
    const double work = static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
    const auto grain = static_cast<std::int64_t>(std::max(1.0, 1e5 / std::max(1.0, work)));
    std::atomic<bool> failed = false;
    Status first_error;
    parallel_for(outer, count, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end && !failed; ++i) {
        Status status = run_one(i, inner, ctx.allocator());
        if (!status.ok() && !failed.exchange(true)) first_error = std::move(status);
      }
    });
    return first_error;
  }
};

// Below this many multiply-adds a product is over sooner than oneDNN has begun: dense ones have loops of their own.
constexpr double kWorthStrides = 16384;

class EinsumKernel : public Kernel {
 public:
  EinsumKernel(EinsumEquation equation, DType dtype)
      : equation_(std::move(equation)), dtype_(dtype), multiply_(BinaryFunction::find(BinaryOp::kMul, dtype)) {}

  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    const DType dtype = init.input_types[0].dtype;
    if (!can_multiply(dtype)) return unimplemented("Einsum of ", dtype_name(dtype), " is not supported");
    TUTTI_ASSIGN_OR_RETURN(EinsumEquation equation, EinsumEquation::parse(init.attr<std::string>("equation"),
                                                                          static_cast<int>(init.input_types.size())));
    return std::unique_ptr<Kernel>(std::make_unique<EinsumKernel>(std::move(equation), dtype));
  }

  Status compute(KernelContext& ctx) override {
    std::vector<PartialShape> shapes;
    for (int i = 0; i < ctx.num_inputs(); ++i) shapes.emplace_back(ctx.input(i).shape());
    TUTTI_ASSIGN_OR_RETURN(const PartialShape known, einsum_shape(equation_, shapes));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(known.dims()));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    if (shape.num_elements() == 0) return {};
    std::vector<LabelledOperand> operands;
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(LabelledOperand operand, operand_of(ctx.input(i), i));
      operands.push_back(std::move(operand));
    }
    const int dots = static_cast<int>(shape.rank()) -
                     static_cast<int>(std::count_if(equation_.output.begin(), equation_.output.end(),
                                                    [](EinsumLabel label) { return label != kEllipsis; }));
    const EinsumTerm labels = output_labels(equation_, dots);
    LabelledOperand result{*out, axes_of(labels, shape)};
    drop_repeated(operands, result.axes);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const LabelledAxes* other = operands.size() == 2 ? &operands[1 - i].axes : nullptr;
      TUTTI_RETURN_IF_ERROR(sum_away(ctx, operands[i], result.axes, other));
    }
    // Only the diagonal is written below.
    if (result.axes.size() != labels.size()) zero_elements(dtype_, out->raw(), out->num_elements());
    if (operands.size() == 1) {
      copy(operands[0], result, ctx.team());
      return {};
    }
    return contract(ctx, operands[0], operands[1], result);
  }

 private:
  Result<LabelledOperand> operand_of(const Tensor& tensor, int i) const {
    TUTTI_ASSIGN_OR_RETURN(const EinsumTerm labels,
                           expand_ellipsis(equation_.inputs[static_cast<std::size_t>(i)], tensor.rank(), "input"));
    return LabelledOperand{tensor, axes_of(labels, tensor.shape())};
  }

  // An operand that is repeated along a dimension under the dots does not have it, as far as products go.
  static void drop_repeated(std::vector<LabelledOperand>& operands, const LabelledAxes& output) {
    for (LabelledOperand& operand : operands) {
      std::erase_if(operand.axes, [&](const LabelledAxis& axis) {
        const LabelledAxis* whole = find_axis(output, axis.label);
        return is_broadcast(axis.label) && axis.size == 1 && whole != nullptr && whole->size != 1;
      });
    }
  }

  // Copies `from` into `to`, which has the same labels.
  void copy(const LabelledOperand& from, LabelledOperand& to, Team& team) const {
    StridedCopy loops;
    for (const LabelledAxis& axis : to.axes) {
      const LabelledAxis* source = find_axis(from.axes, axis.label);
      loops.add_loop(axis.size, axis.stride, source == nullptr ? 0 : source->stride);
    }
    loops.run(dtype_, to.tensor.raw(), from.tensor.raw(), team);
  }

  // The operand as a dense tensor with its dimensions in the order of `labels`; without a copy where it is one.
  Result<LabelledOperand> arranged(KernelContext& ctx, const LabelledOperand& operand, const EinsumTerm& labels) const {
    LabelledOperand result{operand.tensor, chosen(operand.axes, labels)};
    if (is_dense(result.axes)) return result;
    const std::int64_t count = elements_of(result.axes);
    TUTTI_ASSIGN_OR_RETURN(result.tensor, ctx.allocate_temp(dtype_, Shape{count}));
    make_dense(result.axes);
    if (count > 0) copy(operand, result, ctx.team());
    return result;
  }

  // Sums over the labels that neither the output nor the other operand has, as a product with ones.
  Status sum_away(KernelContext& ctx, LabelledOperand& operand, const LabelledAxes& output,
                  const LabelledAxes* other) const {
    EinsumTerm kept, gone;
    for (const LabelledAxis& axis : operand.axes) {
      const bool needed =
          find_axis(output, axis.label) != nullptr || (other != nullptr && find_axis(*other, axis.label) != nullptr);
      (needed ? kept : gone).push_back(axis.label);
    }
    if (gone.empty()) return {};
    EinsumTerm order = kept;
    order.insert(order.end(), gone.begin(), gone.end());
    TUTTI_ASSIGN_OR_RETURN(const LabelledOperand rows, arranged(ctx, operand, order));
    LabelledOperand sums{{}, chosen(rows.axes, kept)};
    make_dense(sums.axes);
    const GemmShape shape{.m = elements_of(sums.axes), .n = 1, .k = elements_of(chosen(rows.axes, gone))};
    TUTTI_ASSIGN_OR_RETURN(sums.tensor, ctx.allocate_temp(dtype_, Shape{shape.m}));
    TUTTI_ASSIGN_OR_RETURN(Tensor ones, ctx.allocate_temp(dtype_, Shape{shape.k}));
    with_number(
        dtype_, [&]<typename T>(T) { std::fill_n(ones.data<T>(), shape.k, static_cast<T>(1.0f)); }, [] {});
    TUTTI_RETURN_IF_ERROR(
        multiply(dtype_, shape, rows.tensor.raw(), ones.raw(), sums.tensor.raw(), ctx.team(), ctx.allocator()));
    operand = std::move(sums);
    return {};
  }

  static Roles roles_of(const LabelledAxes& left, const LabelledAxes& right, const LabelledAxes& output) {
    Roles roles;
    for (const LabelledAxis& axis : output) {
      const bool in_left = find_axis(left, axis.label) != nullptr, in_right = find_axis(right, axis.label) != nullptr;
      (in_left && in_right ? roles.batch : in_left ? roles.rows : roles.columns).push_back(axis.label);
    }
    LabelledAxes summed;
    for (const LabelledAxis& axis : left) {
      if (find_axis(output, axis.label) == nullptr) summed.push_back(axis);
    }
    // In the order in which the left operand has them in memory: the right one most often has the same.
    std::stable_sort(summed.begin(), summed.end(),
                     [](const LabelledAxis& a, const LabelledAxis& b) { return a.stride > b.stride; });
    for (const LabelledAxis& axis : summed) roles.summed.push_back(axis.label);
    return roles;
  }

  Status contract(KernelContext& ctx, LabelledOperand& x, LabelledOperand& y, LabelledOperand& result) const {
    // The last dimension of the output runs along memory: it must be one of the right operand's own.
    const bool swap = !result.axes.empty() && find_axis(x.axes, result.axes.back().label) != nullptr;
    LabelledOperand& left = swap ? y : x;
    LabelledOperand& right = swap ? x : y;
    const Roles roles = roles_of(left.axes, right.axes, result.axes);
    const GemmShape shape{.m = elements_of(chosen(left.axes, roles.rows)),
                          .n = elements_of(chosen(right.axes, roles.columns)),
                          .k = elements_of(chosen(left.axes, roles.summed))};
    if (shape.k == 0) {
      zero_elements(dtype_, result.tensor.raw(), result.tensor.num_elements());
      return {};
    }
    if (shape.m == 1 && shape.n == 1 && shape.k == 1) return multiply_elements(ctx, left, right, roles, result);
    const double work = static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
    const bool dense = dtype_ != DType::kFloat || work <= kWorthStrides;

    TUTTI_ASSIGN_OR_RETURN(const MatrixView left_view,
                           in_place_or_arranged(ctx, left, roles.batch, roles.rows, roles.summed, dense));
    TUTTI_ASSIGN_OR_RETURN(const MatrixView right_view,
                           in_place_or_arranged(ctx, right, roles.batch, roles.summed, roles.columns, dense));
    LabelledOperand target = result;
    std::optional<MatrixView> out_view =
        matrix_view(chosen(result.axes, roles.rows), chosen(result.axes, roles.columns), dense);
    const bool direct = out_view && !out_view->transposed;
    if (!direct) {
      target.axes = chosen(result.axes, joined_labels(roles.batch, roles.rows, roles.columns));
      make_dense(target.axes);
      TUTTI_ASSIGN_OR_RETURN(target.tensor, ctx.allocate_temp(dtype_, Shape{elements_of(target.axes)}));
      out_view = MatrixView{false, shape.n};
    }
    Products products{.dtype = dtype_,
                      .shape = {shape.m, shape.n, shape.k, left_view.transposed, right_view.transposed},
                      .strides = {left_view.leading, right_view.leading, out_view->leading}};
    for (const EinsumLabel label : roles.batch) {
      const LabelledAxis& axis = *find_axis(target.axes, label);
      products.batch.push_back(
          {axis.size, find_axis(left.axes, label)->stride, find_axis(right.axes, label)->stride, axis.stride});
      products.count *= axis.size;
    }
    products.left = left.tensor.raw();
    products.right = right.tensor.raw();
    products.out = target.tensor.raw();
    TUTTI_RETURN_IF_ERROR(products.run(ctx));
    if (!direct) copy(target, result, ctx.team());
    return {};
  }

  static EinsumTerm joined_labels(const EinsumTerm& a, const EinsumTerm& b, const EinsumTerm& c) {
    EinsumTerm all = a;
    all.insert(all.end(), b.begin(), b.end());
    all.insert(all.end(), c.begin(), c.end());
    return all;
  }

  // How the operand is read as matrices of `rows` by `columns`; copies it into that order when it must.
  Result<MatrixView> in_place_or_arranged(KernelContext& ctx, LabelledOperand& operand, const EinsumTerm& batch,
                                          const EinsumTerm& rows, const EinsumTerm& columns, bool dense) const {
    const auto view = [&] { return matrix_view(chosen(operand.axes, rows), chosen(operand.axes, columns), dense); };
    if (const std::optional<MatrixView> found = view()) return *found;
    TUTTI_ASSIGN_OR_RETURN(operand, arranged(ctx, operand, joined_labels(batch, rows, columns)));
    return *view();
  }

  Status multiply_elements(KernelContext& ctx, const LabelledOperand& left, const LabelledOperand& right,
                           const Roles& roles, LabelledOperand& result) const {
    const EinsumTerm& order = roles.batch;
    TUTTI_ASSIGN_OR_RETURN(const LabelledOperand a, arranged(ctx, left, order));
    TUTTI_ASSIGN_OR_RETURN(const LabelledOperand b, arranged(ctx, right, order));
    LabelledOperand target{result.tensor, chosen(result.axes, order)};
    const bool direct = is_dense(target.axes);
    if (!direct) {
      make_dense(target.axes);
      TUTTI_ASSIGN_OR_RETURN(target.tensor, ctx.allocate_temp(dtype_, Shape{elements_of(target.axes)}));
    }
    const std::int64_t size = static_cast<std::int64_t>(element_stride(dtype_));
    parallel_for(ctx.team(), elements_of(target.axes), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      multiply_(static_cast<const char*>(a.tensor.raw()) + begin * size,
                static_cast<const char*>(b.tensor.raw()) + begin * size,
                static_cast<char*>(target.tensor.raw()) + begin * size, end - begin, 1, 1);
    });
    if (!direct) copy(target, result, ctx.team());
    return {};
  }

  const EinsumEquation equation_;
  const DType dtype_;
  const BinaryFunction multiply_;
};

}  // namespace

KernelFactory einsum_kernel() { return kernel_of<EinsumKernel>(); }

}  // namespace tutti::cpu
