#include "tutti/kernels/cpu/partition.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/number_types.h"

namespace tutti::cpu {

namespace {

template <typename T>
bool is_set(const T& value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
    return static_cast<float>(value) != 0.0f;
  } else {
    return value != T{};
  }
}

template <typename T>
Status where_of(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  const int rank = input.rank();
  if (rank == 0) return invalid_argument("Where: a scalar has no indices");
  const std::span<const T> elements = input.flat<T>();
  const std::int64_t found = std::count_if(elements.begin(), elements.end(), is_set<T>);
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(std::array<std::int64_t, 2>{found, rank}));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  if (found == 0) return {};
  DimList strides;
  strides_of(input.shape(), &strides);
  std::int64_t* to = out->data<std::int64_t>();
  for (std::int64_t i = 0; i < input.num_elements(); ++i) {
    if (!is_set(elements[i])) continue;
    std::int64_t rest = i;
    for (int d = 0; d < rank; ++d) {
      *to++ = rest / strides[d];
      rest %= strides[d];
    }
  }
  return {};
}

}  // namespace

Status where(KernelContext& ctx) {
  const DType dtype = ctx.input(0).dtype();
  if (dtype == DType::kBool) return where_of<bool>(ctx);
  return with_number(
      dtype, [&]<typename T>(T) -> Status { return where_of<T>(ctx); },
      [&]() -> Status { return unimplemented("Where of ", dtype_name(dtype)); });
}

namespace {

// What elements are told apart by: 16-bit floats by their value, as the wider ones.
template <typename T>
struct KeyOf {
  using type = T;
};
template <>
struct KeyOf<Half> {
  using type = float;
};
template <>
struct KeyOf<Bfloat16> {
  using type = float;
};

template <typename T>
Status unique_of(KernelContext& ctx) {
  using Key = typename KeyOf<T>::type;
  const Tensor& input = ctx.input(0);
  const std::span<const T> elements = input.flat<T>();
  TUTTI_ASSIGN_OR_RETURN(Tensor * positions, ctx.allocate_output(1, input.shape()));
  std::unordered_map<Key, std::int64_t> seen;
  seen.reserve(elements.size());
  std::vector<std::int64_t> firsts;
  const bool narrow = positions->dtype() == DType::kInt32;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const auto [at, added] = seen.try_emplace(static_cast<Key>(elements[i]), static_cast<std::int64_t>(firsts.size()));
    if (added) firsts.push_back(static_cast<std::int64_t>(i));
    if (narrow) {
      positions->data<std::int32_t>()[i] = static_cast<std::int32_t>(at->second);
    } else {
      positions->data<std::int64_t>()[i] = at->second;
    }
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{static_cast<std::int64_t>(firsts.size())}));
  T* to = out->data<T>();
  for (const std::int64_t first : firsts) *to++ = elements[first];
  return {};
}

}  // namespace

Status unique(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  if (input.rank() != 1) return invalid_argument("unique expects a 1D vector, not ", input.shape());
  const std::int64_t count = input.num_elements();
  TUTTI_RETURN_IF_ERROR(check_fits({&count, 1}, ctx.output_type(1), "size"));
  if (input.dtype() == DType::kString) return unique_of<std::string>(ctx);
  if (input.dtype() == DType::kBool) return unique_of<bool>(ctx);
  return with_real(
      input.dtype(), [&]<typename T>(T) -> Status { return unique_of<T>(ctx); },
      [&]() -> Status { return unimplemented("Unique of ", dtype_name(input.dtype())); });
}

Status dynamic_partition(KernelContext& ctx) {
  const Tensor& data = ctx.input(0);
  const Tensor& partitions = ctx.input(1);
  const int parts = ctx.num_outputs();
  const int prefix = partitions.rank();
  bool fits = data.rank() >= prefix;
  for (int d = 0; fits && d < prefix; ++d) fits = data.dim(d) == partitions.dim(d);
  if (!fits) {
    return invalid_argument("data.shape must start with partitions.shape, got data.shape = ", data.shape(),
                            ", partitions.shape = ", partitions.shape());
  }
  const std::int32_t* part_of = partitions.data<std::int32_t>();
  const std::int64_t count = partitions.num_elements();
  std::vector<std::int64_t> sizes(parts);
  for (std::int64_t i = 0; i < count; ++i) {
    if (part_of[i] < 0 || part_of[i] >= parts) {
      return invalid_argument("partitions[", i, "] = ", part_of[i], " is not in [0, ", parts, ")");
    }
    ++sizes[part_of[i]];
  }
  const std::int64_t row = elements_from(data.shape(), prefix);
  std::vector<char*> ends(parts);
  for (int p = 0; p < parts; ++p) {
    DimList dims;
    dims.push_back(sizes[p]);
    for (int d = prefix; d < data.rank(); ++d) dims.push_back(data.dim(d));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(p, shape));
    ends[p] = static_cast<char*>(out->raw());
  }
  if (row == 0) return {};
  const DType dtype = data.dtype();
  const std::int64_t row_bytes = row * static_cast<std::int64_t>(element_stride(dtype));
  for (std::int64_t i = 0; i < count; ++i) {
    copy_elements(dtype, ends[part_of[i]], at_element(dtype, data.raw(), i * row), row);
    ends[part_of[i]] += row_bytes;
  }
  return {};
}

namespace {

// Checks indices and data pair by pair; gives the number of rows and the shape of one.
Status check_stitch(KernelContext& ctx, int pairs, std::int64_t* rows, DimList* row_dims) {
  *rows = 0;
  for (int i = 0; i < pairs; ++i) {
    const Tensor& indices = ctx.input(i);
    const Tensor& data = ctx.input(pairs + i);
    const int prefix = indices.rank();
    bool fits = data.rank() >= prefix;
    for (int d = 0; fits && d < prefix; ++d) fits = data.dim(d) == indices.dim(d);
    if (!fits) {
      return invalid_argument("data[", i, "].shape = ", data.shape(), " does not start with indices[", i,
                              "].shape = ", indices.shape());
    }
    DimList rest;
    for (int d = prefix; d < data.rank(); ++d) rest.push_back(data.dim(d));
    if (i == 0) {
      *row_dims = rest;
    } else if (!std::ranges::equal(rest.span(), row_dims->span())) {
      return invalid_argument("Need data[0].shape[", ctx.input(0).rank(), ":] = data[", i, "].shape[", prefix,
                              ":], got data[0].shape = ", ctx.input(pairs).shape(), ", data[", i,
                              "].shape = ", data.shape());
    }
    for (const std::int32_t index : indices.flat<std::int32_t>()) {
      if (index < 0) return invalid_argument("indices[", i, "] holds ", index, ", which is negative");
      *rows = std::max<std::int64_t>(*rows, index + std::int64_t{1});
    }
  }
  return {};
}

}  // namespace

Status dynamic_stitch(KernelContext& ctx) {
  const int pairs = ctx.num_inputs() / 2;
  std::int64_t rows;
  DimList row_dims;
  TUTTI_RETURN_IF_ERROR(check_stitch(ctx, pairs, &rows, &row_dims));
  if (row_dims.size == kMaxRank) return invalid_argument("data have too many dimensions: ", kMaxRank);
  DimList dims;
  dims.push_back(rows);
  for (const std::int64_t dim : row_dims.span()) dims.push_back(dim);
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  if (out->num_elements() == 0) return {};
  const DType dtype = out->dtype();
  const std::int64_t row = out->num_elements() / rows;
  // Rows that no index names are zeros rather than whatever the memory held.
  zero_elements(dtype, out->raw(), out->num_elements());
  for (int i = 0; i < pairs; ++i) {
    const Tensor& data = ctx.input(pairs + i);
    std::int64_t from = 0;
    for (const std::int32_t index : ctx.input(i).flat<std::int32_t>()) {
      copy_elements(dtype, at_element(dtype, out->raw(), index * row), at_element(dtype, data.raw(), from), row);
      from += row;
    }
  }
  return {};
}

}  // namespace tutti::cpu
