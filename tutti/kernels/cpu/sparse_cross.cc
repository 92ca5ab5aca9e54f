#include "tutti/kernels/cpu/sparse_cross.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tutti/kernels/cpu/sparse_view.h"
#include "tutti/kernels/cpu/string_hash.h"

namespace tutti::cpu {

namespace {

// One of the columns that are crossed, and a walk down its rows.
class CrossColumn {
 public:
  static CrossColumn sparse(const Tensor& indices, const Tensor& values) {
    CrossColumn column(values, indices.data<std::int64_t>());
    // Rows that go back end the column: TensorFlow, which walks forward, never comes to what follows.
    const std::int64_t count = indices.dim(0);
    std::int64_t before = 0;
    while (column.usable_ < count && column.row_at(column.usable_) >= before) before = column.row_at(column.usable_++);
    return column;
  }
  static CrossColumn dense(const Tensor& values) {
    CrossColumn column(values, nullptr);
    column.count_ = values.dim(1);
    return column;
  }

  bool is_sparse() const { return indices_ != nullptr; }
  // The first row from `row` on that has features, or the largest integer. Calls must not go back.
  std::int64_t next_row(std::int64_t row) {
    if (!is_sparse()) return row;
    while (start_ < usable_ && row_at(start_) < row) ++start_;
    return start_ < usable_ ? row_at(start_) : std::numeric_limits<std::int64_t>::max();
  }
  // Goes to `row`, which next_row gave.
  void enter(std::int64_t row) {
    if (!is_sparse()) {
      start_ = row * count_;
      return;
    }
    count_ = 0;
    while (start_ + count_ < usable_ && row_at(start_ + count_) == row) ++count_;
  }
  void restart() { start_ = 0; }
  // Features of the row that was entered.
  std::int64_t count() const { return count_; }
  bool is_text() const { return values_->dtype() == DType::kString; }
  const std::string& text(std::int64_t i) const { return values_->data<std::string>()[start_ + i]; }
  std::int64_t number(std::int64_t i) const { return values_->data<std::int64_t>()[start_ + i]; }

 private:
  CrossColumn(const Tensor& values, const std::int64_t* indices) : values_(&values), indices_(indices) {}
  std::int64_t row_at(std::int64_t i) const { return indices_[2 * i]; }

  const Tensor* values_;
  const std::int64_t* indices_;
  std::int64_t usable_ = 0, start_ = 0, count_ = 0;
};

struct Crossing {
  std::vector<CrossColumn> columns;
  std::int64_t batch = 0;
  bool nothing = false;  // a column has no features in any row

  void restart() {
    for (CrossColumn& column : columns) column.restart();
  }

  // Enters the next row from `row` on in which every column has features; -1 when there is none.
  std::int64_t enter_next(std::int64_t row) {
    while (row < batch && !nothing) {
      std::int64_t common = row;
      for (CrossColumn& column : columns) common = std::max(common, column.next_row(row));
      if (common == row) {
        for (CrossColumn& column : columns) column.enter(row);
        return row;
      }
      row = common;
    }
    return -1;
  }

  // Combinations of the row that was entered.
  Result<std::int64_t> combinations() const {
    std::int64_t product = 1;
    for (const CrossColumn& column : columns) {
      if (__builtin_mul_overflow(product, column.count(), &product)) {
        return invalid_argument("a row has more crosses than can be counted");
      }
    }
    return product;
  }
};

Status check_sparse_columns(KernelContext& ctx, int columns) {
  for (int i = 0; i < columns; ++i) {
    const Tensor &indices = ctx.input(i), &values = ctx.input(columns + i), &shape = ctx.input(2 * columns + i);
    if (indices.rank() != 2 || indices.dim(1) != 2) {
      return invalid_argument("Input indices should be a matrix with 2 columns, got shape ", indices.shape(),
                              " at position ", i);
    }
    if (values.rank() != 1 || values.dim(0) != indices.dim(0)) {
      return invalid_argument("Input values should be a vector of ", indices.dim(0), " elements, got shape ",
                              values.shape(), " at position ", i);
    }
    if (shape.rank() != 1 || shape.dim(0) != 2) {
      return invalid_argument("Input shapes should be vectors of 2 elements, got shape ", shape.shape(),
                              " at position ", i);
    }
  }
  return {};
}

// What the inputs of all three kernels have in common. `columns` of them are sparse, `dense` dense.
Result<Crossing> read_columns(KernelContext& ctx, int columns, int dense) {
  TUTTI_RETURN_IF_ERROR(check_sparse_columns(ctx, columns));
  Crossing crossing;
  if (columns > 0) crossing.batch = ctx.input(2 * columns).data<std::int64_t>()[0];
  for (int i = 0; i < columns; ++i) {
    const std::int64_t rows = ctx.input(2 * columns + i).data<std::int64_t>()[0];
    if (rows != crossing.batch || rows < 0) {
      return invalid_argument("Expected batch size ", crossing.batch, ", not negative, got ", rows, " at position ", i);
    }
    crossing.columns.push_back(CrossColumn::sparse(ctx.input(i), ctx.input(columns + i)));
  }
  for (int i = 0; i < dense; ++i) {
    const Tensor& values = ctx.input(3 * columns + i);
    if (values.rank() != 2) return invalid_argument("Dense inputs should be a matrix, got shape ", values.shape());
    if (columns == 0 && i == 0) crossing.batch = values.dim(0);
    if (values.dim(0) != crossing.batch) {
      return invalid_argument("Expected batch size ", crossing.batch, ", got ", values.dim(0), " at dense tensor ", i);
    }
    crossing.columns.push_back(CrossColumn::dense(values));
    crossing.nothing |= values.dim(1) == 0;
  }
  return crossing;
}

// Crosses grow as the product of columns, far beyond the size of what is crossed.
constexpr std::int64_t kMaxCrosses = std::int64_t{1} << 27;

// Writes the crosses of all rows; `make(columns, picks)` gives the value of one.
template <typename T, typename Make>
Status write_crosses(KernelContext& ctx, Crossing& crossing, const Make& make) {
  std::int64_t total = 0, widest = 0;
  for (std::int64_t row = 0; (row = crossing.enter_next(row)) >= 0; ++row) {
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t count, crossing.combinations());
    widest = std::max(widest, count);
    if (__builtin_add_overflow(total, count, &total) || total > kMaxCrosses) {
      return resource_exhausted("the rows up to ", row, " have more than ", kMaxCrosses, " crosses");
    }
  }
  crossing.restart();
  TUTTI_ASSIGN_OR_RETURN(Tensor * indices, allocate_index_rows(ctx, 0, total, 2));
  TUTTI_ASSIGN_OR_RETURN(Tensor * values, ctx.allocate_output(1, Shape{total}));
  const std::int64_t shape[] = {crossing.batch, widest};
  TUTTI_RETURN_IF_ERROR(set_int64_vector(ctx, 2, shape));
  std::int64_t* place = indices->data<std::int64_t>();
  T* value = values->data<T>();
  std::vector<std::int64_t> picks(crossing.columns.size());
  for (std::int64_t row = 0; (row = crossing.enter_next(row)) >= 0; ++row) {
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t count, crossing.combinations());
    std::fill(picks.begin(), picks.end(), 0);
    for (std::int64_t i = 0; i < count; ++i) {
      *place++ = row;
      *place++ = i;
      *value++ = make(crossing.columns, picks);
      // The last column's feature changes fastest.
      for (std::size_t c = picks.size(); c-- > 0;) {
        if (++picks[c] < crossing.columns[c].count()) break;
        picks[c] = 0;
      }
    }
  }
  return {};
}

using Columns = std::vector<CrossColumn>;
using Picks = std::vector<std::int64_t>;

std::string joined_features(const Columns& columns, const Picks& picks, const std::string& separator) {
  std::string text;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (c > 0) text += separator;
    text += columns[c].is_text() ? columns[c].text(picks[c]) : std::to_string(columns[c].number(picks[c]));
  }
  return text;
}

std::uint64_t shift_mix(std::uint64_t value) { return value ^ (value >> 47); }

// Two fingerprints as one.
std::uint64_t joined_fingerprints(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kMultiplier = 0xc6a4a7935bd1e995;
  std::uint64_t result = a ^ kMultiplier;
  result ^= shift_mix(b * kMultiplier) * kMultiplier;
  result *= kMultiplier;
  return shift_mix(shift_mix(result) * kMultiplier);
}

std::int64_t in_bucket(std::uint64_t hash, std::int64_t buckets) {
  const auto limit = static_cast<std::uint64_t>(buckets > 0 ? buckets : std::numeric_limits<std::int64_t>::max());
  return static_cast<std::int64_t>(hash % limit);
}

class SparseCross : public Kernel {
 public:
  explicit SparseCross(const KernelInit& init)
      : columns_(static_cast<int>(init.attr<std::int64_t>("N"))),
        values_(static_cast<int>(init.attr<std::vector<DType>>("sparse_types").size())),
        dense_(static_cast<int>(init.attr<std::vector<DType>>("dense_types").size())),
        buckets_(init.attr<std::int64_t>("num_buckets")),
        key_(static_cast<std::uint64_t>(init.attr<std::int64_t>("hash_key"))),
        text_inside_(init.attr<DType>("internal_type") == DType::kString) {}

  Status compute(KernelContext& ctx) override {
    if (values_ != columns_) return invalid_argument("Expected ", columns_, " input values, got ", values_);
    TUTTI_ASSIGN_OR_RETURN(Crossing crossing, read_columns(ctx, columns_, dense_));
    for (const CrossColumn& column : crossing.columns) {
      if (text_inside_ && !column.is_text()) return invalid_argument("values should be strings, but are int64");
    }
    if (ctx.output_type(1) == DType::kString) {
      return write_crosses<std::string>(ctx, crossing, [](const Columns& columns, const Picks& picks) {
        return joined_features(columns, picks, "_X_");
      });
    }
    return write_crosses<std::int64_t>(ctx, crossing, [this](const Columns& columns, const Picks& picks) {
      std::uint64_t hash = key_;
      for (std::size_t c = 0; c < columns.size(); ++c) {
        hash =
            joined_fingerprints(hash, columns[c].is_text() ? fingerprint64(columns[c].text(picks[c]))
                                                           : static_cast<std::uint64_t>(columns[c].number(picks[c])));
      }
      return in_bucket(hash, buckets_);
    });
  }

 private:
  const int columns_, values_, dense_;
  const std::int64_t buckets_;
  const std::uint64_t key_;
  const bool text_inside_;
};

class SparseCrossV2 : public Kernel {
 public:
  explicit SparseCrossV2(const KernelInit& init)
      : columns_(static_cast<int>(init.attr<std::int64_t>("N"))),
        values_(static_cast<int>(init.attr<std::vector<DType>>("sparse_types").size())),
        dense_(static_cast<int>(init.attr<std::vector<DType>>("dense_types").size())) {}

  Status compute(KernelContext& ctx) override {
    if (values_ != columns_) return invalid_argument("Expected ", columns_, " input values, got ", values_);
    TUTTI_ASSIGN_OR_RETURN(Crossing crossing, read_columns(ctx, columns_, dense_));
    const Tensor& separator = ctx.input(ctx.num_inputs() - 1);
    if (separator.rank() != 0) return invalid_argument("sep should be a scalar, got shape ", separator.shape());
    return write_crosses<std::string>(ctx, crossing, [&](const Columns& columns, const Picks& picks) {
      return joined_features(columns, picks, separator.scalar<std::string>());
    });
  }

 private:
  const int columns_, values_, dense_;
};

class SparseCrossHashed : public Kernel {
 public:
  explicit SparseCrossHashed(const KernelInit& init)
      : columns_(static_cast<int>(init.attr<std::int64_t>("N"))),
        values_(static_cast<int>(init.attr<std::vector<DType>>("sparse_types").size())),
        dense_(static_cast<int>(init.attr<std::vector<DType>>("dense_types").size())) {}

  Status compute(KernelContext& ctx) override {
    if (values_ != columns_) return invalid_argument("Expected ", columns_, " input values, got ", values_);
    TUTTI_ASSIGN_OR_RETURN(Crossing crossing, read_columns(ctx, columns_, dense_));
    const int first = 3 * columns_ + dense_;
    const Tensor &buckets = ctx.input(first), &strong = ctx.input(first + 1), &salt = ctx.input(first + 2);
    if (buckets.rank() != 0 || strong.rank() != 0) {
      return invalid_argument("num_buckets and strong_hash should be scalars, got ", buckets.shape(), " and ",
                              strong.shape());
    }
    if (salt.num_elements() != 2) return invalid_argument("salt should have 2 elements, got shape ", salt.shape());
    std::uint64_t key[2];
    std::memcpy(key, salt.raw(), sizeof key);
    const bool is_strong = strong.scalar<bool>();
    return write_crosses<std::int64_t>(ctx, crossing, [&](const Columns& columns, const Picks& picks) {
      std::uint64_t hash = 0;
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const std::uint64_t feature = hashed(columns[c], picks[c], is_strong, key);
        hash = c == 0 ? feature : joined_fingerprints(hash, feature);
      }
      return in_bucket(hash, buckets.scalar<std::int64_t>());
    });
  }

 private:
  // Of numbers TensorFlow hashes the lower four bytes; those of dense columns it takes as they are, unless strongly.
  static std::uint64_t hashed(const CrossColumn& column, std::int64_t i, bool strong, const std::uint64_t* key) {
    char low[4];
    std::string_view bytes;
    if (column.is_text()) {
      bytes = column.text(i);
    } else {
      const auto number = static_cast<std::uint32_t>(column.number(i));
      std::memcpy(low, &number, sizeof low);
      bytes = std::string_view(low, sizeof low);
    }
    if (strong) return sip_hash(key[0], key[1], bytes);
    if (!column.is_text() && !column.is_sparse()) return static_cast<std::uint64_t>(column.number(i));
    return fingerprint64(bytes);
  }

  const int columns_, values_, dense_;
};

}  // namespace

KernelFactory sparse_cross_kernel() { return kernel_of<SparseCross>(); }
KernelFactory sparse_cross_v2_kernel() { return kernel_of<SparseCrossV2>(); }
KernelFactory sparse_cross_hashed_kernel() { return kernel_of<SparseCrossHashed>(); }

}  // namespace tutti::cpu
