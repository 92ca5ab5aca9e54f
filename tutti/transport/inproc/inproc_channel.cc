#include "tutti/transport/inproc/inproc_channel.h"

#include <unordered_map>
#include <utility>

#include "tutti/core/mutex.h"
#include "tutti/transport/internal/pending_call.h"

namespace tutti {
namespace {

// The calls that wait. Shared with them, since a handler may reply after the channel is gone.
class WaitingCalls {
 public:
  void add(const std::shared_ptr<PendingCall>& call) {
    MutexLock lock(mu_);
    calls_.emplace(call.get(), call);
  }
  void remove(const PendingCall* call) {
    std::shared_ptr<PendingCall> removed;  // destroyed without the lock
    MutexLock lock(mu_);
    const auto found = calls_.find(call);
    if (found == calls_.end()) return;
    removed = std::move(found->second);
    calls_.erase(found);
  }
  void end_all(const Status& cause) {
    std::unordered_map<const PendingCall*, std::shared_ptr<PendingCall>> calls;
    {
      MutexLock lock(mu_);
      calls.swap(calls_);
    }
    for (const auto& [key, call] : calls) call->end_early(cause);
  }

 private:
  Mutex mu_;
  std::unordered_map<const PendingCall*, std::shared_ptr<PendingCall>> calls_ TUTTI_GUARDED_BY(mu_);
};

class InprocChannel : public Channel {
 public:
  InprocChannel(CallHandler& handler, Clock& clock, std::string name)
      : handler_(handler), clock_(clock), name_(std::move(name)), waiting_(std::make_shared<WaitingCalls>()) {}
  ~InprocChannel() override { waiting_->end_all(cancelled(describe(), ": the channel was destroyed")); }

  void call(std::string_view method, Payload request, const CallOptions& options, Done done) override {
    // Not a child of the caller's cancellation, which may go when a deadline ends the call while the handler works on.
    auto cancellation = std::make_shared<Cancellation>();
    auto early = [cancellation](const Status& cause) { cancellation->cancel(cause); };
    auto call = std::make_shared<PendingCall>(clock_, str_cat(describe(), " ", method), std::move(done), early);
    // `this` may go in `done` or in the handler.
    const std::shared_ptr<WaitingCalls> waiting = waiting_;
    waiting->add(call);
    call->arm(options);
    if (call->ended()) {
      waiting->remove(call.get());
      return;
    }
    IncomingCall incoming{
        .method = method, .request = std::move(request), .connection = describe(), .cancellation = cancellation.get()};
    handler_.handle(std::move(incoming), [call, cancellation, waiting](Status status, Payload reply) {
      waiting->remove(call.get());
      call->finish(std::move(status), std::move(reply));
    });
  }

  std::string describe() const override { return str_cat("inproc to ", name_); }

 private:
  CallHandler& handler_;
  Clock& clock_;
  const std::string name_;
  const std::shared_ptr<WaitingCalls> waiting_;
};

}  // namespace

std::shared_ptr<Channel> make_inproc_channel(CallHandler& handler, Clock& clock, std::string name) {
  return std::make_shared<InprocChannel>(handler, clock, std::move(name));
}

}  // namespace tutti
