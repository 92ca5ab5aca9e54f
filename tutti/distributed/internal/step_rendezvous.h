// The rendezvous of one step in one task: a table of its own, and a way to the tables of the others.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/distributed/internal/batched_receive.h"
#include "tutti/distributed/internal/received_values.h"
#include "tutti/distributed/internal/request_ids.h"
#include "tutti/distributed/worker_interface.h"
#include "tutti/runtime/local_rendezvous.h"

namespace tutti::internal {

// What is sent stays here until it is asked for. What another task sends to this one is asked of that task's worker
// (RecvTensor); all else, a client's values among it, of the table here. Thread-safe.
class StepRendezvous : public Rendezvous, public std::enable_shared_from_this<StepRendezvous> {
 public:
  struct Options {
    std::int64_t step_id = 0;
    std::string_view task;              // this task; outlives it
    WorkerDirectory* peers = nullptr;   // outlives it
    RequestIds* request_ids = nullptr;  // outlives it
    std::size_t limit_bytes = 0;        // of what waits here to be received
  };
  // Calls what it is given, which ends waits of the step.
  using Resume = std::function<void(const std::function<void()>&)>;

  explicit StepRendezvous(const Options& options) : options_(options), local_(options.limit_bytes) {}

  // These will be received: those of one task are asked for together, from now on. Once, before what runs receives.
  void expect(std::shared_ptr<const ReceivedValues> values, const Resume& resume);

  Status send(const std::string& key, Tensor value, bool dead) override;
  // An error of the other task's that is not derived gets that task's name.
  void recv(const std::string& key, Cancellation& cancellation, Done done) override;
  // Calls to other tasks are cancelled.
  void abort(Status cause) override;

  // Of the table here, whatever the key says.
  void recv_local(const std::string& key, Cancellation& cancellation, Done done);
  // Whether a value of that task is being waited for, from another incarnation than this.
  bool waits_for(std::string_view task, std::uint64_t but_incarnation = 0) const;

 private:
  struct RemoteRecv;
  using CallPtr = std::shared_ptr<RemoteRecv>;

  // Null: not asked for together with others.
  std::shared_ptr<BatchedReceive> batch_of(const std::string& key, std::size_t& index) const;
  void recv_remote(std::string task, const std::string& key, Cancellation& cancellation, Done done);
  Status enter(const CallPtr& call);
  void leave(const CallPtr& call);
  void end(const CallPtr& call, Result<RecvTensorReply> reply);

  const Options options_;
  LocalRendezvous local_;
  mutable Mutex mu_;
  Status status_ TUTTI_GUARDED_BY(mu_);
  std::vector<CallPtr> calls_ TUTTI_GUARDED_BY(mu_);
  std::shared_ptr<const ReceivedValues> expected_ TUTTI_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<BatchedReceive>> batches_ TUTTI_GUARDED_BY(mu_);  // of its sources; null: none
};

}  // namespace tutti::internal
