#include "tutti/distributed/task_log.h"

#include <unistd.h>

namespace tutti {

TaskLog log_to_stderr(LogLevel least) {
  return TaskLog([least](LogLevel level, const std::string& line) {
    if (level < least) return;
    const std::string text = line + "\n";
    // One write, so that lines of several tasks on one terminal do not mix.
    (void)!write(STDERR_FILENO, text.data(), text.size());
  });
}

}  // namespace tutti
