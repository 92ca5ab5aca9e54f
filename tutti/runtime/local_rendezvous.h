// A rendezvous within one process.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "tutti/core/cancellation.h"
#include "tutti/core/mutex.h"
#include "tutti/kernels/services.h"

namespace tutti {

// What a tensor keeps alive: its elements, the characters of strings, the tensors in lists.
std::size_t held_bytes(const Tensor& tensor);

// Keeps what was sent until it is asked for and who asked until it is sent. What waits to be received may
// take at most `limit_bytes`, strings and lists counted with what they hold; sending more aborts everything with
// kResourceExhausted. Thread-safe.
class LocalRendezvous : public Rendezvous {
 public:
  explicit LocalRendezvous(std::size_t limit_bytes = std::size_t{4} << 30) : limit_bytes_(limit_bytes) {}
  // Aborts what still waits.
  ~LocalRendezvous() override;

  Status send(const std::string& key, Tensor value, bool dead) override;
  void recv(const std::string& key, Cancellation& cancellation, Done done) override;
  void abort(Status cause) override;

 private:
  struct Item {
    Tensor value;
    std::size_t bytes = 0;
    bool dead = false;
  };
  // Whoever takes a request out of asked_ answers it, and lets go of the cancellation before that.
  struct Request {
    std::uint64_t id;
    Cancellation* cancellation;
    Cancellation::Token token;
    Done done;

    void answer(const Status& status, Tensor value, bool dead);
  };
  void withdraw(const std::string& key, std::uint64_t id);
  // The oldest value under `key`, if there is one.
  std::optional<Item> take(const std::string& key) TUTTI_REQUIRES(mu_);

  const std::size_t limit_bytes_;
  Mutex mu_;
  Status status_ TUTTI_GUARDED_BY(mu_);
  std::uint64_t next_request_ TUTTI_GUARDED_BY(mu_) = 1;
  std::size_t waiting_bytes_ TUTTI_GUARDED_BY(mu_) = 0;
  std::unordered_map<std::string, std::deque<Item>> sent_ TUTTI_GUARDED_BY(mu_);
  std::unordered_map<std::string, std::deque<Request>> asked_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti
