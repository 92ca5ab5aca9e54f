#include "tutti/train/coordinator.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "tutti/core/thread_setup.h"
#include "tutti/train/internal/alarm.h"

namespace tutti {

Status current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error.status();
  } catch (const std::exception& error) {
    return Status(Code::kUnknown, error.what());
  } catch (...) {
    return Status(Code::kUnknown, "an exception that is no std::exception");
  }
}

Coordinator::Coordinator(Clock& clock, std::vector<Code> clean_stop_codes)
    : clock_(clock), clean_stop_codes_(std::move(clean_stop_codes)) {}

Coordinator::~Coordinator() {
  std::list<Member> members;
  {
    MutexLock lock(mu_);
    stop_ = true;
    changed_.notify_all();
    while (any_running()) changed_.wait(mu_);
    members.swap(members_);
  }
  for (Member& member : members) {
    if (member.thread.joinable()) member.thread.join();
  }
}

void Coordinator::request_stop(Status error) {
  const bool clean = error.ok() || std::find(clean_stop_codes_.begin(), clean_stop_codes_.end(), error.code()) !=
                                       clean_stop_codes_.end();
  MutexLock lock(mu_);
  if (joined_ && !clean) throw_error(std::move(error));
  if (!stop_ && !clean) error_.update(std::move(error));
  stop_ = true;
  changed_.notify_all();
}

bool Coordinator::should_stop() const {
  MutexLock lock(mu_);
  return stop_;
}

bool Coordinator::wait_for_stop(std::optional<Duration> timeout) {
  if (!timeout) {
    MutexLock lock(mu_);
    while (!stop_) changed_.wait(mu_);
    return true;
  }
  const TimePoint deadline = clock_.now() + *timeout;
  internal::Alarm alarm(clock_, deadline, mu_, changed_);
  MutexLock lock(mu_);
  while (!stop_ && clock_.now() < deadline) changed_.wait(mu_);
  return stop_;
}

void Coordinator::clear_stop() {
  MutexLock lock(mu_);
  stop_ = false;
  joined_ = false;
  error_ = Status();
}

Status Coordinator::requested_error() const {
  MutexLock lock(mu_);
  return error_;
}

bool Coordinator::joined() const {
  MutexLock lock(mu_);
  return joined_;
}

void Coordinator::stop_on_exception(const std::function<void()>& body) {
  try {
    body();
  } catch (...) {
    request_stop(current_error());
  }
}

std::list<Coordinator::Member>::iterator Coordinator::add_member(const std::string& name) {
  MutexLock lock(mu_);
  members_.emplace_back().name = name;
  return std::prev(members_.end());
}

void Coordinator::end_member(std::list<Member>::iterator member) {
  MutexLock lock(mu_);
  member->running = false;
  changed_.notify_all();
}

void Coordinator::start_thread(const std::string& name, std::function<void()> body) {
  const auto member = add_member(name);
  std::thread thread;
  try {
    thread = std::thread([this, member, name, body = std::move(body)] { run_member(member, name, body); });
  } catch (const std::system_error& error) {
    end_member(member);
    throw_error(resource_exhausted("thread \"", name, "\": ", error.what()));
  }
  MutexLock lock(mu_);
  member->thread = std::move(thread);
}

void Coordinator::run_member(std::list<Member>::iterator member, const std::string& name,
                             const std::function<void()>& body) {
  begin_thread(name);
  try {
    stop_on_exception(body);
  } catch (const Error&) {
    // The coordinator was joined without this thread, so nobody is left to hear of its error.
  }
  end_member(member);
}

Coordinator::Registration::Registration(Coordinator& coordinator, std::list<Member>::iterator member)
    : coordinator_(&coordinator), member_(member) {}
Coordinator::Registration::Registration(Registration&& other) noexcept
    : coordinator_(std::exchange(other.coordinator_, nullptr)), member_(other.member_) {}
Coordinator::Registration::~Registration() {
  if (coordinator_ != nullptr) coordinator_->end_member(member_);
}

Coordinator::Registration Coordinator::register_thread(const std::string& name) { return {*this, add_member(name)}; }

bool Coordinator::any_running() const {
  return std::any_of(members_.begin(), members_.end(), [](const Member& member) { return member.running; });
}

std::vector<std::string> Coordinator::running_names() const {
  std::vector<std::string> names;
  for (const Member& member : members_) {
    if (member.running) names.push_back(member.name);
  }
  return names;
}

std::vector<std::string> Coordinator::running() const {
  MutexLock lock(mu_);
  return running_names();
}

void Coordinator::wait_for_members(Duration grace) {
  {
    MutexLock lock(mu_);
    while (any_running() && !stop_) changed_.wait(mu_);
  }
  const TimePoint deadline = clock_.now() + grace;
  internal::Alarm alarm(clock_, deadline, mu_, changed_);
  MutexLock lock(mu_);
  while (any_running() && clock_.now() < deadline) changed_.wait(mu_);
}

void Coordinator::join(const JoinOptions& options) {
  wait_for_members(options.stop_grace_period);
  MutexLock lock(mu_);
  joined_ = true;
  throw_if_error(error_);
  if (any_running() && !options.ignore_live_threads) {
    throw_error(deadline_exceeded("Coordinator stopped with threads still running: ", str_join(running_names(), " ")));
  }
}

}  // namespace tutti
