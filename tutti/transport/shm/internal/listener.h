// Where peers arrive: the socket that listens, and those that have not proved themselves yet.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "tutti/core/clock.h"
#include "tutti/core/mutex.h"
#include "tutti/transport/shm/internal/event_loop.h"
#include "tutti/transport/shm/internal/handshake.h"

namespace tutti::shm {

// Takes peers through the handshake without waiting for any of them. Who takes longer than ten seconds, or comes when
// kMaxGuests are at it, is sent away. Thread-safe.
class Listener : public Watched, public std::enable_shared_from_this<Listener> {
 public:
  static constexpr std::size_t kMaxGuests = 256;
  using Joining = std::function<void(Joined)>;

  // `clock` outlives it. `joined` gets each peer that has proved itself.
  static Result<std::shared_ptr<Listener>> open(const std::string& name, Identity identity, std::size_t ring_bytes,
                                                std::shared_ptr<EventLoop> loop, Clock& clock, Joining joined);
  // No one is taken in any more.
  void close();
  void ready(int fd) override;

 private:
  class Guest;
  Listener(UniqueFd socket, Identity identity, std::size_t ring_bytes, std::shared_ptr<EventLoop> loop, Clock& clock,
           Joining joined);
  void accept_all();
  void accept_later();
  void welcome_guest(UniqueFd socket);
  void dismiss(int fd);

  const UniqueFd socket_;
  const Identity identity_;
  const std::size_t ring_bytes_;
  const std::shared_ptr<EventLoop> loop_;
  Clock& clock_;
  const Joining joined_;

  Mutex mu_;
  bool closed_ TUTTI_GUARDED_BY(mu_) = false;
  std::optional<Clock::TimerId> retry_ TUTTI_GUARDED_BY(mu_);
  std::unordered_map<int, std::shared_ptr<Guest>> guests_ TUTTI_GUARDED_BY(mu_);  // by descriptor
};

}  // namespace tutti::shm
