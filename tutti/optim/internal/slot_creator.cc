#include "tutti/optim/internal/slot_creator.h"

#include "tutti/ops/array.h"
#include "tutti/ops/slice_info.h"

namespace tutti {
namespace {

void copy_slice_info(const Var& primary, const Var& slot) {
  const std::optional<SliceInfo> part = slice_info(primary);
  if (!part || slot.shape().as_shape() != part->shape || !slot.name().starts_with(primary.name())) return;
  SliceInfo info = *part;
  info.full_name += slot.name().substr(primary.name().size());
  set_slice_info(slot, info);
}

}  // namespace

Var create_apart(Graph& graph, const std::string& scope, const std::string& name,
                 const std::function<Output(Graph&)>& initial) {
  ScopeGuard outer = graph.name_scope(scope.empty() ? "" : scope + "/");
  const int first_id = graph.id_limit();
  Output value;
  {
    ScopeGuard inner = graph.name_scope(name + "/Initializer");
    value = initial(graph);
  }
  Var made = variable(graph, value, name, false);
  for (int id = first_id; id < graph.id_limit(); ++id) graph.set_control_inputs(*graph.node_by_id(id), {});
  return made;
}

Var create_slot(const Var& primary, const std::string& scope, const std::string& name,
                const std::function<Output(Graph&)>& initial) {
  Graph& graph = primary.handle().graph();
  ScopeGuard place = graph.colocate_with(*primary.handle().node);
  Var made = create_apart(graph, scope, name, initial);
  copy_slice_info(primary, made);
  return made;
}

std::function<Output(Graph&)> filled_like(const Var& variable, double value, const std::string& who) {
  const std::optional<Shape> shape = variable.shape().as_shape();
  if (!shape) {
    throw_error(invalid_argument(who, ": variable \"", printable(variable.name()),
                                 "\" has no fixed shape: ", variable.shape()));
  }
  return [shape = *shape, value, dtype = variable.dtype()](Graph& graph) {
    Output element = constant(graph, value, dtype);
    return shape.rank() > 0 ? fill(shape, element) : element;
  };
}

}  // namespace tutti
