// Builders of ops that sort, mirror, shift and overwrite elements. They throw Error.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tutti/graph/graph.h"
#include "tutti/ops/array.h"

namespace tutti {

struct TopKOutputs {
  Output values;   // largest first
  Output indices;  // where they were; of equal ones the first comes first
};
// The k largest elements along the last dimension.
TopKOutputs top_k(Output x, std::int64_t k, const std::string& name = "");

// Pads with what lies beside the edge: without the edge itself ("REFLECT") or with it ("SYMMETRIC"). `paddings` as
// those of `pad`.
Output mirror_pad(Output x, const std::vector<std::pair<std::int64_t, std::int64_t>>& paddings,
                  const std::string& mode = "REFLECT", const std::string& name = "");
// Turns around the first lengths[b] elements along `seq_axis`, where b is the place along `batch_axis`.
Output reverse_sequence(Output x, Output lengths, std::int64_t seq_axis, std::int64_t batch_axis = 0,
                        const std::string& name = "");
// Shifts elements along axes; what leaves at one end comes in at the other.
Output roll(Output x, const Ints& shifts, const Ints& axes, const std::string& name = "");

struct UniqueOutputs {
  Output values;   // in the order in which they first come
  Output indices;  // for each element, which of the values it is
  Output counts;
};
// Of a vector.
UniqueOutputs unique_with_counts(Output x, const std::string& name = "");

// `tensor` with slices replaced, added to or subtracted from: those that the last dimension of `indices` names.
Output tensor_scatter_update(Output tensor, Output indices, Output updates, const std::string& name = "");
Output tensor_scatter_add(Output tensor, Output indices, Output updates, const std::string& name = "");
Output tensor_scatter_sub(Output tensor, Output indices, Output updates, const std::string& name = "");

}  // namespace tutti
