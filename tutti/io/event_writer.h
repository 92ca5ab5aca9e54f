// Event files: what TensorBoard shows of a training run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "tutti/core/clock.h"
#include "tutti/core/file_system.h"
#include "tutti/core/mutex.h"
#include "tutti/core/status.h"

namespace tensorflow {
class Event;
}

namespace tutti {

class RecordWriter;

struct EventWriterOptions {
  // Events that may wait to be written, and their bytes; who adds more waits. One event alone may be larger.
  int max_queue = 10;
  std::size_t max_queue_bytes = 64 << 20;
  // An event is on the disk at most this long after it was added, if the disk keeps up. Not above zero: at once.
  Duration flush_every = std::chrono::seconds(120);
  // How long a call waits for room in the queue, or for the disk: kDeadlineExceeded then.
  Duration patience = std::chrono::minutes(5);
  std::string filename_suffix = "";
  // For stamps and for `flush_every`; outlives the writer. None: the machine's.
  Clock* clock = nullptr;
};

// A training session began, saved or ended.
struct SessionLog {
  enum class Status { kUnspecified = 0, kStart = 1, kStop = 2, kCheckpoint = 3 };
  Status status = Status::kUnspecified;
  std::string checkpoint_path = "";
  std::string message = "";
};

// Writes events to one file at a time, on a thread of its own. The first error is kept, naming the file, and is the
// answer to every later call until `reopen`; events that were not on the disk by then are lost, those before them not.
// What `flush` answered OK for is in the file for good, whatever becomes of the process or the machine.
// Adding may wait for room, never for the disk while there is room. Thread-safe.
class EventWriter {
 public:
  // Makes the directory and the file, with the record that says what it is; both are on the disk when this returns.
  // Files are named "events.out.tfevents.<seconds>.<host>.<process>.<number><suffix>", in such a way that TensorBoard
  // takes them in the order in which they were opened. `fs` outlives the writer.
  static Result<std::unique_ptr<EventWriter>> open(FileSystem& fs, const std::string& logdir,
                                                   const EventWriterOptions& options = {});
  // Closes; errors are dropped.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // Each stamps its event with the time. kInvalidArgument for bytes that are no such message, for text that is not
  // UTF-8 (TensorBoard could not read on behind it) and for messages of 2 GiB and more; the writer stays good.

  // `summary`: a Summary, as summary ops and SummaryBuilder make them. Of a tag's metadata only the first of a file is
  // kept: readers need no more.
  Status add_summary(std::string_view summary, std::optional<std::int64_t> step = {});
  Status add_graph(std::string_view graph_def, std::optional<std::int64_t> step = {});
  Status add_meta_graph(std::string_view meta_graph_def, std::optional<std::int64_t> step = {});
  // kInvalidArgument for a tag that this writer had before.
  Status add_run_metadata(std::string_view tag, std::string_view run_metadata, std::optional<std::int64_t> step = {});
  Status add_session_log(const SessionLog& log, std::optional<std::int64_t> step = {});
  // An Event, written as it is, its time included.
  Status add_event(std::string_view event);

  // Returns when all that was added before is on the disk.
  Status flush();
  // Flushes and ends the file. Adding then is kFailedPrecondition. Again: no effect, the same answer.
  Status close();
  // After `close` or an error: goes on in a new file, the error forgotten. Else no effect.
  Status reopen();

  const std::string& logdir() const { return logdir_; }
  // Of the file that is being written, or was last.
  std::string path() const;

 private:
  struct Work;

  EventWriter(FileSystem& fs, std::string logdir, const EventWriterOptions& options);
  Status start() TUTTI_REQUIRES(lifecycle_mu_);
  void stop() TUTTI_REQUIRES(lifecycle_mu_);
  Result<std::string> next_path() TUTTI_REQUIRES(lifecycle_mu_);
  Result<std::unique_ptr<RecordWriter>> create_file(const std::string& path);

  // Stamps the event and leaves it to the thread.
  Status add(tensorflow::Event& event, std::optional<std::int64_t> step);
  enum class Metadata { kOnce, kAsGiven };
  Status enqueue(tensorflow::Event& event, Metadata metadata);
  Status wait_for_room(std::size_t bytes) TUTTI_REQUIRES(mu_);
  Status check_open() const TUTTI_REQUIRES(mu_);
  Status check_run_tag(const tensorflow::Event& event) TUTTI_REQUIRES(mu_);
  void drop_known_metadata(tensorflow::Event& event) TUTTI_REQUIRES(mu_);
  Status wait_for_disk(std::uint64_t through) TUTTI_REQUIRES(mu_);

  // The writing thread's.
  void write_events(std::unique_ptr<RecordWriter> file);
  Work wait_for_work();
  Status do_work(RecordWriter& file, const Work& work);
  void note_synced(std::uint64_t through);
  void note_failure(const Status& status);
  void set_timer();
  void cancel_timer();

  FileSystem& fs_;
  const std::string logdir_;
  const EventWriterOptions options_;
  const std::unique_ptr<Clock> own_clock_;
  Clock& clock_;

  Mutex lifecycle_mu_;  // held over a whole start or stop; before mu_
  std::thread thread_ TUTTI_GUARDED_BY(lifecycle_mu_);
  std::int64_t last_seconds_ TUTTI_GUARDED_BY(lifecycle_mu_) = 0;  // in the name of the last file

  mutable Mutex mu_;
  CondVar work_;      // for the writing thread
  CondVar progress_;  // for those that wait for room or the disk
  std::string path_ TUTTI_GUARDED_BY(mu_);
  bool open_ TUTTI_GUARDED_BY(mu_) = false;
  bool stopping_ TUTTI_GUARDED_BY(mu_) = false;
  std::uint64_t file_number_ TUTTI_GUARDED_BY(mu_) = 0;
  bool flush_due_ TUTTI_GUARDED_BY(mu_) = false;  // the timer rang
  Status error_ TUTTI_GUARDED_BY(mu_);
  std::deque<std::string> queue_ TUTTI_GUARDED_BY(mu_);
  std::size_t queued_bytes_ TUTTI_GUARDED_BY(mu_) = 0;
  // Numbers of events of this file: all that were added, those on the disk, those that somebody waits for.
  std::uint64_t added_ TUTTI_GUARDED_BY(mu_) = 0;
  std::uint64_t synced_ TUTTI_GUARDED_BY(mu_) = 0;
  std::uint64_t wanted_ TUTTI_GUARDED_BY(mu_) = 0;
  std::set<std::string, std::less<>> described_tags_ TUTTI_GUARDED_BY(mu_);  // whose metadata this file has
  std::set<std::string, std::less<>> run_tags_ TUTTI_GUARDED_BY(mu_);

  // Touched by the writing thread only.
  std::optional<Clock::TimerId> timer_;
};

}  // namespace tutti
