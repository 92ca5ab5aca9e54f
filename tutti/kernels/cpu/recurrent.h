// Cells and whole sequences of recurrent networks, each with its gradient in one kernel.
#pragma once

#include <cstdint>

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Where a gate's block lies among the four of a row of w's columns.
struct GateOrder {
  int i = 0, ci = 1, f = 2, o = 3;
};
inline constexpr GateOrder kInputCellForgetOutput{};
inline constexpr GateOrder kInputForgetCellOutput{.ci = 2, .f = 1};

KernelFactory lstm_cell_kernel();
KernelFactory lstm_cell_grad_kernel();
// BlockLSTM and BlockLSTMV2: steps of a cell, with the products over x taken for all of them at once.
KernelFactory lstm_sequence_kernel(GateOrder order);
KernelFactory lstm_sequence_grad_kernel(GateOrder order);

Status gru_cell(KernelContext& context);
Status gru_cell_grad(KernelContext& context);

namespace internal {

// One step of an LSTM for a batch; arrays are [batch, cells] unless said otherwise.
struct LstmStep {
  const float* from_x = nullptr;  // [batch, 4 cells]
  const float* from_h = nullptr;  // likewise
  const float* bias = nullptr;    // [4 cells]
  const float* cs_prev = nullptr;
  const float* peepholes[3] = {};  // of i, f, o: [cells], or all null
  float forget_bias = 0;
  float clip = 0;  // of the cell's state; 0: none
  float *i = nullptr, *cs = nullptr, *f = nullptr, *o = nullptr, *ci = nullptr, *co = nullptr, *h = nullptr;
};

struct LstmStepGrad {
  const float *i = nullptr, *cs = nullptr, *f = nullptr, *o = nullptr, *ci = nullptr, *co = nullptr;
  const float* cs_prev = nullptr;
  const float* cs_grad = nullptr;
  const float* h_grad = nullptr;
  const float* later_cs_grad = nullptr;  // added to cs_grad; null: none
  const float* later_h_grad = nullptr;   // likewise
  const float* peepholes[3] = {};
  float* gates = nullptr;  // [batch, 4 cells]
  float* cs_prev_grad = nullptr;
  float* peephole_grads[3] = {};  // [cells], added to
};

struct GruGates {
  // r and u of `bars` + bias, [batch, 2 cells]; hr = h_prev * r.
  const float *bars = nullptr, *bias = nullptr, *h_prev = nullptr;
  float *r = nullptr, *u = nullptr, *hr = nullptr;
};

// Rows [begin, end) of a batch. Outputs may lie where inputs of the same row do.
struct RecurrentLoops {
  void (*lstm)(const LstmStep& step, GateOrder order, std::int64_t cells, std::int64_t begin, std::int64_t end);
  void (*lstm_grad)(const LstmStepGrad& step, GateOrder order, std::int64_t cells, std::int64_t begin,
                    std::int64_t end);
  void (*gru_gates)(const GruGates& gates, std::int64_t cells, std::int64_t begin, std::int64_t end);
  // c = tanh(bar + bias); h = u * h_prev + (1 - u) * c
  void (*gru_state)(const float* bar, const float* bias, const float* u, const float* h_prev, float* c, float* h,
                    std::int64_t cells, std::int64_t begin, std::int64_t end);
};
RecurrentLoops find_recurrent_loops();

}  // namespace internal

}  // namespace tutti::cpu
