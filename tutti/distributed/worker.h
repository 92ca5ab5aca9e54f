// The worker of a task: runs the parts of graphs that masters registered here and hands out what they send.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/clock.h"
#include "tutti/distributed/worker_interface.h"
#include "tutti/runtime/task_session.h"

namespace tutti {

struct WorkerOptions {
  std::string task;  // "/job:ps/replica:0/task:0"
  std::vector<DeviceInfo> devices;
  std::function<std::unique_ptr<TaskSession>(const TaskSessionOptions&)> make_session;
  // Destroys the state in these containers of the task; all of them when none is named.
  std::function<void(const std::vector<std::string>&)> reset_containers;
  WorkerDirectory* peers = nullptr;  // where values come from; outlives the worker
  Clock* clock = nullptr;            // outlives the worker
  // Runs what computes for long (compiling graphs) on a thread that no message waits for; null: at once.
  std::function<void(std::function<void()>)> run;
  // What one step may have sent and nobody received; going over aborts the step.
  std::size_t step_bytes = std::size_t{4} << 30;
  // How long a step id is remembered after its end, so that late messages for it are refused.
  std::chrono::seconds remembered{60};
  std::function<void(const std::string& line)> log;  // null: nothing is said
};

// Has no thread and no socket: calls come in on their callers' threads, time through the clock. Thread-safe.
//
// A step begins here with the first message that names it, RunGraph or RecvTensor, and ends with CleanupGraph, or with
// the session, or when its master is found gone. What it did not receive is dropped; what comes for it later is
// kAborted.
//
// A step that fails is the Result's error, never RunGraphReply::status: where errors go into the body, the service puts
// them there. Messages begin with the node; the task is for who collects them to add ("From TASK:\n"). Tasks that wait
// for a value of the step get the error at once, with the task and marked as derived (derived_status.h).
class Worker : public WorkerInterface {
 public:
  explicit Worker(WorkerOptions options);
  ~Worker() override;  // as stop()

  // Ends everything with `cause`, waits until every call was answered, and refuses what comes later. Not to be called
  // from an answer.
  void stop(const Status& cause);
  // A task is gone, or came back as another incarnation (0: it did not): its sessions here, and the steps that wait for
  // it, end with `cause`, but not those of the new incarnation.
  // Returns whether it had sessions here.
  bool forget_task(const std::string& task, const Status& cause, std::uint64_t incarnation = 0);

  // Steps that have begun here and not ended.
  std::size_t open_steps() const;

  void get_status(const CallOptions& options, ReplyDone<GetStatusReply> done) override;
  void create_worker_session(CreateWorkerSessionRequest request, const CallOptions& options,
                             ReplyDone<EmptyMessage> done) override;
  void delete_worker_session(DeleteWorkerSessionRequest request, const CallOptions& options,
                             ReplyDone<EmptyMessage> done) override;
  void register_graph(RegisterGraphRequest request, const CallOptions& options,
                      ReplyDone<RegisterGraphReply> done) override;
  void deregister_graph(DeregisterGraphRequest request, const CallOptions& options,
                        ReplyDone<EmptyMessage> done) override;
  void run_graph(RunGraphRequest request, const CallOptions& options, ReplyDone<RunGraphReply> done) override;
  void cleanup_graph(CleanupGraphRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) override;
  void cleanup_all(CleanupAllRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) override;
  void recv_tensor(RecvTensorRequest request, const CallOptions& options, ReplyDone<RecvTensorReply> done) override;
  void recv_tensors(RecvTensorsRequest request, const CallOptions& options, ReplyDone<RecvTensorsReply> done) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
