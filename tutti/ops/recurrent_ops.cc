// Rows of recurrent cells and sequences.
#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/recurrent.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/families.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

constexpr DTypeSet kLstmTypes{DType::kHalf, DType::kFloat};

// --- Shapes. ---

PartialShape times(const PartialShape& matrix, std::int64_t factor) {
  const std::int64_t cells = matrix.dim(1);
  std::int64_t columns = kUnknownDim;
  if (cells != kUnknownDim && __builtin_mul_overflow(cells, factor, &columns)) columns = kUnknownDim;
  return PartialShape{matrix.dim(0), columns};
}

// [batch, cells] of a cell whose inputs 0 and 1 are [batch, inputs] and [batch, cells].
Result<PartialShape> cell_state(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape x, c.with_rank(0, 2));
  TUTTI_ASSIGN_OR_RETURN(PartialShape state, c.with_rank(1, 2));
  return PartialShape{x.dim(0), state.dim(1)};
}

Status cell_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape state, cell_state(c));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, state);
  return {};
}

Status lstm_cell_grad_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape state, cell_state(c));
  c.set_output(0, state);
  c.set_output(1, times(state, 4));
  for (int i = 2; i < 5; ++i) c.set_output(i, c.input(i + 2));
  return {};
}

Status gru_cell_grad_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape state, cell_state(c));
  c.set_output(0, c.input(0));
  c.set_output(1, state);
  c.set_output(2, state);
  c.set_output(3, times(state, 2));
  return {};
}

Status lstm_sequence_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape x, c.with_rank(1, 3));
  TUTTI_ASSIGN_OR_RETURN(const PartialShape bias, c.with_rank(8, 1));
  const std::int64_t cells = bias.dim(0) == kUnknownDim ? kUnknownDim : bias.dim(0) / 4;
  if (cells != kUnknownDim && cells * 4 != bias.dim(0)) {
    return invalid_argument("b must have four gates, got ", bias);
  }
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, PartialShape{x.dim(0), x.dim(1), cells});
  return {};
}

Status lstm_sequence_grad_shape(ShapeContext& c) {
  constexpr int kRanks[] = {3, 2, 2, 2, 1, 1, 1, 1};  // x, cs_prev, h_prev, w, wci, wcf, wco, b
  for (int i = 0; i < c.num_outputs(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(PartialShape input, c.with_rank(i + 1, kRanks[i]));
    c.set_output(i, std::move(input));
  }
  return {};
}

// --- Gradients. ---

// By the states that the forward op kept. As in TensorFlow, only what flows into cs and h counts.
GradFn lstm_sequence_grad(const std::string& version) {
  return [version](GradContext& g) {
    std::vector<Output> inputs;
    for (int i = 0; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
    for (int i = 0; i < 7; ++i) inputs.push_back(g.output(i));
    inputs.push_back(g.grad(1));
    inputs.push_back(g.grad(6));
    Node* node = add_op(g.graph(), "BlockLSTMGrad" + version, inputs,
                        {{"use_peephole", AttrValue(g.attr<bool>("use_peephole"))}});
    for (int i = 0; i < node->num_outputs(); ++i) g.set(i + 1, node->output(i));
  };
}

// --- Rows. ---

const char* const kLstmInputs = "x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T";
const char* const kLstmStates = "i: T, cs: T, f: T, o: T, ci: T, co: T";

void add_lstm_cell(OpTable& ops) {
  ops.add({.name = "LSTMBlockCell",
           .signature = str_cat(kLstmInputs, " -> ", kLstmStates, ", h: T"),
           .attrs = "forget_bias: float = 1.0; cell_clip: float = 3.0; use_peephole: bool = false; T: type",
           .types = kLstmTypes,
           .shape = cell_shape,
           .kernels = {TUTTI_CPU(cpu::lstm_cell_kernel())}});
  ops.add({.name = "LSTMBlockCellGrad",
           .signature = str_cat(kLstmInputs, ", ", kLstmStates,
                                ", cs_grad: T, h_grad: T -> cs_prev_grad: T, dicfo: T, wci_grad: T, wcf_grad: T, "
                                "wco_grad: T"),
           .attrs = "use_peephole: bool; T: type",
           .types = kLstmTypes,
           .shape = lstm_cell_grad_shape,
           .kernels = {TUTTI_CPU(cpu::lstm_cell_grad_kernel())}});
}

void add_lstm_sequence(OpTable& ops, const std::string& version, const std::string& forget_bias, float clip,
                       cpu::GateOrder order) {
  const std::string inputs = str_cat("seq_len_max: int64, ", kLstmInputs);
  ops.add({.name = "BlockLSTM" + version,
           .signature = str_cat(inputs, " -> ", kLstmStates, ", h: T"),
           .attrs = str_cat(forget_bias, "cell_clip: float = ", clip, ".0; use_peephole: bool = false; T: type"),
           .types = kLstmTypes,
           .shape = lstm_sequence_shape,
           .grad = lstm_sequence_grad(version),
           .kernels = {TUTTI_CPU(cpu::lstm_sequence_kernel(order))}});
  ops.add({.name = "BlockLSTMGrad" + version,
           .signature = str_cat(inputs, ", ", kLstmStates,
                                ", h: T, cs_grad: T, h_grad: T -> x_grad: T, cs_prev_grad: T, h_prev_grad: T, "
                                "w_grad: T, wci_grad: T, wcf_grad: T, wco_grad: T, b_grad: T"),
           .attrs = "use_peephole: bool; T: type",
           .types = kLstmTypes,
           .shape = lstm_sequence_grad_shape,
           .kernels = {TUTTI_CPU(cpu::lstm_sequence_grad_kernel(order))}});
}

void add_gru_cell(OpTable& ops) {
  const std::string inputs = "x: T, h_prev: T, w_ru: T, w_c: T, b_ru: T, b_c: T";
  ops.add({.name = "GRUBlockCell",
           .signature = inputs + " -> r: T, u: T, c: T, h: T",
           .attrs = "T: type",
           .types = DTypeSet{DType::kFloat},
           .shape = cell_shape,
           .kernels = {TUTTI_CPU(kernel_from(cpu::gru_cell))}});
  ops.add({.name = "GRUBlockCellGrad",
           .signature = inputs + ", r: T, u: T, c: T, d_h: T -> d_x: T, d_h_prev: T, d_c_bar: T, d_r_bar_u_bar: T",
           .attrs = "T: type",
           .types = DTypeSet{DType::kFloat},
           .shape = gru_cell_grad_shape,
           .kernels = {TUTTI_CPU(kernel_from(cpu::gru_cell_grad))}});
}

}  // namespace

void register_recurrent_ops(OpTable& ops) {
  add_lstm_cell(ops);
  add_lstm_sequence(ops, "", "forget_bias: float = 1.0; ", 3, cpu::kInputCellForgetOutput);
  add_lstm_sequence(ops, "V2", "", 0, cpu::kInputForgetCellOutput);
  add_gru_cell(ops);
}

}  // namespace tutti
