#include "tutti/distributed/internal/leased_master.h"

#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "tutti/core/cancellation.h"
#include "tutti/core/mutex.h"
#include "tutti/distributed/hello.h"
#include "tutti/distributed/internal/methods.h"
#include "tutti/distributed/internal/remote_peer.h"

namespace tutti {
namespace {

// Between a lease call that failed and the next one: well within the master's grace.
constexpr auto kRetry = std::chrono::milliseconds(200);

// Keeps one call open until stopped.
class Lease : public std::enable_shared_from_this<Lease> {
 public:
  Lease(std::shared_ptr<Channel> channel, Clock& clock, std::string session)
      : channel_(std::move(channel)), clock_(clock), session_(std::move(session)) {}

  void renew() {
    if (stopped_.cancelled()) return;
    CallOptions options;
    options.cancellation = &stopped_;
    channel_->call(kLeaseMethod, encode(LeaseRequest{{}, 0, session_}), options,
                   [self = shared_from_this()](const Status& status, const Payload&) { self->answered(status); });
  }

  void stop() { stopped_.cancel(cancelled("the session ended")); }

 private:
  void answered(const Status& status) {
    if (stopped_.cancelled() || status.code() == Code::kUnimplemented) return;
    // Not from within the answer: a channel that answers at once would recurse.
    const auto when = clock_.now() + (status.ok() ? Duration(0) : Duration(kRetry));
    clock_.call_at(when, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->renew();
    });
  }

  const std::shared_ptr<Channel> channel_;
  Clock& clock_;
  const std::string session_;
  Cancellation stopped_;
};

class Leases {
 public:
  Leases(std::shared_ptr<Channel> channel, Clock& clock) : channel_(std::move(channel)), clock_(clock) {}
  ~Leases() {
    for (const auto& [session, lease] : leases_) lease->stop();
  }
  void add(const std::string& session) {
    auto lease = std::make_shared<Lease>(channel_, clock_, session);
    {
      MutexLock lock(mu_);
      leases_[session] = lease;
    }
    lease->renew();
  }
  void remove(const std::string& session) {
    std::shared_ptr<Lease> lease;
    {
      MutexLock lock(mu_);
      const auto found = leases_.find(session);
      if (found == leases_.end()) return;
      lease = std::move(found->second);
      leases_.erase(found);
    }
    lease->stop();
  }

 private:
  const std::shared_ptr<Channel> channel_;
  Clock& clock_;
  Mutex mu_;
  std::map<std::string, std::shared_ptr<Lease>> leases_ TUTTI_GUARDED_BY(mu_);
};

class LeasedMaster : public MasterInterface {
 public:
  LeasedMaster(std::shared_ptr<MasterInterface> master, std::shared_ptr<Channel> channel, Clock& clock)
      : master_(std::move(master)), peer_(channel), leases_(std::make_shared<Leases>(std::move(channel), clock)) {}

  void create_session(CreateSessionRequest request, const CallOptions& options,
                      ReplyDone<CreateSessionReply> done) override {
    // Says that leases will follow, to a master that knows them.
    const ReplyDone<CreateSessionReply> leased = [leases = leases_,
                                                  done = std::move(done)](Result<CreateSessionReply> reply) {
      if (reply.ok()) leases->add(reply->session_handle);
      done(std::move(reply));
    };
    const auto asked = std::make_shared<CreateSessionRequest>(std::move(request));
    const ReplyDone<CreateSessionReply> answered = [master = master_, asked, options,
                                                    leased](Result<CreateSessionReply> reply) {
      if (reply.ok() || !methods::is_unknown(kCreateLeasedSessionMethod, reply.status())) {
        return leased(std::move(reply));
      }
      master->create_session(std::move(*asked), options, leased);
    };
    peer_.call(kCreateLeasedSessionMethod, *asked, options, answered);
  }
  void close_session(CloseSessionRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) override {
    leases_->remove(request.session_handle);
    master_->close_session(std::move(request), options, std::move(done));
  }
  void extend_session(ExtendSessionRequest request, const CallOptions& options,
                      ReplyDone<ExtendSessionReply> done) override {
    master_->extend_session(std::move(request), options, std::move(done));
  }
  void partial_run_setup(PartialRunSetupRequest request, const CallOptions& options,
                         ReplyDone<PartialRunSetupReply> done) override {
    master_->partial_run_setup(std::move(request), options, std::move(done));
  }
  void run_step(RunStepRequest request, const CallOptions& options, ReplyDone<RunStepReply> done) override {
    master_->run_step(std::move(request), options, std::move(done));
  }
  void list_devices(ListDevicesRequest request, const CallOptions& options, ReplyDone<ListDevicesReply> done) override {
    master_->list_devices(std::move(request), options, std::move(done));
  }
  void reset(ResetRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) override {
    master_->reset(std::move(request), options, std::move(done));
  }
  void make_callable(MakeCallableRequest request, const CallOptions& options,
                     ReplyDone<MakeCallableReply> done) override {
    master_->make_callable(std::move(request), options, std::move(done));
  }
  void run_callable(RunCallableRequest request, const CallOptions& options, ReplyDone<RunCallableReply> done) override {
    master_->run_callable(std::move(request), options, std::move(done));
  }
  void release_callable(ReleaseCallableRequest request, const CallOptions& options,
                        ReplyDone<EmptyMessage> done) override {
    master_->release_callable(std::move(request), options, std::move(done));
  }

 private:
  const std::shared_ptr<MasterInterface> master_;
  RemotePeer peer_;
  const std::shared_ptr<Leases> leases_;
};

}  // namespace

std::shared_ptr<MasterInterface> make_leased_master(std::shared_ptr<MasterInterface> master,
                                                    std::shared_ptr<Channel> channel, Clock& clock) {
  return std::make_shared<LeasedMaster>(std::move(master), std::move(channel), clock);
}

}  // namespace tutti
