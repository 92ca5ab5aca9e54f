#include "tutti/io/bundle_reader.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <new>
#include <set>

#include "proto/tensor_bundle.pb.h"
#include "tutti/core/mutex.h"
#include "tutti/io/crc32c.h"
#include "tutti/io/internal/bundle_format.h"
#include "tutti/io/internal/bundle_index.h"
#include "tutti/io/internal/proto_bytes.h"
#include "tutti/io/internal/slice_assembly.h"
#include "tutti/io/internal/slice_codec.h"

namespace tutti {

namespace {

// Read and checked in pieces of this size, so that the check finds them in the cache.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

struct DataFile {
  std::string path;
  std::unique_ptr<RandomAccessFile> file;
  std::uint64_t bytes = 0;
};

// Where a tensor lies, checked against the data file.
struct Place {
  const DataFile* data = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
};

// Fills `out` from the file and goes on from `*crc`.
Status read_bytes(const Place& place, std::span<char> out, std::uint32_t* crc) {
  for (std::size_t done = 0; done < out.size();) {
    const std::span<char> piece = out.subspan(done, std::min(kPieceBytes, out.size() - done));
    TUTTI_ASSIGN_OR_RETURN(const std::size_t count, place.data->file->read(place.offset + done, piece));
    if (count < piece.size()) {
      return data_loss("\"", printable(place.data->path), "\" ends at ", place.offset + done + count,
                       " while it is read");
    }
    *crc = crc32c_extend(*crc, {piece.data(), piece.size()});
    done += piece.size();
  }
  return {};
}

Status check_crc(const Place& place, std::uint32_t crc) {
  if (crc == place.crc) return {};
  return data_loss("the ", place.bytes, " bytes at ", place.offset, " of \"", printable(place.data->path),
                   "\" do not match their checksum: stored ", place.crc, ", computed ", crc);
}

// A bool in memory must be 0 or 1; files may hold any byte.
void make_bools_valid(Tensor& tensor) {
  auto* bytes = static_cast<unsigned char*>(tensor.raw());
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) bytes[i] = bytes[i] != 0;
}

// All of it; checksums of strings and variants are not those of their bytes as they lie there.
Result<std::string> read_unchecked(const Place& place) {
  std::string stored;
  try {
    stored.resize(place.bytes);
  } catch (const std::bad_alloc&) {
    return resource_exhausted("no memory for ", place.bytes, " stored bytes");
  }
  std::uint32_t crc = 0;
  TUTTI_RETURN_IF_ERROR(read_bytes(place, stored, &crc));
  return stored;
}

Status damaged_at(const Place& place, const Status& why) {
  return data_loss("the ", place.bytes, " bytes at ", place.offset, " of \"", printable(place.data->path),
                   "\": ", why.message());
}

Status read_strings(const Place& place, Tensor& tensor) {
  TUTTI_ASSIGN_OR_RETURN(const std::string stored, read_unchecked(place));
  std::uint32_t crc = 0;
  const Status decoded = decode_strings(stored, tensor, &crc);
  return decoded.ok() ? check_crc(place, crc) : damaged_at(place, decoded);
}

Status read_variants(const Place& place, const VariantCodec& codec, Tensor& tensor) {
  TUTTI_ASSIGN_OR_RETURN(const std::string stored, read_unchecked(place));
  std::uint32_t crc = 0;
  const auto messages = split_variants(stored, static_cast<std::size_t>(tensor.num_elements()), &crc);
  if (!messages.ok()) return damaged_at(place, messages.status());
  TUTTI_RETURN_IF_ERROR(check_crc(place, crc));
  const Status decoded = codec.decode(*messages, tensor);
  return decoded.code() == Code::kInvalidArgument ? damaged_at(place, decoded) : decoded;
}

Result<DType> stored_dtype(const tensorflow::BundleEntryProto& entry) {
  if (!is_valid_dtype(entry.dtype())) return data_loss("the stored type is ", static_cast<int>(entry.dtype()));
  const auto dtype = static_cast<DType>(entry.dtype());
  TUTTI_RETURN_IF_ERROR(check_storable(dtype));
  return dtype;
}

}  // namespace

class BundleReader::Impl {
 public:
  Impl(FileSystem& fs, std::string prefix, BundleIndex index, const VariantCodec* variants)
      : fs_(fs), prefix_(std::move(prefix)), index_(std::move(index)), variants_(variants) {}

  const BundleIndex& index() const { return index_; }

  Result<BundleEntry> find(std::string_view name, tensorflow::BundleEntryProto* proto) const {
    if (!index_.entries.contains(name)) {
      return not_found("Key ", printable(name), " not found in checkpoint \"", printable(prefix_), "\"");
    }
    TUTTI_RETURN_IF_ERROR(parse_bundle_entry(index_, name, proto));
    BundleEntry entry;
    TUTTI_ASSIGN_OR_RETURN(entry.dtype, stored_dtype(*proto));
    TUTTI_ASSIGN_OR_RETURN(entry.shape, stored_shape(proto->shape()));
    for (const auto& stored : proto->slices()) {
      TUTTI_ASSIGN_OR_RETURN(TensorSlice slice, decode_slice(stored));
      entry.slices.push_back(std::move(slice));
    }
    return entry;
  }

  // Of the whole tensor when `slice` is null.
  Result<Tensor> read(std::string_view name, const TensorSlice* slice, Allocator& allocator) {
    tensorflow::BundleEntryProto proto;
    TUTTI_ASSIGN_OR_RETURN(BundleEntry entry, find(name, &proto));
    if (!entry.slices.empty()) return read_parts(name, std::move(entry), slice, allocator);
    if (slice != nullptr) TUTTI_RETURN_IF_ERROR(slice->shape_in(entry.shape).status());
    TUTTI_ASSIGN_OR_RETURN(Tensor whole, read_whole(entry, proto, allocator));
    return slice == nullptr ? Result<Tensor>(std::move(whole)) : cut(whole, *slice, allocator);
  }

 private:
  Result<Tensor> read_whole(const BundleEntry& entry, const tensorflow::BundleEntryProto& proto, Allocator& allocator) {
    if (entry.dtype == DType::kVariant && variants_ == nullptr) {
      return unimplemented("this reader of checkpoints reads no variants");
    }
    TUTTI_ASSIGN_OR_RETURN(const Place place, locate(entry, proto));
    TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::create(entry.dtype, entry.shape, allocator));
    if (entry.dtype == DType::kString) {
      TUTTI_RETURN_IF_ERROR(read_strings(place, tensor));
      return tensor;
    }
    if (entry.dtype == DType::kVariant) {
      TUTTI_RETURN_IF_ERROR(read_variants(place, *variants_, tensor));
      return tensor;
    }
    std::uint32_t crc = 0;
    TUTTI_RETURN_IF_ERROR(read_bytes(place, {static_cast<char*>(tensor.raw()), tensor.bytes()}, &crc));
    TUTTI_RETURN_IF_ERROR(check_crc(place, crc));
    if (entry.dtype == DType::kBool) make_bools_valid(tensor);
    return tensor;
  }

  Result<Tensor> read_parts(std::string_view name, BundleEntry entry, const TensorSlice* slice, Allocator& allocator) {
    const StoredParts parts{
        .name = std::string(name), .dtype = entry.dtype, .full_shape = entry.shape, .slices = std::move(entry.slices)};
    TUTTI_ASSIGN_OR_RETURN(const std::uint64_t stored_bytes, bytes_behind(parts));
    const auto read_part = [&](const TensorSlice& part) -> Result<Tensor> {
      tensorflow::BundleEntryProto proto;
      TUTTI_ASSIGN_OR_RETURN(const BundleEntry piece, find(slice_key(name, part), &proto));
      if (!piece.slices.empty()) return data_loss("slice ", part.to_string(), " is itself cut up");
      return read_whole(piece, proto, allocator);
    };
    const TensorSlice all = TensorSlice::whole(parts.full_shape.rank());
    return assemble(parts, slice ? *slice : all, stored_bytes, read_part, allocator);
  }

  // The sizes of the data files that hold parts of the tensor, each counted once.
  Result<std::uint64_t> bytes_behind(const StoredParts& parts) {
    std::set<int> shards;
    for (const TensorSlice& slice : parts.slices) {
      const std::string key = slice_key(parts.name, slice);
      if (!index_.entries.contains(key)) continue;  // an error only if this part is wanted
      tensorflow::BundleEntryProto proto;
      TUTTI_RETURN_IF_ERROR(parse_bundle_entry(index_, key, &proto));
      shards.insert(proto.shard_id());
    }
    std::uint64_t bytes = 0;
    for (int shard : shards) {
      TUTTI_ASSIGN_OR_RETURN(const DataFile* file, data_file(shard));
      bytes += file->bytes;
    }
    return bytes;
  }

  Result<Place> locate(const BundleEntry& entry, const tensorflow::BundleEntryProto& proto) {
    TUTTI_ASSIGN_OR_RETURN(const DataFile* file, data_file(proto.shard_id()));
    const auto damaged = [&](const auto&... parts) {
      return data_loss(dtype_name(entry.dtype), " ", entry.shape, " in ", proto.size(), " bytes at ", proto.offset(),
                       " of \"", printable(file->path), "\": ", parts...);
    };
    if (proto.size() < 0 || proto.offset() < 0) return damaged("no such place");
    const Place place{.data = file,
                      .offset = static_cast<std::uint64_t>(proto.offset()),
                      .bytes = static_cast<std::uint64_t>(proto.size()),
                      .crc = unmask_crc(proto.crc32c())};
    if (place.offset > file->bytes || place.bytes > file->bytes - place.offset) {
      return damaged("the file has ", file->bytes, " bytes only");
    }
    const auto count = static_cast<std::uint64_t>(entry.shape.num_elements());
    if (entry.dtype == DType::kString) {
      if (count > place.bytes) return damaged("too few bytes for so many strings");
      return place;
    }
    if (entry.dtype == DType::kVariant) {
      if (count > place.bytes / kLeastVariantBytes) return damaged("too few bytes for so many variants");
      return place;
    }
    std::uint64_t expected = 0;
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(dtype_size(entry.dtype)), &expected) ||
        expected != place.bytes) {
      return damaged("the size does not fit the shape");
    }
    return place;
  }

  Result<const DataFile*> data_file(int shard) {
    if (shard < 0 || shard >= index_.num_shards) {
      return data_loss("it lies in data file ", shard, " of ", index_.num_shards);
    }
    MutexLock lock(mu_);
    std::unique_ptr<DataFile>& file = files_[shard];
    if (!file) {
      auto opened = std::make_unique<DataFile>();
      opened->path = bundle_data_path(prefix_, shard, index_.num_shards);
      TUTTI_ASSIGN_OR_RETURN(opened->file, fs_.open_for_read(opened->path));
      TUTTI_ASSIGN_OR_RETURN(const FileInfo info, fs_.info(opened->path));
      opened->bytes = info.bytes;
      file = std::move(opened);
    }
    return file.get();
  }

  FileSystem& fs_;
  const std::string prefix_;
  const BundleIndex index_;
  const VariantCodec* const variants_;  // may be null
  Mutex mu_;
  std::map<int, std::unique_ptr<DataFile>> files_ TUTTI_GUARDED_BY(mu_);  // opened so far; constant once there
};

BundleReader::BundleReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BundleReader::~BundleReader() = default;

Result<std::unique_ptr<BundleReader>> BundleReader::open(FileSystem& fs, const std::string& prefix,
                                                         const VariantCodec* variants) {
  TUTTI_ASSIGN_OR_RETURN(BundleIndex index, read_bundle_index(fs, prefix));
  return std::unique_ptr<BundleReader>(
      new BundleReader(std::make_unique<Impl>(fs, prefix, std::move(index), variants)));
}

std::vector<std::string> BundleReader::names() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : impl_->index().entries) {
    if (key[0] != '\0') names.push_back(key);  // else a slice
  }
  return names;
}

bool BundleReader::contains(std::string_view name) const { return impl_->index().entries.contains(name); }

namespace {

// "Key X not found" stands alone, as users search for it; all else begins with the tensor.
Status name_tensor(const Status& status, std::string_view name) {
  if (status.ok() || status.message().starts_with("Key ")) return status;
  return status.with_context(str_cat("tensor \"", printable(name), "\""));
}

}  // namespace

Result<BundleEntry> BundleReader::find(std::string_view name) const {
  tensorflow::BundleEntryProto proto;
  Result<BundleEntry> entry = impl_->find(name, &proto);
  if (!entry.ok()) return name_tensor(entry.status(), name);
  return entry;
}

Result<Tensor> BundleReader::read(std::string_view name, Allocator& allocator) const {
  Result<Tensor> tensor = impl_->read(name, nullptr, allocator);
  if (!tensor.ok()) return name_tensor(tensor.status(), name);
  return tensor;
}

Result<Tensor> BundleReader::read_slice(std::string_view name, const TensorSlice& slice, Allocator& allocator) const {
  Result<Tensor> tensor = impl_->read(name, &slice, allocator);
  if (!tensor.ok()) return name_tensor(tensor.status(), name);
  return tensor;
}

}  // namespace tutti
