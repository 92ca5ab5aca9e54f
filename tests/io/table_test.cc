#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/iterator.h>
#include <leveldb/table.h>

#include <map>
#include <memory>

#include "tests/io/io_support.h"
#include "tutti/io/crc32c.h"
#include "tutti/io/internal/coding.h"
#include "tutti/io/table_reader.h"
#include "tutti/io/table_writer.h"

namespace tutti::table_test {

using testing::from_hex;
using testing::slurp;
using testing::spill;

class Tables : public ::testing::Test {
 protected:
  using Map = std::map<std::string, std::string>;

  Status write(const Map& entries) {
    auto file = fs_.open_for_write(path_).value_or_throw();
    TableWriter table(*file);
    for (const auto& [key, value] : entries) TUTTI_RETURN_IF_ERROR(table.add(key, value));
    TUTTI_RETURN_IF_ERROR(table.finish());
    return file->close();
  }
  Result<Map> read() {
    TUTTI_ASSIGN_OR_RETURN(auto table, TableReader::open(fs_, path_));
    Map entries;
    TUTTI_RETURN_IF_ERROR(table->scan([&](std::string_view key, std::string_view value) -> Status {
      entries.emplace(key, value);
      return {};
    }));
    return entries;
  }
  static Map many() {
    Map entries;
    for (int i = 0; i < 5000; ++i) {
      const std::string key =
          str_cat("layer", i % 100, "/unit", i, std::string(static_cast<std::size_t>(i % 7), '\xff'));
      entries[key] = std::string(static_cast<std::size_t>(i * 13 % 400), static_cast<char>(i));
    }
    entries[""] = "header";
    entries[std::string("\0zero", 5)] = "";
    entries["large"] = std::string(600'000, 'x');
    return entries;
  }

  TempDirectory directory_;
  const std::string path_ = directory_.file("table");
  FileSystem& fs_ = local_file_system();
};

TEST_F(Tables, RoundTrip) {
  for (const Map& entries : {Map{}, Map{{"", ""}}, Map{{"a", "1"}, {"ab", "2"}}, many()}) {
    ASSERT_OK(write(entries));
    Result<Map> back = read();
    ASSERT_TRUE(back.ok()) << back.status().to_string();
    EXPECT_TRUE(*back == entries);
    auto table = TableReader::open(fs_, path_).value_or_throw();
    for (const auto& [key, value] : entries) {
      Result<std::optional<std::string>> found = table->find(key);
      ASSERT_TRUE(found.ok() && found->has_value()) << key;
      EXPECT_EQ(**found, value);
      EXPECT_EQ(*table->find(key + '\0'), std::nullopt);
    }
    EXPECT_EQ(*table->find("\xff\xff"), std::nullopt);
  }
}

// LevelDB's own reader sees the same.
TEST_F(Tables, LevelDbReads) {
  const Map entries = many();
  ASSERT_OK(write(entries));
  leveldb::RandomAccessFile* file = nullptr;
  ASSERT_TRUE(leveldb::Env::Default()->NewRandomAccessFile(path_, &file).ok());
  const std::unique_ptr<leveldb::RandomAccessFile> owned_file(file);
  leveldb::Table* table = nullptr;
  leveldb::Options options;
  options.paranoid_checks = true;
  ASSERT_TRUE(leveldb::Table::Open(options, file, slurp(path_).size(), &table).ok());
  const std::unique_ptr<leveldb::Table> owned_table(table);
  leveldb::ReadOptions checked;
  checked.verify_checksums = true;
  const std::unique_ptr<leveldb::Iterator> it(table->NewIterator(checked));
  Map back;
  for (it->SeekToFirst(); it->Valid(); it->Next()) back[it->key().ToString()] = it->value().ToString();
  EXPECT_TRUE(it->status().ok());
  EXPECT_TRUE(back == entries);
}

TEST_F(Tables, KeysMustGrow) {
  auto file = fs_.open_for_write(path_).value_or_throw();
  TableWriter table(*file);
  ASSERT_OK(table.add("b", ""));
  EXPECT_EQ(table.add("b", "").code(), Code::kInvalidArgument);
  EXPECT_EQ(table.add("a", "").code(), Code::kInvalidArgument);
  EXPECT_TRUE(table.add("ba", "").ok());
}

TEST_F(Tables, EveryTruncationIsFound) {
  ASSERT_OK(write({{"", "header"}, {"w", "value"}}));
  const std::string whole = slurp(path_);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    spill(path_, whole.substr(0, size));
    const Result<Map> back = read();
    ASSERT_FALSE(back.ok()) << size;
    EXPECT_EQ(back.status().code(), Code::kDataLoss);
    EXPECT_HAS(back.status().message(), path_);
  }
}

// Of the padding and the unused handle in the footer nothing depends on a byte; of all else everything.
TEST_F(Tables, EveryFlippedBitIsFoundOrHarmless) {
  const Map entries{{"", "header"}, {"v", "value"}, {"w", "value"}};
  ASSERT_OK(write(entries));
  const std::string whole = slurp(path_);
  int harmless = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int bit = static_cast<int>(at % 3); bit < 8; bit += 3) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      spill(path_, damaged);
      const Result<Map> back = read();
      if (back.ok()) {
        EXPECT_TRUE(*back == entries);
        EXPECT_TRUE(at + 48 >= whole.size() || (at >= whole.size() - 48 - 32)) << at;
        ++harmless;
      }
    }
  }
  EXPECT_GT(harmless, 0);
}

// Hostile tables with good checksums, made by hand.
class HostileTables : public Tables {
 protected:
  static std::string block(const std::string& contents, char type = 0) {
    std::string bytes = contents + type;
    std::string crc;
    put_fixed32(crc, mask_crc(crc32c(bytes)));
    return bytes + crc;
  }
  static std::string entry(std::uint64_t shared, std::string_view suffix, std::string_view value) {
    std::string bytes;
    put_varint64(bytes, shared);
    put_varint64(bytes, suffix.size());
    put_varint64(bytes, value.size());
    return bytes + std::string(suffix) + std::string(value);
  }
  static std::string handle(std::uint64_t offset, std::uint64_t size) {
    std::string bytes;
    put_varint64(bytes, offset);
    put_varint64(bytes, size);
    return bytes;
  }
  static std::string restarts(std::uint32_t count = 1) {
    std::string bytes(4 * std::size_t{count ? 1u : 0u}, '\0');
    put_fixed32(bytes, count);
    return bytes;
  }
  static std::string footer(std::uint64_t index_offset, std::uint64_t index_size) {
    std::string bytes = handle(0, 0) + handle(index_offset, index_size);
    bytes.resize(40);
    return bytes + from_hex("57fb808b247547db");
  }
  // One data block with these contents.
  Result<Map> read_block(const std::string& contents, char type = 0) {
    const std::string index = entry(0, "z", handle(0, contents.size())) + restarts();
    const std::string data = block(contents, type);
    spill(path_, data + block(index) + footer(data.size(), index.size()));
    return read();
  }
};

TEST_F(HostileTables, BlockContents) {
  EXPECT_TRUE(read_block(entry(0, "a", "1") + entry(1, "b", "2") + restarts()).ok());
  const std::string bad[] = {
      "",
      "abc",
      restarts(0x7fffffff),
      entry(0, "a", "1") + entry(2, "b", "2") + restarts(),  // shares more than there is
      entry(0, "b", "1") + entry(0, "a", "2") + restarts(),  // out of order
      entry(0, "b", "1") + entry(1, "", "2") + restarts(),   // the same again
      from_hex("00ffffffff0f00") + restarts(),               // a key of 4 GB
      from_hex("000100") + restarts(),                       // cut in the middle
      from_hex("ffffffffffffffffffff01") + restarts(),       // a varint that never ends
  };
  for (const std::string& contents : bad) {
    const Result<Map> back = read_block(contents);
    ASSERT_FALSE(back.ok());
    EXPECT_EQ(back.status().code(), Code::kDataLoss) << back.status().to_string();
  }
  EXPECT_EQ(read_block(entry(0, "a", "1") + restarts(), 1).status().code(), Code::kUnimplemented);
}

TEST_F(HostileTables, Handles) {
  const std::string data = block(entry(0, "a", "1") + restarts());
  const std::uint64_t places[][2] = {
      {0, ~std::uint64_t{0}}, {~std::uint64_t{0}, 1},  {~std::uint64_t{0}, ~std::uint64_t{0}},
      {1 << 30, 5},           {0, data.size() + 1000}, {3, data.size() - 5}};
  for (const auto& [offset, size] : places) {
    const std::string index = entry(0, "z", handle(offset, size)) + restarts();
    spill(path_, data + block(index) + footer(data.size(), index.size()));
    EXPECT_EQ(read().status().code(), Code::kDataLoss);
    spill(path_, data + footer(offset, size));
    EXPECT_EQ(read().status().code(), Code::kDataLoss);
  }
  // The same block twice, which would give its keys twice.
  const std::string index =
      entry(0, "b", handle(0, data.size() - 5)) + entry(0, "c", handle(0, data.size() - 5)) + restarts();
  spill(path_, data + block(index) + footer(data.size(), index.size()));
  EXPECT_EQ(read().status().code(), Code::kDataLoss);
}

}  // namespace tutti::table_test
