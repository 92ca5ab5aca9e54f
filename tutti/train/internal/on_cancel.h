#pragma once

#include <functional>
#include <utility>

#include "tutti/core/cancellation.h"

namespace tutti::internal {

// Calls back when `cancellation` (null: never) is cancelled while this lives; not when it was before. Gone when this
// is.
class OnCancel {
 public:
  OnCancel(Cancellation* cancellation, std::function<void()> callback) : cancellation_(cancellation) {
    if (cancellation_ != nullptr) token_ = cancellation_->register_callback(std::move(callback));
  }
  ~OnCancel() {
    if (token_ != 0) cancellation_->deregister(token_);
  }
  OnCancel(const OnCancel&) = delete;
  OnCancel& operator=(const OnCancel&) = delete;

 private:
  Cancellation* const cancellation_;
  Cancellation::Token token_ = 0;
};

}  // namespace tutti::internal
