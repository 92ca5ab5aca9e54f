#include "tutti/train/checkpoint_reader.h"

#include <algorithm>

#include "tutti/io/bundle_reader.h"
#include "tutti/io/checkpoint_state.h"
#include "tutti/io/slice_file.h"
#include "tutti/ops/host/variant_messages.h"

namespace tutti {
namespace {

// Of a checkpoint's names, so many stand in a message.
constexpr std::size_t kNamesShown = 10;

Result<std::string> find_prefix(FileSystem& fs, const std::string& path, std::string_view state_file) {
  if (path.empty()) return invalid_argument("the path of a checkpoint is empty");
  if (checkpoint_exists(fs, path)) return path;
  const Result<FileInfo> info = fs.info(path);
  if (!info.ok() || !info->is_directory) {
    return invalid_argument("The passed save_path is not a valid checkpoint: ", printable(path));
  }
  TUTTI_ASSIGN_OR_RETURN(std::optional<std::string> latest, latest_checkpoint(fs, path, state_file));
  if (!latest) {
    return invalid_argument("Couldn't find '", state_file, "' file or checkpoints in given directory ",
                            printable(path));
  }
  return *std::move(latest);
}

template <typename Reader>
Status list(const Reader& reader, std::vector<CheckpointReader::Variable>* variables) {
  for (std::string& name : reader.names()) {
    TUTTI_ASSIGN_OR_RETURN(auto entry, reader.find(name));
    variables->push_back({std::move(name), entry.dtype, std::move(entry.shape)});
  }
  return {};
}

}  // namespace

CheckpointReader::CheckpointReader(std::string prefix) : prefix_(std::move(prefix)) {}
CheckpointReader::~CheckpointReader() = default;

Result<std::unique_ptr<CheckpointReader>> CheckpointReader::open(FileSystem& fs, const std::string& path,
                                                                 std::string_view state_file) {
  TUTTI_ASSIGN_OR_RETURN(std::string prefix, find_prefix(fs, path, state_file));
  std::unique_ptr<CheckpointReader> reader(new CheckpointReader(std::move(prefix)));
  Result<std::unique_ptr<BundleReader>> bundle = BundleReader::open(fs, reader->prefix_, &kVariantMessages);
  if (bundle.ok()) {
    reader->bundle_ = *std::move(bundle);
    TUTTI_RETURN_IF_ERROR(list(*reader->bundle_, &reader->variables_));
  } else {
    if (bundle.status().code() != Code::kNotFound) return bundle.status();
    TUTTI_ASSIGN_OR_RETURN(reader->old_, SliceFileReader::open(fs, reader->prefix_));
    TUTTI_RETURN_IF_ERROR(list(*reader->old_, &reader->variables_));
  }
  return reader;
}

std::vector<CheckpointReader::Variable> CheckpointReader::variables() const { return variables_; }

bool CheckpointReader::contains(std::string_view name) const { return find(name).ok(); }

Result<CheckpointReader::Variable> CheckpointReader::find(std::string_view name) const {
  auto it = std::lower_bound(variables_.begin(), variables_.end(), name,
                             [](const Variable& variable, std::string_view key) { return variable.name < key; });
  if (it == variables_.end() || it->name != name) return missing(name);
  return *it;
}

Result<Tensor> CheckpointReader::read(std::string_view name) const {
  TUTTI_RETURN_IF_ERROR(find(name).status());
  return bundle_ ? bundle_->read(name) : old_->read(name);
}

Status CheckpointReader::missing(std::string_view name) const {
  std::string names;
  for (std::size_t i = 0; i < std::min(kNamesShown, variables_.size()); ++i) {
    names += str_cat(i == 0 ? ": " : ", ", printable(variables_[i].name, 60));
  }
  if (variables_.size() > kNamesShown) names += ", ...";
  return not_found("Key ", printable(name), " not found in checkpoint \"", printable(prefix_), "\", which has ",
                   variables_.size(), names);
}

std::unique_ptr<CheckpointReader> load_checkpoint(const std::string& path) {
  return CheckpointReader::open(local_file_system(), path).value_or_throw();
}

std::vector<CheckpointReader::Variable> list_variables(const std::string& path) {
  return load_checkpoint(path)->variables();
}

Tensor load_variable(const std::string& path, const std::string& name) {
  return load_checkpoint(path)->read(name).value_or_throw();
}

}  // namespace tutti
