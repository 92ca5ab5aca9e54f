#include "tutti/kernels/resources/tensor_array.h"

#include <gtest/gtest.h>

namespace tutti::tensor_array_test {

TensorArrayOptions floats() { return {.name = "a", .dtype = DType::kFloat}; }

void expect_fails(const Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.to_string();
  EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
}

TEST(TensorArray, WriteOnceReadOnce) {
  TensorArray array(floats(), 2);
  ASSERT_TRUE(array.write(1, Tensor::scalar(5.0f)).ok());
  expect_fails(array.write(1, Tensor::scalar(5.0f)), "index 1 because it has already been written to.");
  EXPECT_EQ(array.read(1)->scalar<float>(), 5);
  expect_fails(array.read(1).status(), "Could not read index 1 twice");
  expect_fails(array.write(1, Tensor::scalar(5.0f)), "already been read");
  expect_fails(array.read(0).status(), "not fully defined");
  expect_fails(array.read(2).status(), "Tried to read from index 2 but array size is: 2");
  expect_fails(array.write(2, Tensor::scalar(5.0f)), "not resizeable and size is: 2");
  expect_fails(array.write(0, Tensor::scalar(5.0)), "dtype is double");
}

TEST(TensorArray, DynamicSizeAndKeptValues) {
  TensorArrayOptions options = floats();
  options.dynamic_size = true;
  options.clear_after_read = false;
  TensorArray array(options, 0);
  ASSERT_TRUE(array.write(3, Tensor::scalar(5.0f)).ok());
  EXPECT_EQ(*array.size(), 4);
  EXPECT_TRUE(array.read(3).ok());
  EXPECT_TRUE(array.read(3).ok());
  expect_fails(array.write(-1, Tensor::scalar(5.0f)), "index -1");
  expect_fails(array.write(std::int64_t{1} << 40, Tensor::scalar(5.0f)), "index 1099511627776");
}

// A length costs nothing; only what is written does.
TEST(TensorArray, LongAndAlmostEmpty) {
  constexpr std::int64_t kPlaces = std::int64_t{1} << 27;
  TensorArrayOptions options = floats();
  options.dynamic_size = true;
  TensorArray grown(options, 0), given(floats(), kPlaces);
  for (TensorArray* array : {&grown, &given}) {
    ASSERT_TRUE(array->write(kPlaces - 1, Tensor::vector<float>({5, 6})).ok());
    EXPECT_EQ(*array->size(), kPlaces);
    auto gradient = *array->make_gradient("a@g");
    EXPECT_EQ(*gradient->size(), kPlaces);
    EXPECT_EQ(gradient->read(kPlaces - 1)->shape(), (Shape{2}));
    EXPECT_EQ(array->read(kPlaces - 1)->data<float>()[1], 6);
  }
}

TEST(TensorArray, ShapesBind) {
  TensorArrayOptions options = floats();
  options.element_shape = PartialShape{-1, 2};
  options.identical_element_shapes = true;
  TensorArray array(options, 3);
  expect_fails(array.write(0, Tensor(DType::kFloat, {3})), "incompatible");
  ASSERT_TRUE(array.write(0, Tensor(DType::kFloat, {3, 2})).ok());
  expect_fails(array.write(1, Tensor(DType::kFloat, {4, 2})), "incompatible");
  EXPECT_EQ(array.read(1)->shape(), (Shape{3, 2})) << "unwritten places are zeros of the known shape";
}

TEST(TensorArray, GradientsAdd) {
  TensorArray array(floats(), 2);
  ASSERT_TRUE(array.write(0, Tensor::vector<float>({1, 2})).ok());
  ASSERT_TRUE(array.read(0).ok());
  auto gradient = *array.make_gradient("a@g");
  const Tensor first = Tensor::vector<float>({10, 20});
  ASSERT_TRUE(gradient->write(0, first).ok());
  ASSERT_TRUE(gradient->write(0, Tensor::vector<float>({1, 1})).ok());
  expect_fails(gradient->write(0, Tensor::vector<float>({1})), "cannot add");
  EXPECT_EQ(gradient->read(0)->data<float>()[1], 21);
  EXPECT_EQ(first.data<float>()[1], 20) << "a value that others hold was changed";
  auto zeros = *array.make_gradient("a@h");
  EXPECT_EQ(zeros->read(0)->shape(), (Shape{2})) << "an unwritten gradient is zeros like the value";
}

TEST(TensorArray, AGradientIsPackedAsItsArrayWasTakenApart) {
  TensorArrayOptions options = floats();
  options.dynamic_size = true;
  TensorArray array(options, 2);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(array.write(i, Tensor::scalar(1.0f)).ok());
  EXPECT_EQ(*(*array.make_gradient("a@unmarked"))->packed_size(), 2);
  TensorArray marked(options, 2);
  ASSERT_TRUE(marked.write(1, Tensor::scalar(1.0f)).ok());
  marked.mark_size();
  ASSERT_TRUE(marked.write(4, Tensor::scalar(1.0f)).ok());
  EXPECT_EQ(*marked.packed_size(), 5);
  const auto gradient = *marked.make_gradient("a@g");
  EXPECT_EQ(*gradient->size(), 5);
  EXPECT_EQ(*gradient->packed_size(), 2);
  gradient->mark_size();  // of its own writes nothing is asked
  EXPECT_EQ(*gradient->packed_size(), 2);
}

TEST(TensorArray, ClosedArraysFail) {
  TensorArray array(floats(), 2);
  array.close();
  expect_fails(array.write(0, Tensor::scalar(5.0f)), "already been closed");
  expect_fails(array.read(0).status(), "already been closed");
  expect_fails(array.make_gradient("g").status(), "already been closed");
}

}  // namespace tutti::tensor_array_test
