#include "tutti/io/tensor_slice.h"

#include "tutti/core/strings.h"

namespace tutti {

namespace {

Result<TensorSlice::Extent> parse_extent(std::string_view piece, std::string_view text) {
  if (piece == "-") return TensorSlice::Extent{};
  const std::vector<std::string_view> numbers = str_split(piece, ',');
  std::int64_t start = 0, length = 0;
  if (numbers.size() != 2 || !parse_int64(numbers[0], &start) || !parse_int64(numbers[1], &length)) {
    return invalid_argument("Expected a pair of numbers or '-' but got '", printable(piece),
                            "': string = ", printable(text));
  }
  if (start < 0 || length <= 0) {
    return invalid_argument("Expected non-negative start and positive length but got start = ", start,
                            ", length = ", length, ": string = ", printable(text));
  }
  return TensorSlice::Extent{start, length};
}

}  // namespace

Result<TensorSlice> TensorSlice::parse(std::string_view text) {
  std::vector<Extent> extents;
  for (std::string_view piece : str_split(text, ':')) {
    if (piece.empty()) continue;  // a scalar has no pieces, and TensorFlow skips the empty ones of others too
    TUTTI_ASSIGN_OR_RETURN(const Extent extent, parse_extent(piece, text));
    extents.push_back(extent);
  }
  if (extents.size() > static_cast<std::size_t>(kMaxRank)) {
    return invalid_argument("a slice of ", extents.size(), " dimensions: string = ", printable(text));
  }
  return TensorSlice(std::move(extents));
}

bool TensorSlice::covers(const Shape& shape) const {
  for (int d = 0; d < rank(); ++d) {
    if (!extents_[d].whole() && (extents_[d].start != 0 || extents_[d].length != shape.dim(d))) return false;
  }
  return true;
}

Result<Shape> TensorSlice::shape_in(const Shape& shape) const {
  if (rank() != shape.rank()) {
    return internal_error("Mismatching ranks: shape = ", shape, ", slice = ", to_string());
  }
  Shape part = shape;
  for (int d = 0; d < rank(); ++d) {
    const Extent& extent = extents_[d];
    if (extent.whole()) continue;
    if (extent.start < 0 || extent.length < 0 || extent.start > shape.dim(d) ||
        extent.length > shape.dim(d) - extent.start) {
      return internal_error("Extent in dimension ", d, " out of bounds: shape = ", shape, ", slice = ", to_string());
    }
    part.set_dim(d, extent.length);
  }
  return part;
}

std::string TensorSlice::to_string() const {
  std::string text;
  for (const Extent& extent : extents_) {
    if (!text.empty()) text += ':';
    text += extent.whole() ? "-" : str_cat(extent.start, ",", extent.length);
  }
  return text;
}

Result<ShapeAndSlice> parse_shape_and_slice(std::string_view text) {
  std::vector<std::string_view> words = str_split(text, ' ');
  if (words.size() < 2) {
    return invalid_argument("Need least two elements in shape_and_slice specification: ", printable(text));
  }
  ShapeAndSlice result;
  TUTTI_ASSIGN_OR_RETURN(result.slice, TensorSlice::parse(words.back()));
  words.pop_back();
  std::vector<std::int64_t> dims;
  for (std::string_view word : words) {
    std::int64_t dim = 0;
    if (!parse_int64(word, &dim)) {
      return invalid_argument("Non numerical dimension in shape_and_slice: ", printable(text));
    }
    dims.push_back(dim);
  }
  TUTTI_ASSIGN_OR_RETURN(result.full_shape, Shape::create(dims));
  TUTTI_ASSIGN_OR_RETURN(result.slice_shape, result.slice.shape_in(result.full_shape));
  return result;
}

}  // namespace tutti
