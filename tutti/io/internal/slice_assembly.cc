#include "tutti/io/internal/slice_assembly.h"

#include <algorithm>

#include "tutti/io/internal/slice_copy.h"

namespace tutti {

namespace {

struct Part {
  const TensorSlice* slice;
  Box box;
  Box common;  // with what is wanted
};

// Those that have something of `wanted`; together they must be just as large.
Result<std::vector<Part>> find_parts(const StoredParts& parts, const TensorSlice& wanted_slice, const Box& wanted) {
  std::vector<Part> found;
  const std::int64_t count = wanted.num_elements();
  std::int64_t have = 0;
  for (const TensorSlice& slice : parts.slices) {
    const Result<Shape> shape = slice.shape_in(parts.full_shape);
    if (!shape.ok()) return data_loss("tensor \"", printable(parts.name), "\": ", shape.status().message());
    Box box = box_of(slice, parts.full_shape);
    std::optional<Box> common = intersect(box, wanted);
    if (!common) continue;
    have += common->num_elements();
    if (have > count) {
      return internal_error("Overlapping slices in partitioned tensor ", printable(parts.name), ": ",
                            slice.to_string());
    }
    found.push_back({&slice, std::move(box), *std::move(common)});
  }
  if (have < count) {
    return invalid_argument("Does not have sufficient slices for partitioned tensor ", printable(parts.name),
                            " to restore in slice_spec: ", wanted_slice.to_string());
  }
  return found;
}

Result<Tensor> read_part(const StoredParts& parts, const Part& part, const ReadPart& read) {
  TUTTI_ASSIGN_OR_RETURN(Tensor value, read(*part.slice));
  if (value.dtype() != parts.dtype || !std::ranges::equal(value.shape().dims(), part.box.length)) {
    return internal_error("tensor \"", printable(parts.name), "\": slice ", part.slice->to_string(), " of ",
                          dtype_name(parts.dtype), " ", parts.full_shape, " is stored as ", dtype_name(value.dtype()),
                          " ", value.shape());
  }
  return value;
}

}  // namespace

Result<Tensor> assemble(const StoredParts& parts, const TensorSlice& wanted, std::uint64_t stored_bytes,
                        const ReadPart& read, Allocator& allocator) {
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, wanted.shape_in(parts.full_shape));
  if (shape.num_elements() == 0) return Tensor::create(parts.dtype, shape, allocator);
  const Box box = box_of(wanted, parts.full_shape);
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Part> found, find_parts(parts, wanted, box));
  if (found.size() == 1 && found[0].box == box) return read_part(parts, found[0], read);

  const std::uint64_t element_bytes = std::max<std::uint64_t>(dtype_size(parts.dtype), 1);
  if (static_cast<std::uint64_t>(shape.num_elements()) > stored_bytes / element_bytes) {
    return data_loss("tensor \"", printable(parts.name), "\": ", dtype_name(parts.dtype), " ", shape,
                     " is more than the ", stored_bytes, " bytes stored");
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor result, Tensor::create(parts.dtype, shape, allocator));
  // Parts of the right size in sum may still overlap and leave holes.
  std::vector<bool> covered(static_cast<std::size_t>(shape.num_elements()));
  for (const Part& part : found) {
    TUTTI_ASSIGN_OR_RETURN(const Tensor value, read_part(parts, part, read));
    const bool fresh =
        for_each_run(part.common, part.box, box, [&](std::int64_t from, std::int64_t to, std::int64_t n) {
          if (std::find(covered.begin() + to, covered.begin() + to + n, true) != covered.begin() + to + n) return false;
          std::fill_n(covered.begin() + to, n, true);
          copy_elements(value, from, result, to, n);
          return true;
        });
    if (!fresh) {
      return internal_error("Overlapping slices in partitioned tensor ", printable(parts.name), ": ",
                            part.slice->to_string());
    }
  }
  return result;
}

Result<Tensor> cut(const Tensor& whole, const TensorSlice& slice, Allocator& allocator) {
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, slice.shape_in(whole.shape()));
  if (slice.covers(whole.shape())) return whole;
  TUTTI_ASSIGN_OR_RETURN(Tensor part, Tensor::create(whole.dtype(), shape, allocator));
  if (shape.num_elements() == 0) return part;
  const Box box = box_of(slice, whole.shape());
  const Box all = box_of(TensorSlice::whole(whole.rank()), whole.shape());
  for_each_run(box, all, box, [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    copy_elements(whole, from, part, to, n);
    return true;
  });
  return part;
}

}  // namespace tutti
