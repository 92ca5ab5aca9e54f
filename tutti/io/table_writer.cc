#include "tutti/io/table_writer.h"

#include <leveldb/env.h>
#include <leveldb/options.h>
#include <leveldb/table_builder.h>

namespace tutti {

namespace {

// As TensorFlow cuts its tables; an index of this size and below is one block.
constexpr std::size_t kBlockBytes = 262144;

// LevelDB's file on ours. Keeps our error: LevelDB's status knows fewer codes.
class FileAdapter : public leveldb::WritableFile {
 public:
  explicit FileAdapter(tutti::WritableFile& file) : file_(file) {}

  leveldb::Status Append(const leveldb::Slice& data) override {
    return answer(file_.append(std::string_view(data.data(), data.size())));
  }
  // LevelDB flushes after each block; the file has a buffer of its own that knows better.
  leveldb::Status Flush() override { return answer({}); }
  leveldb::Status Sync() override { return answer(file_.sync()); }
  leveldb::Status Close() override { return answer({}); }

  const Status& error() const { return error_; }

 private:
  leveldb::Status answer(Status status) {
    error_.update(std::move(status));
    return error_.ok() ? leveldb::Status::OK() : leveldb::Status::IOError(error_.message());
  }

  tutti::WritableFile& file_;
  Status error_;
};

leveldb::Options table_options() {
  leveldb::Options options;
  options.block_size = kBlockBytes;
  options.compression = leveldb::kNoCompression;
  return options;
}

}  // namespace

struct TableWriter::Impl {
  explicit Impl(WritableFile& out) : file(out), builder(table_options(), &file) {}
  FileAdapter file;
  leveldb::TableBuilder builder;
  std::string last_key;
  bool finished = false;
};

TableWriter::TableWriter(WritableFile& file) : impl_(std::make_unique<Impl>(file)) {}

TableWriter::~TableWriter() {
  if (!impl_->finished) impl_->builder.Abandon();
}

Status TableWriter::add(std::string_view key, std::string_view value) {
  // The builder asserts this, or in a release build writes a table that nobody can read.
  if (impl_->builder.NumEntries() > 0 && key <= impl_->last_key) {
    return invalid_argument("table: key \"", printable(key), "\" after \"", printable(impl_->last_key), "\"");
  }
  impl_->last_key = key;
  impl_->builder.Add({key.data(), key.size()}, {value.data(), value.size()});
  return impl_->file.error();
}

Status TableWriter::finish() {
  impl_->finished = true;
  const leveldb::Status status = impl_->builder.Finish();
  if (!impl_->file.error().ok()) return impl_->file.error();
  if (!status.ok()) return internal_error("table: ", status.ToString());
  return {};
}

}  // namespace tutti
