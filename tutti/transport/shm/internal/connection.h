// Two processes that call each other: one connected and calls, the other listens and serves.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "tutti/core/mutex.h"
#include "tutti/transport/channel.h"
#include "tutti/transport/internal/pending_call.h"
#include "tutti/transport/shm/internal/event_loop.h"
#include "tutti/transport/shm/internal/handshake.h"
#include "tutti/transport/shm/internal/loans.h"
#include "tutti/transport/shm/internal/message_sender.h"
#include "tutti/transport/shm/internal/peer_memory.h"

namespace tutti::shm {

// What the connections of a transport share.
struct ConnectionServices {
  std::shared_ptr<EventLoop> loop;
  std::shared_ptr<SegmentPool> pool;
  std::shared_ptr<Allocator> message_memory;
  Clock* clock = nullptr;
  CallHandler* handler = nullptr;                      // null: nobody may call us
  std::function<bool(std::string_view method)> quick;  // as in ShmOptions
  std::uint64_t message_bytes = 0;                     // of one
  std::uint64_t connection_bytes = 0;                  // of a peer's requests at once
};

// One end of it. Lives while it is open (the loop holds it), while a channel holds it, and while one of its threads is
// in it; rings go with it. The socket stays while something that crossed is still looked at. Thread-safe.
class Connection : public Watched, public Polled, public std::enable_shared_from_this<Connection> {
 public:
  using Lost = std::function<void(Status)>;

  // `on_lost` runs once if the peer goes or misbehaves, not on close(). `on_closed` runs once in both cases.
  static Result<std::shared_ptr<Connection>> open(Joined joined, const ConnectionServices& services,
                                                  std::uint64_t number, Lost on_lost,
                                                  std::function<void(Connection*)> on_closed);
  // Only for the side that connected.
  void call(std::string_view method, const Payload& request, const CallOptions& options, Channel::Done done);
  // From our side. Calls end with `why`, before this returns.
  void close(const Status& why);
  void forget_segments(const std::vector<std::uint64_t>& ids);
  bool is_open() const { return open_.load(std::memory_order_acquire); }
  const std::string& description() const { return *description_; }

  void ready(int fd) override;
  void begin_polling() override { ring_.stop_sleeping(); }
  bool has_input() const override { return ring_.has_input(); }
  bool end_polling() override;
  void take_input() override { pump(); }

 private:
  struct Serving;
  class Borrowed;
  using Calls = std::unordered_map<std::uint64_t, std::shared_ptr<PendingCall>>;
  using Servings = std::unordered_map<std::uint64_t, std::shared_ptr<Serving>>;

  Connection(Joined joined, const ConnectionServices& services, std::uint64_t number, Lost on_lost,
             std::function<void(Connection*)> on_closed);
  void pump_soon();
  void pump();
  Status drain();
  Status take(Message message);
  Status take_call(Message message);
  Status take_reply(Message message);
  void take_cancel(std::uint64_t id);
  void serve(const std::shared_ptr<Serving>& serving, Payload request);
  Status admit(const Message& message, const std::shared_ptr<Serving>& serving, Status& refused);
  Result<Payload> make_payload(const Message& message);
  Status refusal(const Message& message);
  Status check_size(const Payload& payload) const;

  std::shared_ptr<PendingCall> remove_call(std::uint64_t id);
  void drop_call(std::uint64_t id);
  void reply(std::uint64_t id, const Status& status, const Payload& payload);
  // Sends the reply only.
  void answer(std::uint64_t id, const Status& status, const Payload& payload);
  void give_back(std::uint64_t loan, std::uint64_t bytes);

  void lose(const Status& why);
  // False: it was closed before.
  bool shut(const Status& why, Calls& calls, Servings& servings);
  static void end_all(const Calls& calls, const Servings& servings, const Status& why);

  const ConnectionServices services_;
  const std::string peer_task_;
  const bool calls_;                                      // we connected
  const std::shared_ptr<const std::string> description_;  // "shm to TASK"
  const std::string name_;                                // for the handler: "shm:PID#3"
  const SharedSocket socket_;
  const UniqueFd own_bell_;
  const UniqueFd peer_bell_;
  const std::shared_ptr<Mapping> rings_;
  const std::function<void(Connection*)> on_closed_;

  const std::shared_ptr<Loans> loans_;
  MessageSender sender_;
  PeerMemory peer_memory_;
  std::atomic<bool> hung_up_{false};         // the peer is gone; what is in the ring is still taken
  std::atomic<bool> open_{true};             // written under mu_, read without for a quick look
  std::atomic<bool> releases_timed_{false};  // a timer will ring for them
  // Threads that want the ring read; the first reads it, and once more for the others. Acquire and release hand the
  // members below from one to the next.
  std::atomic<std::uint32_t> pumping_{0};
  RingReader ring_;
  MessageReader reader_;

  Mutex mu_;
  Status why_closed_ TUTTI_GUARDED_BY(mu_);
  Lost on_lost_ TUTTI_GUARDED_BY(mu_);
  std::shared_ptr<Borrowing> borrowing_ TUTTI_GUARDED_BY(mu_);  // null: closed
  std::uint64_t next_call_ TUTTI_GUARDED_BY(mu_) = 1;
  Calls pending_ TUTTI_GUARDED_BY(mu_);
  Servings servings_ TUTTI_GUARDED_BY(mu_);
  std::uint64_t serving_bytes_ TUTTI_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti::shm
