#include "tests/integration/training_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/integration/process_cluster.h"
#include "tutti/core/strings.h"

namespace tutti {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::optional<JobReport> parse_report(const std::string& line) {
  static const std::regex kTrained(R"(\[worker (\d+)\] Train step (\d+), loss: ([0-9.a-z-]+))");
  static const std::regex kBegins(R"(\[worker (\d+)\] Session begins at step (\d+))");
  std::smatch match;
  if (std::regex_match(line, match, kTrained)) {
    return JobReport{.worker = std::stoi(match[1]), .step = std::stoll(match[2]), .loss = std::stod(match[3])};
  }
  if (std::regex_match(line, match, kBegins)) {
    return JobReport{.worker = std::stoi(match[1]), .step = std::stoll(match[2]), .begins = true};
  }
  return std::nullopt;
}

std::vector<std::string> run_command(std::vector<std::string> flags, const std::vector<std::string>& program_flags) {
  flags.emplace_back(TUTTI_DISTRIBUTED_MNIST);
  flags.insert(flags.end(), program_flags.begin(), program_flags.end());
  return tutti_command("run", flags);
}

}  // namespace

TrainingJob::TrainingJob(const std::vector<std::string>& run_flags, const std::vector<std::string>& program_flags)
    : mark_("TUTTI_TRAINING_JOB=" + marker_.path()),
      process_(run_command(run_flags, program_flags), {"TF_CONFIG", mark_}) {}

void TrainingJob::signal_tasks(const std::set<std::string>& tasks, int signal) {
  int found = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    const std::string environment = contents(entry.path() / "environ");
    if (environment.find(mark_ + '\0') == environment.npos) continue;
    static const std::regex kTask(R"re("type": "([a-z]+)", "index": (\d+))re");
    std::smatch match;
    if (!std::regex_search(environment, match, kTask)) continue;
    if (!tasks.contains(str_cat(match[1].str(), " ", match[2].str()))) continue;
    ++found;
    kill(std::stoi(name), signal);
  }
  EXPECT_EQ(found, static_cast<int>(tasks.size())) << "not all tasks were there to get signal " << signal;
}

std::optional<JobReport> TrainingJob::next(std::chrono::seconds limit) {
  while (true) {
    const std::string line = process_.wait_for_line("", limit);
    if (line.empty()) return std::nullopt;
    if (const auto report = parse_report(line)) {
      if (!report->begins) losses_.push_back(report->loss);
      last_steps_[report->worker] = report->step;
      return report;
    }
  }
}

std::int64_t TrainingJob::last_step(int worker) const {
  const auto found = last_steps_.find(worker);
  return found == last_steps_.end() ? 0 : found->second;
}

double TrainingJob::mean_loss(bool first) const {
  const std::size_t count = std::min<std::size_t>(losses_.size(), 10);
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += losses_[first ? i : losses_.size() - 1 - i];
  return sum / static_cast<double>(count);
}

}  // namespace tutti
