// A worker whose answers the test decides on.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/distributed/worker_interface.h"

namespace tutti::testing {

// One method: answers at once by `reply`, or holds calls back until the test answers them. A call that is held ends
// when it is cancelled, as a channel's would. Thread-safe.
template <typename Request, typename Reply>
class FakeMethod {
 public:
  // By default an empty reply.
  void reply_with(std::function<Result<Reply>(const Request&)> reply) {
    MutexLock lock(mu_);
    reply_ = std::move(reply);
  }
  void fail_with(Status status) {
    reply_with([status](const Request&) -> Result<Reply> { return status; });
  }
  void hold(bool held = true) {
    MutexLock lock(mu_);
    hold_ = held;
  }

  void call(Request request, const CallOptions& options, ReplyDone<Reply> done) {
    auto call = std::make_shared<Held>(options, std::move(done));
    std::function<Result<Reply>(const Request&)> reply;
    {
      MutexLock lock(mu_);
      requests_.push_back(request);
      calls_.push_back(call);
      if (!hold_) reply = reply_ ? reply_ : [](const Request&) -> Result<Reply> { return Reply{}; };
      changed_.notify_all();
    }
    if (reply) return call->answer(reply(request));
    if (options.cancellation == nullptr) return;
    Cancellation* cancellation = options.cancellation;
    const Cancellation::Token token =
        cancellation->register_callback([call, cancellation] { call->answer(cancellation->status()); });
    if (token == 0) call->answer(cancellation->status());
  }

  // Waits until there were so many calls.
  void wait_for(std::size_t count) {
    MutexLock lock(mu_);
    while (calls_.size() < count) changed_.wait(mu_);
  }
  std::size_t count() const {
    MutexLock lock(mu_);
    return requests_.size();
  }
  Request request(std::size_t index) const {
    MutexLock lock(mu_);
    return requests_.at(index);
  }
  CallOptions options(std::size_t index) const {
    MutexLock lock(mu_);
    return calls_.at(index)->options;
  }
  // Answers one that is held; nothing happens when it was cancelled before.
  void answer(std::size_t index, Result<Reply> reply) {
    std::shared_ptr<Held> call;
    {
      MutexLock lock(mu_);
      call = calls_.at(index);
    }
    call->answer(std::move(reply));
  }
  bool answered(std::size_t index) const {
    std::shared_ptr<Held> call;
    {
      MutexLock lock(mu_);
      call = calls_.at(index);
    }
    MutexLock lock(call->mu);
    return call->done == nullptr;
  }

 private:
  struct Held {
    Held(const CallOptions& o, ReplyDone<Reply> d) : options(o), done(std::move(d)) {}
    const CallOptions options;
    Mutex mu;
    ReplyDone<Reply> done TUTTI_GUARDED_BY(mu);
    void answer(Result<Reply> reply) {
      ReplyDone<Reply> now;
      {
        MutexLock lock(mu);
        now = std::exchange(done, nullptr);
      }
      if (now) now(std::move(reply));
    }
  };

  mutable Mutex mu_;
  CondVar changed_;
  std::function<Result<Reply>(const Request&)> reply_ TUTTI_GUARDED_BY(mu_);
  bool hold_ TUTTI_GUARDED_BY(mu_) = false;
  std::deque<Request> requests_ TUTTI_GUARDED_BY(mu_);
  std::deque<std::shared_ptr<Held>> calls_ TUTTI_GUARDED_BY(mu_);
};

// Knows one device; gives graphs the handles "g1", "g2", ..., and the scalar 1 for every key that is asked for.
class FakeWorker : public WorkerInterface {
 public:
  explicit FakeWorker(const std::string& task, std::uint64_t incarnation) {
    status.reply_with([=](const EmptyMessage&) -> Result<GetStatusReply> {
      return GetStatusReply{{{.name = task + "/device:CPU:0", .type = "CPU", .incarnation = incarnation}}};
    });
    registered.reply_with(
        [graphs = std::make_shared<std::atomic<int>>(0)](const RegisterGraphRequest&) -> Result<RegisterGraphReply> {
          return RegisterGraphReply{str_cat("g", ++*graphs)};
        });
    runs.reply_with([](const RunGraphRequest& request) -> Result<RunGraphReply> { return ones(request); });
  }

  static RunGraphReply ones(const RunGraphRequest& request) {
    RunGraphReply reply;
    for (const std::string& key : request.recv_keys) reply.recvs.emplace_back(key, Tensor::scalar(1.0f));
    return reply;
  }

  FakeMethod<EmptyMessage, GetStatusReply> status;
  FakeMethod<CreateWorkerSessionRequest, EmptyMessage> created;
  FakeMethod<DeleteWorkerSessionRequest, EmptyMessage> deleted;
  FakeMethod<RegisterGraphRequest, RegisterGraphReply> registered;
  FakeMethod<DeregisterGraphRequest, EmptyMessage> deregistered;
  FakeMethod<RunGraphRequest, RunGraphReply> runs;
  FakeMethod<CleanupGraphRequest, EmptyMessage> cleanups;
  FakeMethod<CleanupAllRequest, EmptyMessage> resets;
  FakeMethod<RecvTensorRequest, RecvTensorReply> receives;

  void get_status(const CallOptions& options, ReplyDone<GetStatusReply> done) override {
    status.call({}, options, std::move(done));
  }
  void create_worker_session(CreateWorkerSessionRequest request, const CallOptions& options,
                             ReplyDone<EmptyMessage> done) override {
    created.call(std::move(request), options, std::move(done));
  }
  void delete_worker_session(DeleteWorkerSessionRequest request, const CallOptions& options,
                             ReplyDone<EmptyMessage> done) override {
    deleted.call(std::move(request), options, std::move(done));
  }
  void register_graph(RegisterGraphRequest request, const CallOptions& options,
                      ReplyDone<RegisterGraphReply> done) override {
    registered.call(std::move(request), options, std::move(done));
  }
  void deregister_graph(DeregisterGraphRequest request, const CallOptions& options,
                        ReplyDone<EmptyMessage> done) override {
    deregistered.call(std::move(request), options, std::move(done));
  }
  void run_graph(RunGraphRequest request, const CallOptions& options, ReplyDone<RunGraphReply> done) override {
    runs.call(std::move(request), options, std::move(done));
  }
  void cleanup_graph(CleanupGraphRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) override {
    cleanups.call(request, options, std::move(done));
  }
  void cleanup_all(CleanupAllRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) override {
    resets.call(std::move(request), options, std::move(done));
  }
  void recv_tensor(RecvTensorRequest request, const CallOptions& options, ReplyDone<RecvTensorReply> done) override {
    receives.call(std::move(request), options, std::move(done));
  }
};

}  // namespace tutti::testing
