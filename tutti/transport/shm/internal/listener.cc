#include "tutti/transport/shm/internal/listener.h"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <utility>

namespace tutti::shm {
namespace {

constexpr std::chrono::seconds kPatience{10};
// After a failure that only time can mend, such as too many open files.
constexpr std::chrono::milliseconds kRetryAfter{100};

}  // namespace

// Someone who has connected and not yet proved itself.
class Listener::Guest : public Watched {
 public:
  Guest(std::shared_ptr<Listener> listener, UniqueFd socket, PeerProcess peer)
      : listener_(std::move(listener)),
        fd_(socket.get()),
        acceptance_(std::move(socket), peer, listener_->identity_, listener_->ring_bytes_) {}

  void ready(int) override {
    const Result<bool> proved = take_all();
    if (proved.ok() && !*proved) return;
    listener_->dismiss(fd_);
    if (!proved.ok()) return;
    Result<Joined> joined = acceptance_.finish();
    if (joined.ok()) listener_->joined_(*std::move(joined));
  }

  void dismiss() { listener_->dismiss(fd_); }
  Clock::TimerId timer = 0;  // written before anybody else knows the guest

 private:
  // True: it has just proved itself.
  Result<bool> take_all() {
    MutexLock lock(mu_);
    while (!over_) {
      auto received = receive_packet(fd_);
      if (!received.ok()) return over(received.status());
      if (!*received) return false;
      const Result<bool> step = acceptance_.take((*received)->packet);
      if (!step.ok()) return over(step.status());
      if (*step) return over(true);
    }
    return false;
  }
  Result<bool> over(Result<bool> how) TUTTI_REQUIRES(mu_) {
    over_ = true;
    return how;
  }

  const std::shared_ptr<Listener> listener_;
  const int fd_;
  Mutex mu_;
  bool over_ TUTTI_GUARDED_BY(mu_) = false;
  Acceptance acceptance_;
};

Result<std::shared_ptr<Listener>> Listener::open(const std::string& name, Identity identity, std::size_t ring_bytes,
                                                 std::shared_ptr<EventLoop> loop, Clock& clock, Joining joined) {
  TUTTI_ASSIGN_OR_RETURN(UniqueFd socket, listen_on(name));
  std::shared_ptr<Listener> listener(
      new Listener(std::move(socket), std::move(identity), ring_bytes, loop, clock, std::move(joined)));
  TUTTI_RETURN_IF_ERROR(loop->watch(listener->socket_.get(), listener));
  return listener;
}

Listener::Listener(UniqueFd socket, Identity identity, std::size_t ring_bytes, std::shared_ptr<EventLoop> loop,
                   Clock& clock, Joining joined)
    : socket_(std::move(socket)),
      identity_(std::move(identity)),
      ring_bytes_(ring_bytes),
      loop_(std::move(loop)),
      clock_(clock),
      joined_(std::move(joined)) {}

void Listener::ready(int) { accept_all(); }

void Listener::accept_all() {
  while (true) {
    UniqueFd fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      welcome_guest(std::move(fd));
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINVAL) return;
    if (errno != EINTR && errno != ECONNABORTED) return accept_later();
  }
}

void Listener::accept_later() {
  MutexLock lock(mu_);
  if (closed_ || retry_) return;
  retry_ = clock_.call_at(clock_.now() + kRetryAfter, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    {
      MutexLock timer_lock(self->mu_);
      self->retry_.reset();
      if (self->closed_) return;
    }
    self->loop_->post([weak] {
      if (const auto listener = weak.lock()) listener->accept_all();
    });
  });
}

void Listener::welcome_guest(UniqueFd socket) {
  const auto peer = check_peer_user(socket.get());
  if (!peer.ok()) return refuse(socket.get(), peer.status());
  const int fd = socket.get();
  const auto guest = std::make_shared<Guest>(shared_from_this(), std::move(socket), *peer);
  guest->timer = clock_.call_at(clock_.now() + kPatience, [loop = loop_, late = std::weak_ptr(guest)] {
    loop->post([late] {
      if (const auto still = late.lock()) still->dismiss();
    });
  });
  bool taken = false;
  {
    MutexLock lock(mu_);
    taken = !closed_ && guests_.size() < kMaxGuests && guests_.emplace(fd, guest).second;
  }
  if (!taken) {
    clock_.cancel_timer(guest->timer);
    refuse(fd, resource_exhausted("too many connect at once, or none is taken any more"));
  } else if (!loop_->watch(fd, guest).ok()) {
    dismiss(fd);
  }
}

// Its descriptor closes with the last holder, so `fd` is not another's yet.
void Listener::dismiss(int fd) {
  std::shared_ptr<Guest> guest;
  {
    MutexLock lock(mu_);
    const auto found = guests_.find(fd);
    if (found == guests_.end()) return;
    guest = std::move(found->second);
    guests_.erase(found);
  }
  loop_->forget(fd);
  clock_.cancel_timer(guest->timer);
}

void Listener::close() {
  std::optional<Clock::TimerId> retry;
  std::unordered_map<int, std::shared_ptr<Guest>> guests;
  {
    MutexLock lock(mu_);
    closed_ = true;
    retry.swap(retry_);
    guests.swap(guests_);
  }
  if (retry) clock_.cancel_timer(*retry);
  for (const auto& [fd, guest] : guests) {
    loop_->forget(fd);
    clock_.cancel_timer(guest->timer);
  }
  loop_->forget(socket_.get());
  // Who still connects is refused at once rather than left waiting.
  ::shutdown(socket_.get(), SHUT_RDWR);
}

}  // namespace tutti::shm
