// The few ops that strategies look at, without the kernels of the real ones.
#pragma once

#include <memory>
#include <string>

#include "tutti/graph/graph.h"

namespace tutti::testing {

inline std::shared_ptr<const OpRegistry> strategy_ops() {
  auto ops = std::make_shared<OpRegistry>();
  auto add = [&ops](const char* name, const char* signature, const char* attrs) {
    throw_if_error(ops->add(parse_op_def(name, signature, attrs).value_or_throw()));
  };
  add("VarHandleOp", "-> resource: resource", "shared_name: string = ''; dtype: type; shape: shape");
  add("VariableV2", "-> ref: Ref(dtype)", "dtype: type; shape: shape");
  add("ReadVariableOp", "resource: resource -> value: dtype", "dtype: type");
  add("Add", "x: T, y: T -> z: T", "T: type");
  add("NoOp", "->", "");
  return ops;
}

}  // namespace tutti::testing
