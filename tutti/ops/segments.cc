#include "tutti/ops/segments.h"

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"

namespace tutti {

Output segment_sum(Output data, Output segment_ids, const std::string& name) {
  return op1("SegmentSum", {data, segment_ids}, {}, name);
}
Output segment_mean(Output data, Output segment_ids, const std::string& name) {
  return op1("SegmentMean", {data, segment_ids}, {}, name);
}
Output segment_prod(Output data, Output segment_ids, const std::string& name) {
  return op1("SegmentProd", {data, segment_ids}, {}, name);
}
Output segment_min(Output data, Output segment_ids, const std::string& name) {
  return op1("SegmentMin", {data, segment_ids}, {}, name);
}
Output segment_max(Output data, Output segment_ids, const std::string& name) {
  return op1("SegmentMax", {data, segment_ids}, {}, name);
}

Output unsorted_segment_prod(Output data, Output segment_ids, Output num_segments, const std::string& name) {
  return op1("UnsortedSegmentProd", {data, segment_ids, num_segments}, {}, name);
}
Output unsorted_segment_min(Output data, Output segment_ids, Output num_segments, const std::string& name) {
  return op1("UnsortedSegmentMin", {data, segment_ids, num_segments}, {}, name);
}
Output unsorted_segment_max(Output data, Output segment_ids, Output num_segments, const std::string& name) {
  return op1("UnsortedSegmentMax", {data, segment_ids, num_segments}, {}, name);
}

Output unsorted_segment_mean(Output data, Output segment_ids, Output num_segments, const std::string& name) {
  Graph& graph = data.graph();
  ScopeGuard scope = graph.name_scope(name);
  Output ones = fill(Ints(shape_of(segment_ids)), constant(graph, 1, data.dtype()));
  Output counts = maximum(unsorted_segment_sum(ones, segment_ids, num_segments), constant(graph, 1, data.dtype()));
  Output sums = unsorted_segment_sum(data, segment_ids, num_segments);
  // Counts are a vector: as many dimensions of 1 behind it as rows have.
  Output behind = reshape(op1("Sub", {rank(sums), constant(graph, 1, DType::kInt32)}), {1});
  Output ones_behind = fill(Ints(behind), constant(graph, 1, DType::kInt32));
  return div(sums, reshape(counts, Ints(concat({shape_of(counts), ones_behind}, 0))));
}

namespace {

Output sparse_segment(const std::string& op, Output data, Output indices, Output segment_ids,
                      const SparseSegmentOptions& options, const std::string& name) {
  const AttrMap attrs = {{"sparse_gradient", options.sparse_gradient}};
  if (!options.num_segments) return op1(op, {data, indices, segment_ids}, attrs, name);
  return op1(op + "WithNumSegments", {data, indices, segment_ids, options.num_segments}, attrs, name);
}

}  // namespace

Output sparse_segment_sum(Output data, Output indices, Output segment_ids, const SparseSegmentOptions& options,
                          const std::string& name) {
  return sparse_segment("SparseSegmentSum", data, indices, segment_ids, options, name);
}
Output sparse_segment_mean(Output data, Output indices, Output segment_ids, const SparseSegmentOptions& options,
                           const std::string& name) {
  return sparse_segment("SparseSegmentMean", data, indices, segment_ids, options, name);
}
Output sparse_segment_sqrt_n(Output data, Output indices, Output segment_ids, const SparseSegmentOptions& options,
                             const std::string& name) {
  return sparse_segment("SparseSegmentSqrtN", data, indices, segment_ids, options, name);
}

}  // namespace tutti
