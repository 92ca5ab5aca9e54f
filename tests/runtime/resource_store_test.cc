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

}  // namespace tutti::resource_store_test
