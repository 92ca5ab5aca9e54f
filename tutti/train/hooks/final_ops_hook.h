#pragma once

#include <utility>
#include <vector>

#include "tutti/train/hooks.h"

namespace tutti {

struct FinalOpsOptions {
  std::vector<TensorName> fetches = {};
  std::vector<NodeName> targets = {};
  Feeds feeds = {};
};

// Runs something once at the end, and keeps what it gives. To ask for it, give the session a shared pointer.
class FinalOpsHook : public SessionRunHook {
 public:
  explicit FinalOpsHook(FinalOpsOptions options) : options_(std::move(options)) {}

  // kOutOfRange names the hook: what it runs must not read further input.
  void end(Session& session) override;
  // Of the fetches; none before the end.
  const std::vector<Tensor>& final_ops_values() const { return values_; }

 private:
  const FinalOpsOptions options_;
  std::vector<Tensor> values_;
};

}  // namespace tutti
