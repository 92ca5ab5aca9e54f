// Tables over hash maps: keys lead to rows of one value tensor.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/resources/internal/table_checks.h"
#include "tutti/kernels/resources/lookup_table.h"

namespace tutti {

namespace {

// Not thread-safe.
class Rows {
 public:
  explicit Rows(const TableOptions& options)
      : keys_are_strings_(options.key_dtype == DType::kString),
        key_dtype_(options.key_dtype),
        dtype_(options.value_dtype),
        each_(options.value_shape) {}

  std::int64_t size() const { return static_cast<std::int64_t>(keys_are_strings_ ? strings_.size() : numbers_.size()); }
  // The row of key i, or -1.
  std::int64_t row_of(const Tensor& keys, std::int64_t i) const {
    if (keys_are_strings_) {
      auto it = strings_.find(keys.data<std::string>()[i]);
      return it == strings_.end() ? -1 : it->second;
    }
    auto it = numbers_.find(cpu::index_at(keys.raw(), key_dtype_, i));
    return it == numbers_.end() ? -1 : it->second;
  }
  const void* value(std::int64_t row) const {
    return cpu::at_element(dtype_, values_.raw(), row * each_.num_elements());
  }
  Status put(const Tensor& keys, const Tensor& values) {
    TUTTI_RETURN_IF_ERROR(reserve(keys.num_elements()));
    for (std::int64_t i = 0; i < keys.num_elements(); ++i) {
      std::int64_t row = row_of(keys, i);
      if (row < 0) row = add_key(keys, i);
      cpu::copy_elements(dtype_, cpu::at_element(dtype_, values_.raw(), row * each_.num_elements()),
                         cpu::at_element(dtype_, values.raw(), i * each_.num_elements()), each_.num_elements());
    }
    return {};
  }
  void remove(const Tensor& keys) {
    for (std::int64_t i = 0; i < keys.num_elements(); ++i) {
      const std::int64_t row = row_of(keys, i);
      if (row < 0) continue;
      free_.push_back(row);
      if (keys_are_strings_) {
        strings_.erase(keys.data<std::string>()[i]);
      } else {
        numbers_.erase(cpu::index_at(keys.raw(), key_dtype_, i));
      }
    }
  }
  Result<std::pair<Tensor, Tensor>> all() const {
    TUTTI_ASSIGN_OR_RETURN(Tensor keys, Tensor::create(key_dtype_, Shape{size()}, heap_allocator()));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, rows_shape(size()));
    TUTTI_ASSIGN_OR_RETURN(Tensor values, Tensor::create(dtype_, shape, heap_allocator()));
    std::int64_t i = 0;
    const auto copy_row = [&](std::int64_t row) {
      cpu::copy_elements(dtype_, cpu::at_element(dtype_, values.raw(), i++ * each_.num_elements()), value(row),
                         each_.num_elements());
    };
    for (const auto& [key, row] : strings_) {
      keys.data<std::string>()[i] = key;
      copy_row(row);
    }
    for (const auto& [key, row] : numbers_) {
      if (key_dtype_ == DType::kInt32) {
        keys.data<std::int32_t>()[i] = static_cast<std::int32_t>(key);
      } else {
        keys.data<std::int64_t>()[i] = key;
      }
      copy_row(row);
    }
    return std::pair{std::move(keys), std::move(values)};
  }

 private:
  Result<Shape> rows_shape(std::int64_t rows) const {
    std::vector<std::int64_t> dims{rows};
    dims.insert(dims.end(), each_.dims().begin(), each_.dims().end());
    return Shape::create(dims);
  }
  // Room for `more` keys.
  Status reserve(std::int64_t more) {
    const std::int64_t needed = used_ + std::max<std::int64_t>(0, more - static_cast<std::int64_t>(free_.size()));
    if (needed <= capacity_) return {};
    const std::int64_t capacity = std::max(needed, 2 * capacity_);
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, rows_shape(capacity));
    TUTTI_ASSIGN_OR_RETURN(Tensor values, Tensor::create(dtype_, shape, heap_allocator()));
    if (used_ > 0) cpu::copy_elements(dtype_, values.raw(), values_.raw(), used_ * each_.num_elements());
    values_ = std::move(values);
    capacity_ = capacity;
    return {};
  }
  std::int64_t add_key(const Tensor& keys, std::int64_t i) {
    std::int64_t row = used_;
    if (free_.empty()) {
      ++used_;
    } else {
      row = free_.back();
      free_.pop_back();
    }
    if (keys_are_strings_) {
      strings_.emplace(keys.data<std::string>()[i], row);
    } else {
      numbers_.emplace(cpu::index_at(keys.raw(), key_dtype_, i), row);
    }
    return row;
  }

  const bool keys_are_strings_;
  const DType key_dtype_;
  const DType dtype_;
  const Shape each_;
  std::unordered_map<std::string, std::int64_t> strings_;  // one of these, as the keys are
  std::unordered_map<std::int64_t, std::int64_t> numbers_;
  Tensor values_;
  std::int64_t capacity_ = 0;
  std::int64_t used_ = 0;  // rows of values_ that were ever used
  std::vector<std::int64_t> free_;
};

void find_all(const Rows& rows, const TableOptions& options, const Tensor& keys, const Tensor& defaults,
              bool default_for_each, Tensor& values) {
  const DType dtype = options.value_dtype;
  const std::int64_t size = options.value_shape.num_elements();
  for (std::int64_t i = 0; i < keys.num_elements(); ++i) {
    const std::int64_t row = rows.row_of(keys, i);
    const void* from =
        row >= 0 ? rows.value(row) : cpu::at_element(dtype, defaults.raw(), default_for_each ? i * size : 0);
    cpu::copy_elements(dtype, cpu::at_element(dtype, values.raw(), i * size), from, size);
  }
}

std::string element_text(const Tensor& tensor, std::int64_t i) {
  if (tensor.dtype() == DType::kString) return printable(tensor.data<std::string>()[i]);
  const std::string text = tensor.reshaped(Shape{tensor.num_elements()}).slice(i, i + 1).to_string();
  const std::size_t open = text.find('{');  // "int64 [1] {3}"
  return open == std::string::npos ? text : text.substr(open + 1, text.size() - open - 2);
}

class HashTable : public LookupTable {
 public:
  explicit HashTable(TableOptions options) : LookupTable(std::move(options)) {}

  std::int64_t size() const override {
    const auto rows = contents();
    return rows ? rows->size() : 0;
  }
  Status import_all(const Tensor& keys, const Tensor& values) override {
    if (keys.num_elements() == 0) return invalid_argument("keys and values cannot be empty tensors.");
    return initialise(keys, values);
  }
  Result<std::pair<Tensor, Tensor>> export_all() const override {
    const auto rows = contents();
    if (!rows) return aborted("HashTable is not initialized.");
    return rows->all();
  }
  Status initialise(const Tensor& keys, const Tensor& values) override {
    TUTTI_RETURN_IF_ERROR(check_values(keys, values));
    MutexLock lock(mu_);
    if (rows_) {
      if (rows_->size() == keys.num_elements()) return {};
      return failed_precondition("Table was already initialized with different data.");
    }
    auto rows = std::make_shared<Rows>(options_);
    TUTTI_RETURN_IF_ERROR(rows->put(keys, values));
    if (rows->size() < keys.num_elements()) {
      const Shape flat{keys.num_elements()};
      TUTTI_RETURN_IF_ERROR(check_repeated_keys(keys.reshaped(flat), values.reshaped(flat)));
    }
    rows_ = std::move(rows);
    return {};
  }

 protected:
  Status do_find(const Tensor& keys, const Tensor& defaults, bool for_each, Tensor& values) const override {
    const auto rows = contents();
    if (!rows) return failed_precondition("Table not initialized.");
    find_all(*rows, options_, keys, defaults, for_each, values);
    return {};
  }
  Status do_insert(const Tensor&, const Tensor&, bool) override {
    return unimplemented("Insert not supported by InitializableLookupTable implementations");
  }
  Status do_remove(const Tensor&) override {
    return unimplemented("Remove not supported by InitializableLookupTable implementations");
  }

 private:
  // Constant once there: read without the lock.
  std::shared_ptr<const Rows> contents() const {
    MutexLock lock(mu_);
    return rows_;
  }
  // The last value of a key won: an earlier, different one is a contradiction.
  Status check_repeated_keys(const Tensor& keys, const Tensor& values) const {
    Rows first(options_);
    for (std::int64_t i = 0; i < keys.num_elements(); ++i) {
      const Tensor key = keys.slice(i, i + 1), value = values.slice(i, i + 1);
      const std::int64_t row = first.row_of(key, 0);
      if (row < 0) {
        TUTTI_RETURN_IF_ERROR(first.put(key, value));
        continue;
      }
      Tensor before(value.dtype(), value.shape());
      cpu::copy_elements(value.dtype(), before.raw(), first.value(row), value.num_elements());
      if (bitwise_equal(before, value)) continue;
      return failed_precondition("HashTable has different value for same key. Key ", element_text(key, 0), " has ",
                                 element_text(before, 0), " and trying to add value ", element_text(value, 0));
    }
    return {};
  }

  mutable Mutex mu_;
  std::shared_ptr<const Rows> rows_ TUTTI_GUARDED_BY(mu_);
};

class MutableHashTable : public LookupTable {
 public:
  explicit MutableHashTable(TableOptions options) : LookupTable(std::move(options)), rows_(options_) {}

  std::int64_t size() const override {
    MutexLock lock(mu_);
    return rows_.size();
  }
  Result<std::pair<Tensor, Tensor>> export_all() const override {
    MutexLock lock(mu_);
    return rows_.all();
  }

 protected:
  Status do_find(const Tensor& keys, const Tensor& defaults, bool for_each, Tensor& values) const override {
    MutexLock lock(mu_);
    find_all(rows_, options_, keys, defaults, for_each, values);
    return {};
  }
  Status do_insert(const Tensor& keys, const Tensor& values, bool replace_all) override {
    MutexLock lock(mu_);
    if (replace_all) {
      TUTTI_ASSIGN_OR_RETURN(const auto old, rows_.all());
      rows_.remove(old.first);
    }
    return rows_.put(keys, values);
  }
  Status do_remove(const Tensor& keys) override {
    MutexLock lock(mu_);
    rows_.remove(keys);
    return {};
  }

 private:
  mutable Mutex mu_;
  Rows rows_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace

Result<std::shared_ptr<LookupTable>> make_hash_table(TableOptions options) {
  TUTTI_RETURN_IF_ERROR(internal::check_table_types(options));
  return std::shared_ptr<LookupTable>(std::make_shared<HashTable>(std::move(options)));
}

Result<std::shared_ptr<LookupTable>> make_mutable_hash_table(TableOptions options) {
  TUTTI_RETURN_IF_ERROR(internal::check_table_types(options));
  return std::shared_ptr<LookupTable>(std::make_shared<MutableHashTable>(std::move(options)));
}

}  // namespace tutti
