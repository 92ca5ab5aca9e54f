// Fusions, where nothing else needs what lies between.
//
// Products: MatMul -> BiasAdd (or the addition of a vector) -> activation becomes one _FusedMatMul. MatMul -> Add to
// what a v1 loop hands on, as the gradient of a matrix that stays the same in the loop has it, becomes one _MatMulAdd.
//
// Convolutions: Conv2D -> BiasAdd becomes one _FusedConv2D; another BiasAdd -> activation one _FusedBiasAdd;
// MaxPoolGrad -> ReluGrad of the pooled values, as the gradient of Relu -> MaxPool has it, one _MaxPoolReluGrad, which
// also adds up what a BiasAddGrad would. Relu -> MaxPool becomes MaxPool -> Relu, of fewer values.
//
// Element-wise chains: a tree of fusable nodes, each read by the next alone, becomes one _FusedElementwise, which runs
// block by block in the cache. Only where every operand provably has the shape of the result or is a scalar, so
// that no broadcasting is left. Shapes are compared by class: values whose shapes must be equal in every step are of
// one class, also where dimensions are open.

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tutti/graph/internal/purity.h"
#include "tutti/graph/passes/passes.h"

namespace tutti {
namespace {

constexpr std::size_t kMaxSteps = 24;   // of one fused chain
constexpr std::size_t kMaxInputs = 12;  // likewise: more would not stay in the first-level cache

// The nodes that `_class`, or a variable or handle, puts together with others that ask for another device. Only
// placement knows where they go: one may have to be elsewhere than its reader, which asks for the same, or give its
// device to those that name it.
class Torn {
 public:
  explicit Torn(const Graph& graph) {
    const std::vector<Node*> nodes = graph.nodes();
    for (const Node* node : nodes) {
      const AttrValue* attr = node->find_attr("_class");
      const auto* classes = attr == nullptr ? nullptr : attr->get<std::vector<std::string>>();
      if (classes == nullptr) continue;
      for (std::string_view entry : *classes) {
        if (entry.starts_with(kColocationPrefix)) join(node->name(), entry.substr(kColocationPrefix.size()));
      }
    }
    if (parent_.empty()) return;
    for (const Node* node : nodes) join_state(*node);
    std::unordered_map<std::string_view, std::string_view> wishes;  // by group
    std::unordered_set<std::string_view> torn;
    const auto is_member = [this](const Node* node) { return parent_.contains(node->name()); };
    for (const Node* node : nodes) {
      if (!is_member(node)) continue;
      const auto [wish, is_new] = wishes.try_emplace(group_of(node->name()), node->requested_device());
      if (!is_new && wish->second != node->requested_device()) torn.insert(wish->first);
    }
    for (const Node* node : nodes) {
      if (is_member(node) && torn.contains(group_of(node->name()))) nodes_.insert(node);
    }
    parent_.clear();
  }
  bool contains(const Node* node) const { return nodes_.contains(node); }

 private:
  static constexpr std::string_view kColocationPrefix = "loc:@";

  std::string_view group_of(std::string_view name) {
    parent_.try_emplace(name, name);
    while (parent_.at(name) != name) {
      std::string_view& parent = parent_.at(name);
      parent = parent_.at(parent);  // halves the path
      name = parent;
    }
    return name;
  }
  void join(std::string_view a, std::string_view b) { parent_[group_of(a)] = group_of(b); }
  // As placement does.
  void join_state(const Node& node) {
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Node* source = node.input(static_cast<int>(i)).node;
      if (source != nullptr && shares_state(*source, node, static_cast<int>(i))) join(node.name(), source->name());
    }
  }

  std::unordered_map<std::string_view, std::string_view> parent_;  // disjoint sets of names, while they are built
  std::unordered_set<const Node*> nodes_;
};

// Who reads what, kept while nodes are replaced.
class Uses {
 public:
  explicit Uses(const FunctionBody& body) : torn_(*body.graph) {
    for (const Node* target : body.targets) followers_[target] += 1;
    for (Node* node : body.graph->nodes()) {
      for (const Output& input : node->inputs()) readers_[input.node].push_back(node);
      for (Node* before : node->control_inputs()) followers_[before] += 1;
    }
  }
  // The node that alone reads output 0 of `node`, once; null when there is none, more, anything else waits for it, or
  // they are not meant for the same device, as far as that is known.
  Node* only_reader(const Node* node) const {
    auto it = readers_.find(node);
    if (it == readers_.end() || it->second.size() != 1 || node->num_outputs() != 1 || followers_.contains(node))
      return nullptr;
    Node* reader = it->second.front();
    if (torn_.contains(node) || torn_.contains(reader)) return nullptr;
    return reader->requested_device() == node->requested_device() ? reader : nullptr;
  }
  // All that read `node`; none when anything else waits for it or they are not meant for the same device.
  std::vector<Node*> readers(const Node* node) const {
    auto it = readers_.find(node);
    if (it == readers_.end() || followers_.contains(node) || torn_.contains(node)) return {};
    for (const Node* reader : it->second) {
      if (torn_.contains(reader) || reader->requested_device() != node->requested_device()) return {};
    }
    return it->second;
  }

 private:
  std::unordered_map<const Node*, std::vector<Node*>> readers_;
  std::unordered_map<const Node*, int> followers_;
  const Torn torn_;
};

std::vector<Node*> control_inputs_of(const std::vector<Node*>& nodes) {
  std::set<Node*> seen;
  std::vector<Node*> all;
  for (const Node* node : nodes) {
    for (Node* before : node->control_inputs()) {
      if (seen.insert(before).second) all.push_back(before);
    }
  }
  return all;
}

// Puts fused nodes in the place of others. Uses are moved and nodes removed in one sweep at the end, so that a pass
// is linear in the graph.
class Replacements {
 public:
  explicit Replacements(FunctionBody& body) : body_(body), graph_(*body.graph) {}

  // A node in the place of the last of `replaced`, which are listed sources first.
  Status add(const std::vector<Node*>& replaced, NodeSpec spec) {
    Node& last = *replaced.back();
    spec.name = graph_.unique_name(str_cat(last.name(), "/fused"));
    spec.device = last.requested_device();
    spec.control_inputs = control_inputs_of(replaced);
    if (const AttrValue* colocation = last.find_attr("_class")) spec.attrs["_class"] = *colocation;
    TUTTI_ASSIGN_OR_RETURN(Node * fused, graph_.add_exact(std::move(spec)));
    fused_[&last] = Output(fused, 0);
    gone_.insert(gone_.end(), replaced.begin(), replaced.end());
    return {};
  }
  // A value that is already there, in the place of what `replaced` gives. REQUIRES: `replaced` waits for no other node.
  void replace(Node* replaced, Output value) {
    fused_[replaced] = value;
    gone_.push_back(replaced);
  }

  // What reads or waits for a replaced node, by an edge or as a target, reads or waits for the new one.
  void finish() {
    if (gone_.empty()) return;
    graph_.rewrite_inputs([this](Output value) {
      const auto it = fused_.find(value.node);
      return it == fused_.end() ? value : it->second;  // none of them has more than one output
    });
    for (Node* node : graph_.nodes()) {
      std::vector<Node*> before(node->control_inputs().begin(), node->control_inputs().end());
      if (move_all(before)) graph_.set_control_inputs(*node, std::move(before));
    }
    move_all(body_.targets);
    for (Node* node : gone_) graph_.remove(*node);
  }

 private:
  Node* current(Node* node) const {
    auto it = fused_.find(node);
    return it == fused_.end() ? node : it->second.node;
  }
  // Whether any of them moved.
  bool move_all(std::vector<Node*>& nodes) const {
    bool moved = false;
    for (Node*& node : nodes) {
      Node* now = current(node);
      moved |= now != node;
      node = now;
    }
    return moved;
  }

  FunctionBody& body_;
  Graph& graph_;
  std::unordered_map<const Node*, Output> fused_;
  std::vector<Node*> gone_;
};

// ---- Products ----

// `node`, the only reader of `product`, adds a vector to every row of it: the vector.
std::optional<Output> bias_of(const Node& node, const Node& product) {
  const std::string& op = node.op_name();
  if (op != "BiasAdd" && op != "BiasAddV1" && op != "Add" && op != "AddV2") return std::nullopt;
  const bool product_first = node.input(0).node == &product;
  if (!product_first && (op == "BiasAdd" || op == "BiasAddV1")) return std::nullopt;
  const Output bias = node.input(product_first ? 1 : 0);
  const PartialShape& row = bias.shape();
  const PartialShape& rows = product.output_shape(0);
  if (op == "BiasAdd" || op == "BiasAddV1") return bias;
  const bool fits = row.rank() == 1 && row.dim(0) > 1 && rows.rank() == 2 && rows.dim(1) == row.dim(0);
  return fits ? std::optional(bias) : std::nullopt;
}

AttrMap attrs_taken_by(const OpDef& op, const Node& from) {
  AttrMap attrs;
  for (const auto& [name, value] : from.attrs()) {
    if (op.find_attr(name) != nullptr) attrs.emplace(name, value);
  }
  return attrs;
}

// The products of matrices of a type that `op` takes, each with the one node that reads it.
std::vector<std::pair<Node*, Node*>> products_with_readers(const Graph& graph, const Uses& uses, const OpDef& op) {
  const DTypeSet types = op.find_attr("T")->allowed_types;
  std::vector<std::pair<Node*, Node*>> found;
  for (Node* product : graph.nodes()) {
    if (product->op_name() != "MatMul" || !types.contains(product->attr<DType>("T"))) continue;
    if (Node* reader = uses.only_reader(product)) found.emplace_back(product, reader);
  }
  return found;
}

Status fuse_products(FunctionBody& body) {
  Graph& graph = *body.graph;
  const OpDef* fused_op = graph.ops().find("_FusedMatMul");
  if (fused_op == nullptr) return {};
  const std::vector<std::string>& activations = fused_op->find_attr("activation")->allowed_strings;
  const Uses uses(body);
  Replacements replacements(body);
  for (auto [product, adder] : products_with_readers(graph, uses, *fused_op)) {
    if (adder->inputs().size() != 2) continue;
    const std::optional<Output> bias = bias_of(*adder, *product);
    if (!bias || bias->node == product) continue;
    std::vector<Node*> replaced{product, adder};
    std::string activation;
    Node* activator = uses.only_reader(adder);
    if (activator != nullptr && std::count(activations.begin(), activations.end(), activator->op_name()) > 0) {
      activation = activator->op_name();
      replaced.push_back(activator);
    }
    NodeSpec spec{.op = "_FusedMatMul",
                  .inputs = {product->input(0), product->input(1), *bias},
                  .attrs = {{"T", product->attr<DType>("T")},
                            {"transpose_a", product->attr<bool>("transpose_a")},
                            {"transpose_b", product->attr<bool>("transpose_b")},
                            {"activation", activation}}};
    TUTTI_RETURN_IF_ERROR(replacements.add(replaced, std::move(spec)));
  }
  replacements.finish();
  return {};
}

Status fuse_accumulations(FunctionBody& body) {
  Graph& graph = *body.graph;
  const OpDef* fused_op = graph.ops().find("_MatMulAdd");
  if (fused_op == nullptr) return {};
  const Uses uses(body);
  Replacements replacements(body);
  for (auto [product, adder] : products_with_readers(graph, uses, *fused_op)) {
    if (adder->op_name() != "Add" && adder->op_name() != "AddV2") continue;
    const Output sum = adder->input(adder->input(0).node == product ? 1 : 0);
    if (sum.node->op_name() != "Switch" || sum.node->input(1).node->op_name() != "LoopCond") continue;
    TUTTI_RETURN_IF_ERROR(replacements.add({product, adder}, {.op = fused_op->name,
                                                              .inputs = {product->input(0), product->input(1), sum},
                                                              .attrs = attrs_taken_by(*fused_op, *product)}));
  }
  replacements.finish();
  return {};
}

// ---- Convolutions ----

// `node` in the place of itself and `second`, its only reader, as `op` with these inputs.
Status fuse_pair(Replacements& replacements, const OpDef& op, Node* node, Node* second, std::vector<Output> inputs) {
  return replacements.add({node, second},
                          {.op = op.name, .inputs = std::move(inputs), .attrs = attrs_taken_by(op, *node)});
}

bool is_channels_last(const Node& node) {
  const AttrValue* format = node.find_attr("data_format");
  return format == nullptr || *format == AttrValue("NHWC");
}

Status fuse_convolutions(FunctionBody& body) {
  Graph& graph = *body.graph;
  const OpDef* biased = graph.ops().find("_FusedConv2D");
  const OpDef* unpooled = graph.ops().find("_MaxPoolReluGrad");
  const auto takes = [](const OpDef* op, const Node& node) {
    return op != nullptr && op->find_attr("T")->allowed_types.contains(node.attr<DType>("T"));
  };
  const Uses uses(body);
  Replacements replacements(body);
  for (Node* node : graph.nodes()) {
    Node* reader = uses.only_reader(node);
    if (reader == nullptr) continue;
    if (node->op_name() == "Conv2D" && takes(biased, *node)) {
      const bool adds = reader->op_name() == "BiasAdd" || reader->op_name() == "BiasAddV1";
      if (!adds || reader->input(0).node != node || !is_channels_last(*node) || !is_channels_last(*reader)) continue;
      TUTTI_RETURN_IF_ERROR(
          fuse_pair(replacements, *biased, node, reader, {node->input(0), node->input(1), reader->input(1)}));
    } else if (node->op_name() == "MaxPoolGrad" && takes(unpooled, *node)) {
      const bool masks = reader->op_name() == "ReluGrad" && reader->input(0).node == node;
      if (!masks || !(reader->input(1) == node->input(0)) || !is_channels_last(*node)) continue;
      TUTTI_RETURN_IF_ERROR(
          fuse_pair(replacements, *unpooled, node, reader, {node->input(0), node->input(1), node->input(2)}));
    }
  }
  replacements.finish();
  return {};
}

// Whether fewer values come out, as the windows are further apart than pixels (or channels).
bool is_strided(const Node& pool) {
  const auto strides = pool.attr<std::vector<std::int64_t>>("strides");
  return std::ranges::any_of(strides, [](std::int64_t stride) { return stride > 1; });
}

// The pool that alone reads `relu`, but for its gradient as far as that asks for positive maxima only; else null.
Node* pool_after(const Node* relu, const Uses& uses) {
  Node* pool = nullptr;
  for (Node* reader : uses.readers(relu)) {
    if (reader->op_name() == "_MaxPoolReluGrad") {
      const auto inputs = reader->inputs();
      if (std::ranges::count(inputs, relu, &Output::node) != 1 || inputs[0].node != relu) return nullptr;
    } else if (reader->op_name() == "MaxPool" && pool == nullptr) {
      pool = reader;
    } else {
      return nullptr;
    }
  }
  return pool;
}

// Relu -> MaxPool the other way round, where fewer values come out: Relu leaves the same of the largest value as of
// each.
Status pool_before_relu(FunctionBody& body) {
  Graph& graph = *body.graph;
  const Uses uses(body);
  Replacements replacements(body);
  for (Node* relu : graph.nodes()) {
    if (relu->op_name() != "Relu" || !relu->control_inputs().empty()) continue;
    // What adds a bias, or works element by element, takes the Relu along for nothing. Pools are replaced themselves.
    // Of a variable each reader would have the value of another moment.
    const Output before = relu->input(0);
    const std::string& source = before.node->op_name();
    if (source == "MaxPool" || source == "BiasAdd" || before.node->op().has(kElementwise)) continue;
    if (!is_pure(*before.node) || before.node->requested_device() != relu->requested_device()) continue;
    Node* pool = pool_after(relu, uses);
    if (pool == nullptr || !pool->control_inputs().empty() || !is_strided(*pool)) continue;
    TUTTI_ASSIGN_OR_RETURN(Node * pooled,
                           graph.add_exact({.op = pool->op_name(),
                                            .name = graph.unique_name(str_cat(pool->name(), "/before_relu")),
                                            .inputs = {before},
                                            .attrs = pool->attrs(),
                                            .device = pool->requested_device()}));
    TUTTI_RETURN_IF_ERROR(
        replacements.add({pool}, {.op = relu->op_name(), .inputs = {Output(pooled, 0)}, .attrs = relu->attrs()}));
    replacements.replace(relu, before);
  }
  replacements.finish();
  return {};
}

// The gradients of biases that _MaxPoolReluGrad adds up beside its work.
void share_sums(FunctionBody& body) {
  const Torn torn(*body.graph);
  Replacements replacements(body);
  for (Node* adder : body.graph->nodes()) {
    if (adder->op_name() != "BiasAddGrad" || !adder->control_inputs().empty()) continue;
    const Output gradient = adder->input(0);
    Node* source = gradient.node;
    if (source->op_name() != "_MaxPoolReluGrad" || gradient.index != 0 || !is_channels_last(*adder)) continue;
    if (torn.contains(adder) || torn.contains(source) || adder->requested_device() != source->requested_device()) {
      continue;
    }
    replacements.replace(adder, Output(source, 1));
  }
  replacements.finish();
}

// Those that no convolution has taken.
Status fuse_biases(FunctionBody& body) {
  Graph& graph = *body.graph;
  const OpDef* fused = graph.ops().find("_FusedBiasAdd");
  if (fused == nullptr) return {};
  const std::vector<std::string>& activations = fused->find_attr("activation")->allowed_strings;
  const Uses uses(body);
  Replacements replacements(body);
  for (Node* adder : graph.nodes()) {
    if (adder->op_name() != "BiasAdd" || !fused->find_attr("T")->allowed_types.contains(adder->attr<DType>("T")))
      continue;
    Node* activator = uses.only_reader(adder);
    if (activator == nullptr || std::count(activations.begin(), activations.end(), activator->op_name()) == 0) continue;
    AttrMap attrs = attrs_taken_by(*fused, *adder);
    attrs["activation"] = activator->op_name();
    TUTTI_RETURN_IF_ERROR(
        replacements.add({adder, activator},
                         {.op = fused->name, .inputs = {adder->input(0), adder->input(1)}, .attrs = std::move(attrs)}));
  }
  replacements.finish();
  return {};
}

// ---- Element-wise chains ----

// Numbers for shapes: equal numbers, equal shapes, in every step.
class ShapeClasses {
 public:
  static constexpr int kScalar = 0;

  int of(const Output& value) {
    auto known = classes_.find({value.node, value.index});
    if (known != classes_.end()) return known->second;
    const int result = compute(value);
    classes_.emplace(std::pair(value.node, value.index), result);
    return result;
  }

 private:
  // Producers come first in topological order, so the look-up of an input ends at once.
  int compute(const Output& value) {
    const PartialShape& shape = value.shape();
    if (shape.fully_known()) {
      if (shape.rank() == 0) return kScalar;
      return by_shape_.emplace(shape.to_string(), static_cast<int>(next_++)).first->second;
    }
    if (!value.node->op().has(kElementwise) || value.index != 0) return next_++;
    int result = kScalar;
    for (const Output& input : value.node->inputs()) {
      auto known = classes_.find({input.node, input.index});
      const int of_input = known != classes_.end() ? known->second : next_++;
      if (of_input == kScalar) continue;
      if (result != kScalar && result != of_input) return next_++;
      result = of_input;
    }
    return result == kScalar ? next_++ : result;
  }

  std::map<std::pair<const Node*, int>, int> classes_;
  std::map<std::string, int> by_shape_;
  int next_ = 1;
};

class ChainFuser {
 public:
  ChainFuser(FunctionBody& body, DTypeSet types, const std::vector<Node*>& order)
      : types_(types), uses_(body), replacements_(body) {
    for (const Node* node : order) {
      for (int i = 0; i < node->num_outputs(); ++i) shapes_.of({const_cast<Node*>(node), i});
    }
  }

  // The chain that ends in `root`, sources first; of one node when there is nothing to fuse.
  std::vector<Node*> chain_of(Node* root) {
    std::vector<Node*> chain;
    std::set<Output, OutputLess> inputs;
    std::vector<Node*> open{root};
    while (!open.empty()) {
      Node* node = open.back();
      open.pop_back();
      chain.push_back(node);
      for (const Output& input : node->inputs()) {
        const bool joins = fusable(input.node) && uses_.only_reader(input.node) == node &&
                           shapes_.of(input) == shapes_.of(root->output(0)) && chain.size() + open.size() < kMaxSteps &&
                           inputs.size() + 2 < kMaxInputs;
        if (joins) {
          open.push_back(input.node);
        } else {
          inputs.insert(input);
        }
      }
    }
    std::reverse(chain.begin(), chain.end());
    return chain;
  }

  bool fusable(const Node* node) {
    if (!node->op().has(kFusable) || node->num_outputs() != 1 || !node->op().has(kElementwise)) return false;
    const AttrValue* type = node->find_attr("T");
    if (type == nullptr || !types_.contains(*type->get<DType>()) ||
        node->output_types()[0].dtype != *type->get<DType>())
      return false;
    const int own = shapes_.of({const_cast<Node*>(node), 0});
    return std::all_of(node->inputs().begin(), node->inputs().end(), [&](const Output& input) {
      const int of_input = shapes_.of(input);
      return !input.node->output_types()[input.index].is_ref && (of_input == own || of_input == ShapeClasses::kScalar);
    });
  }

  void finish() { replacements_.finish(); }

  Status fuse(const std::vector<Node*>& chain) {
    std::map<const Node*, std::int64_t> step_of;
    std::vector<Output> inputs;
    std::vector<std::string> ops;
    std::vector<std::int64_t> operands;
    for (const Node* node : chain) {
      for (const Output& input : node->inputs()) {
        auto step = step_of.find(input.node);
        if (step != step_of.end()) {
          operands.push_back(-1 - step->second);
          continue;
        }
        auto known = std::find(inputs.begin(), inputs.end(), input);
        operands.push_back(known - inputs.begin());
        if (known == inputs.end()) inputs.push_back(input);
      }
      if (node->inputs().size() == 1) operands.push_back(kNoOperand);
      step_of[node] = static_cast<std::int64_t>(ops.size());
      ops.push_back(node->op_name());
    }
    NodeSpec spec{.op = "_FusedElementwise",
                  .inputs = inputs,
                  .attrs = {{"T", chain.back()->output_types()[0].dtype},
                            {"N", static_cast<std::int64_t>(inputs.size())},
                            {"ops", std::move(ops)},
                            {"operands", std::move(operands)}}};
    return replacements_.add(chain, std::move(spec));
  }

 private:
  struct OutputLess {
    bool operator()(const Output& a, const Output& b) const {
      return std::pair(a.node->id(), a.index) < std::pair(b.node->id(), b.index);
    }
  };
  static constexpr std::int64_t kNoOperand = INT64_MIN;

  const DTypeSet types_;
  const Uses uses_;
  Replacements replacements_;
  ShapeClasses shapes_;
};

Status fuse_chains(FunctionBody& body) {
  Graph& graph = *body.graph;
  const OpDef* fused_op = graph.ops().find("_FusedElementwise");
  if (fused_op == nullptr) return {};
  TUTTI_ASSIGN_OR_RETURN(std::vector<Node*> order, graph.topological_order());
  ChainFuser fuser(body, fused_op->find_attr("T")->allowed_types, order);
  std::set<const Node*> gone;
  // From the end, so that a chain is found from its last node.
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (gone.contains(*it) || !fuser.fusable(*it)) continue;
    const std::vector<Node*> chain = fuser.chain_of(*it);
    if (chain.size() < 2) continue;
    gone.insert(chain.begin(), chain.end());
    TUTTI_RETURN_IF_ERROR(fuser.fuse(chain));
  }
  fuser.finish();
  return {};
}

}  // namespace

Status fuse(FunctionBody& body) {
  TUTTI_RETURN_IF_ERROR(fuse_products(body));
  TUTTI_RETURN_IF_ERROR(fuse_accumulations(body));
  TUTTI_RETURN_IF_ERROR(fuse_convolutions(body));
  TUTTI_RETURN_IF_ERROR(pool_before_relu(body));
  share_sums(body);
  TUTTI_RETURN_IF_ERROR(fuse_biases(body));
  return fuse_chains(body);
}

}  // namespace tutti
