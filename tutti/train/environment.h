// Time, files and the log of a training program.
#pragma once

#include <memory>
#include <string>

#include "tutti/core/clock.h"
#include "tutti/core/file_system.h"
#include "tutti/train/hooks.h"

namespace tutti {

class Cancellation;

// Writes the line to standard error.
void log_to_stderr(const std::string& line);

// A value; copies share the clock.
struct Environment {
  std::shared_ptr<Clock> clock = make_system_clock();
  FileSystem* files = &local_file_system();                                // outlives all that uses this
  LogFunction log = [](const std::string& line) { log_to_stderr(line); };  // null: nothing is said
  // Ends what waits, steps included; null: nothing does. Outlives all that uses this.
  Cancellation* cancellation = nullptr;

  void say(const std::string& line) const {
    if (log) log(line);
  }
  // Returns after `duration`; throws the cancellation's cause when that comes first.
  void wait(Duration duration) const;
};

}  // namespace tutti
