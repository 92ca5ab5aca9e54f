#include <map>
#include <string>
#include <utility>

#include "tutti/graph/passes/passes.h"
#include "tutti/graph/reference_aliases.h"

namespace tutti {
namespace {

// What may lie in memory twice while its loop runs.
constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;

// Whether it is a matrix, and not too large: a product has something to say about what is none.
bool is_matrix(const Output& value) {
  const PartialShape& shape = value.shape();
  if (!shape.fully_known() || shape.rank() != 2) return false;
  const double bytes = static_cast<double>(shape.dim(0)) * static_cast<double>(shape.dim(1)) *
                       static_cast<double>(dtype_size(value.dtype()));
  return bytes <= static_cast<double>(kMostBytes);
}

// Products whose second operand every iteration of a v1 loop transposes anew: it comes in by a constant Enter. The
// operand is transposed before it enters, unless it is a reference variable, which the loop may change.
class Hoister {
 public:
  explicit Hoister(Graph& graph) : graph_(graph), aliases_(graph) {}

  Status run() {
    for (Node* node : graph_.nodes()) {
      if (node->op_name() != "MatMul" || !node->attr<bool>("transpose_b")) continue;
      Node& enter = *node->input(1).node;
      if (enter.op_name() != "Enter" || !enter.attr<bool>("is_constant")) continue;
      if (!is_matrix(enter.input(0)) || aliases_.contains(enter.input(0))) continue;
      TUTTI_ASSIGN_OR_RETURN(Node * turned, turned_enter(enter));
      TUTTI_RETURN_IF_ERROR(graph_.set_input(*node, 1, turned->output()));
      graph_.set_attr(*node, "transpose_b", false);
    }
    return {};
  }

 private:
  // The same Enter for the transposed value; one for all that read it.
  Result<Node*> turned_enter(Node& enter) {
    auto [known, is_new] = turned_.try_emplace(&enter, nullptr);
    if (!is_new) return known->second;
    const Output value = enter.input(0);
    // In the frame of the value: a node without any input would be in none.
    TUTTI_ASSIGN_OR_RETURN(Node * order,
                           add(enter, "order",
                               {.op = "Const",
                                .attrs = {{"dtype", DType::kInt32}, {"value", Tensor::vector<std::int32_t>({1, 0})}},
                                .control_inputs = {value.node}}));
    TUTTI_ASSIGN_OR_RETURN(Node * turned,
                           add(enter, "transposed",
                               {.op = "Transpose",
                                .inputs = {value, order->output()},
                                .attrs = {{"T", enter.attr<DType>("T")}, {"Tperm", DType::kInt32}},
                                .control_inputs = {enter.control_inputs().begin(), enter.control_inputs().end()}}));
    AttrMap attrs(enter.attrs().begin(), enter.attrs().end());
    TUTTI_ASSIGN_OR_RETURN(
        known->second,
        add(enter, "transposed_in", {.op = "Enter", .inputs = {turned->output()}, .attrs = std::move(attrs)}));
    return known->second;
  }

  Result<Node*> add(const Node& enter, const char* name, NodeSpec spec) {
    spec.name = graph_.unique_name(str_cat(enter.name(), "/", name));
    spec.device = enter.requested_device();
    return graph_.add_exact(std::move(spec));
  }

  Graph& graph_;
  const ReferenceAliases aliases_;
  std::map<const Node*, Node*> turned_;
};

}  // namespace

Status hoist(FunctionBody& body) { return Hoister(*body.graph).run(); }

}  // namespace tutti
