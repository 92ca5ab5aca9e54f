// Builders of variables. They throw Error.
#pragma once

#include <string>
#include <vector>

#include "tutti/graph/graph.h"

namespace tutti {

// A variable of a graph, as builders pass it around: its handle, the node that gives it its initial value, and
// a read of it. Used where an Output is wanted it is that read.
class Var {
 public:
  Output handle() const { return handle_; }
  Node* initializer() const { return initializer_; }
  // The read that was made with the variable: its value at some moment of the step.
  Output read() const { return read_; }
  operator Output() const { return read_; }  // NOLINT: implicit, so that matmul(x, w) reads well

  const std::string& name() const { return handle_.node->name(); }
  DType dtype() const { return read_.dtype(); }
  const PartialShape& shape() const { return read_.shape(); }
  bool trainable() const;

  // A read at the place where it is written: under the control dependencies that are open now.
  Output read_again(const std::string& name = "") const;
  Node* assign(Output value, const std::string& name = "") const;
  Node* assign_add(Output value, const std::string& name = "") const;
  Node* assign_sub(Output value, const std::string& name = "") const;

 private:
  friend Var variable(Graph&, Output, const std::string&, bool);
  friend Var variable(Graph&, Tensor, const std::string&, bool);
  friend Var variable_of(Node&);
  Var(Output handle, Node* initializer, Output read) : handle_(handle), initializer_(initializer), read_(read) {}

  Output handle_;
  Node* initializer_;
  Output read_;
};

// Makes VarHandleOp `name`, AssignVariableOp `name/Assign` and ReadVariableOp `name/Read/ReadVariableOp`, and
// notes the variable in the graph's collections. An Output may depend on other values, but not on other
// variables: initial values are computed in no order.
Var variable(Graph& graph, Output initial_value, const std::string& name, bool trainable = true);
Var variable(Graph& graph, Tensor initial_value, const std::string& name, bool trainable = true);
// The variable of a VarHandleOp that `variable` made. kInvalidArgument for another node.
Var variable_of(Node& handle);

// In order of their making.
std::vector<Var> global_variables(Graph& graph);
std::vector<Var> trainable_variables(Graph& graph);
// A node that gives every variable made so far its initial value.
Node* global_variables_initializer(Graph& graph);

}  // namespace tutti
