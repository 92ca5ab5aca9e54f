#include <gtest/gtest.h>

#include <vector>

#include "tests/support/kernel_runner.h"
#include "tutti/kernels/resources/variable.h"

namespace tutti::variable_ops_test {

using testing::KernelRunner;
using testing::value_of;

Tensor f32(const std::vector<float>& values) { return Tensor::vector<float>(values); }
Tensor i32(const std::vector<std::int32_t>& values) { return Tensor::vector<std::int32_t>(values); }

void expect_is(const Tensor& actual, const Tensor& expected) {
  EXPECT_TRUE(bitwise_equal(actual, expected)) << actual.to_string() << "\nexpected " << expected.to_string();
}

class RefVariableOps : public ::testing::Test {
 protected:
  Value variable(const std::string& name, DType dtype = DType::kFloat, const PartialShape& shape = {2}) {
    return runner_.run(name, "VariableV2", {{"dtype", dtype}, {"shape", shape}})->output(0);
  }
  Tensor read(const Value& ref) { return runner_.run("read", "Identity", {}, {ref})->tensor(); }
  Status update(const std::string& op, const Value& ref, std::vector<Tensor> values, AttrMap attrs = {}) {
    std::vector<Value> inputs{ref};
    for (Tensor& value : values) inputs.push_back(value_of(value));
    auto run = runner_.run(op + std::to_string(count_++), op, std::move(attrs), inputs);
    if (run->status().ok()) {
      EXPECT_EQ(run->output(0).ref, ref.ref) << op << " must pass the reference on";
    }
    return run->status();
  }

  KernelRunner runner_;
  int count_ = 0;
};

TEST_F(RefVariableOps, WithoutElementsItIsInitialisedFromTheStart) {
  const Value none = variable("none", DType::kFloat, {2, 0});
  EXPECT_TRUE(runner_.run("is", "IsVariableInitialized", {}, {none})->tensor().scalar<bool>());
  EXPECT_EQ(read(none).shape(), (Shape{2, 0}));
}

TEST_F(RefVariableOps, AssignAndRead) {
  Value v = variable("v");
  EXPECT_FALSE(runner_.run("is", "IsVariableInitialized", {}, {v})->tensor().scalar<bool>());
  ASSERT_TRUE(update("Assign", v, {f32({1, 2})}).ok());
  EXPECT_TRUE(runner_.run("is", "IsVariableInitialized", {}, {v})->tensor().scalar<bool>());
  expect_is(read(v), f32({1, 2}));
  ASSERT_TRUE(update("AssignAdd", v, {f32({10, 20})}).ok());
  ASSERT_TRUE(update("AssignSub", v, {f32({1, 1})}).ok());
  expect_is(read(v), f32({10, 21}));
}

TEST_F(RefVariableOps, ShapesAreValidated) {
  Value v = variable("v");
  EXPECT_EQ(update("Assign", v, {f32({1, 2, 3})}),
            invalid_argument("Assign requires shapes of both tensors to match. lhs shape= [2] rhs shape= [3]"));
  ASSERT_TRUE(update("Assign", v, {f32({1, 2, 3})}, {{"validate_shape", false}}).ok());
  EXPECT_EQ(update("Assign", v, {f32({1, 2})}).code(), Code::kInvalidArgument);
  EXPECT_EQ(update("AssignAdd", v, {f32({1})}).code(), Code::kInvalidArgument);
  expect_is(read(v), f32({1, 2, 3}));
}

TEST_F(RefVariableOps, OldVariablesWithoutDimensionsTakeAnyShape) {
  auto run = runner_.run("v", "Variable", {{"dtype", DType::kFloat}, {"shape", PartialShape::scalar()}});
  ASSERT_TRUE(run->status().ok());
  EXPECT_TRUE(update("Assign", run->output(0), {f32({1, 2})}).ok());
}

TEST_F(RefVariableOps, UninitialisedValuesAreNamed) {
  Value v = variable("weights");
  const Status expected = failed_precondition("Attempting to use uninitialized value weights");
  EXPECT_EQ(update("AssignAdd", v, {f32({1, 1})}), expected);
  EXPECT_EQ(update("ScatterAdd", v, {i32({0}), f32({1})}), expected);
}

TEST_F(RefVariableOps, SharedNamesShare) {
  const AttrMap attrs{{"dtype", DType::kFloat}, {"shape", PartialShape{1}}, {"shared_name", "both"}};
  Value a = runner_.run("a", "VariableV2", attrs)->output(0);
  Value b = runner_.run("b", "VariableV2", attrs)->output(0);
  EXPECT_EQ(a.ref, b.ref);
  AttrMap other = attrs;
  other["dtype"] = DType::kDouble;
  EXPECT_EQ(runner_.run("c", "VariableV2", other)->status().code(), Code::kInvalidArgument);
}

TEST_F(RefVariableOps, ScattersAgainstARowLoop) {
  struct Case {
    const char* op;
    float (*combine)(float, float);
  };
  const Case cases[] = {{"ScatterUpdate", [](float, float u) { return u; }},
                        {"ScatterAdd", [](float p, float u) { return p + u; }},
                        {"ScatterSub", [](float p, float u) { return p - u; }},
                        {"ScatterMul", [](float p, float u) { return p * u; }},
                        {"ScatterDiv", [](float p, float u) { return p / u; }},
                        {"ScatterMin", [](float p, float u) { return u < p ? u : p; }},
                        {"ScatterMax", [](float p, float u) { return p < u ? u : p; }}};
  const std::vector<std::int32_t> rows{2, 0, 2};
  const std::vector<float> updates{2, 4, 8, 0.5f, 4, 2};
  for (const Case& c : cases) {
    Value v = variable(c.op, DType::kFloat, {3, 2});
    std::vector<float> expected{1, 2, 3, 4, 5, 6};
    ASSERT_TRUE(update("Assign", v, {Tensor::of<float>({3, 2}, expected)}).ok());
    const Tensor pinned = read(v);
    ASSERT_TRUE(update(c.op, v, {i32(rows), Tensor::of<float>({3, 2}, updates)}).ok());
    for (int i = 0; i < 3; ++i) {
      for (int k = 0; k < 2; ++k) {
        float& place = expected[rows[i] * 2 + k];
        place = c.combine(place, updates[i * 2 + k]);
      }
    }
    expect_is(read(v), Tensor::of<float>({3, 2}, expected));
    EXPECT_EQ(pinned.data<float>()[0], 1) << c.op << " changed a pinned version";
    // One number for every element.
    ASSERT_TRUE(update(c.op, v, {i32({1}), Tensor::scalar(2.0f)}).ok());
    for (int k = 2; k < 4; ++k) expected[k] = c.combine(expected[k], 2);
    expect_is(read(v), Tensor::of<float>({3, 2}, expected));
    EXPECT_EQ(update(c.op, v, {i32({0, 3}), Tensor::scalar(2.0f)}),
              invalid_argument("indices[1] = 3 is not in [0, 3)"));
    EXPECT_EQ(update(c.op, v, {i32({0}), f32({1, 2, 3})}).code(), Code::kInvalidArgument);
    expect_is(read(v), Tensor::of<float>({3, 2}, expected));
  }
}

TEST_F(RefVariableOps, AssignsSlices) {
  Value v = variable("v", DType::kFloat, PartialShape{2, 3});
  ASSERT_TRUE(update("Assign", v, {Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6})}).ok());
  const Tensor pinned = read(v);
  const auto put = [&](const std::vector<std::int32_t>& begin, const std::vector<std::int32_t>& end,
                       const std::vector<std::int32_t>& strides, const Tensor& value, const AttrMap& masks = {}) {
    return update("StridedSliceAssign", v, {i32(begin), i32(end), i32(strides), value}, masks);
  };
  ASSERT_TRUE(put({0, 2}, {2, 0}, {1, -1}, Tensor::of<float>({2, 2}, {10, 20, 30, 40})).ok());
  expect_is(read(v), Tensor::of<float>({2, 3}, {1, 20, 10, 4, 40, 30}));
  ASSERT_TRUE(put({1, 0}, {2, 2}, {1, 1}, f32({7, 8}), {{"shrink_axis_mask", 1}}).ok());
  expect_is(read(v), Tensor::of<float>({2, 3}, {1, 20, 10, 7, 8, 30}));
  ASSERT_TRUE(put({0, 0}, {2, 1}, {1, 1}, Tensor::scalar(5.0f)).ok()) << "one for all";
  ASSERT_TRUE(put({0, 1}, {2, 3}, {1, 1}, Tensor::of<float>({2, 1}, {6, 9})).ok()) << "a column for several";
  expect_is(read(v), Tensor::of<float>({2, 3}, {5, 6, 6, 5, 9, 9}));
  ASSERT_TRUE(put({1, 0}, {2, 3}, {1, 1}, Tensor::of<float>({1, 1, 3}, {1, 2, 3}), {{"shrink_axis_mask", 1}}).ok())
      << "a value with more dimensions, which are ones";
  const Tensor expected = Tensor::of<float>({2, 3}, {5, 6, 6, 1, 2, 3});
  expect_is(read(v), expected);
  ASSERT_TRUE(put({1, 1}, {1, 1}, {1, 1}, f32({1, 2, 3})).ok()) << "nothing is put into no places";
  EXPECT_EQ(put({0, 0}, {2, 2}, {1, 1}, f32({1, 2, 3})),
            invalid_argument("Cannot broadcast input shape [3] into final shape [2,2]"));
  EXPECT_EQ(put({0}, {2, 2}, {1, 1}, f32({1})).code(), Code::kInvalidArgument);
  expect_is(read(v), expected);
  EXPECT_EQ(pinned.data<float>()[0], 1) << "it changed a pinned version";
}

TEST_F(RefVariableOps, ScattersByCoordinates) {
  Value v = variable("v", DType::kFloat, PartialShape{2, 3});
  ASSERT_TRUE(update("Assign", v, {Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6})}).ok());
  const Tensor pinned = read(v);
  const Tensor twice = Tensor::of<std::int32_t>({2, 2}, {1, 2, 1, 2});
  ASSERT_TRUE(update("ScatterNdAdd", v, {twice, f32({10, 20})}).ok());
  ASSERT_TRUE(update("ScatterNdSub", v, {Tensor::of<std::int32_t>({1, 2}, {0, 0}), f32({5})}).ok());
  ASSERT_TRUE(update("ScatterNdUpdate", v, {Tensor(DType::kInt32, {0, 2}), f32({})}).ok());
  expect_is(read(v), Tensor::of<float>({2, 3}, {-4, 2, 3, 4, 5, 36}));
  ASSERT_TRUE(
      update("ScatterNdUpdate", v, {Tensor::of<std::int32_t>({1, 1}, {1}), Tensor::of<float>({1, 3}, {7, 8, 9})}).ok());
  const Tensor expected = Tensor::of<float>({2, 3}, {-4, 2, 3, 7, 8, 9});
  expect_is(read(v), expected);
  EXPECT_EQ(update("ScatterNdAdd", v, {Tensor::of<std::int32_t>({2, 2}, {0, 0, 1, 3}), f32({1, 1})}),
            invalid_argument("indices[1] = [1, 3] does not index into shape [2,3]"));
  EXPECT_EQ(update("ScatterNdAdd", v, {twice, f32({1})}).code(), Code::kInvalidArgument);
  expect_is(read(v), expected);
  expect_is(pinned, Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
}

TEST_F(RefVariableOps, IntegerDivisionByZero) {
  Value v = variable("v", DType::kInt32);
  ASSERT_TRUE(update("Assign", v, {i32({INT32_MIN, 7})}).ok());
  EXPECT_EQ(update("ScatterDiv", v, {i32({0, 1}), i32({1, 0})}), invalid_argument("Integer division by zero"));
  ASSERT_TRUE(update("ScatterDiv", v, {i32({0, 1}), i32({-1, 2})}).ok());
  expect_is(read(v), i32({INT32_MIN, 3}));
}

TEST_F(RefVariableOps, CountUpTo) {
  Value v = variable("v", DType::kInt64, PartialShape::scalar());
  ASSERT_TRUE(update("Assign", v, {Tensor::scalar(std::int64_t{3})}).ok());
  const AttrMap attrs{{"limit", 5}};
  expect_is(runner_.run("count", "CountUpTo", attrs, {v})->tensor(), Tensor::scalar(std::int64_t{3}));
  expect_is(runner_.run("count", "CountUpTo", attrs, {v})->tensor(), Tensor::scalar(std::int64_t{4}));
  EXPECT_EQ(runner_.run("count", "CountUpTo", attrs, {v})->status(), out_of_range("Reached limit of 5"));
  expect_is(read(v), Tensor::scalar(std::int64_t{5}));
}

TEST_F(RefVariableOps, TemporaryVariablesLiveForAStep) {
  const AttrMap attrs{{"dtype", DType::kFloat}, {"shape", PartialShape{2}}, {"var_name", "t"}};
  auto made = runner_.run("t", "TemporaryVariable", attrs);
  ASSERT_TRUE(made->status().ok());
  EXPECT_EQ(runner_.run("t", "TemporaryVariable", attrs)->status().code(), Code::kAlreadyExists);
  ASSERT_TRUE(update("Assign", made->output(0), {f32({1, 2})}).ok());
  ASSERT_TRUE(update("AssignAdd", made->output(0), {f32({1, 2})}).ok());
  EXPECT_EQ(runner_.run("other", "DestroyTemporaryVariable", {{"var_name", "u"}}, {made->output(0)})->status().code(),
            Code::kNotFound);
  auto destroyed = runner_.run("d", "DestroyTemporaryVariable", {{"var_name", "t"}}, {made->output(0)});
  expect_is(destroyed->tensor(), f32({2, 4}));
  const AttrMap again{{"var_name", "t"}, {"T", DType::kFloat}};
  EXPECT_EQ(runner_.run("again", "DestroyTemporaryVariable", again, {made->output(0)})->status().code(),
            Code::kNotFound);
  EXPECT_TRUE(runner_.run("t", "TemporaryVariable", attrs)->status().ok());
  runner_.new_step();
  EXPECT_TRUE(runner_.run("t", "TemporaryVariable", attrs)->status().ok());
}

class ResourceVariableOps : public ::testing::Test {
 protected:
  Value handle(const std::string& name, DType dtype = DType::kFloat) {
    return runner_.run(name, "VarHandleOp", {{"dtype", dtype}, {"shape", PartialShape()}})->output(0);
  }
  Status update(const std::string& op, const Value& handle, std::vector<Tensor> values, AttrMap attrs = {}) {
    std::vector<Value> inputs{handle};
    for (Tensor& value : values) inputs.push_back(value_of(value));
    return runner_.run(op + std::to_string(count_++), op, std::move(attrs), inputs)->status();
  }
  Tensor read(const Value& handle, DType dtype = DType::kFloat) {
    return runner_.run("read", "ReadVariableOp", {{"dtype", dtype}}, {handle})->tensor();
  }

  KernelRunner runner_;
  int count_ = 0;
};

TEST_F(ResourceVariableOps, AssignReadUpdate) {
  Value v = handle("v");
  EXPECT_FALSE(runner_.run("is", "VarIsInitializedOp", {}, {v})->tensor().scalar<bool>());
  ASSERT_TRUE(update("AssignVariableOp", v, {f32({1, 2})}).ok());
  EXPECT_TRUE(runner_.run("is", "VarIsInitializedOp", {}, {v})->tensor().scalar<bool>());
  const Tensor before = read(v);
  ASSERT_TRUE(update("AssignAddVariableOp", v, {f32({10, 20})}).ok());
  ASSERT_TRUE(update("AssignSubVariableOp", v, {f32({1, 1})}).ok());
  expect_is(read(v), f32({10, 21}));
  expect_is(before, f32({1, 2}));
  expect_is(runner_.run("shape", "VariableShape", {}, {v})->tensor(), i32({2}));
  EXPECT_EQ(update("AssignAddVariableOp", v, {f32({1})}).message(),
            "Cannot update variable v with shape [2] using a Tensor with shape [1], shapes must be equal.");
}

TEST_F(ResourceVariableOps, AssignsSlices) {
  Value v = handle("v");
  EXPECT_EQ(update("ResourceStridedSliceAssign", v, {i32({0}), i32({1}), i32({1}), f32({1})}).code(),
            Code::kFailedPrecondition);
  ASSERT_TRUE(update("AssignVariableOp", v, {f32({1, 2, 3, 4})}).ok());
  const Tensor before = read(v);
  ASSERT_TRUE(update("ResourceStridedSliceAssign", v, {i32({0}), i32({4}), i32({2}), before.slice(1, 3)}).ok());
  expect_is(read(v), f32({2, 2, 3, 4}));
  expect_is(before, f32({1, 2, 3, 4}));
  EXPECT_EQ(update("ResourceStridedSliceAssign", v, {i32({0}), i32({1}), i32({1}), Tensor::scalar(1.0)}).code(),
            Code::kInvalidArgument);
}

TEST_F(ResourceVariableOps, CountUpTo) {
  Value v = handle("v", DType::kInt64);
  ASSERT_TRUE(update("AssignVariableOp", v, {Tensor::scalar(std::int64_t{4})}).ok());
  const AttrMap attrs{{"limit", 5}, {"T", DType::kInt64}};
  expect_is(runner_.run("count", "ResourceCountUpTo", attrs, {v})->tensor(), Tensor::scalar(std::int64_t{4}));
  EXPECT_EQ(runner_.run("count", "ResourceCountUpTo", attrs, {v})->status(), out_of_range("Reached limit of 5"));
  expect_is(read(v, DType::kInt64), Tensor::scalar(std::int64_t{5}));
}

TEST_F(ResourceVariableOps, Errors) {
  Value v = handle("v");
  const Status unread = runner_.run("read", "ReadVariableOp", {{"dtype", DType::kFloat}}, {v})->status();
  EXPECT_EQ(unread, failed_precondition("Error while reading resource variable v from Container: localhost. This could "
                                        "mean that the variable was uninitialized."));
  EXPECT_EQ(runner_.run("shape", "VariableShape", {}, {v})->status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(update("AssignAddVariableOp", v, {f32({1})}).code(), Code::kFailedPrecondition);
  ASSERT_TRUE(update("AssignVariableOp", v, {f32({1})}).ok());
  EXPECT_EQ(update("AssignVariableOp", v, {Tensor::scalar(1.0)}).code(), Code::kInvalidArgument);
  EXPECT_EQ(runner_.run("read2", "ReadVariableOp", {{"dtype", DType::kDouble}}, {v})->status().code(),
            Code::kInvalidArgument);
  EXPECT_TRUE(update("AssignVariableOp", v, {f32({1, 2})}).ok()) << "shapes may change unless validated";
  EXPECT_EQ(update("AssignVariableOp", v, {f32({1})}, {{"validate_shape", true}}).code(), Code::kInvalidArgument);
}

TEST_F(ResourceVariableOps, DestroyedVariablesAreGone) {
  Value v = handle("v");
  ASSERT_TRUE(update("AssignVariableOp", v, {f32({1})}).ok());
  ASSERT_TRUE(update("DestroyResourceOp", v, {}).ok());
  EXPECT_FALSE(runner_.run("is", "VarIsInitializedOp", {}, {v})->tensor().scalar<bool>());
  EXPECT_TRUE(update("DestroyResourceOp", v, {}).ok());
  EXPECT_EQ(update("DestroyResourceOp", v, {}, {{"ignore_lookup_error", false}}).code(), Code::kNotFound);
}

TEST_F(ResourceVariableOps, HandlesFromElsewhereAreBoundByName) {
  Value v = handle("v");
  ASSERT_TRUE(update("AssignVariableOp", v, {f32({3})}).ok());
  Value arrived = value_of(Tensor::scalar(ResourceHandle("/job:ps/task:0/device:CPU:0", "", "v")));
  expect_is(read(arrived), f32({3}));
}

TEST_F(ResourceVariableOps, GatherAndScatter) {
  Value v = handle("v");
  ASSERT_TRUE(update("AssignVariableOp", v, {Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6})}).ok());
  auto rows = runner_.run("g", "ResourceGather", {{"dtype", DType::kFloat}}, {v, value_of(i32({2, 0}))});
  expect_is(rows->tensor(), Tensor::of<float>({2, 2}, {5, 6, 1, 2}));
  EXPECT_EQ(runner_.run("g", "ResourceGather", {{"dtype", DType::kFloat}}, {v, value_of(i32({3}))})->status(),
            invalid_argument("indices[0] = 3 is not in [0, 3)"));
  ASSERT_TRUE(update("ResourceScatterAdd", v, {i32({0, 0}), Tensor::of<float>({2, 2}, {1, 1, 10, 10})}).ok());
  ASSERT_TRUE(update("ResourceScatterUpdate", v, {i32({1}), Tensor::scalar(0.0f)}).ok());
  expect_is(read(v), Tensor::of<float>({3, 2}, {12, 13, 0, 0, 5, 6}));
  for (const char* op :
       {"ResourceScatterSub", "ResourceScatterMul", "ResourceScatterDiv", "ResourceScatterMin", "ResourceScatterMax"}) {
    EXPECT_TRUE(update(op, v, {i32({0}), Tensor::scalar(2.0f)}).ok()) << op;
  }
  expect_is(read(v), Tensor::of<float>({3, 2}, {2, 2, 0, 0, 5, 6}));
}

TEST_F(ResourceVariableOps, StringVariables) {
  Value v = handle("v", DType::kString);
  ASSERT_TRUE(update("AssignVariableOp", v, {Tensor::vector<std::string>({"a", "b"})}).ok());
  ASSERT_TRUE(update("ResourceScatterUpdate", v, {i32({1}), Tensor::vector<std::string>({"z"})}).ok());
  expect_is(read(v, DType::kString), Tensor::vector<std::string>({"a", "z"}));
}

}  // namespace tutti::variable_ops_test
