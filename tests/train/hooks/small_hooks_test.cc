// FeedFn, FinalOps, NanTensor, GlobalStepWaiter: hooks of a few lines.
#include <atomic>
#include <future>
#include <limits>

#include "tests/train/hooks/hook_fixture.h"
#include "tutti/ops/builders.h"
#include "tutti/train/hooks/feed_fn_hook.h"
#include "tutti/train/hooks/final_ops_hook.h"
#include "tutti/train/hooks/global_step_waiter_hook.h"
#include "tutti/train/hooks/nan_tensor_hook.h"

namespace tutti::small_hooks_test {

using namespace std::chrono_literals;
using test::thrown_by;
using SmallHooksTest = test::HookTest;

TEST_F(SmallHooksTest, FeedFnIsAskedForEveryStep) {
  const Output fed = placeholder(job.graph, DType::kFloat, PartialShape::scalar(), "fed");
  const Output value = op1("Identity", {fed});
  float next = 0;
  MonitoredSession monitored = session({FeedFnHook([&] { return Feeds{{fed, Tensor::scalar(++next)}}; })});
  EXPECT_EQ(monitored.run({}, {value})[0].scalar<float>(), 1);
  EXPECT_EQ(monitored.run({}, {value})[0].scalar<float>(), 2);
}

TEST_F(SmallHooksTest, FinalOpsRunOnceAtTheEnd) {
  const Output fed = placeholder(job.graph, DType::kFloat, PartialShape::scalar(), "fed");
  const Output sum = op1("Add", {fed, *job.w});
  const auto final_ops =
      std::make_shared<FinalOpsHook>(FinalOpsOptions{.fetches = {sum}, .feeds = {{fed, Tensor::scalar(100.0f)}}});
  MonitoredSession monitored = session({final_ops});
  run_steps(monitored, 2);
  EXPECT_TRUE(final_ops->final_ops_values().empty());
  monitored.close();
  ASSERT_EQ(final_ops->final_ops_values().size(), 1u);
  EXPECT_EQ(final_ops->final_ops_values()[0].scalar<float>(), 111);
}

TEST_F(SmallHooksTest, FinalOpsThatReadInputSaySo) {
  const Output count =
      add_op(job.graph, "ResourceCountUpTo", {job.step->handle()}, {{"limit", std::int64_t{0}}, {"T", DType::kInt64}})
          ->output();
  MonitoredSession monitored = session({FinalOpsHook({.fetches = {count}})});
  const Status status = thrown_by([&] { monitored.close(); });
  EXPECT_EQ(status.code(), Code::kOutOfRange);
  EXPECT_NE(status.message().find("FinalOpsHook"), std::string::npos) << status.message();
}

TEST_F(SmallHooksTest, NanEndsTheJobOneWayOrTheOther) {
  const Output loss = placeholder(job.graph, DType::kFloat, {}, "loss");
  const Feeds fine{{loss, Tensor::vector<float>({1, 2})}};
  const Feeds nan{{loss, Tensor::vector<float>({1, std::numeric_limits<float>::quiet_NaN()})}};
  {
    MonitoredSession monitored = session({NanTensorHook(loss)});
    monitored.run(fine, {loss});
    EXPECT_THROW(monitored.run(nan, {loss}), NanLossDuringTrainingError);
  }
  EXPECT_EQ(NanLossDuringTrainingError().status().message(), "NaN loss during training.");
  MonitoredSession monitored = session({NanTensorHook(loss, {.fail_on_nan_loss = false})});
  monitored.run(fine, {loss});
  EXPECT_FALSE(monitored.should_stop());
  monitored.run(nan, {loss});
  EXPECT_TRUE(monitored.should_stop());
  EXPECT_EQ(surroundings.lines.count("Model diverged with loss = NaN"), 2);
}

TEST_F(SmallHooksTest, AWaiterLetsTheOthersBegin) {
  creator.config.local.runtime = std::make_shared<LocalRuntime>();
  LocalSession other(job.graph, creator.config.local);
  Node* init = global_variables_initializer(job.graph);
  creator.scaffold->init_op = no_op(job.graph);  // the other one does it
  other.run({init});
  auto first = std::async(std::launch::async, [&] {
    SingularMonitoredSession monitored(job.graph, creator, {.hooks = {GlobalStepWaiterHook(3)}});
    monitored.run({job.train});
    return read_global_step(monitored.raw_session(), *job.step);
  });
  while (surroundings.lines.count("Waiting for global step 3 before starting training.") == 0) {
    ASSERT_NE(first.wait_for(1ms), std::future_status::ready);
  }
  for (int i = 0; i < 3; ++i) other.run({job.train});
  while (first.wait_for(1ms) != std::future_status::ready) surroundings.clock->advance(100ms);
  EXPECT_EQ(first.get(), 4);
}

TEST_F(SmallHooksTest, AWaiterForNothingDoesNotWait) {
  MonitoredSession monitored = session({GlobalStepWaiterHook(0)});
  monitored.run({job.train});
  EXPECT_EQ(surroundings.lines.count("Waiting"), 0);
}

TEST_F(SmallHooksTest, AWaiterEndsWithTheJob) {
  Cancellation cancellation;
  creator.environment.cancellation = &cancellation;
  auto waiting = std::async(std::launch::async, [&] {
    return thrown_by([&] {
      MonitoredSession monitored = session({GlobalStepWaiterHook(3)});
      monitored.run({job.train});
    });
  });
  while (surroundings.lines.count("Waiting for global step 3") == 0) {
    ASSERT_NE(waiting.wait_for(1ms), std::future_status::ready);
  }
  cancellation.cancel(cancelled("enough"));
  EXPECT_EQ(waiting.get(), cancelled("enough"));
}

}  // namespace tutti::small_hooks_test
