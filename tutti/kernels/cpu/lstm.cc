// LSTM cells and sequences. w is [inputs + cells, 4 cells]: the product with x is taken for all steps at once, the one
// with h step by step, and what lies between is one loop (recurrent_loops.cc).
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/gemm.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/kernels/cpu/recurrent.h"

namespace tutti::cpu {
namespace {

using internal::LstmStep;
using internal::LstmStepGrad;

constexpr int kGates = 4;
constexpr int kParameters = 8;  // x, cs_prev, h_prev, w, wci, wcf, wco, b
constexpr std::array<std::string_view, kParameters> kParameterNames{"x",   "cs_prev", "h_prev", "w",
                                                                    "wci", "wcf",     "wco",    "b"};

// A cell is a sequence of one step.
struct LstmSizes {
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t inputs = 0;
  std::int64_t cells = 0;
  std::int64_t length = 0;  // steps that are taken
  bool whole = false;       // a sequence: x has a dimension for steps

  Shape state_shape() const { return whole ? Shape{steps, batch, cells} : Shape{batch, cells}; }
  std::int64_t state() const { return batch * cells; }
};

// What the four kernels share.
class Lstm : public Kernel {
 public:
  Lstm(const KernelInit& init, GateOrder order, bool whole)
      : order_(order), op_(init.op), peeps_(init.attr<bool>("use_peephole")), first_(whole ? 1 : 0) {}

 protected:
  // Where among a kernel's inputs x stands; a sequence has its length before it.
  int x() const { return first_; }

  Result<LstmSizes> sizes(KernelContext& context) const {
    const Tensor& in = context.input(first_);
    const Tensor& cs_prev = context.input(first_ + 1);
    LstmSizes s{.whole = first_ == 1};
    const int rank = s.whole ? 3 : 2;
    if (in.rank() != rank) return invalid_argument(op_, ": x must have ", rank, " dimensions, got ", in.shape());
    if (cs_prev.rank() != 2) return invalid_argument(op_, ": cs_prev must be a matrix, got ", cs_prev.shape());
    s.steps = s.whole ? in.dim(0) : 1;
    s.batch = in.dim(rank - 2);
    s.inputs = in.dim(rank - 1);
    s.cells = cs_prev.dim(1);
    s.length = s.steps;
    if (s.whole) {
      TUTTI_ASSIGN_OR_RETURN(s.length, read_scalar_integer(context.input(0), "seq_len_max"));
      if (s.length < 0 || s.length > s.steps) {
        return invalid_argument(op_, ": seq_len_max is ", s.length, " for x ", in.shape());
      }
    }
    std::int64_t columns = 0, rows = 0;
    if (__builtin_mul_overflow(s.cells, std::int64_t{kGates}, &columns) ||
        __builtin_add_overflow(s.inputs, s.cells, &rows)) {
      return invalid_argument(op_, ": ", s.cells, " cells are too many");
    }
    const std::array<PartialShape, kParameters - 1> expected{
        PartialShape{s.batch, s.cells}, PartialShape{s.batch, s.cells}, PartialShape{rows, columns},
        PartialShape{s.cells},          PartialShape{s.cells},          PartialShape{s.cells},
        PartialShape{columns}};
    for (int i = 1; i < kParameters; ++i) {
      TUTTI_RETURN_IF_ERROR(check(kParameterNames[i], context.input(first_ + i), expected[i - 1]));
    }
    const std::array<std::int64_t, 3> all_gates{s.steps, s.batch, columns};
    TUTTI_RETURN_IF_ERROR(Shape::create(all_gates).status());
    return s;
  }

  // `expected` is fully known; it may be too large to be a tensor's.
  Status check(std::string_view what, const Tensor& tensor, const PartialShape& expected) const {
    if (expected == PartialShape(tensor.shape())) return {};
    return invalid_argument(op_, ": ", what, " must be ", expected, ", got ", tensor.shape());
  }

  // Inputs [from, to) in float.
  static Result<std::vector<Tensor>> floats(KernelContext& context, int from, int to) {
    std::vector<Tensor> tensors;
    for (int i = from; i < to; ++i) {
      TUTTI_ASSIGN_OR_RETURN(Tensor wide, widened(context, context.input(i), DType::kFloat));
      tensors.push_back(std::move(wide));
    }
    return tensors;
  }

  // Output i and where to compute it in float.
  static Status make_output(KernelContext& context, int i, const Shape& shape, std::vector<Tensor>& wide) {
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(i, shape));
    TUTTI_ASSIGN_OR_RETURN(Tensor room, wide_output(context, *out, DType::kFloat));
    wide.push_back(std::move(room));
    return {};
  }

  static void finish(KernelContext& context, const std::vector<Tensor>& wide) {
    for (std::size_t i = 0; i < wide.size(); ++i) narrow_into(wide[i], context.output(static_cast<int>(i)));
  }

  void set_peepholes(const std::vector<Tensor>& parameters, const float* (&to)[3]) const {
    for (int k = 0; peeps_ && k < 3; ++k) to[k] = parameters[4 + k].data<float>();
  }

  // Rows of the batch that are worth a thread.
  static std::int64_t row_grain(const LstmSizes& s) {
    return kElementGrain / (2 * kGates * std::max<std::int64_t>(s.cells, 1));
  }

  const GateOrder order_;
  const std::string op_;
  const bool peeps_;
  const internal::RecurrentLoops loops_ = internal::find_recurrent_loops();

 private:
  const int first_;
};

float float_attr(const KernelInit& init, std::string_view name) {
  auto it = init.attrs.find(name);
  return it == init.attrs.end() ? 0 : init.attr<float>(name);  // V2 has no forget_bias
}

// Outputs i, cs, f, o, ci, co, h.
class LstmForward : public Lstm {
 public:
  LstmForward(const KernelInit& init, GateOrder order, bool whole)
      : Lstm(init, order, whole), forget_bias_(float_attr(init, "forget_bias")), clip_(init.attr<float>("cell_clip")) {}

  Status compute(KernelContext& context) override {
    TUTTI_ASSIGN_OR_RETURN(const LstmSizes s, sizes(context));
    TUTTI_ASSIGN_OR_RETURN(const std::vector<Tensor> in, floats(context, x(), x() + kParameters));
    std::vector<Tensor> out;
    for (int i = 0; i < 7; ++i) TUTTI_RETURN_IF_ERROR(make_output(context, i, s.state_shape(), out));
    if (s.state() == 0) return {};  // steps and rows of nothing may be of any number
    TUTTI_RETURN_IF_ERROR(run(context, s, in, out));
    for (Tensor& tensor : out) {  // what lies behind the last step
      std::fill(tensor.data<float>() + s.length * s.state(), tensor.data<float>() + s.steps * s.state(), 0.0f);
    }
    finish(context, out);
    return {};
  }

 private:
  Status run(KernelContext& context, const LstmSizes& s, const std::vector<Tensor>& in,
             std::vector<Tensor>& out) const {
    const std::int64_t columns = kGates * s.cells;
    TUTTI_ASSIGN_OR_RETURN(Tensor from_x, context.allocate_temp(DType::kFloat, Shape{s.length * s.batch, columns}));
    TUTTI_ASSIGN_OR_RETURN(Tensor from_h, context.allocate_temp(DType::kFloat, Shape{s.batch, columns}));
    const float* const w = in[3].data<float>();
    TUTTI_RETURN_IF_ERROR(gemm<float>({s.length * s.batch, columns, s.inputs}, in[0].data<float>(), w,
                                      from_x.data<float>(), context.team(), context.allocator()));
    LstmStep step{
        .from_h = from_h.data<float>(), .bias = in[7].data<float>(), .forget_bias = forget_bias_, .clip = clip_};
    set_peepholes(in, step.peepholes);
    const float* h_prev = in[2].data<float>();
    step.cs_prev = in[1].data<float>();
    for (std::int64_t t = 0; t < s.length; ++t) {
      TUTTI_RETURN_IF_ERROR(gemm<float>({s.batch, columns, s.cells}, h_prev, w + s.inputs * columns,
                                        from_h.data<float>(), context.team(), context.allocator()));
      step.from_x = from_x.data<float>() + t * s.batch * columns;
      float** const places[] = {&step.i, &step.cs, &step.f, &step.o, &step.ci, &step.co, &step.h};
      for (std::size_t i = 0; i < out.size(); ++i) *places[i] = out[i].data<float>() + t * s.state();
      parallel_for(context.team(), s.batch, row_grain(s),
                   [&](std::int64_t begin, std::int64_t end) { loops_.lstm(step, order_, s.cells, begin, end); });
      step.cs_prev = step.cs;
      h_prev = step.h;
    }
    return {};
  }

  const float forget_bias_;
  const float clip_;
};

// Inputs: those of the forward kernel, its outputs (a cell's without h), cs_grad, h_grad.
class LstmBackward : public Lstm {
 public:
  using Lstm::Lstm;

 protected:
  // The gradients of one step's gates, with those of the state before it.
  Status step_grad(KernelContext& context, const LstmSizes& s, const LstmStepGrad& step) const {
    // Peepholes are summed over the batch, on one thread.
    Team& team = peeps_ ? Team::alone() : context.team();
    parallel_for(team, s.batch, row_grain(s),
                 [&](std::int64_t begin, std::int64_t end) { loops_.lstm_grad(step, order_, s.cells, begin, end); });
    return {};
  }

  // Inputs from `first` on: i, cs, f, o, ci, co as they were at step t.
  static void set_forward(const std::vector<Tensor>& in, std::int64_t at, LstmStepGrad& step) {
    const float** const places[] = {&step.i, &step.cs, &step.f, &step.o, &step.ci, &step.co};
    for (int k = 0; k < 6; ++k) *places[k] = in[kParameters + k].data<float>() + at;
  }

  Status check_states(KernelContext& context, const LstmSizes& s, int from, int to) const {
    for (int i = from; i < to; ++i) TUTTI_RETURN_IF_ERROR(check("a state", context.input(i), s.state_shape()));
    return {};
  }
};

// Outputs cs_prev_grad, dicfo and the peepholes' gradients.
class LstmCellGrad : public LstmBackward {
 public:
  explicit LstmCellGrad(const KernelInit& init) : LstmBackward(init, kInputCellForgetOutput, false) {}

  Status compute(KernelContext& context) override {
    TUTTI_ASSIGN_OR_RETURN(const LstmSizes s, sizes(context));
    TUTTI_RETURN_IF_ERROR(check_states(context, s, kParameters, kParameters + 8));
    TUTTI_ASSIGN_OR_RETURN(const std::vector<Tensor> in, floats(context, 0, kParameters + 8));
    std::vector<Tensor> out;
    TUTTI_RETURN_IF_ERROR(make_output(context, 0, Shape{s.batch, s.cells}, out));
    TUTTI_RETURN_IF_ERROR(make_output(context, 1, Shape{s.batch, kGates * s.cells}, out));
    for (int i = 2; i < 5; ++i) {
      TUTTI_RETURN_IF_ERROR(make_output(context, i, context.input(i + 2).shape(), out));
      std::fill_n(out[static_cast<std::size_t>(i)].data<float>(), out[static_cast<std::size_t>(i)].num_elements(),
                  0.0f);
    }
    LstmStepGrad step{.cs_prev = in[1].data<float>(),
                      .cs_grad = in[kParameters + 6].data<float>(),
                      .h_grad = in[kParameters + 7].data<float>(),
                      .gates = out[1].data<float>(),
                      .cs_prev_grad = out[0].data<float>()};
    set_forward(in, 0, step);
    set_peepholes(in, step.peepholes);
    for (int k = 0; k < 3; ++k) step.peephole_grads[k] = out[static_cast<std::size_t>(2 + k)].data<float>();
    if (s.state() > 0) TUTTI_RETURN_IF_ERROR(step_grad(context, s, step));
    finish(context, out);
    return {};
  }
};

// Outputs: gradients of x, cs_prev, h_prev, w, wci, wcf, wco, b.
class LstmSequenceGrad : public LstmBackward {
 public:
  LstmSequenceGrad(const KernelInit& init, GateOrder order) : LstmBackward(init, order, true) {}

  Status compute(KernelContext& context) override {
    TUTTI_ASSIGN_OR_RETURN(const LstmSizes s, sizes(context));
    TUTTI_RETURN_IF_ERROR(check_states(context, s, 1 + kParameters, 1 + kParameters + 9));
    TUTTI_ASSIGN_OR_RETURN(const std::vector<Tensor> in, floats(context, 1, 1 + kParameters + 9));
    std::vector<Tensor> out;
    for (int i = 0; i < kParameters; ++i) {
      TUTTI_RETURN_IF_ERROR(make_output(context, i, context.input(1 + i).shape(), out));
      std::fill_n(out.back().data<float>(), out.back().num_elements(), 0.0f);
    }
    if (s.state() > 0) TUTTI_RETURN_IF_ERROR(differentiate(context, s, in, out));
    finish(context, out);
    return {};
  }

 private:
  Status differentiate(KernelContext& context, const LstmSizes& s, const std::vector<Tensor>& in,
                       std::vector<Tensor>& out) const {
    TUTTI_ASSIGN_OR_RETURN(Tensor gates,
                           context.allocate_temp(DType::kFloat, Shape{s.length * s.batch, kGates * s.cells}));
    TUTTI_RETURN_IF_ERROR(through_time(context, s, in, gates, out));
    return through_products(context, s, in, gates, out);
  }

  // Back from the last step: gradients of all gates, of the first state and of the peepholes.
  Status through_time(KernelContext& context, const LstmSizes& s, const std::vector<Tensor>& in, Tensor& gates,
                      std::vector<Tensor>& out) const {
    const std::int64_t columns = kGates * s.cells;
    const float* const w_h = in[3].data<float>() + s.inputs * columns;
    float* const cs_prev_grad = out[1].data<float>();
    float* const h_prev_grad = out[2].data<float>();
    LstmStepGrad step{.cs_prev_grad = cs_prev_grad};
    set_peepholes(in, step.peepholes);
    for (int k = 0; k < 3; ++k) step.peephole_grads[k] = out[static_cast<std::size_t>(4 + k)].data<float>();
    for (std::int64_t t = s.length - 1; t >= 0; --t) {
      const std::int64_t at = t * s.state();
      set_forward(in, at, step);
      step.cs_prev = t == 0 ? in[1].data<float>() : in[kParameters + 1].data<float>() + at - s.state();
      step.cs_grad = in[kParameters + 7].data<float>() + at;
      step.h_grad = in[kParameters + 8].data<float>() + at;
      step.gates = gates.data<float>() + t * s.batch * columns;
      TUTTI_RETURN_IF_ERROR(step_grad(context, s, step));
      TUTTI_RETURN_IF_ERROR(gemm<float>({.m = s.batch, .n = s.cells, .k = columns, .transpose_b = true}, step.gates,
                                        w_h, h_prev_grad, context.team(), context.allocator()));
      step.later_cs_grad = cs_prev_grad;
      step.later_h_grad = h_prev_grad;
    }
    return {};
  }

  // From the gates of all steps: gradients of x, w and b.
  static Status through_products(KernelContext& context, const LstmSizes& s, const std::vector<Tensor>& in,
                                 const Tensor& gates, std::vector<Tensor>& out) {
    if (s.length == 0) return {};
    const std::int64_t rows = s.length * s.batch, columns = kGates * s.cells;
    const float* const slopes = gates.data<float>();
    TUTTI_RETURN_IF_ERROR(gemm<float>({.m = rows, .n = s.inputs, .k = columns, .transpose_b = true}, slopes,
                                      in[3].data<float>(), out[0].data<float>(), context.team(), context.allocator()));
    TUTTI_RETURN_IF_ERROR(gemm<float>({.m = s.inputs, .n = columns, .k = rows, .transpose_a = true},
                                      in[0].data<float>(), slopes, out[3].data<float>(), context.team(),
                                      context.allocator()));
    TUTTI_ASSIGN_OR_RETURN(Tensor before, context.allocate_temp(DType::kFloat, Shape{rows, s.cells}));
    std::copy_n(in[2].data<float>(), s.state(), before.data<float>());
    std::copy_n(in[kParameters + 6].data<float>(), (s.length - 1) * s.state(), before.data<float>() + s.state());
    TUTTI_RETURN_IF_ERROR(gemm<float>({.m = s.cells, .n = columns, .k = rows, .transpose_a = true},
                                      before.data<float>(), slopes, out[3].data<float>() + s.inputs * columns,
                                      context.team(), context.allocator()));
    float* const bias = out[7].data<float>();
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t c = 0; c < columns; ++c) bias[c] += slopes[row * columns + c];
    }
    return {};
  }
};

}  // namespace

KernelFactory lstm_cell_kernel() {
  return [](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<LstmForward>(init, kInputCellForgetOutput, false));
  };
}

KernelFactory lstm_cell_grad_kernel() { return kernel_of<LstmCellGrad>(); }

KernelFactory lstm_sequence_kernel(GateOrder order) {
  return [order](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<LstmForward>(init, order, true));
  };
}

KernelFactory lstm_sequence_grad_kernel(GateOrder order) {
  return [order](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<LstmSequenceGrad>(init, order));
  };
}

}  // namespace tutti::cpu
