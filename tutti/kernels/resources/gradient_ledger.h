// Who sent gradients, and what became of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/core/resource_handle.h"
#include "tutti/core/status.h"
#include "tutti/kernels/kernel.h"

namespace tutti {

enum class GradientFate {
  kApplied,  // taken for an update, or added to what the next one takes
  kStale,    // dropped: computed for a step that was over, or kept for one that was begun anew before its update
  kRetried,  // the same shard of the same step had come before: counted once, by its first coming
};

// The counts of a task's accumulators, for each of them and each worker. One in every container that has an
// accumulator. It only grows while the container stands. Thread-safe.
class GradientLedger : public Resource {
 public:
  // Of the resource, in its container.
  static constexpr std::string_view kName = "tutti/gradient_ledger";
  // The attribute of a node that sends gradients by which its worker makes itself known.
  static constexpr std::string_view kWorkerAttr = "_tutti_worker";
  // Who does not.
  static constexpr std::string_view kUnknown = "unknown";
  // Rows beyond these are counted together as those of kOthers: names come from outside.
  static constexpr std::size_t kMaxRows = 1 << 16;
  static constexpr std::string_view kOthers = "others";
  static constexpr std::size_t kMaxWorkerName = 256;

  struct Row {
    std::string worker;
    std::string accumulator;
    std::int64_t applied = 0;
    std::int64_t stale = 0;
    std::int64_t retried = 0;
  };

  // An empty `worker` is kUnknown.
  void count(std::string_view worker, std::string_view accumulator, GradientFate fate);
  // In order of worker and accumulator.
  std::vector<Row> rows() const;
  std::string debug_string() const override { return "gradient ledger"; }

 private:
  using Key = std::pair<std::string, std::string>;
  mutable Mutex mu_;
  std::map<Key, Row> rows_ TUTTI_GUARDED_BY(mu_);
};

// The ledger of a container, made when it is new. kInvalidArgument when something else has its name.
Result<std::shared_ptr<GradientLedger>> gradient_ledger_in(ResourceStore& resources, std::string_view container);
// That of the container of an accumulator that a kernel makes; null, so that nobody counts, where there is none.
std::shared_ptr<GradientLedger> ledger_for(KernelContext& ctx, const ResourceSlot& accumulator);

// kInvalidArgument for a name that is too long.
Status check_worker_name(std::string_view worker);

}  // namespace tutti
