#include "tutti/io/table_reader.h"

#include <algorithm>
#include <new>

#include "tutti/io/crc32c.h"
#include "tutti/io/internal/coding.h"

namespace tutti {

namespace {

constexpr std::uint64_t kFooterBytes = 48;
constexpr std::uint64_t kTrailerBytes = 5;  // compression, checksum
constexpr std::uint64_t kMagic = 0xdb4775248b80fb57;

// Walks the entries of a block from the first to the last.
class BlockCursor {
 public:
  // The tail of a block is a list of entries that share nothing with the one before; walking needs it only to know
  // where the entries end.
  static bool open(std::string_view contents, BlockCursor* cursor) {
    constexpr std::size_t kNumber = sizeof(std::uint32_t);
    if (contents.size() < kNumber) return false;
    std::uint32_t restarts = 0;
    ByteCursor(contents.substr(contents.size() - kNumber)).fixed32(&restarts);
    if (restarts > (contents.size() - kNumber) / kNumber) return false;
    cursor->entries_ = ByteCursor(contents.substr(0, contents.size() - kNumber * (std::size_t{restarts} + 1)));
    return true;
  }

  bool at_end() const { return entries_.empty(); }

  // False when the entry is malformed or its key does not come after the one before.
  bool next() {
    std::uint32_t shared = 0, unshared = 0, value_bytes = 0;
    std::string_view suffix;
    if (!entries_.varint32(&shared) || !entries_.varint32(&unshared) || !entries_.varint32(&value_bytes) ||
        shared > key_.size() || !entries_.bytes(unshared, &suffix) || !entries_.bytes(value_bytes, &value_)) {
      return false;
    }
    // Only what is not shared is compared: a small file may hold many long keys.
    if (!first_ && suffix <= std::string_view(key_).substr(shared)) return false;
    first_ = false;
    key_.resize(shared);
    key_ += suffix;
    return true;
  }

  const std::string& key() const { return key_; }
  std::string_view value() const { return value_; }

 private:
  ByteCursor entries_{{}};
  std::string key_;
  std::string_view value_;
  bool first_ = true;
};

}  // namespace

template <typename... Parts>
Status TableReader::damaged(const Parts&... parts) const {
  return data_loss("table \"", printable(path_), "\" of ", file_bytes_, " bytes: ", parts...);
}

Result<std::unique_ptr<TableReader>> TableReader::open(FileSystem& fs, const std::string& path) {
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, fs.open_for_read(path));
  TUTTI_ASSIGN_OR_RETURN(const FileInfo info, fs.info(path));
  std::unique_ptr<TableReader> reader(new TableReader(path, std::move(file), info.bytes));
  TUTTI_RETURN_IF_ERROR(reader->read_index());
  return reader;
}

Status TableReader::read_exactly(std::uint64_t offset, std::uint64_t bytes, std::string* out) const {
  if (offset > file_bytes_ || bytes > file_bytes_ - offset) {
    return damaged("wants ", bytes, " bytes at ", offset);
  }
  try {
    out->resize(bytes);
  } catch (const std::bad_alloc&) {
    return resource_exhausted("table \"", printable(path_), "\": no memory for a block of ", bytes, " bytes");
  }
  TUTTI_ASSIGN_OR_RETURN(const std::size_t count, file_->read(offset, *out));
  if (count < bytes) return damaged("ends at ", offset + count, " while it is read");
  return {};
}

Status TableReader::read_block(std::uint64_t offset, std::uint64_t bytes, std::string* contents) const {
  if (bytes > file_bytes_) return damaged("a block of ", bytes, " bytes at ", offset);
  TUTTI_RETURN_IF_ERROR(read_exactly(offset, bytes + kTrailerBytes, contents));
  const auto compression = static_cast<unsigned char>((*contents)[bytes]);
  std::uint32_t stored = 0;
  ByteCursor(std::string_view(*contents).substr(bytes + 1)).fixed32(&stored);
  contents->resize(bytes + 1);
  if (unmask_crc(stored) != crc32c(*contents)) {
    return damaged("the block of ", bytes, " bytes at ", offset, " does not match its checksum");
  }
  if (compression != 0) {
    return unimplemented("table \"", printable(path_), "\": the block at ", offset, " is compressed (type ",
                         static_cast<int>(compression), ")");
  }
  contents->resize(bytes);
  return {};
}

Status TableReader::read_index() {
  if (file_bytes_ < kFooterBytes) return damaged("too short for a table");
  std::string footer;
  TUTTI_RETURN_IF_ERROR(read_exactly(file_bytes_ - kFooterBytes, kFooterBytes, &footer));
  std::uint64_t magic = 0;
  ByteCursor(std::string_view(footer).substr(kFooterBytes - sizeof magic)).fixed64(&magic);
  if (magic != kMagic) return damaged("does not end as a table does");
  ByteCursor handles(footer);
  std::uint64_t unused = 0, offset = 0, bytes = 0;  // unused: the block of LevelDB's filters
  if (!handles.varint64(&unused) || !handles.varint64(&unused) || !handles.varint64(&offset) ||
      !handles.varint64(&bytes)) {
    return damaged("the footer is malformed");
  }
  std::string contents;
  TUTTI_RETURN_IF_ERROR(read_block(offset, bytes, &contents));
  BlockCursor cursor;
  if (!BlockCursor::open(contents, &cursor)) return damaged("the list of blocks is malformed");
  while (!cursor.at_end()) {
    if (!cursor.next()) return damaged("the list of blocks is malformed");
    Block block{.last_key = cursor.key()};
    ByteCursor handle(cursor.value());
    if (!handle.varint64(&block.offset) || !handle.varint64(&block.bytes)) return damaged("a block without a place");
    blocks_.push_back(std::move(block));
  }
  return {};
}

Status TableReader::scan(const Visit& visit) const {
  std::string last_key;
  bool first = true;
  std::string contents;
  for (const Block& block : blocks_) {
    TUTTI_RETURN_IF_ERROR(read_block(block.offset, block.bytes, &contents));
    BlockCursor cursor;
    if (!BlockCursor::open(contents, &cursor)) return damaged("the block at ", block.offset, " is malformed");
    bool first_of_block = true;
    while (!cursor.at_end()) {
      if (!cursor.next()) return damaged("the block at ", block.offset, " is malformed");
      if (first_of_block && !first && cursor.key() <= last_key) {
        return damaged("the block at ", block.offset, " is out of order");
      }
      first = first_of_block = false;
      TUTTI_RETURN_IF_ERROR(visit(cursor.key(), cursor.value()));
    }
    if (!first_of_block) last_key = cursor.key();
  }
  return {};
}

Result<std::optional<std::string>> TableReader::find(std::string_view key) const {
  const auto block = std::lower_bound(blocks_.begin(), blocks_.end(), key,
                                      [](const Block& b, std::string_view wanted) { return b.last_key < wanted; });
  if (block == blocks_.end()) return std::optional<std::string>();
  std::string contents;
  TUTTI_RETURN_IF_ERROR(read_block(block->offset, block->bytes, &contents));
  BlockCursor cursor;
  if (!BlockCursor::open(contents, &cursor)) return damaged("the block at ", block->offset, " is malformed");
  while (!cursor.at_end()) {
    if (!cursor.next()) return damaged("the block at ", block->offset, " is malformed");
    if (cursor.key() == key) return std::optional<std::string>(cursor.value());
  }
  return std::optional<std::string>();
}

}  // namespace tutti
