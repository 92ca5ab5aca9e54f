// Checkpoints of training jobs: the graph's variables to files and back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/clock.h"
#include "tutti/core/file_system.h"
#include "tutti/graph/graph.h"
#include "tutti/graph/meta_graph.h"
#include "tutti/io/checkpoint_state.h"
#include "tutti/ops/state.h"
#include "tutti/runtime/session.h"

namespace tutti {

namespace internal {
class CheckpointWriter;
}

struct SaverOptions {
  // What is saved, under the names that the checkpoint gives it. Parts of a partitioned variable
  // (ops/partitioned_variable.h) may share a name. When this and `nodes` are empty: all of the graph's `variables`,
  // under their own names.
  std::multimap<std::string, Var> variables;
  // The same for variables of imported graphs: nodes VarHandleOp, VariableV2 or Variable.
  std::multimap<std::string, Node*> nodes;

  // The newest so many stay; 0: all do.
  int max_to_keep = 5;
  // Besides, one for every so many hours stays for good.
  double keep_checkpoint_every_n_hours = 10000;
  // "model.ckpt-00000042" instead of "model.ckpt-42".
  bool pad_step_number = false;
  // Every task writes the variables that it holds, and the parts are put together; else all go to one task.
  bool sharded = false;
  // A value may be stored under another shape with as many elements.
  bool reshape = false;
  // Without variables: saves and restores nothing instead of throwing.
  bool allow_empty = false;
  // Paths in the file `checkpoint` are relative to it in any case.
  bool save_relative_paths = false;
  // Writes P.meta, TensorFlow's MetaGraphDef, beside each checkpoint.
  bool write_meta_graph = true;
  // Of the file that names the checkpoints of a directory.
  std::string latest_filename = std::string(kCheckpointStateFile);
  // save() returns when the values are held fast, and they are written while training goes on. See Saver::save.
  bool save_in_background = false;
  // The scope of the saver's nodes.
  std::string name = "save";
  // Who saves: what it holds in the background is named for it, so that who comes after one that died lets go of it.
  // Those who may save the same variables at the same time need different ones. "": a name that nobody else has.
  std::string holder;

  // The disk that the tasks write to, as the client sees it; null: the local one. Outlives the saver.
  FileSystem* files = nullptr;
  // Null: the machine's time. Outlives the saver.
  Clock* clock = nullptr;
};

struct SaveOptions {
  // Of the step (or two) that it takes.
  RunOptions run;
  // Whether the file `checkpoint` is to name it, and old checkpoints are to be deleted.
  bool write_state = true;
  // Overrides SaverOptions.
  std::optional<bool> write_meta_graph;
};

// Adds nodes to the graph, with TensorFlow's names ("save/Const", "save/control_dependency", "save/restore_all"...), so
// that tasks of a cluster write and read their own variables, and TensorFlow can use the saver of an exported graph.
// Make it when all variables are there. Files are TensorFlow's: docs/checkpoints.md.
//
// What is promised of files. A save becomes visible in one step, the renaming of the file `checkpoint`, after
// everything that it names is on the disk; a crash at any moment, of any task, leaves a whole checkpoint, the old or
// the new one, under what `checkpoint` names. Old checkpoints are deleted after that. What a crashed save has left
// behind is removed by the next one under the same prefix.
//
// What is promised of values. Each variable is saved as it was at one moment: never half of an update. The moments of
// all variables lie between the call of save() and its return, so that a thread that saves between its own steps saves
// what its last step left, when nobody else trains. While others do (asynchronous workers), variables may be some
// updates apart from each other; but "global_step", if it is among them, is read before all others: what was counted in
// the saved step is in the saved variables, which may have later updates besides.
//
// Calls from one thread at a time. `graph` outlives the saver. A session that is closed or destroyed while it saves in
// the background ends that save, with an error for the next call. All but try_... throw Error.
class Saver {
 public:
  // kInvalidArgument: no variables, a name twice, a node that is no variable, parts that do not agree.
  explicit Saver(Graph& graph, SaverOptions options = {});
  // As close(), dropping errors.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Saves to `prefix`, or `prefix`-STEP, and returns that; "" when there is nothing to save. Errors: kInvalidArgument
  // for a directory that does not exist; what the disk says, naming the file. After an error `checkpoint` names what it
  // named before, and nothing was deleted.
  //
  // In the background: variables keep their values for the checkpoint without a copy (docs/design/0001), and are
  // written by tasks while training goes on. What goes wrong then is thrown by the next call of save, wait or close. A
  // save that is still being written is waited for by the next one. Another holder's is not in its way. What a client
  // that dies meanwhile held stays with the tasks until its holder saves again, or their containers are reset.
  std::string save(Session& session, const std::string& prefix, std::optional<std::int64_t> global_step = {},
                   const SaveOptions& options = {});
  Result<std::string> try_save(Session& session, const std::string& prefix,
                               std::optional<std::int64_t> global_step = {}, const SaveOptions& options = {});

  // Gives variables the values that the checkpoint has for them, and leaves others alone. Everything is checked and
  // read before the first variable changes: after an error all are as they were. Errors: kInvalidArgument for a path
  // that is no checkpoint and for another type or shape, kNotFound for a variable that the checkpoint lacks, kDataLoss
  // for damage; each names the variable, the file, and what the file has. Another number of tasks, shards or parts than
  // at the save is fine.
  void restore(Session& session, const std::string& path, const RunOptions& options = {});
  Status try_restore(Session& session, const std::string& path, const RunOptions& options = {});

  // Waits until nothing is written in the background.
  void wait();
  Status try_wait();
  // What the last save in the background failed with, without a wait: OK while it is being written. It is told once.
  Status take_background_error();
  // The same, for good: later saves fail.
  void close();

  // Kept checkpoints, oldest first, without those that are kept for good.
  std::vector<std::string> last_checkpoints() const;
  // With the time of their writing, in seconds since 1970.
  using TimedPath = std::pair<std::string, double>;
  std::vector<TimedPath> last_checkpoints_with_time() const;
  // Those of an earlier run, so that this saver deletes them when their time comes. Their times become now's.
  void set_last_checkpoints(const std::vector<std::string>& paths);
  void set_last_checkpoints_with_time(std::vector<TimedPath> paths);
  // The same with the times of the files; those that are gone are left out.
  void recover_last_checkpoints(const std::vector<std::string>& paths);

  // As SaverOptions have them.
  const std::string& latest_filename() const;
  bool saves_in_background() const;
  // Names of the nodes, as TensorFlow's SaverDef has them. Empty without variables.
  const SaverDef& saver_def() const;
  // The bytes of a MetaGraphDef: the graph as it is now, its collections of variables, this saver.
  std::string export_meta_graph() const;

 private:
  friend class CheckpointManager;
  struct ForManager {};  // who keeps by another rule
  Saver(ForManager, Graph& graph, SaverOptions options);
  internal::CheckpointWriter& writer() const;

  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
