#include "tutti/core/shape.h"

#include <gtest/gtest.h>

#include <limits>

namespace tutti::shape_test {

constexpr std::int64_t kHuge = std::int64_t{1} << 62;

TEST(Shape, DefaultIsAScalar) {
  const Shape shape;
  EXPECT_EQ(shape.rank(), 0);
  EXPECT_EQ(shape.num_elements(), 1);
  EXPECT_EQ(shape.to_string(), "[]");
  EXPECT_EQ(shape, Shape{});
}

TEST(Shape, DimensionsInlineAndOnTheHeap) {
  for (int rank = 0; rank <= 12; ++rank) {
    const std::vector<std::int64_t> dims(rank, 2);
    const Shape shape{std::span<const std::int64_t>(dims)};
    EXPECT_EQ(shape.rank(), rank);
    EXPECT_EQ(shape.num_elements(), 1 << rank);
    EXPECT_TRUE(std::equal(dims.begin(), dims.end(), shape.dims().begin(), shape.dims().end()));
  }
  EXPECT_EQ((Shape{2, 3, 4}).to_string(), "[2,3,4]");
  EXPECT_EQ((Shape{2, 3, 4})[1], 3);
}

TEST(Shape, CreateRefusesWhatIsNoShape) {
  const auto create = [](std::vector<std::int64_t> dims) { return Shape::create(dims); };
  EXPECT_TRUE(create({}).ok());
  EXPECT_TRUE(create({0, 5}).ok());
  EXPECT_EQ(create({2, -1}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(create({2, -1}).status().message(), "shape [2,-1]: dimension -1 is negative");
  EXPECT_EQ(create({kHuge, 2}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(create({3037000500, 3037000500}).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(create({3037000499, 3037000499}).ok());
  EXPECT_TRUE(create({std::numeric_limits<std::int64_t>::max()}).ok());
  EXPECT_EQ(create(std::vector<std::int64_t>(kMaxRank + 1, 1)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(create(std::vector<std::int64_t>(kMaxRank, 1))->rank(), kMaxRank);
}

TEST(Shape, AZeroDoesNotExcuseAnOverflow) {
  EXPECT_FALSE(Shape::create(std::vector<std::int64_t>{0, kHuge, kHuge}).ok());
  EXPECT_FALSE(Shape::create(std::vector<std::int64_t>{kHuge, kHuge, 0}).ok());
  EXPECT_EQ(Shape::create(std::vector<std::int64_t>{0, kHuge})->num_elements(), 0);
}

TEST(Shape, CopiesAreIndependent) {
  for (const Shape& original : {Shape{2, 3}, Shape{1, 2, 3, 4, 5, 6, 7}}) {
    Shape copy = original;
    EXPECT_EQ(copy, original);
    copy.set_dim(0, 9);
    EXPECT_NE(copy.dim(0), original.dim(0));
    EXPECT_FALSE(copy == original);
    copy = original;
    EXPECT_EQ(copy, original);
    copy = *&copy;
    EXPECT_EQ(copy, original);
  }
  Shape shape{1, 2, 3, 4, 5, 6};
  shape = Shape{7};  // back from the heap
  EXPECT_EQ(shape, Shape{7});
  shape = Shape{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(shape.rank(), 8);
}

TEST(Shape, WhatWasMovedFromIsAScalar) {
  for (const Shape& original : {Shape{2, 3}, Shape{1, 2, 3, 4, 5, 6, 7}}) {
    Shape source = original;
    Shape target = std::move(source);
    EXPECT_EQ(target, original);
    EXPECT_EQ(source, Shape{});  // NOLINT: the point of the test
    EXPECT_EQ(source.num_elements(), 1);
    source = target;
    EXPECT_EQ(source, original);
    target = std::move(source);
    EXPECT_EQ(target, original);
    const Shape copy = source;  // NOLINT
    EXPECT_EQ(copy, Shape{});
  }
}

TEST(Shape, AppendSetAndRemove) {
  Shape shape;
  for (int i = 1; i <= 8; ++i) shape.append(i);
  EXPECT_EQ(shape, (Shape{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(shape.num_elements(), 40320);
  shape.set_dim(7, 0);
  EXPECT_EQ(shape.num_elements(), 0);
  shape = shape.without_dim(7);
  EXPECT_EQ(shape.num_elements(), 5040);
  EXPECT_EQ(shape.without_dim(0), (Shape{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(shape.without_dim(3), (Shape{1, 2, 3, 5, 6, 7}));
  EXPECT_EQ(shape.without_dim(6).without_dim(5), (Shape{1, 2, 3, 4, 5}));  // back inline
  EXPECT_EQ(Shape{7}.without_dim(0), Shape{});
}

TEST(Shape, MistakesThrowAndChangeNothing) {
  const auto thrown = [](const auto& mistake) -> std::string {
    try {
      mistake();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidArgument);
      return error.what();
    }
    return "nothing";
  };
  EXPECT_NE(thrown([] { Shape{-1}; }).find("a dimension is negative"), std::string::npos);
  EXPECT_NE(thrown([] { Shape{kHuge, 4}; }).find("do not fit in 64 bits"), std::string::npos);
  EXPECT_NE(thrown([] { (void)Shape{2}.without_dim(1); }).find("shape [2]: there is no dimension 1"),
            std::string::npos);
  Shape shape{2, 3};
  EXPECT_NE(thrown([&] { shape.set_dim(0, -1); }), "nothing");
  EXPECT_NE(thrown([&] { shape.set_dim(2, 1); }), "nothing");
  EXPECT_NE(thrown([&] { shape.append(kHuge); }), "nothing");
  EXPECT_EQ(shape, (Shape{2, 3}));
  EXPECT_EQ(shape.num_elements(), 6);
}

TEST(PartialShape, Printing) {
  EXPECT_EQ(PartialShape().to_string(), "<unknown>");
  EXPECT_EQ(PartialShape::scalar().to_string(), "[]");
  EXPECT_EQ((PartialShape{kUnknownDim, 784}).to_string(), "[?,784]");
  EXPECT_EQ(PartialShape(Shape{1, 2}).to_string(), "[1,2]");
}

TEST(PartialShape, WhatIsKnown) {
  EXPECT_FALSE(PartialShape::unknown().has_rank());
  EXPECT_EQ(PartialShape::unknown().rank(), -1);
  EXPECT_EQ(PartialShape::unknown_of_rank(2), (PartialShape{kUnknownDim, kUnknownDim}));
  EXPECT_FALSE(PartialShape::unknown().fully_known());
  EXPECT_FALSE((PartialShape{kUnknownDim, 2}).fully_known());
  EXPECT_TRUE((PartialShape{3, 2}).fully_known());
  EXPECT_EQ((PartialShape{3, 2}).num_elements(), 6);
  EXPECT_EQ((PartialShape{kUnknownDim, 0}).num_elements(), -1);
  EXPECT_EQ((PartialShape{3, 2}).as_shape(), (Shape{3, 2}));
  EXPECT_EQ((PartialShape{kUnknownDim}).as_shape(), std::nullopt);
  EXPECT_EQ(PartialShape::unknown().as_shape(), std::nullopt);
  EXPECT_EQ((PartialShape{kHuge, kHuge}).as_shape(), std::nullopt);
  EXPECT_EQ((PartialShape{kHuge, kHuge}).num_elements(), -1);
}

TEST(PartialShape, CreateRefusesWhatIsNoShape) {
  EXPECT_TRUE(PartialShape::create({-1, 0, 7}).ok());
  EXPECT_EQ(PartialShape::create({-2}).status().code(), Code::kInvalidArgument);
  EXPECT_FALSE(PartialShape::create(std::vector<std::int64_t>(kMaxRank + 1, 1)).ok());
}

TEST(PartialShape, Merge) {
  const PartialShape left{kUnknownDim, 3, kUnknownDim};
  const PartialShape right{2, kUnknownDim, kUnknownDim};
  EXPECT_TRUE(left.compatible_with(right));
  EXPECT_EQ(*left.merge(right), (PartialShape{2, 3, kUnknownDim}));
  EXPECT_EQ(*left.merge(PartialShape::unknown()), left);
  EXPECT_EQ(*PartialShape::unknown().merge(left), left);
  EXPECT_FALSE(left.compatible_with(PartialShape{kUnknownDim, 4, kUnknownDim}));
  EXPECT_FALSE(left.compatible_with(PartialShape{kUnknownDim, 3}));
  const Status status = (PartialShape{2, 3}).merge(PartialShape{2, 4}).status();
  EXPECT_EQ(status, invalid_argument("shapes [2,3] and [2,4] contradict each other"));
}

TEST(Broadcast, NumPysRule) {
  EXPECT_EQ(*broadcast_shapes(Shape{2, 3}, Shape{3}), (Shape{2, 3}));
  EXPECT_EQ(*broadcast_shapes(Shape{3}, Shape{2, 3}), (Shape{2, 3}));
  EXPECT_EQ(*broadcast_shapes(Shape{4, 1}, Shape{1, 5}), (Shape{4, 5}));
  EXPECT_EQ(*broadcast_shapes(Shape{}, Shape{2}), (Shape{2}));
  EXPECT_EQ(*broadcast_shapes(Shape{}, Shape{}), Shape{});
  EXPECT_EQ(*broadcast_shapes(Shape{0}, Shape{1}), Shape{0});
  EXPECT_EQ(*broadcast_shapes(Shape{1, 0}, Shape{3, 1}), (Shape{3, 0}));
  EXPECT_EQ(broadcast_shapes(Shape{2, 3}, Shape{2}).status(),
            invalid_argument("shapes [2,3] and [2] do not broadcast together"));
  EXPECT_FALSE(broadcast_shapes(Shape{0}, Shape{2}).ok());
  EXPECT_FALSE(broadcast_shapes(Shape{kHuge, 1}, Shape{1, kHuge}).ok());  // each fits, the result does not
}

TEST(Broadcast, PartialShapes) {
  constexpr std::int64_t kOpen = kUnknownDim;
  const auto both = [](PartialShape a, PartialShape b) {
    const PartialShape result = *broadcast_shapes(a, b);
    EXPECT_EQ(result, *broadcast_shapes(b, a));
    return result;
  };
  EXPECT_EQ(both({kOpen, 3}, {3}), (PartialShape{kOpen, 3}));
  EXPECT_EQ(both({kOpen}, {4}), (PartialShape{4}));
  EXPECT_EQ(both({kOpen}, {1}), (PartialShape{kOpen}));
  EXPECT_EQ(both({kOpen}, {0}), (PartialShape{0}));
  EXPECT_EQ(both({kOpen}, {kOpen}), (PartialShape{kOpen}));
  EXPECT_EQ(both(PartialShape::unknown(), {4}), PartialShape::unknown());
  EXPECT_FALSE(broadcast_shapes(PartialShape{kOpen, 3}, PartialShape{2}).ok());
}

}  // namespace tutti::shape_test
