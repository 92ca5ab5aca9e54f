#pragma once

#include <functional>
#include <utility>

#include "tutti/train/hooks.h"

namespace tutti {

// Feeds each step with what a function gives.
class FeedFnHook : public SessionRunHook {
 public:
  explicit FeedFnHook(std::function<Feeds()> feed_fn) : feed_fn_(std::move(feed_fn)) {}
  std::optional<RunArgs> before_run(RunContext& context) override;

 private:
  const std::function<Feeds()> feed_fn_;
};

}  // namespace tutti
