#include "tutti/io/checkpoint_state.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <filesystem>

#include "proto/checkpoint_state.pb.h"
#include "tutti/io/internal/bundle_format.h"
#include "tutti/io/paths.h"

namespace tutti {
namespace {

bool is_absolute(std::string_view path) { return path.starts_with('/') || has_scheme(path); }

std::string join(const std::string& directory, const std::string& path) {
  if (is_absolute(path) || directory.empty()) return path;
  return directory.ends_with('/') ? directory + path : directory + "/" + path;
}

std::string seen_from(const std::string& directory, const std::string& path) {
  // A relative path cannot be told from an absolute directory, nor the other way round.
  if (is_absolute(directory) != is_absolute(path)) return path;
  const Result<std::string> base = local_path(directory), local = local_path(path);
  if (!base.ok() || !local.ok()) return path;
  const auto normal = [](const std::string& name) { return std::filesystem::path(name).lexically_normal(); };
  return normal(*local).lexically_relative(normal(*base)).string();
}

// Keeps the first complaint.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text.empty()) text = str_cat("line ", line + 1, ", column ", column + 1, ": ", printable(message));
  }
  std::string text;
};

std::string state_path(const std::string& directory, std::string_view filename) {
  return join(directory, std::string(filename));
}

void list_newest(CheckpointState& state) {
  auto& all = state.all_model_checkpoint_paths;
  if (std::find(all.begin(), all.end(), state.model_checkpoint_path) != all.end()) return;
  all.push_back(state.model_checkpoint_path);
  state.all_model_checkpoint_timestamps.clear();
}

template <typename Map>
CheckpointState with_paths(CheckpointState state, Map map) {
  state.model_checkpoint_path = map(state.model_checkpoint_path);
  for (std::string& path : state.all_model_checkpoint_paths) path = map(path);
  return state;
}

}  // namespace

std::string checkpoint_state_text(const CheckpointState& state) {
  tensorflow::CheckpointState proto;
  proto.set_model_checkpoint_path(state.model_checkpoint_path);
  for (const std::string& path : state.all_model_checkpoint_paths) proto.add_all_model_checkpoint_paths(path);
  for (double time : state.all_model_checkpoint_timestamps) proto.add_all_model_checkpoint_timestamps(time);
  proto.set_last_preserved_timestamp(state.last_preserved_timestamp);
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(false);
  std::string text;
  printer.PrintToString(proto, &text);
  return text;
}

Result<CheckpointState> parse_checkpoint_state(std::string_view text) {
  tensorflow::CheckpointState proto;
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  parser.AllowUnknownField(true);
  parser.SetRecursionLimit(10);  // nothing here is nested, but fields of tomorrow may be
  if (!parser.ParseFromString(std::string(text), &proto)) return data_loss("not a checkpoint state: ", error.text);
  if (proto.model_checkpoint_path().empty()) return data_loss("names no model_checkpoint_path");
  CheckpointState state;
  state.model_checkpoint_path = proto.model_checkpoint_path();
  for (const std::string& path : proto.all_model_checkpoint_paths()) state.all_model_checkpoint_paths.push_back(path);
  for (double time : proto.all_model_checkpoint_timestamps()) state.all_model_checkpoint_timestamps.push_back(time);
  state.last_preserved_timestamp = proto.last_preserved_timestamp();
  return state;
}

Result<std::optional<CheckpointState>> read_checkpoint_state(FileSystem& fs, const std::string& directory,
                                                             std::string_view filename) {
  const std::string path = state_path(directory, filename);
  Result<std::string> text = read_file(fs, path);
  if (!text.ok() && text.status().code() == Code::kNotFound) return std::optional<CheckpointState>();
  if (!text.ok()) return text.status();
  Result<CheckpointState> state = parse_checkpoint_state(*text);
  if (!state.ok()) return state.status().with_context(str_cat("checkpoint state \"", printable(path), "\""));
  list_newest(*state);
  return std::optional(with_paths(*std::move(state), [&](const std::string& p) { return join(directory, p); }));
}

Status write_checkpoint_state(FileSystem& fs, const std::string& directory, const CheckpointState& state, bool relative,
                              std::string_view filename) {
  CheckpointState written = state;
  list_newest(written);
  // TensorFlow takes "file:///x" in a checkpoint state for a relative path.
  if (relative || !directory.starts_with('/')) {
    written = with_paths(std::move(written), [&](const std::string& p) { return seen_from(directory, p); });
  }
  return replace_file(fs, state_path(directory, filename), checkpoint_state_text(written));
}

Result<std::optional<std::string>> latest_checkpoint(FileSystem& fs, const std::string& directory,
                                                     std::string_view filename) {
  TUTTI_ASSIGN_OR_RETURN(std::optional<CheckpointState> state, read_checkpoint_state(fs, directory, filename));
  if (!state || !checkpoint_exists(fs, state->model_checkpoint_path)) return std::optional<std::string>();
  return std::optional(std::move(state->model_checkpoint_path));
}

bool checkpoint_exists(FileSystem& fs, const std::string& prefix) {
  if (fs.exists(bundle_index_path(prefix))) return true;
  const Result<FileInfo> old = fs.info(prefix);
  return old.ok() && !old->is_directory;
}

Status replace_file(FileSystem& fs, const std::string& path, std::string_view contents) {
  const std::string temporary = temporary_name(path);
  const auto write = [&]() -> Status {
    TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, fs.open_for_write(temporary));
    TUTTI_RETURN_IF_ERROR(file->append(contents));
    TUTTI_RETURN_IF_ERROR(file->sync());
    TUTTI_RETURN_IF_ERROR(file->close());
    return fs.rename(temporary, path);
  };
  const Status written = write();
  if (!written.ok()) {
    (void)fs.remove(temporary);
    return written;
  }
  return fs.sync_directory(directory_of(path));
}

}  // namespace tutti
