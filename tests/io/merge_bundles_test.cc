#include "tutti/io/merge_bundles.h"

#include "tests/io/io_support.h"
#include "tutti/io/bundle_reader.h"
#include "tutti/io/bundle_writer.h"

namespace tutti::merge_bundles_test {

using testing::patterned;

class Merging : public ::testing::Test {
 protected:
  std::string part(int i) { return directory_.file(str_cat("temp/part-0000", i)); }
  void save(int i, const std::vector<std::pair<std::string, Tensor>>& tensors) {
    auto out = BundleWriter::create(fs_, part(i)).value_or_throw();
    for (const auto& [name, value] : tensors) ASSERT_OK(out->add(name, value));
    ASSERT_OK(out->finish());
  }
  void save_slice(int i, const char* slice, const Tensor& value, const Shape& full = {4, 2}) {
    auto out = BundleWriter::create(fs_, part(i)).value_or_throw();
    ASSERT_OK(out->add_slice("w", full, TensorSlice::parse(slice).value_or_throw(), value));
    ASSERT_OK(out->finish());
  }
  std::vector<std::string> parts(int n) {
    std::vector<std::string> all;
    for (int i = 0; i < n; ++i) all.push_back(part(i));
    return all;
  }

  TempDirectory directory_;
  const std::string target_ = directory_.file("model");
  FileSystem& fs_ = local_file_system();
};

TEST_F(Merging, UnitesAndMoves) {
  save(0, {{"b", Tensor::scalar(1.f)}, {"d", Tensor::vector<std::string>({"x"})}});
  save(1, {{"a", Tensor::scalar(2.f)}});
  save(2, {});
  ASSERT_OK(merge_bundles(fs_, parts(3), target_));
  auto in = BundleReader::open(fs_, target_).value_or_throw();
  EXPECT_EQ(in->names(), (std::vector<std::string>{"a", "b", "d"}));
  EXPECT_EQ(in->read("a")->scalar<float>(), 2);
  EXPECT_EQ(in->read("b")->scalar<float>(), 1);
  EXPECT_EQ(in->read("d")->scalar<std::string>(), "x");
  EXPECT_EQ(
      *fs_.list(directory_.path()),
      (std::vector<std::string>{"model.data-00000-of-00002", "model.data-00001-of-00002", "model.index", "temp"}));
  EXPECT_EQ(fs_.list(directory_.file("temp"))->size(), 0u);
}

TEST_F(Merging, SlicesOfOneTensor) {
  const Tensor top = patterned(DType::kFloat, {1, 2}, 1), rest = patterned(DType::kFloat, {3, 2}, 2);
  save_slice(0, "1,3:-", rest);
  save_slice(1, "0,1:-", top);
  ASSERT_OK(merge_bundles(fs_, parts(2), target_));
  const Tensor whole = BundleReader::open(fs_, target_).value_or_throw()->read("w").value_or_throw();
  EXPECT_TRUE(bitwise_equal(whole.slice(0, 1), top));
  EXPECT_TRUE(bitwise_equal(whole.slice(1, 4), rest));
}

TEST_F(Merging, MergedAgain) {
  save(0, {{"a", Tensor::scalar(1.f)}});
  save(1, {{"b", Tensor::scalar(2.f)}});
  ASSERT_OK(merge_bundles(fs_, parts(2), directory_.file("first")));
  save(0, {{"c", Tensor::scalar(3.f)}});
  const std::vector<std::string> sources{part(0), directory_.file("first")};
  ASSERT_OK(merge_bundles(fs_, sources, target_));
  auto in = BundleReader::open(fs_, target_).value_or_throw();
  EXPECT_EQ(in->read("a")->scalar<float>(), 1);
  EXPECT_EQ(in->read("b")->scalar<float>(), 2);
  EXPECT_EQ(in->read("c")->scalar<float>(), 3);
}

TEST_F(Merging, Refused) {
  EXPECT_EQ(merge_bundles(fs_, parts(1), target_),
            invalid_argument("allow_missing_files was set to false and ", part(0), " did not exist."));
  EXPECT_EQ(merge_bundles(fs_, parts(1), target_, {.allow_missing = true}),
            invalid_argument("At least one prefix checkpoint file must exist, but none existed."));
  save(0, {{"a", Tensor::scalar(1.f)}});
  save(1, {{"a", Tensor::scalar(2.f)}});
  EXPECT_EQ(merge_bundles(fs_, parts(2), target_),
            invalid_argument("Duplicate tensor keyed by a encountered, when merging prefix: ", part(1)));
  EXPECT_EQ(merge_bundles(fs_, parts(1), part(0)).code(), Code::kInvalidArgument);
  save_slice(0, "0,1:-", Tensor(DType::kFloat, {1, 2}));
  save_slice(1, "0,1:-", Tensor(DType::kDouble, {1, 2}));
  EXPECT_EQ(merge_bundles(fs_, parts(2), target_).code(), Code::kInvalidArgument);
  save_slice(1, "0,1:-", Tensor(DType::kFloat, {1, 2}), {5, 2});
  EXPECT_EQ(merge_bundles(fs_, parts(2), target_).code(), Code::kInvalidArgument);
  EXPECT_FALSE(fs_.exists(target_ + ".index"));
  ASSERT_OK(merge_bundles(fs_, std::vector<std::string>{part(0), part(7)}, target_, {.allow_missing = true}));
}

}  // namespace tutti::merge_bundles_test
