// Variables in parts: large tables spread over tasks, each part a variable of its own. They throw Error.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tutti/ops/partitioners.h"
#include "tutti/ops/slice_info.h"
#include "tutti/ops/state.h"

namespace tutti {

// Parts "w/part_0", "w/part_1"... of a whole "w" that is saved as one tensor. Where an Output is wanted it is the
// whole: the parts one after the other. Optimisers see the parts, each with slots of its own.
class PartitionedVar {
 public:
  const std::string& name() const { return name_; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return parts_[0].dtype(); }
  int axis() const { return axis_; }  // along which it is cut
  const std::vector<Var>& parts() const { return parts_; }
  // The whole; made on first use.
  Output read() const;
  operator Output() const { return read(); }  // NOLINT: implicit, so that matmul(x, w) reads well

  // Rows by their index along the first dimension: of shape ids.shape + shape[1:]. Each part is asked for its own rows
  // only, beside where it lies, and its gradient is sparse. Ids that are not in [0, rows) fail the step.
  // REQUIRES: cut along axis 0 (kInvalidArgument).
  Output gather(Output ids, const std::string& name = "embedding_lookup") const;

 private:
  friend class PartitionedVarMaker;
  PartitionedVar() = default;

  std::string name_;
  Shape shape_;
  int axis_ = 0;
  std::vector<Var> parts_;
  mutable Output whole_;
};

// The initial value of one part.
using PartInitializer = std::function<Output(Graph& graph, const SliceInfo& part)>;

// Cuts by `partitioner`: each part has dim / parts entries along the axis, the first dim % parts one more. The parts
// are made in order, under the scopes that are open, so that a device function may spread them.
PartitionedVar partitioned_variable(Graph& graph, const Shape& shape, DType dtype, const PartInitializer& initializer,
                                    const std::string& name, const Partitioner& partitioner, bool trainable = true);
// From the whole initial value.
PartitionedVar partitioned_variable(Graph& graph, const Tensor& initial_value, const std::string& name,
                                    const Partitioner& partitioner, bool trainable = true);

}  // namespace tutti
