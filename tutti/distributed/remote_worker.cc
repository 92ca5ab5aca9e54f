#include "tutti/distributed/internal/methods.h"
#include "tutti/distributed/internal/remote_peer.h"
#include "tutti/distributed/worker_interface.h"

namespace tutti {
namespace {

class RemoteWorker : public WorkerInterface {
 public:
  explicit RemoteWorker(std::shared_ptr<Channel> channel) : peer_(std::move(channel)) {}

  void get_status(const CallOptions& options, ReplyDone<GetStatusReply> done) override {
    peer_.call(methods::kGetStatus, EmptyMessage{}, options, std::move(done));
  }
  void create_worker_session(CreateWorkerSessionRequest request, const CallOptions& options,
                             ReplyDone<EmptyMessage> done) override {
    peer_.call(methods::kCreateWorkerSession, request, options, std::move(done));
  }
  void delete_worker_session(DeleteWorkerSessionRequest request, const CallOptions& options,
                             ReplyDone<EmptyMessage> done) override {
    peer_.call(methods::kDeleteWorkerSession, request, options, std::move(done));
  }
  void register_graph(RegisterGraphRequest request, const CallOptions& options,
                      ReplyDone<RegisterGraphReply> done) override {
    peer_.call(methods::kRegisterGraph, request, options, std::move(done));
  }
  void deregister_graph(DeregisterGraphRequest request, const CallOptions& options,
                        ReplyDone<EmptyMessage> done) override {
    peer_.call(methods::kDeregisterGraph, request, options, std::move(done));
  }
  void run_graph(RunGraphRequest request, const CallOptions& options, ReplyDone<RunGraphReply> done) override {
    peer_.call(methods::kRunGraph, request, options, std::move(done));
  }
  void cleanup_graph(CleanupGraphRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) override {
    peer_.call(methods::kCleanupGraph, request, options, std::move(done));
  }
  void cleanup_all(CleanupAllRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) override {
    peer_.call(methods::kCleanupAll, request, options, std::move(done));
  }
  void recv_tensor(RecvTensorRequest request, const CallOptions& options, ReplyDone<RecvTensorReply> done) override {
    peer_.call(methods::kRecvTensor, request, options, std::move(done));
  }
  void recv_tensors(RecvTensorsRequest request, const CallOptions& options, ReplyDone<RecvTensorsReply> done) override {
    peer_.call(methods::kRecvTensors, request, options, std::move(done));
  }

 private:
  RemotePeer peer_;
};

}  // namespace

void WorkerInterface::recv_tensors(RecvTensorsRequest, const CallOptions&, ReplyDone<RecvTensorsReply> done) {
  done(methods::unknown(methods::kRecvTensors));
}

std::shared_ptr<WorkerInterface> make_remote_worker(std::shared_ptr<Channel> channel) {
  return std::make_shared<RemoteWorker>(std::move(channel));
}

}  // namespace tutti
