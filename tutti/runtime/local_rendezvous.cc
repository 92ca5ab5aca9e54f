#include "tutti/runtime/local_rendezvous.h"

namespace tutti {

LocalRendezvous::~LocalRendezvous() { abort(cancelled("the rendezvous is gone")); }

Status LocalRendezvous::send(const std::string& key, Tensor value, bool dead) {
  Done done;
  Status overflow;
  {
    MutexLock lock(mu_);
    if (!status_.ok()) return status_;
    auto asked = asked_.find(key);
    if (asked == asked_.end()) {
      waiting_bytes_ += value.bytes();
      if (waiting_bytes_ > limit_bytes_) {
        overflow = resource_exhausted("sending \"", printable(key), "\": ", waiting_bytes_,
                                      " bytes wait to be received, more than the limit of ", limit_bytes_);
      } else {
        sent_[key].push_back({std::move(value), dead});
      }
    } else {
      done = std::move(asked->second.front());
      asked->second.pop_front();
      if (asked->second.empty()) asked_.erase(asked);
    }
  }
  if (!overflow.ok()) {
    abort(overflow);
    return overflow;
  }
  if (done) done({}, std::move(value), dead);
  return {};
}

void LocalRendezvous::recv(const std::string& key, Done done) {
  Status status;
  Item item{};
  {
    MutexLock lock(mu_);
    status = status_;
    if (status.ok()) {
      auto sent = sent_.find(key);
      if (sent == sent_.end()) {
        asked_[key].push_back(std::move(done));
        return;
      }
      item = std::move(sent->second.front());
      waiting_bytes_ -= item.value.bytes();
      sent->second.pop_front();
      if (sent->second.empty()) sent_.erase(sent);
    }
  }
  done(status, std::move(item.value), item.dead);
}

void LocalRendezvous::abort(Status cause) {
  std::unordered_map<std::string, std::deque<Done>> asked;
  std::unordered_map<std::string, std::deque<Item>> sent;  // destroyed after the lock is gone
  {
    MutexLock lock(mu_);
    status_.update(cause);
    cause = status_;
    asked.swap(asked_);
    sent.swap(sent_);
    waiting_bytes_ = 0;
  }
  for (auto& [key, waiting] : asked) {
    for (Done& done : waiting) done(cause, {}, false);
  }
}

}  // namespace tutti
