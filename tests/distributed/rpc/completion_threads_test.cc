#include "tutti/distributed/rpc/internal/completion_threads.h"

#include <grpcpp/alarm.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <thread>

namespace tutti::rpc_internal {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kPatience{20};

// An operation of a queue that ends by itself after a while.
class Timed final : public CompletionTag {
 public:
  Timed(grpc::CompletionQueue& queue, milliseconds after) {
    alarm_.Set(&queue, std::chrono::system_clock::now() + after, as_tag());
  }
  bool wait() { return worked_.get_future().wait_for(kPatience) == std::future_status::ready; }

  bool arrived(bool) override { return true; }
  void work() override { worked_.set_value(); }

 private:
  grpc::Alarm alarm_;
  std::promise<void> worked_;
};

std::chrono::microseconds cpu_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

TEST(CompletionThreads, FindWhatComesSoonAndLateWhileALargeAnswerComes) {
  grpc::CompletionQueue queue;
  CompletionThreads threads("test", 2, queue);
  std::shared_ptr<void> answer = threads.large_answer();
  std::deque<Timed> operations;
  for (int i = 0; i < 40; ++i) operations.emplace_back(queue, milliseconds(i % 4));
  for (Timed& operation : operations) EXPECT_TRUE(operation.wait());
  for (const int pause : {0, 1, 3, 30}) EXPECT_TRUE(Timed(queue, milliseconds(pause)).wait()) << pause;
  answer.reset();
  EXPECT_TRUE(Timed(queue, milliseconds(3)).wait());
}

// A peer that promises a large answer and falls silent does not cost its caller a core.
TEST(CompletionThreads, LookAwakeForAMomentOnly) {
  constexpr milliseconds kSilence{400};
  grpc::CompletionQueue queue;
  CompletionThreads threads("test", 2, queue);
  std::shared_ptr<void> answer = threads.large_answer();
  EXPECT_TRUE(Timed(queue, milliseconds(1)).wait());
  const auto before = cpu_time();
  std::this_thread::sleep_for(kSilence);
  EXPECT_LT(cpu_time() - before, kSilence / 4);
  answer.reset();
}

// Nor while other calls come and go.
TEST(CompletionThreads, LookAwakeForLargeAnswersOnly) {
  grpc::CompletionQueue queue;
  CompletionThreads threads("test", 2, queue);
  std::shared_ptr<void> answer = threads.large_answer();
  const auto before = cpu_time();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(Timed(queue, milliseconds(1)).wait());
  EXPECT_LT(cpu_time() - before, (std::chrono::steady_clock::now() - begin) / 3);
  answer.reset();
}

// Its work, said to be brief, ends when told to.
class Brief final : public CompletionTag {
 public:
  explicit Brief(grpc::CompletionQueue& queue) { alarm_.Set(&queue, std::chrono::system_clock::now(), as_tag()); }
  bool wait() { return worked_.get_future().wait_for(kPatience) == std::future_status::ready; }

  bool arrived(bool) override { return true; }
  void work() override {
    end.get_future().wait();
    worked_.set_value();
  }
  bool brief() const override { return true; }

  std::promise<void> end;

 private:
  grpc::Alarm alarm_;
  std::promise<void> worked_;
};

// One that takes long after all does not keep the others.
TEST(CompletionThreads, BriefWorkThatTakesLongIsPassed) {
  grpc::CompletionQueue queue;
  CompletionThreads threads("test", 2, queue);
  Brief slow(queue);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Timed(queue, milliseconds(i)).wait()) << i;
  slow.end.set_value();
  EXPECT_TRUE(slow.wait());
}

}  // namespace
}  // namespace tutti::rpc_internal
