// Builders of embeddings: rows of a table by their ids, one by one or in bags. They throw Error.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tutti/graph/graph.h"
#include "tutti/ops/partitioned_variable.h"
#include "tutti/ops/sparse.h"
#include "tutti/ops/state.h"

namespace tutti {

// A table of embeddings, first dimension the ids.
class EmbeddingTable {
 public:
  EmbeddingTable(Output table) : table_(table) {}                            // NOLINT: implicit
  EmbeddingTable(Var table) : table_(std::vector<Var>{std::move(table)}) {}  // NOLINT: implicit
  EmbeddingTable(PartitionedVar table) : table_(std::move(table)) {}         // NOLINT: implicit
  // Row r of parts[p] has id r * parts.size() + p (TensorFlow's partition strategy "mod"; that of a PartitionedVar is
  // "div"). REQUIRES: not empty (kInvalidArgument).
  EmbeddingTable(std::vector<Var> parts);  // NOLINT: implicit

  // Of shape ids.shape + row. Each part is asked for its own rows only, beside where it lies.
  Output rows(Output ids) const;

 private:
  std::variant<Output, std::vector<Var>, PartitionedVar> table_;
};

// Rows longer than max_norm are shortened to it.
Output embedding_lookup(const EmbeddingTable& table, Output ids, std::optional<double> max_norm = {},
                        const std::string& name = "embedding_lookup");

enum class Combiner {
  kSum,    // sum of weight * row
  kMean,   // that, divided by the sum of the weights
  kSqrtN,  // that, divided by the square root of the sum of the squared weights
};

struct EmbeddingBagOptions {
  Combiner combiner = Combiner::kMean;
  std::optional<SparseTensor> weights = {};  // indices and shape as the ids'; none: all 1
  std::optional<double> max_norm = {};
};

// The rows of the ids in each row of `ids`, a sparse matrix in order, combined: as many rows as the last that has an
// id. Rows without ids before that are 0.
Output embedding_lookup_sparse(const EmbeddingTable& table, const SparseTensor& ids,
                               const EmbeddingBagOptions& options = {},
                               const std::string& name = "embedding_lookup_sparse");

// The same for ids of any rank >= 2, with a result for every row: negative ids are left out, and so are weights that
// are not positive unless rows are summed; a row without ids is that of `default_id`, or 0.
Output safe_embedding_lookup_sparse(const EmbeddingTable& table, const SparseTensor& ids,
                                    const EmbeddingBagOptions& options = {},
                                    std::optional<std::int64_t> default_id = {},
                                    const std::string& name = "embedding_lookup_sparse");

}  // namespace tutti
