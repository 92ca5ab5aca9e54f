// The graph: nodes, the values between them, and the scopes that builders work in.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tutti/core/attr_value.h"
#include "tutti/core/status.h"
#include "tutti/graph/op_def.h"

namespace tutti {

class Graph;
class Node;
class FunctionLibrary;

// One output of a node: what builders pass around.
struct Output {
  Node* node = nullptr;
  int index = 0;

  Output() = default;
  Output(Node* n, int i) : node(n), index(i) {}  // NOLINT: {node, 0} reads well

  explicit operator bool() const { return node != nullptr; }
  friend bool operator==(const Output&, const Output&) = default;
  Graph& graph() const;
  DType dtype() const;
  const PartialShape& shape() const;
  // "dense/MatMul:0"
  std::string name() const;
};

// One operation. Owned by its Graph, which alone changes it.
class Node {
 public:
  int id() const { return id_; }
  const std::string& name() const { return name_; }
  const OpDef& op() const { return *op_; }
  const std::string& op_name() const { return op_->name; }
  Graph& graph() const { return *graph_; }

  std::span<const Output> inputs() const { return inputs_; }
  Output input(int i) const { return inputs_[i]; }
  std::span<Node* const> control_inputs() const { return control_inputs_; }
  int num_outputs() const { return static_cast<int>(output_types_.size()); }
  Output output(int i = 0) { return {this, i}; }
  std::span<const EdgeType> input_types() const { return input_types_; }  // as declared by the op
  std::span<const EdgeType> output_types() const { return output_types_; }
  const PartialShape& output_shape(int i) const { return output_shapes_[i]; }

  const AttrMap& attrs() const { return attrs_; }
  const AttrValue* find_attr(std::string_view name) const;
  // REQUIRES: the op declares it with this kind.
  template <typename T>
  const T& attr(std::string_view name) const {
    const AttrValue* value = find_attr(name);
    TUTTI_CHECK(value != nullptr && value->get<T>() != nullptr, op_->name, " \"", name_, "\" attribute ", name);
    return *value->get<T>();
  }

  // As the user asked, possibly partial or empty.
  const std::string& requested_device() const { return requested_device_; }
  // As placement decided; empty before.
  const std::string& assigned_device() const { return assigned_device_; }

  // `MatMul "dense/product"`, for the start of messages.
  std::string describe() const;
  // OK, or kNotFound when the op is unknown.
  Status check_known() const;
  // The NodeDef it came from, for what we do not model; null when it was built here. See graph_def.h.
  const std::shared_ptr<const std::string>& origin() const { return origin_; }

 private:
  friend class Graph;
  Node() = default;
  int id_ = 0;
  Graph* graph_ = nullptr;
  std::string name_;
  const OpDef* op_ = nullptr;
  std::shared_ptr<const OpDef> owned_op_;  // of a call of a library function by name
  std::vector<Output> inputs_;
  std::vector<Node*> control_inputs_;
  std::vector<EdgeType> input_types_;
  std::vector<EdgeType> output_types_;
  std::vector<PartialShape> output_shapes_;
  AttrMap attrs_;
  std::string requested_device_;
  std::string assigned_device_;
  std::shared_ptr<const std::string> origin_;  // serialised NodeDef it came from, for what we do not model
};

// What a node is to be made of.
struct NodeSpec {
  std::string op;
  std::string name;            // empty: named after the op; made unique and put under the name scope
  std::vector<Output> inputs;  // list arguments flattened, in order
  AttrMap attrs;               // type and number attributes may be left out where inputs imply them
  std::vector<Node*> control_inputs;
  std::string device;  // merged over the device scope
};

// Decides on the device of a node that is being made. It sees the op, the final name, the inputs, the attributes as
// given, and in `device` what the scopes inside of its own say; what it returns takes the place of that. May throw
// Error.
using DeviceFunction = std::function<std::string(const NodeSpec&)>;

// Undoes a scope when it goes.
class [[nodiscard]] ScopeGuard {
 public:
  explicit ScopeGuard(std::function<void()> undo) : undo_(std::move(undo)) {}
  ScopeGuard(ScopeGuard&& other) noexcept : undo_(std::move(other.undo_)) { other.undo_ = nullptr; }
  ~ScopeGuard() {
    if (undo_) undo_();
  }
  ScopeGuard& operator=(ScopeGuard&&) = delete;

 private:
  std::function<void()> undo_;
};

// A growing graph. Not thread-safe; a session takes what it needs under its own lock.
class Graph {
 public:
  explicit Graph(std::shared_ptr<const OpRegistry> ops);
  // A graph that shares its functions with others, such as the body of one of them.
  Graph(std::shared_ptr<const OpRegistry> ops, std::shared_ptr<FunctionLibrary> library);
  // From anything that has a registry(), such as an op table: `Graph graph(builtin_ops());`.
  template <typename Table>
  requires requires(const Table& table) { table.registry(); }
  explicit Graph(const std::shared_ptr<Table>& table) : Graph(std::shared_ptr<const OpRegistry>(table->registry())) {}
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const OpRegistry& ops() const { return *ops_; }
  const std::shared_ptr<const OpRegistry>& shared_ops() const { return ops_; }
  FunctionLibrary& library() { return *library_; }
  const FunctionLibrary& library() const { return *library_; }
  const std::shared_ptr<FunctionLibrary>& shared_library() const { return library_; }

  // Checks attributes, arity, types and shapes, and appends the node, under the open scopes.
  // Errors name the node, the op and the values.
  Result<Node*> add_node(NodeSpec spec);
  // Null when there is none.
  Node* find(std::string_view name) const;
  // "name", "name:1". Errors: kNotFound for the node, kInvalidArgument for the index.
  Result<Output> find_output(std::string_view tensor_name) const;
  // In order of their making; removed ones are left out.
  std::vector<Node*> nodes() const;
  int num_nodes() const { return num_nodes_; }
  // Of the GraphDefs that were imported, what is neither node nor function; serialised.
  const std::string& origin() const { return origin_; }
  // Node ids are below this.
  int id_limit() const { return static_cast<int>(nodes_.size()); }
  Node* node_by_id(int id) const { return nodes_[id].get(); }

  // --- Scopes, for builders. Guards must go in reverse order. ---
  // "outer/inner/..." made unique among scopes, as TensorFlow does.
  ScopeGuard name_scope(std::string_view name);
  std::string current_name_scope() const;
  // Inner scopes win part by part. Throws Error on a bad name; an empty one cancels the outer scopes.
  ScopeGuard device_scope(std::string_view device);
  // An empty function changes nothing.
  ScopeGuard device_scope(DeviceFunction function);
  ScopeGuard control_dependencies(std::vector<Node*> nodes);
  // Nodes made inside carry `_class: loc:@node`.
  ScopeGuard colocate_with(const Node& node);
  // "scope/base", "scope/base_1", ...: not taken so far, and taken from now on.
  std::string unique_name(std::string_view base);

  // --- Nodes that builders remember by what they are, such as "variables". They must not be removed. ---
  void add_to_collection(std::string_view name, Node& node) { collections_[std::string(name)].push_back(&node); }
  const std::vector<Node*>& collection(std::string_view name) const {
    static const std::vector<Node*> none;
    auto it = collections_.find(name);
    return it == collections_.end() ? none : it->second;
  }

  using Collections = std::map<std::string, std::vector<Node*>, std::less<>>;
  const Collections& collections() const { return collections_; }
  void set_collections(Collections collections) { collections_ = std::move(collections); }

  // --- Changes, for importers and passes. ---
  // Appends without scopes and without renaming: kAlreadyExists when the name is taken. An input may be
  // left open (a null Output) where a v1 loop needs it, to be given with set_input.
  Result<Node*> add_exact(NodeSpec spec, std::shared_ptr<const std::string> origin = nullptr);
  // Gives or changes one input. REQUIRES of a change: the same type (else kInvalidArgument).
  Status set_input(Node& node, int index, Output value);
  // Re-routes every use of `from` (data edges) to `to`. REQUIRES: the same type.
  void replace_uses(Output from, Output to);
  void add_control_input(Node& node, Node& before);
  void set_control_inputs(Node& node, std::vector<Node*> before);
  void set_attr(Node& node, std::string_view name, AttrValue value);
  void set_requested_device(Node& node, std::string device) { node.requested_device_ = std::move(device); }
  void set_assigned_device(Node& node, std::string device) { node.assigned_device_ = std::move(device); }
  // What is known of an output beyond what its op says, as of a function's argument.
  void set_output_shape(Node& node, int index, PartialShape shape) { node.output_shapes_[index] = std::move(shape); }
  // One sweep over all data edges: each input becomes what `map` gives for it. REQUIRES: the same type.
  void rewrite_inputs(const std::function<Output(Output)>& map);
  // A copy of a node of any graph over the same ops, under this name: all inputs open, no control inputs.
  Result<Node*> copy_node(const Node& source, std::string name);
  // Works out all shapes again, as after values that shapes come from have changed. Where the op's rule finds
  // fault, and around loops, shapes are left open: running the node will tell.
  void reinfer_shapes();
  // Replaces op, inputs and attributes in place, keeping name, id and the uses of its first outputs.
  Status rebuild(Node& node, NodeSpec spec);
  // REQUIRES: nothing uses it.
  void remove(Node& node);

  // For each node id, the nodes that read it (data or control), each once.
  std::vector<std::vector<Node*>> consumers() const;

  // Sources first; back edges of v1 loops (into Merge, from NextIteration) do not count. An error that
  // names a node on the cycle when the graph is cyclic otherwise. Iterative: any depth.
  Result<std::vector<Node*>> topological_order() const;

 private:
  friend class GraphImporter;
  // Checks `spec` and makes a node that is not in the graph yet. `open`: inputs may be null.
  Result<std::unique_ptr<Node>> make_node(NodeSpec spec, bool open);
  Status fill_node(Node& node, NodeSpec spec, bool open) const;
  Result<std::vector<EdgeType>> types_of(const std::vector<Output>& values, bool open) const;
  Result<Node*> insert(std::unique_ptr<Node> node);
  void apply_scopes(NodeSpec& spec);
  Status apply_device_scopes(NodeSpec& spec) const;
  // For importers: a node whose op no registry has, with one output.
  Result<Node*> add_unknown(NodeSpec spec, std::shared_ptr<const std::string> origin);
  // Gives a node of an unknown op outputs up to this one, which a reader asks for. kInvalidArgument beyond a limit.
  static Status grow_outputs(Node& node, std::int64_t last);
  // An output of an unknown op is of the type that its first reader takes; others have one.
  static void give_type(Output value, EdgeType type);
  Status check_input(const Node& node, int index, Output value) const;
  Status infer_shapes(Node& node) const;

  std::shared_ptr<const OpRegistry> ops_;
  std::shared_ptr<FunctionLibrary> library_;
  std::vector<std::unique_ptr<Node>> nodes_;  // by id; null where removed
  std::unordered_map<std::string, Node*> by_name_;
  int num_nodes_ = 0;
  std::string origin_;

  Collections collections_;

  std::vector<std::string> name_scopes_;
  struct DeviceScope {
    std::string device;
    DeviceFunction function;  // instead of `device`, where there is one
    bool cancels = false;     // the scopes around it
  };
  std::vector<DeviceScope> device_scopes_;
  std::vector<std::vector<Node*>> control_scopes_;
  std::vector<std::string> colocation_scopes_;
  std::unordered_map<std::string, int> name_counts_;  // by lower-case name, as in TensorFlow
};

// The edge by which a v1 loop goes round: from a NextIteration into a Merge.
bool is_back_edge(const Node& from, const Node& to);
// The letters that a node's name may have, and its length. The message quotes no more than the start of it.
Status check_node_name(std::string_view name);

}  // namespace tutti
