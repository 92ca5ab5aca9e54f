#include "tutti/ops/internal/segment_grads.h"

#include <string>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/array_grads.h"
#include "tutti/ops/internal/grad_util.h"
#include "tutti/ops/math.h"

namespace tutti::internal {

namespace {

// `mask`, with the shape of the ids, as wide as rows are: ones behind its dimensions.
Output beside_rows(Output mask, Output rows) {
  Graph& graph = mask.graph();
  Output behind = op1("Sub", {rank(rows), rank(mask)});
  Output one = constant(graph, 1, DType::kInt32);
  return reshape(mask, concat({shape_of(mask), fill(Ints(reshape(behind, {1})), one)}, 0));
}

// Rows of one value for each segment, dealt out to where the ids say. Of unsorted ones, rows whose id is negative were
// dropped: they get zeros.
class Dealt {
 public:
  Dealt(GradContext& c, bool sorted) : c_(c), ids_(c.input(1)), sorted_(sorted) {
    if (sorted_) {
      places_ = ids_;
    } else {
      Output zero = constant(c.graph(), std::int64_t{0}, ids_.dtype());
      places_ = op1("Maximum", {ids_, zero});
      kept_ = op1("GreaterEqual", {ids_, zero});
    }
  }

  Output rows_of(Output values) const {
    Output rows = gather(values, places_);
    return sorted_ ? rows : op1("SelectV2", {beside_rows(kept_, rows), rows, zeros_like(rows)});
  }
  // Without the zeros.
  Output any_rows_of(Output values) const { return gather(values, places_); }
  Output joined(const std::string& op, Output rows) const {
    return sorted_ ? op1("Segment" + op, {rows, ids_}) : op1("UnsortedSegment" + op, {rows, ids_, c_.input(2)});
  }
  Output only_kept(Output mask) const { return sorted_ ? mask : op1("LogicalAnd", {mask, beside_rows(kept_, mask)}); }

 private:
  GradContext& c_;
  Output ids_, places_, kept_;
  bool sorted_;
};

// Equal extremes share the gradient.
void extreme_grad(GradContext& c, bool sorted) {
  const Dealt dealt(c, sorted);
  Output x = c.input(0);
  Output selected = dealt.only_kept(equal(x, dealt.rows_of(c.output(0))));
  Output count = dealt.joined("Sum", cast(selected, x.dtype()));
  Output shares = dealt.rows_of(div(c.grad(), count));
  c.set(0, op1("SelectV2", {selected, shares, zeros_like(shares)}));
}

// The product divided by the element; where that is 0, the product of the others: 0 where another is 0 too.
void product_grad(GradContext& c, bool sorted) {
  const Dealt dealt(c, sorted);
  Output x = c.input(0);
  Output is_zero = equal(x, zeros_like(x));
  Output zeros = dealt.joined("Sum", cast(is_zero, DType::kInt32));
  Output several = greater(zeros, constant(c.graph(), 1, DType::kInt32));
  Output grad = op1("SelectV2", {several, zeros_like(c.grad()), c.grad()});
  Output nonzero = op1("SelectV2", {is_zero, ones_like(x), x});
  Output others = dealt.any_rows_of(dealt.joined("Prod", nonzero));
  Output quotient = div(dealt.any_rows_of(c.output(0)), nonzero);
  c.set(0, mul(dealt.rows_of(grad), op1("SelectV2", {is_zero, others, quotient})));
}

}  // namespace

void segment_mean_grad(GradContext& c) {
  Output x = c.input(0), ids = c.input(1);
  Output ones = op1("Fill", {shape_of(ids), constant(c.graph(), 1.0, c.grad().dtype())});
  Output counts = op1("SegmentSum", {beside_rows(ones, x), ids});
  c.set(0, gather(div(c.grad(), counts), ids));
}

void segment_prod_grad(GradContext& c) { product_grad(c, true); }
void segment_extreme_grad(GradContext& c) { extreme_grad(c, true); }
void unsorted_segment_prod_grad(GradContext& c) { product_grad(c, false); }
void unsorted_segment_extreme_grad(GradContext& c) { extreme_grad(c, false); }

GradFn sparse_segment_grad(const char* grad_op) {
  return [op = std::string(grad_op)](GradContext& c) {
    Output shape = shape_value(c.input(0));
    Output rows = strided_slice(shape, {0}, {1}, {1}, {.shrink_axis_mask = 1});
    if (!c.attr<bool>("sparse_gradient")) {
      c.set(0, op1(op, {c.grad(), c.input(1), c.input(2), rows}));
      return;
    }
    Node* node = add_op(c.graph(), op + "V2", {c.grad(), c.input(1), c.input(2), rows});
    c.set(0, IndexedSlices{node->output(0), node->output(1), shape});
  };
}

}  // namespace tutti::internal
