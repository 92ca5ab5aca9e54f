// A place where one step leaves tuples of tensors for a later one.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/cancellation.h"
#include "tutti/core/mutex.h"
#include "tutti/core/resource_handle.h"
#include "tutti/core/status.h"
#include "tutti/kernels/resources/internal/waiter.h"
#include "tutti/kernels/resources/tuple_store.h"
#include "tutti/kernels/resources/waiting_room.h"

namespace tutti {

struct StagingLimits {
  std::int64_t tuples = 0;  // 0: no limit
  std::int64_t bytes = 0;   // 0: no limit
};

// First in, first out. Calls never block: one that cannot be served waits in line, holding no thread, until it is, or
// `cancellation` fires (kCancelled), or the area was destroyed or its container reset (kAborted); then `done` runs
// exactly once, with no lock held, possibly before the call returns. `cancellation` must live until `done` has begun.
// Thread-safe.
class StagingArea : public Resource, public WaitingRoom, public std::enable_shared_from_this<StagingArea> {
 public:
  using Done = std::function<void(Status, TensorTuple)>;

  StagingArea(std::string name, StagingLimits limits);

  // Waits for room. kResourceExhausted: the tuple alone is larger than the limit.
  void put(TensorTuple tuple, Cancellation& cancellation, Done done);
  // Takes the oldest tuple.
  void get(Cancellation& cancellation, Done done);
  // The tuple that is `index` behind the oldest, which stays.
  void peek(std::int64_t index, Cancellation& cancellation, Done done);

  std::int64_t size() const;
  void clear();

  std::string debug_string() const override;
  void abandon() override;

 private:
  struct Visitor : Waiter<TensorTuple> {
    std::int64_t bytes = 0;  // of who puts
    std::int64_t index = 0;  // of who peeks
  };
  using VisitorPtr = std::shared_ptr<Visitor>;
  using Line = std::list<VisitorPtr>;

  void enter(Line StagingArea::*line, const VisitorPtr& visitor, Cancellation& cancellation, Done done);
  void leave(Line StagingArea::*line, const VisitorPtr& visitor);
  void serve(std::vector<VisitorPtr>* finished) TUTTI_REQUIRES(mu_);
  bool serve_put(std::vector<VisitorPtr>* finished) TUTTI_REQUIRES(mu_);
  bool serve_get(std::vector<VisitorPtr>* finished) TUTTI_REQUIRES(mu_);
  void serve_peeks(std::vector<VisitorPtr>* finished) TUTTI_REQUIRES(mu_);
  bool has_room_for(std::int64_t bytes) const TUTTI_REQUIRES(mu_);
  Status abandoned_error() const;

  const std::string name_;
  const StagingLimits limits_;
  mutable Mutex mu_;
  std::deque<TensorTuple> tuples_ TUTTI_GUARDED_BY(mu_);
  std::int64_t bytes_ TUTTI_GUARDED_BY(mu_) = 0;
  bool abandoned_ TUTTI_GUARDED_BY(mu_) = false;
  Line puts_ TUTTI_GUARDED_BY(mu_);
  Line gets_ TUTTI_GUARDED_BY(mu_);
  Line peeks_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti
