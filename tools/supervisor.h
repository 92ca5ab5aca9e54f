// What the tasks of a job do: which are started, started again and ended, and how the job ends.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

using TimePoint = std::chrono::steady_clock::time_point;

// How a process ended.
struct ExitCause {
  bool by_signal = false;
  int number = 0;  // the exit code, or the signal

  bool ok() const { return !by_signal && number == 0; }
  // As shells give it: 128 and the signal's number.
  int code() const { return by_signal ? 128 + number : number; }
  // "exit code 3" or "signal 9 (Killed)"
  std::string to_string() const;
};

struct SupervisedTask {
  std::string name;     // "worker 0"
  bool serves = false;  // runs for the others and is ended when they are done: ps, evaluator
  bool needed = false;  // of one that serves: the others cannot do without it: ps
};

struct SupervisorOptions {
  int restarts = 0;  // of each task
  // Before a task's first restart; each one after it waits twice as long, up to the limit. A task that ran for as long
  // as `calm` begins again with the shortest.
  std::chrono::milliseconds first_pause{100};
  std::chrono::milliseconds longest_pause{10'000};
  std::chrono::milliseconds calm{10'000};
  // How often a start for which there is no room is tried again.
  int most_delays = 6;
  // What the others get to end, too, after a task that they need has ended with 0 and is not started again. 0: as long
  // as they like.
  std::chrono::milliseconds patience{60'000};
  // What tasks get to end by themselves after SIGTERM.
  std::chrono::milliseconds grace{10'000};
  // A second signal within so long is the first one again: timeout(1), for one, sends it to the process and to its
  // group.
  std::chrono::milliseconds echo{300};
};

// A state machine without processes, threads or time of its own: it is told what happened and says what to do.
//
//   1. Everything is started.
//   2. A task that fails is started again while it has restarts left, after a pause; when it has none, the job has
//      failed with the task's exit code.
//   3. A task that the others need and that ends with exit code 0 before them is started again likewise. When it has no
//      restart left, the others may still be about to end: programs exist whose ps count the workers out. If they run
//      on for longer than the patience, without what they need, the job has failed with exit code 1.
//   4. When all tasks that do not serve have ended well, the job is done, with exit code 0.
//   5. A done or failed job, and one that is told to stop, has its tasks terminated, and killed after the grace; told
//      again, killed at once.
//
// The first thing that ends a job decides its exit code.
class Supervisor {
 public:
  struct Action {
    enum class Kind { kStart, kTerminate, kKill, kSay };
    Kind kind;
    std::size_t task = 0;  // not for kSay
    std::string line;      // of kSay: for the user

    bool operator==(const Action&) const = default;
  };
  using Actions = std::vector<Action>;

  Supervisor(std::vector<SupervisedTask> tasks, SupervisorOptions options);

  // Once, before all others.
  Actions begin(TimePoint now);
  Actions on_exit(std::size_t task, const ExitCause& cause, TimePoint now);
  // The system has no room for it just now: tried again a few times, each a little later, which are no restarts.
  Actions on_start_delayed(std::size_t task, const std::string& why, TimePoint now);
  // It is no program at all: starting it again would not help. `code`: what the job ends with. In a job that ends: it
  // was not started because of that.
  Actions on_start_failed(std::size_t task, const std::string& why, int code, TimePoint now);
  // `why` begins the line; the job ends with `code`.
  Actions on_stop(const std::string& why, int code, TimePoint now);
  // Without grace.
  Actions on_kill(const std::string& why, int code, TimePoint now);
  // To be called at next_time() or later.
  Actions on_time(TimePoint now);

  // Whether a kStart still holds: not when the job has come to its end since.
  bool starts() const { return phase_ == Phase::kRunning; }
  std::optional<TimePoint> next_time() const;
  // Nothing runs any more and nothing will.
  bool finished() const;
  // REQUIRES: finished()
  int exit_code() const { return exit_code_.value_or(0); }

 private:
  enum class Phase { kRunning, kEnding, kKilling };
  struct Task {
    SupervisedTask description;
    enum class State { kRunning, kPausing, kEnded, kMissed } state = State::kEnded;
    int restarts = 0;
    int delays = 0;                      // one after the other
    std::chrono::milliseconds pause{0};  // before the next restart
    TimePoint started;
    TimePoint start_at;   // when kPausing
    TimePoint missed_at;  // when kMissed: how long the others may go on without it
  };

  void start(std::size_t task, TimePoint now, Actions& actions);
  void failed(Task& task, const ExitCause& cause, TimePoint now, Actions& actions);
  void left(Task& task, TimePoint now, Actions& actions);
  void start_again(Task& task, const std::string& what, TimePoint now, Actions& actions);
  void end_job(int code, TimePoint now, Actions& actions);
  void kill_all(int code, Actions& actions);
  bool work_is_done() const;
  std::size_t num_running() const;

  const SupervisorOptions options_;
  std::vector<Task> tasks_;
  Phase phase_ = Phase::kRunning;
  TimePoint kill_at_;                      // when kEnding
  std::optional<TimePoint> told_to_stop_;  // first
  std::optional<int> exit_code_;
};

}  // namespace tutti::tools
