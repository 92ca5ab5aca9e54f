#include "tutti/distributed/rpc/internal/client_call.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tutti/distributed/rpc/internal/answer_parts.h"
#include "tutti/distributed/rpc/internal/call_failure.h"
#include "tutti/distributed/rpc/internal/wire.h"

namespace tutti::rpc_internal {
namespace {

// The first without a challenge, the second with it; a third when the server has drawn another one in between.
constexpr int kMostAttempts = 3;
// Parts that are on their way at a time: of one answer, and of all over one channel, where each is a call that counts
// for the server's limits.
constexpr std::uint64_t kPartsAtATime = 4;
constexpr int kPartsOfChannel = 32;
constexpr std::chrono::seconds kDropTimeout(5);
// Trying to connect takes seconds where something swallows the packets.
constexpr std::chrono::seconds kBesideRests(60);

// Tells the server that no part is wanted any more; what becomes of that is not waited for.
void drop_answer(const std::shared_ptr<ChannelState>& channel, std::string_view name) {
  CallOptions options;
  options.deadline = std::chrono::steady_clock::now() + kDropTimeout;
  const auto ended = [](const Status&, const Payload&) {};
  std::make_shared<ClientCall>(channel, kPartMethod, options, ended)->start(Payload(drop_request(name)));
}

// Takes an answer part by part, in turn over two connections, which two cores serve. Held by the calls for its parts.
class PartsCall : public std::enable_shared_from_this<PartsCall> {
 public:
  // `options` of the call that `method` was called by.
  PartsCall(std::shared_ptr<ChannelState> channel, std::string method, const CallOptions& options, std::string name,
            GatheredAnswer answer, Channel::Done done)
      : channel_(std::move(channel)),
        method_(std::move(method)),
        deadline_(options.deadline),
        caller_(options.cancellation),
        name_(std::move(name)),
        answer_(std::move(answer)),
        done_(std::move(done)) {}

  // Once.
  void start() {
    if (caller_ != nullptr) {
      token_ = caller_->register_callback([self = shared_from_this()] { self->cancellation_.cancel(self->why()); });
      if (token_ == 0) cancellation_.cancel(why());
    }
    coming_ = threads().large_answer();
    const std::uint64_t first = std::min(kPartsAtATime, answer_.num_parts());
    {
      MutexLock lock(mu_);
      next_ = open_ = first;
    }
    for (std::uint64_t part = 0; part < first; ++part) ask(part, goes_beside(part));
  }

 private:
  Status why() const { return caller_->status(); }
  CompletionThreads& threads() { return channel_->client().threads(); }
  bool goes_beside(std::uint64_t part) { return part % 2 != 0 && channel_->has_beside(); }

  void ask(std::uint64_t part, bool beside) {
    channel_->ask_for_part([self = shared_from_this(), part, beside] { self->send(part, beside); });
  }

  void send(std::uint64_t part, bool beside) {
    CallOptions options;
    options.deadline = deadline_;
    options.cancellation = &cancellation_;
    const auto came = [self = shared_from_this(), part, beside](const Status& status, const Payload& bytes) {
      self->channel_->part_ended();
      // The second connection may fail by itself.
      if (beside && status.code() == Code::kUnavailable) {
        self->channel_->beside_failed();
        return self->ask(part, false);
      }
      self->came(part, status, bytes);
    };
    std::make_shared<ClientCall>(channel_, kPartMethod, options, came, beside)
        ->start(Payload(part_request(name_, part)));
  }

  void came(std::uint64_t part, const Status& status, const Payload& bytes) TUTTI_EXCLUDES(mu_) {
    threads().large_answer_moved();
    Status put = status.ok() ? answer_.put(part, bytes) : status;
    std::uint64_t next = 0;
    bool more = false;
    bool last = false;
    {
      MutexLock lock(mu_);
      status_.update(put);
      more = status_.ok() && next_ < answer_.num_parts();
      if (more) next = next_++;
      if (!more) last = --open_ == 0;
    }
    if (!put.ok()) cancellation_.cancel(std::move(put));  // nobody needs the others
    if (more) ask(next, goes_beside(next));
    if (last) end();
  }

  void end() TUTTI_EXCLUDES(mu_) {
    coming_.reset();
    // From here on `caller_` may go with `done_`.
    if (token_ != 0) caller_->deregister(token_);
    const Status status = outcome();
    drop_answer(channel_, name_);
    done_(status, status.ok() ? answer_.answer() : Payload());
    done_ = nullptr;
  }

  // The call itself was answered: its effect is there, whatever became of the parts. Whatever kept them away, a limit
  // of calls say, the answer is lost as with a connection, and the step may be tried again.
  Status outcome() TUTTI_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (status_.ok()) return {};
    if (caller_ != nullptr && caller_->cancelled()) return caller_->status();
    if (channel_->closed()) return channel_->closed_status();
    const Code code = status_.code();
    const bool in_time = code != Code::kDeadlineExceeded && code != Code::kCancelled;
    return Status(in_time ? Code::kUnavailable : code,
                  str_cat(channel_->description(), ": the answer to ", method_, " was lost: ", status_.message()));
  }

  const std::shared_ptr<ChannelState> channel_;
  const std::string method_;
  const std::optional<TimePoint> deadline_;
  Cancellation* const caller_;  // null: none
  const std::string name_;
  GatheredAnswer answer_;
  Channel::Done done_;
  Cancellation::Token token_ = 0;
  std::shared_ptr<void> coming_;  // CompletionThreads::large_answer, until all parts have come
  Cancellation cancellation_;     // of the calls for parts
  Mutex mu_;
  std::uint64_t next_ TUTTI_GUARDED_BY(mu_) = 0;
  std::uint64_t open_ TUTTI_GUARDED_BY(mu_) = 0;
  Status status_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace

ClientState::ClientState(CompletionThreads* shared, int threads)
    : own_queue_(shared != nullptr ? nullptr : std::make_unique<grpc::CompletionQueue>()),
      own_threads_(own_queue_ ? std::make_unique<CompletionThreads>("rpc-call", threads, *own_queue_) : nullptr),
      threads_(own_threads_ ? *own_threads_ : *shared) {}

bool ClientState::add(const std::shared_ptr<ChannelState>& channel) {
  MutexLock lock(mu_);
  if (closed_) return false;
  std::erase_if(channels_, [](const auto& one) { return one.expired(); });
  channels_.push_back(channel);
  return true;
}

void ClientState::close() {
  std::vector<std::weak_ptr<ChannelState>> channels;
  {
    MutexLock lock(mu_);
    closed_ = true;
    channels.swap(channels_);
  }
  for (const auto& one : channels) {
    if (const auto channel = one.lock()) channel->close();
  }
  {
    // Closed channels begin no call, so that this only falls.
    MutexLock lock(mu_);
    while (calls_ > 0) no_calls_.wait(mu_);
  }
  own_threads_.reset();
}

void ClientState::call_began() {
  MutexLock lock(mu_);
  ++calls_;
}

void ClientState::call_ended() {
  MutexLock lock(mu_);
  if (--calls_ == 0) no_calls_.notify_all();
}

ChannelState::ChannelState(std::shared_ptr<ClientState> client, Dial dial, Status broken, std::string description,
                           std::unique_ptr<TokenSigner> signer, std::size_t message_bytes)
    : client_(std::move(client)),
      dial_(std::move(dial)),
      broken_(std::move(broken)),
      description_(std::move(description)),
      stub_(dial_ ? std::make_unique<grpc::GenericStub>(dial_()) : nullptr),
      signer_(std::move(signer)),
      message_bytes_(message_bytes) {}

grpc::GenericStub& ChannelState::beside() {
  MutexLock lock(mu_);
  if (!beside_) beside_ = std::make_unique<grpc::GenericStub>(dial_());
  return *beside_;
}

void ChannelState::beside_failed() {
  MutexLock lock(mu_);
  no_beside_until_ = std::chrono::steady_clock::now() + kBesideRests;
}

bool ChannelState::has_beside() {
  MutexLock lock(mu_);
  return std::chrono::steady_clock::now() >= no_beside_until_;
}

void ChannelState::ask_for_part(std::function<void()> ask) {
  {
    MutexLock lock(mu_);
    waiting_parts_.push_back(std::move(ask));
  }
  ask_for_waiting_parts();
}

void ChannelState::part_ended() {
  {
    MutexLock lock(mu_);
    --parts_;
  }
  ask_for_waiting_parts();
}

// One that fails at once has ended before its `ask` returns: then whoever is here goes on, instead of one in the other.
void ChannelState::ask_for_waiting_parts() {
  {
    MutexLock lock(mu_);
    if (std::exchange(asking_, true)) return;
  }
  while (true) {
    std::function<void()> ask;
    {
      MutexLock lock(mu_);
      asking_ = parts_ < kPartsOfChannel && !waiting_parts_.empty();
      if (!asking_) return;
      ask = std::move(waiting_parts_.front());
      waiting_parts_.pop_front();
      ++parts_;
    }
    ask();
  }
}

Status ChannelState::add(const std::shared_ptr<ClientCall>& call) {
  TUTTI_RETURN_IF_ERROR(broken_);
  MutexLock lock(mu_);
  if (closed_) return closed_status();
  calls_.insert(call);
  client_->call_began();
  return {};
}

void ChannelState::remove(const std::shared_ptr<ClientCall>& call) {
  MutexLock lock(mu_);
  calls_.erase(call);
}

void ChannelState::close() {
  std::vector<std::shared_ptr<ClientCall>> calls;
  {
    MutexLock lock(mu_);
    closed_ = true;
    calls.assign(calls_.begin(), calls_.end());
  }
  for (const auto& call : calls) call->cancel();
}

bool ChannelState::closed() {
  MutexLock lock(mu_);
  return closed_;
}

ClientCall::ClientCall(std::shared_ptr<ChannelState> channel, std::string_view method, const CallOptions& options,
                       Channel::Done done, bool beside)
    : channel_(std::move(channel)),
      method_(method),
      deadline_(options.deadline),
      wait_for_ready_(options.wait_for_ready),
      beside_(beside),
      cancellation_(options.cancellation),
      done_(std::move(done)) {}

void ClientCall::start(const Payload& request) {
  if (request.size() > kMostMessageBytes) {
    done_(resource_exhausted(channel_->description(), ": the request of ", method_, " has ", request.size(),
                             " bytes, more than ", kMostMessageBytes),
          {});
    return;
  }
  if (const Status refused = channel_->add(shared_from_this()); !refused.ok()) {
    done_(refused, {});
    return;
  }
  if (cancellation_ != nullptr) {
    // Before anything is sent: once it is, the call may end at any time, and then needs the token.
    token_ = cancellation_->register_callback([self = shared_from_this()] { self->cancel(); });
    if (token_ == 0) {
      channel_->remove(shared_from_this());
      done_(cancellation_->status(), {});
      channel_->client().call_ended();
      return;
    }
  }
  request_ = to_byte_buffer(request);
  send();
}

void ClientCall::send() {
  auto attempt = std::make_shared<Attempt>();
  if (deadline_) attempt->context.set_deadline(to_grpc_time(*deadline_));
  attempt->context.set_wait_for_ready(wait_for_ready_);
  if (method_ != kPartMethod) attempt->context.AddMetadata(kPartsKey, "1");
  if (TokenSigner* signer = channel_->signer()) attempt->context.AddMetadata(kTokenKey, signer->sign(method_));
  {
    MutexLock lock(mu_);
    attempt_ = attempt;
    // gRPC remembers it for a call that has not begun.
    if (cancel_wanted_) attempt->context.TryCancel();
  }
  ++attempts_;
  pending_ = shared_from_this();
  grpc::GenericStub& stub = beside_ ? channel_->beside() : channel_->stub();
  attempt->reader = stub.PrepareUnaryCall(&attempt->context, method_, request_, &channel_->client().threads().queue());
  attempt->reader->StartCall();
  attempt->reader->Finish(&attempt->reply, &attempt->status, as_tag());
}

void ClientCall::cancel() {
  std::shared_ptr<Attempt> attempt;
  {
    MutexLock lock(mu_);
    cancel_wanted_ = true;
    attempt = attempt_;
  }
  if (attempt != nullptr) attempt->context.TryCancel();
}

bool ClientCall::arrived(bool) { return true; }

bool ClientCall::brief() const { return method_ == kPartMethod; }

void ClientCall::work() {
  const std::shared_ptr<ClientCall> self = std::move(pending_);
  if (asked_for_proof()) {
    send();
  } else {
    finish();
  }
}

bool ClientCall::asked_for_proof() {
  TokenSigner* signer = channel_->signer();
  if (signer == nullptr || attempts_ >= kMostAttempts) return false;
  MutexLock lock(mu_);
  if (attempt_->status.error_code() != grpc::StatusCode::UNAUTHENTICATED) return false;
  const auto& metadata = attempt_->context.GetServerTrailingMetadata();
  const auto challenge = metadata.find(kChallengeKey);
  if (challenge == metadata.end()) return false;
  signer->set_challenge({challenge->second.data(), challenge->second.size()});
  return true;
}

Status ClientCall::outcome() {
  grpc::Status ended;
  bool answered = false;
  {
    MutexLock lock(mu_);
    ended = attempt_->status;
    answered = ended.ok() || attempt_->context.GetServerTrailingMetadata().contains(kAnswerKey);
  }
  if (answered) return from_grpc_status(ended);
  if (ended.error_code() == grpc::StatusCode::CANCELLED) {
    if (cancellation_ != nullptr && cancellation_->cancelled()) return cancellation_->status();
    if (channel_->closed()) return channel_->closed_status();
  }
  return explain_failure(from_grpc_status(ended), channel_->description(), method_);
}

std::string ClientCall::kept_as() {
  const auto& metadata = attempt_->context.GetServerTrailingMetadata();
  const auto name = method_ == kPartMethod ? metadata.end() : metadata.find(kPartsKey);
  return name == metadata.end() ? std::string() : std::string(name->second.data(), name->second.size());
}

void ClientCall::finish() {
  const Status status = outcome();
  Payload reply;
  std::string name;
  if (status.ok()) {
    MutexLock lock(mu_);
    reply = to_payload(attempt_->reply);
    attempt_->reply.Clear();
    name = kept_as();
  }
  request_.Clear();
  // From here on nobody but this thread knows of the call. With `done_` goes `cancellation_`.
  if (token_ != 0) cancellation_->deregister(token_);
  channel_->remove(shared_from_this());
  if (name.empty()) {
    done_(status, std::move(reply));
  } else if (Result<GatheredAnswer> answer = GatheredAnswer::create(reply, channel_->message_bytes()); answer.ok()) {
    CallOptions options;
    options.deadline = deadline_;
    options.cancellation = cancellation_;
    std::make_shared<PartsCall>(channel_, method_, options, std::move(name), *std::move(answer), std::move(done_))
        ->start();
  } else {
    drop_answer(channel_, name);
    done_(answer.status().with_context(str_cat(channel_->description(), ": ", method_)), {});
  }
  done_ = nullptr;  // with all that it holds, before the client may go
  channel_->client().call_ended();
}

}  // namespace tutti::rpc_internal
