// What a master and other workers ask of a worker. The worker itself is one; so is the way to a remote one.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tutti/core/status.h"
#include "tutti/distributed/messages.h"
#include "tutti/transport/channel.h"

namespace tutti {

template <typename T>
using ReplyDone = std::function<void(Result<T>)>;

// Thread-safe. Every `done` runs exactly once, on any thread, possibly before the call returns, with no lock held.
// Deadline and cancellation in `options` are honoured by local workers too.
class WorkerInterface {
 public:
  virtual ~WorkerInterface() = default;
  virtual void get_status(const CallOptions& options, ReplyDone<GetStatusReply> done) = 0;
  virtual void create_worker_session(CreateWorkerSessionRequest request, const CallOptions& options,
                                     ReplyDone<EmptyMessage> done) = 0;
  virtual void delete_worker_session(DeleteWorkerSessionRequest request, const CallOptions& options,
                                     ReplyDone<EmptyMessage> done) = 0;
  virtual void register_graph(RegisterGraphRequest request, const CallOptions& options,
                              ReplyDone<RegisterGraphReply> done) = 0;
  virtual void deregister_graph(DeregisterGraphRequest request, const CallOptions& options,
                                ReplyDone<EmptyMessage> done) = 0;
  virtual void run_graph(RunGraphRequest request, const CallOptions& options, ReplyDone<RunGraphReply> done) = 0;
  virtual void cleanup_graph(CleanupGraphRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) = 0;
  virtual void cleanup_all(CleanupAllRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) = 0;
  virtual void recv_tensor(RecvTensorRequest request, const CallOptions& options, ReplyDone<RecvTensorReply> done) = 0;
  // methods::is_unknown: ask for each by itself. So say workers that are not Tutti's.
  virtual void recv_tensors(RecvTensorsRequest request, const CallOptions& options, ReplyDone<RecvTensorsReply> done);
};

// The workers of a cluster as one task sees them. Thread-safe.
class WorkerDirectory {
 public:
  virtual ~WorkerDirectory() = default;
  // "/job:ps/replica:0/task:1". kNotFound when the cluster has no such task. Does not connect yet.
  virtual Result<std::shared_ptr<WorkerInterface>> worker(const std::string& task) = 0;
  // Of all tasks, in order.
  virtual std::vector<std::string> tasks() const = 0;
};

// A worker behind a channel: encodes, calls, decodes. See codec.h.
std::shared_ptr<WorkerInterface> make_remote_worker(std::shared_ptr<Channel> channel);

}  // namespace tutti
