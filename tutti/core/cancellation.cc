#include "tutti/core/cancellation.h"

#include <utility>

namespace tutti {

Cancellation::Cancellation(Cancellation& parent) : parent_(&parent) {
  parent_token_ = parent.register_callback([this] { cancel(parent_->status()); });
  if (parent_token_ == 0) cancel(parent.status());
}

Cancellation::~Cancellation() {
  // Waits for a cancel() that the parent is running on this object.
  if (parent_token_ != 0) parent_->deregister(parent_token_);
  MutexLock lock(mu_);
  while (running_ != 0 && running_thread_ != std::this_thread::get_id()) callback_done_.wait(mu_);
}

void Cancellation::cancel(Status cause) {
  TUTTI_CHECK(!cause.ok(), "cancelled without a cause");
  mu_.lock();
  if (cancelled_.load(std::memory_order_relaxed)) {
    mu_.unlock();
    return;
  }
  cause_ = std::move(cause);
  cancelled_.store(true, std::memory_order_release);
  running_thread_ = std::this_thread::get_id();
  // One by one, so that who deregisters waits for its own callback only, and so that a callback may
  // still deregister those that have not begun. None is added any more.
  while (!callbacks_.empty()) {
    auto node = callbacks_.extract(callbacks_.begin());
    running_ = node.key();
    mu_.unlock();
    node.mapped()();
    node = {};  // what the callback captured goes before anyone is told that it returned
    mu_.lock();
    running_ = 0;
    callback_done_.notify_all();
  }
  mu_.unlock();
}

Status Cancellation::status() const {
  if (!cancelled()) return {};
  MutexLock lock(mu_);
  return cause_;
}

Cancellation::Token Cancellation::register_callback(std::function<void()> callback) {
  MutexLock lock(mu_);
  if (cancelled_.load(std::memory_order_relaxed)) return 0;
  const Token token = next_token_++;
  callbacks_.emplace(token, std::move(callback));
  return token;
}

bool Cancellation::deregister(Token token) {
  decltype(callbacks_)::node_type removed;  // destroyed after the lock is gone
  MutexLock lock(mu_);
  removed = callbacks_.extract(token);
  if (!removed.empty()) return true;
  while (running_ == token && token != 0 && running_thread_ != std::this_thread::get_id()) callback_done_.wait(mu_);
  return false;
}

}  // namespace tutti
