// A table by open addressing, bucket for bucket as TensorFlow's, so that what one exports the other can import.
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/resources/internal/table_checks.h"
#include "tutti/kernels/resources/lookup_table.h"

namespace tutti {

namespace {

// Murmur's 64-bit hash, with the seed that TensorFlow uses for strings.
std::uint64_t hash_bytes(std::string_view text) {
  constexpr std::uint64_t kMultiplier = 0xc6a4a7935bd1e995, kSeed = 0xDECAFCAFFE;
  constexpr int kShift = 47;
  const auto byte = [&text](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(text[i])}; };
  std::uint64_t hash = kSeed ^ (text.size() * kMultiplier);
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word = 0;
    for (std::size_t b = 0; b < 8; ++b) word |= byte(at + b) << (8 * b);
    word *= kMultiplier;
    word ^= word >> kShift;
    word *= kMultiplier;
    hash = (hash ^ word) * kMultiplier;
  }
  if (at < text.size()) {
    for (std::size_t b = 0; at + b < text.size(); ++b) hash ^= byte(at + b) << (8 * b);
    hash *= kMultiplier;
  }
  hash = (hash ^ (hash >> kShift)) * kMultiplier;
  return hash ^ (hash >> kShift);
}

std::uint64_t combine(std::uint64_t a, std::uint64_t b) { return a ^ (b + 0x9e3779b97f4a7800 + (a << 10) + (a >> 4)); }

// Hashes and compares key i of tensors whose keys have `size` elements.
class KeyReader {
 public:
  KeyReader(DType dtype, std::int64_t size) : dtype_(dtype), size_(size) {}

  std::uint64_t hash(const Tensor& keys, std::int64_t i) const {
    if (size_ == 1) return hash_element(keys, i);
    std::uint64_t result = 0;
    for (std::int64_t e = 0; e < size_; ++e) result = combine(result, hash_element(keys, i * size_ + e));
    return result;
  }
  bool equal(const Tensor& a, std::int64_t i, const Tensor& b, std::int64_t j) const {
    for (std::int64_t e = 0; e < size_; ++e) {
      const std::int64_t at = i * size_ + e, other = j * size_ + e;
      const bool same = dtype_ == DType::kString
                            ? a.data<std::string>()[at] == b.data<std::string>()[other]
                            : cpu::index_at(a.raw(), dtype_, at) == cpu::index_at(b.raw(), dtype_, other);
      if (!same) return false;
    }
    return true;
  }

 private:
  std::uint64_t hash_element(const Tensor& keys, std::int64_t at) const {
    if (dtype_ == DType::kString) return hash_bytes(keys.data<std::string>()[at]);
    return static_cast<std::uint64_t>(cpu::index_at(keys.raw(), dtype_, at));
  }

  const DType dtype_;
  const std::int64_t size_;
};

// No memory holds so many: a load factor next to nothing ends here, with that error.
constexpr std::int64_t kTooManyBuckets = std::int64_t{1} << 50;

bool is_bucket_count(std::int64_t n) { return n >= 4 && (n & (n - 1)) == 0; }

Shape as_vector(const Shape& shape) { return shape.rank() == 0 ? Shape{1} : shape; }

class DenseHashTable : public LookupTable {
 public:
  DenseHashTable(TableOptions options, DenseTableOptions dense)
      : LookupTable(std::move(options)), dense_(std::move(dense)), key_(options_.key_dtype, key_size()) {}

  Status start() {
    MutexLock lock(mu_);
    return make_buckets(dense_.initial_num_buckets);
  }
  std::int64_t size() const override {
    MutexLock lock(mu_);
    return entries_;
  }
  // Takes what export_all gives: [buckets] + key and value shapes, scalars as vectors of one.
  Status import_all(const Tensor& keys, const Tensor& values) override {
    const PartialShape expected_keys = bucket_shape(keys, as_vector(options_.key_shape));
    const PartialShape expected_values = bucket_shape(keys, as_vector(options_.value_shape));
    if (keys.dtype() != options_.key_dtype || PartialShape(keys.shape()) != expected_keys) {
      return invalid_argument("Expected key shape ", expected_keys, " got ", keys.shape());
    }
    if (values.dtype() != options_.value_dtype || PartialShape(values.shape()) != expected_values) {
      return invalid_argument("Expected shape ", expected_values, " for value, got ", values.shape());
    }
    return do_insert(keys, values, /*replace_all=*/true);
  }
  Result<std::pair<Tensor, Tensor>> export_all() const override {
    MutexLock lock(mu_);
    TUTTI_ASSIGN_OR_RETURN(Tensor keys, keys_.clone());
    TUTTI_ASSIGN_OR_RETURN(Tensor values, values_.clone());
    return std::pair{std::move(keys), std::move(values)};
  }

 protected:
  Status do_find(const Tensor& keys, const Tensor& defaults, bool, Tensor& values) const override {
    TUTTI_RETURN_IF_ERROR(check_reserved(keys));
    MutexLock lock(mu_);
    for (std::int64_t i = 0; i < count_keys(keys); ++i) {
      const std::int64_t bucket = find_bucket(keys, i);
      // As TensorFlow does: the first default is everybody's.
      copy_value(values, i, bucket >= 0 ? values_ : defaults, bucket >= 0 ? bucket : 0);
    }
    return {};
  }
  Status do_insert(const Tensor& keys, const Tensor& values, bool replace_all) override {
    if (!replace_all) TUTTI_RETURN_IF_ERROR(check_reserved(keys));
    MutexLock lock(mu_);
    const std::int64_t count = count_keys(keys);
    if (replace_all) {
      TUTTI_RETURN_IF_ERROR(make_buckets(imported_buckets(keys)));
    } else if (const std::int64_t buckets = buckets_for(entries_ + count, num_buckets_); buckets != num_buckets_) {
      TUTTI_RETURN_IF_ERROR(rebucket(buckets));
    }
    for (std::int64_t i = 0; i < count; ++i) {
      if (replace_all && is_reserved(keys, i)) continue;
      put(keys, i, values);
    }
    return {};
  }
  Status do_remove(const Tensor& keys) override {
    TUTTI_RETURN_IF_ERROR(check_reserved(keys));
    MutexLock lock(mu_);
    for (std::int64_t i = 0; i < count_keys(keys); ++i) {
      const std::int64_t bucket = find_bucket(keys, i);
      if (bucket < 0) continue;
      copy_key(keys_, bucket, dense_.deleted_key, 0);
      --entries_;
    }
    return {};
  }

 private:
  std::int64_t key_size() const { return options_.key_shape.num_elements(); }

  static PartialShape bucket_shape(const Tensor& keys, const Shape& each) {
    PartialShape shape{keys.rank() > 0 ? keys.dim(0) : 0};
    for (const std::int64_t size : each.dims()) shape.append(size);
    return shape;
  }
  // Buckets for a table that was exported, with its free ones: as many, when it was a table like this.
  std::int64_t imported_buckets(const Tensor& keys) const {
    const std::int64_t given = keys.dim(0);
    std::int64_t entries = 0;
    for (std::int64_t i = 0; i < given; ++i) entries += is_reserved(keys, i) ? 0 : 1;
    return buckets_for(entries, is_bucket_count(given) ? given : dense_.initial_num_buckets);
  }
  bool is_reserved(const Tensor& keys, std::int64_t i) const {
    return key_.equal(keys, i, dense_.empty_key, 0) || key_.equal(keys, i, dense_.deleted_key, 0);
  }
  Status check_reserved(const Tensor& keys) const {
    for (std::int64_t i = 0; i < count_keys(keys); ++i) {
      if (!is_reserved(keys, i)) continue;
      return invalid_argument("Using the ", key_.equal(keys, i, dense_.empty_key, 0) ? "empty_key" : "deleted_key",
                              " as a table key is not allowed");
    }
    return {};
  }
  std::int64_t buckets_for(std::int64_t entries, std::int64_t buckets) const {
    const double load = static_cast<double>(dense_.max_load_factor);
    while (static_cast<double>(entries) > static_cast<double>(buckets) * load && buckets < kTooManyBuckets)
      buckets *= 2;
    return buckets;
  }

  Status make_buckets(std::int64_t buckets) TUTTI_REQUIRES(mu_) {
    const auto shape_of = [&](const Shape& each) {
      std::vector<std::int64_t> dims{buckets};
      dims.insert(dims.end(), each.dims().begin(), each.dims().end());
      return Shape::create(dims);
    };
    TUTTI_ASSIGN_OR_RETURN(const Shape key_shape, shape_of(as_vector(options_.key_shape)));
    TUTTI_ASSIGN_OR_RETURN(const Shape value_shape, shape_of(as_vector(options_.value_shape)));
    TUTTI_ASSIGN_OR_RETURN(Tensor keys, Tensor::create(options_.key_dtype, key_shape, heap_allocator()));
    TUTTI_ASSIGN_OR_RETURN(Tensor values, Tensor::create(options_.value_dtype, value_shape, heap_allocator()));
    for (std::int64_t b = 0; b < buckets; ++b) copy_key(keys, b, dense_.empty_key, 0);
    cpu::zero_elements(options_.value_dtype, values.raw(), values.num_elements());
    keys_ = std::move(keys);
    values_ = std::move(values);
    num_buckets_ = buckets;
    entries_ = 0;
    return {};
  }
  Status rebucket(std::int64_t buckets) TUTTI_REQUIRES(mu_) {
    const Tensor old_keys = keys_, old_values = values_;
    const std::int64_t old_buckets = num_buckets_;
    TUTTI_RETURN_IF_ERROR(make_buckets(buckets));
    for (std::int64_t b = 0; b < old_buckets; ++b) {
      if (!is_reserved(old_keys, b)) put(old_keys, b, old_values);
    }
    return {};
  }

  // Buckets in the order in which a key tries them: 0, 1, 3, 6, ... behind its hash.
  class Probe {
   public:
    Probe(std::uint64_t hash, std::int64_t buckets)
        : mask_(static_cast<std::uint64_t>(buckets) - 1), at_(hash & mask_) {}
    std::int64_t bucket() const { return static_cast<std::int64_t>(at_); }
    // False when every bucket was tried.
    bool next() {
      at_ = (at_ + ++step_) & mask_;
      return step_ <= mask_;
    }

   private:
    std::uint64_t mask_;
    std::uint64_t at_;
    std::uint64_t step_ = 0;
  };

  // -1 when the key is not there.
  std::int64_t find_bucket(const Tensor& keys, std::int64_t i) const TUTTI_REQUIRES(mu_) {
    Probe probe(key_.hash(keys, i), num_buckets_);
    do {
      if (key_.equal(keys_, probe.bucket(), keys, i)) return probe.bucket();
      if (key_.equal(keys_, probe.bucket(), dense_.empty_key, 0)) return -1;
    } while (probe.next());
    return -1;
  }
  // REQUIRES: a free bucket, which the load factor sees to.
  void put(const Tensor& keys, std::int64_t i, const Tensor& values) TUTTI_REQUIRES(mu_) {
    std::int64_t bucket = find_bucket(keys, i);
    if (bucket < 0) {
      Probe probe(key_.hash(keys, i), num_buckets_);
      while (!is_reserved(keys_, probe.bucket())) TUTTI_CHECK(probe.next(), "a table without a free bucket");
      bucket = probe.bucket();
      copy_key(keys_, bucket, keys, i);
      ++entries_;
    }
    copy_value(values_, bucket, values, i);
  }
  void copy_key(Tensor& to, std::int64_t at, const Tensor& from, std::int64_t i) const {
    const DType dtype = options_.key_dtype;
    cpu::copy_elements(dtype, cpu::at_element(dtype, to.raw(), at * key_size()),
                       cpu::at_element(dtype, from.raw(), i * key_size()), key_size());
  }
  void copy_value(Tensor& to, std::int64_t at, const Tensor& from, std::int64_t i) const {
    const DType dtype = options_.value_dtype;
    const std::int64_t size = options_.value_shape.num_elements();
    cpu::copy_elements(dtype, cpu::at_element(dtype, to.raw(), at * size), cpu::at_element(dtype, from.raw(), i * size),
                       size);
  }

  const DenseTableOptions dense_;
  const KeyReader key_;
  mutable Mutex mu_;
  Tensor keys_ TUTTI_GUARDED_BY(mu_);
  Tensor values_ TUTTI_GUARDED_BY(mu_);
  std::int64_t num_buckets_ TUTTI_GUARDED_BY(mu_) = 0;
  std::int64_t entries_ TUTTI_GUARDED_BY(mu_) = 0;
};

Status check_dense_options(const TableOptions& options, const DenseTableOptions& dense) {
  const Shape& key = dense.empty_key.shape();
  if (dense.empty_key.dtype() != options.key_dtype || dense.deleted_key.dtype() != options.key_dtype) {
    return invalid_argument("the empty and the deleted key must be ", dtype_name(options.key_dtype));
  }
  if (key.rank() > 1) return invalid_argument("Empty key must be a scalar or a vector, got shape ", key);
  if (dense.deleted_key.shape() != key) {
    return invalid_argument("Empty and deleted keys must have same shape, got shapes: ", key, " and ",
                            dense.deleted_key.shape());
  }
  if (key.num_elements() == 0) return invalid_argument("Empty key must have elements, got shape ", key);
  if (bitwise_equal(dense.empty_key, dense.deleted_key)) {
    return invalid_argument("Empty and deleted keys cannot be equal");
  }
  if (options.value_shape.rank() > 1) {
    return invalid_argument("Empty value must be a scalar or a vector, got shape ", options.value_shape);
  }
  if (!(dense.max_load_factor > 0 && dense.max_load_factor < 1)) {
    return invalid_argument("max_load_factor must be between 0 and 1, got: ", dense.max_load_factor);
  }
  if (!is_bucket_count(dense.initial_num_buckets)) {
    return invalid_argument("Number of buckets must be at least 4 and a power of 2, got: ", dense.initial_num_buckets);
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<LookupTable>> make_dense_hash_table(TableOptions options, DenseTableOptions dense) {
  TUTTI_RETURN_IF_ERROR(internal::check_table_types(options));
  TUTTI_RETURN_IF_ERROR(check_dense_options(options, dense));
  options.key_shape = dense.empty_key.shape();
  auto table = std::make_shared<DenseHashTable>(std::move(options), std::move(dense));
  TUTTI_RETURN_IF_ERROR(table->start());
  return std::shared_ptr<LookupTable>(std::move(table));
}

}  // namespace tutti
