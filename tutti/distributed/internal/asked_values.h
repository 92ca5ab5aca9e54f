// Values of a step that another task has asked for together, at the task that makes them.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "tutti/core/cancellation.h"
#include "tutti/core/mutex.h"
#include "tutti/distributed/worker_interface.h"

namespace tutti::internal {

// Collects them as they are made and gives them to the requests for them, of which there is one at a time. A request is
// answered as soon as something is there; values that a thread makes in one go are answered together (HeldWork), and
// small ones that nobody is in a hurry for when the thread is done with the step, or with the next that goes. The first
// error ends it. Thread-safe; held by shared_ptr.
class AskedValues : public std::enable_shared_from_this<AskedValues> {
 public:
  using Done = ReplyDone<RecvTensorsReply>;

  // A message of gRPC ends at 2 GiB, and it is not known here how the answer goes: what is there beyond half of that
  // comes with the next answer.
  static constexpr std::size_t kMostAnswerBytes = std::size_t{1} << 30;

  // More than `limit_bytes` that wait to be asked for are an error, as in a step's table. `unhurried`: values, by
  // index, as in RecvTensorsRequest. An answer has one value, or several of at most `answer_bytes` together.
  AskedValues(std::size_t count, std::size_t limit_bytes, const std::vector<std::int64_t>& unhurried = {},
              std::size_t answer_bytes = kMostAnswerBytes);

  // Of the waits for the values: fires when nobody asks for them any more.
  Cancellation& cancellation() { return cancellation_; }
  // Answers by `done`, exactly once; with the status of `caller` when that is cancelled first, and then all is over.
  // `caller` lives until then.
  void ask(Cancellation& caller, Done done);
  // A value has been made, or will not be.
  void add(std::size_t index, const Status& status, Tensor value);

 private:
  struct Request {
    Cancellation* caller = nullptr;
    Cancellation::Token token = 0;
    Done done;
  };
  // What is to be told to whom.
  struct Answer {
    Request request;
    Result<RecvTensorsReply> reply;
  };
  // How long what was made may wait.
  enum class Hold { kNot, kBriefly, kToEnd };
  Hold hold_for(std::size_t index) const TUTTI_REQUIRES(mu_);
  std::optional<Answer> take_answer() TUTTI_REQUIRES(mu_);
  RecvTensorsReply take_ready() TUTTI_REQUIRES(mu_);
  static void give(std::optional<Answer> answer);
  void flush();
  void withdraw();

  const std::size_t limit_bytes_;
  const std::size_t answer_bytes_;
  std::vector<bool> unhurried_;  // by value; constant
  Cancellation cancellation_;

  Mutex mu_;
  Status status_ TUTTI_GUARDED_BY(mu_);
  std::size_t missing_ TUTTI_GUARDED_BY(mu_);     // values that were not made
  RecvTensorsReply ready_ TUTTI_GUARDED_BY(mu_);  // those that were not given
  std::size_t ready_bytes_ TUTTI_GUARDED_BY(mu_) = 0;
  Hold held_ TUTTI_GUARDED_BY(mu_) = Hold::kNot;  // a flush will come, and when
  std::optional<Request> request_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::internal
