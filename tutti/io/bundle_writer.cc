#include "tutti/io/bundle_writer.h"

#include "proto/tensor_bundle.pb.h"
#include "tutti/io/crc32c.h"
#include "tutti/io/internal/bundle_format.h"
#include "tutti/io/internal/commit_files.h"
#include "tutti/io/internal/proto_bytes.h"
#include "tutti/io/internal/slice_codec.h"
#include "tutti/io/paths.h"
#include "tutti/io/table_writer.h"

namespace tutti {

namespace {

Result<std::vector<std::string>> encode_variants(const VariantCodec* codec, const Tensor& value) {
  if (codec == nullptr) return unimplemented("this writer of checkpoints writes no variants");
  return codec->encode(value);
}

}  // namespace

struct BundleWriter::Partitioned {
  DType dtype;
  Shape full_shape;
  tensorflow::BundleEntryProto entry;
};

BundleWriter::BundleWriter(FileSystem& fs, std::string prefix, const BundleWriterOptions& options)
    : fs_(fs),
      prefix_(std::move(prefix)),
      options_(options),
      temporary_data_(temporary_name(bundle_data_path(prefix_, 0, 1))),
      temporary_index_(temporary_name(bundle_index_path(prefix_))) {}

Result<std::unique_ptr<BundleWriter>> BundleWriter::create(FileSystem& fs, std::string prefix,
                                                           const BundleWriterOptions& options) {
  if (options.alignment == 0) return invalid_argument("checkpoint \"", printable(prefix), "\": alignment 0");
  TUTTI_RETURN_IF_ERROR(make_directory_of(fs, prefix));
  std::unique_ptr<BundleWriter> writer(new BundleWriter(fs, std::move(prefix), options));
  TUTTI_RETURN_IF_ERROR(writer->open());
  return writer;
}

BundleWriter::~BundleWriter() {
  if (finished_) return;
  data_.reset();
  (void)fs_.remove(temporary_data_);
  (void)fs_.remove(temporary_index_);
}

Status BundleWriter::open() {
  TUTTI_ASSIGN_OR_RETURN(
      data_, options_.sync ? fs_.open_for_large_write(temporary_data_) : fs_.open_for_write(temporary_data_));
  return {};
}

Status BundleWriter::align() {
  const std::uint64_t over = data_bytes_ % options_.alignment;
  if (over == 0) return {};
  const std::string padding(options_.alignment - over, '\0');
  data_bytes_ += padding.size();
  return data_->append(padding);
}

Status BundleWriter::add_entry(std::string_view name, const std::string& key, const Tensor& value) {
  if (entries_.contains(key)) return invalid_argument("Adding duplicate key: ", printable(key));
  const bool has_variants = value.dtype() == DType::kVariant;
  std::vector<std::string> messages;
  if (has_variants) {
    Result<std::vector<std::string>> encoded = encode_variants(options_.variants, value);
    if (!encoded.ok()) return encoded.status().with_context(str_cat("tensor \"", printable(name), "\""));
    messages = *std::move(encoded);
  }
  error_.update(align());
  TUTTI_RETURN_IF_ERROR(error_);
  const Result<StoredBytes> stored = has_variants ? append_variants(*data_, messages) : append_elements(*data_, value);
  if (!stored.ok()) return error_ = stored.status();
  tensorflow::BundleEntryProto entry;
  entry.set_dtype(static_cast<tensorflow::DataType>(value.dtype()));
  set_stored_shape(value.shape(), entry.mutable_shape());
  entry.set_offset(static_cast<std::int64_t>(data_bytes_));
  entry.set_size(static_cast<std::int64_t>(stored->bytes));
  entry.set_crc32c(mask_crc(stored->crc));
  data_bytes_ += stored->bytes;
  entries_.emplace(key, stored_bytes(entry));
  return {};
}

Status BundleWriter::add(std::string_view name, const Tensor& value) {
  TUTTI_RETURN_IF_ERROR(error_);
  if (name == kBundleHeaderKey) return invalid_argument("a tensor without a name in a checkpoint");
  TUTTI_RETURN_IF_ERROR(check_storable(value.dtype()).with_context(str_cat("tensor \"", printable(name), "\"")));
  if (partitioned_.contains(name)) return invalid_argument("Adding duplicate key: ", printable(name));
  return add_entry(name, std::string(name), value);
}

Status BundleWriter::add_slice(std::string_view name, const Shape& full_shape, const TensorSlice& slice,
                               const Tensor& value) {
  TUTTI_RETURN_IF_ERROR(error_);
  TUTTI_ASSIGN_OR_RETURN(const Shape slice_shape, slice.shape_in(full_shape));
  if (slice_shape != value.shape()) {
    return invalid_argument("tensor \"", printable(name), "\": slice ", slice.to_string(), " of ", full_shape, " is ",
                            slice_shape, ", its value ", value.shape());
  }
  if (slice.covers(full_shape)) return add(name, value);
  if (name == kBundleHeaderKey) return invalid_argument("a tensor without a name in a checkpoint");
  TUTTI_RETURN_IF_ERROR(check_storable(value.dtype()).with_context(str_cat("tensor \"", printable(name), "\"")));
  if (entries_.contains(std::string(name))) return invalid_argument("Adding duplicate key: ", printable(name));
  std::unique_ptr<Partitioned>& whole = partitioned_[std::string(name)];
  if (!whole) {
    whole = std::make_unique<Partitioned>();
    whole->dtype = value.dtype();
    whole->full_shape = full_shape;
    whole->entry.set_dtype(static_cast<tensorflow::DataType>(value.dtype()));
    set_stored_shape(full_shape, whole->entry.mutable_shape());
  } else if (whole->dtype != value.dtype() || whole->full_shape != full_shape) {
    return invalid_argument("tensor \"", printable(name), "\": slices of ", dtype_name(whole->dtype), " ",
                            whole->full_shape, " and of ", dtype_name(value.dtype()), " ", full_shape);
  }
  const Status added = add_entry(name, slice_key(name, slice), value);
  if (!added.ok()) {
    if (whole->entry.slices().empty()) partitioned_.erase(std::string(name));
    return added;
  }
  encode_slice(slice, whole->entry.add_slices());
  return {};
}

Status BundleWriter::write_index(WritableFile& file) const {
  tensorflow::BundleHeaderProto header;
  header.set_num_shards(1);
  header.set_endianness(tensorflow::BundleHeaderProto::LITTLE);
  header.mutable_version()->set_producer(kBundleVersion);
  std::map<std::string_view, std::string> all;
  for (const auto& [name, whole] : partitioned_) all.emplace(name, stored_bytes(whole->entry));
  TableWriter table(file);
  TUTTI_RETURN_IF_ERROR(table.add(kBundleHeaderKey, stored_bytes(header)));
  for (const auto& [key, value] : entries_) all.emplace(key, value);
  for (const auto& [key, value] : all) TUTTI_RETURN_IF_ERROR(table.add(key, value));
  return table.finish();
}

Status BundleWriter::write_files() {
  if (options_.sync) TUTTI_RETURN_IF_ERROR(data_->sync());
  TUTTI_RETURN_IF_ERROR(data_->close());
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> index, fs_.open_for_write(temporary_index_));
  TUTTI_RETURN_IF_ERROR(write_index(*index));
  if (options_.sync) TUTTI_RETURN_IF_ERROR(index->sync());
  return index->close();
}

Status BundleWriter::finish() {
  TUTTI_RETURN_IF_ERROR(error_);
  if (finished_) return failed_precondition("checkpoint \"", printable(prefix_), "\" is finished already");
  error_ = write_files();
  if (error_.ok()) {
    error_ = commit_files(
        fs_, {{temporary_data_, bundle_data_path(prefix_, 0, 1)}, {temporary_index_, bundle_index_path(prefix_)}});
  }
  finished_ = error_.ok();
  return error_.with_context(str_cat("checkpoint \"", printable(prefix_), "\""));
}

}  // namespace tutti
