#include "tutti/runtime/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <set>
#include <thread>

namespace tutti::session_test {

// Counts callables; runs end when the test says so, where it holds them.
class CountingSession : public Session {
 public:
  Result<CallableId> make_callable(const Signature& signature) override {
    made.push_back(signature.fetches.at(0));
    return static_cast<CallableId>(made.size());
  }
  void run_callable_async(CallableId callable, std::vector<Tensor>, const RunOptions&, Done done) override {
    EXPECT_EQ(std::count(released.begin(), released.end(), callable), 0) << "it runs a callable that was released";
    if (hold) {
      held.push_back(std::move(done));
    } else {
      done({}, {});
    }
  }
  Status release_callable(CallableId callable) override {
    released.push_back(callable);
    return {};
  }
  Result<std::string> partial_run_setup(const Signature&, const RunOptions&) override {
    return unimplemented("partial runs");
  }
  Result<std::vector<Tensor>> partial_run(const std::string&, const Feeds&, const std::vector<TensorName>&) override {
    return unimplemented("partial runs");
  }
  Status extend(std::string_view) override { return {}; }
  std::vector<std::string> list_devices() override { return {}; }
  Status close() override { return {}; }

  std::vector<std::string> made;
  std::vector<CallableId> released;
  bool hold = false;
  std::vector<Done> held;
};

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

constexpr int kKept = 1024;

std::string name(int i) { return str_cat("n", i, ":0"); }

TEST(SessionTest, ASignatureIsCompiledOnce) {
  CountingSession session;
  for (int i = 0; i < 3; ++i) {
    session.run({}, {"a:0"});
    session.run({}, {"b:0"});
  }
  EXPECT_EQ(session.made, (std::vector<std::string>{"a:0", "b:0"}));
  EXPECT_TRUE(session.released.empty());
}

TEST(SessionTest, TheLeastRecentlyRunSignaturesAreReleased) {
  CountingSession session;
  for (int i = 0; i < kKept; ++i) session.run({}, {name(i)});
  session.run({}, {name(0)});
  EXPECT_TRUE(session.released.empty());
  for (int i = kKept; i < kKept + 3; ++i) session.run({}, {name(i)});
  EXPECT_EQ(session.released, (std::vector<Session::CallableId>{2, 3, 4}));
  session.run({}, {name(0)});
  EXPECT_EQ(session.made.size(), std::size_t{kKept} + 3);
  session.run({}, {name(1)});  // compiled again
  EXPECT_EQ(session.made.size(), std::size_t{kKept} + 4);
}

TEST(SessionTest, ASignatureThatRunsIsNotReleased) {
  CountingSession session;
  session.hold = true;
  int ended = 0;
  session.run_async({}, {name(0)}, {}, {}, [&ended](const Status&, const std::vector<Tensor>&) { ++ended; });
  session.hold = false;
  for (int i = 1; i <= kKept; ++i) session.run({}, {name(i)});
  EXPECT_EQ(session.released, std::vector<Session::CallableId>{2});
  session.held.at(0)({}, {});
  EXPECT_EQ(ended, 1);
  session.run({}, {name(kKept + 1)});
  EXPECT_EQ(session.released, (std::vector<Session::CallableId>{2, 1}));
}

TEST(SessionTest, ASignatureThatTwoThreadsCompileAtOnceIsKeptOnce) {
  PairedSession session;
  auto run = [&] { EXPECT_TRUE(session.try_run({}, {"x"}).ok()); };
  std::thread other(run);
  run();
  other.join();
  EXPECT_EQ(session.held(), 1u);
  run();  // and that one is still there
}

}  // namespace tutti::session_test
