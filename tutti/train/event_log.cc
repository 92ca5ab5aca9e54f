#include "tutti/train/event_log.h"

#include <utility>

#include "tutti/io/event_writer.h"
#include "tutti/io/summary.h"

namespace tutti {

EventLog::EventLog(std::string directory, std::shared_ptr<EventWriter> writer, LogFunction log)
    : directory_(std::move(directory)), writer_(std::move(writer)), log_(std::move(log)) {}

void EventLog::note(Status status) {
  if (status.ok() || failed_) return;
  failed_ = true;
  if (log_) log_(str_cat("Warning: events in ", directory_, " are not written: ", status.to_string()));
}

void EventLog::add_summary(std::string_view summary, std::int64_t step) { note(writer_->add_summary(summary, step)); }

void EventLog::add_scalar(std::string_view tag, float value, std::int64_t step) {
  SummaryBuilder summary;
  summary.add_scalar(tag, value);
  add_summary(summary.bytes(), step);
}

void EventLog::add_graph(std::string_view graph_def) { note(writer_->add_graph(graph_def)); }
void EventLog::add_meta_graph(std::string_view meta_graph_def) { note(writer_->add_meta_graph(meta_graph_def)); }
void EventLog::add_session_log(const SessionLog& entry, std::int64_t step) {
  note(writer_->add_session_log(entry, step));
}
void EventLog::add_run_metadata(std::string_view tag, std::string_view run_metadata, std::int64_t step) {
  note(writer_->add_run_metadata(tag, run_metadata, step));
}
void EventLog::flush() { note(writer_->flush()); }

std::shared_ptr<EventLog> EventWriters::at(const std::string& directory) {
  std::shared_ptr<EventLog>& log = logs_[directory];
  if (log == nullptr) {
    EventWriterOptions options;
    options.clock = &clock_;
    std::shared_ptr<EventWriter> writer = EventWriter::open(files_, directory, options).value_or_throw();
    log = std::make_shared<EventLog>(directory, std::move(writer), log_);
  }
  return log;
}

std::shared_ptr<EventLog> EventWriters::over(std::shared_ptr<EventWriter> writer) {
  const std::string directory = writer->logdir();
  return std::make_shared<EventLog>(directory, std::move(writer), log_);
}

void EventWriters::flush() {
  for (const auto& [directory, log] : logs_) {
    if (log != nullptr) log->flush();
  }
}

}  // namespace tutti
