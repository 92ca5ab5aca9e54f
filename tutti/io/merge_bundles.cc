#include "tutti/io/merge_bundles.h"

#include <algorithm>
#include <map>
#include <vector>

#include "proto/tensor_bundle.pb.h"
#include "tutti/io/internal/bundle_format.h"
#include "tutti/io/internal/bundle_index.h"
#include "tutti/io/internal/commit_files.h"
#include "tutti/io/internal/proto_bytes.h"
#include "tutti/io/paths.h"
#include "tutti/io/table_writer.h"

namespace tutti {

namespace {

using tensorflow::BundleEntryProto;

class Merger {
 public:
  explicit Merger(FileSystem& fs) : fs_(fs) {}

  Status add(const std::string& prefix) {
    TUTTI_ASSIGN_OR_RETURN(const BundleIndex index, read_bundle_index(fs_, prefix));
    TUTTI_RETURN_IF_ERROR(take_header(index));
    for (const auto& [key, value] : index.entries) {
      BundleEntryProto entry;
      TUTTI_RETURN_IF_ERROR(parse_bundle_entry(index, key, &entry));
      if (entry.slices().empty()) TUTTI_RETURN_IF_ERROR(take_data_file(index, prefix, key, &entry));
      TUTTI_RETURN_IF_ERROR(take_entry(prefix, key, std::move(entry)));
    }
    indices_.push_back(index.path);
    if (index.entries.empty()) unused_data_.push_back(bundle_data_path(prefix, 0, index.num_shards));
    return {};
  }

  bool empty() const { return indices_.empty(); }

  Status write(const std::string& destination) {
    const int num_shards = std::max(1, static_cast<int>(data_files_.size()));
    const std::string temporary = temporary_name(bundle_index_path(destination));
    std::vector<FileMove> moves;
    for (std::size_t i = 0; i < data_files_.size(); ++i) {
      moves.push_back({data_files_[i], bundle_data_path(destination, static_cast<int>(i), num_shards)});
    }
    moves.push_back({temporary, bundle_index_path(destination)});
    TUTTI_RETURN_IF_ERROR(make_directory_of(fs_, destination));
    Status status = write_index(temporary, num_shards);
    if (status.ok()) status = commit_files(fs_, moves);
    if (!status.ok()) (void)fs_.remove(temporary);
    return status;
  }

  // What the sources leave behind is of no use to anyone, nor does it hurt: errors are dropped.
  void remove_sources() {
    for (const std::string& path : indices_) (void)fs_.remove(path);
    for (const std::string& path : unused_data_) (void)fs_.remove(path);
  }

 private:
  Status take_header(const BundleIndex& index) {
    tensorflow::BundleHeaderProto header;
    TUTTI_RETURN_IF_ERROR(parse_stored(index.header, "the header", &header));
    if (!indices_.empty() && stored_bytes(header.version()) != stored_bytes(header_.version())) {
      return invalid_argument("checkpoint index \"", printable(index.path), "\" is of another version than \"",
                              printable(indices_.front()), "\"");
    }
    header_ = header;
    return {};
  }

  // Data files are numbered anew, in the order in which they are met.
  Status take_data_file(const BundleIndex& index, const std::string& prefix, std::string_view key,
                        BundleEntryProto* entry) {
    if (entry->shard_id() < 0 || entry->shard_id() >= index.num_shards) {
      return data_loss("checkpoint index \"", printable(index.path), "\": tensor \"", printable(key),
                       "\" lies in data file ", entry->shard_id(), " of ", index.num_shards);
    }
    const std::string path = bundle_data_path(prefix, entry->shard_id(), index.num_shards);
    const auto [shard, is_new] = shards_.try_emplace(path, static_cast<int>(data_files_.size()));
    if (is_new) data_files_.push_back(path);
    entry->set_shard_id(shard->second);
    return {};
  }

  Status take_entry(const std::string& prefix, const std::string& key, BundleEntryProto entry) {
    const auto [place, is_new] = entries_.try_emplace(key, entry);
    if (is_new) return {};
    BundleEntryProto& known = place->second;
    if (known.slices().empty() || entry.slices().empty()) {
      return invalid_argument("Duplicate tensor keyed by ", printable(key),
                              " encountered, when merging prefix: ", printable(prefix));
    }
    if (known.dtype() != entry.dtype() || stored_bytes(known.shape()) != stored_bytes(entry.shape())) {
      return invalid_argument("tensor \"", printable(key), "\" is of another type or shape in \"", printable(prefix),
                              "\" than in the prefixes before it");
    }
    known.mutable_slices()->MergeFrom(entry.slices());
    return {};
  }

  Status write_index(const std::string& path, int num_shards) {
    TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, fs_.open_for_write(path));
    header_.set_num_shards(num_shards);
    TableWriter table(*file);
    TUTTI_RETURN_IF_ERROR(table.add(kBundleHeaderKey, stored_bytes(header_)));
    for (const auto& [key, entry] : entries_) TUTTI_RETURN_IF_ERROR(table.add(key, stored_bytes(entry)));
    TUTTI_RETURN_IF_ERROR(table.finish());
    TUTTI_RETURN_IF_ERROR(file->sync());
    return file->close();
  }

  FileSystem& fs_;
  tensorflow::BundleHeaderProto header_;
  std::map<std::string, BundleEntryProto> entries_;
  std::vector<std::string> indices_;      // of the sources
  std::vector<std::string> data_files_;   // by new number
  std::vector<std::string> unused_data_;  // of sources without tensors
  std::map<std::string, int> shards_;     // numbers by path
};

}  // namespace

Status merge_bundles(FileSystem& fs, std::span<const std::string> sources, const std::string& destination,
                     const MergeOptions& options) {
  Merger merger(fs);
  for (const std::string& source : sources) {
    if (source == destination) {
      return invalid_argument("checkpoint \"", printable(source), "\" cannot be merged into itself");
    }
    if (!fs.exists(bundle_index_path(source))) {
      if (options.allow_missing) continue;
      return invalid_argument("allow_missing_files was set to false and ", printable(source), " did not exist.");
    }
    TUTTI_RETURN_IF_ERROR(merger.add(source));
  }
  if (merger.empty()) {
    return invalid_argument("At least one prefix checkpoint file must exist, but none existed.");
  }
  TUTTI_RETURN_IF_ERROR(merger.write(destination));
  merger.remove_sources();
  return {};
}

}  // namespace tutti
