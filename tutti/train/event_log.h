// The event files that the hooks of a session share.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tutti/core/clock.h"
#include "tutti/core/file_system.h"
#include "tutti/core/status.h"
#include "tutti/train/hooks.h"

namespace tutti {

class EventWriter;
struct SessionLog;

// Writes events; a failure is said once and training goes on, since what it measures is not what it makes. Now and then
// a new file is tried, and said when it works: a full disk may have room again.
// One thread at a time.
class EventLog {
 public:
  // At most so often.
  static constexpr std::chrono::seconds kBetweenTries{60};

  // `clock` outlives this.
  EventLog(std::string directory, std::shared_ptr<EventWriter> writer, Clock& clock, LogFunction log);

  void add_summary(std::string_view summary, std::int64_t step);
  // A summary of one number.
  void add_scalar(std::string_view tag, float value, std::int64_t step);
  void add_graph(std::string_view graph_def);
  void add_meta_graph(std::string_view meta_graph_def);
  void add_session_log(const SessionLog& entry, std::int64_t step);
  void add_run_metadata(std::string_view tag, std::string_view run_metadata,
                        std::optional<std::int64_t> step = std::nullopt);
  void flush();

 private:
  // Calls `write(EventWriter&)`, which gives a Status.
  template <typename Write>
  void attempt(const Write& write);
  void note(const Status& status);
  void try_again();

  const std::string directory_;
  const std::shared_ptr<EventWriter> writer_;
  Clock& clock_;
  const LogFunction log_;
  std::optional<TimePoint> next_try_;  // of a new file, after a failure
  bool said_refused_ = false;
};

// One log for each directory, opened when first asked for. One thread at a time.
class EventWriters {
 public:
  EventWriters(FileSystem& files, Clock& clock, LogFunction log) : files_(files), clock_(clock), log_(std::move(log)) {}

  // Throws when the directory or the file cannot be made.
  std::shared_ptr<EventLog> at(const std::string& directory);
  // Over another's writer.
  std::shared_ptr<EventLog> over(std::shared_ptr<EventWriter> writer);
  void flush();

 private:
  FileSystem& files_;
  Clock& clock_;
  const LogFunction log_;
  std::map<std::string, std::shared_ptr<EventLog>> logs_;
};

}  // namespace tutti
