#include <gtest/gtest.h>

#include <vector>

#include "tests/support/kernel_runner.h"
#include "tutti/core/tensor_list.h"

namespace tutti::list_ops_test {

using testing::KernelRunner;
using testing::value_of;

Tensor i32(std::int32_t value) { return Tensor::scalar(value); }
Tensor f32(const std::vector<float>& values) { return Tensor::vector<float>(values); }

class ListOps : public ::testing::Test {
 protected:
  std::unique_ptr<testing::KernelRun> run(const std::string& op, AttrMap attrs, const std::vector<Tensor>& inputs) {
    std::vector<Value> values;
    for (const Tensor& input : inputs) values.push_back(value_of(input));
    return runner_.run(op + std::to_string(count_++), op, std::move(attrs), std::move(values));
  }
  Tensor get(const std::string& op, AttrMap attrs, const std::vector<Tensor>& inputs, int output = 0) {
    auto done = run(op, std::move(attrs), inputs);
    EXPECT_TRUE(done->status().ok()) << done->status().to_string();
    return done->tensor(output);
  }
  void expect_fails(const std::string& op, AttrMap attrs, const std::vector<Tensor>& inputs, const std::string& text) {
    const Status status = run(op, std::move(attrs), inputs)->status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.to_string();
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  }
  Tensor empty_list() { return get("EmptyTensorList", floats_, {i32(-1), i32(-1)}); }
  Tensor list_of(const Tensor& rows) { return get("TensorListFromTensor", floats_, {rows, i32(-1)}); }
  Tensor stack(const Tensor& list) { return get("TensorListStack", floats_, {list, i32(-1)}); }

  const AttrMap floats_{{"element_dtype", DType::kFloat}};
  KernelRunner runner_;
  int count_ = 0;
};

void expect_is(const Tensor& actual, const Tensor& expected) {
  EXPECT_TRUE(bitwise_equal(actual, expected)) << actual.to_string() << "\nexpected " << expected.to_string();
}

TEST_F(ListOps, PushPopLength) {
  Tensor list = empty_list();
  list = get("TensorListPushBack", {}, {list, f32({1})});
  Tensor longer = get("TensorListPushBack", {}, {list, f32({2})});
  expect_is(get("TensorListLength", {}, {longer}), i32(2));
  expect_is(get("TensorListLength", {}, {list}), i32(1));
  expect_is(get("TensorListPopBack", floats_, {longer, i32(-1)}, 1), f32({2}));
  expect_is(stack(get("TensorListPopBack", floats_, {longer, i32(-1)}, 0)), Tensor::of<float>({1, 1}, {1}));
  expect_fails("TensorListPopBack", floats_, {empty_list(), i32(-1)}, "Trying to pop from an empty list.");
}

TEST_F(ListOps, ItemsAndZeros) {
  Tensor list = get("TensorListReserve", floats_, {Tensor::vector<std::int32_t>({2}), i32(3)});
  list = get("TensorListSetItem", {}, {list, i32(1), f32({5, 6})});
  expect_is(get("TensorListGetItem", floats_, {list, i32(1), i32(-1)}), f32({5, 6}));
  expect_is(get("TensorListGetItem", floats_, {list, i32(0), i32(-1)}), f32({0, 0}));
  expect_is(stack(list), Tensor::of<float>({3, 2}, {0, 0, 5, 6, 0, 0}));
  expect_is(get("TensorListElementShape", {{"shape_type", DType::kInt32}}, {list}), Tensor::vector<std::int32_t>({2}));
  expect_is(get("TensorListElementShape", {{"shape_type", DType::kInt64}}, {empty_list()}),
            Tensor::scalar(std::int64_t{-1}));
  expect_fails("TensorListGetItem", floats_, {list, i32(3), i32(-1)},
               "Trying to access element 3 in a list with 3 elements.");
  expect_fails("TensorListSetItem", {}, {list, i32(-1), f32({5, 6})},
               "Trying to modify element -1 in a list with 3 elements.");
  expect_fails("TensorListSetItem", {}, {list, i32(0), f32({5})}, "incompatible shape");
  const Tensor resized =
      get("TensorListSetItem", {{"resize_if_index_out_of_bounds", true}}, {list, i32(4), f32({7, 8})});
  expect_is(get("TensorListLength", {}, {resized}), i32(5));
}

// So a loop that sets one item after another takes time in proportion to the items.
TEST_F(ListOps, AListThatNobodyElseHoldsIsTakenOver) {
  runner_.give_up_inputs();
  const auto object_of = [](const Tensor& list) { return list.scalar<Variant>().object().get(); };
  const auto set_item = [&](Tensor list, float value, bool resize = false, std::int32_t index = 0) {
    std::vector<Value> inputs;
    inputs.push_back(value_of(std::move(list)));
    inputs.push_back(value_of(i32(index)));
    inputs.push_back(value_of(f32({value})));
    const auto done = runner_.run(resize ? "grow" : "set", "TensorListSetItem",
                                  {{"resize_if_index_out_of_bounds", resize}}, std::move(inputs));
    EXPECT_TRUE(done->status().ok()) << done->status().to_string();
    return done->tensor();
  };
  Tensor list = list_of(Tensor::of<float>({2, 1}, {1, 2}));
  const VariantObject* const place = object_of(list);
  list = set_item(std::move(list), 3);
  EXPECT_EQ(object_of(list), place);
  expect_is(stack(list), Tensor::of<float>({2, 1}, {3, 2}));

  // Held as a tensor, as an object in another tensor, and by its items.
  const Tensor changed = set_item(list, 4);
  expect_is(stack(changed), Tensor::of<float>({2, 1}, {4, 2}));
  expect_is(stack(list), Tensor::of<float>({2, 1}, {3, 2}));
  expect_is(stack(set_item(Tensor::scalar(list.scalar<Variant>()), 5)), Tensor::of<float>({2, 1}, {5, 2}));
  expect_is(stack(list), Tensor::of<float>({2, 1}, {3, 2}));
  const Tensor longer = get("TensorListPushBack", {}, {list, f32({7})});
  expect_is(stack(set_item(list, 6, true, 2)), Tensor::of<float>({3, 1}, {3, 2, 6}));
  expect_is(stack(list), Tensor::of<float>({2, 1}, {3, 2}));
  expect_is(stack(set_item(std::move(list), 8)), Tensor::of<float>({2, 1}, {8, 2}));
  expect_is(stack(longer), Tensor::of<float>({3, 1}, {3, 2, 7}));
}

TEST_F(ListOps, StackAndFromTensorAreInverse) {
  const Tensor rows = Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  expect_is(stack(list_of(rows)), rows);
  const Tensor none = Tensor(DType::kFloat, {0, 2});
  expect_is(get("TensorListStack", floats_, {list_of(none), Tensor::vector<std::int32_t>({2})}), none);
  expect_fails("TensorListStack", floats_, {list_of(none), i32(-1)}, "not fully defined");
  AttrMap four = floats_;
  four["num_elements"] = 4;
  expect_fails("TensorListStack", four, {list_of(rows), i32(-1)},
               "Operation expected a list with 4 elements but got a list with 3 elements.");
  expect_fails("TensorListFromTensor", floats_, {Tensor::scalar(1.0f), i32(-1)}, "at least a vector");
  expect_fails("TensorListFromTensor", floats_, {rows, Tensor::vector<std::int32_t>({3})}, "list with shape [3]");
}

TEST_F(ListOps, TypesLimitsAndOtherVariants) {
  expect_fails("TensorListPushBack", {}, {empty_list(), Tensor::scalar(1.0)},
               "op elements double but list elements float");
  expect_fails("TensorListLength", {}, {Tensor(DType::kVariant, Shape{})}, "not a list");
  Tensor limited = get("EmptyTensorList", floats_, {i32(-1), i32(1)});
  limited = get("TensorListPushBack", {}, {limited, f32({1})});
  expect_fails("TensorListPushBack", {}, {limited, f32({1})}, "full list");
  expect_fails("TensorListReserve", floats_, {i32(-1), i32(-2)}, "-2 items");
  expect_fails("EmptyTensorList", floats_, {i32(7), i32(-1)}, "scalar 7");
}

TEST_F(ListOps, ListsDoNotLieTooDeepInOneAnother) {
  const AttrMap lists{{"element_dtype", DType::kVariant}};
  const Tensor empty = get("EmptyTensorList", lists, {i32(-1), i32(-1)});
  Tensor nest = empty;
  for (int depth = 2; depth <= 100; ++depth) nest = get("TensorListPushBack", {}, {empty, nest});
  expect_fails("TensorListPushBack", {}, {empty, nest}, "100 deep");
  expect_fails("OptionalFromValue", {}, {nest}, "100 deep");
  const Tensor reserved = get("TensorListReserve", lists, {i32(-1), i32(1)});
  expect_fails("TensorListSetItem", {}, {reserved, i32(0), nest}, "100 deep");
}

TEST_F(ListOps, ZerosLikeAList) {
  const Tensor list = list_of(Tensor::of<float>({2, 1}, {3, 4}));
  expect_is(stack(get("ZerosLike", {}, {list})), Tensor::of<float>({2, 1}, {0, 0}));
}

TEST_F(ListOps, ZerosAndSumsOfListsOfLists) {
  const Tensor inner = list_of(Tensor::of<float>({2, 1}, {3, 4}));
  const Tensor empty = get("EmptyTensorList", {{"element_dtype", DType::kVariant}}, {i32(-1), i32(-1)});
  // Each level holds the one below twice: taken one by one the innermost would be there 2^60 times.
  Tensor nest = inner;
  for (int depth = 0; depth < 60; ++depth) {
    nest = get("TensorListPushBack", {}, {get("TensorListPushBack", {}, {empty, nest}), nest});
  }
  Tensor zeros = get("ZerosLike", {}, {nest});
  Tensor sum = get("AddN", {}, {nest, nest, zeros});
  for (int depth = 0; depth < 60; ++depth) {
    for (Tensor* list : {&zeros, &sum}) {
      const Tensor last = list->scalar<Variant>().get<TensorList>()->item(1);
      *list = last;
    }
  }
  expect_is(stack(zeros), Tensor::of<float>({2, 1}, {0, 0}));
  expect_is(stack(sum), Tensor::of<float>({2, 1}, {6, 8}));
}

TEST_F(ListOps, Stacks) {
  const AttrMap attrs{{"elem_type", DType::kFloat}};
  const Tensor a = get("StackV2", attrs, {i32(-1)});
  const Tensor b = get("StackV2", attrs, {i32(1)});
  EXPECT_EQ(get("StackPushV2", {}, {a, f32({1})}).num_elements(), 1);
  get("StackPushV2", {}, {a, f32({2})});
  get("StackPushV2", {}, {b, f32({9})});
  expect_fails("StackPushV2", {}, {b, f32({9})}, "overflowed its max_size (1)");
  expect_is(get("StackPopV2", attrs, {a}), f32({2}));
  expect_is(get("StackPopV2", attrs, {a}), f32({1}));
  expect_fails("StackPopV2", attrs, {a}, "is empty when calling Pop()");
  EXPECT_TRUE(run("StackCloseV2", {}, {b})->status().ok());
  expect_fails("StackPopV2", attrs, {b}, "already been closed");
}

TEST_F(ListOps, OneNodeMakesANewStackEachTime) {
  const AttrMap attrs{{"elem_type", DType::kFloat}};
  const Tensor a = runner_.run("loop/stack", "StackV2", attrs, {value_of(i32(-1))})->tensor();
  const Tensor b = runner_.run("loop/stack", "StackV2", attrs, {value_of(i32(-1))})->tensor();
  get("StackPushV2", {}, {a, f32({1})});
  expect_fails("StackPopV2", attrs, {b}, "is empty");
}

TEST_F(ListOps, TensorArrays) {
  const AttrMap dtype{{"dtype", DType::kFloat}};
  auto made = run("TensorArrayV3", dtype, {i32(3)});
  ASSERT_TRUE(made->status().ok()) << made->status().to_string();
  const Tensor handle = made->tensor(0), flow = made->tensor(1);
  get("TensorArrayWriteV3", {}, {handle, i32(0), f32({1, 2}), flow});
  get("TensorArrayScatterV3", {},
      {handle, Tensor::vector<std::int32_t>({2, 1}), Tensor::of<float>({2, 2}, {5, 6, 3, 4}), flow});
  expect_is(get("TensorArraySizeV3", {}, {handle, flow}), i32(3));

  // Two backward parts with one source add to the same gradients.
  auto gradient = run("TensorArrayGradV3", {{"source", "gradients"}}, {handle, flow});
  auto same = run("TensorArrayGradV3", {{"source", "gradients"}}, {handle, flow});
  get("TensorArrayWriteV3", {}, {gradient->tensor(0), i32(1), f32({1, 1}), flow});
  get("TensorArrayWriteV3", {}, {same->tensor(0), i32(1), f32({2, 2}), flow});
  expect_is(get("TensorArrayGatherV3", dtype, {same->tensor(0), Tensor::vector<std::int32_t>({0, 1, 2}), flow}),
            Tensor::of<float>({3, 2}, {0, 0, 3, 3, 0, 0}));

  auto joined = run("TensorArrayConcatV3", dtype, {handle, flow});
  ASSERT_TRUE(joined->status().ok()) << joined->status().to_string();
  expect_is(joined->tensor(0), f32({1, 2, 3, 4, 5, 6}));
  expect_is(joined->tensor(1), Tensor::vector<std::int64_t>({2, 2, 2}));
  expect_fails("TensorArrayReadV3", dtype, {handle, i32(0), flow}, "twice");
  EXPECT_TRUE(run("TensorArrayCloseV3", {}, {handle})->status().ok());
  expect_fails("TensorArraySizeV3", {}, {handle, flow}, "closed");
}

TEST_F(ListOps, TensorArraySplit) {
  const AttrMap dtype{{"dtype", DType::kFloat}};
  auto made = run("TensorArrayV3", dtype, {i32(2)});
  const Tensor handle = made->tensor(0), flow = made->tensor(1);
  const Tensor value = f32({1, 2, 3});
  expect_fails("TensorArraySplitV3", {}, {handle, value, Tensor::vector<std::int64_t>({1, 1}), flow},
               "sum of lengths is 2");
  expect_fails("TensorArraySplitV3", {}, {handle, value, Tensor::vector<std::int64_t>({3}), flow}, "(2 vs. 1)");
  expect_fails("TensorArraySplitV3", {}, {handle, value, Tensor::vector<std::int64_t>({-1, 4}), flow}, "non-negative");
  get("TensorArraySplitV3", {}, {handle, value, Tensor::vector<std::int64_t>({1, 2}), flow});
  expect_is(get("TensorArrayReadV3", dtype, {handle, i32(1), flow}), f32({2, 3}));
  expect_fails("TensorArrayReadV3", {{"dtype", DType::kInt32}}, {handle, i32(0), flow}, "requested dtype int32");
}

}  // namespace tutti::list_ops_test
