// Builders of sums and other joins of rows by groups. They throw Error.
//
// segment_*: the ids are sorted, one for each row of data; as many groups as the last id says. unsorted_segment_*: ids
// in any order, as many groups as asked for; rows with a negative id are left out (unsorted_segment_sum is in array.h).
// sparse_segment_*: of the rows that `indices` name, with sorted ids: an embedding bag.
#pragma once

#include <string>

#include "tutti/graph/graph.h"

namespace tutti {

Output segment_sum(Output data, Output segment_ids, const std::string& name = "");
Output segment_mean(Output data, Output segment_ids, const std::string& name = "");
Output segment_prod(Output data, Output segment_ids, const std::string& name = "");
Output segment_min(Output data, Output segment_ids, const std::string& name = "");
Output segment_max(Output data, Output segment_ids, const std::string& name = "");

Output unsorted_segment_prod(Output data, Output segment_ids, Output num_segments, const std::string& name = "");
Output unsorted_segment_min(Output data, Output segment_ids, Output num_segments, const std::string& name = "");
Output unsorted_segment_max(Output data, Output segment_ids, Output num_segments, const std::string& name = "");
// Groups without rows are 0.
Output unsorted_segment_mean(Output data, Output segment_ids, Output num_segments,
                             const std::string& name = "unsorted_segment_mean");

struct SparseSegmentOptions {
  Output num_segments = {};      // a scalar; empty: as the last id says
  bool sparse_gradient = false;  // the gradient of data has the rows that were used, not all
};
Output sparse_segment_sum(Output data, Output indices, Output segment_ids, const SparseSegmentOptions& options = {},
                          const std::string& name = "");
Output sparse_segment_mean(Output data, Output indices, Output segment_ids, const SparseSegmentOptions& options = {},
                           const std::string& name = "");
// Sums divided by the square root of the number of rows.
Output sparse_segment_sqrt_n(Output data, Output indices, Output segment_ids, const SparseSegmentOptions& options = {},
                             const std::string& name = "");

}  // namespace tutti
