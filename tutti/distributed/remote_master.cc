#include "tutti/distributed/internal/methods.h"
#include "tutti/distributed/internal/remote_peer.h"
#include "tutti/distributed/master_interface.h"

namespace tutti {
namespace {

class RemoteMaster : public MasterInterface {
 public:
  explicit RemoteMaster(std::shared_ptr<Channel> channel) : peer_(std::move(channel)) {}

  void create_session(CreateSessionRequest request, const CallOptions& options,
                      ReplyDone<CreateSessionReply> done) override {
    peer_.call(methods::kCreateSession, request, options, std::move(done));
  }
  void extend_session(ExtendSessionRequest request, const CallOptions& options,
                      ReplyDone<ExtendSessionReply> done) override {
    peer_.call(methods::kExtendSession, request, options, std::move(done));
  }
  void partial_run_setup(PartialRunSetupRequest request, const CallOptions& options,
                         ReplyDone<PartialRunSetupReply> done) override {
    peer_.call(methods::kPartialRunSetup, request, options, std::move(done));
  }
  void run_step(RunStepRequest request, const CallOptions& options, ReplyDone<RunStepReply> done) override {
    peer_.call(methods::kRunStep, request, options, std::move(done));
  }
  void close_session(CloseSessionRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) override {
    peer_.call(methods::kCloseSession, request, options, std::move(done));
  }
  void list_devices(ListDevicesRequest request, const CallOptions& options, ReplyDone<ListDevicesReply> done) override {
    peer_.call(methods::kListDevices, request, options, std::move(done));
  }
  void reset(ResetRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) override {
    peer_.call(methods::kReset, request, options, std::move(done));
  }
  void make_callable(MakeCallableRequest request, const CallOptions& options,
                     ReplyDone<MakeCallableReply> done) override {
    peer_.call(methods::kMakeCallable, request, options, std::move(done));
  }
  void run_callable(RunCallableRequest request, const CallOptions& options, ReplyDone<RunCallableReply> done) override {
    peer_.call(methods::kRunCallable, request, options, std::move(done));
  }
  void release_callable(ReleaseCallableRequest request, const CallOptions& options,
                        ReplyDone<EmptyMessage> done) override {
    peer_.call(methods::kReleaseCallable, request, options, std::move(done));
  }

 private:
  RemotePeer peer_;
};

}  // namespace

std::shared_ptr<MasterInterface> make_remote_master(std::shared_ptr<Channel> channel) {
  return std::make_shared<RemoteMaster>(std::move(channel));
}

}  // namespace tutti
