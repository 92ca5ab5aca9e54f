#include "tutti/kernels/resources/variable.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace tutti::variable_test {

std::shared_ptr<ResourceSlot> make_slot(const std::string& name) {
  return std::make_shared<ResourceSlot>("localhost", name);
}

std::shared_ptr<ResourceSlot> make_variable(const std::string& name, Tensor value) {
  auto slot = make_slot(name);
  auto variable = std::make_shared<Variable>(value.dtype());
  variable->assign(std::move(value));
  slot->get_or_create([&] { return variable; });
  return slot;
}

Tensor filled(float value, std::int64_t count = 4) {
  Tensor tensor(DType::kFloat, Shape{count});
  for (float& element : tensor.flat<float>()) element = value;
  return tensor;
}

// Adds `amount` to every element.
Status add_to(const std::shared_ptr<ResourceSlot>& slot, float amount) {
  TUTTI_ASSIGN_OR_RETURN(VariableUpdate update, VariableUpdate::begin({&slot, 1}, false));
  const Tensor& old_value = update.old_value(0);
  for (std::int64_t i = 0; i < old_value.num_elements(); ++i) {
    update.new_value(0).data<float>()[i] = old_value.data<float>()[i] + amount;
  }
  update.commit();
  return {};
}

TEST(Variable, HasNoValueUntilAssigned) {
  Variable variable(DType::kFloat, PartialShape{2});
  EXPECT_FALSE(variable.initialised());
  EXPECT_FALSE(variable.read().has_value());
  EXPECT_EQ(variable.version(), 0u);
  EXPECT_EQ(variable.declared_shape(), (PartialShape{2}));
  variable.assign(filled(1));
  EXPECT_TRUE(variable.initialised());
  EXPECT_EQ(variable.version(), 1u);
  EXPECT_EQ(variable.debug_string(), "variable float [4]");
}

TEST(Variable, AssignmentSharesMemory) {
  Variable variable(DType::kFloat);
  Tensor value = filled(3);
  const void* memory = value.raw();
  variable.assign(std::move(value));
  EXPECT_EQ(variable.read().raw(), memory);
}

TEST(Variable, UnpinnedValueIsUpdatedInPlace) {
  auto slot = make_variable("v", filled(1));
  const void* memory = variable_in(*slot)->read().raw();
  ASSERT_TRUE(add_to(slot, 1).ok());
  EXPECT_EQ(variable_in(*slot)->read().raw(), memory);
  EXPECT_EQ(variable_in(*slot)->read().data<float>()[3], 2);
  EXPECT_EQ(variable_in(*slot)->version(), 2u);
}

TEST(Variable, PinnedVersionStaysAndBuffersAlternate) {
  auto slot = make_variable("v", filled(1));
  auto variable = variable_in(*slot);
  Tensor pinned = variable->read();
  const void* first = pinned.raw();
  ASSERT_TRUE(add_to(slot, 1).ok());
  EXPECT_EQ(pinned.data<float>()[0], 1) << "a pinned version changed";
  Tensor second = variable->read();
  EXPECT_NE(second.raw(), first);
  EXPECT_EQ(second.data<float>()[0], 2);
  // With the first version let go and the second pinned, the first one's memory is used again.
  pinned = Tensor();
  ASSERT_TRUE(add_to(slot, 1).ok());
  EXPECT_EQ(variable->read().raw(), first);
  EXPECT_EQ(variable->read().data<float>()[0], 3);
  EXPECT_EQ(second.data<float>()[0], 2);
}

// Whatever it gives counts.
class CountingAllocator : public Allocator {
 public:
  BufferPtr allocate(std::size_t bytes) override {
    ++count;
    return heap_allocator().allocate(bytes);
  }
  AllocatorStats stats() const override { return {}; }
  int count = 0;
};

TEST(Variable, ASecondBufferComesFromWhereItIsToLie) {
  auto slot = make_variable("v", filled(1));
  CountingAllocator allocator;
  const auto update = [&] {
    auto begun = VariableUpdate::begin({&slot, 1}, /*copy_old=*/true, allocator);
    ASSERT_TRUE(begun.ok());
    begun->commit();
  };
  update();
  EXPECT_EQ(allocator.count, 0) << "nobody holds it: in place";
  Tensor pinned = variable_in(*slot)->read();
  update();
  EXPECT_EQ(allocator.count, 1);
  pinned = variable_in(*slot)->read();
  update();
  EXPECT_EQ(allocator.count, 2) << "the first buffer is free, but lies elsewhere";
  const void* second = pinned.raw();
  pinned = variable_in(*slot)->read();
  update();
  EXPECT_EQ(allocator.count, 2) << "the second one is from there";
  EXPECT_EQ(variable_in(*slot)->read().raw(), second);
}

TEST(Variable, CopyOldFillsTheSecondBuffer) {
  auto slot = make_variable("v", filled(5));
  Tensor pinned = variable_in(*slot)->read();
  {
    auto update = VariableUpdate::begin({&slot, 1}, /*copy_old=*/true);
    ASSERT_TRUE(update.ok());
    update->new_value(0).data<float>()[1] = 7;
    update->commit();
  }
  const Tensor now = variable_in(*slot)->read();
  EXPECT_EQ(now.data<float>()[0], 5);
  EXPECT_EQ(now.data<float>()[1], 7);
  EXPECT_EQ(pinned.data<float>()[1], 5);
}

TEST(Variable, StringsAreCopiedToo) {
  auto slot = make_variable("v", Tensor::vector<std::string>({"a", "b"}));
  Tensor pinned = variable_in(*slot)->read();
  auto update = VariableUpdate::begin({&slot, 1}, /*copy_old=*/true);
  ASSERT_TRUE(update.ok());
  update->new_value(0).data<std::string>()[1] = "c";
  update->commit();
  EXPECT_EQ(pinned.data<std::string>()[1], "b");
  EXPECT_EQ(variable_in(*slot)->read().data<std::string>()[0], "a");
  EXPECT_EQ(variable_in(*slot)->read().data<std::string>()[1], "c");
}

TEST(Variable, AbandonedUpdateOfAPinnedVariableChangesNothing) {
  auto slot = make_variable("v", filled(5));
  Tensor pinned = variable_in(*slot)->read();
  {
    auto update = VariableUpdate::begin({&slot, 1}, false);
    ASSERT_TRUE(update.ok());
    update->new_value(0).data<float>()[0] = 9;
  }
  EXPECT_EQ(variable_in(*slot)->read().data<float>()[0], 5);
  EXPECT_EQ(variable_in(*slot)->version(), 1u);
  EXPECT_TRUE(add_to(slot, 1).ok()) << "the locks were not given back";
}

TEST(VariableUpdate, ErrorsNameTheVariable) {
  auto empty = make_slot("weights");
  auto status = VariableUpdate::begin({&empty, 1}, false).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(status.message(), "Attempting to use uninitialized value weights");
  empty->get_or_create([] { return std::make_shared<Variable>(DType::kFloat); });
  EXPECT_EQ(VariableUpdate::begin({&empty, 1}, false).status().code(), Code::kFailedPrecondition);

  auto slot = make_variable("v", filled(1));
  std::vector<std::shared_ptr<ResourceSlot>> twice{slot, slot};
  EXPECT_EQ(VariableUpdate::begin(twice, false).status().code(), Code::kInvalidArgument);
  std::vector<std::shared_ptr<ResourceSlot>> half{slot, empty};
  EXPECT_EQ(VariableUpdate::begin(half, false).status().code(), Code::kFailedPrecondition);
  EXPECT_TRUE(add_to(slot, 1).ok()) << "a failed begin kept a lock";
}

TEST(VariableIn, OtherResourcesAreNoVariables) {
  struct Other : Resource {
    std::string debug_string() const override { return "other"; }
  };
  auto slot = make_slot("x");
  EXPECT_EQ(variable_in(*slot), nullptr);
  slot->get_or_create([] { return std::make_shared<Other>(); });
  EXPECT_EQ(variable_in(*slot), nullptr);
}

// Elements of one version are all equal; a reader that sees two values has seen a torn one.
bool torn(const Tensor& value) {
  for (const float element : value.flat<float>()) {
    if (element != value.data<float>()[0]) return true;
  }
  return false;
}

void run_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

TEST(Variable, ReadersNeverSeeATornValue) {
  constexpr int kUpdates = 2000;
  constexpr std::int64_t kElements = 257;
  auto slot = make_variable("v", filled(0, kElements));
  std::atomic<int> updaters{4};
  std::atomic<int> torn_reads{0};
  std::atomic<int> backwards{0};
  run_threads(7, [&](int thread) {
    if (thread < 4) {
      for (int i = 0; i < kUpdates; ++i) {
        if (!add_to(slot, 1).ok()) ++torn_reads;
      }
      --updaters;
      return;
    }
    // Two readers let go at once, so that updates run in place; one keeps pins, so that they do not.
    std::vector<Tensor> pins;
    std::uint64_t last_version = 0;
    float last_value = 0;
    while (updaters > 0) {
      const std::uint64_t version = variable_in(*slot)->version();
      Tensor value = variable_in(*slot)->read();
      torn_reads += torn(value);
      backwards += version < last_version || value.data<float>()[0] < last_value;
      last_version = version;
      last_value = value.data<float>()[0];
      if (thread == 6) {
        pins.push_back(value);
        if (pins.size() > 3) {
          for (const Tensor& pin : pins) torn_reads += torn(pin);
          pins.clear();
        }
      }
    }
  });
  EXPECT_EQ(torn_reads, 0);
  EXPECT_EQ(backwards, 0);
  EXPECT_EQ(variable_in(*slot)->read().data<float>()[0], 4.0f * kUpdates) << "an update was lost";
  EXPECT_EQ(variable_in(*slot)->version(), 4u * kUpdates + 1);
}

TEST(VariableUpdate, OverlappingUpdatesDoNotDeadlock) {
  constexpr int kUpdates = 1000;
  std::vector<std::shared_ptr<ResourceSlot>> slots;
  for (int i = 0; i < 4; ++i) slots.push_back(make_variable("v" + std::to_string(i), filled(0)));
  run_threads(4, [&](int thread) {
    // Every thread takes three of the four variables, each in another order.
    std::vector<std::shared_ptr<ResourceSlot>> mine{slots[thread], slots[(thread + 2) % 4], slots[(thread + 1) % 4]};
    for (int i = 0; i < kUpdates; ++i) {
      auto update = VariableUpdate::begin(mine, false);
      ASSERT_TRUE(update.ok());
      for (int k = 0; k < 3; ++k) {
        for (std::int64_t e = 0; e < 4; ++e) {
          update->new_value(k).data<float>()[e] = update->old_value(k).data<float>()[e] + 1;
        }
      }
      update->commit();
    }
  });
  for (const auto& slot : slots) EXPECT_EQ(variable_in(*slot)->read().data<float>()[2], 3.0f * kUpdates);
}

}  // namespace tutti::variable_test
