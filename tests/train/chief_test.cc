// One chief a job, and what it finds when it comes: on a cluster within this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <future>
#include <thread>

#include "tests/core/temp_directory.h"
#include "tests/support/child_process.h"
#include "tests/train/train_fixture.h"
#include "tutti/core/process_identity.h"
#include "tutti/core/strings.h"
#include "tutti/distributed/in_process_cluster.h"
#include "tutti/io/checkpoint_state.h"
#include "tutti/train/internal/chief_record.h"
#include "tutti/train/monitored_training_session.h"
#include "tutti/train/saver.h"
#include "tutti/train/scaffold.h"

namespace tutti::chief_test {

using namespace std::chrono_literals;
using internal::ChiefRecord;
using internal::ChiefState;

TEST(ChiefState, SurvivesItsText) {
  const ChiefState state{.id = "12-34",
                         .name = "process 7 on node (master grpc://a:1)",
                         .process = "boot/pid:[1] 7 99",
                         .model = "4711",
                         .beat = 5,
                         .phase = ChiefState::Phase::kFailed,
                         .step = 120,
                         .error = "Internal: two\nlines"};
  EXPECT_EQ(internal::decode_chief_state(internal::encode(state)), state);
  for (const char* text :
       {"", "tutti chief 1", "tutti chief 2\na\nb\nc\nd\n1\ntraining\n2\n",
        "tutti chief 1\na\nb\nc\nd\nx\ntraining\n2\n", "tutti chief 1\na\nb\nc\nd\n1\nsleeping\n2\n"}) {
    EXPECT_FALSE(internal::decode_chief_state(text)) << text;
  }
}

// Counts: each step adds one to the global step on ps 0 and 0.5 to w on ps 1, which starts at 10.
struct CountingReplica {
  CountingReplica() : graph(builtin_ops()) {
    {
      const auto on = graph.device_scope("/job:ps/task:0");
      step.emplace(get_or_create_global_step(graph));
    }
    const auto on = graph.device_scope("/job:ps/task:1");
    w.emplace(variable(graph, Tensor::scalar(10.0f), "w"));
    Node* update = w->assign_add(constant(graph, Tensor::scalar(0.5f)));
    const auto after = graph.control_dependencies({update});
    const auto home = graph.device_scope("/job:ps/task:0");
    train = step->assign_add(constant(graph, Tensor::scalar<std::int64_t>(1)), "train");
  }
  Graph graph;
  std::optional<Var> step, w;
  Node* train = nullptr;
};

// Fails the step after it has run, once, as if a task had been lost.
class LoseOnce : public SessionRunHook {
 public:
  void after_run(RunContext&, const RunValues&) override {
    if (std::exchange(due, false)) throw_error(unavailable("the way to ps:1 is lost"));
  }
  bool due = false;
};

class ChiefTest : public ::testing::Test {
 protected:
  ChiefTest() : cluster_(InProcessCluster::start({.workers = 2, .ps = 2, .server = quiet()}).value_or_throw()) {}

  static ServerOptions quiet() {
    ServerOptions options;
    options.log = [](const std::string&) {};
    return options;
  }

  MonitoredTrainingSessionOptions options(int worker, bool is_chief = true) {
    MonitoredTrainingSessionOptions options;
    options.master = cluster_->worker(worker).target();
    options.is_chief = is_chief;
    options.environment.log = lines_.sink();
    options.log_step_count_steps = 0;
    return options;
  }
  std::int64_t step(MonitoredTrainingSession& session, const CountingReplica& replica) {
    return step_value(session.run({}, {*replica.step})[0]);
  }
  float w(MonitoredTrainingSession& session, const CountingReplica& replica) {
    return session.run({}, {*replica.w})[0].scalar<float>();
  }
  // What a chief leaves that dies in its step 5, after `change` of its last word.
  void leave_record(const std::function<void(ChiefState&)>& change) {
    CountingReplica replica;
    {
      Cancellation gone;
      MonitoredTrainingSessionOptions wanted = options(0);
      wanted.environment.cancellation = &gone;
      MonitoredTrainingSession session(replica.graph, wanted);
      for (int i = 0; i < 5; ++i) session.run({replica.train});
      gone.cancel(cancelled("killed"));
      EXPECT_THROW(session.run({replica.train}), Error);
    }
    const ChiefRecord record(replica.graph);
    const auto session = connect(cluster_->target(), replica.graph).value_or_throw();
    std::optional<ChiefState> state = record.read(*session, {}).value_or_throw();
    ASSERT_TRUE(state);
    EXPECT_EQ(state->phase, ChiefState::Phase::kStopped);
    state->id = "other";
    state->name = "process 1 on afar";
    state->phase = ChiefState::Phase::kTraining;
    change(*state);
    ASSERT_TRUE(record.write(*session, *state, {}).ok());
  }
  Status thrown(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.status();
    }
    return {};
  }

  const std::unique_ptr<InProcessCluster> cluster_;
  test::Lines lines_;
};

TEST_F(ChiefTest, ASecondChiefIsRefusedByName) {
  CountingReplica first, second;
  MonitoredTrainingSession session(first.graph, options(0));
  for (int i = 0; i < 5; ++i) session.run({first.train});
  const Status refused = thrown([&] { MonitoredTrainingSession other(second.graph, options(1)); });
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition) << refused.to_string();
  EXPECT_NE(refused.message().find(describe_this_process()), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find(cluster_->worker(0).target()), std::string::npos) << refused.message();
  session.run({first.train});
  EXPECT_EQ(step(session, first), 6) << "the first one goes on, untouched";
}

TEST_F(ChiefTest, AChiefInALivingProcessIsRespectedAndADeadOneSucceededAtOnce) {
  ChildProcess other({"/bin/sleep", "600"});
  leave_record([&](ChiefState& state) { state.process = process_identity(other.id()); });
  CountingReplica replica;
  const Status refused = thrown([&] { MonitoredTrainingSession session(replica.graph, options(0)); });
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_NE(refused.message().find("process 1 on afar"), std::string::npos) << refused.message();

  other.send(SIGKILL);
  other.wait();
  CountingReplica again;
  MonitoredTrainingSession session(again.graph, options(0));
  EXPECT_EQ(lines_.count("to see whether it lives"), 0) << "its process tells";
  EXPECT_EQ(step(session, again), 5) << "its values are kept";
  EXPECT_EQ(w(session, again), 12.5f);
  EXPECT_EQ(lines_.count("All variables still have the values of the earlier chief (process 1 on afar)"), 1);
}

TEST_F(ChiefTest, ASilentChiefElsewhereIsSucceededAfterItsLease) {
  leave_record([](ChiefState& state) { state.process = "elsewhere"; });
  CountingReplica replica;
  MonitoredTrainingSessionOptions wanted = options(0);
  wanted.config.cluster.lease = 1500ms;
  MonitoredTrainingSession session(replica.graph, wanted);
  EXPECT_EQ(lines_.count("Another chief was here: process 1 on afar. Waiting for up to 2 s"), 1);
  EXPECT_EQ(step(session, replica), 5);
}

// Each leaves values that must not be trained on.
TEST_F(ChiefTest, ValuesOfUnknownOriginAreNotKept) {
  for (const auto& change : std::vector<std::function<void(ChiefState&)>>{
           [](ChiefState& state) { state.phase = ChiefState::Phase::kReplacing; },
           [](ChiefState& state) { state.model = "another"; }}) {
    ChildProcess other({"/bin/sleep", "600"});
    leave_record([&](ChiefState& state) {
      state.process = process_identity(other.id());
      change(state);
    });
    other.send(SIGKILL);
    other.wait();
    CountingReplica replica;
    MonitoredTrainingSession session(replica.graph, options(0));
    EXPECT_EQ(step(session, replica), 0);
    EXPECT_EQ(w(session, replica), 10.0f);
    session.close();
  }
}

TEST_F(ChiefTest, AJobMayAskForAFreshStart) {
  leave_record([](ChiefState& state) { state.phase = ChiefState::Phase::kStopped; });
  CountingReplica replica;
  MonitoredTrainingSessionOptions wanted = options(0);
  wanted.keep_values = false;
  MonitoredTrainingSession session(replica.graph, wanted);
  EXPECT_EQ(step(session, replica), 0);
}

TEST_F(ChiefTest, AChiefThatWasReplacedEnds) {
  CountingReplica replica;
  MonitoredTrainingSession session(replica.graph, options(0));
  session.run({replica.train});
  const ChiefRecord record(replica.graph);
  const auto other = connect(cluster_->target(), replica.graph).value_or_throw();
  ChiefState successor = record.read(*other, {}).value_or_throw().value();
  successor.id = "other";
  successor.name = "process 1 on afar";
  ASSERT_TRUE(record.write(*other, successor, {}).ok());
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  Status ended;
  while (ended.ok() && std::chrono::steady_clock::now() < deadline) {
    ended = thrown([&] { session.run({replica.train}); });
  }
  EXPECT_EQ(ended.code(), Code::kFailedPrecondition) << ended.to_string();
  EXPECT_NE(ended.message().find("Another chief has taken over this job: process 1 on afar"), std::string::npos)
      << ended.message();
  EXPECT_EQ(record.read(*other, {}).value_or_throw().value().id, "other") << "its record stays";
}

TEST_F(ChiefTest, AJobThatEndedWellIsFollowedByANewOne) {
  {
    CountingReplica replica;
    MonitoredTrainingSession session(replica.graph, options(0));
    for (int i = 0; i < 3; ++i) session.run({replica.train});
    session.close();
  }
  CountingReplica replica;
  MonitoredTrainingSession session(replica.graph, options(1));
  EXPECT_EQ(step(session, replica), 0);
  EXPECT_EQ(w(session, replica), 10.0f);
}

TEST_F(ChiefTest, AFailedChiefsValuesAreKeptWithoutACheckpoint) {
  leave_record([](ChiefState& state) {
    state.phase = ChiefState::Phase::kFailed;
    state.error = "Internal: why";
  });
  CountingReplica again;
  MonitoredTrainingSession session(again.graph, options(0));
  EXPECT_EQ(step(session, again), 5);
}

TEST_F(ChiefTest, ASessionThatIsLostGoesOnWithWhatItsTasksStillHave) {
  CountingReplica replica;
  const auto lose = std::make_shared<LoseOnce>();
  MonitoredTrainingSessionOptions wanted = options(0);
  wanted.hooks = {lose};
  MonitoredTrainingSession session(replica.graph, wanted);
  for (int i = 0; i < 5; ++i) session.run({replica.train});
  lose->due = true;
  session.run({replica.train});  // this one counts twice: it had run when the session was lost
  EXPECT_EQ(session.sessions_created(), 2);
  EXPECT_EQ(step(session, replica), 7);
  EXPECT_EQ(w(session, replica), 13.5f);
  EXPECT_EQ(lines_.count("All variables still have the values: training goes on"), 1);
}

// Otherwise the checkpoints of the chief before would never be deleted, nor be there to fall back to.
TEST_F(ChiefTest, AChiefThatKeepsValuesTakesOverTheCheckpoints) {
  const TempDirectory directory;
  const auto saved = [&] {
    return read_checkpoint_state(local_file_system(), directory.path()).value_or_throw()->all_model_checkpoint_paths;
  };
  const auto saving = [&](std::int64_t steps) {
    MonitoredTrainingSessionOptions wanted = options(0);
    wanted.checkpoint_dir = directory.path();
    wanted.save_checkpoint_steps = steps;
    wanted.scaffold = std::make_shared<Scaffold>();
    return wanted;
  };
  {
    CountingReplica replica;
    Cancellation gone;
    MonitoredTrainingSessionOptions wanted = saving(1);
    wanted.environment.cancellation = &gone;
    MonitoredTrainingSession session(replica.graph, wanted);
    for (int i = 0; i < 2; ++i) session.run({replica.train});
    wanted.scaffold->saver->wait();
    gone.cancel(cancelled("killed"));
    EXPECT_THROW(session.run({replica.train}), Error);
  }
  const std::vector<std::string> before = saved();
  ASSERT_GE(before.size(), 2u);
  CountingReplica replica;
  const MonitoredTrainingSessionOptions wanted = saving(1'000'000);
  MonitoredTrainingSession session(replica.graph, wanted);
  wanted.scaffold->saver->wait();
  EXPECT_EQ(lines_.count("All variables still have the values"), 1);
  const std::vector<std::string> after = saved();
  for (const std::string& path : before) {
    EXPECT_EQ(std::count(after.begin(), after.end(), path), 1) << path << " is forgotten";
  }
}

class FailsAtTheEnd : public SessionRunHook {
 public:
  void end(Session&) override { throw_error(resource_exhausted("disk full")); }
};

TEST_F(ChiefTest, AnErrorAtTheEndDoesNotMarkTheValuesAsFailed) {
  CountingReplica replica;
  MonitoredTrainingSessionOptions wanted = options(0);
  wanted.hooks = {std::make_shared<FailsAtTheEnd>()};
  {
    MonitoredTrainingSession session(replica.graph, wanted);
    session.run({replica.train});
    EXPECT_EQ(thrown([&] { session.close(); }).code(), Code::kResourceExhausted);
  }
  const ChiefRecord record(replica.graph);
  const auto other = connect(cluster_->target(), replica.graph).value_or_throw();
  EXPECT_EQ(record.read(*other, {}).value_or_throw().value().phase, ChiefState::Phase::kTraining);
}

// A restore may take longer than a lease.
TEST_F(ChiefTest, AChiefBeatsWhileItPrepares) {
  CountingReplica replica;
  const ChiefRecord record(replica.graph);
  std::int64_t most = -1;
  MonitoredTrainingSessionOptions wanted = options(0);
  wanted.scaffold = std::make_shared<Scaffold>();
  wanted.scaffold->init_fn = [&](const Scaffold&, Session& session) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (most < 2 && std::chrono::steady_clock::now() < deadline) {
      const ChiefState state = record.read(session, {}).value_or_throw().value();
      EXPECT_EQ(state.phase, ChiefState::Phase::kReplacing);
      most = std::max(most, state.beat);
    }
  };
  MonitoredTrainingSession session(replica.graph, wanted);
  EXPECT_GE(most, 2);
}

TEST_F(ChiefTest, AWorkerSaysWhatItWaitsFor) {
  CountingReplica worker_replica, chief_replica;
  Cancellation enough;
  MonitoredTrainingSessionOptions wanted = options(1, false);
  wanted.environment.cancellation = &enough;
  auto waiting = std::async(std::launch::async, [&] {
    MonitoredTrainingSession session(worker_replica.graph, wanted);
    return step(session, worker_replica);
  });
  const auto wait_for = [&](const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (lines_.count(text) == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
    if (lines_.count(text) == 0) enough.cancel(cancelled("the test is over"));
    ASSERT_EQ(lines_.count(text), 1) << str_join(lines_.all(), "\n");
  };
  wait_for("Waiting for the chief: none has come yet. One task of the job must be started with is_chief = true.");
  MonitoredTrainingSession chief(chief_replica.graph, options(0));
  EXPECT_EQ(waiting.get(), 0);
}

}  // namespace tutti::chief_test
