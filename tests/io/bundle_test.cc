#include <limits>

#include "proto/tensor_bundle.pb.h"
#include "tests/io/io_support.h"
#include "tutti/core/tensor_variant.h"
#include "tutti/io/bundle_reader.h"
#include "tutti/io/bundle_writer.h"
#include "tutti/io/table_reader.h"

namespace tutti::bundle_test {

using testing::from_hex;
using testing::patterned;
using testing::slurp;
using testing::storable_dtypes;

class Bundles : public ::testing::Test {
 protected:
  std::unique_ptr<BundleWriter> writer(const BundleWriterOptions& options = {}) {
    return BundleWriter::create(fs_, prefix_, options).value_or_throw();
  }
  std::unique_ptr<BundleReader> reader() { return BundleReader::open(fs_, prefix_).value_or_throw(); }
  TensorSlice slice(std::string_view text) { return TensorSlice::parse(text).value_or_throw(); }

  TempDirectory directory_;
  const std::string prefix_ = directory_.file("a/b/model.ckpt");
  FileSystem& fs_ = local_file_system();
};

// Remembers how it was asked.
class Asked : public FaultyFileSystem {
 public:
  Asked()
      : FaultyFileSystem(local_file_system(), [this](FileOp op, const std::string&) {
          if (op == FileOp::kSyncDirectory) ++directory_syncs;
          return Status();
        }) {}
  Result<std::unique_ptr<WritableFile>> open_for_large_write(const std::string& path) override {
    large.push_back(path);
    return open_for_write(path);
  }

  int directory_syncs = 0;
  std::vector<std::string> large;
};

TEST_F(Bundles, OnlySyncedElementsAreALargeFile) {
  for (const bool sync : {true, false}) {
    Asked files;
    const auto out = BundleWriter::create(files, prefix_, {.sync = sync}).value_or_throw();
    ASSERT_OK(out->add("v", Tensor::vector<float>({1, 2})));
    ASSERT_OK(out->finish());
    ASSERT_EQ(files.large.size(), sync ? 1u : 0u);
    for (const std::string& path : files.large) EXPECT_TRUE(path.starts_with(prefix_ + ".data-00000-of-00001")) << path;
  }
}

TEST_F(Bundles, TheirDirectoryIsSyncedOnce) {
  Asked files;
  const auto out = BundleWriter::create(files, prefix_).value_or_throw();
  ASSERT_OK(out->finish());
  EXPECT_EQ(files.directory_syncs, 1);
}

// Bytes worked out by hand from the format.
TEST_F(Bundles, Bytes) {
  auto out = writer();
  ASSERT_OK(out->add("v", Tensor::vector<float>({1, 2})));
  ASSERT_OK(out->finish());
  EXPECT_EQ(slurp(prefix_ + ".data-00000-of-00001"), from_hex("0000803f00000040"));
  EXPECT_EQ(
      slurp(prefix_ + ".index"),
      from_hex("00000608011a02080100010f760801120412020802280835593ce5350000000001000000"
               "0030559358"
               "0000000001000000"
               "00c0f2a1b0"
               "0001027700240000000001000000"
               "009460b2cd"
               "2908360e00000000000000000000000000000000000000000000000000000000000000000000000057fb808b247547db"));
  EXPECT_EQ(fs_.list(directory_.file("a/b"))->size(), 2u);
}

TEST_F(Bundles, StringBytes) {
  auto out = writer();
  ASSERT_OK(out->add("s", Tensor::vector<std::string>({"ab", "c"})));
  ASSERT_OK(out->finish());
  EXPECT_EQ(slurp(prefix_ + ".data-00000-of-00001"), from_hex("020103717c67616263"));
  auto table = TableReader::open(fs_, prefix_ + ".index").value_or_throw();
  tensorflow::BundleEntryProto entry;
  ASSERT_TRUE(entry.ParseFromString(**table->find("s")));
  EXPECT_EQ(entry.crc32c(), 0x5fd830d5u);
  EXPECT_EQ(entry.size(), 9);
}

// Objects that hold a string, which is their message.
const VariantCodec kTexts{.encode = [](const Tensor& variants) -> Result<std::vector<std::string>> {
                            std::vector<std::string> messages;
                            for (const Variant& variant : variants.flat<Variant>()) {
                              const auto* held = variant.get<TensorVariant>();
                              if (held == nullptr) return unimplemented("no text");
                              messages.push_back(held->tensor().scalar<std::string>());
                            }
                            return messages;
                          },
                          .decode = [](std::span<const std::string_view> messages, Tensor& variants) -> Status {
                            for (std::size_t i = 0; i < messages.size(); ++i) {
                              if (messages[i] == "bad") return invalid_argument("a bad text");
                              if (messages[i] == "other") return unimplemented("another text");
                              variants.data<Variant>()[i] =
                                  Variant(std::make_shared<TensorVariant>(Tensor::scalar(std::string(messages[i]))));
                            }
                            return {};
                          }};

Tensor texts(const std::vector<std::string>& values) {
  Tensor variants(DType::kVariant, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) {
    variants.data<Variant>()[i] = Variant(std::make_shared<TensorVariant>(Tensor::scalar(values[i])));
  }
  return variants;
}

std::vector<std::string> values_of(const Tensor& variants) {
  std::vector<std::string> values;
  for (const Variant& variant : variants.flat<Variant>()) {
    values.push_back(variant.get<TensorVariant>()->tensor().scalar<std::string>());
  }
  return values;
}

// Two of TensorFlow's messages, and the file that TensorFlow 2.15 writes for them.
TEST_F(Bundles, VariantBytes) {
  const std::string first =
      "0a1674656e736f72666c6f773a3a54656e736f724c69737412100001ffffffffffffffffff01120208021a1208011204120208022a080000"
      "803f000000401a1208011204120208022a080000404000008040";
  const std::string second =
      "0a1674656e736f72666c6f773a3a54656e736f724c697374121002000203ffffffffffffffffff0118011a0c08031204120208023a0205"
      "06";
  auto out = writer({.variants = &kTexts});
  const std::vector<std::string> messages{from_hex(first), from_hex(second)};
  ASSERT_OK(out->add("s", texts(messages)));
  ASSERT_OK(out->finish());
  EXPECT_EQ(slurp(prefix_ + ".data-00000-of-00001"), from_hex("52" + first + "6915458e" + "38" + second + "cc6354a1"));
  const auto in = BundleReader::open(fs_, prefix_, &kTexts).value_or_throw();
  EXPECT_EQ(values_of(in->read("s").value_or_throw()), messages);
}

TEST_F(Bundles, Variants) {
  auto out = writer({.variants = &kTexts});
  const std::vector<std::string> many{"", std::string(70'000, 'x'), "c"};
  ASSERT_OK(out->add("many", texts(many)));
  ASSERT_OK(out->add("none", Tensor(DType::kVariant, {0, 3})));
  ASSERT_OK(out->add("bad", texts({"good", "bad"})));
  ASSERT_OK(out->add("other", texts({"other"})));
  EXPECT_EQ(out->add("empty", Tensor(DType::kVariant, {1})), unimplemented("tensor \"empty\": no text"));
  // What failed left nothing behind.
  EXPECT_EQ(out->add_slice("part", {2}, slice("0,1"), Tensor(DType::kVariant, {1})).code(), Code::kUnimplemented);
  ASSERT_OK(out->add("part", texts({"whole"})));
  ASSERT_OK(out->finish());
  const auto in = BundleReader::open(fs_, prefix_, &kTexts).value_or_throw();
  EXPECT_EQ(values_of(in->read("many").value_or_throw()), many);
  EXPECT_EQ(in->read("none")->shape(), Shape({0, 3}));
  EXPECT_EQ(in->read("bad").status().code(), Code::kDataLoss);
  EXPECT_NE(in->read("bad").status().message().find("a bad text"), std::string::npos);
  EXPECT_EQ(in->read("other").status().code(), Code::kUnimplemented);
  EXPECT_EQ(values_of(in->read("part").value_or_throw()), std::vector<std::string>{"whole"});
  EXPECT_EQ(reader()->find("many")->dtype, DType::kVariant);
  EXPECT_EQ(reader()->read("many").status().code(), Code::kUnimplemented);
}

TEST_F(Bundles, DamagedVariants) {
  auto out = writer({.variants = &kTexts});
  ASSERT_OK(out->add("v", texts({"first", "second"})));
  ASSERT_OK(out->finish());
  const std::string path = prefix_ + ".data-00000-of-00001", good = slurp(path);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    ASSERT_OK(write_file(fs_, path, bad));
    const auto in = BundleReader::open(fs_, prefix_, &kTexts).value_or_throw();
    EXPECT_EQ(in->read("v").status().code(), Code::kDataLoss) << i;
  }
}

TEST_F(Bundles, EveryTypeAndShape) {
  const std::vector<Shape> shapes{{}, {0}, {3}, {2, 0, 4}, {2, 3, 4}, {1, 1, 1, 1, 1, 1, 7}};
  for (std::uint64_t alignment : {1, 64}) {
    auto out = writer({.alignment = alignment});
    std::map<std::string, Tensor> all;
    for (DType dtype : storable_dtypes()) {
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        const std::string name = str_cat(dtype_name(dtype), "/", i);
        all[name] = patterned(dtype, shapes[i], static_cast<int>(i));
        ASSERT_OK(out->add(name, all[name]));
      }
    }
    ASSERT_OK(out->finish());
    auto in = reader();
    std::vector<std::string> names;
    for (const auto& [name, value] : all) {
      names.push_back(name);
      Result<Tensor> back = in->read(name);
      ASSERT_TRUE(back.ok()) << back.status().to_string();
      EXPECT_TRUE(bitwise_equal(*back, value)) << name;
      const BundleEntry entry = in->find(name).value_or_throw();
      EXPECT_EQ(entry.dtype, value.dtype());
      EXPECT_EQ(entry.shape, value.shape());
    }
    EXPECT_EQ(in->names(), names);
  }
}

TEST_F(Bundles, Alignment) {
  auto out = writer({.alignment = 16});
  ASSERT_OK(out->add("a", Tensor::scalar(std::uint8_t{1})));
  ASSERT_OK(out->add("b", Tensor::scalar(std::uint8_t{2})));
  ASSERT_OK(out->finish());
  const std::string data = slurp(prefix_ + ".data-00000-of-00001");
  EXPECT_EQ(data, std::string("\1", 1) + std::string(15, '\0') + "\2");
}

TEST_F(Bundles, Slices) {
  for (DType dtype : {DType::kFloat, DType::kString, DType::kBool}) {
    const Tensor top = patterned(dtype, {2, 3}, 1), bottom = patterned(dtype, {3, 3}, 2);
    auto out = writer();
    ASSERT_OK(out->add_slice("w", {5, 3}, slice("0,2:0,3"), top));
    ASSERT_OK(out->add_slice("w", {5, 3}, slice("2,3:-"), bottom));
    ASSERT_OK(out->add_slice("full", {2, 3}, slice("0,2:-"), top));
    ASSERT_OK(out->add("other", top));
    ASSERT_OK(out->finish());
    auto in = reader();
    EXPECT_EQ(in->names(), (std::vector<std::string>{"full", "other", "w"}));
    EXPECT_TRUE(bitwise_equal(*in->read("full"), top));
    EXPECT_TRUE(in->find("full")->slices.empty());
    EXPECT_EQ(in->find("w")->slices, (std::vector{slice("0,2:0,3"), slice("2,3:-")}));
    const Tensor whole = in->read("w").value_or_throw();
    EXPECT_EQ(whole.shape(), Shape({5, 3}));
    EXPECT_TRUE(bitwise_equal(whole.slice(0, 2), top));
    EXPECT_TRUE(bitwise_equal(whole.slice(2, 5), bottom));
    EXPECT_TRUE(bitwise_equal(*in->read_slice("w", slice("1,3:-")), whole.slice(1, 4)));
    EXPECT_TRUE(bitwise_equal(*in->read_slice("w", slice("0,2:-")), top));
    EXPECT_TRUE(bitwise_equal(*in->read_slice("other", slice("1,1:-")), top.slice(1, 2)));
    EXPECT_EQ(in->read_slice("other", slice("1,2:-")).status().code(), Code::kInternal);
    EXPECT_EQ(in->read_slice("w", slice("1,2")).status().code(), Code::kInternal);
  }
}

TEST_F(Bundles, RefusedByTheWriter) {
  auto out = writer();
  ASSERT_OK(out->add("x", Tensor::scalar(1.f)));
  EXPECT_EQ(out->add("x", Tensor::scalar(2.f)), invalid_argument("Adding duplicate key: x"));
  EXPECT_EQ(out->add("", Tensor::scalar(2.f)).code(), Code::kInvalidArgument);
  const Status handle = out->add("h", Tensor(DType::kResource, {}));
  EXPECT_EQ(handle, unimplemented("tensor \"h\": checkpoints hold no values of type resource"));
  EXPECT_EQ(out->add("v", Tensor(DType::kVariant, {})).code(), Code::kUnimplemented);
  EXPECT_EQ(out->add_slice("x", {2}, slice("0,1"), Tensor::vector<float>({1})).code(), Code::kInvalidArgument);
  ASSERT_OK(out->add_slice("w", {2}, slice("0,1"), Tensor::vector<float>({1})));
  EXPECT_EQ(out->add_slice("w", {2}, slice("0,1"), Tensor::vector<float>({1})).code(), Code::kInvalidArgument);
  EXPECT_EQ(out->add_slice("w", {3}, slice("1,1"), Tensor::vector<float>({1})).code(), Code::kInvalidArgument);
  EXPECT_EQ(out->add_slice("w", {2}, slice("1,1"), Tensor::vector<double>({1})).code(), Code::kInvalidArgument);
  EXPECT_EQ(out->add_slice("w", {2}, slice("1,1"), Tensor::vector<float>({1, 2})).code(), Code::kInvalidArgument);
  EXPECT_EQ(out->add("w", Tensor::scalar(1.f)).code(), Code::kInvalidArgument);
  ASSERT_OK(out->finish());
  EXPECT_EQ(out->finish().code(), Code::kFailedPrecondition);
  EXPECT_EQ(reader()->read("x")->scalar<float>(), 1);
  EXPECT_EQ(BundleWriter::create(fs_, prefix_, {.alignment = 0}).status().code(), Code::kInvalidArgument);
}

TEST_F(Bundles, NotFound) {
  EXPECT_EQ(BundleReader::open(fs_, prefix_).status().code(), Code::kNotFound);
  auto out = writer();
  ASSERT_OK(out->add("x", Tensor::scalar(1.f)));
  ASSERT_OK(out->finish());
  auto in = reader();
  EXPECT_FALSE(in->contains("y"));
  EXPECT_EQ(in->read("y").status(), not_found("Key y not found in checkpoint \"", prefix_, "\""));
  EXPECT_EQ(in->find("y").status().code(), Code::kNotFound);
  EXPECT_EQ(in->read_slice("y", slice("-")).status().code(), Code::kNotFound);
  ASSERT_OK(fs_.remove(prefix_ + ".data-00000-of-00001"));
  const Status gone = reader()->read("x").status();
  EXPECT_EQ(gone.code(), Code::kNotFound);
  EXPECT_HAS(gone.message(), "tensor \"x\"");
  EXPECT_HAS(gone.message(), prefix_ + ".data-00000-of-00001");
}

TEST_F(Bundles, AnUnfinishedWriterLeavesNothing) {
  {
    auto out = writer();
    ASSERT_OK(out->add("x", patterned(DType::kFloat, {100'000})));
    EXPECT_EQ(fs_.list(directory_.file("a/b"))->size(), 1u);
  }
  EXPECT_EQ(fs_.list(directory_.file("a/b"))->size(), 0u);
}

TEST_F(Bundles, ManyTensors) {
  auto out = writer();
  for (int i = 0; i < 20'000; ++i) ASSERT_OK(out->add(str_cat("scope/layer_", i), Tensor::scalar(std::int32_t{i})));
  ASSERT_OK(out->finish());
  auto in = reader();
  EXPECT_EQ(in->names().size(), 20'000u);
  for (int i : {0, 1, 9'999, 19'999}) EXPECT_EQ(in->read(str_cat("scope/layer_", i))->scalar<std::int32_t>(), i);
}

}  // namespace tutti::bundle_test
