#include "tutti/transport/shm/internal/loans.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace tutti::shm {
namespace {

// Taken from the socket at a time, so that a peer that never stops sending does not keep a thread.
constexpr int kMaxPackets = 64;

enum class Heard { kNothing, kSomething, kEnd };

// What the peer still says does not matter; descriptors that come along are closed by the kernel.
Heard hear(int socket) {
  char byte = 0;
  const ssize_t size = ::recv(socket, &byte, 1, MSG_DONTWAIT);
  if (size > 0 || (size < 0 && errno == EINTR)) return Heard::kSomething;
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Heard::kNothing;
  return Heard::kEnd;
}

}  // namespace

Borrowing::~Borrowing() { ::shutdown(socket_->get(), SHUT_WR); }

Loans::Loans(SharedSocket socket, std::shared_ptr<SegmentPool> pool, std::weak_ptr<EventLoop> loop)
    : socket_(std::move(socket)), pool_(std::move(pool)), loop_(std::move(loop)) {}

Loans::~Loans() {
  MutexLock lock(mu_);
  for (auto& [loan, owner] : owners_) pool_->keep(std::move(owner));
}

std::uint64_t Loans::lend(std::shared_ptr<const void> owner) {
  MutexLock lock(mu_);
  if (ended_ || owners_.size() >= kMaxLoans) return 0;
  const std::uint64_t loan = next_++;
  owners_.emplace(loan, std::move(owner));
  return loan;
}

Status Loans::release(std::uint64_t loan) {
  std::shared_ptr<const void> returned;  // dropped without the lock
  MutexLock lock(mu_);
  const auto found = owners_.find(loan);
  if (found == owners_.end()) {
    if (ended_) return {};
    return data_loss("loan ", loan, " given back that was not made");
  }
  returned = std::move(found->second);
  owners_.erase(found);
  return {};
}

void Loans::outlast_connection() {
  {
    MutexLock lock(mu_);
    ended_ = true;
    if (owners_.empty()) return;
  }
  // An end that has come before is reported too. Where nobody can watch, our destructor keeps them.
  if (const auto loop = loop_.lock()) (void)loop->watch(socket_->get(), shared_from_this());
}

void Loans::ready(int) {
  for (int i = 0; i < kMaxPackets; ++i) {
    const Heard heard = hear(socket_->get());
    if (heard == Heard::kNothing) return;
    if (heard == Heard::kEnd) return peer_is_done();
  }
  if (const auto loop = loop_.lock()) loop->post([self = shared_from_this()] { self->ready(self->socket_->get()); });
}

void Loans::peer_is_done() {
  const auto self = shared_from_this();  // the loop lets go of it
  if (const auto loop = loop_.lock()) loop->forget(socket_->get());
  Owners owners;
  MutexLock lock(mu_);
  owners.swap(owners_);
}

}  // namespace tutti::shm
