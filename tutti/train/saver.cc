#include "tutti/train/saver.h"

#include <algorithm>
#include <cstdio>
#include <future>

#include "tutti/core/mutex.h"
#include "tutti/core/thread_pool.h"
#include "tutti/io/paths.h"
#include "tutti/ops/slice_info.h"
#include "tutti/train/checkpoint_reader.h"
#include "tutti/train/internal/checkpoint_files.h"
#include "tutti/train/internal/checkpoint_writer.h"
#include "tutti/train/internal/kept_checkpoints.h"
#include "tutti/train/internal/restore_check.h"
#include "tutti/train/internal/saver_graph.h"

namespace tutti {
namespace {

using internal::SavedVariable;

// What to save, sorted by name as TensorFlow does.
std::vector<SavedVariable> chosen_variables(Graph& graph, const SaverOptions& options) {
  std::vector<SavedVariable> chosen;
  if (options.variables.empty() && options.nodes.empty()) {
    for (Node* node : graph.collection("variables")) {
      const std::optional<SliceInfo> part = slice_info(*node);
      chosen.push_back(internal::saved_variable(part ? part->full_name : node->name(), *node));
    }
  }
  for (const auto& [name, variable] : options.variables) {
    chosen.push_back(internal::saved_variable(name, *variable.handle().node));
  }
  for (const auto& [name, node] : options.nodes) chosen.push_back(internal::saved_variable(name, *node));
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const SavedVariable& a, const SavedVariable& b) { return a.name < b.name; });
  return chosen;
}

void check_names(const std::vector<SavedVariable>& variables) {
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const SavedVariable& variable = variables[i];
    if (variable.name.empty()) {
      throw_error(invalid_argument("Saver: ", variable.node->describe(), " is to be saved under an empty name"));
    }
    if (i == 0 || variables[i - 1].name != variable.name) continue;
    const SavedVariable& other = variables[i - 1];
    if (!variable.spec.empty() && !other.spec.empty() && variable.spec != other.spec) continue;
    throw_error(invalid_argument("Saver: at least two variables have the same name: ", printable(variable.name), " (",
                                 other.node->describe(), ", ", variable.node->describe(), ")"));
  }
}

std::string checkpoint_path(const std::string& prefix, std::optional<std::int64_t> step, bool padded) {
  if (!step) return prefix;
  char number[32];
  std::snprintf(number, sizeof number, padded ? "%08lld" : "%lld", static_cast<long long>(*step));
  return str_cat(prefix, "-", number);
}

VariableDef variable_def(Node& node) {
  const Graph& graph = node.graph();
  VariableDef def{.variable = node.name() + ":0", .resource = node.op_name() == "VarHandleOp"};
  if (const Node* assign = graph.find(node.name() + "/Assign")) {
    def.initializer = assign->name();
    if (assign->inputs().size() > 1) def.initial_value = assign->input(1).name();
  }
  for (const char* read : {"/Read/ReadVariableOp", "/read"}) {
    if (const Node* found = graph.find(node.name() + read)) def.snapshot = found->name() + ":0";
  }
  const std::vector<Node*>& trainable = graph.collection("trainable_variables");
  def.trainable = std::find(trainable.begin(), trainable.end(), &node) != trainable.end();
  if (const std::optional<SliceInfo> part = slice_info(node)) {
    def.full_name = part->full_name;
    def.full_shape.assign(part->full_shape.dims().begin(), part->full_shape.dims().end());
    def.offset = part->offset;
    def.shape.assign(part->shape.dims().begin(), part->shape.dims().end());
  }
  return def;
}

}  // namespace

class Saver::Impl {
 public:
  Impl(Graph& graph, SaverOptions options, internal::KeptCheckpoints::Rule rule)
      : graph_(graph),
        options_(std::move(options)),
        fs_(options_.files ? *options_.files : local_file_system()),
        own_clock_(options_.clock ? nullptr : make_system_clock()),
        clock_(options_.clock ? *options_.clock : *own_clock_),
        variables_(chosen_variables(graph, options_)),
        writer_(fs_, clock_,
                internal::KeptCheckpoints(rule, options_.max_to_keep, options_.keep_checkpoint_every_n_hours,
                                          static_cast<double>(clock_.wall_micros()) * 1e-6),
                {.relative_paths = options_.save_relative_paths, .state_file = options_.latest_filename}) {
    check_names(variables_);
    if (variables_.empty() && !options_.allow_empty) throw_error(invalid_argument("Saver: no variables to save"));
    if (variables_.empty()) return;
    nodes_ = internal::build_saver_graph(graph, variables_,
                                         {.name = options_.name,
                                          .sharded = options_.sharded,
                                          .reshape = options_.reshape,
                                          .background = options_.save_in_background,
                                          .holder = options_.holder});
    nodes_.names.max_to_keep = options_.max_to_keep;
    nodes_.names.keep_checkpoint_every_n_hours = options_.keep_checkpoint_every_n_hours;
  }

  Result<std::string> save(Session& session, const std::string& prefix, std::optional<std::int64_t> step,
                           const SaveOptions& options);
  Status restore(Session& session, const std::string& path, const RunOptions& options);
  Status wait();
  Status take_background_error();
  Status close();
  std::string meta_graph() const;

  internal::CheckpointWriter& writer() { return writer_; }
  FileSystem& files() { return fs_; }
  const SaverOptions& options() const { return options_; }
  const SaverDef& names() const { return nodes_.names; }

 private:
  Status check_directory(const std::string& path);
  Feeds filename(const std::string& prefix) const {
    return {{TensorName(nodes_.names.filename_tensor), Tensor::scalar(prefix)}};
  }
  // Parts have another directory for each save: a task that is late with its part of an earlier attempt at the same
  // step, which was given up, must not have it mixed in. `parts`: of nodes_.
  Feeds filenames(const std::string& prefix, const std::string& parts) const {
    Feeds feeds = filename(prefix);
    if (!parts.empty()) feeds.emplace_back(TensorName(parts), Tensor::scalar(internal::unique_parts_suffix()));
    return feeds;
  }
  static std::string saving(const internal::CheckpointWriter::Checkpoint& checkpoint) {
    return str_cat("Saver: saving \"", printable(checkpoint.path), "\"");
  }
  std::optional<std::string> meta_of(const SaveOptions& options);
  Status write(Session& session, const internal::CheckpointWriter::Checkpoint& checkpoint, const std::string& tensor,
               const RunOptions& options);
  Status save_in_background(Session& session, internal::CheckpointWriter::Checkpoint checkpoint, RunOptions options);
  void finish_in_background(const internal::CheckpointWriter::Checkpoint& checkpoint, const std::string& prefix,
                            Status written);

  Graph& graph_;
  const SaverOptions options_;
  FileSystem& fs_;
  const std::unique_ptr<Clock> own_clock_;
  Clock& clock_;
  const std::vector<SavedVariable> variables_;
  internal::SaverGraph nodes_;         // constant after construction
  internal::CheckpointWriter writer_;  // writes by the caller, or by thread_ while writing_

  Mutex mu_;
  CondVar written_;
  bool writing_ TUTTI_GUARDED_BY(mu_) = false;  // in the background
  Status background_error_ TUTTI_GUARDED_BY(mu_);

  // The caller's.
  bool closed_ = false;
  std::string meta_graph_;  // of the graph when it had so many nodes
  int meta_graph_nodes_ = -1;
  std::unique_ptr<ThreadPool> thread_;  // last: ends first
};

Result<std::string> Saver::Impl::save(Session& session, const std::string& prefix, std::optional<std::int64_t> step,
                                      const SaveOptions& options) {
  if (closed_) return failed_precondition("Saver: save to \"", printable(prefix), "\" after close");
  TUTTI_RETURN_IF_ERROR(wait());
  if (variables_.empty()) return std::string();
  const std::string path = checkpoint_path(prefix, step, options_.pad_step_number);
  TUTTI_RETURN_IF_ERROR(check_directory(path));
  internal::CheckpointWriter::Checkpoint checkpoint{
      .path = path, .meta = meta_of(options), .write_state = options.write_state};
  if (nodes_.hold == nullptr) {
    TUTTI_RETURN_IF_ERROR(write(session, checkpoint, nodes_.names.save_tensor, options.run));
    return path;
  }
  TUTTI_RETURN_IF_ERROR(save_in_background(session, std::move(checkpoint), options.run));
  return path;
}

Status Saver::Impl::write(Session& session, const internal::CheckpointWriter::Checkpoint& checkpoint,
                          const std::string& tensor, const RunOptions& options) {
  const Status written = writer_.write(checkpoint, [&](const std::string& prefix) {
    return session.try_run(filenames(prefix, nodes_.parts_tensor), {tensor}, {}, options).status();
  });
  return written.with_context(saving(checkpoint));
}

// When this returns, values are held and the step that writes them runs. From then on no thread of the saver's touches
// the session: closing it ends that step, whose callback comes in any case.
Status Saver::Impl::save_in_background(Session& session, internal::CheckpointWriter::Checkpoint checkpoint,
                                       RunOptions options) {
  const Result<std::string> prefix = writer_.begin(checkpoint);
  if (!prefix.ok()) return prefix.status().with_context(saving(checkpoint));
  const Result<std::vector<Tensor>> held = session.try_run({}, {}, {nodes_.hold}, options);
  if (!held.ok()) return held.status().with_context(saving(checkpoint));
  {
    MutexLock lock(mu_);
    writing_ = true;
  }
  auto written = std::make_shared<std::promise<Status>>();
  if (!thread_) thread_ = std::make_unique<ThreadPool>("saver", 1);
  thread_->schedule([this, checkpoint = std::move(checkpoint), prefix = *prefix, written] {
    finish_in_background(checkpoint, prefix, written->get_future().get());
  });
  // The caller may take these away when save() has returned.
  options.metadata = nullptr;
  options.cancellation = nullptr;
  session.run_async(filenames(*prefix, nodes_.write_parts_tensor), {nodes_.write_tensor}, {nodes_.let_go}, options,
                    [written](Status status, const std::vector<Tensor>&) { written->set_value(std::move(status)); });
  return {};
}

void Saver::Impl::finish_in_background(const internal::CheckpointWriter::Checkpoint& checkpoint,
                                       const std::string& prefix, Status written) {
  if (written.ok()) written = writer_.finish(checkpoint, prefix);
  if (!written.ok()) writer_.give_up(checkpoint);
  MutexLock lock(mu_);
  writing_ = false;
  background_error_ = written.with_context(saving(checkpoint));
  written_.notify_all();
}

Status Saver::Impl::wait() {
  MutexLock lock(mu_);
  while (writing_) written_.wait(mu_);
  return std::exchange(background_error_, {});
}

Status Saver::Impl::take_background_error() {
  MutexLock lock(mu_);
  return std::exchange(background_error_, {});
}

Status Saver::Impl::close() {
  closed_ = true;
  return wait();
}

Status Saver::Impl::restore(Session& session, const std::string& path, const RunOptions& options) {
  // A save that failed is the next save's matter.
  {
    MutexLock lock(mu_);
    while (writing_) written_.wait(mu_);
  }
  if (variables_.empty()) return {};
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader,
                         CheckpointReader::open(fs_, path, options_.latest_filename));
  TUTTI_RETURN_IF_ERROR(internal::check_restorable(*reader, variables_, options_.reshape));
  Status done = session.try_run(filename(reader->prefix()), {}, {nodes_.names.restore_op}, options).status();
  // The index has everything, so it is a file that is missing or too short.
  const bool damaged = done.code() == Code::kNotFound || done.code() == Code::kOutOfRange;
  if (damaged) done = data_loss(done.message());
  return done.with_context(str_cat("Saver: restoring \"", printable(path), "\""));
}

Status Saver::Impl::check_directory(const std::string& path) {
  const std::string directory = directory_of(path);
  const Result<FileInfo> info = fs_.info(directory);
  if (info.ok() && info->is_directory) return {};
  if (!info.ok() && info.status().code() != Code::kNotFound) return info.status();
  return invalid_argument("Parent directory of ", printable(path),
                          " doesn't exist, can't save: ", printable(directory));
}

std::optional<std::string> Saver::Impl::meta_of(const SaveOptions& options) {
  if (!options.write_meta_graph.value_or(options_.write_meta_graph)) return {};
  if (meta_graph_nodes_ != graph_.id_limit()) {
    meta_graph_ = meta_graph();
    meta_graph_nodes_ = graph_.id_limit();
  }
  return meta_graph_;
}

std::string Saver::Impl::meta_graph() const {
  MetaGraph about{.saver = nodes_.names};
  for (const char* name : {"variables", "trainable_variables", "local_variables", "global_step"}) {
    for (Node* node : graph_.collection(name)) {
      if (node->op_name() == "VarHandleOp") about.variables[name].push_back(variable_def(*node));
    }
  }
  for (const char* name : {"train_op", "summaries", "losses"}) {
    for (const Node* node : graph_.collection(name)) about.nodes[name].push_back(node->name());
  }
  return tutti::export_meta_graph(graph_, about);
}

Saver::Saver(Graph& graph, SaverOptions options)
    : impl_(std::make_unique<Impl>(graph, std::move(options), internal::KeptCheckpoints::Rule::kSaver)) {}
Saver::Saver(ForManager, Graph& graph, SaverOptions options)
    : impl_(std::make_unique<Impl>(graph, std::move(options), internal::KeptCheckpoints::Rule::kManager)) {}
internal::CheckpointWriter& Saver::writer() const { return impl_->writer(); }
Saver::~Saver() { (void)impl_->close(); }

std::string Saver::save(Session& session, const std::string& prefix, std::optional<std::int64_t> global_step,
                        const SaveOptions& options) {
  return try_save(session, prefix, global_step, options).value_or_throw();
}
Result<std::string> Saver::try_save(Session& session, const std::string& prefix,
                                    std::optional<std::int64_t> global_step, const SaveOptions& options) {
  return impl_->save(session, prefix, global_step, options);
}
void Saver::restore(Session& session, const std::string& path, const RunOptions& options) {
  throw_if_error(try_restore(session, path, options));
}
Status Saver::try_restore(Session& session, const std::string& path, const RunOptions& options) {
  return impl_->restore(session, path, options);
}
void Saver::wait() { throw_if_error(try_wait()); }
Status Saver::try_wait() { return impl_->wait(); }
Status Saver::take_background_error() { return impl_->take_background_error(); }
void Saver::close() { throw_if_error(impl_->close()); }

std::vector<std::string> Saver::last_checkpoints() const {
  std::vector<std::string> paths;
  for (auto& [path, time] : impl_->writer().kept()) paths.push_back(path);
  return paths;
}
std::vector<Saver::TimedPath> Saver::last_checkpoints_with_time() const { return impl_->writer().kept(); }
void Saver::set_last_checkpoints(const std::vector<std::string>& paths) {
  std::vector<TimedPath> timed;
  for (const std::string& path : paths) timed.emplace_back(path, impl_->writer().now());
  set_last_checkpoints_with_time(std::move(timed));
}
void Saver::set_last_checkpoints_with_time(std::vector<TimedPath> paths) { impl_->writer().set_kept(std::move(paths)); }
void Saver::recover_last_checkpoints(const std::vector<std::string>& paths) {
  std::vector<TimedPath> timed;
  for (const std::string& path : paths) {
    Result<FileInfo> info = impl_->files().info(path + ".index");
    if (!info.ok()) info = impl_->files().info(path);
    if (info.ok()) timed.emplace_back(path, static_cast<double>(info->modified_micros) * 1e-6);
  }
  set_last_checkpoints_with_time(std::move(timed));
}

bool Saver::saves_in_background() const { return impl_->options().save_in_background; }
const std::string& Saver::latest_filename() const { return impl_->options().latest_filename; }
const SaverDef& Saver::saver_def() const { return impl_->names(); }
std::string Saver::export_meta_graph() const { return impl_->meta_graph(); }

}  // namespace tutti
