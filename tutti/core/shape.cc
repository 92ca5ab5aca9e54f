#include "tutti/core/shape.h"

#include <algorithm>

namespace tutti {

namespace {

// The element count, or -1 when there is none: a negative dimension, or a product over int64. As in
// TensorFlow a zero does not excuse an overflow of the other dimensions, so that every product of some
// of the dimensions fits, too.
std::int64_t count_elements(std::span<const std::int64_t> dims) {
  std::int64_t product = 1;
  bool any_zero = false;
  for (const std::int64_t dim : dims) {
    if (dim < 0) return -1;
    if (dim == 0) {
      any_zero = true;
    } else if (__builtin_mul_overflow(product, dim, &product)) {
      return -1;
    }
  }
  return any_zero ? 0 : product;
}

std::string dims_to_string(std::span<const std::int64_t> dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ',';
    if (dims[i] == kUnknownDim) {
      text += '?';
    } else {
      internal::append_int(text, dims[i]);
    }
  }
  text += ']';
  return text;
}

Status rank_error(std::size_t rank) {
  return invalid_argument("shape: ", rank, " dimensions, at most ", kMaxRank, " are supported");
}

Status broadcast_error(const std::string& a, const std::string& b) {
  return invalid_argument("shapes ", a, " and ", b, " do not broadcast together");
}

// What two dimensions broadcast to; nothing when they do not.
std::optional<std::int64_t> broadcast_dims(std::int64_t a, std::int64_t b) {
  if (a == b || b == 1) return a;
  if (a == 1) return b;
  if (a == kUnknownDim) return b;  // b is neither open nor 1: whatever a turns out to be, b stays
  if (b == kUnknownDim) return a;
  return std::nullopt;
}

// Aligned at the last dimension; the shorter list counts as led by ones. Nothing when they do not fit.
std::optional<std::vector<std::int64_t>> broadcast_lists(std::span<const std::int64_t> a,
                                                         std::span<const std::int64_t> b) {
  if (a.size() < b.size()) std::swap(a, b);
  std::vector<std::int64_t> dims(a.begin(), a.end());
  const std::size_t lead = a.size() - b.size();
  for (std::size_t i = 0; i < b.size(); ++i) {
    const std::optional<std::int64_t> dim = broadcast_dims(a[lead + i], b[i]);
    if (!dim) return std::nullopt;
    dims[lead + i] = *dim;
  }
  return dims;
}

}  // namespace

Shape::Shape(std::span<const std::int64_t> dims) {
  if (dims.size() > kMaxRank) throw_error(rank_error(dims.size()));
  resize(static_cast<int>(dims.size()));
  std::copy(dims.begin(), dims.end(), data());
  recount();
}

Result<Shape> Shape::create(std::span<const std::int64_t> dims) {
  if (dims.size() > kMaxRank) return rank_error(dims.size());
  for (const std::int64_t dim : dims) {
    if (dim < 0) return invalid_argument("shape [", str_join(dims, ","), "]: dimension ", dim, " is negative");
  }
  if (count_elements(dims) < 0) {
    return invalid_argument("shape ", dims_to_string(dims), ": the number of elements does not fit in 64 bits");
  }
  return Shape(dims);
}

void Shape::check_dim(int i) const {
  if (i < 0 || i >= rank_) throw_error(invalid_argument("shape ", *this, ": there is no dimension ", i));
}

void Shape::set_dim(int i, std::int64_t size) {
  check_dim(i);
  Shape changed = *this;
  changed.data()[i] = size;
  changed.recount();
  *this = std::move(changed);
}

void Shape::append(std::int64_t size) {
  if (rank_ >= kMaxRank) throw_error(rank_error(static_cast<std::size_t>(rank_) + 1));
  Shape longer;
  longer.resize(rank_ + 1);
  std::copy_n(data(), rank_, longer.data());
  longer.data()[rank_] = size;
  longer.recount();
  *this = std::move(longer);
}

Shape Shape::without_dim(int i) const {
  check_dim(i);
  Shape shorter;
  shorter.resize(rank_ - 1);
  std::copy_n(data(), i, shorter.data());
  std::copy(data() + i + 1, data() + rank_, shorter.data() + i);
  shorter.recount();
  return shorter;
}

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ && std::equal(data(), data() + rank_, other.data());
}

std::string Shape::to_string() const { return dims_to_string(dims()); }

void Shape::copy_heap(const Shape& other) {
  heap_ = std::make_unique<std::int64_t[]>(other.rank_);
  std::copy_n(other.heap_.get(), other.rank_, heap_.get());
}

void Shape::resize(int rank) {
  if (rank > kInline) heap_ = std::make_unique<std::int64_t[]>(rank);
  rank_ = rank;
}

void Shape::recount() {
  num_elements_ = count_elements(dims());
  if (num_elements_ < 0) {
    throw_error(invalid_argument("shape ", *this, ": a dimension is negative, or the elements do not fit in 64 bits"));
  }
}

Result<PartialShape> PartialShape::create(std::vector<std::int64_t> dims) {
  if (dims.size() > kMaxRank) return rank_error(dims.size());
  for (const std::int64_t dim : dims) {
    if (dim < kUnknownDim)
      return invalid_argument("shape [", str_join(dims, ","), "]: dimension ", dim, " is under -1");
  }
  return PartialShape(std::move(dims));
}

bool PartialShape::fully_known() const {
  return dims_ && std::find(dims_->begin(), dims_->end(), kUnknownDim) == dims_->end();
}

std::optional<Shape> PartialShape::as_shape() const {
  if (!dims_ || dims_->size() > kMaxRank || count_elements(*dims_) < 0) return std::nullopt;
  return Shape(std::span<const std::int64_t>(*dims_));
}

std::int64_t PartialShape::num_elements() const { return dims_ ? count_elements(*dims_) : -1; }

bool PartialShape::compatible_with(const PartialShape& other) const {
  if (!dims_ || !other.dims_) return true;
  return std::equal(dims_->begin(), dims_->end(), other.dims_->begin(), other.dims_->end(),
                    [](std::int64_t a, std::int64_t b) { return a == b || a == kUnknownDim || b == kUnknownDim; });
}

Result<PartialShape> PartialShape::merge(const PartialShape& other) const {
  if (!compatible_with(other)) return invalid_argument("shapes ", *this, " and ", other, " contradict each other");
  if (!dims_) return other;
  PartialShape merged = *this;
  if (!other.dims_) return merged;
  for (std::size_t i = 0; i < dims_->size(); ++i) {
    if ((*merged.dims_)[i] == kUnknownDim) (*merged.dims_)[i] = (*other.dims_)[i];
  }
  return merged;
}

std::string PartialShape::to_string() const { return dims_ ? dims_to_string(*dims_) : "<unknown>"; }

Result<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  const std::optional<std::vector<std::int64_t>> dims = broadcast_lists(a.dims(), b.dims());
  if (!dims) return broadcast_error(a.to_string(), b.to_string());
  return Shape::create(*dims);
}

Result<PartialShape> broadcast_shapes(const PartialShape& a, const PartialShape& b) {
  if (!a.has_rank() || !b.has_rank()) return PartialShape::unknown();
  std::optional<std::vector<std::int64_t>> dims = broadcast_lists(a.dims(), b.dims());
  if (!dims) return broadcast_error(a.to_string(), b.to_string());
  return PartialShape(*std::move(dims));
}

}  // namespace tutti
