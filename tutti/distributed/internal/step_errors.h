// From what the tasks of a step report to what the client reads.
#pragma once

#include <string>
#include <vector>

#include "tutti/core/status.h"

namespace tutti::internal {

// The failures of one step's parts. A failure is derived when another one caused it: a cancellation that came after
// the step had failed, or the error of another task as it travelled on. Not thread-safe.
class StepErrors {
 public:
  // In the order of arrival. `after_cancel`: the step had been cancelled before this came.
  void add(const std::string& task, const Status& status, bool after_cancel);
  bool empty() const { return errors_.empty(); }
  // Whether any came before the step was cancelled.
  bool has_first_hand() const;
  // As TensorFlow words it: each message under "From /job:...:\n"; of several causes all are listed, the code is that
  // of the first which is not kCancelled; what is derived is counted only. REQUIRES: !empty()
  Status summary(std::size_t succeeded) const;

 private:
  struct Entry {
    std::string task;
    Status status;
    bool after_cancel;
  };
  bool is_derived(std::size_t index) const;

  std::vector<Entry> errors_;
};

// "From /job:ps/replica:0/task:0:\n" before the message.
Status from_task(const std::string& task, const Status& status);

}  // namespace tutti::internal
