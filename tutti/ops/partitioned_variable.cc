#include "tutti/ops/partitioned_variable.h"

#include <algorithm>
#include <numeric>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"

namespace tutti {
namespace {

// Where the first `extras` parts have one entry more than the others, which have `base`.
struct Cut {
  std::int64_t parts, base, extras;
  std::int64_t size_of(std::int64_t part) const { return base + (part < extras ? 1 : 0); }
};

// The dimension that is cut, and into how many parts. Where none is, the first.
std::pair<int, std::int64_t> find_axis(const std::string& name, const Shape& shape,
                                       const std::vector<std::int64_t>& counts) {
  auto refuse = [&](const char* why) {
    throw_error(invalid_argument("variable \"", printable(name), "\" of shape ", shape, " cannot be cut into [",
                                 str_join(counts, ", "), "] parts: ", why));
  };
  if (shape.rank() == 0) refuse("it is a scalar");
  if (counts.size() != static_cast<std::size_t>(shape.rank())) refuse("one number for each dimension is wanted");
  int axis = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    const std::int64_t count = counts[static_cast<std::size_t>(i)];
    if (count < 1 || count > std::max<std::int64_t>(shape.dim(i), 1)) refuse("each part needs an entry");
    if (count == 1) continue;
    if (counts[static_cast<std::size_t>(axis)] > 1 && axis != i) refuse("only one dimension may be cut");
    axis = i;
  }
  return {axis, counts[static_cast<std::size_t>(axis)]};
}

// The part of each id and its row there.
std::pair<Output, Output> locate(Output ids, const Cut& cut) {
  Graph& graph = ids.graph();
  auto number = [&](std::int64_t value) { return constant(graph, value, ids.dtype()); };
  Output in_larger = floordiv(ids, number(cut.base + 1));
  Output shifted = sub(ids, number(cut.extras));
  Output part = maximum(in_larger, floordiv(shifted, number(cut.base)));
  Output row = where(less(part, number(cut.extras)), mod(ids, number(cut.base + 1)), mod(shifted, number(cut.base)));
  return {cast(part, DType::kInt32), row};
}

std::vector<Output> partition(Output data, Output parts, std::int64_t count) {
  Node* node = add_op(data.graph(), "DynamicPartition", {data, parts}, {{"num_partitions", count}});
  std::vector<Output> outputs;
  for (int i = 0; i < node->num_outputs(); ++i) outputs.push_back(node->output(i));
  return outputs;
}

Output gather_rows(const Var& part, Output rows) {
  ScopeGuard beside = rows.graph().colocate_with(*part.handle().node);
  return op1("ResourceGather", {part.handle(), rows}, {{"dtype", part.dtype()}});
}

}  // namespace

class PartitionedVarMaker {
 public:
  PartitionedVarMaker(const Shape& shape, DType dtype, const std::string& name, const Partitioner& partitioner)
      : dtype_(dtype) {
    const auto [axis, parts] = find_axis(name, shape, partitioner(shape, dtype));
    made_.shape_ = shape;
    made_.axis_ = axis;
    cut_ = {parts, shape.dim(axis) / parts, shape.dim(axis) % parts};
  }

  PartitionedVar make(Graph& graph, const PartInitializer& initializer, const std::string& name, bool trainable) {
    // The name is taken for the whole, so that a second of that name has parts of its own.
    ScopeGuard scope = graph.name_scope(name.empty() ? "Variable" : name);
    made_.name_ = graph.current_name_scope();
    SliceInfo info{made_.name_, made_.shape_, std::vector<std::int64_t>(made_.shape_.dims().size(), 0), made_.shape_};
    const std::size_t axis = static_cast<std::size_t>(made_.axis_);
    for (std::int64_t i = 0; i < cut_.parts; ++i) {
      info.shape.set_dim(made_.axis_, cut_.size_of(i));
      made_.parts_.push_back(make_part(graph, initializer, info, i, trainable));
      info.offset[axis] += cut_.size_of(i);
    }
    return std::move(made_);
  }

 private:
  Var make_part(Graph& graph, const PartInitializer& initializer, const SliceInfo& info, std::int64_t index,
                bool trainable) {
    const std::string name = str_cat("part_", index);
    Output value;
    {
      ScopeGuard scope = graph.name_scope(name + "/Initializer");
      value = initializer(graph, info);
    }
    if (!value || value.dtype() != dtype_ || !value.shape().compatible_with(info.shape)) {
      throw_error(invalid_argument("variable \"", printable(info.full_name), "/", name, "\" must start as ",
                                   dtype_name(dtype_), info.shape, ", not as ",
                                   value ? str_cat(dtype_name(value.dtype()), value.shape()) : "nothing"));
    }
    if (!value.shape().fully_known()) value = reshape(value, info.shape);
    Var part = variable(graph, value, name, trainable);
    set_slice_info(part, info);
    return part;
  }

  const DType dtype_;
  PartitionedVar made_;
  Cut cut_{};
};

Output PartitionedVar::read() const {
  if (whole_) return whole_;
  Graph& graph = parts_[0].handle().graph();
  ScopeGuard scope = graph.name_scope(name_ + "/");
  ScopeGuard inner = graph.name_scope("ConcatPartitions");
  std::vector<Output> values(parts_.begin(), parts_.end());
  whole_ = values.size() == 1 ? identity(values[0]) : concat(values, axis_);
  return whole_;
}

Output PartitionedVar::gather(Output ids, const std::string& name) const {
  if (axis_ != 0) {
    throw_error(invalid_argument("gather of \"", printable(name_), "\", which is cut along axis ", axis_,
                                 " and not along its rows"));
  }
  Graph& graph = ids.graph();
  ScopeGuard scope = graph.name_scope(name);
  if (parts_.size() == 1) return gather_rows(parts_[0], ids);
  const std::int64_t count = static_cast<std::int64_t>(parts_.size());
  Output flat = reshape(ids, {-1});
  const auto [part, row] = locate(flat, {count, shape_.dim(0) / count, shape_.dim(0) % count});
  const std::vector<Output> rows = partition(row, part, count);
  Output positions = range(constant(graph, 0, DType::kInt32), size(flat), constant(graph, 1, DType::kInt32));
  std::vector<Output> inputs = partition(positions, part, count);
  for (std::size_t i = 0; i < parts_.size(); ++i) inputs.push_back(gather_rows(parts_[i], rows[i]));
  Output found = op1("ParallelDynamicStitch", inputs, {{"N", count}});
  if (ids.shape().rank() == 1) return found;
  Output tail = constant(
      graph, Tensor::vector<std::int32_t>(std::vector<std::int32_t>(shape_.dims().begin() + 1, shape_.dims().end())));
  return reshape(found, concat({shape_of(ids), tail}, 0));
}

PartitionedVar partitioned_variable(Graph& graph, const Shape& shape, DType dtype, const PartInitializer& initializer,
                                    const std::string& name, const Partitioner& partitioner, bool trainable) {
  return PartitionedVarMaker(shape, dtype, name, partitioner).make(graph, initializer, name, trainable);
}

PartitionedVar partitioned_variable(Graph& graph, const Tensor& initial_value, const std::string& name,
                                    const Partitioner& partitioner, bool trainable) {
  if (!initial_value.has_value()) {
    throw_error(invalid_argument("variable \"", printable(name), "\": the initial value is empty"));
  }
  Output whole;
  auto part_of = [&](Graph& in, const SliceInfo& part) {
    // Rows are a constant of their own, so that a task gets what it keeps and not the whole.
    if (part.shape.without_dim(0) == part.full_shape.without_dim(0)) {
      return constant(in, initial_value.slice(part.offset[0], part.offset[0] + part.shape.dim(0)));
    }
    if (!whole) whole = constant(in, initial_value);
    return slice(whole, part.offset, part.shape);
  };
  return partitioned_variable(graph, initial_value.shape(), initial_value.dtype(), part_of, name, partitioner,
                              trainable);
}

}  // namespace tutti
