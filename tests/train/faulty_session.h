// Sessions that lose a task when a test says so.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/runtime/local_session.h"

namespace tutti::test {

// Makes local sessions, each with variables of its own, that fail on demand. Outlives them. Thread-safe.
class SessionFaults {
 public:
  std::function<Result<std::unique_ptr<Session>>(Graph&)> connect() {
    return [this](Graph& graph) -> Result<std::unique_ptr<Session>> {
      TUTTI_RETURN_IF_ERROR(next_connect());
      return std::unique_ptr<Session>(std::make_unique<FaultySession>(graph, *this));
    };
  }
  // The next run of any session fails; the run after it is fine.
  void fail_next_run(Status status) {
    MutexLock lock(mu_);
    next_run_ = std::move(status);
  }
  void fail_connects(int count, Status status) {
    MutexLock lock(mu_);
    connects_to_fail_ = count;
    connect_status_ = std::move(status);
  }
  // Of the last signature that was new.
  std::size_t last_fetches() const {
    MutexLock lock(mu_);
    return last_fetches_;
  }

 private:
  class FaultySession : public LocalSession {
   public:
    FaultySession(Graph& graph, SessionFaults& faults) : LocalSession(graph), faults_(faults) {}
    Result<CallableId> make_callable(const Signature& signature) override {
      faults_.note(signature);
      return LocalSession::make_callable(signature);
    }
    void run_callable_async(CallableId callable, std::vector<Tensor> feeds, const RunOptions& options,
                            Done done) override {
      if (Status status = faults_.take_run(); !status.ok()) return done(std::move(status), {});
      LocalSession::run_callable_async(callable, std::move(feeds), options, std::move(done));
    }

   private:
    SessionFaults& faults_;
  };

  Status next_connect() {
    MutexLock lock(mu_);
    if (connects_to_fail_ == 0) return {};
    --connects_to_fail_;
    return connect_status_;
  }
  Status take_run() {
    MutexLock lock(mu_);
    return std::exchange(next_run_, Status());
  }
  void note(const Signature& signature) {
    MutexLock lock(mu_);
    last_fetches_ = signature.fetches.size();
  }

  mutable Mutex mu_;
  Status next_run_ TUTTI_GUARDED_BY(mu_);
  int connects_to_fail_ TUTTI_GUARDED_BY(mu_) = 0;
  Status connect_status_ TUTTI_GUARDED_BY(mu_);
  std::size_t last_fetches_ TUTTI_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti::test
