// The gradient of a v1 loop is a second loop, which goes through the iterations of the first from the last to the
// first.
//
// The forward loop gets more variables: a counter of its iterations, and for each value that the gradients of its body
// read, a list to which every iteration appends. (TensorFlow's clients use stacks, which are state. Lists are values:
// they need no order among nodes, and can be differentiated again.) The backward loop runs as often as the counter
// says, takes the values off the lists from the end, and carries
//   * for each variable, the gradient with respect to it at that point of the loop;
//   * for each invariant, the sum over the iterations.
// Invariants that gradients read enter the backward loop as such, as does what custom gradients read from around the
// loop; constants are made again.
//
// What is in a branch of a conditional is put on its list, and taken off it, in iterations that took the branch.
//
// Where a loop is in another one, the counter and the lists of the inner one are values that gradients of the outer
// body read, and go onto lists themselves.
#include "tutti/graph/internal/loop_gradient.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "tutti/graph/internal/gradient_nodes.h"
#include "tutti/graph/internal/loop_writer.h"

namespace tutti::internal {
namespace {

// A shape as list ops take it: -1 for what is open, the scalar -1 when even the rank is.
Tensor list_element_shape(const PartialShape& shape) {
  if (!shape.has_rank()) return Tensor::scalar(std::int32_t{-1});
  std::vector<std::int32_t> dims;
  for (std::int64_t dim : shape.dims()) {
    dims.push_back(dim > std::numeric_limits<std::int32_t>::max() ? -1 : static_cast<std::int32_t>(dim));
  }
  return Tensor::vector<std::int32_t>(dims);
}

class LoopGradient {
 public:
  LoopGradient(GradientCall& call, ReverseAccumulation& region, const Loop& loop)
      : call_(call),
        region_(region),
        loop_(loop),
        num_variables_(static_cast<int>(loop.variables.size())),
        forward_(call, loop),
        backward_(call, loop, call.graph.unique_name("frame")) {
    for (const LoopVariable& variable : loop.variables) xs_.push_back(variable.choice->output(1));
    for (Node* invariant : loop.invariants) xs_.push_back(invariant->output());
  }

  std::vector<Gradient> run(const std::vector<Gradient>& exit_grads, const std::vector<bool>& needed) {
    choose_inputs(exit_grads, needed);
    std::vector<Gradient> gradients(xs_.size());
    if (carried_.empty()) return gradients;
    add_counters();
    add_carried(exit_grads);
    std::vector<Output> chosen;
    for (int i : carried_) chosen.push_back(xs_[i]);
    for (int i : summed_) chosen.push_back(xs_[i]);
    ReverseAccumulation body(call_, chosen, xs_, loop_.frame, [this](Output value) { return read(value); });
    body.run(ys_, grad_ys_);
    for (std::size_t k = 0; k < carried_.size(); ++k) {
      const Output x = xs_[carried_[k]];
      Output gradient = body.dense(body.gradient_of(x));
      if (!gradient) gradient = body.zeros(x, x.dtype(), pivot());
      backward_.close(*grad_ys_[k].node, gradient);
      gradients[carried_[k]] = leave(*grad_ys_[k].node, carried_[k]);
    }
    for (int i : summed_) gradients[i] = sum_over_iterations(i, body.dense(body.gradient_of(xs_[i])));
    return gradients;
  }

 private:
  // Of the inputs, those between the gradients that come in and those that are asked for.
  void choose_inputs(const std::vector<Gradient>& exit_grads, const std::vector<bool>& needed) {
    std::vector<Output> nexts(xs_.size());
    std::vector<bool> arrives(xs_.size(), false);
    for (int i = 0; i < num_variables_; ++i) {
      arrives[i] = static_cast<bool>(exit_grads[i]);
      if (carries_gradient(xs_[i].dtype())) nexts[i] = loop_.variables[i].next->input(0);
    }
    ReverseAccumulation search(call_, xs_, xs_, loop_.frame, nullptr);
    const std::vector<bool> chosen = search.between(xs_, nexts, arrives, needed);
    for (int i = 0; i < static_cast<int>(xs_.size()); ++i) {
      if (!chosen[i]) continue;
      if (i < num_variables_ && xs_[i].dtype() == DType::kResource) {
        throw_error(unimplemented("gradients: ", loop_.variables[i].enter->describe(),
                                  " is a variable of a v1 loop, and a resource that may change inside of it"));
      }
      (i < num_variables_ ? carried_ : summed_).push_back(i);
    }
  }

  // Lives in every iteration of the backward loop.
  Output pivot() { return Output(left_, 1); }
  // Lives, in the region around the forward loop, when that is entered.
  Node& entry() { return call_.gate(loop_.inputs[0]); }

  void add_counters() {
    Node& count = forward_.open(forward_.add_const(Tensor::scalar(std::int64_t{0}), entry()));
    Output one = forward_.add_const(Tensor::scalar(std::int64_t{1}), call_.gate(count.output(1)));
    forward_.close(count, forward_.add("AddV2", {count.output(1), one}).output());

    Node& left = backward_.begin(region_.here(forward_.leave(count)));
    Output zero = backward_.add_const(Tensor::scalar(std::int64_t{0}), left);
    backward_.decide(backward_.add("Greater", {left.output(), zero}).output());
    left_ = &backward_.choose(left);
    one = backward_.add_const(Tensor::scalar(std::int64_t{1}), call_.gate(pivot()));
    backward_.close(*left_, backward_.add("Sub", {left_->output(1), one}).output());
  }

  void add_carried(const std::vector<Gradient>& exit_grads) {
    std::vector<Output> given;
    for (const Gradient& gradient : exit_grads) {
      given.push_back(region_.dense(gradient));
      if (given.back()) anchor_ = given.back();
    }
    for (int i : carried_) {
      const LoopVariable& variable = loop_.variables[i];
      Output initial = given[i];
      if (!initial) {
        Output last = variable.exit != nullptr ? variable.exit->output() : forward_.leave(*variable.choice);
        initial = region_.zeros(last, last.dtype(), anchor_);
      }
      ys_.push_back(variable.next->input(0));
      grad_ys_.push_back(backward_.open(initial).output(1));
    }
  }

  Gradient sum_over_iterations(int i, Output gradient) {
    if (!gradient) return {};
    Node& sum = backward_.open(region_.zeros(loop_.inputs[i], gradient.dtype(), anchor_));
    backward_.close(sum, backward_.add("AddN", {sum.output(1), gradient}).output());
    return leave(sum, i);
  }

  Output leave(Node& choice, int i) {
    Output last = backward_.leave(choice);
    const Output input = loop_.inputs[i];
    if (input.dtype() != DType::kResource) call_.graph.set_output_shape(*last.node, 0, input.shape());
    return last;
  }

  // What the backward loop has for a value of the forward loop: the same, in the iteration that it goes back through.
  Output read(Output value) {
    if (!call_.control_flow->is_in(value, loop_.frame)) return read_from_outside(value);
    while (is_copy(value)) value = value.node->input(0);
    auto it = read_.find(value);
    if (it != read_.end()) return it->second;
    Output result;
    if (loop_role(*value.node) == LoopRole::kEnter && value.node->attr<bool>("is_constant")) {
      result = backward_.enter_constant(region_.here(value.node->input(0)));
    } else if (value.node->op_name() == "Const") {
      result = backward_.add_const(value.node->attr<Tensor>("value"), call_.gate(in_branch(branch_of(value))));
    } else {
      result = keep(value);
    }
    read_[value] = result;
    return result;
  }

  // Custom gradients may read what is around the loop.
  Output read_from_outside(Output value) {
    if (!call_.control_flow->encloses(call_.control_flow->frame_of(value), loop_.frame)) {
      throw_error(unimplemented("gradients: ", value.node->describe(),
                                ", which the gradient of something in the v1 loop \"", printable(loop_.name),
                                "\" reads, is inside of another loop"));
    }
    Output& result = read_[value];
    if (!result) result = backward_.enter_constant(region_.here(value));
    return result;
  }

  // What an Identity hands on need not be kept twice. (Of a variable it is a value, though, which may change later.)
  bool is_copy(Output value) const {
    if (value.node->op_name() != "Identity") return false;
    const Output original = value.node->input(0);
    return !original.node->output_types()[original.index].is_ref && branch_of(value) == branch_of(original);
  }

  const Branch* branch_of(Output value) const {
    const Branch* branch = call_.control_flow->branch_of(value);
    if (call_.control_flow->is_known(branch)) return branch;
    throw_error(unimplemented("gradients: ", value.node->describe(),
                              ", in a v1 loop, is under conditions that are not nested in one another"));
  }

  // Something that lives in the iterations that took the branch.
  Output in_branch(const Branch* branch) {
    if (branch == nullptr) return pivot();
    Output pred = read(branch->pred);
    return backward_.add("Switch", {pred, pred}).output(branch->side);
  }

  Output keep(Output value) {
    const Branch* branch = branch_of(value);
    const AttrMap dtype = {{"element_dtype", value.dtype()}};
    const Tensor shape = list_element_shape(value.shape());

    Output no_limit = forward_.add_const(Tensor::scalar(std::int32_t{-1}), entry());
    Output empty = forward_.add("EmptyTensorList", {forward_.add_const(shape, entry()), no_limit}, dtype).output();
    Node& kept = forward_.open(empty);
    forward_.close(kept, in_turn(forward_, branch, kept.output(1), [&](Output list) {
                     return forward_.add("TensorListPushBack", {list, value}, dtype).output();
                   }));

    Output popped;
    Node& left = backward_.open(region_.here(forward_.leave(kept)));
    Output element_shape = backward_.add_const(shape, call_.gate(pivot()));
    backward_.close(left, in_turn(backward_, branch, left.output(1), [&](Output list) {
                      Node& pop = backward_.add("TensorListPopBack", {list, element_shape}, dtype);
                      popped = pop.output(1);
                      return pop.output(0);
                    }));
    return popped;
  }

  // What `change` makes of a list in iterations that took the branch; the list as it is in others.
  template <typename Change>
  Output in_turn(LoopWriter& writer, const Branch* branch, Output list, Change change) {
    std::vector<const Branch*> nest;  // innermost first
    for (; branch != nullptr; branch = branch->outer) nest.push_back(branch);
    std::vector<Node*> choices;
    for (std::size_t k = nest.size(); k-- > 0;) {
      Output pred = &writer == &forward_ ? nest[k]->pred : read(nest[k]->pred);
      choices.push_back(&writer.add("Switch", {list, pred}));
      list = choices.back()->output(nest[k]->side);
    }
    list = change(list);
    for (const Branch* inner : nest) {
      Output sides[2] = {choices.back()->output(0), choices.back()->output(1)};
      sides[inner->side] = list;
      list = writer.add("Merge", {sides[0], sides[1]}).output();
      choices.pop_back();
    }
    return list;
  }

  GradientCall& call_;
  ReverseAccumulation& region_;
  const Loop& loop_;
  const int num_variables_;
  LoopWriter forward_;
  LoopWriter backward_;
  std::vector<Output> xs_;  // the inputs as the body sees them
  std::vector<int> carried_;
  std::vector<int> summed_;
  Node* left_ = nullptr;  // chooses whether iterations are left
  Output anchor_;         // a gradient, in the region around the backward loop, that comes in
  // By carried variable: what the body makes of it, and the gradient of that.
  std::vector<Output> ys_;
  std::vector<Output> grad_ys_;
  std::unordered_map<Output, Output, OutputHash> read_;
};

}  // namespace

std::vector<Gradient> loop_gradients(GradientCall& call, ReverseAccumulation& region, const Loop& loop,
                                     const std::vector<Gradient>& exit_grads, const std::vector<bool>& needed) {
  return LoopGradient(call, region, loop).run(exit_grads, needed);
}

}  // namespace tutti::internal
