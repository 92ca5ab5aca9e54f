// Adds the nodes of a message to a graph: of a GraphDef, or of a function's body.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tutti/graph/graph.h"
#include "tutti/graph/tensor_codec.h"

namespace tensorflow {
class FunctionDefLibrary;
class GraphDef;
class NodeDef;
}  // namespace tensorflow

namespace tutti {

// All or nothing: what was added is taken back by the destructor unless `commit` was called.
//
//   1. add_functions, so that nodes may call them;
//   2. define, for each argument of a function body;
//   3. add_nodes;
//   4. commit.
class GraphImporter {
 public:
  using NodeDefs = google::protobuf::RepeatedPtrField<tensorflow::NodeDef>;

  // How inputs are written: "node:k", or "node:output_arg:k" as in functions.
  enum class Dialect { kGraph, kFunction };

  // `graph` must outlive this.
  GraphImporter(Graph& graph, Dialect dialect);
  ~GraphImporter();
  GraphImporter(const GraphImporter&) = delete;
  GraphImporter& operator=(const GraphImporter&) = delete;

  // Put before every name, with a '/'.
  void set_prefix(std::string prefix) { prefix_ = prefix.empty() ? "" : prefix + "/"; }
  // What attribute placeholders stand for. Must outlive this.
  void set_placeholders(const AttrMap* values) { placeholders_ = values; }

  Status add_functions(const tensorflow::FunctionDefLibrary& library);
  // An input of this name is these values.
  void define(const std::string& name, std::vector<Output> values) { defined_[name] = std::move(values); }
  // In any order. With Dialect::kGraph nodes keep what they came from; larger tensors are then moved out of `defs`.
  Status add_nodes(NodeDefs& defs);
  // Keeps what is left of `def` once nodes and functions are out of it.
  void keep_rest(tensorflow::GraphDef def);
  // The tensors that an input's text names.
  Result<std::vector<Output>> resolve(std::string_view input) const;
  void commit() { committed_ = true; }

 private:
  struct Order;
  Status index_names(const NodeDefs& defs, std::unordered_map<std::string_view, int>* index) const;
  Status find_order(const NodeDefs& defs, Order* order) const;
  Status add_node(tensorflow::NodeDef& def);
  Status close_loops(const NodeDefs& defs, const Order& order);
  Status read_inputs(const tensorflow::NodeDef& def, NodeSpec* spec) const;
  Status read_attrs(const tensorflow::NodeDef& def, const OpDef& op, AttrMap* attrs);
  Result<AttrValue> substitute(AttrValue value) const;
  Result<FunctionRef> substitute(FunctionRef function) const;
  std::string full_name(std::string_view name) const { return prefix_ + std::string(name); }
  bool is_known(std::string_view name) const;

  Graph& graph_;
  const Dialect dialect_;
  const int first_id_;
  const std::string old_origin_;
  std::string prefix_;
  const AttrMap* placeholders_ = nullptr;
  ExpansionBudget budget_;
  std::unordered_map<std::string, std::vector<Output>> defined_;
  std::vector<std::string> added_functions_;
  std::vector<std::pair<std::string, std::string>> old_gradients_;
  bool committed_ = false;
};

}  // namespace tutti
