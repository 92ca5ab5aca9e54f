#include "tutti/core/tensor_list.h"

#include <gtest/gtest.h>

namespace tutti::tensor_list_test {

using List = std::shared_ptr<const TensorList>;

Tensor item(float value) { return Tensor::scalar(value); }

std::vector<float> values(const TensorList& list) {
  std::vector<float> out;
  for (const Tensor& tensor : list.items()) out.push_back(tensor.has_value() ? tensor.scalar<float>() : -1);
  return out;
}

TEST(TensorList, ChangesGiveNewLists) {
  List empty = std::make_shared<TensorList>(DType::kFloat, PartialShape::scalar());
  List one = empty->with_pushed(item(1));
  List two = one->with_pushed(item(2));
  List other = one->with_pushed(item(3));  // beside `two`, which already uses the place behind `one`
  EXPECT_EQ(values(*empty), std::vector<float>{});
  EXPECT_EQ(values(*one), (std::vector<float>{1}));
  EXPECT_EQ(values(*two), (std::vector<float>{1, 2}));
  EXPECT_EQ(values(*other), (std::vector<float>{1, 3}));
  List changed = two->with_item(0, item(9));
  EXPECT_EQ(values(*changed), (std::vector<float>{9, 2}));
  EXPECT_EQ(values(*two), (std::vector<float>{1, 2}));
  List popped = two->with_popped();
  List pushed_again = popped->with_pushed(item(5));
  EXPECT_EQ(values(*popped), (std::vector<float>{1}));
  EXPECT_EQ(values(*pushed_again), (std::vector<float>{1, 5}));
  EXPECT_EQ(values(*two), (std::vector<float>{1, 2}));
}

TEST(TensorList, ResizedListsHaveUnsetItems) {
  List list = std::make_shared<TensorList>(DType::kFloat, PartialShape(), std::vector<Tensor>{item(1), item(2)});
  EXPECT_EQ(values(*list->resized(4)), (std::vector<float>{1, 2, -1, -1}));
  EXPECT_EQ(values(*list->resized(1)), (std::vector<float>{1}));
  EXPECT_EQ(list->size(), 2);
  EXPECT_EQ(list->debug_string(), "list of 2 float <unknown>");
}

TEST(TensorList, CommonShape) {
  TensorList list(DType::kFloat, PartialShape{-1, 2}, std::vector<Tensor>{Tensor(), Tensor(DType::kFloat, {3, 2})});
  EXPECT_EQ(*list.common_shape(), (PartialShape{3, 2}));
  TensorList mixed(DType::kFloat, PartialShape(),
                   std::vector<Tensor>{Tensor(DType::kFloat, {3}), Tensor(DType::kFloat, {2})});
  EXPECT_EQ(mixed.common_shape().status().code(), Code::kInvalidArgument);
}

TEST(TensorList, PushingSharesItemsEvenWhenOldListsLive) {
  constexpr int kItems = 1000;
  List list = std::make_shared<TensorList>(DType::kFloat, PartialShape());
  const Tensor value = item(1);
  std::vector<List> all;
  for (int i = 0; i < kItems; ++i) {
    list = list->with_pushed(value);
    all.push_back(list);
  }
  EXPECT_EQ(list->size(), kItems);
  // Lists that copied each other's items would hold half a million.
  EXPECT_LE(value.buffer().use_count(), 2 * kItems);
}

TEST(TensorList, ListsOfListsShareItemsToo) {
  constexpr int kItems = 1000;
  List list = std::make_shared<TensorList>(DType::kVariant, PartialShape());
  const Tensor value = Tensor::scalar(Variant(std::make_shared<TensorList>(DType::kFloat, PartialShape())));
  std::vector<List> all;
  for (int i = 0; i < kItems; ++i) {
    list = list->with_pushed(value);
    all.push_back(list);
    ASSERT_EQ(list->depth(), 2);
  }
  EXPECT_LE(value.buffer().use_count(), 2 * kItems);
}

// It would never go if the items held it.
TEST(TensorList, AListBehindItself) {
  List list = std::make_shared<TensorList>(DType::kVariant, PartialShape());
  std::weak_ptr<const TensorList> first;
  for (int i = 0; i < 3; ++i) {
    list = list->with_pushed(Tensor::scalar(Variant(list)));
    if (i == 0) first = list;
    EXPECT_EQ(list->depth(), i + 2);
    EXPECT_EQ(variant_depth(list->item(i)), i + 1);
  }
  list = nullptr;
  EXPECT_TRUE(first.expired());
}

}  // namespace tutti::tensor_list_test
