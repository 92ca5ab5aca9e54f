#include "tutti/ops/host/internal/example_batch.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <type_traits>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti {

namespace {

// What one thread should at least have to do.
constexpr std::int64_t kBytesPerPiece = 64 << 10;

template <typename Fn>
void with_feature_type(DType dtype, const Fn& fn) {
  if (dtype == DType::kFloat) return fn(float{});
  if (dtype == DType::kInt64) return fn(std::int64_t{});
  fn(std::string());
}

// One pass finds and counts the wanted features of every example; then the outputs are made, and a second pass copies
// the values to where they belong. Both go over examples in parallel.
class ExampleBatch {
 public:
  ExampleBatch(KernelContext& ctx, std::span<const std::string> serialized, std::span<const std::string> names,
               const ExampleSpec& spec)
      : ctx_(ctx), serialized_(serialized), names_(names), spec_(spec), table_(keys_of(spec)) {
    std::int64_t bytes = 0;
    for (const std::string& example : serialized) bytes += std::ssize(example);
    grain_ = std::max<std::int64_t>(1, kBytesPerPiece * size() / std::max<std::int64_t>(bytes, 1));
  }

  // Room for what is found: of many examples and keys, so that the step's allocator has a say.
  Status prepare() {
    if (table_.repeated() != nullptr) {
      return invalid_argument("Key: ", printable(*table_.repeated()), " is asked for more than once");
    }
    static_assert(std::is_trivially_destructible_v<FeatureRef>);
    const std::array<std::int64_t, 3> dims{size(), table_.size(), sizeof(FeatureRef)};
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims));
    TUTTI_ASSIGN_OR_RETURN(room_, ctx_.allocate_temp(DType::kUint8, shape));
    refs_ = static_cast<FeatureRef*>(room_.raw());
    std::uninitialized_default_construct_n(refs_, size() * table_.size());
    return {};
  }

  Status find() {
    struct First {
      std::int64_t example = std::numeric_limits<std::int64_t>::max();
      Status error;
    };
    std::vector<First> errors(static_cast<std::size_t>(ctx_.team().size()));
    cpu::parallel_ranges(ctx_.team(), size(), grain_, [&](int piece, std::int64_t begin, std::int64_t end) {
      std::vector<int> order;  // of the last example's features: the next one's are mostly the same
      for (std::int64_t i = begin; i < end; ++i) {
        Status status = find_in(i, order);
        if (status.ok()) continue;
        errors[static_cast<std::size_t>(piece)] = {i, std::move(status)};
        return;
      }
    });
    const auto first = std::min_element(errors.begin(), errors.end(),
                                        [](const First& a, const First& b) { return a.example < b.example; });
    return first == errors.end() ? Status() : first->error;
  }

  Status give(bool single, const ExampleOutputs& at) {
    for (std::size_t i = 0; i < spec_.sparse.size(); ++i) TUTTI_RETURN_IF_ERROR(give_sparse(i, single, at));
    for (std::size_t i = 0; i < spec_.dense.size(); ++i) TUTTI_RETURN_IF_ERROR(give_dense(i, single, at));
    for (std::size_t i = 0; i < spec_.ragged.size(); ++i) TUTTI_RETURN_IF_ERROR(give_ragged(i, single, at));
    return {};
  }

 private:
  static std::vector<std::string> keys_of(const ExampleSpec& spec) {
    std::vector<std::string> keys;
    for (const ListFeature& feature : spec.sparse) keys.push_back(feature.key);
    for (const DenseFeature& feature : spec.dense) keys.push_back(feature.key);
    for (const ListFeature& feature : spec.ragged) keys.push_back(feature.key);
    return keys;
  }

  std::int64_t size() const { return std::ssize(serialized_); }
  std::size_t first_dense() const { return spec_.sparse.size(); }
  std::size_t first_ragged() const { return spec_.sparse.size() + spec_.dense.size(); }
  FeatureRef& ref(std::int64_t example, std::size_t slot) {
    return refs_[example * table_.size() + static_cast<std::int64_t>(slot)];
  }
  DType dtype_of_slot(std::size_t slot) const {
    if (slot < first_dense()) return spec_.sparse[slot].dtype;
    if (slot < first_ragged()) return spec_.dense[slot - first_dense()].dtype;
    return spec_.ragged[slot - first_ragged()].dtype;
  }
  std::string name(std::int64_t example) const {
    return names_.empty() ? "<unknown>" : printable(names_[static_cast<std::size_t>(example)]);
  }

  Status find_in(std::int64_t i, std::vector<int>& order) {
    const std::string& bytes = serialized_[static_cast<std::size_t>(i)];
    std::size_t ordinal = 0;
    std::string_view broken;
    const bool whole = for_each_message(bytes, 1, [&](std::string_view features) {
      return for_each_entry(features, [&](std::string_view key, std::string_view feature) {
        if (ordinal == order.size()) order.push_back(KeyTable::kNone);
        int& slot = order[ordinal++];
        if (slot == KeyTable::kNone || table_.key(slot) != key) slot = table_.find(key);
        if (slot == KeyTable::kNone) return true;
        if (read_feature(feature, &ref(i, static_cast<std::size_t>(slot)))) return true;
        broken = table_.key(slot);
        return false;
      });
    });
    if (!whole) {
      return broken.data() == nullptr ? invalid_argument("Name: ", name(i), ", Index: ", i,
                                                         ".  Could not parse example input of ", bytes.size(), " bytes")
                                      : invalid_argument("Name: ", name(i), ", Key: ", printable(broken),
                                                         ", Index: ", i, ".  Can't parse serialized Example.");
    }
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(table_.size()); ++slot) {
      TUTTI_RETURN_IF_ERROR(check(i, slot));
    }
    return {};
  }

  Status check(std::int64_t i, std::size_t slot) {
    const FeatureRef& found = ref(i, slot);
    const std::string& key = table_.key(static_cast<int>(slot));
    if (found.dtype != DType::kInvalid && found.dtype != dtype_of_slot(slot)) {
      return invalid_argument("Name: ", name(i), ", Key: ", printable(key), ", Index: ", i,
                              ".  Data types don't match. Data type: ", dtype_name(found.dtype),
                              " but expected type: ", dtype_name(dtype_of_slot(slot)));
    }
    if (slot < first_dense() || slot >= first_ragged()) return {};
    const DenseFeature& dense = spec_.dense[slot - first_dense()];
    if (found.dtype == DType::kInvalid) {
      if (dense.variable || dense.default_value.num_elements() > 0 || dense.stride == 0) return {};
      return invalid_argument("Name: ", name(i), ", Feature: ", printable(key),
                              " (data type: ", dtype_name(dense.dtype), ") is required but could not be found.");
    }
    if (!dense.variable && found.count == dense.stride) return {};
    if (dense.variable && dense.stride > 0 && found.count % dense.stride == 0) return {};
    return invalid_argument("Name: ", name(i), ", Key: ", printable(key), ", Index: ", i, ".  Number of ",
                            dtype_name(dense.dtype), " values ",
                            dense.variable ? "is not a multiple of stride length" : "!= expected",
                            ".  Values size: ", found.count, " but output shape: ", dense.shape);
  }

  // Where each example's values begin among those of the batch; then how many there are.
  std::vector<std::int64_t> starts(std::size_t slot) {
    std::vector<std::int64_t> list(static_cast<std::size_t>(size()) + 1);
    for (std::int64_t i = 0; i < size(); ++i) {
      list[static_cast<std::size_t>(i) + 1] = list[static_cast<std::size_t>(i)] + ref(i, slot).count;
    }
    return list;
  }

  Status give_values(std::size_t slot, const std::vector<std::int64_t>& begins, int output) {
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx_.allocate_output(output, Shape{begins.back()}));
    with_feature_type(dtype_of_slot(slot), [&]<typename T>(T) {
      T* to = out->data<T>();
      cpu::parallel_for(ctx_.team(), size(), grain_, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          if (ref(i, slot).count > 0) copy_feature(ref(i, slot), to + begins[static_cast<std::size_t>(i)]);
        }
      });
    });
    return {};
  }

  Status give_sparse(std::size_t slot, bool single, const ExampleOutputs& at) {
    const std::vector<std::int64_t> begins = starts(slot);
    const int i = static_cast<int>(slot);
    TUTTI_RETURN_IF_ERROR(give_values(slot, begins, at.sparse_values + i));
    TUTTI_ASSIGN_OR_RETURN(Tensor * indices,
                           ctx_.allocate_output(at.sparse_indices + i, Shape{begins.back(), single ? 1 : 2}));
    std::int64_t* to = indices->data<std::int64_t>();
    std::int64_t longest = 0;
    for (std::int64_t row = 0; row < size(); ++row) {
      const std::int64_t count = ref(row, slot).count;
      longest = std::max(longest, count);
      for (std::int64_t k = 0; k < count; ++k) {
        if (!single) *to++ = row;
        *to++ = k;
      }
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * shape, ctx_.allocate_output(at.sparse_shapes + i, Shape{single ? 1 : 2}));
    std::int64_t* dims = shape->data<std::int64_t>();
    if (!single) *dims++ = size();
    *dims = longest;
    return {};
  }

  Status give_ragged(std::size_t i, bool single, const ExampleOutputs& at) {
    const std::vector<std::int64_t> begins = starts(first_ragged() + i);
    TUTTI_RETURN_IF_ERROR(give_values(first_ragged() + i, begins, at.ragged_values + static_cast<int>(i)));
    const DType type = spec_.ragged[i].splits;
    if (type == DType::kInt32 && begins.back() > std::numeric_limits<std::int32_t>::max()) {
      return invalid_argument("Key: ", printable(spec_.ragged[i].key), ": ", begins.back(),
                              " values do not fit row splits of int32");
    }
    TUTTI_ASSIGN_OR_RETURN(
        Tensor * splits, ctx_.allocate_output(at.ragged_splits + static_cast<int>(i), Shape{single ? 0 : size() + 1}));
    if (!single) cpu::write_indices(begins, *splits);
    return {};
  }

  Status give_dense(std::size_t i, bool single, const ExampleOutputs& at) {
    const DenseFeature& dense = spec_.dense[i];
    const std::size_t slot = first_dense() + i;
    std::int64_t row = dense.stride;  // values of one example
    std::vector<std::int64_t> dims(dense.shape.dims().begin(), dense.shape.dims().end());
    if (dense.variable) {
      row = 0;
      for (std::int64_t k = 0; k < size(); ++k) row = std::max(row, ref(k, slot).count);
      dims[0] = dense.stride > 0 ? row / dense.stride : 0;
    }
    if (!single) dims.insert(dims.begin(), size());
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx_.allocate_output(at.dense_values + static_cast<int>(i), shape));
    if (out->num_elements() == 0) return {};
    with_feature_type(dense.dtype, [&]<typename T>(T) {
      T* to = out->data<T>();
      cpu::parallel_for(ctx_.team(), size(), grain_, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t k = begin; k < end; ++k) copy_row<T>(ref(k, slot), dense, row, to + k * row);
      });
    });
    return {};
  }

  template <typename T>
  static void copy_row(const FeatureRef& found, const DenseFeature& dense, std::int64_t row, T* to) {
    if (found.dtype != DType::kInvalid) copy_feature(found, to);
    if (dense.variable) {
      std::fill(to + found.count, to + row, dense.default_value.scalar<T>());
    } else if (found.dtype == DType::kInvalid) {
      std::copy_n(dense.default_value.data<T>(), row, to);
    }
  }

  KernelContext& ctx_;
  const std::span<const std::string> serialized_;
  const std::span<const std::string> names_;
  const ExampleSpec& spec_;
  const KeyTable table_;
  Tensor room_;
  FeatureRef* refs_ = nullptr;  // in room_, by example, then slot: sparse, dense, ragged
  std::int64_t grain_ = 1;
};

}  // namespace

Status set_dense_shapes(std::span<const DType> types, std::span<const PartialShape> shapes, ExampleSpec* spec) {
  if (types.size() != spec->dense.size() || shapes.size() != spec->dense.size()) {
    return invalid_argument(spec->dense.size(), " dense keys, but ", types.size(), " types and ", shapes.size(),
                            " shapes");
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    DenseFeature& dense = spec->dense[i];
    dense.dtype = types[i];
    dense.shape = shapes[i];
    dense.variable = shapes[i].has_rank() && shapes[i].rank() > 0 && shapes[i].dim(0) == kUnknownDim;
    PartialShape inner = shapes[i];
    if (dense.variable) inner.set_dim(0, 1);
    const std::optional<Shape> known = inner.as_shape();
    if (!known) {
      return invalid_argument("dense_shapes[", i, "] has unknown rank or unknown inner dimensions: ", shapes[i]);
    }
    dense.stride = known->num_elements();
  }
  return {};
}

Status set_dense_default(std::size_t i, const Tensor& value, ExampleSpec* spec) {
  DenseFeature& dense = spec->dense[i];
  if (value.dtype() != dense.dtype) {
    return invalid_argument("dense_defaults[", i, "].dtype() == ", dtype_name(value.dtype()), " != dense_types_[", i,
                            "] == ", dtype_name(dense.dtype));
  }
  if (dense.variable && value.num_elements() != 1) {
    return invalid_argument(
        "dense_shape[", i, "] is a variable length shape: ", dense.shape, ", therefore def_value[", i,
        "] must contain a single element (the padding element).  But its shape is: ", value.shape());
  }
  if (!dense.variable && value.num_elements() > 0 && !dense.shape.compatible_with(value.shape())) {
    return invalid_argument("def_value[", i, "].shape() == ", value.shape(), " is not compatible with dense_shapes_[",
                            i, "] == ", dense.shape);
  }
  dense.default_value = value;
  return {};
}

Status parse_examples(KernelContext& ctx, std::span<const std::string> serialized, std::span<const std::string> names,
                      bool single, const ExampleSpec& spec, const ExampleOutputs& outputs) {
  ExampleBatch batch(ctx, serialized, names, spec);
  TUTTI_RETURN_IF_ERROR(batch.prepare());
  TUTTI_RETURN_IF_ERROR(batch.find());
  return batch.give(single, outputs);
}

}  // namespace tutti
