#include "tutti/io/event_writer.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "proto/event.pb.h"
#include "tutti/core/thread_setup.h"
#include "tutti/io/internal/utf8.h"
#include "tutti/io/record_writer.h"

namespace tutti {
namespace {

constexpr std::string_view kNamePrefix = "events.out.tfevents.";
constexpr std::int64_t kMicrosPerSecond = 1'000'000;
// Room in a message for what surrounds the bytes that a caller gave.
constexpr std::size_t kMaxPayloadBytes = std::numeric_limits<std::int32_t>::max() - 4096;

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

// The seconds in the name of an event file; -1 in other names.
std::int64_t seconds_in_name(std::string_view name) {
  if (!name.starts_with(kNamePrefix)) return -1;
  name.remove_prefix(kNamePrefix.size());
  std::int64_t seconds = -1;
  std::from_chars(name.data(), name.data() + name.size(), seconds);
  return seconds;
}

// After all that `names` has, unless a name is from another time altogether.
std::int64_t later_than(const std::vector<std::string>& names, std::int64_t now) {
  constexpr std::int64_t kDay = 24 * 60 * 60;
  std::int64_t seconds = now;
  for (const std::string& name : names) {
    const std::int64_t other = seconds_in_name(name);
    if (other >= seconds && other < now + kDay) seconds = other + 1;
  }
  return seconds;
}

Status check_payload(std::string_view bytes, std::string_view what) {
  if (bytes.size() <= kMaxPayloadBytes) return {};
  return invalid_argument("event: a ", what, " of ", bytes.size(), " bytes; at most ", kMaxPayloadBytes, " fit");
}

Status check_text(std::string_view text, std::string_view what) {
  TUTTI_RETURN_IF_ERROR(check_payload(text, what));
  if (is_utf8(text)) return {};
  return invalid_argument("event: the ", what, " \"", printable(text), "\" is not UTF-8");
}

template <typename Message>
Status parse_payload(std::string_view bytes, std::string_view what, Message* message) {
  TUTTI_RETURN_IF_ERROR(check_payload(bytes, what));
  if (message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return {};
  return invalid_argument("event: ", bytes.size(), " bytes that are no ", what);
}

// What is bytes in our messages and text in those of other readers.
Status check_tags(const tensorflow::Summary& summary) {
  for (const auto& value : summary.value()) {
    TUTTI_RETURN_IF_ERROR(check_text(value.tag(), "summary tag"));
    TUTTI_RETURN_IF_ERROR(check_text(value.node_name(), "summary node name"));
  }
  return {};
}

double seconds_since_1970(const Clock& clock) {
  return static_cast<double>(clock.wall_micros()) / static_cast<double>(kMicrosPerSecond);
}

}  // namespace

// What the thread does before it looks again.
struct EventWriter::Work {
  std::deque<std::string> events;
  std::uint64_t through = 0;  // the number of the last of them, or of one before
  bool sync = false;
  bool last = false;
};

EventWriter::EventWriter(FileSystem& fs, std::string logdir, const EventWriterOptions& options)
    : fs_(fs),
      logdir_(std::move(logdir)),
      options_(options),
      own_clock_(options.clock ? nullptr : make_system_clock()),
      clock_(options.clock ? *options.clock : *own_clock_) {}

Result<std::unique_ptr<EventWriter>> EventWriter::open(FileSystem& fs, const std::string& logdir,
                                                       const EventWriterOptions& options) {
  std::unique_ptr<EventWriter> writer(new EventWriter(fs, logdir, options));
  TUTTI_RETURN_IF_ERROR(writer->reopen());
  return writer;
}

EventWriter::~EventWriter() { (void)close(); }

Status EventWriter::start() {
  TUTTI_ASSIGN_OR_RETURN(std::string path, next_path());
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<RecordWriter> file, create_file(path));
  {
    MutexLock lock(mu_);
    path_ = std::move(path);
    error_ = Status();
    stopping_ = flush_due_ = false;
    queue_.clear();
    queued_bytes_ = 0;
    added_ = synced_ = wanted_ = 0;
    described_tags_.clear();
    open_ = true;
    ++file_number_;
  }
  thread_ = std::thread([this, file = std::move(file)]() mutable { write_events(std::move(file)); });
  return {};
}

void EventWriter::stop() {
  {
    MutexLock lock(mu_);
    open_ = false;
    stopping_ = true;
  }
  work_.notify_one();
  progress_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// TensorBoard goes through a directory's files by name and never back: a new one must come after all others.
Result<std::string> EventWriter::next_path() {
  TUTTI_RETURN_IF_ERROR(fs_.make_directories(logdir_));
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs_.list(logdir_));
  const std::int64_t now = clock_.wall_micros() / kMicrosPerSecond;
  last_seconds_ = std::max(later_than(names, now), last_seconds_ + 1);
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%010lld", static_cast<long long>(last_seconds_));
  // The number is the system's, not counted: writers of other threads and containers may open one at this moment.
  return str_cat(logdir_, logdir_.ends_with('/') ? "" : "/", kNamePrefix, seconds, ".", host_name(), ".", ::getpid(),
                 ".", std::random_device()(), options_.filename_suffix);
}

Result<std::unique_ptr<RecordWriter>> EventWriter::create_file(const std::string& path) {
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<RecordWriter> file, RecordWriter::create(fs_, path));
  tensorflow::Event version;
  version.set_wall_time(seconds_since_1970(clock_));
  version.set_file_version("brain.Event:2");
  version.mutable_source_metadata()->set_writer("tutti.io.event_writer");
  TUTTI_RETURN_IF_ERROR(file->write(version.SerializeAsString()));
  TUTTI_RETURN_IF_ERROR(file->sync());
  TUTTI_RETURN_IF_ERROR(fs_.sync_directory(logdir_));
  return file;
}

Status EventWriter::add_summary(std::string_view summary, std::optional<std::int64_t> step) {
  tensorflow::Event event;
  TUTTI_RETURN_IF_ERROR(parse_payload(summary, "Summary", event.mutable_summary()));
  TUTTI_RETURN_IF_ERROR(check_tags(event.summary()));
  return add(event, step);
}

Status EventWriter::add_graph(std::string_view graph_def, std::optional<std::int64_t> step) {
  TUTTI_RETURN_IF_ERROR(check_payload(graph_def, "GraphDef"));
  tensorflow::Event event;
  event.set_graph_def(std::string(graph_def));
  return add(event, step);
}

Status EventWriter::add_meta_graph(std::string_view meta_graph_def, std::optional<std::int64_t> step) {
  TUTTI_RETURN_IF_ERROR(check_payload(meta_graph_def, "MetaGraphDef"));
  tensorflow::Event event;
  event.set_meta_graph_def(std::string(meta_graph_def));
  return add(event, step);
}

Status EventWriter::add_run_metadata(std::string_view tag, std::string_view run_metadata,
                                     std::optional<std::int64_t> step) {
  TUTTI_RETURN_IF_ERROR(check_text(tag, "tag of run metadata"));
  TUTTI_RETURN_IF_ERROR(check_payload(run_metadata, "RunMetadata"));
  tensorflow::Event event;
  event.mutable_tagged_run_metadata()->set_tag(std::string(tag));
  event.mutable_tagged_run_metadata()->set_run_metadata(std::string(run_metadata));
  return add(event, step);
}

Status EventWriter::add_session_log(const SessionLog& log, std::optional<std::int64_t> step) {
  TUTTI_RETURN_IF_ERROR(check_text(log.checkpoint_path, "checkpoint path of a session log"));
  TUTTI_RETURN_IF_ERROR(check_text(log.message, "message of a session log"));
  tensorflow::Event event;
  auto* session_log = event.mutable_session_log();
  session_log->set_status(static_cast<tensorflow::SessionLog::SessionStatus>(log.status));
  session_log->set_checkpoint_path(log.checkpoint_path);
  session_log->set_msg(log.message);
  return add(event, step);
}

Status EventWriter::add_event(std::string_view bytes) {
  tensorflow::Event event;
  TUTTI_RETURN_IF_ERROR(parse_payload(bytes, "Event", &event));
  if (event.has_summary()) TUTTI_RETURN_IF_ERROR(check_tags(event.summary()));
  return enqueue(event, Metadata::kAsGiven);
}

Status EventWriter::add(tensorflow::Event& event, std::optional<std::int64_t> step) {
  event.set_wall_time(seconds_since_1970(clock_));
  if (step) event.set_step(*step);
  return enqueue(event, Metadata::kOnce);
}

Status EventWriter::enqueue(tensorflow::Event& event, Metadata metadata) {
  const std::size_t bytes = event.ByteSizeLong();
  {
    MutexLock lock(mu_);
    TUTTI_RETURN_IF_ERROR(wait_for_room(bytes));
    // From here to the queue in one go: the event with a tag's metadata must come before those without it.
    TUTTI_RETURN_IF_ERROR(check_run_tag(event));
    if (metadata == Metadata::kOnce) drop_known_metadata(event);
    queue_.push_back(event.SerializeAsString());
    queued_bytes_ += queue_.back().size();
    ++added_;
  }
  work_.notify_one();
  return {};
}

Status EventWriter::wait_for_room(std::size_t bytes) {
  const auto deadline = std::chrono::steady_clock::now() + options_.patience;
  while (true) {
    TUTTI_RETURN_IF_ERROR(check_open());
    const std::size_t most = static_cast<std::size_t>(std::max(options_.max_queue, 1));
    const bool room = queue_.size() < most && queued_bytes_ + bytes <= options_.max_queue_bytes;
    if (room || queue_.empty()) return {};
    if (!progress_.wait_until(mu_, deadline) && std::chrono::steady_clock::now() >= deadline) {
      return deadline_exceeded("event file \"", printable(path_), "\": no room in the queue of ", queue_.size(),
                               " events; the disk does not keep up");
    }
  }
}

Status EventWriter::check_open() const {
  if (!error_.ok()) return error_;
  if (!open_) return failed_precondition("event file \"", printable(path_), "\" is closed");
  return {};
}

Status EventWriter::check_run_tag(const tensorflow::Event& event) {
  if (!event.has_tagged_run_metadata()) return {};
  const std::string& tag = event.tagged_run_metadata().tag();
  if (run_tags_.insert(tag).second) return {};
  return invalid_argument("The provided tag was already used for this event type: run metadata \"", printable(tag),
                          "\"");
}

void EventWriter::drop_known_metadata(tensorflow::Event& event) {
  if (!event.has_summary()) return;
  for (auto& value : *event.mutable_summary()->mutable_value()) {
    if (value.has_metadata() && !described_tags_.insert(value.tag()).second) value.clear_metadata();
  }
}

Status EventWriter::flush() {
  MutexLock lock(mu_);
  if (!error_.ok() || !open_) return error_;
  wanted_ = added_;
  work_.notify_one();
  return wait_for_disk(added_);
}

Status EventWriter::wait_for_disk(std::uint64_t through) {
  const auto deadline = std::chrono::steady_clock::now() + options_.patience;
  const std::uint64_t file = file_number_;
  while (file_number_ == file && error_.ok() && synced_ < through) {
    if (!progress_.wait_until(mu_, deadline) && std::chrono::steady_clock::now() >= deadline) {
      return deadline_exceeded("event file \"", printable(path_), "\": flush still waits for the disk");
    }
  }
  if (file_number_ != file) return aborted("flush: the event file was closed and another one opened meanwhile");
  return error_;
}

Status EventWriter::close() {
  MutexLock lifecycle(lifecycle_mu_);
  stop();
  MutexLock lock(mu_);
  return error_;
}

Status EventWriter::reopen() {
  MutexLock lifecycle(lifecycle_mu_);
  {
    MutexLock lock(mu_);
    if (open_ && error_.ok()) return {};
  }
  stop();
  return start();
}

std::string EventWriter::path() const {
  MutexLock lock(mu_);
  return path_;
}

void EventWriter::write_events(std::unique_ptr<RecordWriter> file) {
  begin_thread("tutti_events");
  bool last = false;
  Status status;
  while (status.ok() && !last) {
    const Work work = wait_for_work();
    last = work.last;
    status = do_work(*file, work);
  }
  cancel_timer();
  status.update(file->close());
  if (!status.ok()) note_failure(status);
}

EventWriter::Work EventWriter::wait_for_work() {
  Work work;
  {
    MutexLock lock(mu_);
    while (queue_.empty() && !stopping_ && !flush_due_ && wanted_ <= synced_) work_.wait(mu_);
    work.events.swap(queue_);
    work.through = added_;
    work.sync = stopping_ || flush_due_ || wanted_ > synced_ || options_.flush_every <= Duration::zero();
    work.last = stopping_;
    queued_bytes_ = 0;
    flush_due_ = false;
  }
  progress_.notify_all();
  return work;
}

Status EventWriter::do_work(RecordWriter& file, const Work& work) {
  for (const std::string& event : work.events) TUTTI_RETURN_IF_ERROR(file.write(event));
  if (!work.sync) {
    if (!timer_) set_timer();
    return {};
  }
  TUTTI_RETURN_IF_ERROR(file.sync());
  cancel_timer();
  note_synced(work.through);
  return {};
}

void EventWriter::note_synced(std::uint64_t through) {
  {
    MutexLock lock(mu_);
    synced_ = through;
  }
  progress_.notify_all();
}

void EventWriter::note_failure(const Status& status) {
  {
    MutexLock lock(mu_);
    error_ = status.with_context(str_cat("event file, ", added_ - synced_, " events since its last flush lost"));
    queue_.clear();
    queued_bytes_ = 0;
  }
  progress_.notify_all();
}

void EventWriter::set_timer() {
  timer_ = clock_.call_at(clock_.now() + options_.flush_every, [this] {
    {
      MutexLock lock(mu_);
      flush_due_ = true;
    }
    work_.notify_one();
  });
}

void EventWriter::cancel_timer() {
  if (timer_) clock_.cancel_timer(*timer_);
  timer_.reset();
}

}  // namespace tutti
