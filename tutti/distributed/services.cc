#include "tutti/distributed/services.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "tutti/distributed/codec.h"
#include "tutti/distributed/internal/methods.h"

namespace tutti {
namespace {

struct Targets {
  MasterInterface& master;
  WorkerInterface& worker;
};

MasterInterface& target_of(const Targets& targets, const MasterInterface*) { return targets.master; }
WorkerInterface& target_of(const Targets& targets, const WorkerInterface*) { return targets.worker; }

// A status travels in HTTP/2 metadata, which has limits.
Status cut_message(Status status) {
  constexpr std::size_t kMaxBytes = 3072;
  const std::string& message = status.message();
  if (message.size() <= kMaxBytes) return status;
  std::size_t end = kMaxBytes;  // not within a character of UTF-8
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xc0) == 0x80) --end;
  if (end == 0) end = kMaxBytes;
  return Status(status.code(), message.substr(0, end) + " ... [truncated]");
}

template <typename Request>
bool errors_in_body(const Request& request) {
  if constexpr (requires { request.store_errors_in_response_body; }) {
    return request.store_errors_in_response_body;
  } else {
    return false;
  }
}

// The answer that a caller gets to see: a failed step's status is in the body when it asked for that, else the call's.
template <typename Reply>
Result<Reply> arrange_errors(Result<Reply> result, [[maybe_unused]] bool in_body) {
  if constexpr (requires(Reply reply) { reply.status; }) {
    if (!result.ok() && in_body) {
      Reply failed;
      failed.status = result.status();
      return failed;
    }
    if (result.ok() && !in_body && !result->status.ok()) return result->status;
  }
  return result;
}

template <typename Reply>
void answer(std::string_view method, Result<Reply> result, const CallHandler::Reply& reply) {
  if (!result.ok()) return reply(cut_message(result.status()), {});
  Result<Payload> bytes = encode(*result);
  if (!bytes.ok()) return reply(cut_message(bytes.status().with_context(method)), {});
  reply({}, *std::move(bytes));
}

// For `void f(Request, const CallOptions&, ReplyDone<Reply>)` of either interface.
template <typename Interface, typename Request, typename Reply>
void serve(void (Interface::*function)(Request, const CallOptions&, ReplyDone<Reply>), const Targets& targets,
           std::string_view method, IncomingCall call, CallHandler::Reply reply) {
  Request request;
  Status decoded = decode(call.request, request);
  if (!decoded.ok()) return reply(cut_message(decoded.with_context(method)), {});
  if constexpr (requires { request.master_task; }) {
    // Sessions of a master end when its task is found gone: nobody makes them in another's name.
    if (!call.peer_task.empty() && !request.master_task.empty() && call.peer_task != request.master_task) {
      return reply(Status(Code::kUnauthenticated, str_cat(method, ": for master ", printable(request.master_task),
                                                          ", but the caller is ", printable(call.peer_task))),
                   {});
    }
  }
  call.request = {};  // tensors hold what they need of it
  const bool in_body = errors_in_body(request);
  (target_of(targets, static_cast<Interface*>(nullptr)).*function)(
      std::move(request), {.cancellation = call.cancellation},
      [method, in_body, reply = std::move(reply)](Result<Reply> result) {
        answer(method, arrange_errors(std::move(result), in_body), reply);
      });
}

// For those without a request. Fields that it may have one day are none of ours.
template <typename Interface, typename Reply>
void serve(void (Interface::*function)(const CallOptions&, ReplyDone<Reply>), const Targets& targets,
           std::string_view method, const IncomingCall& call, CallHandler::Reply reply) {
  (target_of(targets, static_cast<Interface*>(nullptr)).*function)(
      {.cancellation = call.cancellation},
      [method, reply = std::move(reply)](Result<Reply> result) { answer(method, std::move(result), reply); });
}

struct Method {
  std::string_view name;
  void (*serve)(const Targets& targets, std::string_view method, IncomingCall call, CallHandler::Reply reply);
};

template <auto kFunction>
constexpr Method method(std::string_view name) {
  return {name, [](const Targets& targets, std::string_view own_name, IncomingCall call, CallHandler::Reply reply) {
            serve(kFunction, targets, own_name, std::move(call), std::move(reply));
          }};
}

// Where there is nothing to do and nothing to tell.
constexpr Method empty_answer(std::string_view name) {
  return {name, [](const Targets&, std::string_view, IncomingCall, CallHandler::Reply reply) { reply({}, {}); }};
}

// What a step needs comes first.
constexpr std::array kMethods = {
    method<&WorkerInterface::run_graph>(methods::kRunGraph),
    method<&WorkerInterface::recv_tensors>(methods::kRecvTensors),
    method<&WorkerInterface::recv_tensor>(methods::kRecvTensor),
    method<&WorkerInterface::cleanup_graph>(methods::kCleanupGraph),
    method<&MasterInterface::run_step>(methods::kRunStep),
    method<&MasterInterface::run_callable>(methods::kRunCallable),
    method<&MasterInterface::create_session>(methods::kCreateSession),
    method<&MasterInterface::extend_session>(methods::kExtendSession),
    method<&MasterInterface::partial_run_setup>(methods::kPartialRunSetup),
    method<&MasterInterface::close_session>(methods::kCloseSession),
    method<&MasterInterface::list_devices>(methods::kListDevices),
    method<&MasterInterface::reset>(methods::kReset),
    method<&MasterInterface::make_callable>(methods::kMakeCallable),
    method<&MasterInterface::release_callable>(methods::kReleaseCallable),
    method<&WorkerInterface::get_status>(methods::kGetStatus),
    method<&WorkerInterface::create_worker_session>(methods::kCreateWorkerSession),
    method<&WorkerInterface::delete_worker_session>(methods::kDeleteWorkerSession),
    method<&WorkerInterface::register_graph>(methods::kRegisterGraph),
    method<&WorkerInterface::deregister_graph>(methods::kDeregisterGraph),
    method<&WorkerInterface::cleanup_all>(methods::kCleanupAll),
    empty_answer(methods::kLogging),           // no log of calls is kept
    empty_answer(methods::kMarkRecvFinished),  // no answer waits for it
};

class TaskServices : public CallHandler {
 public:
  TaskServices(MasterInterface& master, WorkerInterface& worker) : targets_{master, worker} {}

  void handle(IncomingCall call, Reply reply) override {
    const auto found = std::find_if(kMethods.begin(), kMethods.end(),
                                    [&call](const Method& candidate) { return candidate.name == call.method; });
    if (found == kMethods.end()) {
      return reply(methods::unknown(call.method), {});
    }
    found->serve(targets_, found->name, std::move(call), std::move(reply));
  }

 private:
  const Targets targets_;
};

}  // namespace

std::unique_ptr<CallHandler> make_task_services(MasterInterface& master, WorkerInterface& worker) {
  return std::make_unique<TaskServices>(master, worker);
}

}  // namespace tutti
