#include "tutti/distributed/internal/worker_sessions.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace tutti::internal {
namespace {

// A message is late by moments, not by so many others.
constexpr std::size_t kMaxKeys = 1000;
constexpr std::size_t kMaxKeySize = 1000;  // handles and names of tasks are short

std::string life_of(const std::string& master_task, std::uint64_t incarnation) {
  return str_cat(master_task, " ", incarnation);
}

}  // namespace

void LastKeys::add(const std::string& key) {
  if (key.size() > kMaxKeySize || !keys_.insert(key).second) return;
  order_.push_back(key);
  if (order_.size() <= kMaxKeys) return;
  keys_.erase(order_.front());
  order_.pop_front();
}

template <typename Condition>
std::vector<WorkerSessionPtr> WorkerSessions::take_where(Condition condition, bool give_up) {
  std::vector<WorkerSessionPtr> taken;
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    if (!condition(*it->second)) {
      ++it;
      continue;
    }
    it->second->given_up = give_up;
    it->second->removed = true;
    removed_.add(it->first);
    if (give_up) given_up_.add(it->first);
    taken.push_back(std::move(it->second));
    it = sessions_.erase(it);
  }
  return taken;
}

Result<std::vector<WorkerSessionPtr>> WorkerSessions::create(const CreateWorkerSessionRequest& request) {
  if (request.session_handle.empty()) return invalid_argument(task_, ": CreateWorkerSession with an empty handle");
  auto session = std::make_shared<WorkerSession>();
  session->handle = request.session_handle;
  session->master_task = request.master_task;
  session->master_incarnation = request.master_incarnation;
  session->task = make_({.isolated = request.isolate_session_state});
  MutexLock lock(mu_);
  TUTTI_RETURN_IF_ERROR(check_not_late(request));
  auto [it, is_new] = sessions_.emplace(request.session_handle, session);
  if (!is_new) {
    const WorkerSession& known = *it->second;
    if (known.master_task == request.master_task && known.master_incarnation == request.master_incarnation) {
      return std::vector<WorkerSessionPtr>();
    }
    return already_exists(task_, ": session ", printable(request.session_handle), " belongs to master ",
                          printable(known.master_task));
  }
  if (request.master_task.empty()) return std::vector<WorkerSessionPtr>();
  std::vector<WorkerSessionPtr> ended = take_where([&request](const WorkerSession& other) {
    return other.master_task == request.master_task && other.master_incarnation != request.master_incarnation;
  });
  remember_masters_of(ended);
  return ended;
}

void WorkerSessions::remember_masters_of(const std::vector<WorkerSessionPtr>& ended) {
  for (const WorkerSessionPtr& session : ended) {
    const Master master{session->master_task, session->master_incarnation};
    if (master.incarnation == 0 || std::ranges::find(lost_masters_, master) != lost_masters_.end()) continue;
    lost_masters_.push_back(master);
  }
  while (lost_masters_.size() > kMaxKeys) lost_masters_.pop_front();
}

Status WorkerSessions::check_not_late(const CreateWorkerSessionRequest& request) const {
  if (removed_.contains(request.session_handle)) {
    return aborted(task_, ": session ", printable(request.session_handle), " was deleted before");
  }
  if (dead_masters_.contains(life_of(request.master_task, request.master_incarnation))) {
    return aborted(task_, ": session ", printable(request.session_handle), " is of an earlier life of master ",
                   printable(request.master_task));
  }
  return {};
}

WorkerSessionPtr WorkerSessions::remove(const std::string& handle) {
  MutexLock lock(mu_);
  removed_.add(handle);
  auto it = sessions_.find(handle);
  if (it == sessions_.end()) return nullptr;
  WorkerSessionPtr session = std::move(it->second);
  session->removed = true;
  sessions_.erase(it);
  return session;
}

std::vector<WorkerSessionPtr> WorkerSessions::remove_all_of(const std::string& master_task,
                                                            std::uint64_t but_incarnation) {
  MutexLock lock(mu_);
  const bool lost = but_incarnation == 0;  // and may come back as who it was
  const auto ends = [&](const WorkerSession& session) {
    return session.master_task == master_task && (lost || session.master_incarnation != but_incarnation);
  };
  std::vector<WorkerSessionPtr> taken = take_where(ends, lost);
  remember_masters_of(taken);
  if (lost) return taken;
  for (const Master& master : lost_masters_) {
    const bool replaced = master.task == master_task && master.incarnation != but_incarnation;
    if (replaced) dead_masters_.add(life_of(master_task, master.incarnation));
  }
  std::erase_if(lost_masters_, [&master_task](const Master& master) { return master.task == master_task; });
  return taken;
}

std::vector<WorkerSessionPtr> WorkerSessions::remove_all() {
  MutexLock lock(mu_);
  std::vector<WorkerSessionPtr> all = take_where([](const WorkerSession&) { return true; });
  if (default_) all.push_back(std::exchange(default_, nullptr));
  return all;
}

Result<WorkerSessionPtr> WorkerSessions::find_locked(const Name& name) {
  if (!name.created) {
    if (!default_) {
      default_ = std::make_shared<WorkerSession>();
      default_->task = make_({});
    }
    return default_;
  }
  auto it = sessions_.find(name.handle);
  if (it != sessions_.end()) return it->second;
  if (given_up_.contains(name.handle)) return given_up(name.handle);
  return aborted("Session handle is not found: ", printable(name.handle), ". Possibly this worker (\"", task_,
                 "\") just restarted.");
}

Status WorkerSessions::given_up(const std::string& handle) const {
  return unavailable(task_, " has given up session ", printable(handle),
                     ": its master was lost for a while; make a new session");
}

Result<WorkerSessionPtr> WorkerSessions::find(const Name& name) {
  MutexLock lock(mu_);
  return find_locked(name);
}

Result<std::string> WorkerSessions::add_graph(const WorkerSessionPtr& session, std::shared_ptr<const TaskGraph> graph) {
  MutexLock lock(mu_);
  auto it = sessions_.find(session->handle);
  if (session != default_ && (it == sessions_.end() || it->second != session)) {
    return session->given_up
               ? given_up(session->handle)
               : aborted(task_, ": session ", printable(session->handle), " ended while a graph was registered");
  }
  auto received = std::make_shared<const ReceivedValues>(task_, graph->received(), graph->unhurried());
  if (received->sources().empty()) received = nullptr;
  char handle[17];
  std::snprintf(handle, sizeof handle, "%016llx", static_cast<unsigned long long>(next_graph_++));
  session->graphs.emplace(handle, RegisteredGraph{std::move(graph), std::move(received)});
  return std::string(handle);
}

Status WorkerSessions::unknown_graph(const std::string& handle) const {
  return aborted("Graph handle is not found: ", printable(handle), ". Possibly this worker (\"", task_,
                 "\") just restarted.");
}

Result<WorkerSessions::Part> WorkerSessions::find_graph(const Name& name, const std::string& graph_handle) {
  MutexLock lock(mu_);
  TUTTI_ASSIGN_OR_RETURN(WorkerSessionPtr session, find_locked(name));
  auto it = session->graphs.find(graph_handle);
  if (it == session->graphs.end()) return unknown_graph(graph_handle);
  const RegisteredGraph& found = it->second;
  return Part{session, found.graph, found.received};
}

Status WorkerSessions::remove_graph(const Name& name, const std::string& graph_handle) {
  RegisteredGraph graph;  // destroyed after the lock is gone
  MutexLock lock(mu_);
  TUTTI_ASSIGN_OR_RETURN(WorkerSessionPtr session, find_locked(name));
  auto it = session->graphs.find(graph_handle);
  if (it == session->graphs.end()) return unknown_graph(graph_handle);
  graph = std::move(it->second);
  session->graphs.erase(it);
  return {};
}

}  // namespace tutti::internal
