#include "tutti/transport/inproc/inproc_channel.h"

#include <gtest/gtest.h>

#include <chrono>

#include "call_support.h"

namespace tutti::inproc_channel_test {

using std::chrono::seconds;
using test::Answer;
using test::call;
using test::start_call;
using test::TestHandler;

bool ended(const std::future<Answer>& future) { return future.wait_for(seconds(0)) == std::future_status::ready; }

class InprocChannelTest : public ::testing::Test {
 protected:
  TestHandler handler_;
  ManualClock clock_;
  std::shared_ptr<Channel> channel_ = make_inproc_channel(handler_, clock_, "worker:0");
};

TEST_F(InprocChannelTest, PassesTheSameBytes) {
  const BufferPtr buffer = heap_allocator().allocate(1 << 20);
  Payload request("head");
  test::append_buffer(request, buffer);
  const Answer answer = call(*channel_, "/echo", request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.to_string();
  ASSERT_EQ(answer.payload.pieces().size(), 2u);
  EXPECT_EQ(answer.payload.pieces()[1].bytes.data(), buffer->data());
  EXPECT_EQ(channel_->describe(), "inproc to worker:0");
}

TEST_F(InprocChannelTest, PassesErrors) {
  const Answer answer = call(*channel_, "/nothing");
  EXPECT_EQ(answer.status, unimplemented("no method /nothing"));
}

TEST_F(InprocChannelTest, CancellationReachesTheHandlerWithItsCause) {
  Cancellation cancellation;
  auto future = start_call(*channel_, "/wait", {}, {.cancellation = &cancellation});
  EXPECT_FALSE(ended(future));
  EXPECT_EQ(handler_.waiting, 1);
  cancellation.cancel(aborted("the step failed"));
  EXPECT_EQ(future.get().status, aborted("the step failed"));
  EXPECT_EQ(handler_.waiting, 0);
}

TEST_F(InprocChannelTest, ACancelledCallerDoesNotCall) {
  Cancellation cancellation;
  cancellation.cancel(aborted("before"));
  EXPECT_EQ(call(*channel_, "/echo", {}, {.cancellation = &cancellation}).status, aborted("before"));
  EXPECT_EQ(handler_.calls, 0);
}

TEST_F(InprocChannelTest, TheDeadlineEndsTheCallAndCancelsTheHandler) {
  auto future = start_call(*channel_, "/wait", {}, {.deadline = clock_.now() + seconds(5)});
  clock_.advance(seconds(4));
  EXPECT_FALSE(ended(future));
  clock_.advance(seconds(1));
  ASSERT_TRUE(ended(future));
  const Answer answer = future.get();
  EXPECT_EQ(answer.status.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(answer.status.message(), "inproc to worker:0 /wait: no answer by the deadline");
  EXPECT_EQ(handler_.waiting, 0);
}

TEST_F(InprocChannelTest, ADeadlineInThePastDoesNotCall) {
  EXPECT_EQ(call(*channel_, "/echo", {}, {.deadline = clock_.now()}).status.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(handler_.calls, 0);
}

TEST_F(InprocChannelTest, ADeadlineThatWasMetLeavesNoTimer) {
  EXPECT_TRUE(call(*channel_, "/echo", {}, {.deadline = clock_.now() + seconds(5)}).status.ok());
  clock_.advance(seconds(10));
}

TEST_F(InprocChannelTest, TheCallersCancellationMayGoWhenTheCallHasEnded) {
  std::future<Answer> future;
  {
    Cancellation cancellation;
    future = start_call(*channel_, "/wait", {}, {.deadline = clock_.now() + seconds(1), .cancellation = &cancellation});
    clock_.advance(seconds(1));
  }
  EXPECT_EQ(future.get().status.code(), Code::kDeadlineExceeded);
}

TEST_F(InprocChannelTest, DestroyingItEndsItsCalls) {
  auto future = start_call(*channel_, "/wait");
  channel_.reset();
  EXPECT_EQ(future.get().status.code(), Code::kCancelled);
  EXPECT_EQ(handler_.waiting, 0);
}

TEST_F(InprocChannelTest, ACallMayDestroyItsChannel) {
  bool done = false;
  Channel* channel = channel_.get();
  channel->call("/echo", Payload("x"), {}, [&](const Status& status, const Payload&) {
    EXPECT_TRUE(status.ok());
    channel_.reset();
    done = true;
  });
  EXPECT_TRUE(done);
}

}  // namespace tutti::inproc_channel_test
