#include "tutti/transport/shm/internal/connection.h"

#include <new>
#include <utility>

#include "tutti/transport/shm/internal/doorbell.h"

namespace tutti::shm {
namespace {

// Calls of one peer that wait for their reply. More are refused.
constexpr std::size_t kMaxServings = 1 << 15;
// For releases that nothing else has brought to the peer's notice meanwhile.
constexpr std::chrono::milliseconds kReleasesWait{20};
// How often the ring is emptied before other connections get their turn.
constexpr int kRoundsBeforeOthers = 4;
// A reply from which as much is copied does not keep the thread that reads: it would be deaf for the time, and 1 GB
// takes longer than a lease.
constexpr std::size_t kCopiedLaterFrom = std::size_t{4} << 20;
// Whether the calling thread reads a ring.
thread_local bool t_reads = false;

// Ring [0] goes from the one that connected to the one that listens.
Ring ring_to_peer(const Joined& joined) {
  return Ring::at(joined.rings->data(), joined.ring_bytes, joined.connector ? 0 : 1);
}
Ring ring_from_peer(const Joined& joined) {
  return Ring::at(joined.rings->data(), joined.ring_bytes, joined.connector ? 1 : 0);
}

}  // namespace

// A call of the peer, until it is replied to.
struct Connection::Serving {
  std::uint64_t id = 0;
  std::string method;
  std::uint64_t bytes = 0;  // of the request
  Cancellation cancellation;
  std::atomic<bool> replied{false};
  std::atomic<bool> cancelling{false};
};

// Keeps bytes of the peer's readable and unchanged; tells it when they are no longer needed.
class Connection::Borrowed {
 public:
  Borrowed(std::weak_ptr<Connection> connection, std::shared_ptr<Borrowing> borrowing, const PieceHeader& piece,
           std::shared_ptr<Mapping> mapping)
      : connection_(std::move(connection)),
        borrowing_(std::move(borrowing)),
        loan_(piece.loan),
        bytes_(piece.bytes),
        mapping_(std::move(mapping)) {}
  ~Borrowed() {
    if (const auto connection = connection_.lock()) connection->give_back(loan_, bytes_);
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

 private:
  const std::weak_ptr<Connection> connection_;
  const std::shared_ptr<Borrowing> borrowing_;
  const std::uint64_t loan_;
  const std::uint64_t bytes_;
  const std::shared_ptr<Mapping> mapping_;
};

Result<std::shared_ptr<Connection>> Connection::open(Joined joined, const ConnectionServices& services,
                                                     std::uint64_t number, Lost on_lost,
                                                     std::function<void(Connection*)> on_closed) {
  std::shared_ptr<Connection> connection(
      new Connection(std::move(joined), services, number, std::move(on_lost), std::move(on_closed)));
  TUTTI_RETURN_IF_ERROR(services.loop->watch(connection->socket_->get(), connection));
  if (const Status status = services.loop->watch(connection->own_bell_.get(), connection); !status.ok()) {
    connection->close(status);
    return status;
  }
  // It may have been lost since its socket is watched, and a bell never tells of that again.
  if (!connection->is_open()) services.loop->forget(connection->own_bell_.get());
  connection->pump_soon();  // says for the first time that we sleep
  return connection;
}

Connection::Connection(Joined joined, const ConnectionServices& services, std::uint64_t number, Lost on_lost,
                       std::function<void(Connection*)> on_closed)
    : services_(services),
      peer_task_(joined.peer_task),
      calls_(joined.connector),
      description_(std::make_shared<const std::string>(str_cat("shm to ", printable(joined.peer_task)))),
      name_(str_cat("shm:", joined.peer.pid, "#", number)),
      socket_(std::make_shared<const UniqueFd>(std::move(joined.socket))),
      own_bell_(std::move(joined.own_bell)),
      peer_bell_(std::move(joined.peer_bell)),
      rings_(joined.rings),
      on_closed_(std::move(on_closed)),
      loans_(std::make_shared<Loans>(socket_, services_.pool, services_.loop)),
      sender_(RingWriter(ring_to_peer(joined)), socket_->get(), peer_bell_.get(), *services_.pool, *loans_),
      peer_memory_(socket_->get()),
      ring_(ring_from_peer(joined)),
      reader_(*services_.message_memory, services_.message_bytes),
      on_lost_(std::move(on_lost)),
      borrowing_(std::make_shared<Borrowing>(socket_)) {}

// Receiving.

void Connection::ready(int fd) {
  if (fd == own_bell_.get()) return pump();
  bool more = false;
  const Status status = peer_memory_.receive(more);
  if (more) services_.loop->post([self = shared_from_this(), fd] { self->ready(fd); });
  if (status.code() == Code::kUnavailable) {
    hung_up_.store(true, std::memory_order_release);
  } else if (!status.ok()) {
    return lose(status);
  }
  pump();
}

// See ring.h: the flag first, then the last look.
bool Connection::end_polling() {
  ring_.sleep();
  return ring_.has_input();
}

void Connection::pump_soon() {
  services_.loop->post([self = shared_from_this()] { self->pump(); });
}

void Connection::pump() {
  if (pumping_.fetch_add(1, std::memory_order_acq_rel) != 0) return;
  std::uint32_t asked = 1;
  do {
    asked = pumping_.load(std::memory_order_acquire);
    const bool hung_up = hung_up_.load(std::memory_order_acquire) || ring_.writer_closed();
    const bool read_before = std::exchange(t_reads, true);
    Status status = is_open() ? drain() : Status();
    t_reads = read_before;
    status.update(is_open() ? sender_.flush() : Status());
    if (status.ok() && hung_up) status = unavailable("it closed the connection or died");
    if (!status.ok()) lose(status);
  } while (!pumping_.compare_exchange_strong(asked, 0, std::memory_order_acq_rel));
}

Status Connection::drain() {
  const auto progress = [this] {
    ring_.publish();
    if (ring_.take_writer_waits()) ring_doorbell(peer_bell_.get());
  };
  const auto take_message = [this](Message message) { return take(std::move(message)); };
  for (int round = 0; round < kRoundsBeforeOthers; ++round) {
    if (!ring_.refresh()) return data_loss("a ring whose writer is too far ahead of its reader");
    if (ring_.available() > 0) {
      TUTTI_RETURN_IF_ERROR(reader_.read(ring_, take_message, progress));
      progress();
      services_.loop->came_in(weak_from_this());
    }
    // See ring.h: the flag first, then the last look.
    ring_.sleep();
    if (!ring_.refresh()) return data_loss("a ring whose writer is too far ahead of its reader");
    if (ring_.available() == 0) return {};
    ring_.stop_sleeping();
  }
  // A peer that never stops writing does not keep this thread.
  pump_soon();
  return {};
}

Status Connection::take(Message message) {
  switch (message.kind) {
    case MessageKind::kCall:
      if (calls_) break;
      return take_call(std::move(message));
    case MessageKind::kReply:
      if (!calls_) break;
      return take_reply(std::move(message));
    case MessageKind::kCancel:
      if (calls_) break;
      take_cancel(message.id);
      return {};
    case MessageKind::kRelease:
      return loans_->release(message.id);
    case MessageKind::kForget:
      return peer_memory_.forget(message.id);
  }
  return data_loss("a message of kind ", static_cast<int>(message.kind), " from the wrong side");
}

Result<Payload> Connection::make_payload(const Message& message) {
  std::shared_ptr<Borrowing> borrowing;
  {
    MutexLock lock(mu_);
    borrowing = borrowing_;
  }
  // The peer may have been told that nothing is borrowed any more.
  if (!borrowing) return unavailable("the connection is closed");
  Payload payload;
  for (std::size_t i = 0; i < message.pieces.size(); ++i) {
    const PieceHeader& piece = message.pieces[i];
    if (piece.segment == 0) {
      const auto* data = static_cast<const std::byte*>(message.buffers[i]->data()) + piece.offset;
      payload.append({data, piece.bytes}, message.buffers[i]);
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(PeerMemory::Place place, peer_memory_.find(piece));
    payload.append(place.bytes,
                   std::make_shared<Borrowed>(weak_from_this(), borrowing, piece, std::move(place.mapping)),
                   /*lent=*/true);
  }
  return payload;
}

Status Connection::refusal(const Message& message) {
  if (message.refused_bytes == 0) return {};
  if (message.refused_bytes > services_.message_bytes) {
    return resource_exhausted("a message of ", message.refused_bytes, " bytes; at most ", services_.message_bytes,
                              " are taken (of a server: --max-message-bytes)");
  }
  return resource_exhausted("no memory for a message of ", message.refused_bytes, " bytes");
}

Status Connection::check_size(const Payload& payload) const {
  if (payload.size() <= services_.message_bytes) return {};
  return resource_exhausted("a message of ", payload.size(), " bytes; at most ", services_.message_bytes, " are sent");
}

// An error: the stream is nonsense. `refused`: only this call is.
Status Connection::admit(const Message& message, const std::shared_ptr<Serving>& serving, Status& refused) {
  refused = refusal(message);
  MutexLock lock(mu_);
  if (servings_.contains(message.id)) return data_loss("call ", message.id, " made twice");
  refused.update(why_closed_);
  if (!refused.ok()) return {};
  if (servings_.size() >= kMaxServings) {
    refused = resource_exhausted("more than ", kMaxServings, " calls of one process at once");
  } else if (serving->bytes > 0 && serving_bytes_ > 0 && serving_bytes_ + serving->bytes > services_.connection_bytes) {
    refused = resource_exhausted(
        "requests with ", serving_bytes_, " bytes of one process wait for their reply; one of ", serving->bytes,
        " more is not taken, at most ", services_.connection_bytes, " are (--max-connection-bytes)");
  } else {
    serving_bytes_ += serving->bytes;
    servings_.emplace(message.id, serving);
  }
  return {};
}

Status Connection::take_call(Message message) {
  TUTTI_ASSIGN_OR_RETURN(Payload request, make_payload(message));
  auto serving = std::make_shared<Serving>();
  serving->id = message.id;
  serving->bytes = request.size();
  Status refused;
  TUTTI_RETURN_IF_ERROR(admit(message, serving, refused));
  serving->method = std::move(message.text);
  if (!refused.ok()) {
    request = {};
    answer(message.id, refused, {});
    return {};
  }
  if (services_.quick && services_.quick(serving->method)) {
    serve(serving, std::move(request));
    return {};
  }
  services_.loop->post([self = shared_from_this(), serving, request = std::move(request)]() mutable {
    self->serve(serving, std::move(request));
  });
  return {};
}

void Connection::serve(const std::shared_ptr<Serving>& serving, Payload request) {
  if (!is_open()) return;
  if (services_.handler == nullptr) {
    reply(serving->id, unimplemented("this process serves no calls"), {});
    return;
  }
  IncomingCall incoming{.method = serving->method,
                        .request = std::move(request),
                        .peer_task = peer_task_,
                        .connection = name_,
                        .cancellation = &serving->cancellation};
  const auto reply_once = [weak = weak_from_this(), serving](const Status& status, const Payload& payload) {
    if (serving->replied.exchange(true)) return;
    if (const auto self = weak.lock()) self->reply(serving->id, status, payload);
  };
  try {
    services_.handler->handle(std::move(incoming), reply_once);
  } catch (const std::bad_alloc&) {
    reply_once(resource_exhausted("no memory for ", serving->method), {});
  }
}

Status Connection::take_reply(Message message) {
  TUTTI_ASSIGN_OR_RETURN(Payload payload, make_payload(message));
  std::shared_ptr<PendingCall> call;
  {
    MutexLock lock(mu_);
    if (message.id >= next_call_) return data_loss("a reply to call ", message.id, ", which was not made");
  }
  call = remove_call(message.id);
  if (!call) return {};  // it had ended
  Status status;
  if (Status refused = refusal(message); !refused.ok()) {
    status = refused.with_context(*description_);
    payload = {};
  } else if (message.code != 0) {
    status = Status(static_cast<Code>(message.code), std::move(message.text));
  }
  if (EventLoop::waits_here(call->waiter())) {
    call->finish(std::move(status), std::move(payload));
    return {};
  }
  services_.loop->post([call = std::move(call), status = std::move(status), payload = std::move(payload)]() mutable {
    call->finish(std::move(status), std::move(payload));
  });
  return {};
}

void Connection::take_cancel(std::uint64_t id) {
  std::shared_ptr<Serving> serving;
  {
    MutexLock lock(mu_);
    const auto found = servings_.find(id);
    if (found == servings_.end()) return;  // replied to meanwhile
    serving = found->second;
  }
  if (serving->cancelling.exchange(true)) return;
  services_.loop->post(
      [serving, task = peer_task_] { serving->cancellation.cancel(cancelled(task, " no longer waits for the call")); });
}

// Sending.

void Connection::call(std::string_view method, const Payload& request, const CallOptions& options, Channel::Done done) {
  std::uint64_t id = 0;
  std::shared_ptr<PendingCall> call;
  Status refused;
  {
    MutexLock lock(mu_);
    refused = why_closed_.ok() ? check_size(request) : why_closed_;
    if (refused.ok()) {
      id = next_call_++;
      call = std::make_shared<PendingCall>(
          *services_.clock, description_, method, std::move(done),
          [weak = weak_from_this(), id](const Status&) {
            if (const auto self = weak.lock()) self->drop_call(id);
          },
          [loop = services_.loop](std::function<void()> work) { loop->post(std::move(work)); });
      pending_.emplace(id, call);
    }
  }
  if (!call) return done(refused.with_context(str_cat(method, " was not sent")), {});
  call->arm(options);
  if (call->ended()) {
    remove_call(id);
    return;
  }
  const Status sent = sender_.send(MessageKind::kCall, id, {}, method, request);
  if (sent.ok()) {
    // Its end may have told the peer before the call was there.
    if (call->ended()) drop_call(id);
    return;
  }
  if (sent.code() != Code::kResourceExhausted) return lose(sent);
  remove_call(id);
  call->finish(sent.with_context(*description_), {});
}

std::shared_ptr<PendingCall> Connection::remove_call(std::uint64_t id) {
  MutexLock lock(mu_);
  const auto found = pending_.find(id);
  if (found == pending_.end()) return nullptr;
  auto call = std::move(found->second);
  pending_.erase(found);
  return call;
}

// The caller no longer waits.
void Connection::drop_call(std::uint64_t id) {
  remove_call(id);
  if (!is_open()) return;
  if (const Status status = sender_.cancel_call(id); !status.ok()) lose(status);
}

void Connection::reply(std::uint64_t id, const Status& status, const Payload& payload) {
  if (t_reads && sender_.copies(payload, kCopiedLaterFrom)) {
    services_.loop->post([self = shared_from_this(), id, status, payload] { self->reply(id, status, payload); });
    return;
  }
  std::shared_ptr<Serving> serving;  // dropped without the lock
  {
    MutexLock lock(mu_);
    if (const auto found = servings_.find(id); found != servings_.end()) {
      serving = std::move(found->second);
      servings_.erase(found);
      serving_bytes_ -= serving->bytes;
    }
  }
  const bool wanted = serving && !serving->cancellation.cancelled();
  answer(id, wanted ? status : cancelled("nobody waits for the reply any more"), wanted ? payload : Payload());
}

void Connection::answer(std::uint64_t id, const Status& status, const Payload& payload) {
  if (!is_open()) return;
  Status sent = check_size(payload);
  if (sent.ok()) sent = sender_.send(MessageKind::kReply, id, status, status.message(), payload);
  if (sent.code() == Code::kResourceExhausted && !payload.empty()) {
    sent = sender_.send(MessageKind::kReply, id, sent, sent.message(), {});
  }
  if (!sent.ok()) lose(sent);
}

void Connection::give_back(std::uint64_t loan, std::uint64_t bytes) {
  if (!is_open()) return;
  if (const Status status = sender_.release(loan, bytes); !status.ok()) return lose(status);
  if (!sender_.has_unrung() || releases_timed_.exchange(true)) return;
  services_.clock->call_at(services_.clock->now() + kReleasesWait, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->releases_timed_ = false;
      self->sender_.ring();
    }
  });
}

void Connection::forget_segments(const std::vector<std::uint64_t>& ids) {
  for (const std::uint64_t id : ids) {
    if (!is_open()) return;
    if (const Status status = sender_.forget_segment(id); !status.ok()) lose(status);
  }
}

// The end.

bool Connection::shut(const Status& why, Calls& calls, Servings& servings) {
  std::shared_ptr<Borrowing> borrowing;  // its end is what the peer hears last
  {
    MutexLock lock(mu_);
    if (!why_closed_.ok()) return false;
    why_closed_ = why;
    open_.store(false, std::memory_order_release);
    borrowing.swap(borrowing_);
    calls.swap(pending_);
    servings.swap(servings_);
  }
  services_.loop->forget(socket_->get());
  services_.loop->forget(own_bell_.get());
  sender_.close();
  loans_->outlast_connection();
  if (on_closed_) on_closed_(this);
  return true;
}

void Connection::end_all(const Calls& calls, const Servings& servings, const Status& why) {
  for (const auto& [id, call] : calls) call->finish(why, {});
  for (const auto& [id, serving] : servings) serving->cancellation.cancel(why);
}

void Connection::lose(const Status& why) {
  const auto self = shared_from_this();  // the loop lets go of it
  const Code code = why.code() == Code::kDataLoss ? Code::kDataLoss : Code::kUnavailable;
  const Status lost(code, str_cat(*description_, " (", name_, ") is lost: ", why.message()));
  Calls calls;
  Servings servings;
  if (!shut(lost, calls, servings)) return;
  Lost on_lost;
  {
    MutexLock lock(mu_);
    on_lost.swap(on_lost_);
  }
  services_.loop->post([calls = std::move(calls), servings = std::move(servings), on_lost = std::move(on_lost), lost] {
    end_all(calls, servings, lost);
    if (on_lost) on_lost(lost);
  });
}

void Connection::close(const Status& why) {
  const auto self = shared_from_this();
  Calls calls;
  Servings servings;
  if (!shut(why.with_context(*description_), calls, servings)) return;
  end_all(calls, servings, why.with_context(*description_));
}

}  // namespace tutti::shm
