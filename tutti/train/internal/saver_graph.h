// The nodes of a Saver.
#pragma once

#include <string>
#include <vector>

#include "tutti/graph/graph.h"
#include "tutti/graph/meta_graph.h"

namespace tutti::internal {

// A variable, or a part of one, and how checkpoints know it.
struct SavedVariable {
  std::string name;
  std::string spec;      // of a part, as SaveV2 takes it; empty: a whole
  Node* node = nullptr;  // VarHandleOp or a variable of references
  DType dtype = DType::kInvalid;
  PartialShape shape;  // of the variable
  std::string device;  // its own, or that of what it is colocated with

  bool is_resource() const;
};

// Throws Error (kInvalidArgument) when `node` is no variable.
SavedVariable saved_variable(std::string name, Node& node);

struct SaverGraphOptions {
  std::string name = "save";
  bool sharded = false;
  bool reshape = false;
  bool background = false;
  std::string holder;  // as in SaverOptions
};

struct SaverGraph {
  SaverDef names;
  // What the prefixes of the parts of a sharded save begin with, after the prefix that is fed, for names.save_tensor
  // and for write_tensor: to be fed with another text for each save ("_temp/part" else, as TensorFlow has it). Empty:
  // the save has no parts.
  std::string parts_tensor;
  std::string write_parts_tensor;
  // For saves in the background; null otherwise.
  Node* hold = nullptr;      // keeps the present values of all variables beside them
  std::string write_tensor;  // fetched to write what was kept, under the prefix that is fed
  Node* let_go = nullptr;    // run with it: drops what was kept, each when it is written
};

// REQUIRES: at least one variable, sorted by name. Throws Error.
SaverGraph build_saver_graph(Graph& graph, const std::vector<SavedVariable>& variables,
                             const SaverGraphOptions& options);

}  // namespace tutti::internal
