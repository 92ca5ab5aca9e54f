#include "tutti/train/event_log.h"

#include <utility>

#include "tutti/io/event_writer.h"
#include "tutti/io/summary.h"

namespace tutti {

EventLog::EventLog(std::string directory, std::shared_ptr<EventWriter> writer, Clock& clock, LogFunction log)
    : directory_(std::move(directory)), writer_(std::move(writer)), clock_(clock), log_(std::move(log)) {}

template <typename Write>
void EventLog::attempt(const Write& write) {
  if (next_try_) try_again();
  if (!next_try_) note(write(*writer_));
}

void EventLog::note(const Status& status) {
  if (status.ok()) return;
  // What was asked for was wrong, and the file is as good as before. It will be wrong again with the next step.
  const bool refused = status.code() == Code::kInvalidArgument;
  if (log_ && !(refused && said_refused_)) {
    log_(str_cat("Warning: events in ", directory_, " are not written: ", status.to_string()));
  }
  if (refused) {
    said_refused_ = true;
  } else {
    next_try_ = clock_.now() + kBetweenTries;
  }
}

void EventLog::try_again() {
  if (clock_.now() < *next_try_) return;
  if (!writer_->reopen().ok()) {
    next_try_ = clock_.now() + kBetweenTries;
    return;
  }
  next_try_.reset();
  if (log_) log_(str_cat("Events in ", directory_, " are written again, to ", writer_->path()));
}

void EventLog::add_summary(std::string_view summary, std::int64_t step) {
  attempt([&](EventWriter& writer) { return writer.add_summary(summary, step); });
}

void EventLog::add_scalar(std::string_view tag, float value, std::int64_t step) {
  SummaryBuilder summary;
  summary.add_scalar(tag, value);
  add_summary(summary.bytes(), step);
}

void EventLog::add_graph(std::string_view graph_def) {
  attempt([&](EventWriter& writer) { return writer.add_graph(graph_def); });
}
void EventLog::add_meta_graph(std::string_view meta_graph_def) {
  attempt([&](EventWriter& writer) { return writer.add_meta_graph(meta_graph_def); });
}
void EventLog::add_session_log(const SessionLog& entry, std::int64_t step) {
  attempt([&](EventWriter& writer) { return writer.add_session_log(entry, step); });
}
void EventLog::add_run_metadata(std::string_view tag, std::string_view run_metadata, std::optional<std::int64_t> step) {
  attempt([&](EventWriter& writer) { return writer.add_run_metadata(tag, run_metadata, step); });
}
void EventLog::flush() {
  attempt([](EventWriter& writer) { return writer.flush(); });
}

std::shared_ptr<EventLog> EventWriters::at(const std::string& directory) {
  std::shared_ptr<EventLog>& log = logs_[directory];
  if (log == nullptr) {
    EventWriterOptions options;
    options.clock = &clock_;
    std::shared_ptr<EventWriter> writer = EventWriter::open(files_, directory, options).value_or_throw();
    log = std::make_shared<EventLog>(directory, std::move(writer), clock_, log_);
  }
  return log;
}

std::shared_ptr<EventLog> EventWriters::over(std::shared_ptr<EventWriter> writer) {
  const std::string directory = writer->logdir();
  return std::make_shared<EventLog>(directory, std::move(writer), clock_, log_);
}

void EventWriters::flush() {
  for (const auto& [directory, log] : logs_) {
    if (log != nullptr) log->flush();
  }
}

}  // namespace tutti
