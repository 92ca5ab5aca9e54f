// Reading event files, finished ones and those that are being written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tutti/core/file_system.h"
#include "tutti/io/event_writer.h"

namespace tutti {

// Kinds of events. Bytes are messages of TensorFlow's.
struct FileVersionEvent {
  std::string version;  // "brain.Event:2"
};
struct GraphEvent {
  std::string graph_def;
};
struct MetaGraphEvent {
  std::string meta_graph_def;
};
struct SummaryEvent {
  std::string summary;  // see summary_values.h
};
struct LogEvent {
  std::string message;
};
struct RunMetadataEvent {
  std::string tag;
  std::string run_metadata;
};

struct Event {
  double wall_time = 0;  // seconds since 1970
  std::int64_t step = 0;
  // None of them: a kind that this reader does not know.
  std::variant<std::monostate, FileVersionEvent, GraphEvent, MetaGraphEvent, SummaryEvent, LogEvent, SessionLog,
               RunMetadataEvent>
      what;
};

// The parts of one Event message. kDataLoss when the bytes are none.
Result<Event> parse_event(std::string_view bytes);

// Goes through one file from front to back, and on when it has grown. One thread at a time.
class EventReader {
 public:
  static Result<std::unique_ptr<EventReader>> open(FileSystem& fs, const std::string& path);

  // The next event; false when there is none yet: the file ends here, or within an event, which a writer may be about
  // to finish (or left torn when it died). kDataLoss, naming the file and the offset, when the event is damaged; every
  // later call then fails likewise. Memory grows with what is really in the file, whatever length it claims.
  Result<bool> next(Event* event);
  // The same, as bytes.
  Result<bool> next_record(std::string* record);

  // Of the event that `next` would give.
  std::uint64_t offset() const { return offset_; }

 private:
  EventReader(std::string path, std::unique_ptr<RandomAccessFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}
  Result<bool> read_record(std::string* record);
  // False: the file ends before them.
  Result<bool> read_bytes(std::uint64_t offset, std::uint64_t bytes, std::string* out);
  Status keep_error(const Status& status, std::uint64_t offset);

  const std::string path_;
  const std::unique_ptr<RandomAccessFile> file_;
  std::uint64_t offset_ = 0;
  Status error_;
};

// Paths of the event files in a directory, in the order in which they were begun.
Result<std::vector<std::string>> list_event_files(FileSystem& fs, const std::string& logdir);

}  // namespace tutti
