#include "tutti/kernels/resources/lookup_table.h"

#include <algorithm>
#include <vector>

#include "tutti/kernels/resources/internal/table_checks.h"

namespace tutti {

namespace internal {

Status check_table_types(const TableOptions& options) {
  const DType key = options.key_dtype;
  if (key != DType::kInt32 && key != DType::kInt64 && key != DType::kString) {
    return invalid_argument("tables have keys of int32, int64 or string, not ", dtype_name(key));
  }
  if (options.value_dtype == DType::kInvalid) return invalid_argument("a table needs a type of values");
  return {};
}

}  // namespace internal

Status LookupTable::check_keys(const Tensor& keys) const {
  if (keys.dtype() != options_.key_dtype) {
    return invalid_argument("Key must be type ", dtype_name(options_.key_dtype), " but got ", dtype_name(keys.dtype()));
  }
  const auto each = options_.key_shape.dims();
  const auto given = keys.shape().dims();
  if (given.size() >= each.size() && std::equal(each.rbegin(), each.rend(), given.rbegin())) return {};
  std::vector<std::int64_t> expected{keys.rank() > 0 ? keys.dim(0) : 1};
  expected.insert(expected.end(), each.begin(), each.end());
  return invalid_argument("Expected key shape ", PartialShape(std::move(expected)), " got ", keys.shape());
}

Result<Shape> LookupTable::values_shape(const Tensor& keys) const {
  TUTTI_RETURN_IF_ERROR(check_keys(keys));
  const auto given = keys.shape().dims();
  std::vector<std::int64_t> dims(given.begin(), given.end() - options_.key_shape.rank());
  dims.insert(dims.end(), options_.value_shape.dims().begin(), options_.value_shape.dims().end());
  return Shape::create(dims);
}

Status LookupTable::check_values(const Tensor& keys, const Tensor& values) const {
  TUTTI_ASSIGN_OR_RETURN(const Shape expected, values_shape(keys));
  if (values.dtype() != options_.value_dtype) {
    return invalid_argument("Value must be type ", dtype_name(options_.value_dtype), " but got ",
                            dtype_name(values.dtype()));
  }
  if (values.shape() == expected) return {};
  return invalid_argument("Expected shape ", expected, " for value, got ", values.shape());
}

Result<Tensor> LookupTable::find(const Tensor& keys, const Tensor& default_value) const {
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, values_shape(keys));
  if (default_value.dtype() != options_.value_dtype) {
    return invalid_argument("Default value must be type ", dtype_name(options_.value_dtype), " but got ",
                            dtype_name(default_value.dtype()));
  }
  const bool for_each = default_value.shape() != options_.value_shape;
  if (for_each && default_value.shape() != shape) {
    return invalid_argument("Expected shape ", options_.value_shape, " or ", shape, " for default value, got ",
                            default_value.shape());
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor values, Tensor::create(options_.value_dtype, shape, heap_allocator()));
  TUTTI_RETURN_IF_ERROR(do_find(keys, default_value, for_each, values));
  return values;
}

Status LookupTable::insert(const Tensor& keys, const Tensor& values) {
  TUTTI_RETURN_IF_ERROR(check_values(keys, values));
  return do_insert(keys, values, /*replace_all=*/false);
}

Status LookupTable::remove(const Tensor& keys) {
  TUTTI_RETURN_IF_ERROR(check_keys(keys));
  return do_remove(keys);
}

Status LookupTable::import_all(const Tensor& keys, const Tensor& values) {
  TUTTI_RETURN_IF_ERROR(check_values(keys, values));
  return do_insert(keys, values, /*replace_all=*/true);
}

Status LookupTable::initialise(const Tensor&, const Tensor&) {
  return invalid_argument("Table ", printable(options_.name), " is not initializable");
}

std::string LookupTable::debug_string() const {
  return str_cat("table '", printable(options_.name), "' from ", dtype_name(options_.key_dtype), " to ",
                 dtype_name(options_.value_dtype), " ", options_.value_shape);
}

}  // namespace tutti
