// One chief a job, and what it finds when it comes: on a cluster within this process.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <future>

#include "tests/train/train_fixture.h"
#include "tutti/core/process_identity.h"
#include "tutti/core/strings.h"
#include "tutti/distributed/in_process_cluster.h"
#include "tutti/train/internal/chief_record.h"
#include "tutti/train/monitored_training_session.h"

namespace tutti::chief_test {

using namespace std::chrono_literals;
using internal::ChiefRecord;
using internal::ChiefState;

TEST(ChiefState, SurvivesItsText) {
  const ChiefState state{.id = "12-34",
                         .name = "process 7 on node (master grpc://a:1)",
                         .process = "boot/pid:[1] 7 99",
                         .beat = 5,
                         .phase = ChiefState::Phase::kFailed,
                         .step = 120,
                         .error = "Internal: two\nlines"};
  EXPECT_EQ(internal::decode_chief_state(internal::encode(state)), state);
  for (const char* text : {"", "tutti chief 1", "tutti chief 2\na\nb\nc\n1\ntraining\n2\n",
                           "tutti chief 1\na\nb\nc\nx\ntraining\n2\n", "tutti chief 1\na\nb\nc\n1\nsleeping\n2\n"}) {
    EXPECT_FALSE(internal::decode_chief_state(text)) << text;
  }
}

// A process that does nothing until it is killed.
class Sleeper {
 public:
  Sleeper() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    child_ = fork();
    if (child_ == 0) {
      const std::string identity = process_identity();
      const ssize_t written = write(ends[1], identity.data(), identity.size());
      static_cast<void>(written);
      pause();
      _exit(0);
    }
    std::array<char, 256> text{};
    const ssize_t length = read(ends[0], text.data(), text.size());
    identity_.assign(text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    close(ends[0]);
    close(ends[1]);
  }
  ~Sleeper() { end(); }
  const std::string& identity() const { return identity_; }
  void end() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = -1;
  }

 private:
  pid_t child_ = -1;
  std::string identity_;
};

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
  ChiefTest() : cluster_(InProcessCluster::start({.workers = 2, .ps = 2}).value_or_throw()) {}

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
  // As a chief of another process would have left it, at this step.
  void leave_record(CountingReplica& replica, const std::string& process, ChiefState::Phase phase, std::int64_t step) {
    const ChiefRecord record(replica.graph);
    const auto session = connect(cluster_->target(), replica.graph).value_or_throw();
    session->run({global_variables_initializer(replica.graph)});
    for (std::int64_t i = 0; i < step; ++i) session->run({replica.train});
    const ChiefState state{.id = "other",
                           .name = "process 1 on afar",
                           .process = process,
                           .phase = phase,
                           .step = step,
                           .error = phase == ChiefState::Phase::kFailed ? "Internal: why" : ""};
    ASSERT_TRUE(record.write(*session, state, {}).ok());
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
  Sleeper other;
  CountingReplica replica;
  leave_record(replica, other.identity(), ChiefState::Phase::kTraining, 7);
  const Status refused = thrown([&] { MonitoredTrainingSession session(replica.graph, options(0)); });
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_NE(refused.message().find("process 1 on afar"), std::string::npos) << refused.message();

  other.end();
  CountingReplica again;
  const auto begin = std::chrono::steady_clock::now();
  MonitoredTrainingSession session(again.graph, options(0));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s) << "no lease had to run out";
  EXPECT_EQ(step(session, again), 7) << "its values are kept";
  EXPECT_EQ(w(session, again), 13.5f);
  EXPECT_EQ(lines_.count("All variables still have the values of the earlier chief (process 1 on afar)"), 1);
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
  CountingReplica replica;
  leave_record(replica, "elsewhere", ChiefState::Phase::kFailed, 4);
  CountingReplica again;
  MonitoredTrainingSession session(again.graph, options(0));
  EXPECT_EQ(step(session, again), 4);
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
  leave_record(chief_replica, "elsewhere", ChiefState::Phase::kPreparing, 0);
  // It has values now, and the worker is content.
  EXPECT_EQ(waiting.get(), 0);
}

}  // namespace tutti::chief_test
