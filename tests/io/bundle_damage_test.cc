// Bundles that were damaged, or made to do damage.
#include <functional>
#include <random>

#include "proto/tensor_bundle.pb.h"
#include "tests/io/io_support.h"
#include "tutti/io/bundle_reader.h"
#include "tutti/io/bundle_writer.h"
#include "tutti/io/internal/coding.h"
#include "tutti/io/merge_bundles.h"
#include "tutti/io/table_reader.h"
#include "tutti/io/table_writer.h"

namespace tutti::bundle_damage_test {

using tensorflow::BundleEntryProto;
using tensorflow::BundleHeaderProto;
using testing::patterned;
using testing::slurp;
using testing::spill;

class DamagedBundles : public ::testing::Test {
 protected:
  void SetUp() override {
    auto out = BundleWriter::create(fs_, prefix_).value_or_throw();
    ASSERT_OK(out->add("numbers", patterned(DType::kFloat, {4, 2})));
    ASSERT_OK(out->add("words", Tensor::vector<std::string>({"some", "", "words"})));
    ASSERT_OK(out->add("truth", Tensor::vector<bool>({true, false})));
    const Tensor part = patterned(DType::kInt32, {2});
    ASSERT_OK(out->add_slice("parts", {4}, TensorSlice::parse("0,2").value_or_throw(), part));
    ASSERT_OK(out->add_slice("parts", {4}, TensorSlice::parse("2,2").value_or_throw(), part));
    ASSERT_OK(out->finish());
  }

  // Every tensor read, whatever comes: the first error.
  Status read_all() {
    TUTTI_ASSIGN_OR_RETURN(auto in, BundleReader::open(fs_, prefix_));
    Status status;
    for (const std::string& name : in->names()) status.update(in->read(name).status());
    return status;
  }

  // The index with one value changed, checksums made good again.
  template <typename Proto>
  void rewrite(const std::string& key, const std::function<void(Proto&)>& change) {
    auto table = TableReader::open(fs_, index_).value_or_throw();
    std::map<std::string, std::string> entries;
    ASSERT_OK(table->scan([&](std::string_view k, std::string_view v) -> Status {
      entries.emplace(k, v);
      return {};
    }));
    Proto proto;
    ASSERT_TRUE(proto.ParseFromString(entries.at(key)));
    change(proto);
    entries[key] = proto.SerializeAsString();
    write(entries);
  }
  void write(const std::map<std::string, std::string>& entries) {
    auto file = fs_.open_for_write(index_).value_or_throw();
    TableWriter out(*file);
    for (const auto& [k, v] : entries) ASSERT_OK(out.add(k, v));
    ASSERT_OK(out.finish());
    ASSERT_OK(file->close());
  }
  void expect_entry_refused(const std::string& key, const std::function<void(BundleEntryProto&)>& change, Code code,
                            const std::string& text) {
    const std::string before = slurp(index_);
    rewrite<BundleEntryProto>(key, change);
    const Status status = read_all();
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_HAS(status.message(), text);
    spill(index_, before);
  }

  TempDirectory directory_;
  const std::string prefix_ = directory_.file("model");
  const std::string index_ = prefix_ + ".index";
  const std::string data_ = prefix_ + ".data-00000-of-00001";
  FileSystem& fs_ = local_file_system();
};

TEST_F(DamagedBundles, EveryFlippedBitOfTheDataIsFoundAndNamed) {
  ASSERT_OK(read_all());
  const std::string whole = slurp(data_);
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    spill(data_, damaged);
    const Status status = read_all();
    ASSERT_EQ(status.code(), Code::kDataLoss) << bit << " " << status.to_string();
    EXPECT_HAS(status.message(), data_);
    EXPECT_HAS(status.message(), bit / 8 < 32 ? "tensor \"numbers\"" : "tensor \"");
    EXPECT_HAS(status.message(), "checksum");
  }
}

TEST_F(DamagedBundles, EveryFlippedBitOfTheIndexIsFound) {
  const std::string whole = slurp(index_);
  constexpr std::size_t kFooter = 48;  // has padding that nobody reads
  constexpr std::size_t kTrailer = 5;
  ByteCursor footer(std::string_view(whole).substr(whole.size() - kFooter));
  std::uint64_t filters = 0, filters_size = 0;  // the block that LevelDB keeps for filters: nobody reads it either
  ASSERT_TRUE(footer.varint64(&filters) && footer.varint64(&filters_size));
  ASSERT_LT(filters_size, 16u);
  for (std::size_t bit = 0; bit < 8 * (whole.size() - kFooter); bit += 5) {  // every byte, changing bits
    const std::size_t byte = bit / 8;
    if (byte >= filters && byte < filters + filters_size + kTrailer) continue;
    std::string damaged = whole;
    damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << bit % 8));
    spill(index_, damaged);
    const Status status = read_all();
    EXPECT_EQ(status.code(), Code::kDataLoss) << byte << " " << status.to_string();
    EXPECT_HAS(status.message(), index_);
  }
}

TEST_F(DamagedBundles, EveryTruncationIsFound) {
  const std::string data = slurp(data_), index = slurp(index_);
  for (std::size_t size = 0; size < data.size(); ++size) {
    spill(data_, data.substr(0, size));
    const Status status = read_all();
    EXPECT_EQ(status.code(), Code::kDataLoss) << size;
    EXPECT_HAS(status.message(), data_);
    EXPECT_HAS(status.message(), "tensor \"");
  }
  spill(data_, data);
  for (std::size_t size = 0; size < index.size(); ++size) {
    spill(index_, index.substr(0, size));
    EXPECT_EQ(read_all().code(), Code::kDataLoss) << size;
  }
}

TEST_F(DamagedBundles, Entries) {
  const auto refused = [&](Code code, const std::string& text, const std::function<void(BundleEntryProto&)>& change) {
    expect_entry_refused("numbers", change, code, text);
  };
  const Code kLoss = Code::kDataLoss;
  refused(kLoss, "the size does not fit", [](auto& e) { e.set_size(31); });
  refused(kLoss, "no such place", [](auto& e) { e.set_size(-1); });
  refused(kLoss, "no such place", [](auto& e) { e.set_offset(-1); });
  refused(kLoss, "bytes only", [](auto& e) { e.set_offset(INT64_MAX); });
  refused(kLoss, "bytes only", [](auto& e) { e.set_size(INT64_MAX); });
  refused(kLoss, "checksum", [](auto& e) { e.set_offset(1); });
  refused(kLoss, "data file 1 of 1", [](auto& e) { e.set_shard_id(1); });
  refused(kLoss, "data file -1 of 1", [](auto& e) { e.set_shard_id(-1); });
  refused(kLoss, "checksum", [](auto& e) { e.set_crc32c(0); });
  refused(kLoss, "does not fit", [](auto& e) { e.mutable_shape()->mutable_dim(0)->set_size(1LL << 40); });
  refused(kLoss, "stored shape", [](auto& e) { e.mutable_shape()->mutable_dim(0)->set_size(-1); });
  refused(kLoss, "stored shape", [](auto& e) { e.mutable_shape()->mutable_dim(0)->set_size(INT64_MAX); });
  refused(kLoss, "stored shape", [](auto& e) { e.mutable_shape()->set_unknown_rank(true); });
  refused(kLoss, "stored type is 0", [](auto& e) { e.clear_dtype(); });
  refused(kLoss, "stored type is 101", [](auto& e) { e.set_dtype(static_cast<tensorflow::DataType>(101)); });
  refused(Code::kUnimplemented, "reads no variants", [](auto& e) { e.set_dtype(tensorflow::DT_VARIANT); });
  refused(Code::kUnimplemented, "type resource", [](auto& e) { e.set_dtype(tensorflow::DT_RESOURCE); });
  refused(kLoss, "too few bytes", [](auto& e) {
    e.set_dtype(tensorflow::DT_STRING);
    e.mutable_shape()->mutable_dim(0)->set_size(1LL << 40);
  });
  refused(kLoss, "strings", [](auto& e) { e.set_dtype(tensorflow::DT_STRING); });
}

TEST_F(DamagedBundles, Parts) {
  const auto refused = [&](Code code, const std::string& text, const std::function<void(BundleEntryProto&)>& change) {
    expect_entry_refused("parts", change, code, text);
  };
  refused(Code::kInvalidArgument, "sufficient slices", [](auto& e) { e.mutable_slices()->RemoveLast(); });
  refused(Code::kInternal, "Overlapping", [](auto& e) { *e.add_slices() = e.slices(0); });
  refused(Code::kInvalidArgument, "sufficient slices",
          [](auto& e) { e.mutable_shape()->mutable_dim(0)->set_size(1LL << 50); });
  refused(Code::kNotFound, "Key",
          [](auto& e) { e.mutable_slices(0)->mutable_extent(0)->clear_length(), e.mutable_slices()->RemoveLast(); });
  refused(Code::kDataLoss, "out of bounds", [](auto& e) { e.mutable_slices(0)->mutable_extent(0)->set_length(9); });
  refused(Code::kDataLoss, "ranks", [](auto& e) { e.mutable_slices(0)->add_extent(); });
  refused(Code::kInternal, "is stored as", [](auto& e) { e.set_dtype(tensorflow::DT_FLOAT); });
}

// A claim of 16 TB, backed by slices that exist.
TEST_F(DamagedBundles, LargeClaimsAllocateNothing) {
  rewrite<BundleEntryProto>("parts", [](BundleEntryProto& e) {
    e.mutable_shape()->mutable_dim(0)->set_size(1LL << 42);
    e.mutable_slices(0)->mutable_extent(0)->set_length(1LL << 41);
    e.mutable_slices(1)->mutable_extent(0)->set_start(1LL << 41);
    e.mutable_slices(1)->mutable_extent(0)->set_length(1LL << 41);
  });
  const Status status = read_all();
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_HAS(status.message(), "is more than the");
}

TEST_F(DamagedBundles, Headers) {
  const std::string before = slurp(index_);
  const auto refused = [&](Code code, const std::string& text, const std::function<void(BundleHeaderProto&)>& change) {
    rewrite<BundleHeaderProto>("", change);
    const Status status = read_all();
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_HAS(status.message(), text);
    EXPECT_HAS(status.message(), index_);
    spill(index_, before);
  };
  refused(Code::kUnimplemented, "big-endian", [](auto& h) { h.set_endianness(BundleHeaderProto::BIG); });
  refused(Code::kDataLoss, "counts 0 data files", [](auto& h) { h.set_num_shards(0); });
  refused(Code::kDataLoss, "counts -5 data files", [](auto& h) { h.set_num_shards(-5); });
  refused(Code::kInvalidArgument, "version 7", [](auto& h) { h.mutable_version()->set_min_consumer(7); });
  refused(Code::kInvalidArgument, "refuses", [](auto& h) { h.mutable_version()->add_bad_consumers(1); });
  write({});
  EXPECT_HAS(read_all().message(), "the table is empty");
  write({{"a", "b"}});
  EXPECT_HAS(read_all().message(), "no header");
  write({{"", "\xff\xff"}});
  EXPECT_EQ(read_all().code(), Code::kDataLoss);
  write({{"", "\x08\x01"}, {"x", "\xff\xff"}});
  EXPECT_HAS(read_all().message(), "the entry of \"x\"");
}

TEST_F(DamagedBundles, BoolsAreMadeValid) {
  std::string data = slurp(data_);
  auto in = BundleReader::open(fs_, prefix_).value_or_throw();
  BundleEntryProto entry;
  auto table = TableReader::open(fs_, index_).value_or_throw();
  ASSERT_TRUE(entry.ParseFromString(**table->find("truth")));
  data[static_cast<std::size_t>(entry.offset())] = 2;
  spill(data_, data);
  EXPECT_EQ(in->read("truth").status().code(), Code::kDataLoss);
  // The masked checksum of the bytes 2 and 0.
  rewrite<BundleEntryProto>("truth", [&](BundleEntryProto& e) { e.set_crc32c(0x30fc9720); });
  const Result<Tensor> read = BundleReader::open(fs_, prefix_).value_or_throw()->read("truth");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_TRUE(bitwise_equal(*read, Tensor::vector<bool>({true, false})));
}

// What the fuzzer does, for a moment: any bytes give an answer.
TEST_F(DamagedBundles, RandomDamage) {
  const std::string index = slurp(index_);
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::string damaged = index;
    for (unsigned i = 0; i <= random() % 4; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    spill(index_, damaged);
    (void)read_all();
  }
}

}  // namespace tutti::bundle_damage_test
