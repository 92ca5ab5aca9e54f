#include "tutti/runtime/session.h"

#include <gtest/gtest.h>

#include <barrier>
#include <set>
#include <thread>

namespace tutti::session_test {

// Compiles nothing. Two threads that ask for a callable wait for each other.
class PairedSession : public Session {
 public:
  Result<CallableId> make_callable(const Signature&) override {
    both_.arrive_and_wait();
    MutexLock lock(mu_);
    held_.insert(next_);
    return next_++;
  }
  void run_callable_async(CallableId callable, std::vector<Tensor>, const RunOptions&, Done done) override {
    MutexLock lock(mu_);
    done(held_.contains(callable) ? Status() : invalid_argument("there is no callable ", callable), {});
  }
  Status release_callable(CallableId callable) override {
    MutexLock lock(mu_);
    return held_.erase(callable) == 1 ? Status() : invalid_argument("there is no callable ", callable);
  }
  Result<std::string> partial_run_setup(const Signature&, const RunOptions&) override { return unimplemented(""); }
  Result<std::vector<Tensor>> partial_run(const std::string&, const Feeds&, const std::vector<TensorName>&) override {
    return unimplemented("");
  }
  Status extend(std::string_view) override { return {}; }
  std::vector<std::string> list_devices() override { return {}; }
  Status close() override { return {}; }
  std::size_t held() {
    MutexLock lock(mu_);
    return held_.size();
  }

 private:
  std::barrier<> both_{2};
  Mutex mu_;
  CallableId next_ TUTTI_GUARDED_BY(mu_) = 1;
  std::set<CallableId> held_ TUTTI_GUARDED_BY(mu_);
};

TEST(Session, ASignatureThatTwoThreadsCompileAtOnceIsKeptOnce) {
  PairedSession session;
  auto run = [&] { EXPECT_TRUE(session.try_run({}, {"x"}).ok()); };
  std::thread other(run);
  run();
  other.join();
  EXPECT_EQ(session.held(), 1u);
  run();  // and that one is still there
}

}  // namespace tutti::session_test
