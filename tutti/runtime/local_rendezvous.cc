#include "tutti/runtime/local_rendezvous.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "tutti/core/optional.h"
#include "tutti/core/tensor_list.h"
#include "tutti/core/tensor_variant.h"

namespace tutti {
// Lists and optionals may hold others, so a work list; and the same one many times, so each counts once.
std::size_t held_bytes(const Tensor& tensor) {
  if (!tensor.has_value()) return 0;
  if (tensor.dtype() != DType::kString && tensor.dtype() != DType::kVariant) return tensor.bytes();
  std::size_t bytes = 0;
  std::vector<Tensor> open{tensor};
  std::unordered_set<const VariantObject*> seen;
  while (!open.empty()) {
    const Tensor next = std::move(open.back());
    open.pop_back();
    if (!next.has_value()) continue;
    bytes += next.bytes();
    if (next.dtype() == DType::kString) {
      for (const std::string& text : next.flat<std::string>()) bytes += text.size();
    } else if (next.dtype() == DType::kVariant) {
      for (const Variant& element : next.flat<Variant>()) {
        if (!element.has_value() || !seen.insert(element.object().get()).second) continue;
        if (const auto* list = element.get<TensorList>()) {
          for (Tensor& item : list->items()) open.push_back(std::move(item));
        } else if (const auto* optional = element.get<Optional>()) {
          open.insert(open.end(), optional->components().begin(), optional->components().end());
        } else if (const auto* held = element.get<TensorVariant>()) {
          open.push_back(held->tensor());
        }
      }
    }
  }
  return bytes;
}

LocalRendezvous::~LocalRendezvous() { abort(cancelled("the rendezvous is gone")); }

void LocalRendezvous::Request::answer(const Status& status, Tensor value, bool dead) {
  // Before `done`, which may end the step and the cancellation with it.
  cancellation->deregister(token);
  done(status, std::move(value), dead);
}

Status LocalRendezvous::send(const std::string& key, Tensor value, bool dead) {
  std::optional<Request> request;
  Status overflow;
  const std::size_t bytes = held_bytes(value);
  {
    MutexLock lock(mu_);
    if (!status_.ok()) return status_;
    auto asked = asked_.find(key);
    if (asked == asked_.end()) {
      waiting_bytes_ += bytes;
      if (waiting_bytes_ > limit_bytes_) {
        overflow = resource_exhausted("sending \"", printable(key), "\": ", waiting_bytes_,
                                      " bytes wait to be received, more than the limit of ", limit_bytes_,
                                      " (of a server: --max-step-bytes)");
      } else {
        sent_[key].push_back({std::move(value), bytes, dead});
      }
    } else {
      request = std::move(asked->second.front());
      asked->second.pop_front();
      if (asked->second.empty()) asked_.erase(asked);
    }
  }
  if (!overflow.ok()) {
    abort(overflow);
    return overflow;
  }
  if (request) request->answer({}, std::move(value), dead);
  return {};
}

void LocalRendezvous::recv(const std::string& key, Cancellation& cancellation, Done done) {
  std::optional<Item> item;
  Status status;
  std::uint64_t id = 0;
  {
    MutexLock lock(mu_);
    status = status_;
    // What is there already needs nobody who waits for it.
    if (status.ok() && !cancellation.cancelled()) item = take(key);
    id = next_request_++;
  }
  if (!status.ok()) return done(std::move(status), {}, false);
  if (item) return done({}, std::move(item->value), item->dead);
  Request request{id, &cancellation, cancellation.register_callback([this, key, id] { withdraw(key, id); }),
                  std::move(done)};
  {
    MutexLock lock(mu_);
    status = status_;
    // A callback that came before the request was entered has found nothing; it has set this first.
    if (status.ok() && (request.token == 0 || cancellation.cancelled())) status = cancellation.status();
    if (status.ok()) {
      item = take(key);
      if (!item) {
        asked_[key].push_back(std::move(request));
        return;
      }
    }
  }
  if (!item) return request.answer(status, {}, false);
  request.answer({}, std::move(item->value), item->dead);
}

std::optional<LocalRendezvous::Item> LocalRendezvous::take(const std::string& key) {
  auto sent = sent_.find(key);
  if (sent == sent_.end()) return std::nullopt;
  Item item = std::move(sent->second.front());
  waiting_bytes_ -= item.bytes;
  sent->second.pop_front();
  if (sent->second.empty()) sent_.erase(sent);
  return item;
}

// Called by the request's cancellation.
void LocalRendezvous::withdraw(const std::string& key, std::uint64_t id) {
  std::optional<Request> request;
  {
    MutexLock lock(mu_);
    auto asked = asked_.find(key);
    if (asked == asked_.end()) return;
    auto it = std::find_if(asked->second.begin(), asked->second.end(), [id](const Request& r) { return r.id == id; });
    if (it == asked->second.end()) return;
    request = std::move(*it);
    asked->second.erase(it);
    if (asked->second.empty()) asked_.erase(asked);
  }
  request->answer(request->cancellation->status(), {}, false);
}

void LocalRendezvous::abort(Status cause) {
  std::unordered_map<std::string, std::deque<Request>> asked;
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
    for (Request& request : waiting) request.answer(cause, {}, false);
  }
}

}  // namespace tutti
