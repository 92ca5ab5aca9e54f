#include "tests/ops/host/file_ops_fixture.h"
#include "tests/support/variant_values.h"
#include "tutti/graph/graph.h"
#include "tutti/io/bundle_reader.h"
#include "tutti/io/slice_file.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"

namespace tutti::checkpoint_ops_test {

class CheckpointOps : public testing::FileOpsFixture {
 protected:
  Status save(const std::string& prefix, const std::vector<std::string>& names, const std::vector<std::string>& specs,
              const std::vector<Tensor>& tensors) {
    std::vector<Tensor> inputs{text(prefix), texts(names), texts(specs)};
    inputs.insert(inputs.end(), tensors.begin(), tensors.end());
    return status("SaveV2", inputs);
  }
  std::unique_ptr<testing::KernelRun> restore(const std::string& prefix, const std::vector<std::string>& names,
                                              const std::vector<std::string>& specs, std::vector<DType> dtypes) {
    return run("RestoreV2", {text(prefix), texts(names), texts(specs)}, {{"dtypes", std::move(dtypes)}});
  }
  Status restore_one(const std::string& name, const std::string& spec, DType dtype) {
    return restore(prefix_, {name}, {spec}, {dtype})->status();
  }

  const std::string prefix_ = directory_.file("dir/model");
  const Tensor floats_ = Tensor::of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor words_ = Tensor::vector<std::string>({"ab", "c"});
};

TEST_F(CheckpointOps, SaveToAUrl) {
  const std::string url = "file://" + prefix_;
  ASSERT_TRUE(save(url + "_temp/part", {"x"}, {""}, {floats_}).ok());
  ASSERT_TRUE(status("MergeV2Checkpoints", {texts({url + "_temp/part"}), text(url)}).ok());
  EXPECT_TRUE(local_file_system().exists(prefix_ + ".index"));
  EXPECT_FALSE(local_file_system().exists(prefix_ + "_temp"));
  EXPECT_TRUE(bitwise_equal(restore(prefix_, {"x"}, {""}, {DType::kFloat})->tensor(0), floats_));
  EXPECT_TRUE(bitwise_equal(restore(url, {"x"}, {""}, {DType::kFloat})->tensor(0), floats_));
  EXPECT_EQ(save("hdfs://model", {"x"}, {""}, {floats_}).code(), Code::kUnimplemented);
  EXPECT_EQ(restore("hdfs://model", {"x"}, {""}, {DType::kFloat})->status().code(), Code::kUnimplemented);
}

TEST_F(CheckpointOps, SaveAndRestore) {
  ASSERT_TRUE(save(prefix_, {"x", "s"}, {"", ""}, {floats_, words_}).ok());
  auto back = restore(prefix_, {"s", "x", "x"}, {"", "", "4 2 1,2:-"}, {DType::kString, DType::kFloat, DType::kFloat});
  ASSERT_TRUE(back->status().ok()) << back->status().to_string();
  EXPECT_TRUE(bitwise_equal(back->tensor(0), words_));
  EXPECT_TRUE(bitwise_equal(back->tensor(1), floats_));
  EXPECT_TRUE(bitwise_equal(back->tensor(2), floats_.slice(1, 3)));
}

TEST_F(CheckpointOps, Slices) {
  ASSERT_TRUE(save(prefix_, {"x", "x"}, {"4 2 0,1:0,2", "4 2 1,3:-"}, {floats_.slice(0, 1), floats_.slice(1, 4)}).ok());
  auto back = restore(prefix_, {"x", "x"}, {"", "4 2 0,3:1,1"}, {DType::kFloat, DType::kFloat});
  ASSERT_TRUE(back->status().ok()) << back->status().to_string();
  EXPECT_TRUE(bitwise_equal(back->tensor(0), floats_));
  EXPECT_TRUE(bitwise_equal(back->tensor(1), Tensor::of<float>({3, 1}, {2, 4, 6})));
}

TEST_F(CheckpointOps, Variants) {
  std::vector<std::string> names;
  const std::vector<Tensor> samples = testing::variant_samples();
  for (std::size_t i = 0; i < samples.size(); ++i) names.push_back(str_cat("v", i));
  const std::vector<std::string> whole(samples.size());
  ASSERT_TRUE(save(prefix_, names, whole, samples).ok());
  auto back = restore(prefix_, names, whole, std::vector<DType>(samples.size(), DType::kVariant));
  ASSERT_TRUE(back->status().ok()) << back->status().to_string();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(testing::whole_text(back->tensor(static_cast<int>(i))), testing::whole_text(samples[i])) << i;
  }
}

TEST_F(CheckpointOps, SlicesOfVariants) {
  Tensor four(DType::kVariant, {4});
  for (int i = 0; i < 4; ++i) {
    four.data<Variant>()[i] = testing::optional_of({Tensor::scalar(i)}).scalar<Variant>();
  }
  ASSERT_TRUE(save(prefix_, {"x", "x"}, {"4 0,1", "4 1,3"}, {four.slice(0, 1), four.slice(1, 4)}).ok());
  auto back = restore(prefix_, {"x", "x"}, {"", "4 2,1"}, {DType::kVariant, DType::kVariant});
  ASSERT_TRUE(back->status().ok()) << back->status().to_string();
  EXPECT_EQ(testing::whole_text(back->tensor(0)), testing::whole_text(four));
  EXPECT_EQ(testing::whole_text(back->tensor(1)), testing::whole_text(four.slice(2, 3)));
}

// The data file that SaveV2 of TensorFlow 2.15 writes for a list and an optional.
TEST_F(CheckpointOps, VariantsAsTensorFlowStoresThem) {
  const Tensor list =
      testing::list_of(DType::kFloat, {2}, {Tensor::vector<float>({1, 2}), Tensor::vector<float>({3, 4})});
  const Tensor optional = testing::optional_of({Tensor::scalar(1.5f), Tensor::vector<std::string>({"a", "b"})});
  ASSERT_TRUE(save(prefix_, {"l", "o"}, {"", ""}, {list, optional}).ok());
  const std::string data = read_file(local_file_system(), prefix_ + ".data-00000-of-00001").value_or_throw();
  std::string hex;
  for (const char byte : data) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += {kDigits[static_cast<unsigned char>(byte) >> 4], kDigits[byte & 15]};
  }
  EXPECT_EQ(
      hex,
      "520a1674656e736f72666c6f773a3a54656e736f724c69737412100001ffffffffffffffffff01120208021a1208011204120208022a08"
      "0000803f000000401a1208011204120208022a0800004040000080406915458e3b0a1a74656e736f72666c6f773a3a646174613a3a4f70"
      "74696f6e616c1201011a0a080112002a040000c03f1a0e08071204120208024201614201621927cf49");
}

// Codes and texts as TensorFlow 2.15 gives them.
TEST_F(CheckpointOps, RestoreErrors) {
  ASSERT_TRUE(save(prefix_, {"x"}, {""}, {floats_}).ok());
  EXPECT_EQ(restore_one("z", "", DType::kFloat), not_found("Key z not found in checkpoint \"", prefix_, "\""));
  EXPECT_EQ(restore_one("x", "", DType::kInt32),
            invalid_argument("tensor_name = x; expected dtype int32 does not equal original dtype float"));
  EXPECT_EQ(restore_one("x", "3 2 -:-", DType::kFloat),
            invalid_argument("tensor_name = x; shape in shape_and_slice spec [3,2] does not match the shape stored in "
                             "checkpoint: [4,2]"));
  EXPECT_EQ(restore_one("x", "4 2 0,5:-", DType::kFloat),
            internal_error("Extent in dimension 0 out of bounds: shape = [4,2], slice = 0,5:-"));
  EXPECT_EQ(restore_one("x", "4", DType::kFloat).code(), Code::kInvalidArgument);
  EXPECT_EQ(restore(directory_.file("none"), {"x"}, {""}, {DType::kFloat})->status(),
            not_found("Unsuccessful TensorSliceReader constructor: Failed to find any matching files for ",
                      directory_.file("none")));
  EXPECT_EQ(restore(prefix_, {"x"}, {"", ""}, {DType::kFloat})->status(),
            invalid_argument("tensor_names and shape_and_slices have different number of elements: 1 vs. 2"));
  EXPECT_EQ(restore(prefix_, {"x", "x"}, {"", ""}, {DType::kFloat})->status(),
            invalid_argument("Got 2 tensor names, but 1 expected dtypes."));
  EXPECT_EQ(status("RestoreV2", {texts({"a", "b"}), texts({"x"}), texts({""})},
                   {{"dtypes", std::vector<DType>{DType::kFloat}}}),
            invalid_argument("Input prefix should have a single element, got 2 instead."));
}

TEST_F(CheckpointOps, SaveErrors) {
  EXPECT_EQ(save(prefix_, {"x", "x"}, {"", ""}, {floats_, words_}), invalid_argument("Adding duplicate key: x"));
  EXPECT_EQ(save(prefix_, {"x"}, {"", ""}, {floats_, words_}),
            invalid_argument("tensor_names and shape_and_slices have different number of elements: 1 vs. 2"));
  EXPECT_EQ(save(prefix_, {"x"}, {""}, {floats_, words_}), invalid_argument("Got 1 tensor names but 2 tensors."));
  EXPECT_EQ(save(prefix_, {"x"}, {"4 2 0,1:-"}, {floats_}),
            invalid_argument("Slice in shape_and_slice specification does not match the shape of the tensor to  save: "
                             "4 2 0,1:-, tensor: [4,2]"));
  EXPECT_EQ(
      status("SaveV2", {text(prefix_), Tensor(DType::kString, {1, 1}), texts({""}), floats_}),
      invalid_argument("Input tensor_names and shape_and_slices should be an 1-D tensors, got [1,1] and [1] instead."));
  EXPECT_EQ(save(prefix_, {"h"}, {""}, {Tensor(DType::kResource, {})}).code(), Code::kUnimplemented);
  EXPECT_EQ(save(prefix_, {""}, {""}, {floats_}).code(), Code::kInvalidArgument);
  EXPECT_EQ(local_file_system().list(directory_.file("dir"))->size(), 0u);
}

TEST_F(CheckpointOps, FullDisk) {
  ASSERT_TRUE(save(prefix_, {"x"}, {""}, {floats_}).ok());
  FaultyFileSystem full(
      local_file_system(),
      [](FileOp op, const std::string& path) {
        return op == FileOp::kAppend ? resource_exhausted("\"", path, "\": no space") : Status();
      },
      true);
  use(full);
  const Status failed = save(prefix_, {"x"}, {""}, {words_});
  EXPECT_EQ(failed.code(), Code::kResourceExhausted);
  EXPECT_NE(failed.message().find(prefix_), std::string::npos);
  EXPECT_TRUE(bitwise_equal(restore(prefix_, {"x"}, {""}, {DType::kFloat})->tensor(), floats_));
}

TEST_F(CheckpointOps, Merge) {
  const std::string a = directory_.file("model_temp/part-0"), b = directory_.file("model_temp/part-1");
  const std::string target = directory_.file("model");
  ASSERT_TRUE(save(a, {"x"}, {""}, {floats_}).ok());
  ASSERT_TRUE(save(b, {"s"}, {""}, {words_}).ok());
  EXPECT_EQ(status("MergeV2Checkpoints", {texts({a, b, b + "x"}), text(target)}).code(), Code::kInvalidArgument);
  ASSERT_TRUE(
      status("MergeV2Checkpoints", {texts({a, b, b + "x"}), text(target)}, {{"allow_missing_files", true}}).ok());
  auto back = restore(target, {"x", "s"}, {"", ""}, {DType::kFloat, DType::kString});
  ASSERT_TRUE(back->status().ok()) << back->status().to_string();
  EXPECT_TRUE(bitwise_equal(back->tensor(0), floats_));
  EXPECT_FALSE(local_file_system().exists(directory_.file("model_temp")));
  ASSERT_TRUE(save(a, {"x"}, {""}, {floats_}).ok());
  ASSERT_TRUE(status("MergeV2Checkpoints", {texts({a}), text(target)}, {{"delete_old_dirs", false}}).ok());
  EXPECT_TRUE(local_file_system().exists(directory_.file("model_temp")));
}

TEST_F(CheckpointOps, Names) {
  const auto number = [](std::int32_t value) { return Tensor::scalar(value); };
  EXPECT_EQ(run("ShardedFilename", {text("a"), number(3), number(10)})->tensor().scalar<std::string>(),
            "a-00003-of-00010");
  EXPECT_EQ(run("ShardedFilename", {text("a"), number(-3), number(123456)})->tensor().scalar<std::string>(),
            "a--0003-of-123456");
  EXPECT_EQ(run("ShardedFilespec", {text("a"), number(7)})->tensor().scalar<std::string>(), "a-\?\?\?\?\?-of-00007");
  EXPECT_EQ(status("ShardedFilespec", {text("a"), Tensor(DType::kInt32, {0})}).code(), Code::kInvalidArgument);
}

TEST_F(CheckpointOps, OldFormat) {
  const std::string path = directory_.file("old");
  const AttrMap floats{{"dt", DType::kFloat}};
  ASSERT_TRUE(status("Save", {text(path), texts({"x", "s"}), floats_, words_}).ok());
  EXPECT_TRUE(bitwise_equal(run("Restore", {text(path), text("x")}, floats)->tensor(), floats_));
  EXPECT_TRUE(bitwise_equal(run("RestoreSlice", {text(path), text("x"), text("4 2 -:1,1")}, floats)->tensor(),
                            Tensor::of<float>({4, 1}, {2, 4, 6, 8})));
  EXPECT_TRUE(bitwise_equal(run("RestoreSlice", {text(path), text("x"), text("")}, floats)->tensor(), floats_));
  EXPECT_TRUE(bitwise_equal(restore(path, {"s"}, {""}, {DType::kString})->tensor(), words_));
  EXPECT_EQ(status("Restore", {text(path), text("q")}, floats),
            not_found("Tensor name \"q\" not found in checkpoint files ", path));
  EXPECT_EQ(status("Restore", {text(path), text("s")}, floats).code(), Code::kInvalidArgument);
  EXPECT_EQ(status("Save", {text(path), texts({"x"}), floats_, words_}).code(), Code::kInvalidArgument);
  ASSERT_TRUE(status("SaveSlices", {text(path), texts({"x", "x"}), texts({"4 2 0,1:-", "4 2 1,3:-"}),
                                    floats_.slice(0, 1), floats_.slice(1, 4)})
                  .ok());
  EXPECT_TRUE(bitwise_equal(run("Restore", {text(path), text("x")}, floats)->tensor(), floats_));
}

TEST(CheckpointOpShapes, Rules) {
  Graph graph(builtin_ops());
  const auto one = [&](const std::string& value) { return constant(graph, Tensor::scalar(value)); };
  const auto many = [&](const std::vector<std::string>& values) {
    return constant(graph, Tensor::vector<std::string>(values));
  };
  const AttrMap two{{"dtypes", std::vector<DType>{DType::kFloat, DType::kInt32}}};
  Node* restored = add_op(graph, "RestoreV2", {one("p"), many({"a", "b"}), many({"", "4 3 0,2:-"})}, two);
  EXPECT_EQ(restored->output_shape(0), PartialShape::unknown());
  EXPECT_EQ(restored->output_shape(1), PartialShape({2, 3}));
  EXPECT_THROW(add_op(graph, "RestoreV2", {one("p"), many({"a", "b"}), many({"", "4 3 0,9:-"})}, two), Error);
  EXPECT_THROW(add_op(graph, "RestoreV2", {one("p"), many({"a"}), many({""})}, two), Error);
  EXPECT_THROW(add_op(graph, "RestoreV2", {many({"p"}), many({"a", "b"}), many({"", ""})}, two), Error);
  EXPECT_THROW(add_op(graph, "SaveV2", {one("p"), many({"a", "b"}), many({"", ""}), one("x")}), Error);
  add_op(graph, "SaveV2", {one("p"), many({"a"}), many({""}), one("x")});
  EXPECT_EQ(
      add_op(graph, "RestoreSlice", {one("p"), one("a"), one("4 3 -:1,1")}, {{"dt", DType::kFloat}})->output_shape(0),
      PartialShape({4, 1}));
  EXPECT_THROW(add_op(graph, "MergeV2Checkpoints", {one("a"), one("b")}), Error);
}

}  // namespace tutti::checkpoint_ops_test
