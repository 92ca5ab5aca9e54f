// What a client asks of a master. The master itself is one; so is the way to a remote one.
#pragma once

#include <memory>

#include "tutti/distributed/messages.h"
#include "tutti/distributed/worker_interface.h"

namespace tutti {

// Thread-safe. Callbacks as for WorkerInterface.
class MasterInterface {
 public:
  virtual ~MasterInterface() = default;
  virtual void create_session(CreateSessionRequest request, const CallOptions& options,
                              ReplyDone<CreateSessionReply> done) = 0;
  virtual void extend_session(ExtendSessionRequest request, const CallOptions& options,
                              ReplyDone<ExtendSessionReply> done) = 0;
  virtual void partial_run_setup(PartialRunSetupRequest request, const CallOptions& options,
                                 ReplyDone<PartialRunSetupReply> done) = 0;
  virtual void run_step(RunStepRequest request, const CallOptions& options, ReplyDone<RunStepReply> done) = 0;
  virtual void close_session(CloseSessionRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) = 0;
  virtual void list_devices(ListDevicesRequest request, const CallOptions& options,
                            ReplyDone<ListDevicesReply> done) = 0;
  virtual void reset(ResetRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) = 0;
  virtual void make_callable(MakeCallableRequest request, const CallOptions& options,
                             ReplyDone<MakeCallableReply> done) = 0;
  virtual void run_callable(RunCallableRequest request, const CallOptions& options,
                            ReplyDone<RunCallableReply> done) = 0;
  virtual void release_callable(ReleaseCallableRequest request, const CallOptions& options,
                                ReplyDone<EmptyMessage> done) = 0;
};

// A master behind a channel.
std::shared_ptr<MasterInterface> make_remote_master(std::shared_ptr<Channel> channel);

}  // namespace tutti
