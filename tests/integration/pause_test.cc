// Parameter servers that stop for a while, as a VM that is migrated or a process that is swapped out does: training
// goes on afterwards where it was, in the same sessions. Under TUTTI_STRESS the pauses are longer, and of all kinds.
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <thread>

#include "tests/integration/process_cluster.h"
#include "tests/integration/training_job.h"
#include "tutti/core/strings.h"
#include "tutti/ops/array.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/state.h"

namespace tutti::pause_test {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLimit(60);
constexpr int kWorkers = 2;

std::vector<std::chrono::milliseconds> pauses() {
  if (stress_factor() > 1) return {500ms, 2s, 5s, 20s};
  return {500ms, 2500ms};
}

// Reads until every worker has trained for some steps more. No worker may report a lower step than before, or begin
// another session.
void expect_progress(TrainingJob& job) {
  std::map<int, std::int64_t> goals;
  for (int worker = 0; worker < kWorkers; ++worker) goals[worker] = job.last_step(worker) + 10;
  while (!goals.empty()) {
    std::map<int, std::int64_t> before;
    for (int worker = 0; worker < kWorkers; ++worker) before[worker] = job.last_step(worker);
    const auto report = job.next(kLimit);
    ASSERT_TRUE(report) << "the job stands still or has ended\n" << job.process().output();
    ASSERT_FALSE(report->begins) << "a session was made anew\n" << job.process().output();
    ASSERT_GE(report->step, before[report->worker]) << "steps were lost\n" << job.process().output();
    const auto goal = goals.find(report->worker);
    if (goal != goals.end() && report->step >= goal->second) goals.erase(goal);
  }
}

void train_through_pauses(const std::vector<std::string>& mode) {
  std::vector<std::string> flags = {"--train_steps=100000000", "--digits=2000", "--log_steps=5", "--log_cluster"};
  flags.insert(flags.end(), mode.begin(), mode.end());
  TrainingJob job({"--ps", "2", "--workers", std::to_string(kWorkers), "--threads", "1", "--restarts", "1"}, flags);
  for (int begun = 0; begun < kWorkers;) {
    const auto report = job.next(kLimit);
    ASSERT_TRUE(report) << job.process().output();
    begun += report->begins ? 1 : 0;
  }
  expect_progress(job);
  for (const auto pause : pauses()) {
    SCOPED_TRACE(str_cat("ps 0 stopped for ", pause.count(), " ms"));
    job.signal_tasks({"ps 0"}, SIGSTOP);
    std::this_thread::sleep_for(pause);
    job.signal_tasks({"ps 0"}, SIGCONT);
    expect_progress(job);
    if (::testing::Test::HasFatalFailure()) return;
  }
  const std::string output = job.process().output();
  EXPECT_NE(output.find("/job:ps/replica:0/task:0 has not answered for "), std::string::npos) << output;
  EXPECT_NE(output.find("/job:ps/replica:0/task:0 answers again"), std::string::npos) << output;

  // A process that is gone, though, is named within a second.
  const auto killed = SteadyClock::now();
  job.signal_tasks({"ps 0"}, SIGKILL);
  ASSERT_TRUE(job.wait_for_line("/job:ps/replica:0/task:0 is gone", kLimit)) << job.process().output();
  EXPECT_LT(SteadyClock::now() - killed, stress_factor() > 1 ? 1s : 5s);
}

TEST(Pause, AsynchronousTrainingGoesOn) { train_through_pauses({}); }

TEST(Pause, SynchronousTrainingGoesOn) { train_through_pauses({"--is_sync"}); }

TEST(Pause, StrictTrainingGoesOn) { train_through_pauses({"--strict"}); }

// A variable on the ps, to which each step adds the mean of a large value that is fed on the worker.
struct CountingGraph {
  CountingGraph() {
    {
      const auto worker = graph.device_scope("/job:worker/task:0");
      fed = placeholder(graph, DType::kFloat, {kUnknownDim}, "fed");
      sent = fed * 1.0f;
    }
    const auto ps = graph.device_scope("/job:ps/task:0");
    count = std::make_unique<Var>(variable(graph, zeros(graph, DType::kFloat, {}), "count"));
    add = count->assign_add(reduce_mean(sent));
  }

  Graph graph{builtin_ops()};
  Output fed, sent;
  std::unique_ptr<Var> count;
  Node* add = nullptr;
};

// Over gRPC, where the kernel's buffers and gRPC's own pings would notice: each acknowledged step counts once.
TEST(Pause, StepsOverGrpcAreCountedOnce) {
  ProcessCluster cluster(1, 1, {"--no-shared-memory"});
  cluster.start_all();
  CountingGraph counting;
  const auto session = connect(cluster.target("worker", 0), counting.graph, {.shared_memory = false}).value_or_throw();
  session->run({global_variables_initializer(counting.graph)});
  const Tensor ones = Tensor::vector<float>(std::vector<float>(1 << 18, 1.0f));
  float done = 0;
  for (const auto pause : pauses()) {
    for (const char* job : {"ps", "worker"}) {
      SCOPED_TRACE(str_cat(job, " 0 stopped for ", pause.count(), " ms"));
      cluster.child(job, 0).send(SIGSTOP);
      std::thread wake([&] {
        std::this_thread::sleep_for(pause);
        cluster.child(job, 0).send(SIGCONT);
      });
      Status status;
      for (int step = 0; step < 20 && status.ok(); ++step) {
        status = session->try_run({{counting.fed, ones}}, {}, {counting.add}).status();
        if (status.ok()) ++done;
      }
      wake.join();
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
  }
  EXPECT_EQ(session->run({}, {*counting.count})[0].scalar<float>(), done);
}

}  // namespace tutti::pause_test
