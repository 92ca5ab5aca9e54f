#include <zlib.h>

#include "tests/io/io_support.h"
#include "tutti/io/crc32c.h"
#include "tutti/io/internal/coding.h"
#include "tutti/io/record_reader.h"
#include "tutti/io/record_writer.h"

namespace tutti::record_test {

using testing::from_hex;
using testing::slurp;
using testing::spill;

std::string deflated(std::string_view bytes, int window_bits) {
  z_stream stream = {};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

class Records : public ::testing::Test {
 protected:
  void write(const std::vector<std::string>& records) {
    auto writer = RecordWriter::create(fs_, path_).value_or_throw();
    for (const std::string& record : records) ASSERT_OK(writer->write(record));
    ASSERT_OK(writer->close());
  }
  // What came before the error, if there was one.
  Status read(std::vector<std::string>* records, const RecordReaderOptions& options = {}) {
    TUTTI_ASSIGN_OR_RETURN(auto reader, RecordReader::open(fs_, path_, options));
    std::string record;
    while (true) {
      Result<bool> more = reader->next(&record);
      if (!more.ok()) {
        EXPECT_EQ(reader->next(&record).status(), more.status());
        return more.status();
      }
      if (!*more) return {};
      records->push_back(record);
    }
  }
  static std::vector<std::string> samples() {
    std::vector<std::string> records{"", "abc", std::string(1, '\0')};
    for (int i = 0; i < 300; ++i)
      records.push_back(std::string(static_cast<std::size_t>(i * 17), static_cast<char>(i)));
    records.push_back(std::string(3'000'000, 'L'));
    return records;
  }

  TempDirectory directory_;
  const std::string path_ = directory_.file("records");
  FileSystem& fs_ = local_file_system();
};

TEST_F(Records, Bytes) {
  write({"", "abc"});
  EXPECT_EQ(slurp(path_), from_hex("000000000000000029039807d8ea82a20300000000000000b099490e6162636e57f121"));
}

TEST_F(Records, RoundTrip) {
  const std::vector<std::string> records = samples();
  write(records);
  for (std::size_t buffer : {1, 7, 4096, 1 << 20}) {
    std::vector<std::string> back;
    ASSERT_OK(read(&back, {.buffer_bytes = buffer}));
    EXPECT_TRUE(back == records);
  }
  write({});
  std::vector<std::string> none;
  ASSERT_OK(read(&none));
  EXPECT_TRUE(none.empty());
}

TEST_F(Records, Compressed) {
  const std::vector<std::string> records = samples();
  write(records);
  const std::string plain = slurp(path_);
  for (const auto& [name, window] : {std::pair{"ZLIB", 15}, std::pair{"GZIP", 31}}) {
    spill(path_, deflated(plain, window));
    std::vector<std::string> back;
    ASSERT_OK(read(&back, {.compression = name}));
    EXPECT_TRUE(back == records);
    const std::string whole = slurp(path_);
    spill(path_, whole.substr(0, whole.size() / 2));
    EXPECT_EQ(read(&back, {.compression = name}).code(), Code::kDataLoss);
    spill(path_, plain);
    EXPECT_EQ(read(&back, {.compression = name}).code(), Code::kDataLoss);
  }
  spill(path_, deflated(plain.substr(0, 16), 31) + deflated(plain.substr(16), 31));
  std::vector<std::string> members;
  ASSERT_OK(read(&members, {.compression = "GZIP"}));
  EXPECT_TRUE(members == records);
  EXPECT_EQ(read(&members, {.compression = "LZMA"}).code(), Code::kInvalidArgument);
}

TEST_F(Records, EveryTruncationIsFound) {
  write({"first", "second"});
  const std::string whole = slurp(path_);
  const std::size_t second = 16 + 5;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    spill(path_, whole.substr(0, size));
    std::vector<std::string> back;
    const Status status = read(&back);
    EXPECT_EQ(back.size(), size >= second ? 1u : 0u);
    if (size == 0 || size == second) {
      EXPECT_TRUE(status.ok());
    } else {
      EXPECT_EQ(status.code(), Code::kDataLoss);
      EXPECT_HAS(status.message(), str_cat("record at ", size < second ? 0 : second, " of \"", path_, "\": truncated"));
    }
  }
}

TEST_F(Records, EveryFlippedBitIsFound) {
  write({"first", "second"});
  const std::string whole = slurp(path_);
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    spill(path_, damaged);
    std::vector<std::string> back;
    const Status status = read(&back);
    EXPECT_EQ(status.code(), Code::kDataLoss) << bit;
    EXPECT_HAS(status.message(), "corrupted");
    EXPECT_EQ(back.size(), bit / 8 < 21 ? 0u : 1u);
  }
}

// A length that its own checksum confirms, and far more than any memory.
TEST_F(Records, HugeLength) {
  for (const std::uint64_t length : {std::uint64_t{1} << 40, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    std::string bytes;
    put_fixed64(bytes, length);
    put_fixed32(bytes, mask_crc(crc32c(bytes)));
    spill(path_, bytes + "few");
    std::vector<std::string> back;
    const Status status = read(&back);
    EXPECT_EQ(status.code(), Code::kDataLoss);
    EXPECT_HAS(status.message(), str_cat("truncated: 3 of its ", length, " bytes"));
  }
}

TEST_F(Records, FullDisk) {
  FaultyFileSystem full(
      fs_,
      [](FileOp op, const std::string& path) {
        return op == FileOp::kAppend ? resource_exhausted("write \"", path, "\": no space") : Status();
      },
      true);
  auto writer = RecordWriter::create(full, path_).value_or_throw();
  const Status status = writer->write("abc");
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_HAS(status.message(), path_);
  EXPECT_EQ(writer->close(), status);
}

TEST_F(Records, NoFile) {
  std::vector<std::string> back;
  EXPECT_EQ(read(&back).code(), Code::kNotFound);
}

}  // namespace tutti::record_test
