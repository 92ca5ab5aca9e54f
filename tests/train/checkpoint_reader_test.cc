#include "tutti/train/checkpoint_reader.h"

#include <gtest/gtest.h>

#include "tests/core/temp_directory.h"
#include "tests/support/variant_values.h"
#include "tutti/io/bundle_writer.h"
#include "tutti/io/checkpoint_state.h"
#include "tutti/io/slice_file.h"
#include "tutti/ops/host/variant_messages.h"

namespace tutti::checkpoint_reader_test {

TEST(CheckpointReader, BothFormats) {
  TempDirectory directory;
  const Tensor a = Tensor::vector<float>({1, 2}), b = Tensor::scalar<std::int64_t>(7);
  auto bundle = BundleWriter::create(local_file_system(), directory.file("new")).value_or_throw();
  throw_if_error(bundle->add("a", a));
  throw_if_error(bundle->add("b", b));
  throw_if_error(bundle->finish());
  SliceFileWriter old(local_file_system(), directory.file("old"));
  throw_if_error(old.add("a", a.shape(), TensorSlice::whole(1), a));
  throw_if_error(old.add("b", b.shape(), TensorSlice::whole(0), b));
  throw_if_error(old.finish());
  for (const char* name : {"new", "old"}) {
    const auto reader = load_checkpoint(directory.file(name));
    ASSERT_EQ(reader->variables().size(), 2u);
    EXPECT_EQ(reader->variables()[0].name, "a");
    EXPECT_EQ(reader->variables()[0].shape, (Shape{2}));
    EXPECT_EQ(reader->variables()[1].dtype, DType::kInt64);
    EXPECT_TRUE(bitwise_equal(load_variable(directory.file(name), "a"), a));
    EXPECT_TRUE(reader->contains("b"));
    EXPECT_FALSE(reader->contains("c"));
    const Status missing = reader->read("c").status();
    EXPECT_EQ(missing.code(), Code::kNotFound);
    EXPECT_NE(missing.message().find("which has 2: a, b"), std::string::npos) << missing.message();
  }
}

TEST(CheckpointReader, Variants) {
  TempDirectory directory;
  const Tensor list = testing::list_of(DType::kFloat, PartialShape(), {Tensor(), Tensor::scalar(1.f)});
  auto bundle =
      BundleWriter::create(local_file_system(), directory.file("m"), {.variants = &kVariantMessages}).value_or_throw();
  throw_if_error(bundle->add("list", list));
  throw_if_error(bundle->finish());
  EXPECT_EQ(testing::whole_text(load_variable(directory.file("m"), "list")), testing::whole_text(list));
}

TEST(CheckpointReader, DirectoriesNameTheirNewest) {
  TempDirectory directory;
  auto bundle = BundleWriter::create(local_file_system(), directory.file("m-1")).value_or_throw();
  throw_if_error(bundle->add("a", Tensor::scalar(1.f)));
  throw_if_error(bundle->finish());
  EXPECT_EQ(CheckpointReader::open(local_file_system(), directory.path()).status().code(), Code::kInvalidArgument);
  throw_if_error(
      write_checkpoint_state(local_file_system(), directory.path(), {.model_checkpoint_path = directory.file("m-1")}));
  EXPECT_EQ(load_checkpoint(directory.path())->prefix(), directory.file("m-1"));
  EXPECT_EQ(list_variables(directory.path()).size(), 1u);
  EXPECT_EQ(CheckpointReader::open(local_file_system(), directory.file("m-2")).status().code(), Code::kInvalidArgument);
}

}  // namespace tutti::checkpoint_reader_test
