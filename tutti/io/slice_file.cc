#include "tutti/io/slice_file.h"

#include "proto/saved_tensor_slice.pb.h"
#include "tutti/io/glob.h"
#include "tutti/io/internal/commit_files.h"
#include "tutti/io/internal/proto_bytes.h"
#include "tutti/io/internal/slice_assembly.h"
#include "tutti/io/internal/slice_codec.h"
#include "tutti/io/internal/slice_elements.h"
#include "tutti/io/paths.h"
#include "tutti/io/table_reader.h"
#include "tutti/io/table_writer.h"

namespace tutti {

namespace {

constexpr int kSliceFileVersion = 1;
constexpr std::string_view kMetaKey = "";

Status name_sliced_tensor(const Status& status, std::string_view name) {
  return status.with_context(str_cat("tensor \"", printable(name), "\""));
}

}  // namespace

struct SliceFileWriter::Saved {
  DType dtype;
  Shape full_shape;
  tensorflow::SavedSliceMeta meta;
};

SliceFileWriter::SliceFileWriter(FileSystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}
SliceFileWriter::~SliceFileWriter() = default;

Status SliceFileWriter::add(std::string_view name, const Shape& full_shape, const TensorSlice& slice,
                            const Tensor& value) {
  TUTTI_ASSIGN_OR_RETURN(const Shape slice_shape, slice.shape_in(full_shape));
  if (slice_shape != value.shape()) {
    return internal_error("tensor \"", printable(name), "\": slice ", slice.to_string(), " of ", full_shape, " is ",
                          slice_shape, ", its value ", value.shape());
  }
  std::unique_ptr<Saved>& saved = tensors_[std::string(name)];
  if (saved && saved->full_shape != full_shape) {
    return internal_error("Mismatching shapes: existing tensor = ", saved->full_shape, ", trying to add name ",
                          printable(name), ", shape = ", full_shape);
  }
  if (saved && saved->dtype != value.dtype()) {
    return internal_error("Mismatching types: existing type = ", dtype_name(saved->dtype), ", trying to add name ",
                          printable(name), ", type = ", dtype_name(value.dtype()));
  }
  tensorflow::SavedTensorSlices message;
  message.mutable_data()->set_name(std::string(name));
  encode_slice(slice, message.mutable_data()->mutable_slice());
  TUTTI_RETURN_IF_ERROR(name_sliced_tensor(encode_slice_elements(value, message.mutable_data()->mutable_data()), name));
  if (!slices_.emplace(slice_key(name, slice), stored_bytes(message)).second) {
    return internal_error("Overlapping slices: existing slice = ", slice.to_string(),
                          ", new slice = ", slice.to_string());
  }
  if (!saved) {
    saved = std::make_unique<Saved>();
    saved->dtype = value.dtype();
    saved->full_shape = full_shape;
    saved->meta.set_name(std::string(name));
    saved->meta.set_type(static_cast<tensorflow::DataType>(value.dtype()));
    set_stored_shape(full_shape, saved->meta.mutable_shape());
  }
  encode_slice(slice, saved->meta.add_slice());
  return {};
}

Status SliceFileWriter::write(const std::string& path) const {
  tensorflow::SavedTensorSlices meta;
  for (const auto& [name, saved] : tensors_) {
    if (saved) *meta.mutable_meta()->add_tensor() = saved->meta;
  }
  meta.mutable_meta()->mutable_versions()->set_producer(kSliceFileVersion);
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, fs_.open_for_write(path));
  TableWriter table(*file);
  TUTTI_RETURN_IF_ERROR(table.add(kMetaKey, stored_bytes(meta)));
  for (const auto& [key, value] : slices_) TUTTI_RETURN_IF_ERROR(table.add(key, value));
  TUTTI_RETURN_IF_ERROR(table.finish());
  TUTTI_RETURN_IF_ERROR(file->sync());
  return file->close();
}

Status SliceFileWriter::finish() {
  const std::string temporary = temporary_name(path_);
  Status status = write(temporary);
  if (status.ok()) status = commit_files(fs_, {{temporary, path_}});
  if (!status.ok()) (void)fs_.remove(temporary);
  return status.with_context(str_cat("checkpoint \"", printable(path_), "\""));
}

class SliceFileReader::Impl {
 public:
  explicit Impl(std::string pattern) : pattern_(std::move(pattern)) {}

  Status add_file(FileSystem& fs, const std::string& path) {
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<TableReader> table, TableReader::open(fs, path));
    TUTTI_ASSIGN_OR_RETURN(const std::optional<std::string> bytes, table->find(kMetaKey));
    tensorflow::SavedTensorSlices message;
    if (!bytes) return data_loss("\"", printable(path), "\" is no checkpoint: the table has no list of tensors");
    TUTTI_RETURN_IF_ERROR(parse_stored(*bytes, str_cat("the list of tensors of \"", printable(path), "\""), &message));
    const Status version = check_stored_version(message.meta().versions(), kSliceFileVersion);
    if (!version.ok()) return version.with_context(str_cat("checkpoint \"", printable(path), "\""));
    for (const tensorflow::SavedSliceMeta& meta : message.meta().tensor()) {
      TUTTI_RETURN_IF_ERROR(name_sliced_tensor(add_tensor(meta, table.get()), meta.name())
                                .with_context(str_cat("checkpoint \"", printable(path), "\"")));
    }
    tables_.push_back(std::move(table));
    return {};
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    return names;
  }

  Result<SliceFileEntry> find(std::string_view name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      return not_found("Tensor name \"", printable(name), "\" not found in checkpoint files ", printable(pattern_));
    }
    return SliceFileEntry{found->second.parts.dtype, found->second.parts.full_shape};
  }

  // Of the whole tensor when `slice` is null.
  Result<Tensor> read(std::string_view name, const TensorSlice* slice, Allocator& allocator) const {
    TUTTI_RETURN_IF_ERROR(find(name).status());
    const Stored& stored = tensors_.find(name)->second;
    std::uint64_t stored_bytes = 0;
    for (const auto& table : tables_) stored_bytes += table->file_bytes();
    // The shortest form of an element in a message is one byte, of at most eight in memory; longer ones take as much
    // in both.
    constexpr std::uint64_t kMostGrowth = 8;
    const TensorSlice all = TensorSlice::whole(stored.parts.full_shape.rank());
    const auto read_part = [&](const TensorSlice& part) { return read_stored(stored, part, allocator); };
    return assemble(stored.parts, slice ? *slice : all, kMostGrowth * stored_bytes, read_part, allocator);
  }

 private:
  struct Stored {
    StoredParts parts;
    std::map<std::string, const TableReader*> tables;  // by key of the slice
  };

  Status add_tensor(const tensorflow::SavedSliceMeta& meta, const TableReader* table) {
    if (!is_valid_dtype(meta.type())) return data_loss("the stored type is ", static_cast<int>(meta.type()));
    const auto dtype = static_cast<DType>(meta.type());
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, stored_shape(meta.shape()));
    const auto [place, is_new] = tensors_.try_emplace(meta.name());
    Stored& stored = place->second;
    if (is_new) {
      stored.parts.name = meta.name();
      stored.parts.dtype = dtype;
      stored.parts.full_shape = shape;
    } else if (stored.parts.dtype != dtype || stored.parts.full_shape != shape) {
      return data_loss("slices of ", dtype_name(stored.parts.dtype), " ", stored.parts.full_shape, " and of ",
                       dtype_name(dtype), " ", shape);
    }
    for (const tensorflow::TensorSliceProto& proto : meta.slice()) {
      TUTTI_ASSIGN_OR_RETURN(TensorSlice slice, decode_slice(proto));
      if (!stored.tables.emplace(slice_key(meta.name(), slice), table).second) {
        return data_loss("slice ", slice.to_string(), " is there twice");
      }
      stored.parts.slices.push_back(std::move(slice));
    }
    return {};
  }

  static Result<Tensor> read_stored(const Stored& stored, const TensorSlice& slice, Allocator& allocator) {
    const std::string key = slice_key(stored.parts.name, slice);
    const TableReader& table = *stored.tables.find(key)->second;
    const auto where = [&] { return str_cat("slice ", slice.to_string(), " in \"", printable(table.path()), "\""); };
    TUTTI_ASSIGN_OR_RETURN(const std::optional<std::string> bytes, table.find(key));
    if (!bytes) return data_loss(where(), " is listed but not there");
    tensorflow::SavedTensorSlices message;
    TUTTI_RETURN_IF_ERROR(parse_stored(*bytes, where(), &message));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, slice.shape_in(stored.parts.full_shape));
    Result<Tensor> value = decode_slice_elements(message.data().data(), stored.parts.dtype, shape, allocator);
    if (!value.ok()) return value.status().with_context(where());
    return value;
  }

  const std::string pattern_;
  std::vector<std::unique_ptr<TableReader>> tables_;
  std::map<std::string, Stored, std::less<>> tensors_;
};

SliceFileReader::SliceFileReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SliceFileReader::~SliceFileReader() = default;

Result<std::unique_ptr<SliceFileReader>> SliceFileReader::open(FileSystem& fs, const std::string& pattern) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> paths, glob(fs, pattern));
  if (paths.empty()) {
    return not_found("Unsuccessful TensorSliceReader constructor: Failed to find any matching files for ",
                     printable(pattern));
  }
  auto impl = std::make_unique<Impl>(pattern);
  for (const std::string& path : paths) TUTTI_RETURN_IF_ERROR(impl->add_file(fs, path));
  return std::unique_ptr<SliceFileReader>(new SliceFileReader(std::move(impl)));
}

std::vector<std::string> SliceFileReader::names() const { return impl_->names(); }
Result<SliceFileEntry> SliceFileReader::find(std::string_view name) const { return impl_->find(name); }

Result<Tensor> SliceFileReader::read(std::string_view name, Allocator& allocator) const {
  return impl_->read(name, nullptr, allocator);
}

Result<Tensor> SliceFileReader::read_slice(std::string_view name, const TensorSlice& slice,
                                           Allocator& allocator) const {
  return impl_->read(name, &slice, allocator);
}

}  // namespace tutti
