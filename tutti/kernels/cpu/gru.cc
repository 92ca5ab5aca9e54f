// The GRU cell: r and u are sigmoids of [x, h] w_ru + b_ru, c the tanh of [x, h r] w_c + b_c, h' = u h + (1 - u) c.
#include <algorithm>
#include <array>

#include "tutti/kernels/cpu/gemm.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/kernels/cpu/recurrent.h"

namespace tutti::cpu {
namespace {

struct GruSizes {
  std::int64_t batch = 0;
  std::int64_t inputs = 0;
  std::int64_t cells = 0;
};

// `expected` is fully known; it may be too large to be a tensor's.
Status check_gru_shape(std::string_view what, const Tensor& tensor, const PartialShape& expected) {
  if (expected == PartialShape(tensor.shape())) return {};
  return invalid_argument("GRU: ", what, " must be ", expected, ", got ", tensor.shape());
}

// Of the inputs x, h_prev, w_ru, w_c, b_ru, b_c.
Result<GruSizes> gru_sizes(KernelContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& h_prev = context.input(1);
  if (x.rank() != 2) return invalid_argument("GRU: x must be a matrix, got ", x.shape());
  if (h_prev.rank() != 2) return invalid_argument("GRU: h_prev must be a matrix, got ", h_prev.shape());
  const GruSizes s{.batch = x.dim(0), .inputs = x.dim(1), .cells = h_prev.dim(1)};
  std::int64_t both = 0, rows = 0;
  if (__builtin_mul_overflow(s.cells, std::int64_t{2}, &both) || __builtin_add_overflow(s.inputs, s.cells, &rows)) {
    return invalid_argument("GRU: ", s.cells, " cells are too many");
  }
  TUTTI_RETURN_IF_ERROR(check_gru_shape("h_prev", h_prev, PartialShape{s.batch, s.cells}));
  TUTTI_RETURN_IF_ERROR(check_gru_shape("w_ru", context.input(2), PartialShape{rows, both}));
  TUTTI_RETURN_IF_ERROR(check_gru_shape("w_c", context.input(3), PartialShape{rows, s.cells}));
  TUTTI_RETURN_IF_ERROR(check_gru_shape("b_ru", context.input(4), PartialShape{both}));
  TUTTI_RETURN_IF_ERROR(check_gru_shape("b_c", context.input(5), PartialShape{s.cells}));
  const std::array<std::int64_t, 2> all_gates{s.batch, both}, side_by_side{s.batch, rows};
  TUTTI_RETURN_IF_ERROR(Shape::create(all_gates).status());
  TUTTI_RETURN_IF_ERROR(Shape::create(side_by_side).status());
  return s;
}

// [x, h], row by row.
void put_side_by_side(const GruSizes& s, const float* x, const float* h, float* to) {
  for (std::int64_t row = 0; row < s.batch; ++row) {
    to = std::copy_n(x + row * s.inputs, s.inputs, to);
    to = std::copy_n(h + row * s.cells, s.cells, to);
  }
}

std::int64_t gru_grain(const GruSizes& s) { return kElementGrain / (4 * std::max<std::int64_t>(s.cells, 1)); }

// slopes [batch, n] times the transpose of w [inputs + cells, n].
Status back_through(KernelContext& context, const GruSizes& s, const float* slopes, std::int64_t n, int w, Tensor& to) {
  return gemm<float>({.m = s.batch, .n = s.inputs + s.cells, .k = n, .transpose_b = true}, slopes,
                     context.input(w).data<float>(), to.data<float>(), context.team(), context.allocator());
}

}  // namespace

Status gru_cell(KernelContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const GruSizes s, gru_sizes(context));
  const internal::RecurrentLoops loops = internal::find_recurrent_loops();
  float* out[4] = {};  // r, u, c, h
  for (int i = 0; i < 4; ++i) {
    TUTTI_ASSIGN_OR_RETURN(Tensor * tensor, context.allocate_output(i, Shape{s.batch, s.cells}));
    out[i] = tensor->data<float>();
  }
  if (s.batch * s.cells == 0) return {};  // rows of nothing may be of any number
  const std::int64_t rows = s.inputs + s.cells;
  TUTTI_ASSIGN_OR_RETURN(Tensor both, context.allocate_temp(DType::kFloat, Shape{s.batch, rows}));
  TUTTI_ASSIGN_OR_RETURN(Tensor bars, context.allocate_temp(DType::kFloat, Shape{s.batch, 2 * s.cells}));
  TUTTI_ASSIGN_OR_RETURN(Tensor hr, context.allocate_temp(DType::kFloat, Shape{s.batch, s.cells}));
  const float* const x = context.input(0).data<float>();
  const float* const h_prev = context.input(1).data<float>();
  put_side_by_side(s, x, h_prev, both.data<float>());
  TUTTI_RETURN_IF_ERROR(gemm<float>({s.batch, 2 * s.cells, rows}, both.data<float>(), context.input(2).data<float>(),
                                    bars.data<float>(), context.team(), context.allocator()));
  const internal::GruGates gates{.bars = bars.data<float>(),
                                 .bias = context.input(4).data<float>(),
                                 .h_prev = h_prev,
                                 .r = out[0],
                                 .u = out[1],
                                 .hr = hr.data<float>()};
  parallel_for(context.team(), s.batch, gru_grain(s),
               [&](std::int64_t begin, std::int64_t end) { loops.gru_gates(gates, s.cells, begin, end); });
  put_side_by_side(s, x, hr.data<float>(), both.data<float>());
  TUTTI_RETURN_IF_ERROR(gemm<float>({s.batch, s.cells, rows}, both.data<float>(), context.input(3).data<float>(),
                                    bars.data<float>(), context.team(), context.allocator()));
  parallel_for(context.team(), s.batch, gru_grain(s), [&](std::int64_t begin, std::int64_t end) {
    loops.gru_state(bars.data<float>(), context.input(5).data<float>(), out[1], h_prev, out[2], out[3], s.cells, begin,
                    end);
  });
  return {};
}

// Inputs go on with r, u, c and d_h; outputs d_x, d_h_prev, d_c_bar, d_r_bar_u_bar.
Status gru_cell_grad(KernelContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const GruSizes s, gru_sizes(context));
  for (int i = 6; i < 10; ++i) {
    TUTTI_RETURN_IF_ERROR(check_gru_shape("a state", context.input(i), PartialShape{s.batch, s.cells}));
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * d_x, context.allocate_output(0, Shape{s.batch, s.inputs}));
  TUTTI_ASSIGN_OR_RETURN(Tensor * d_h_prev, context.allocate_output(1, Shape{s.batch, s.cells}));
  TUTTI_ASSIGN_OR_RETURN(Tensor * d_c_bar, context.allocate_output(2, Shape{s.batch, s.cells}));
  TUTTI_ASSIGN_OR_RETURN(Tensor * d_bars, context.allocate_output(3, Shape{s.batch, 2 * s.cells}));
  const std::int64_t rows = s.inputs + s.cells, n = s.batch * s.cells;
  if (s.batch * rows == 0) return {};
  TUTTI_ASSIGN_OR_RETURN(Tensor by_c, context.allocate_temp(DType::kFloat, Shape{s.batch, rows}));
  TUTTI_ASSIGN_OR_RETURN(Tensor by_ru, context.allocate_temp(DType::kFloat, Shape{s.batch, rows}));
  const float* const h_prev = context.input(1).data<float>();
  const float* const r = context.input(6).data<float>();
  const float* const u = context.input(7).data<float>();
  const float* const c = context.input(8).data<float>();
  const float* const d_h = context.input(9).data<float>();
  float* const c_bar = d_c_bar->data<float>();
  for (std::int64_t i = 0; i < n; ++i) c_bar[i] = d_h[i] * (1 - u[i]) * (1 - c[i] * c[i]);
  TUTTI_RETURN_IF_ERROR(back_through(context, s, c_bar, s.cells, 3, by_c));
  for (std::int64_t row = 0; row < s.batch; ++row) {
    const float* const d_hr = by_c.data<float>() + row * rows + s.inputs;
    float* const bars = d_bars->data<float>() + row * 2 * s.cells;
    for (std::int64_t k = 0; k < s.cells; ++k) {
      const std::int64_t at = row * s.cells + k;
      bars[k] = d_hr[k] * h_prev[at] * r[at] * (1 - r[at]);
      bars[s.cells + k] = d_h[at] * (h_prev[at] - c[at]) * u[at] * (1 - u[at]);
    }
  }
  TUTTI_RETURN_IF_ERROR(back_through(context, s, d_bars->data<float>(), 2 * s.cells, 2, by_ru));
  for (std::int64_t row = 0; row < s.batch; ++row) {
    const float* const first = by_c.data<float>() + row * rows;
    const float* const second = by_ru.data<float>() + row * rows;
    for (std::int64_t k = 0; k < s.inputs; ++k) d_x->data<float>()[row * s.inputs + k] = first[k] + second[k];
    for (std::int64_t k = 0; k < s.cells; ++k) {
      const std::int64_t at = row * s.cells + k;
      d_h_prev->data<float>()[at] = second[s.inputs + k] + first[s.inputs + k] * r[at] + d_h[at] * u[at];
    }
  }
  return {};
}

}  // namespace tutti::cpu
