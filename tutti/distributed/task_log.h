// Lines that a task writes for people, by how much they matter.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>

namespace tutti {

enum class LogLevel {
  kDebug,    // what it does, session by session
  kInfo,     // what changed: tasks found, sessions ended
  kWarning,  // what somebody should look at: tasks missing or lost, callers refused
  kError,    // why it ends
};

// Where lines go. Copies share it. Thread-safe if the function is.
class TaskLog {
 public:
  using Function = std::function<void(LogLevel level, const std::string& line)>;

  // Nobody listens.
  TaskLog() = default;
  TaskLog(std::nullptr_t) {}  // NOLINT: implicit
  template <typename F>
  requires std::invocable<F, LogLevel, const std::string&> TaskLog(F function)
      : function_(std::move(function)) {}  // NOLINT: implicit, as std::function's is
  // A function of lines alone gets all but those for debugging.
  template <typename F>
  requires std::invocable<F, const std::string&> TaskLog(F function)  // NOLINT: implicit likewise
      : function_([function = std::move(function)](LogLevel level, const std::string& line) {
          if (level != LogLevel::kDebug) function(line);
        }) {}

  explicit operator bool() const { return function_ != nullptr; }
  void operator()(LogLevel level, const std::string& line) const {
    if (function_) function_(level, line);
  }
  void operator()(const std::string& line) const { (*this)(LogLevel::kInfo, line); }
  void debug(const std::string& line) const { (*this)(LogLevel::kDebug, line); }
  void warning(const std::string& line) const { (*this)(LogLevel::kWarning, line); }

 private:
  Function function_;
};

// Lines of `least` and above.
TaskLog log_to_stderr(LogLevel least);

}  // namespace tutti
