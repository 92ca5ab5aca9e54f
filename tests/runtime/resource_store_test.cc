#include "tutti/runtime/resource_store.h"

#include <gtest/gtest.h>

#include "tutti/kernels/resources/variable.h"

namespace tutti::resource_store_test {

void fill(ResourceSlot& slot) {
  slot.get_or_create([] { return std::make_shared<Variable>(DType::kFloat); });
}

TEST(LocalResourceStore, GivesTheSameSlotForTheSameName) {
  LocalResourceStore store;
  EXPECT_EQ(store.slot("", "w"), store.slot(ResourceStore::kDefaultContainer, "w"));
  EXPECT_NE(store.slot("", "w"), store.slot("", "b"));
  EXPECT_NE(store.slot("a", "w"), store.slot("b", "w"));
}

TEST(LocalResourceStore, ResetEmptiesTheNamedContainersOnly) {
  LocalResourceStore store;
  auto a = store.slot("a", "w");
  auto b = store.slot("b", "w");
  fill(*a);
  fill(*b);
  store.reset({"a"});
  EXPECT_EQ(a->get(), nullptr);
  EXPECT_NE(b->get(), nullptr);
  store.reset({});
  EXPECT_EQ(b->get(), nullptr);
  fill(*a);
  EXPECT_EQ(store.slot("a", "w")->get(), a->get()) << "a slot stays in its place after a reset";
}

TEST(LocalResourceStore, SlotsThatNobodyHoldsAndNothingIsInGo) {
  LocalResourceStore store;
  auto held = store.slot("a", "held");
  fill(*store.slot("a", "filled"));
  for (int i = 0; i < 10'000; ++i) static_cast<void>(store.slot("c" + std::to_string(i % 7), std::to_string(i)));
  EXPECT_LE(store.num_slots(), 200u);
  EXPECT_EQ(store.slot("a", "held"), held);
  EXPECT_NE(store.slot("a", "filled")->get(), nullptr);
  store.reset({});
  EXPECT_EQ(store.num_slots(), 1u) << "that which is held";
  EXPECT_EQ(store.slot("a", "held"), held);
}

}  // namespace tutti::resource_store_test
