// Checkpoints on disks that fail: whatever call fails, and whatever was there before, a reader finds the old
// checkpoint whole, or the new one whole, or none.
#include "tests/io/io_support.h"
#include "tutti/io/bundle_reader.h"
#include "tutti/io/bundle_writer.h"
#include "tutti/io/merge_bundles.h"
#include "tutti/io/slice_file.h"

namespace tutti::bundle_fault_test {

using testing::patterned;

class FaultyBundles : public ::testing::Test {
 protected:
  // Calls of the disk that change it; the one numbered `fail_at_` fails, and with `stay_broken_` all later ones do.
  Status fault(FileOp op, const std::string& path) {
    if (op == FileOp::kOpenRead || op == FileOp::kRead) return {};
    const int call = calls_++;
    if (call != fail_at_ && !(stay_broken_ && call > fail_at_ && fail_at_ >= 0)) return {};
    if (call == fail_at_) failed_path_ = path;
    return resource_exhausted("\"", path, "\": no space left on device");
  }
  void fail_at(int call, bool stay_broken) {
    calls_ = 0;
    fail_at_ = call;
    stay_broken_ = stay_broken;
    failed_path_.clear();
  }

  Status save(float value) {
    TUTTI_ASSIGN_OR_RETURN(auto out, BundleWriter::create(faulty_, prefix_));
    TUTTI_RETURN_IF_ERROR(out->add("x", Tensor::scalar(value)));
    TUTTI_RETURN_IF_ERROR(out->add("large", patterned(DType::kInt64, {20'000}, static_cast<int>(value))));
    TUTTI_RETURN_IF_ERROR(out->add("words", Tensor::vector<std::string>({"a", "b"})));
    return out->finish();
  }
  // The value saved, or nothing when no checkpoint is visible. Half a checkpoint fails the test.
  std::optional<float> restore() {
    Result<std::unique_ptr<BundleReader>> in = BundleReader::open(disk_, prefix_);
    if (!in.ok()) {
      EXPECT_EQ(in.status().code(), Code::kNotFound) << in.status().to_string();
      return std::nullopt;
    }
    Result<Tensor> x = (*in)->read("x"), large = (*in)->read("large"), words = (*in)->read("words");
    EXPECT_TRUE(x.ok() && large.ok() && words.ok());
    if (!x.ok() || !large.ok()) return std::nullopt;
    const float value = x->scalar<float>();
    EXPECT_TRUE(bitwise_equal(*large, patterned(DType::kInt64, {20'000}, static_cast<int>(value))));
    return value;
  }
  std::size_t files() { return disk_.list(directory_.path())->size(); }

  TempDirectory directory_;
  const std::string prefix_ = directory_.file("model");
  FileSystem& disk_ = local_file_system();
  FaultyFileSystem faulty_{disk_, [this](FileOp op, const std::string& path) { return fault(op, path); }, true};
  int calls_ = 0;
  int fail_at_ = -1;
  bool stay_broken_ = false;
  std::string failed_path_;
};

TEST_F(FaultyBundles, FirstSave) {
  for (int call = 0;; ++call) {
    fail_at(call, false);
    const Status saved = save(1);
    if (failed_path_.empty()) {
      EXPECT_GT(call, 8);
      break;
    }
    ASSERT_FALSE(saved.ok()) << call;
    EXPECT_EQ(saved.code(), Code::kResourceExhausted);
    EXPECT_HAS(saved.message(), failed_path_);
    EXPECT_EQ(restore(), std::nullopt) << call;
    EXPECT_EQ(files(), 0u) << call;
  }
  EXPECT_EQ(restore(), 1.f);
}

TEST_F(FaultyBundles, SaveOverAnOldOne) {
  fail_at(-1, false);
  ASSERT_OK(save(1));
  for (int call = 0;; ++call) {
    fail_at(call, false);
    const Status saved = save(2);
    if (failed_path_.empty() || saved.ok()) {  // removing what was replaced may fail
      EXPECT_EQ(restore(), 2.f);
      EXPECT_GT(call, 10);
      break;
    }
    EXPECT_HAS(saved.message(), failed_path_);
    EXPECT_EQ(restore(), 1.f) << call;
    EXPECT_EQ(files(), 2u) << call;
  }
}

// As after a crash: nothing can be undone either.
TEST_F(FaultyBundles, DiskDiesForGood) {
  for (int call = 0; call < 40; ++call) {
    fail_at(-1, false);
    ASSERT_OK(save(1));
    fail_at(call, true);
    const Status saved = save(2);
    const std::optional<float> value = restore();
    if (saved.ok()) {
      EXPECT_EQ(value, 2.f);
    } else {
      EXPECT_TRUE(!value || *value == 1 || *value == 2);
    }
  }
}

TEST_F(FaultyBundles, Merge) {
  const std::vector<std::string> sources{directory_.file("part-0"), directory_.file("part-1")};
  fail_at(-1, false);
  for (int i = 0; i < 2; ++i) {
    auto out = BundleWriter::create(disk_, sources[i]).value_or_throw();
    ASSERT_OK(out->add(str_cat("x", i), Tensor::scalar(std::int32_t{i})));
    ASSERT_OK(out->finish());
  }
  ASSERT_OK(save(1));  // to be replaced
  for (int call = 0;; ++call) {
    fail_at(call, false);
    const Status merged = merge_bundles(faulty_, sources, prefix_);
    if (merged.ok()) {
      EXPECT_GT(call, 8);
      break;
    }
    EXPECT_HAS(merged.message(), failed_path_);
    EXPECT_EQ(restore(), 1.f) << call;
    for (int i = 0; i < 2; ++i) {
      auto in = BundleReader::open(disk_, sources[i]).value_or_throw();
      EXPECT_EQ(in->read(str_cat("x", i))->scalar<std::int32_t>(), i) << call;
    }
    EXPECT_EQ(files(), 6u) << call;
  }
  auto in = BundleReader::open(disk_, prefix_).value_or_throw();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(in->read(str_cat("x", i))->scalar<std::int32_t>(), i);
}

// As after a crash in the middle of it: the old checkpoint, the new one, or none, but never a mixture.
TEST_F(FaultyBundles, DiskDiesForGoodInAMerge) {
  const std::vector<std::string> sources{directory_.file("part-0"), directory_.file("part-1")};
  bool merged = false;
  int replaced = 0;
  for (int call = 0; !merged; ++call) {
    ASSERT_LT(call, 100);
    fail_at(-1, false);
    for (int i = 0; i < 2; ++i) {
      auto out = BundleWriter::create(disk_, sources[i]).value_or_throw();
      ASSERT_OK(out->add(str_cat("x", i), Tensor::scalar(std::int32_t{i})));
      ASSERT_OK(out->finish());
    }
    ASSERT_OK(save(1));
    fail_at(call, true);
    merged = merge_bundles(faulty_, sources, prefix_).ok();
    auto in = BundleReader::open(disk_, prefix_);
    if (!in.ok()) {
      EXPECT_FALSE(merged) << call;
      EXPECT_EQ(in.status().code(), Code::kNotFound) << in.status().to_string();
    } else if ((*in)->read("x0").ok()) {
      ++replaced;
      for (int i = 0; i < 2; ++i) EXPECT_EQ((*in)->read(str_cat("x", i))->scalar<std::int32_t>(), i) << call;
    } else {
      EXPECT_FALSE(merged) << call;
      EXPECT_EQ(restore(), 1.f) << call;
    }
  }
  EXPECT_GE(replaced, 1);
}

TEST_F(FaultyBundles, SliceFile) {
  const std::string path = directory_.file("old");
  const auto save_old = [&](float value) {
    SliceFileWriter out(faulty_, path);
    TUTTI_RETURN_IF_ERROR(out.add("x", {}, TensorSlice(), Tensor::scalar(value)));
    return out.finish();
  };
  fail_at(-1, false);
  ASSERT_OK(save_old(1));
  for (int call = 0;; ++call) {
    fail_at(call, false);
    const Status saved = save_old(2);
    auto in = SliceFileReader::open(disk_, path).value_or_throw();
    EXPECT_EQ(in->read("x")->scalar<float>(), saved.ok() ? 2 : 1);
    if (saved.ok()) break;
    EXPECT_HAS(saved.message(), failed_path_);
    EXPECT_EQ(files(), 1u);
  }
}

TEST_F(FaultyBundles, ReadFails) {
  fail_at(-1, false);
  ASSERT_OK(save(1));
  FaultyFileSystem unreadable(disk_, [](FileOp op, const std::string& path) {
    return op == FileOp::kRead && path.find(".data-") != std::string::npos
               ? unavailable("read \"", path, "\": the disk is gone")
               : Status();
  });
  auto in = BundleReader::open(unreadable, prefix_).value_or_throw();
  const Status status = in->read("large").status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_HAS(status.message(), "tensor \"large\"");
  EXPECT_HAS(status.message(), prefix_ + ".data-00000-of-00001");
}

}  // namespace tutti::bundle_fault_test
