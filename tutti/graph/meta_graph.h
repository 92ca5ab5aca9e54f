// Graphs with what their program knows about them: TensorFlow's MetaGraphDef, the file `.meta` beside a checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/graph/graph.h"

namespace tutti {

// Which nodes save and restore a graph: TensorFlow's SaverDef.
struct SaverDef {
  std::string filename_tensor;  // fed with the prefix: "save/Const:0"
  std::string save_tensor;      // fetched to save: "save/control_dependency:0"
  std::string restore_op;       // run to restore: "save/restore_all"
  int max_to_keep = 5;
  bool sharded = false;
  double keep_checkpoint_every_n_hours = 10000;

  bool empty() const { return filename_tensor.empty(); }
  bool operator==(const SaverDef&) const = default;
};

// A variable by the names of what belongs to it: TensorFlow's VariableDef.
struct VariableDef {
  std::string variable;       // "w:0"
  std::string initializer;    // "w/Assign"
  std::string snapshot;       // its read, "w/Read/ReadVariableOp:0"
  std::string initial_value;  // "w/initial_value:0"
  bool resource = true;
  bool trainable = true;
  // Of a part of a partitioned variable; empty name: a whole.
  std::string full_name;
  std::vector<std::int64_t> full_shape, offset, shape;

  bool operator==(const VariableDef&) const = default;
};

struct MetaGraph {
  SaverDef saver;
  std::map<std::string, std::vector<VariableDef>> variables;  // collections of variables, by name
  std::map<std::string, std::vector<std::string>> nodes;      // collections of nodes or values, by name
};

// The bytes of a MetaGraphDef with everything in `graph`.
std::string export_meta_graph(const Graph& graph, const MetaGraph& about);
// Adds the nodes of a MetaGraphDef, as import_graph_def does (all or nothing, same errors), and gives what it says of
// them; a collection of another kind is left out.
Result<MetaGraph> import_meta_graph(std::string_view bytes, Graph& graph);

}  // namespace tutti
