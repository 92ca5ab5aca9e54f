// The sessions that masters have opened on a worker, and the graphs they registered.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/distributed/internal/received_values.h"
#include "tutti/distributed/messages.h"
#include "tutti/runtime/task_session.h"

namespace tutti::internal {

struct RegisteredGraph {
  std::shared_ptr<const TaskGraph> graph;
  std::shared_ptr<const ReceivedValues> received;  // null: nothing that is known beforehand
};

// Constant but for `graphs`, which WorkerSessions guards, `removed` and `given_up`.
struct WorkerSession {
  std::string handle;
  std::string master_task;
  std::uint64_t master_incarnation = 0;
  std::unique_ptr<TaskSession> task;
  std::unordered_map<std::string, RegisteredGraph> graphs;
  // Set before the session's steps are ended. A step that was not yet the session's by then sees it when it has become
  // so: the lock on the step orders the two.
  std::atomic<bool> removed{false};
  std::atomic<bool> given_up{false};  // removed since its master was lost; set before
};
using WorkerSessionPtr = std::shared_ptr<WorkerSession>;

// The last keys of many. Not thread-safe.
class LastKeys {
 public:
  bool contains(const std::string& key) const { return keys_.contains(key); }
  void add(const std::string& key);

 private:
  std::unordered_set<std::string> keys_;
  std::deque<std::string> order_;
};

// Thread-safe. Unknown handles are kAborted: the worker may have been started anew, and the master has to begin again.
// Those whose master was lost are kUnavailable: it is back, as who it was.
class WorkerSessions {
 public:
  using Make = std::function<std::unique_ptr<TaskSession>(const TaskSessionOptions&)>;

  // What a message says of its session.
  struct Name {
    const std::string& handle;
    bool created;  // false: a master that creates none uses the default session, whatever the handle
  };
  struct Part {
    WorkerSessionPtr session;
    std::shared_ptr<const TaskGraph> graph;
    std::shared_ptr<const ReceivedValues> received;  // may be null
  };

  WorkerSessions(std::string task, Make make) : task_(std::move(task)), make_(std::move(make)) {}

  // Gives the sessions that are over with it: those of the same master task in an earlier life. Creating one again is
  // fine for the same master, else kAlreadyExists. kAborted for a message that comes late: its session was removed, or
  // its master is known to have been replaced.
  Result<std::vector<WorkerSessionPtr>> create(const CreateWorkerSessionRequest& request);
  // Null when there is none: its deletion may have overtaken it.
  WorkerSessionPtr remove(const std::string& handle);
  std::vector<WorkerSessionPtr> remove_all_of(const std::string& master_task, std::uint64_t but_incarnation);
  std::vector<WorkerSessionPtr> remove_all();

  Result<WorkerSessionPtr> find(const Name& name);
  Result<std::string> add_graph(const WorkerSessionPtr& session, std::shared_ptr<const TaskGraph> graph);
  Result<Part> find_graph(const Name& name, const std::string& graph_handle);
  Status remove_graph(const Name& name, const std::string& graph_handle);

 private:
  Result<WorkerSessionPtr> find_locked(const Name& name) TUTTI_REQUIRES(mu_);
  template <typename Condition>
  std::vector<WorkerSessionPtr> take_where(Condition condition, bool give_up = false) TUTTI_REQUIRES(mu_);
  void remember_masters_of(const std::vector<WorkerSessionPtr>& ended) TUTTI_REQUIRES(mu_);
  Status check_not_late(const CreateWorkerSessionRequest& request) const TUTTI_REQUIRES(mu_);
  Status unknown_graph(const std::string& handle) const;
  Status given_up(const std::string& handle) const;

  const std::string task_;
  const Make make_;
  Mutex mu_;
  std::unordered_map<std::string, WorkerSessionPtr> sessions_ TUTTI_GUARDED_BY(mu_);
  WorkerSessionPtr default_ TUTTI_GUARDED_BY(mu_);  // made when it is first asked for
  std::uint64_t next_graph_ TUTTI_GUARDED_BY(mu_) = 1;
  LastKeys removed_ TUTTI_GUARDED_BY(mu_);   // handles, also of those that were not made yet
  LastKeys given_up_ TUTTI_GUARDED_BY(mu_);  // handles of those whose master was lost
  // Lives of masters whose sessions ended because they were lost or replaced, the latest last; until it is known which.
  struct Master {
    std::string task;
    std::uint64_t incarnation;
    bool operator==(const Master&) const = default;
  };
  std::deque<Master> lost_masters_ TUTTI_GUARDED_BY(mu_);
  // Lives of masters that were replaced, as the failure detector has it: of two that call, the later call may be of the
  // dead one.
  LastKeys dead_masters_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::internal
