// The master of a task: holds clients' sessions, cuts their graphs and drives the workers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tutti/core/clock.h"
#include "tutti/distributed/master_interface.h"
#include "tutti/distributed/task_log.h"
#include "tutti/distributed/worker_interface.h"
#include "tutti/ops/op_table.h"

namespace tutti {

struct MasterOptions {
  std::string task;  // its own: "/job:worker/replica:0/task:0"
  std::shared_ptr<const OpTable> ops = builtin_ops();
  WorkerDirectory* workers = nullptr;          // its own task's included; outlives the master
  Clock* clock = nullptr;                      // outlives the master
  SessionConfig default_config;                // what sessions' configs are merged over
  std::chrono::seconds session_idle_limit{0};  // 0: sessions are kept until closed
  int max_sessions = 0;                        // at one time; 0: any number
  std::uint64_t seed = 0;                      // of handles and ids, for simulations; 0: from the system
  // Runs what computes for long (placing and cutting graphs) on a thread that no message waits for; null: at once.
  std::function<void(std::function<void()>)> run;
  TaskLog log;
};

// Has no thread and no socket: calls come in on their callers' threads, replies of workers on theirs, time through the
// clock. Thread-safe.
class Master : public MasterInterface {
 public:
  explicit Master(MasterOptions options);
  ~Master() override;  // as stop()

  // Ends every session's steps with `cause`, waits for them, and refuses what comes later.
  void stop(const Status& cause);
  // A task is gone (kUnavailable) or came back as another incarnation (kAborted): steps that use it end with `cause`
  // now, and sessions that use it fail with it from now on.
  // Returns whether a session uses it.
  bool lose_task(const std::string& task, const Status& cause);
  // A call by which the client leases a session is held here (true), or was (false), in pairs: meanwhile the session is
  // not idle.
  void lease_session(const std::string& session_handle, bool held);
  // The client of a session went away without closing it: as CloseSession.
  void abandon_session(const std::string& session_handle);

  void create_session(CreateSessionRequest request, const CallOptions& options,
                      ReplyDone<CreateSessionReply> done) override;
  void extend_session(ExtendSessionRequest request, const CallOptions& options,
                      ReplyDone<ExtendSessionReply> done) override;
  void partial_run_setup(PartialRunSetupRequest request, const CallOptions& options,
                         ReplyDone<PartialRunSetupReply> done) override;
  void run_step(RunStepRequest request, const CallOptions& options, ReplyDone<RunStepReply> done) override;
  void close_session(CloseSessionRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) override;
  void list_devices(ListDevicesRequest request, const CallOptions& options, ReplyDone<ListDevicesReply> done) override;
  void reset(ResetRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) override;
  void make_callable(MakeCallableRequest request, const CallOptions& options,
                     ReplyDone<MakeCallableReply> done) override;
  void run_callable(RunCallableRequest request, const CallOptions& options, ReplyDone<RunCallableReply> done) override;
  void release_callable(ReleaseCallableRequest request, const CallOptions& options,
                        ReplyDone<EmptyMessage> done) override;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with the calls that run
};

}  // namespace tutti
