// A training job under `tutti run --restarts` whose processes are killed: it goes on where its last checkpoint ended.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "tests/core/temp_directory.h"
#include "tests/integration/process_cluster.h"
#include "tutti/core/strings.h"

namespace tutti::recovery_test {

constexpr std::chrono::seconds kLimit(180);
constexpr int kWorkers = 2;

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// What one line of the job's output says.
struct Report {
  int worker = -1;
  std::int64_t step = -1;
  bool begins = false;  // a session, at that step
  double loss = 0;
};

std::optional<Report> parse(const std::string& line) {
  static const std::regex kTrained(R"(\[worker (\d+)\] Train step (\d+), loss: ([0-9.a-z-]+))");
  static const std::regex kBegins(R"(\[worker (\d+)\] Session begins at step (\d+))");
  std::smatch match;
  if (std::regex_match(line, match, kTrained)) {
    return Report{.worker = std::stoi(match[1]), .step = std::stoll(match[2]), .loss = std::stod(match[3])};
  }
  if (std::regex_match(line, match, kBegins)) {
    return Report{.worker = std::stoi(match[1]), .step = std::stoll(match[2]), .begins = true};
  }
  return std::nullopt;
}

// The job, whose processes are known by a variable in their environment.
class Job {
 public:
  explicit Job(const std::vector<std::string>& flags)
      : mark_("TUTTI_RECOVERY_TEST=" + directory_.path()), process_(command(flags), {"TF_CONFIG", mark_}) {}

  // The step of the newest checkpoint that was completed; -1 when there is none.
  std::int64_t last_save() const {
    const std::string state = contents(directory_.file("checkpoint"));
    static const std::regex kNewest(R"re(model_checkpoint_path: ".*-(\d+)")re");
    std::smatch match;
    return std::regex_search(state, match, kNewest) ? std::stoll(match[1]) : -1;
  }

  // Kills the processes of these tasks, "worker 0" and so on.
  void kill_tasks(const std::set<std::string>& tasks) {
    int killed = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != name.npos) continue;
      const std::string environment = contents(entry.path() / "environ");
      if (environment.find(mark_ + '\0') == environment.npos) continue;
      static const std::regex kTask(R"re("type": "([a-z]+)", "index": (\d+))re");
      std::smatch match;
      if (!std::regex_search(environment, match, kTask) ||
          !tasks.contains(str_cat(match[1].str(), " ", match[2].str())))
        continue;
      ++killed;
      kill(std::stoi(name), SIGKILL);
    }
    EXPECT_EQ(killed, static_cast<int>(tasks.size())) << "not all tasks were there to be killed";
  }

  // The next line that tells of a step; nothing when the job ended or was silent for too long.
  std::optional<Report> next() {
    while (true) {
      const std::string line = process_.wait_for_line("", kLimit);
      if (line.empty()) return std::nullopt;
      if (const auto report = parse(line)) {
        if (!report->begins) losses_.push_back(report->loss);
        return report;
      }
    }
  }
  bool wait_for_line(const std::string& text) { return !process_.wait_for_line(text, kLimit).empty(); }

  double mean_loss(bool first) const {
    const std::size_t count = std::min<std::size_t>(losses_.size(), 10);
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += losses_[first ? i : losses_.size() - 1 - i];
    return sum / static_cast<double>(count);
  }
  ChildProcess& process() { return process_; }

 private:
  std::vector<std::string> command(const std::vector<std::string>& flags) const {
    std::vector<std::string> all = {"--ps", "2", "--workers", std::to_string(kWorkers), "--restarts", "1000"};
    all.insert(all.end(), {TUTTI_DISTRIBUTED_MNIST, "--checkpoint_dir=" + directory_.path(), "--save_steps=25",
                           "--log_steps=5", "--train_steps=100000000", "--digits=2000"});
    all.insert(all.end(), flags.begin(), flags.end());
    return tutti_command("run", all);
  }

  TempDirectory directory_;
  const std::string mark_;
  ChildProcess process_;
  std::vector<double> losses_;
};

const std::vector<std::set<std::string>> kVictims = {
    {"worker 1"}, {"worker 0"}, {"ps 0"}, {"ps 1"}, {"ps 0", "ps 1", "worker 0", "worker 1"}};

// Reads until `worker` has trained at a step beyond `step`.
::testing::AssertionResult goes_on(Job& job, int worker, std::int64_t step, std::int64_t last_save) {
  while (const auto report = job.next()) {
    // What a session begins with is what was restored, or what the others have done since.
    if (report->begins && report->step < last_save) {
      return ::testing::AssertionFailure() << "worker " << report->worker << " begins at step " << report->step
                                           << " although " << last_save << " was saved";
    }
    if (!report->begins && report->worker == worker && report->step > step) return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "worker " << worker << " did not get beyond step " << step << "\n"
                                       << job.process().output();
}

void kill_and_recover(Job& job, const std::set<std::string>& victims) {
  const std::int64_t saved = job.last_save();
  job.kill_tasks(victims);
  for (std::size_t i = 0; i < victims.size(); ++i) ASSERT_TRUE(job.wait_for_line("ended with signal 9 (Killed)"));
  // Everybody trains on, and beyond what there was: two checkpoints more.
  for (int worker = 0; worker < kWorkers; ++worker) ASSERT_TRUE(goes_on(job, worker, saved + 50, saved));
  EXPECT_GE(job.last_save(), saved);
}

void survive(const std::vector<std::string>& flags) {
  Job job(flags);
  for (int worker = 0; worker < kWorkers; ++worker) ASSERT_TRUE(goes_on(job, worker, 50, 0));
  std::mt19937 random(5);
  std::vector<std::set<std::string>> order = kVictims;
  std::shuffle(order.begin(), order.end(), random);
  const int rounds = stress_factor() > 1 ? 50 : static_cast<int>(order.size());
  for (int round = 0; round < rounds && !::testing::Test::HasFatalFailure(); ++round) {
    const auto& victims = order[static_cast<std::size_t>(round) % order.size()];
    SCOPED_TRACE(str_cat("round ", round, ": killed ", str_join(victims, ", ")));
    kill_and_recover(job, victims);
  }
  EXPECT_LT(job.mean_loss(false), 0.7 * job.mean_loss(true));
  job.process().send(SIGTERM);
  EXPECT_EQ(job.process().wait(kLimit), 143);
}

TEST(Recovery, AsynchronousTrainingGoesOn) { survive({}); }

TEST(Recovery, SynchronousTrainingGoesOn) { survive({"--is_sync"}); }

}  // namespace tutti::recovery_test
