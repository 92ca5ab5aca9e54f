#include "tutti/train/internal/restore_check.h"

#include "tutti/io/tensor_slice.h"
#include "tutti/train/checkpoint_reader.h"
#include "tutti/train/internal/saver_graph.h"

namespace tutti::internal {
namespace {

bool fits(const PartialShape& wanted, const Shape& stored, bool reshape) {
  if (!reshape) return wanted.compatible_with(stored);
  const std::optional<Shape> whole = wanted.as_shape();
  return !whole || whole->num_elements() == stored.num_elements();
}

Status check_one(const CheckpointReader& reader, const SavedVariable& variable, bool reshape) {
  const Result<CheckpointReader::Variable> stored = reader.find(variable.name);
  if (!stored.ok()) return stored.status();
  if (stored->dtype != variable.dtype) {
    return invalid_argument("it is ", dtype_name(variable.dtype), ", and \"", printable(variable.name),
                            "\" of checkpoint \"", printable(reader.prefix()), "\" is ", dtype_name(stored->dtype));
  }
  PartialShape wanted = variable.shape;
  if (!variable.spec.empty()) {
    TUTTI_ASSIGN_OR_RETURN(const ShapeAndSlice part, parse_shape_and_slice(variable.spec));
    wanted = part.full_shape;
  }
  if (fits(wanted, stored->shape, reshape && variable.spec.empty())) return {};
  return invalid_argument(variable.spec.empty() ? "it has shape " : "the whole that it is a part of has shape ", wanted,
                          ", and \"", printable(variable.name), "\" of checkpoint \"", printable(reader.prefix()),
                          "\" has shape ", stored->shape);
}

}  // namespace

Status check_restorable(const CheckpointReader& reader, const std::vector<SavedVariable>& variables, bool reshape) {
  for (const SavedVariable& variable : variables) {
    const Status status = check_one(reader, variable, reshape);
    if (!status.ok()) {
      return status.with_context(str_cat("Saver: variable \"", printable(variable.node->name()), "\""));
    }
  }
  return {};
}

}  // namespace tutti::internal
