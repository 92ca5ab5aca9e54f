// Readers of the queue era: units of work come from a queue, records go to steps.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/kernels/resources/queue.h"
#include "tutti/ops/host/internal/work_source.h"

namespace tutti {

// Serves one caller at a time, in order of their arrival. A caller waits for its turn, and then for the queue, without
// a thread; files are read on the task's blocking threads. Thread-safe.
class Reader : public Resource, public WaitingRoom, public std::enable_shared_from_this<Reader> {
 public:
  struct Records {
    std::vector<std::string> keys, values;
  };
  using ReadDone = std::function<void(Status, Records)>;
  using Done = std::function<void(Status)>;

  // `kind`: what messages call it, "TextLineReader".
  static Result<std::shared_ptr<Reader>> create(std::string kind, std::string name, std::unique_ptr<WorkSource> source);

  // Up to `count` records; fewer where a unit of work ends, but at least one unless `count` is 0. Takes work from
  // `queue` when it has none. `done` runs exactly once: with records, with the queue's error (kOutOfRange once it is
  // closed and empty), with the file's, or with kCancelled. `ctx` must live until then.
  void read(KernelContext& ctx, std::shared_ptr<Queue> queue, std::int64_t count, ReadDone done);

  // When their turn comes.
  void reset(Cancellation& cancellation, Done done);
  // kUnimplemented for readers that are inside a file.
  void serialize(Cancellation& cancellation, std::function<void(Status, std::string)> done);
  void restore(KernelContext& ctx, std::string state, Done done);

  std::int64_t records_produced() const;
  std::int64_t work_units_completed() const;

  const std::string& kind() const { return kind_; }
  std::string debug_string() const override;
  void abandon() override;

 private:
  struct Request;
  struct Progress {
    std::int64_t started = 0, finished = 0, records = 0;
    std::string work;  // the last
  };

  Reader(std::string kind, std::string name, std::unique_ptr<WorkSource> source, std::shared_ptr<Queue> turn);

  void take_turn(Cancellation& cancellation, std::function<void(Status)> then);
  void give_turn_back();
  // With the turn, on a blocking thread: reads, or waits for work and goes on.
  void work(const std::shared_ptr<Request>& request);
  Status begin_work(Request& request, const Queue::Tuple& tuple);
  Status read_records(Request& request);
  void finish(const std::shared_ptr<Request>& request, Status status);
  Progress progress() const;
  void set_progress(Progress progress);

  const std::string kind_;
  const std::string name_;
  const std::shared_ptr<Queue> turn_;         // holds one tuple while nobody has the turn
  const std::unique_ptr<WorkSource> source_;  // of who has the turn
  mutable Mutex mu_;
  Progress progress_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti
