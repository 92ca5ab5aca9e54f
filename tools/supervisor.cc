#include "supervisor.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tutti/tutti.h"

namespace tutti::tools {
namespace {

using Kind = Supervisor::Action::Kind;

// What shells give for a program that is there and cannot be run.
constexpr int kCannotStart = 126;

Supervisor::Action say(std::string line) { return {.kind = Kind::kSay, .line = std::move(line)}; }

std::string seconds(std::chrono::milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", static_cast<double>(time.count()) / 1000);
  return text;
}

}  // namespace

std::string ExitCause::to_string() const {
  if (!by_signal) return str_cat("exit code ", number);
  const char* description = sigdescr_np(number);
  return str_cat("signal ", number, " (", description == nullptr ? "unknown" : description, ")");
}

Supervisor::Supervisor(std::vector<SupervisedTask> tasks, SupervisorOptions options) : options_(options) {
  for (auto& task : tasks) tasks_.push_back({.description = std::move(task), .pause = options.first_pause});
}

Supervisor::Actions Supervisor::begin(TimePoint now) {
  Actions actions;
  for (std::size_t i = 0; i < tasks_.size(); ++i) start(i, now, actions);
  return actions;
}

void Supervisor::start(std::size_t task, TimePoint now, Actions& actions) {
  tasks_[task].state = Task::State::kRunning;
  tasks_[task].started = now;
  actions.push_back({.kind = Kind::kStart, .task = task});
}

Supervisor::Actions Supervisor::on_exit(std::size_t index, const ExitCause& cause, TimePoint now) {
  Actions actions;
  Task& task = tasks_[index];
  task.state = Task::State::kEnded;
  task.delays = 0;
  if (phase_ != Phase::kRunning) return actions;
  if (!cause.ok()) {
    failed(task, cause, now, actions);
  } else if (task.description.serves) {
    left(task, now, actions);
  }
  if (phase_ == Phase::kRunning && work_is_done()) end_job(0, now, actions);
  return actions;
}

void Supervisor::failed(Task& task, const ExitCause& cause, TimePoint now, Actions& actions) {
  const std::string what = str_cat(task.description.name, " ended with ", cause.to_string());
  if (task.restarts >= options_.restarts) {
    const std::string used =
        options_.restarts > 0 ? str_cat(" and has used up its ", options_.restarts, " restarts") : "";
    actions.push_back(say(str_cat(what, used, "; ending the job")));
    end_job(cause.code(), now, actions);
    return;
  }
  start_again(task, what, now, actions);
}

void Supervisor::left(Task& task, TimePoint now, Actions& actions) {
  const std::string what = task.description.name + " has ended before the workers";
  if (!task.description.needed) {
    actions.push_back(say(what));
  } else if (task.restarts < options_.restarts) {
    start_again(task, what, now, actions);
  } else if (options_.patience.count() == 0) {
    actions.push_back(say(str_cat(what, ", which go on without it")));
  } else {
    task.state = Task::State::kMissed;
    task.missed_at = now + options_.patience;
    actions.push_back(
        say(str_cat(what, "; the job fails if they still run in ", seconds(options_.patience), " (--patience)")));
  }
}

void Supervisor::start_again(Task& task, const std::string& what, TimePoint now, Actions& actions) {
  if (now - task.started >= options_.calm) task.pause = options_.first_pause;
  ++task.restarts;
  task.state = Task::State::kPausing;
  task.start_at = now + task.pause;
  actions.push_back(say(str_cat(what, "; starting it again in ", seconds(task.pause), " (restart ", task.restarts,
                                " of ", options_.restarts, ")")));
  task.pause = std::min(2 * task.pause, options_.longest_pause);
}

Supervisor::Actions Supervisor::on_start_delayed(std::size_t index, const std::string& why, TimePoint now) {
  Task& task = tasks_[index];
  if (phase_ != Phase::kRunning || task.delays == options_.most_delays) {
    return on_start_failed(index, why, kCannotStart, now);
  }
  const std::chrono::milliseconds pause = std::min(options_.first_pause * (1 << task.delays++), options_.longest_pause);
  task.state = Task::State::kPausing;
  task.start_at = now + pause;
  return {say(str_cat(task.description.name, " cannot be started yet: ", why, "; trying again in ", seconds(pause)))};
}

Supervisor::Actions Supervisor::on_start_failed(std::size_t index, const std::string& why, int code, TimePoint now) {
  Actions actions;
  tasks_[index].state = Task::State::kEnded;
  if (phase_ != Phase::kRunning) return actions;
  actions.push_back(say(str_cat(tasks_[index].description.name, " cannot be started: ", why)));
  end_job(code, now, actions);
  return actions;
}

Supervisor::Actions Supervisor::on_stop(const std::string& why, int code, TimePoint now) {
  if (told_to_stop_ && now - *told_to_stop_ < options_.echo) return {};
  if (phase_ != Phase::kRunning) return on_kill(why, code, now);
  told_to_stop_ = now;
  Actions actions;
  actions.push_back(say(str_cat(why, ": ending ", num_running(), " tasks; once more kills them")));
  end_job(code, now, actions);
  return actions;
}

Supervisor::Actions Supervisor::on_kill(const std::string& why, int code, TimePoint /*now*/) {
  Actions actions;
  if (phase_ == Phase::kKilling) return actions;
  actions.push_back(say(str_cat(why, ": killing ", num_running(), " tasks")));
  kill_all(code, actions);
  return actions;
}

Supervisor::Actions Supervisor::on_time(TimePoint now) {
  Actions actions;
  if (phase_ == Phase::kEnding && now >= kill_at_) {
    actions.push_back(
        say(str_cat(num_running(), " tasks still run ", seconds(options_.grace), " later: killing them")));
    kill_all(0, actions);
  }
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    Task& task = tasks_[i];
    if (task.state == Task::State::kPausing && now >= task.start_at) start(i, now, actions);
    if (task.state == Task::State::kMissed && now >= task.missed_at) {
      actions.push_back(say(str_cat("the workers still run ", seconds(options_.patience), " after ",
                                    task.description.name, " has ended, without it (--patience); ending the job")));
      end_job(1, now, actions);
    }
  }
  return actions;
}

std::optional<TimePoint> Supervisor::next_time() const {
  std::optional<TimePoint> next;
  const auto consider = [&](TimePoint time) { next = next ? std::min(*next, time) : time; };
  if (phase_ == Phase::kEnding) consider(kill_at_);
  for (const auto& task : tasks_) {
    if (task.state == Task::State::kPausing) consider(task.start_at);
    if (task.state == Task::State::kMissed) consider(task.missed_at);
  }
  return next;
}

bool Supervisor::finished() const { return phase_ != Phase::kRunning && num_running() == 0; }

void Supervisor::end_job(int code, TimePoint now, Actions& actions) {
  if (!exit_code_) exit_code_ = code;
  phase_ = Phase::kEnding;
  kill_at_ = now + options_.grace;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_[i].state == Task::State::kRunning) actions.push_back({.kind = Kind::kTerminate, .task = i});
    if (tasks_[i].state != Task::State::kRunning) tasks_[i].state = Task::State::kEnded;
  }
}

void Supervisor::kill_all(int code, Actions& actions) {
  if (!exit_code_) exit_code_ = code;
  phase_ = Phase::kKilling;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_[i].state == Task::State::kRunning) actions.push_back({.kind = Kind::kKill, .task = i});
    if (tasks_[i].state != Task::State::kRunning) tasks_[i].state = Task::State::kEnded;
  }
}

bool Supervisor::work_is_done() const {
  return std::all_of(tasks_.begin(), tasks_.end(),
                     [](const Task& task) { return task.description.serves || task.state == Task::State::kEnded; });
}

std::size_t Supervisor::num_running() const {
  return static_cast<std::size_t>(std::count_if(tasks_.begin(), tasks_.end(),
                                                [](const Task& task) { return task.state == Task::State::kRunning; }));
}

}  // namespace tutti::tools
