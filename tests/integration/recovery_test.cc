// A training job under `tutti run --restarts` whose processes are killed: it goes on where its last checkpoint ended.
// TUTTI_FAULT_SEED draws other moments and, in long runs, other victims.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "tests/core/temp_directory.h"
#include "tests/integration/process_cluster.h"
#include "tests/integration/training_job.h"
#include "tutti/core/strings.h"
#include "tutti/io/checkpoint_state.h"
#include "tutti/train/checkpoint_reader.h"

namespace tutti::recovery_test {

constexpr std::chrono::seconds kLimit(180);
constexpr int kWorkers = 2;

// Two ps and two workers that save every 25 steps and are started again however often they are killed.
class Job : public TrainingJob {
 public:
  explicit Job(const std::vector<std::string>& flags) : Job(std::make_unique<TempDirectory>(), flags) {}

  // Reads all of the newest checkpoint. The step that it says it is of; -1 when there is none.
  std::int64_t last_save() const {
    while (true) {
      const std::optional<std::string> newest =
          latest_checkpoint(local_file_system(), directory_->path()).value_or_throw();
      if (!newest) return -1;
      const Status whole = read_all(*newest);
      if (whole.ok()) return std::stoll(newest->substr(newest->rfind('-') + 1));
      // A job that goes on deletes old ones: then there is a newer one by now.
      if (latest_checkpoint(local_file_system(), directory_->path()).value_or_throw() != newest) continue;
      ADD_FAILURE() << "`checkpoint` names " << *newest << ": " << whole.to_string();
      return -1;
    }
  }

 private:
  Job(std::unique_ptr<TempDirectory> directory, const std::vector<std::string>& flags)
      : TrainingJob({"--ps", "2", "--workers", std::to_string(kWorkers), "--restarts", "1000"},
                    program_flags(directory->path(), flags)),
        directory_(std::move(directory)) {}

  static std::vector<std::string> program_flags(const std::string& directory, const std::vector<std::string>& flags) {
    std::vector<std::string> all = {"--checkpoint_dir=" + directory, "--save_steps=25", "--log_steps=5",
                                    "--train_steps=100000000", "--digits=2000"};
    all.insert(all.end(), flags.begin(), flags.end());
    return all;
  }
  // Every variable, and that its steps are those of its name or later: others may have trained meanwhile.
  static Status read_all(const std::string& path) {
    try {
      const auto reader = load_checkpoint(path);
      if (reader->variables().empty()) return data_loss("it is empty");
      for (const auto& variable : reader->variables()) TUTTI_RETURN_IF_ERROR(reader->read(variable.name).status());
      const std::int64_t step = reader->read("global_step").value_or_throw().scalar<std::int64_t>();
      if (step < std::stoll(path.substr(path.rfind('-') + 1))) return data_loss("its global_step is ", step);
      return {};
    } catch (const Error& error) {
      return error.status();
    }
  }

  const std::unique_ptr<TempDirectory> directory_;
};

const std::vector<std::set<std::string>> kVictims = {
    {"worker 1"}, {"worker 0"}, {"ps 0"}, {"ps 1"}, {"ps 0", "ps 1", "worker 0", "worker 1"}};

// What no step may lie below after a kill. A worker that begins anew does so at what was saved, or at what the others
// have done since. One that lived on may be set back to what was saved, but no further, and tells of what it did
// before.
class Floors {
 public:
  Floors(const Job& job, std::int64_t saved) : saved_(saved) {
    for (int worker = 0; worker < kWorkers; ++worker) floors_[worker] = std::min(saved, job.last_step(worker));
  }
  ::testing::AssertionResult check(const JobReport& report) {
    if (report.begins) floors_[report.worker] = saved_;
    if (report.step >= floors_[report.worker]) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "worker " << report.worker << (report.begins ? " begins" : " is")
                                         << " at step " << report.step << " although " << saved_ << " was saved";
  }

 private:
  const std::int64_t saved_;
  std::map<int, std::int64_t> floors_;
};

// Reads until `worker` has trained at a step beyond `step`.
::testing::AssertionResult goes_on(Job& job, int worker, std::int64_t step, Floors& floors) {
  while (const auto report = job.next(kLimit)) {
    if (const auto fine = floors.check(*report); !fine) return fine;
    if (!report->begins && report->worker == worker && report->step > step) return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "worker " << worker << " did not get beyond step " << step << "\n"
                                       << job.process().output();
}

// Reads until `survivor` has trained on for some steps, which is to be before `victim` is back.
::testing::AssertionResult goes_on_alone(Job& job, int survivor, int victim, Floors& floors) {
  std::optional<std::int64_t> first;
  while (const auto report = job.next(kLimit)) {
    if (const auto fine = floors.check(*report); !fine) return fine;
    if (report->begins && report->worker == victim) {
      return ::testing::AssertionFailure()
             << "worker " << survivor << " stood still until worker " << victim << " was back\n"
             << job.process().output();
    }
    if (report->begins || report->worker != survivor) continue;
    if (!first) first = report->step;
    if (report->step >= *first + 10) return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "the job ended\n" << job.process().output();
}

void kill_and_recover(Job& job, const std::set<std::string>& victims, bool asynchronous) {
  const std::int64_t saved = job.last_save();
  Floors floors(job, saved);
  job.signal_tasks(victims, SIGKILL);
  for (std::size_t i = 0; i < victims.size(); ++i)
    ASSERT_TRUE(job.wait_for_line("ended with signal 9 (Killed)", kLimit));
  EXPECT_GE(job.last_save(), saved);
  // Nobody needs another worker, not even the chief.
  for (int victim = 0; victim < kWorkers && asynchronous; ++victim) {
    if (victims == std::set<std::string>{str_cat("worker ", victim)}) {
      ASSERT_TRUE(goes_on_alone(job, 1 - victim, victim, floors));
    }
  }
  // Everybody trains on, and beyond what there was: two checkpoints more.
  for (int worker = 0; worker < kWorkers; ++worker) ASSERT_TRUE(goes_on(job, worker, saved + 50, floors));
  EXPECT_GE(job.last_save(), saved);
}

unsigned fault_seed() {
  const char* const asked = std::getenv("TUTTI_FAULT_SEED");
  return asked == nullptr ? 5 : static_cast<unsigned>(std::strtoul(asked, nullptr, 10));
}

void survive(const std::vector<std::string>& flags, bool asynchronous) {
  const unsigned seed = fault_seed();
  std::mt19937 random(seed);
  SCOPED_TRACE(str_cat("TUTTI_FAULT_SEED=", seed));
  Job job(flags);
  Floors start(job, 0);
  for (int worker = 0; worker < kWorkers; ++worker) ASSERT_TRUE(goes_on(job, worker, 50, start));
  std::vector<std::set<std::string>> order = kVictims;
  std::shuffle(order.begin(), order.end(), random);
  const int rounds = stress_factor() > 1 ? 50 : static_cast<int>(order.size());
  for (int round = 0; round < rounds && !::testing::Test::HasFatalFailure(); ++round) {
    // Each once, then whoever is drawn.
    const auto number = static_cast<std::size_t>(round);
    const auto& victims = number < order.size() ? order[number] : order[random() % order.size()];
    const std::chrono::microseconds delay(random() % 200'000);
    SCOPED_TRACE(str_cat("round ", round, ": killed ", str_join(victims, ", "), " after ", delay.count(), " us"));
    // Some moment of a step or a save: no matter which, so that a slow machine only moves it.
    std::this_thread::sleep_for(delay);
    kill_and_recover(job, victims, asynchronous);
  }
  EXPECT_LT(job.mean_loss(false), 0.7 * job.mean_loss(true));
  job.process().send(SIGTERM);
  EXPECT_EQ(job.process().wait(kLimit), 143);
}

TEST(Recovery, AsynchronousTrainingGoesOn) { survive({}, true); }

TEST(Recovery, SynchronousTrainingGoesOn) { survive({"--is_sync"}, false); }

}  // namespace tutti::recovery_test
