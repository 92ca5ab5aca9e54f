#include "tutti/distributed/internal/discovery.h"

#include <algorithm>

#include "tutti/core/device_name.h"
#include "tutti/core/rendezvous_key.h"

namespace tutti::internal {
namespace {

// Between questions to a task that cannot be waited for. Longer: it is found later; shorter: more calls for nothing.
constexpr std::chrono::milliseconds kFirstBackoff(10);
constexpr std::chrono::milliseconds kLastBackoff(1000);

// Devices carry their task's name, whatever the task calls itself.
void rename_devices(const std::string& task, std::vector<DeviceInfo>& devices) {
  for (DeviceInfo& device : devices) {
    const std::size_t local = device.name.find("/device:");
    if (local != std::string::npos) device.name = task + device.name.substr(local);
  }
}

}  // namespace

Result<std::vector<FoundTask>> select_tasks(WorkerDirectory& directory, const std::vector<std::string>& filters,
                                            const std::string& own) {
  std::vector<DeviceName> parsed;
  for (const std::string& filter : filters) {
    Result<DeviceName> name = DeviceName::parse(filter);
    if (!name.ok()) return name.status().with_context(str_cat("device filter \"", printable(filter), "\""));
    parsed.push_back(*std::move(name));
  }
  std::vector<std::string> names{own};
  for (const std::string& task : directory.tasks()) {
    if (task == own) continue;
    TUTTI_ASSIGN_OR_RETURN(const DeviceName name, DeviceName::parse(task));
    const bool passes = parsed.empty() || std::any_of(parsed.begin(), parsed.end(), [&](const DeviceName& filter) {
                          return filter.compatible_with(name);
                        });
    if (passes) names.push_back(task);
  }
  std::vector<FoundTask> tasks;
  for (const std::string& name : names) {
    TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<WorkerInterface> worker, directory.worker(name));
    tasks.push_back({.task = name, .worker = std::move(worker), .devices = {}});
  }
  return tasks;
}

Discovery::Discovery(std::shared_ptr<MasterContext> context, std::vector<FoundTask> tasks, Absent absent, Done done)
    : context_(std::move(context)),
      absent_(absent),
      done_(std::move(done)),
      tasks_(std::move(tasks)),
      states_(tasks_.size()),
      unanswered_(tasks_.size()) {}

void Discovery::start() {
  const auto self = shared_from_this();  // which the last answer lets go
  std::size_t count = 0;
  {
    MutexLock lock(mu_);
    count = tasks_.size();
  }
  // Not waiting at first: a failure tells why, while a call that waits tells nothing.
  for (std::size_t i = 0; i < count; ++i) ask(i, false, kFirstBackoff);
}

void Discovery::ask(std::size_t index, bool wait, Duration backoff) {
  if (calls_.cancelled()) return end(index, calls_.status());
  std::shared_ptr<WorkerInterface> worker;
  {
    MutexLock lock(mu_);
    states_[index].retry.reset();
    worker = tasks_[index].worker;
  }
  worker->get_status({.wait_for_ready = wait, .cancellation = &calls_},
                     [self = shared_from_this(), index, wait, backoff](Result<GetStatusReply> reply) {
                       self->answer(index, std::move(reply), wait, backoff);
                     });
}

void Discovery::answer(std::size_t index, Result<GetStatusReply> reply, bool waited, Duration backoff) {
  // kAborted: the task was started anew while it was asked.
  const Code code = reply.status().code();
  const bool absent = code == Code::kUnavailable && absent_ == Absent::kWaitedFor;
  if ((absent || code == Code::kAborted) && !calls_.cancelled()) {
    {
      MutexLock lock(mu_);
      states_[index].reason = reply.status().message();
    }
    return waited ? ask_later(index, backoff) : ask(index, true, backoff);
  }
  if (reply.ok()) {
    MutexLock lock(mu_);
    tasks_[index].devices = std::move(reply->devices);
    rename_devices(tasks_[index].task, tasks_[index].devices);
  }
  end(index, reply.status());
}

void Discovery::ask_later(std::size_t index, Duration backoff) {
  {
    MutexLock lock(mu_);
    // Checked under the lock, by which cancel() looks for timers after it has cancelled.
    if (!calls_.cancelled()) {
      const Duration next = std::min<Duration>(backoff * 2, kLastBackoff);
      states_[index].retry = context_->clock->call_at(
          context_->clock->now() + backoff, [self = shared_from_this(), index, next] { self->ask(index, true, next); });
      return;
    }
  }
  end(index, calls_.status());
}

void Discovery::cancel(Status cause) {
  calls_.cancel(std::move(cause));
  std::vector<std::pair<std::size_t, Clock::TimerId>> timers;
  {
    MutexLock lock(mu_);
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].retry) timers.emplace_back(i, *states_[i].retry);
    }
  }
  for (const auto& [index, timer] : timers) {
    if (context_->clock->cancel_timer(timer)) end(index, calls_.status());
  }
}

void Discovery::end(std::size_t index, const Status& status) {
  bool first = false;
  {
    MutexLock lock(mu_);
    states_[index].answered = true;
    first = !status.ok() && status_.ok();
    if (first) status_ = calls_.cancelled() ? calls_.status() : status.with_context(tasks_[index].task);
    if (--unanswered_ == 0) first = false;
    if (unanswered_ > 0 && !first) return;
  }
  if (!first) return finish();
  cancel(status);
}

void Discovery::finish() {
  Status status;
  std::vector<FoundTask> tasks;
  {
    MutexLock lock(mu_);
    status = status_;
    tasks = std::move(tasks_);
  }
  std::exchange(done_, nullptr)(std::move(status), std::move(tasks));
}

std::string Discovery::missing() const {
  MutexLock lock(mu_);
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].answered || i >= tasks_.size()) continue;
    const std::string& reason = states_[i].reason;
    missing.push_back(reason.empty() ? tasks_[i].task : str_cat(tasks_[i].task, " (", printable(reason), ")"));
  }
  return str_join(missing, ", ");
}

}  // namespace tutti::internal
