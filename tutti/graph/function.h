// Functions: named graphs with arguments and results, kept in a library beside the graph.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/core/attr_value.h"
#include "tutti/graph/graph.h"

namespace tutti {

// A function's body as a graph: `_Arg` nodes (attributes T, index) are its inputs, `_Retval` nodes its
// outputs. `targets` must run even when no output needs them (effects).
struct FunctionBody {
  std::unique_ptr<Graph> graph;
  std::vector<Node*> args;
  std::vector<Node*> retvals;
  std::vector<Node*> targets;
};

// Functions by name, kept as they are on the wire, so that they survive a round trip whole.
// Thread-safe for reading once filled; a graph's builder alone adds.
class FunctionLibrary {
 public:
  FunctionLibrary();
  ~FunctionLibrary();

  // Takes a serialised FunctionDef. Adding an equal one again is fine; another of the same name is kAlreadyExists.
  Status add_serialized(std::string_view function_def);
  // Takes a body built here.
  Status add(const std::string& name, const FunctionBody& body);
  bool contains(std::string_view name) const;
  std::vector<std::string> names() const;
  // The signature as an op, so that a node may call the function by its name. Null when there is none.
  std::shared_ptr<const OpDef> signature(std::string_view name) const;
  // The function that a node calls by its name, with the attributes that its signature declares. Other attributes of
  // the node are notes about the call: with them every call would be of a function of its own.
  // REQUIRES: contains(node.op_name()).
  FunctionRef called_by(const Node& node) const;
  // Serialised FunctionDef; REQUIRES: contains(name).
  const std::string& serialized(std::string_view name) const;
  // A fresh body with the function's attribute placeholders replaced by `attrs`. The body's graph shares
  // `library`. Errors name the function and the node.
  Result<FunctionBody> instantiate(const FunctionRef& function, std::shared_ptr<const OpRegistry> ops,
                                   std::shared_ptr<FunctionLibrary> library) const;
  // Of the FunctionDefLibrary's gradient list: the function that is `name`'s gradient, or "".
  std::string gradient_of(std::string_view name) const;
  void set_gradient(std::string name, std::string gradient);
  // A name that is not taken: base, base_1, ...
  std::string unique_name(std::string_view base) const;

 private:
  friend class GraphImporter;  // takes back what it added when an import fails
  struct Entry;
  void remove(std::string_view name);

  std::map<std::string, std::unique_ptr<Entry>, std::less<>> functions_;
  std::map<std::string, std::string, std::less<>> gradients_;
};

// An empty body to build in: a graph with `_Arg` nodes of these types, sharing ops and library with `outer`.
// `shapes` and resource information, where given, become the args' output shapes.
FunctionBody make_function_body(Graph& outer, const std::vector<DType>& arg_types,
                                const std::vector<PartialShape>& arg_shapes = {});
// Adds the `_Retval` nodes. Throws Error on a value of another graph.
void set_results(FunctionBody& body, const std::vector<Output>& results);

}  // namespace tutti
