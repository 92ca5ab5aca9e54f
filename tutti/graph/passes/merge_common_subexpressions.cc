#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "tutti/graph/internal/purity.h"
#include "tutti/graph/passes/passes.h"

namespace tutti {
namespace {

std::size_t mix(std::size_t hash, std::size_t more) {
  return hash ^ (more + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2));
}

std::size_t hash_bytes(const void* data, std::size_t size) {
  return std::hash<std::string_view>()(std::string_view(static_cast<const char*>(data), size));
}

// Equal tensors have equal hashes. Of large ones the ends suffice.
std::size_t hash_tensor(const Tensor& tensor) {
  constexpr std::size_t kEnd = 4096;
  std::size_t hash = mix(static_cast<std::size_t>(tensor.dtype()), static_cast<std::size_t>(tensor.num_elements()));
  if (tensor.num_elements() == 0) return hash;
  if (tensor.dtype() == DType::kString) {
    for (const std::string& text : tensor.flat<std::string>()) hash = mix(hash, std::hash<std::string>()(text));
    return hash;
  }
  if (is_object(tensor.dtype())) return hash;
  const std::size_t bytes = tensor.bytes();
  const char* data = static_cast<const char*>(tensor.raw());
  hash = mix(hash, hash_bytes(data, std::min(bytes, kEnd)));
  return bytes <= kEnd ? hash : mix(hash, hash_bytes(data + bytes - kEnd, kEnd));
}

std::size_t hash_attr(const AttrValue& value) {
  if (const auto* tensor = value.get<Tensor>()) return hash_tensor(*tensor);
  if (const auto* text = value.get<std::string>()) return std::hash<std::string>()(*text);
  if (value.kind() == "list(tensor)") return 0;
  // Empty lists are equal whatever they say they are lists of; all print as "[]".
  return std::hash<std::string>()(value.to_string());
}

// Annotations do not change what a node computes; where it must run does.
bool counts(std::string_view attr) { return !attr.starts_with('_') || attr == "_class"; }

bool less(const Output& a, const Output& b) {
  return a.node->id() != b.node->id() ? a.node->id() < b.node->id() : a.index < b.index;
}

// What two nodes must have in common.
struct Key {
  const Node* node;
  std::vector<Output> inputs;
  std::vector<Node*> controls;
  std::size_t hash = 0;
};

Key make_key(const Node& node) {
  Key key{&node, {node.inputs().begin(), node.inputs().end()}, {}, 0};
  key.controls.assign(node.control_inputs().begin(), node.control_inputs().end());
  if (node.op().has(kCommutative)) std::sort(key.inputs.begin(), key.inputs.end(), less);
  std::sort(key.controls.begin(), key.controls.end(), [](const Node* a, const Node* b) { return a->id() < b->id(); });
  std::size_t hash = std::hash<std::string>()(node.op_name());
  hash = mix(hash, std::hash<std::string>()(node.requested_device()));
  for (const Output& input : key.inputs) hash = mix(mix(hash, input.node->id()), input.index);
  for (const Node* before : key.controls) hash = mix(hash, before->id());
  for (const auto& [name, value] : node.attrs()) {
    if (counts(name)) hash = mix(mix(hash, std::hash<std::string>()(name)), hash_attr(value));
  }
  key.hash = hash;
  return key;
}

bool same_attrs(const AttrMap& a, const AttrMap& b) {
  auto skip = [](AttrMap::const_iterator it, const AttrMap& map) {
    while (it != map.end() && !counts(it->first)) ++it;
    return it;
  };
  auto x = skip(a.begin(), a);
  auto y = skip(b.begin(), b);
  while (x != a.end() && y != b.end()) {
    if (x->first != y->first || !(x->second == y->second)) return false;
    x = skip(std::next(x), a);
    y = skip(std::next(y), b);
  }
  return x == a.end() && y == b.end();
}

struct KeyHash {
  std::size_t operator()(const Key& key) const { return key.hash; }
};
struct KeyEqual {
  bool operator()(const Key& a, const Key& b) const {
    return a.hash == b.hash && &a.node->op() == &b.node->op() && a.inputs == b.inputs && a.controls == b.controls &&
           a.node->requested_device() == b.node->requested_device() && same_attrs(a.node->attrs(), b.node->attrs());
  }
};

class Merger {
 public:
  explicit Merger(FunctionBody& body) : body_(body), graph_(*body.graph) {}

  Status run() {
    TUTTI_ASSIGN_OR_RETURN(std::vector<Node*> order, graph_.topological_order());
    fixed_.insert(body_.args.begin(), body_.args.end());
    fixed_.insert(body_.retvals.begin(), body_.retvals.end());
    for (Node* node : order) {
      TUTTI_RETURN_IF_ERROR(read_kept(*node));
      if (!may_merge(*node)) continue;
      auto [it, added] = kept_.emplace(make_key(*node), node);
      if (!added) merged_[node] = it->second;
    }
    // Readers that come before what they read: the way back of a loop.
    for (Node* node : order) TUTTI_RETURN_IF_ERROR(read_kept(*node));
    replace_targets();
    for (const auto& [node, kept] : merged_) graph_.remove(*node);
    return {};
  }

 private:
  bool may_merge(const Node& node) const {
    if (fixed_.contains(&node) || node.num_outputs() == 0 || !is_pure(node)) return false;
    if (node.inputs().empty() && node.op_name() != "Const") return false;
    return std::none_of(node.output_types().begin(), node.output_types().end(),
                        [](const EdgeType& type) { return is_object(type.dtype) && type.dtype != DType::kString; });
  }

  Status read_kept(Node& node) {
    if (merged_.empty()) return {};
    for (int i = 0; i < static_cast<int>(node.inputs().size()); ++i) {
      const Output input = node.input(i);
      auto it = input ? merged_.find(input.node) : merged_.end();
      if (it != merged_.end()) TUTTI_RETURN_IF_ERROR(graph_.set_input(node, i, {it->second, input.index}));
    }
    const auto controls = node.control_inputs();
    if (std::none_of(controls.begin(), controls.end(), [this](Node* n) { return merged_.contains(n); })) return {};
    std::vector<Node*> replaced;
    for (Node* before : controls) replaced.push_back(merged_.contains(before) ? merged_[before] : before);
    graph_.set_control_inputs(node, std::move(replaced));
    return {};
  }

  void replace_targets() {
    std::unordered_set<Node*> seen;
    std::vector<Node*> targets;
    for (Node* node : body_.targets) {
      Node* kept = merged_.contains(node) ? merged_[node] : node;
      if (seen.insert(kept).second) targets.push_back(kept);
    }
    body_.targets = std::move(targets);
  }

  FunctionBody& body_;
  Graph& graph_;
  std::unordered_set<const Node*> fixed_;  // arguments and results
  std::unordered_map<Key, Node*, KeyHash, KeyEqual> kept_;
  std::unordered_map<Node*, Node*> merged_;
};

}  // namespace

Status merge_common_subexpressions(FunctionBody& body) { return Merger(body).run(); }

}  // namespace tutti
