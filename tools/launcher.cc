#include "launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "labelled_lines.h"
#include "process.h"

namespace tutti::tools {
namespace {

using SteadyClock = std::chrono::steady_clock;

// An own output that may be slow: what it does not take yet is kept, and nobody waits for it.
class Outlet {
 public:
  // Tasks are not read while so much waits: they wait too, as programs do that write to a slow pipe.
  static constexpr std::size_t kFull = 1 << 20;

  explicit Outlet(int fd) : fd_(fd) {}
  std::string& text() { return text_; }
  int fd() const { return fd_; }
  bool empty() const { return text_.empty(); }
  bool full() const { return text_.size() >= kFull; }
  bool broken() const { return broken_; }

  // REQUIRES: poll says that it may be written to; then no more than PIPE_BUF is sure not to wait. Whole lines where
  // they fit: the other outlet may lead to the same place.
  void write_some() {
    std::size_t some = std::min<std::size_t>(text_.size(), PIPE_BUF);
    if (const auto end = text_.rfind('\n', some - 1); end != text_.npos) some = end + 1;
    const ssize_t count = write(fd_, text_.data(), some);
    if (count > 0) {
      text_.erase(0, static_cast<std::size_t>(count));
      say_lost();
    } else if (errno == EPIPE) {
      broken_ = true;
      text_.clear();
    } else if (errno != EINTR && errno != EAGAIN) {
      // A full disk: the job is worth more than its log.
      why_lost_ = std::strerror(errno);
      lines_lost_ += std::count(text_.begin(), text_.end(), '\n');
      text_.clear();
    }
  }

 private:
  void say_lost() {
    if (lines_lost_ == 0) return;
    text_.insert(0,
                 str_cat("[tutti] ", std::exchange(lines_lost_, 0), " lines of output were lost: ", why_lost_, "\n"));
  }

  const int fd_;
  std::string text_;
  bool broken_ = false;          // its reader is gone
  std::int64_t lines_lost_ = 0;  // since the last write that worked
  std::string why_lost_;
};

// One of the two outputs of a task.
class Inlet {
 public:
  Inlet(std::string label, Outlet& to) : lines_(std::move(label)), to_(to) {}
  void open(int fd) { fd_ = fd; }
  int fd() const { return fd_; }
  Outlet& outlet() { return to_; }

  // How much it was; 0 when there is no more, for now or for ever.
  int read_some() {
    char buffer[16 << 10];
    const ssize_t count = fd_ < 0 ? 0 : read(fd_, buffer, sizeof(buffer));
    if (count > 0) {
      lines_.take({buffer, static_cast<std::size_t>(count)}, to_.text());
      return static_cast<int>(count);
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    finish();
    return 0;
  }

  // What its task has written by now, for it has ended. No more than a pipe holds: another process may have it open,
  // and write for ever.
  void read_rest() {
    for (int left = fd_ < 0 ? 0 : fcntl(fd_, F_GETPIPE_SZ); left > 0;) {
      const int count = read_some();
      if (count == 0) break;
      left -= count;
    }
    finish();
  }

  void finish() {
    if (fd_ < 0) return;
    lines_.finish(to_.text());
    close(std::exchange(fd_, -1));
  }

 private:
  LabelledLines lines_;
  Outlet& to_;
  int fd_ = -1;
};

class Launcher {
 public:
  Launcher(const std::vector<TaskPlan>& plans, const LauncherOptions& options)
      : plans_(plans), supervisor_(supervised(plans), options.supervisor) {
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const std::string label = task_label(plans[i].name(), i, options.coloured);
      tasks_.push_back({.output = Inlet(label, output_), .errors = Inlet(label, errors_)});
    }
  }

  int run() {
    sigset_t wanted;
    sigemptyset(&wanted);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, kParentGone, SIGCHLD}) {
      if (!is_ignored(number)) sigaddset(&wanted, number);
    }
    sigprocmask(SIG_BLOCK, &wanted, nullptr);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);  // also in the tasks: writing beyond a limit on file sizes is an error, not the end
    signals_ = signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals_ < 0) return std::fprintf(stderr, "tutti run: signalfd: %s\n", std::strerror(errno)), 1;
    act(supervisor_.begin(SteadyClock::now()));
    while (!supervisor_.finished()) turn();
    flush();
    close(signals_);
    kill_children(std::chrono::seconds(10));  // what has left its task's process group
    return supervisor_.exit_code();
  }

 private:
  struct Task {
    pid_t id = -1;  // -1: does not run
    Inlet output;
    Inlet errors;
  };

  static std::vector<SupervisedTask> supervised(const std::vector<TaskPlan>& plans) {
    std::vector<SupervisedTask> tasks;
    for (const auto& plan : plans)
      tasks.push_back({.name = plan.name(), .serves = plan.serves, .needed = plan.job == "ps"});
    return tasks;
  }

  // Waits for something to happen and answers it.
  void turn() {
    std::vector<pollfd> wanted = {{signals_, POLLIN, 0}};
    for (Outlet* outlet : {&output_, &errors_}) {
      if (!outlet->empty()) wanted.push_back({outlet->fd(), POLLOUT, 0});
    }
    for (auto& task : tasks_) {
      for (Inlet* inlet : {&task.output, &task.errors}) {
        if (inlet->fd() >= 0 && !inlet->outlet().full()) wanted.push_back({inlet->fd(), POLLIN, 0});
      }
    }
    if (poll(wanted.data(), wanted.size(), wait_ms()) > 0) answer(wanted);
    if (const auto next = supervisor_.next_time(); next && SteadyClock::now() >= *next) {
      act(supervisor_.on_time(SteadyClock::now()));
    }
  }

  int wait_ms() const {
    const auto next = supervisor_.next_time();
    if (!next) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - SteadyClock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
  }

  void answer(const std::vector<pollfd>& polled) {
    const auto ready = [&](int fd) {
      return std::any_of(polled.begin(), polled.end(),
                         [&](const pollfd& at) { return at.fd == fd && at.revents != 0; });
    };
    for (Outlet* outlet : {&output_, &errors_}) {
      if (!outlet->empty() && ready(outlet->fd())) outlet->write_some();
    }
    for (auto& task : tasks_) {
      for (Inlet* inlet : {&task.output, &task.errors}) {
        if (inlet->fd() >= 0 && ready(inlet->fd())) inlet->read_some();
      }
    }
    if (ready(signals_)) read_signals();
    if (output_.broken() && !told_broken_) {
      told_broken_ = true;
      act(supervisor_.on_stop("nobody reads the output any more", 128 + SIGPIPE, SteadyClock::now()));
    }
  }

  void read_signals() {
    signalfd_siginfo info;
    while (read(signals_, &info, sizeof(info)) == sizeof(info)) {
      const int number = static_cast<int>(info.ssi_signo);
      const auto now = SteadyClock::now();
      if (number == kParentGone) {
        act(supervisor_.on_kill("the launcher was killed", 128 + SIGKILL, now));
      } else if (number != SIGCHLD) {
        act(supervisor_.on_stop(str_cat("SIG", sigabbrev_np(number)), 128 + number, now));
      }
    }
    reap();
  }

  // One SIGCHLD may stand for several children.
  void reap() {
    while (true) {
      siginfo_t info = {};
      if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
      const auto found =
          std::find_if(tasks_.begin(), tasks_.end(), [&](const Task& task) { return task.id == info.si_pid; });
      // What a task has started goes with it. Before it is reaped: until then its group's number is not given away.
      if (found != tasks_.end()) kill(-info.si_pid, SIGKILL);
      waitpid(info.si_pid, nullptr, 0);
      if (found == tasks_.end()) continue;  // an orphan that a task left to us
      found->id = -1;
      for (Inlet* inlet : {&found->output, &found->errors}) inlet->read_rest();
      const ExitCause cause{.by_signal = info.si_code != CLD_EXITED, .number = info.si_status};
      act(supervisor_.on_exit(static_cast<std::size_t>(found - tasks_.begin()), cause, SteadyClock::now()));
    }
  }

  void act(const Supervisor::Actions& actions) {
    using Kind = Supervisor::Action::Kind;
    for (const auto& action : actions) {
      switch (action.kind) {
        case Kind::kStart:
          start(action.task);
          break;
        case Kind::kTerminate:
          signal_task(action.task, SIGTERM);
          break;
        case Kind::kKill:
          signal_task(action.task, SIGKILL);
          break;
        case Kind::kSay:
          errors_.text() += str_cat("[tutti] ", action.line, "\n");
          break;
      }
    }
  }

  void start(std::size_t index) {
    const auto now = SteadyClock::now();
    if (!supervisor_.starts()) {  // a task before this one could not be started
      act(supervisor_.on_start_failed(index, "the job ends", 126, now));
      return;
    }
    const auto started = start_process(plans_[index].command, plans_[index].environment);
    if (!started.ok()) {
      const std::string& why = started.status().message();
      const Code code = started.status().code();
      act(code == Code::kResourceExhausted
              ? supervisor_.on_start_delayed(index, why, now)
              : supervisor_.on_start_failed(index, why, code == Code::kNotFound ? 127 : 126, now));
      return;
    }
    tasks_[index].id = started->id;
    tasks_[index].output.open(started->output);
    tasks_[index].errors.open(started->errors);
  }

  // A stopped process would not see SIGTERM.
  void signal_task(std::size_t index, int number) {
    const pid_t id = tasks_[index].id;
    if (id <= 0) return;
    kill(-id, number);
    kill(-id, SIGCONT);
  }

  // What is left to show, as long as somebody reads.
  void flush() {
    const auto deadline = SteadyClock::now() + std::chrono::seconds(5);
    for (Outlet* outlet : {&output_, &errors_}) {
      while (!outlet->empty() && SteadyClock::now() < deadline) {
        pollfd wanted = {outlet->fd(), POLLOUT, 0};
        if (poll(&wanted, 1, 100) > 0) outlet->write_some();
      }
    }
  }

  const std::vector<TaskPlan>& plans_;
  Outlet output_{STDOUT_FILENO};
  Outlet errors_{STDERR_FILENO};
  Supervisor supervisor_;
  std::vector<Task> tasks_;
  int signals_ = -1;
  bool told_broken_ = false;
};

}  // namespace

int launch(const std::vector<TaskPlan>& plans, const LauncherOptions& options) {
  return Launcher(plans, options).run();
}

}  // namespace tutti::tools
