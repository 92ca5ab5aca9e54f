#include "tutti/ops/embedding.h"

#include <utility>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/segments.h"

namespace tutti {

namespace {

Output int32_constant(Graph& graph, std::int64_t value) { return constant(graph, value, DType::kInt32); }

Output rows_of_part(const Var& part, Output rows) {
  ScopeGuard beside = rows.graph().colocate_with(*part.handle().node);
  return op1("ResourceGather", {part.handle(), rows}, {{"dtype", part.dtype()}});
}

std::vector<Output> dealt_out(Output data, Output parts, std::int64_t count) {
  Node* node = add_op(data.graph(), "DynamicPartition", {data, parts}, {{"num_partitions", count}});
  std::vector<Output> outputs;
  for (int i = 0; i < node->num_outputs(); ++i) outputs.push_back(node->output(i));
  return outputs;
}

// Id i lies in part i % parts, row i / parts.
Output rows_of_parts(const std::vector<Var>& parts, Output ids) {
  if (parts.size() == 1) return rows_of_part(parts[0], ids);
  Graph& graph = ids.graph();
  const auto count = static_cast<std::int64_t>(parts.size());
  Output flat = reshape(ids, {-1});
  Output divisor = constant(graph, count, ids.dtype());
  Output part = cast(mod(flat, divisor), DType::kInt32);
  const std::vector<Output> rows = dealt_out(floordiv(flat, divisor), part, count);
  Output positions = range(int32_constant(graph, 0), size(flat), int32_constant(graph, 1));
  std::vector<Output> inputs = dealt_out(positions, part, count);
  for (std::size_t i = 0; i < parts.size(); ++i) inputs.push_back(rows_of_part(parts[i], rows[i]));
  Output found = op1("ParallelDynamicStitch", inputs, {{"N", count}});
  if (ids.shape().rank() == 1) return found;
  Output tail = strided_slice(shape_of(found), {1}, {0}, {1}, {.end_mask = 1});
  return reshape(found, Ints(concat({shape_of(ids), tail}, 0)));
}

// Each row of `rows`, those behind the dimensions of `ids`, shortened to `max_norm`.
Output clip_rows(Output rows, Output ids, double max_norm) {
  Graph& graph = rows.graph();
  Output axes = range(rank(ids), rank(rows), int32_constant(graph, 1));
  Output squares = reduce_sum(square(rows), Reduce(Ints(axes), true));
  // The root of 0 has no gradient: it is taken of 1 instead, which clips nothing.
  Output is_zero = equal(squares, zeros_like(squares));
  Output norm = sqrt(where(is_zero, ones_like(squares), squares));
  Output limit = constant(graph, max_norm, rows.dtype());
  return div(mul(rows, limit), maximum(where(is_zero, zeros_like(norm), norm), limit));
}

}  // namespace

EmbeddingTable::EmbeddingTable(std::vector<Var> parts) : table_(std::move(parts)) {
  if (std::get<std::vector<Var>>(table_).empty()) throw_error(invalid_argument("an embedding table has no parts"));
}

Output EmbeddingTable::rows(Output ids) const {
  if (const Output* table = std::get_if<Output>(&table_)) return gather(*table, ids);
  if (const PartitionedVar* table = std::get_if<PartitionedVar>(&table_)) return table->gather(ids);
  return rows_of_parts(std::get<std::vector<Var>>(table_), ids);
}

Output embedding_lookup(const EmbeddingTable& table, Output ids, std::optional<double> max_norm,
                        const std::string& name) {
  ScopeGuard scope = ids.graph().name_scope(name);
  Output rows = table.rows(ids);
  return max_norm ? clip_rows(rows, ids, *max_norm) : rows;
}

namespace {

Output weighted_bags(Output rows, Output weights, Output segments, Combiner combiner) {
  Graph& graph = rows.graph();
  if (weights.dtype() != rows.dtype()) weights = cast(weights, rows.dtype());
  // One weight for each row, with dimensions of 1 behind it.
  Output behind = reshape(op1("Sub", {rank(rows), int32_constant(graph, 1)}), {1});
  Output ones = fill(Ints(behind), int32_constant(graph, 1));
  Output wide = reshape(weights, Ints(concat({shape_of(weights), ones}, 0)));
  Output sums = segment_sum(mul(rows, wide), segments);
  if (combiner == Combiner::kSum) return sums;
  if (combiner == Combiner::kMean) return div_no_nan(sums, segment_sum(wide, segments));
  return div_no_nan(sums, sqrt(segment_sum(square(wide), segments)));
}

Output plain_bags(Output rows, Output indices, Output segments, Combiner combiner) {
  switch (combiner) {
    case Combiner::kSum:
      return sparse_segment_sum(rows, indices, segments);
    case Combiner::kMean:
      return sparse_segment_mean(rows, indices, segments);
    case Combiner::kSqrtN:
      break;
  }
  return sparse_segment_sqrt_n(rows, indices, segments);
}

}  // namespace

Output embedding_lookup_sparse(const EmbeddingTable& table, const SparseTensor& ids, const EmbeddingBagOptions& options,
                               const std::string& name) {
  Graph& graph = ids.values.graph();
  ScopeGuard scope = graph.name_scope(name);
  Output segments =
      strided_slice(ids.indices, {0, 0}, {0, 1}, {1, 1}, {.begin_mask = 1, .end_mask = 1, .shrink_axis_mask = 2});
  // Each row is fetched once, however many bags want it.
  Node* unique = add_op(graph, "Unique", {ids.values});
  Output rows = embedding_lookup(table, unique->output(0), options.max_norm);
  if (!options.weights) return plain_bags(rows, unique->output(1), segments, options.combiner);
  return weighted_bags(gather(rows, unique->output(1)), options.weights->values, segments, options.combiner);
}

namespace {

Output is_positive(Output x) { return greater(x, zeros_like(x)); }

struct Bags {
  SparseTensor ids;
  std::optional<SparseTensor> weights;

  void retain(Output keep) {
    ids = sparse_retain(ids, keep);
    if (weights) weights = sparse_retain(*weights, keep);
  }
};

}  // namespace

Output safe_embedding_lookup_sparse(const EmbeddingTable& table, const SparseTensor& ids,
                                    const EmbeddingBagOptions& options, std::optional<std::int64_t> default_id,
                                    const std::string& name) {
  Graph& graph = ids.values.graph();
  ScopeGuard scope = graph.name_scope(name);
  // All dimensions but the last as one.
  Output outer = strided_slice(ids.dense_shape, {0}, {-1}, {1}, {.begin_mask = 1});
  Output last = strided_slice(ids.dense_shape, {-1}, {0}, {1}, {.end_mask = 1});
  Output matrix = concat({reshape(reduce_prod(outer), {1}), last}, 0);
  Bags bags{sparse_reshape(ids, Ints(matrix)), {}};
  if (options.weights) bags.weights = SparseTensor{bags.ids.indices, options.weights->values, bags.ids.dense_shape};
  bags.retain(greater_equal(bags.ids.values, zeros_like(bags.ids.values)));
  if (bags.weights && options.combiner != Combiner::kSum) bags.retain(is_positive(bags.weights->values));

  const FilledRows filled =
      sparse_fill_empty_rows(bags.ids, constant(graph, default_id.value_or(0), ids.values.dtype()));
  EmbeddingBagOptions inner = options;
  if (bags.weights) {
    inner.weights = sparse_fill_empty_rows(*bags.weights, constant(graph, 1.0, bags.weights->values.dtype())).filled;
  }
  Output result = embedding_lookup_sparse(table, filled.filled, inner);
  if (!default_id) {
    // As wide as rows are.
    Output behind = reshape(op1("Sub", {rank(result), int32_constant(graph, 1)}), {1});
    Output ones = fill(Ints(behind), int32_constant(graph, 1));
    Output empty = reshape(filled.empty, Ints(concat({shape_of(filled.empty), ones}, 0)));
    result = where(empty, zeros_like(result), result);
  }
  Output row = strided_slice(shape_of(result), {1}, {0}, {1}, {.end_mask = 1});
  return reshape(result, Ints(concat({cast(outer, DType::kInt32), row}, 0)));
}

}  // namespace tutti
