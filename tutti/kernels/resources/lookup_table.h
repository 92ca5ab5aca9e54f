// Lookup tables: from keys to values, between steps.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tutti/core/resource_handle.h"
#include "tutti/core/status.h"
#include "tutti/core/tensor.h"

namespace tutti {

struct TableOptions {
  std::string name;
  DType key_dtype = DType::kInt64;  // int32, int64 or string
  DType value_dtype = DType::kFloat;
  Shape key_shape;    // of one key
  Shape value_shape;  // of one value
};

// Takes and gives many keys at once: a tensor of keys has any shape that ends in the shape of one key, and values go
// with it element by element. Thread-safe: every call sees or makes one state.
//
// Errors: kInvalidArgument for tensors that do not fit, in TensorFlow's words.
class LookupTable : public Resource {
 public:
  const TableOptions& options() const { return options_; }

  virtual std::int64_t size() const = 0;
  // `default_value`: one value for all keys that are not there, or one for each key.
  Result<Tensor> find(const Tensor& keys, const Tensor& default_value) const;
  // Overwrites.
  Status insert(const Tensor& keys, const Tensor& values);
  // Keys that are not there do not matter.
  Status remove(const Tensor& keys);
  // Replaces all that is there.
  virtual Status import_all(const Tensor& keys, const Tensor& values);
  // Keys and values, in any order.
  virtual Result<std::pair<Tensor, Tensor>> export_all() const = 0;
  // Fills an immutable table. Others: kInvalidArgument "... is not initializable".
  virtual Status initialise(const Tensor& keys, const Tensor& values);

  std::string debug_string() const override;

 protected:
  explicit LookupTable(TableOptions options) : options_(std::move(options)) {}

  // The tensors fit. `defaults` has one value, or one for each key (`default_for_each`).
  virtual Status do_find(const Tensor& keys, const Tensor& defaults, bool default_for_each, Tensor& values) const = 0;
  virtual Status do_insert(const Tensor& keys, const Tensor& values, bool replace_all) = 0;
  virtual Status do_remove(const Tensor& keys) = 0;

  Status check_keys(const Tensor& keys) const;
  // The shape of the values that go with `keys`.
  Result<Shape> values_shape(const Tensor& keys) const;
  Status check_values(const Tensor& keys, const Tensor& values) const;
  std::int64_t count_keys(const Tensor& keys) const { return keys.num_elements() / options_.key_shape.num_elements(); }

  const TableOptions options_;
};

// Filled once by `initialise` (or `import_all`), then constant. A second time is accepted when it brings as many
// entries, and changes nothing; else kFailedPrecondition. Before the first: kFailedPrecondition "Table not
// initialized.".
Result<std::shared_ptr<LookupTable>> make_hash_table(TableOptions options);

// Changes at any time. Keys are scalars.
Result<std::shared_ptr<LookupTable>> make_mutable_hash_table(TableOptions options);

struct DenseTableOptions {
  Tensor empty_key;    // marks a bucket that never held anything
  Tensor deleted_key;  // marks a bucket whose key was removed
  std::int64_t initial_num_buckets = 131072;
  float max_load_factor = 0.8F;
};

// Open addressing over one tensor of keys and one of values, which `export_all` gives as they are, free buckets
// included: the buckets are those that TensorFlow would use. Keys are scalars or vectors. The key shape is that of
// the empty key.
Result<std::shared_ptr<LookupTable>> make_dense_hash_table(TableOptions options, DenseTableOptions dense);

}  // namespace tutti
