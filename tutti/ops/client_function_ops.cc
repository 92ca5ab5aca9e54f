// Functions that live in the client's process, which no server can call. A graph may hold them; running one is refused.
#include "tutti/graph/shape_inference.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

Result<std::unique_ptr<Kernel>> refuse_client_function(const KernelInit& init) {
  return unimplemented(init.op, " calls a function of the client's process (token ",
                       printable(init.attr<std::string>("token")),
                       "), which a server cannot reach: compute the value in the client and feed it");
}

void add_client_function(OpTable& ops, const char* name, const char* more_attrs, unsigned traits, bool no_gradient) {
  ops.add({.name = name,
           .signature = "input: Tin -> output: Tout",
           .attrs = str_cat("token: string; ", more_attrs, "Tin: list(type) >= 0; Tout: list(type) >= 0"),
           .shape = shape::none,
           .no_gradient = no_gradient,
           .traits = traits,
           .kernels = {TUTTI_CPU(refuse_client_function)}});
}

}  // namespace

void register_client_function_ops(OpTable& ops) {
  add_client_function(ops, "PyFunc", "", kStateful, true);
  add_client_function(ops, "PyFuncStateless", "", 0, true);
  // Its gradient is a function of the client, too.
  add_client_function(ops, "EagerPyFunc", "is_async: bool = false; ", kStateful, false);
}

}  // namespace tutti
