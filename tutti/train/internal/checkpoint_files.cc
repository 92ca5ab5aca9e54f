#include "tutti/train/internal/checkpoint_files.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>

#include "tutti/io/checkpoint_state.h"
#include "tutti/io/glob.h"
#include "tutti/io/paths.h"

namespace tutti::internal {
namespace {

constexpr std::string_view kIndex = ".index";
constexpr std::string_view kMeta = ".meta";
constexpr std::string_view kParts = "_temp";
constexpr std::string_view kTemporary = ".tempstate";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// ".data-00000-of-00001"
bool is_data(std::string_view suffix) {
  return glob_matches(".data-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]", suffix);
}

// Names in the directory of `prefix` that begin with its last part and go on with what `wanted` accepts.
template <typename Wanted>
Result<std::vector<std::string>> files_of(FileSystem& fs, const std::string& prefix, Wanted wanted) {
  const std::string directory = directory_of(prefix);
  const std::string_view base = base_name(prefix);
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs.list(directory));
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    if (name.starts_with(base) && wanted(std::string_view(name).substr(base.size()))) {
      paths.push_back(prefix + name.substr(base.size()));
    }
  }
  return paths;
}

Status copy_file(FileSystem& fs, const std::string& from, const std::string& to) {
  constexpr std::size_t kPiece = 1 << 20;
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> in, fs.open_for_read(from));
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> out, fs.open_for_write(to));
  std::vector<char> piece(kPiece);
  for (std::uint64_t offset = 0;;) {
    TUTTI_ASSIGN_OR_RETURN(const std::size_t count, in->read(offset, piece));
    TUTTI_RETURN_IF_ERROR(out->append({piece.data(), count}));
    if (count < kPiece) break;
    offset += count;
  }
  TUTTI_RETURN_IF_ERROR(out->sync());
  return out->close();
}

// "model.ckpt-17" and "model.ckpt": what saves under one prefix have in common.
std::string_view without_step(std::string_view base) {
  std::size_t end = base.size();
  while (end > 0 && is_digit(base[end - 1])) --end;
  return end < base.size() && end > 1 && base[end - 1] == '-' ? base.substr(0, end - 1) : base;
}

// A file, or a directory of files.
void remove_all(FileSystem& fs, const std::string& path) {
  const Result<FileInfo> info = fs.info(path);
  if (info.ok() && info->is_directory) {
    const Result<std::vector<std::string>> names = fs.list(path);
    if (!names.ok()) return;
    for (const std::string& name : *names) (void)fs.remove(path + "/" + name);
  }
  (void)fs.remove(path);
}

// What one name in a directory of checkpoints is.
struct Leftovers {
  std::vector<std::string> temporary;
  struct Checkpoint {
    bool index = false;
    std::vector<std::string> data;
  };
  std::map<std::string, Checkpoint> checkpoints;  // by last part of the prefix

  void look_at(const std::string& name, std::string_view base, const std::vector<std::string>& kept) {
    std::size_t at = base.size();
    if (name.size() > at + 1 && name[at] == '-' && is_digit(name[at + 1])) {
      for (++at; at < name.size() && is_digit(name[at]);) ++at;
    }
    const std::string_view prefix = std::string_view(name).substr(0, at), rest = std::string_view(name).substr(at);
    const auto belongs = [&](const std::string& path) {
      const std::string_view kept_base = base_name(path);
      return name.starts_with(str_cat(kept_base, ".")) && name.find(kTemporary, kept_base.size()) == name.npos;
    };
    if (std::any_of(kept.begin(), kept.end(), belongs)) return;
    const bool is_temporary = rest.starts_with(".") && rest.find(kTemporary) != rest.npos;
    const bool is_parts = rest == kParts || rest.starts_with(str_cat(kParts, kTemporary));
    if (is_parts || is_temporary) temporary.push_back(name);
    if (rest == kIndex) checkpoints[std::string(prefix)].index = true;
    if (is_data(rest)) checkpoints[std::string(prefix)].data.push_back(name);
  }
};

}  // namespace

Status delete_checkpoint(FileSystem& fs, const std::string& prefix, bool meta) {
  Status first = fs.remove(prefix + std::string(kIndex));
  if (first.code() == Code::kNotFound) first = {};
  if (!first.ok()) return first;
  if (meta && fs.exists(prefix + std::string(kMeta))) first.update(fs.remove(prefix + std::string(kMeta)));
  const Result<std::vector<std::string>> data = files_of(fs, prefix, is_data);
  if (!data.ok()) return data.status();
  for (const std::string& path : *data) first.update(fs.remove(path));
  return first;
}

Status copy_checkpoint(FileSystem& fs, const std::string& from, const std::string& to) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> data, files_of(fs, from, is_data));
  for (const std::string& path : data) TUTTI_RETURN_IF_ERROR(copy_file(fs, path, to + path.substr(from.size())));
  TUTTI_ASSIGN_OR_RETURN(const std::string index, read_file(fs, from + std::string(kIndex)));
  return replace_file(fs, to + std::string(kIndex), index);
}

std::string unique_parts_suffix() { return temporary_name(kParts) + "/part"; }

void remove_leftovers(FileSystem& fs, const std::string& prefix, std::string_view state_file,
                      const std::vector<std::string>& kept) {
  const std::string directory = directory_of(prefix);
  const std::string_view base = without_step(base_name(prefix));
  const Result<std::vector<std::string>> names = fs.list(directory);
  if (!names.ok() || base.empty()) return;
  Leftovers found;
  for (const std::string& name : *names) {
    if (name.starts_with(base)) found.look_at(name, base, kept);
    if (name.starts_with(str_cat(state_file, kTemporary))) found.temporary.push_back(name);
  }
  for (const auto& [base_of_one, checkpoint] : found.checkpoints) {
    if (checkpoint.index || checkpoint.data.empty()) continue;
    for (const std::string& name : checkpoint.data) (void)fs.remove(directory + "/" + name);
    (void)fs.remove(str_cat(directory, "/", base_of_one, kMeta));
  }
  for (const std::string& name : found.temporary) remove_all(fs, directory + "/" + name);
}

}  // namespace tutti::internal
