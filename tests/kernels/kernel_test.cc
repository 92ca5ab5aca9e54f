#include "tutti/kernels/kernel.h"

#include <gtest/gtest.h>

namespace tutti::kernel_test {

class TestScope : public StepScope {
 public:
  TestScope() {
    cancellation = &own_;
    allocator = &heap_allocator();
  }
  ResourceStore& step_resources() override { TUTTI_CHECK(false, "not needed here"); }

 private:
  Cancellation own_;
};

// One kernel execution with one input and one float output.
struct Call {
  explicit Call(Tensor input, bool last) : last_use(last ? 1 : 0) { slot.tensor = std::move(input); }
  KernelContext context() {
    return KernelContext(scope, {.slots = &slot,
                                 .input_index = &index,
                                 .last_use = &last_use,
                                 .outputs = &output,
                                 .output_types = &type,
                                 .num_inputs = 1,
                                 .num_outputs = 1});
  }
  TestScope scope;
  Value slot;
  Value output;
  std::uint32_t index = 0;
  std::uint8_t last_use;
  DType type = DType::kFloat;
};

TEST(KernelContext, AllocatesTheOutputsType) {
  Call call(Tensor::scalar(1), false);
  KernelContext context = call.context();
  Result<Tensor*> out = context.allocate_output(0, {2, 3});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ((*out)->dtype(), DType::kFloat);
  EXPECT_EQ((*out)->shape(), (Shape{2, 3}));
  EXPECT_EQ(*out, &call.output.tensor);
}

TEST(KernelContext, ForwardsMemoryThatNobodyElseNeeds) {
  Call call(Tensor(DType::kFloat, {2, 3}), true);
  const void* memory = call.slot.tensor.raw();
  KernelContext context = call.context();
  Result<Tensor*> out = context.forward_or_allocate(0, 0, {6});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ((*out)->raw(), memory);
  EXPECT_EQ((*out)->shape(), (Shape{6}));
  EXPECT_EQ(context.input(0).raw(), memory) << "the input stays readable";
}

TEST(KernelContext, DoesNotForwardWhatOthersHold) {
  Tensor kept(DType::kFloat, {2});
  Call shared(kept, true);
  EXPECT_EQ(shared.context().forward(0, 0, {2}), nullptr);
  Call later(Tensor(DType::kFloat, {2}), false);
  EXPECT_EQ(later.context().forward(0, 0, {2}), nullptr);
  Call other_type(Tensor(DType::kInt32, {2}), true);
  EXPECT_EQ(other_type.context().forward(0, 0, {2}), nullptr);
  Call other_size(Tensor(DType::kFloat, {2}), true);
  EXPECT_EQ(other_size.context().forward(0, 0, {3}), nullptr);
}

TEST(KernelFrom, RunsTheFunction) {
  KernelFactory factory = kernel_from([](KernelContext& context) -> Status {
    context.set_output(0, context.input(0));
    return {};
  });
  const AttrMap attrs;
  KernelInit init{.node = "n", .op = "o", .attrs = attrs};
  Result<std::unique_ptr<Kernel>> kernel = factory(init);
  ASSERT_TRUE(kernel.ok());
  Call call(Tensor::scalar(4.0f), false);
  KernelContext context = call.context();
  EXPECT_TRUE((*kernel)->compute(context).ok());
  EXPECT_EQ(call.output.tensor.scalar<float>(), 4.0f);
  EXPECT_FALSE((*kernel)->may_block());
}

}  // namespace tutti::kernel_test
