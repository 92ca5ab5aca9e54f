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
  List changed = TensorList::with_item(two, 0, item(9));
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

TEST(TensorList, AListOfNobodyElseIsChangedInPlace) {
  List list = std::make_shared<TensorList>(DType::kFloat, PartialShape(), std::vector<Tensor>{item(1), item(2)});
  const TensorList* const place = list.get();
  list = TensorList::with_item(std::move(list), 1, item(5));
  EXPECT_EQ(list.get(), place);
  EXPECT_EQ(values(*list), (std::vector<float>{1, 5}));

  const List held = list;
  list = TensorList::with_item(std::move(list), 0, item(6));
  EXPECT_EQ(values(*held), (std::vector<float>{1, 5}));
  EXPECT_EQ(values(*list), (std::vector<float>{6, 5}));
  // Other lists that share the items keep what they see.
  const List longer = list->with_pushed(item(7));
  const List shorter = list->with_popped();
  list = TensorList::with_item(std::move(list), 0, item(8));
  EXPECT_EQ(values(*list), (std::vector<float>{8, 5}));
  EXPECT_EQ(values(*longer), (std::vector<float>{6, 5, 7}));
  EXPECT_EQ(values(*shorter), (std::vector<float>{6}));
}

TEST(TensorList, AListThatIsSetAsItsOwnItem) {
  List list = std::make_shared<TensorList>(DType::kVariant, PartialShape(), std::vector<Tensor>(2));
  Tensor itself = Tensor::scalar(Variant(list));
  const std::weak_ptr<const TensorList> first = list;
  list = TensorList::with_item(std::move(list), 0, std::move(itself));
  EXPECT_EQ(list->depth(), 2);
  EXPECT_EQ(variant_depth(list->item(0)), 1);
  // Deeper items make the list deeper, also where it is changed in place.
  Tensor shorter = Tensor::scalar(Variant(list->with_popped()));
  list = TensorList::with_item(std::move(list), 1, std::move(shorter));
  EXPECT_EQ(list->depth(), 3);
  List deep = std::make_shared<TensorList>(DType::kVariant, PartialShape(), std::vector<Tensor>(1));
  deep = TensorList::with_item(std::move(deep), 0, Tensor::scalar(Variant(list)));
  EXPECT_EQ(deep->depth(), 4);
  deep = list = nullptr;
  EXPECT_TRUE(first.expired());
}

TEST(TensorList, GrowingSharesItems) {
  constexpr int kItems = 1000;
  List list = std::make_shared<TensorList>(DType::kFloat, PartialShape());
  const Tensor value = item(1);
  std::vector<List> all;
  for (int i = 0; i < kItems; ++i) {
    list = list->resized(2 * i + 1)->with_pushed(value);
    all.push_back(list);
  }
  EXPECT_EQ(list->size(), 2 * kItems);
  EXPECT_EQ(values(*all[1]), (std::vector<float>{-1, 1, -1, 1}));
  EXPECT_LE(value.buffer().use_count(), 2 * kItems);
  // What lies behind a shorter list is not its own.
  EXPECT_EQ(values(*all[1]->with_popped()->resized(5)), (std::vector<float>{-1, 1, -1, -1, -1}));
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
