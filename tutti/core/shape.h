// Shapes. `Shape` is what a tensor has: every dimension known. `PartialShape` is what is known of a
// tensor before it exists: the rank or single dimensions may be open.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/status.h"

namespace tutti {

inline constexpr int kMaxRank = 254;

// Dimensions of a tensor, outermost first, row major. A value type; up to kInline dimensions
// lie inside the object. Invariant: every dimension >= 0 and the element count fits in int64.
class Shape {
 public:
  Shape() = default;  // a scalar
  // Throws Error (kInvalidArgument) for a list that `create` refuses. For shapes from outside use `create`.
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims);
  Shape(const Shape& other) : inline_(other.inline_), num_elements_(other.num_elements_), rank_(other.rank_) {
    if (other.heap_) copy_heap(other);
  }
  Shape(Shape&& other) noexcept  // leaves a scalar behind
      : inline_(other.inline_),
        heap_(std::move(other.heap_)),
        num_elements_(std::exchange(other.num_elements_, 1)),
        rank_(std::exchange(other.rank_, 0)) {}
  Shape& operator=(const Shape& other) {
    if (this != &other) *this = Shape(other);
    return *this;
  }
  Shape& operator=(Shape&& other) noexcept {
    if (this == &other) return *this;
    inline_ = other.inline_;
    heap_ = std::move(other.heap_);
    num_elements_ = std::exchange(other.num_elements_, 1);
    rank_ = std::exchange(other.rank_, 0);
    return *this;
  }

  // Refuses negative dimensions, a rank over kMaxRank and element counts that overflow.
  static Result<Shape> create(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  std::int64_t dim(int i) const { return data()[i]; }
  std::int64_t operator[](int i) const { return data()[i]; }
  std::span<const std::int64_t> dims() const { return {data(), static_cast<std::size_t>(rank_)}; }
  std::int64_t num_elements() const { return num_elements_; }

  // These three throw Error (kInvalidArgument) for a dimension that there is not and for a result that is no shape.
  void set_dim(int i, std::int64_t size);
  void append(std::int64_t size);
  Shape without_dim(int i) const;

  bool operator==(const Shape& other) const;
  // "[2,3]"
  std::string to_string() const;

 private:
  static constexpr int kInline = 5;
  const std::int64_t* data() const { return heap_ ? heap_.get() : inline_.data(); }
  std::int64_t* data() { return heap_ ? heap_.get() : inline_.data(); }
  void copy_heap(const Shape& other);
  void resize(int rank);  // REQUIRES: a scalar so far
  void check_dim(int i) const;
  void recount();

  std::array<std::int64_t, kInline> inline_{};
  std::unique_ptr<std::int64_t[]> heap_;  // holds all dimensions when rank_ > kInline
  std::int64_t num_elements_ = 1;
  int rank_ = 0;
};

inline constexpr std::int64_t kUnknownDim = -1;

// What is known of a shape. Default: nothing.
class PartialShape {
 public:
  PartialShape() = default;
  PartialShape(std::initializer_list<std::int64_t> dims) : dims_(std::vector<std::int64_t>(dims)) {}
  explicit PartialShape(std::vector<std::int64_t> dims) : dims_(std::move(dims)) {}
  PartialShape(const Shape& shape)  // NOLINT: every Shape is a PartialShape
      : dims_(std::vector<std::int64_t>(shape.dims().begin(), shape.dims().end())) {}
  static PartialShape unknown() { return {}; }
  static PartialShape scalar() { return PartialShape(std::vector<std::int64_t>{}); }
  static PartialShape unknown_of_rank(int rank) { return PartialShape(std::vector<std::int64_t>(rank, kUnknownDim)); }
  // Refuses dimensions under -1 and ranks over kMaxRank.
  static Result<PartialShape> create(std::vector<std::int64_t> dims);

  bool has_rank() const { return dims_.has_value(); }
  int rank() const { return dims_ ? static_cast<int>(dims_->size()) : -1; }
  // REQUIRES: has_rank(); kUnknownDim where open.
  std::int64_t dim(int i) const { return (*dims_)[i]; }
  std::span<const std::int64_t> dims() const { return *dims_; }
  void set_dim(int i, std::int64_t size) { (*dims_)[i] = size; }
  void append(std::int64_t size) { dims_->push_back(size); }

  bool fully_known() const;
  // Nothing unless fully known (or when the element count overflows).
  std::optional<Shape> as_shape() const;
  // -1 unless fully known (or when it overflows).
  std::int64_t num_elements() const;
  // No dimension contradicts.
  bool compatible_with(const PartialShape& other) const;
  // The more specific of both; an error that gives both when they contradict.
  Result<PartialShape> merge(const PartialShape& other) const;

  bool operator==(const PartialShape&) const = default;
  // "[?,784]", "<unknown>"
  std::string to_string() const;

 private:
  std::optional<std::vector<std::int64_t>> dims_;
};

// NumPy's rule; an error that gives both shapes when they do not fit.
Result<Shape> broadcast_shapes(const Shape& a, const Shape& b);
Result<PartialShape> broadcast_shapes(const PartialShape& a, const PartialShape& b);

}  // namespace tutti
