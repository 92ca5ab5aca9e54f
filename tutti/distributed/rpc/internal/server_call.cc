#include "tutti/distributed/rpc/internal/server_call.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include "tutti/distributed/rpc/internal/call_failure.h"
#include "tutti/distributed/rpc/internal/completion_threads.h"
#include "tutti/distributed/rpc/internal/credentials.h"
#include "tutti/distributed/rpc/internal/wire.h"

namespace tutti::rpc_internal {
namespace {

// Calls that may arrive before a thread has come to make room for more; those beyond wait inside gRPC.
constexpr int kListening = 16;
// Hosts whose refusal is told; beyond, silence is better than a log as long as the list of who knocked.
constexpr std::size_t kLoggedHosts = 1000;

std::string_view metadata(const grpc::GenericServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

}  // namespace

// One call from its arrival to its end. gRPC's pending operations, the reply and the list of handled calls each hold
// it, so that it goes when nothing can touch it any more.
//
//   listening -> accepted -> waits for its turn to read -> read -> handled -> answered -> finished
// From accepted on, a refusal leads straight to answered. Beside these, `gone` arrives once for every accepted call,
// when it has ended one way or another.
class ServerCall final : public std::enable_shared_from_this<ServerCall> {
 public:
  explicit ServerCall(ServerCalls& server) : life_(server), server_(server), stream_(&context_) {}

  // Once.
  void listen() {
    gone_.call = shared_from_this();  // before the call can arrive, since it may be gone as soon
    context_.AsyncNotifyWhenDone(gone_.as_tag());
    server_.service_.RequestCall(&context_, &stream_, server_.queue_, server_.queue_, accepted_.of(shared_from_this()));
  }

  void cancel(Status cause) { cancellation_.cancel(std::move(cause)); }

  // Once.
  void answer(const Status& status, const Payload& payload);

 private:
  // An operation of gRPC on this call; it holds the call while it is pending.
  struct Step final : CompletionTag {
    using Arrived = bool (ServerCall::*)(bool ok);
    using Work = void (ServerCall::*)();
    explicit Step(Arrived arrived, Work work = nullptr) : on_arrival(arrived), on_work(work) {}

    void* of(std::shared_ptr<ServerCall> owner) {
      call = std::move(owner);
      return as_tag();
    }
    // Both let go of the call, and with it perhaps of this step, at their very end.
    bool arrived(bool ok) override {
      std::shared_ptr<ServerCall> held = std::move(call);
      if (!(held.get()->*on_arrival)(ok)) return false;
      call = std::move(held);
      return true;
    }
    void work() override {
      const std::shared_ptr<ServerCall> held = std::move(call);
      (held.get()->*on_work)();
    }
    bool brief() const override { return call->sends_part(); }

    const Arrived on_arrival;
    const Work on_work;
    std::shared_ptr<ServerCall> call;
  };

  // The handler's right and duty to answer.
  struct PendingReply {
    explicit PendingReply(std::shared_ptr<ServerCall> owner) : call(std::move(owner)) {}
    ~PendingReply() {
      if (call) call->answer(internal_error("the handler dropped the call without an answer"), {});
    }
    void give(const Status& status, const Payload& payload) {
      const std::shared_ptr<ServerCall> held = std::move(call);
      TUTTI_CHECK(held != nullptr, "a call was answered twice");
      held->answer(status, payload);
    }
    std::shared_ptr<ServerCall> call;
  };

  // Tells when there is a call and, as its first member, when nothing is left of it.
  struct Life {
    explicit Life(ServerCalls& calls) : server(calls) { server.created(); }
    ~Life() { server.destroyed(); }
    ServerCalls& server;
  };

  bool on_accepted(bool ok);
  bool on_read(bool ok);
  bool on_finished(bool ok);
  bool on_gone(bool ok);
  Status admit();
  void handle();
  void send(const Payload& payload);
  void tell_gone();
  // Of the bytes of a part nothing is to be computed.
  bool sends_part() const { return context_.method() == kPartMethod && !server_.encrypted_; }

  const Life life_;
  ServerCalls& server_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  Cancellation cancellation_;
  std::string peer_;
  std::string task_;
  ConnectionLimits::Connection* connection_ = nullptr;  // null: not entered
  grpc::ByteBuffer request_;
  std::size_t request_bytes_ = 0;
  std::size_t answer_bytes_ = 0;
  std::string kept_as_;  // of an answer that goes in parts
  // Only spares a cancellation that nobody listens to any more; protects nothing.
  std::atomic<bool> answered_{false};
  Step accepted_{&ServerCall::on_accepted};
  Step read_{&ServerCall::on_read, &ServerCall::handle};
  Step finished_{&ServerCall::on_finished};
  Step gone_{&ServerCall::on_gone, &ServerCall::tell_gone};
};

bool ServerCall::on_accepted(bool ok) {
  if (!ok) {
    gone_.call.reset();  // does not arrive for a call that never was
    return false;
  }
  server_.listen_for_one();
  if (const Status refused = admit(); !refused.ok()) {
    answer(refused, {});
    return false;
  }
  auto read = [self = shared_from_this()]() mutable {
    ServerCall& call = *self;
    call.stream_.Read(&call.request_, call.read_.of(std::move(self)));
  };
  server_.limits_.read_when_allowed(*connection_, std::move(read));
  return false;
}

Status ServerCall::admit() {
  peer_ = context_.peer();
  TUTTI_ASSIGN_OR_RETURN(connection_, server_.limits_.enter(peer_, std::chrono::steady_clock::now()));
  TUTTI_ASSIGN_OR_RETURN(task_, server_.authenticate(context_));
  server_.guard_.call_admitted(peer_);
  return {};
}

bool ServerCall::on_read(bool ok) {
  // Before the message is no longer owed: one or the other speaks for the connection at any time.
  if (ok) server_.guard_.message_received(peer_);
  request_bytes_ = ok ? request_.Length() : 0;
  const Status held = server_.limits_.read_ended(*connection_, request_bytes_);
  if (!ok) {
    answer(internal_error("the call has no request"), {});
    return false;
  }
  if (!held.ok()) {
    request_.Clear();
    answer(held, {});
    return false;
  }
  return true;
}

void ServerCall::handle() {
  auto self = shared_from_this();
  Payload request = to_payload(request_);
  request_.Clear();
  if (context_.method() == kPartMethod) {
    server_.begin_part(self);
    server_.threads_.large_answer_moved();
    const Result<Payload> part = server_.kept_.take(request, task_, std::chrono::steady_clock::now());
    answer(part.status(), part.ok() ? *part : Payload());
    return;
  }
  if (!server_.begin(self)) {
    answer(unavailable("the server is stopping; the call was not handled"), {});
    return;
  }
  auto pending = std::make_shared<PendingReply>(std::move(self));
  server_.handler_.handle(
      {.method = context_.method(),
       .request = std::move(request),
       .peer_task = task_,
       .connection = peer_,
       .cancellation = &cancellation_},
      [pending = std::move(pending)](const Status& status, const Payload& payload) { pending->give(status, payload); });
}

void ServerCall::answer(const Status& status, const Payload& payload) {
  answered_.store(true);
  if (status.ok() && payload.size() >= kPartsFrom && !metadata(context_, kPartsKey).empty()) {
    kept_as_ =
        server_.kept_.keep(payload, task_, peer_, std::chrono::steady_clock::now(), server_.threads_.large_answer());
    if (!kept_as_.empty()) {
      context_.AddTrailingMetadata(kPartsKey, kept_as_);
      return send(outline_of(payload));
    }
  }
  Status sent = status;
  if (status.ok() && payload.size() > kMostMessageBytes) {
    sent = resource_exhausted("the answer to ", context_.method(), " has ", payload.size(), " bytes, more than the ",
                              kMostMessageBytes,
                              " of a message; it goes in parts only where the caller takes them, "
                              "and while no others wait for it");
  }
  if (!sent.ok()) {
    context_.AddTrailingMetadata(kAnswerKey, "1");
    stream_.Finish(to_grpc_status(sent), finished_.of(shared_from_this()));
    return;
  }
  send(payload);
}

void ServerCall::send(const Payload& payload) {
  answer_bytes_ = payload.size();
  server_.limits_.answering(*connection_, answer_bytes_);
  stream_.WriteAndFinish(to_byte_buffer(payload), grpc::WriteOptions(), grpc::Status::OK,
                         finished_.of(shared_from_this()));
}

bool ServerCall::on_finished(bool ok) {
  if (!ok && !kept_as_.empty()) server_.kept_.drop(kept_as_);
  if (connection_ != nullptr) server_.limits_.leave(*connection_, request_bytes_, answer_bytes_);
  server_.end(shared_from_this());
  return false;
}

bool ServerCall::on_gone(bool) {
  if (!context_.IsCancelled()) return false;
  server_.guard_.call_abandoned(context_.peer(), std::chrono::steady_clock::now());
  return !answered_.load();
}

// May run while another thread still admits the call: looks only at what gRPC has set before.
void ServerCall::tell_gone() {
  cancel(cancelled("the caller at ", context_.peer(), " has cancelled ", context_.method(),
                   ", no longer waits for it or has gone"));
}

ServerCalls::ServerCalls(const GrpcServerOptions& options, CallHandler& handler, CompletionThreads& threads,
                         ConnectionGuard& guard)
    : options_(options),
      encrypted_(encrypted(options.security)),
      handler_(handler),
      threads_(threads),
      guard_(guard),
      token_(options.security.join_token.empty()
                 ? nullptr
                 : std::make_unique<TokenVerifier>(options.security.join_token, encrypted_)),
      limits_(options.limits),
      kept_(options.limits.connection_bytes, kMostMessageBytes) {}

void ServerCalls::listen(grpc::ServerCompletionQueue& queue) {
  queue_ = &queue;
  for (int i = 0; i < kListening; ++i) listen_for_one();
}

void ServerCalls::listen_for_one() {
  kept_.forget_old(std::chrono::steady_clock::now());
  {
    MutexLock lock(mu_);
    // Those who take kept answers still come.
    if (stopping_ && handled_.empty() && kept_.empty()) return;
  }
  // A server that was shut down in between hands the call back at once, as not accepted.
  std::make_shared<ServerCall>(*this)->listen();
}

void ServerCalls::begin_stop() {
  std::vector<std::shared_ptr<ServerCall>> handled;
  {
    MutexLock lock(mu_);
    stopping_ = true;
    handled.assign(handled_.begin(), handled_.end());
  }
  for (const auto& call : handled) call->cancel(unavailable("the server is stopping"));
}

void ServerCalls::wait_answered(TimePoint deadline) {
  MutexLock lock(mu_);
  while (!handled_.empty() || !kept_.empty()) {
    if (!changed_.wait_until(mu_, deadline)) return;
  }
}

void ServerCalls::wait_gone() {
  {
    MutexLock lock(mu_);
    while (live_ > 0) changed_.wait(mu_);
  }
  kept_.clear();
}

void ServerCalls::created() {
  MutexLock lock(mu_);
  ++live_;
}

void ServerCalls::destroyed() {
  MutexLock lock(mu_);
  // Under the lock: whoever waits may destroy this as soon as it is free.
  if (--live_ == 0) changed_.notify_all();
}

bool ServerCalls::begin(const std::shared_ptr<ServerCall>& call) {
  MutexLock lock(mu_);
  if (stopping_) return false;
  handled_.insert(call);
  return true;
}

void ServerCalls::begin_part(const std::shared_ptr<ServerCall>& call) {
  MutexLock lock(mu_);
  handled_.insert(call);
}

void ServerCalls::end(const std::shared_ptr<ServerCall>& call) {
  MutexLock lock(mu_);
  if (handled_.erase(call) > 0 && handled_.empty() && stopping_) changed_.notify_all();
}

Result<std::string> ServerCalls::authenticate(grpc::GenericServerContext& context) {
  Result<std::string> task = std::string();
  if (encrypted_) task = peer_task(*context.auth_context());
  if (task.ok() && token_ != nullptr) {
    TokenVerifier::Verdict verdict = token_->check(context.method(), metadata(context, kTokenKey));
    if (!verdict.challenge.empty()) context.AddTrailingMetadata(kChallengeKey, verdict.challenge);
    if (verdict.greeting) return verdict.status;
    if (!verdict.status.ok()) task = verdict.status;
  }
  if (!task.ok()) log_refusal(context.peer(), task.status());
  return task;
}

void ServerCalls::log_refusal(const std::string& peer, const Status& why) {
  const std::string host = host_of(peer);
  {
    MutexLock lock(mu_);
    if (logged_.size() >= kLoggedHosts || !logged_.insert(host).second) return;
  }
  const std::string line = str_cat("refused calls from ", peer, ": ", why.message());
  if (options_.log) {
    options_.log.warning(line);
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
}

}  // namespace tutti::rpc_internal
