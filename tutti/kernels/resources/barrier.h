// Brings together the components of tuples that arrive one by one, each under its tuple's key.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tutti/core/cancellation.h"
#include "tutti/core/mutex.h"
#include "tutti/core/resource_handle.h"
#include "tutti/core/status.h"
#include "tutti/kernels/resources/queue.h"
#include "tutti/kernels/resources/waiting_room.h"

namespace tutti {

struct BarrierOptions {
  std::string name;
  std::vector<DType> component_types;
  std::vector<PartialShape> shapes;  // of one value each, fully known; empty: whatever comes, and nothing can be taken
  bool operator==(const BarrierOptions&) const = default;
};

// Tuples leave in the order of the calls that brought their keys; those of one call as they become complete.
// Thread-safe.
class Barrier : public Resource, public WaitingRoom {
 public:
  static Result<std::shared_ptr<Barrier>> create(BarrierOptions options);

  const BarrierOptions& options() const { return options_; }

  // One value for each key, rows of `values`. All or nothing. kInvalidArgument: a key that has this component, a value
  // that does not fit. kCancelled: the barrier is closed for such keys.
  Status insert_many(std::int64_t component, const Tensor& keys, const Tensor& values);

  // `count` complete tuples: the numbers of their calls, their keys, and each component stacked. Waits for them. Of a
  // closed barrier `allow_fewer` takes as many as are complete, without waiting for others; kOutOfRange where that is
  // none, or where without it there will not be `count`. `done` as Queue's.
  void take_many(std::int64_t count, bool allow_fewer, Cancellation& cancellation, Queue::DequeueDone done);

  // No new keys after this; nor new values, with `cancel_pending`. kCancelled: it was closed so before.
  Status close(bool cancel_pending);

  std::int64_t ready_size() const { return ready_->size(); }
  std::int64_t incomplete_size() const;

  std::string debug_string() const override;
  void abandon() override { ready_->abandon(); }

 private:
  struct Entry {
    std::int64_t number = 0;  // of the call that brought the key; the first is the least integer
    TensorTuple values;       // a tensor without value: not there yet
    std::size_t missing = 0;
  };

  Barrier(BarrierOptions options, std::shared_ptr<Queue> ready);
  Status check_values(std::int64_t component, const Tensor& keys, const Tensor& values) const;
  Status check_keys(std::size_t component, const Tensor& keys) const TUTTI_REQUIRES(mu_);
  // Whether the key is new. Gives the tuple to `complete` when nothing is missing any more.
  bool add(std::size_t component, const std::string& key, Tensor value, std::vector<TensorTuple>* complete)
      TUTTI_REQUIRES(mu_);
  Status make_ready(std::vector<TensorTuple> complete);
  // Of a closed barrier: kOutOfRange when a take asks for more than there will be. With `allow_fewer` makes `count`
  // small enough for what is complete now.
  Status limit_to_available(bool allow_fewer, std::int64_t* count) const;
  // Lets those who wait for more tuples know, once there will be none.
  void end_if_complete();

  const BarrierOptions options_;
  // A priority queue of number, key and components.
  const std::shared_ptr<Queue> ready_;
  mutable Mutex mu_;
  std::unordered_map<std::string, Entry> incomplete_ TUTTI_GUARDED_BY(mu_);
  std::int64_t next_number_ TUTTI_GUARDED_BY(mu_);
  std::int64_t entering_ TUTTI_GUARDED_BY(mu_) = 0;  // complete tuples that are on the way to ready_
  bool closed_ TUTTI_GUARDED_BY(mu_) = false;
  bool ended_ TUTTI_GUARDED_BY(mu_) = false;  // ready_ is closed
  bool refuses_values_ TUTTI_GUARDED_BY(mu_) = false;
};

}  // namespace tutti
