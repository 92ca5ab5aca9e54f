#include "tutti/io/event_writer.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/io/event_support.h"
#include "tutti/io/summary_values.h"

namespace tutti::event_writer_test {

using testing::events_of;
using testing::scalar_summary;
using testing::slurp;
using testing::summary_steps;

// A disk that a test can stop, fail and watch.
class Disk {
 public:
  explicit Disk(FileSystem& base)
      : files_(base, [this](FileOp op, const std::string& path) { return ask(op, path); }) {}

  FileSystem& files() { return files_; }
  void stop() {
    MutexLock lock(mu_);
    stopped_ = true;
  }
  void go_on() {
    MutexLock lock(mu_);
    stopped_ = false;
    changed_.notify_all();
  }
  // Whether the writer stands at the stopped disk.
  void wait_until_reached() {
    MutexLock lock(mu_);
    while (waiting_ == 0) changed_.wait(mu_);
  }
  void fail_at(std::optional<FileOp> op) {
    MutexLock lock(mu_);
    fail_at_ = op;
  }
  // Appends since the last sync.
  int unsynced() {
    MutexLock lock(mu_);
    return unsynced_;
  }
  int syncs() {
    MutexLock lock(mu_);
    return syncs_;
  }
  void wait_for_syncs(int count) {
    MutexLock lock(mu_);
    while (syncs_ < count) changed_.wait(mu_);
  }

 private:
  Status ask(FileOp op, const std::string& path) {
    MutexLock lock(mu_);
    ++waiting_;
    changed_.notify_all();
    while (stopped_) changed_.wait(mu_);
    --waiting_;
    if (op == fail_at_) return resource_exhausted("write \"", path, "\": No space left on device");
    if (op == FileOp::kAppend) ++unsynced_;
    if (op == FileOp::kSync) unsynced_ = 0, ++syncs_;
    changed_.notify_all();
    return {};
  }

  FaultyFileSystem files_;
  Mutex mu_;
  CondVar changed_;
  bool stopped_ TUTTI_GUARDED_BY(mu_) = false;
  int waiting_ TUTTI_GUARDED_BY(mu_) = 0;
  int unsynced_ TUTTI_GUARDED_BY(mu_) = 0;
  int syncs_ TUTTI_GUARDED_BY(mu_) = 0;
  std::optional<FileOp> fail_at_ TUTTI_GUARDED_BY(mu_);
};

class EventWriterTest : public ::testing::Test {
 protected:
  std::unique_ptr<EventWriter> open(EventWriterOptions options = {}) {
    options.clock = &clock_;
    return EventWriter::open(disk_.files(), logdir_, options).value_or_throw();
  }
  std::vector<std::string> files() { return list_event_files(local_file_system(), logdir_).value_or_throw(); }

  TempDirectory directory_;
  const std::string logdir_ = directory_.file("a/b");
  ManualClock clock_;
  Disk disk_{local_file_system()};
};

TEST_F(EventWriterTest, NameAndFirstRecord) {
  const auto writer = open({.filename_suffix = ".v2"});
  const std::vector<std::string> paths = files();
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_EQ(paths[0], writer->path());
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  char start[512];
  std::snprintf(start, sizeof start, "%s/events.out.tfevents.%010lld.%s.%d.", logdir_.c_str(),
                static_cast<long long>(clock_.wall_micros() / 1'000'000), host, ::getpid());
  EXPECT_TRUE(paths[0].starts_with(start)) << paths[0];
  EXPECT_TRUE(paths[0].ends_with(".v2"));
  // There before anything was flushed.
  const std::vector<Event> events = events_of(paths[0]);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::get<FileVersionEvent>(events[0].what).version, "brain.Event:2");
  EXPECT_DOUBLE_EQ(events[0].wall_time, static_cast<double>(clock_.wall_micros()) / 1e6);
  EXPECT_EQ(slurp(paths[0])[12], '\x09');  // the time comes first, as in every event file
}

TEST_F(EventWriterTest, EveryKind) {
  const auto writer = open();
  clock_.advance(std::chrono::seconds(5));
  ASSERT_OK(writer->add_summary(scalar_summary("loss", 0.5f), 7));
  ASSERT_OK(writer->add_graph("graph bytes"));
  ASSERT_OK(writer->add_meta_graph("meta graph bytes", 1));
  ASSERT_OK(writer->add_run_metadata("step 7", "run bytes", 7));
  ASSERT_OK(writer->add_session_log({.status = SessionLog::Status::kCheckpoint, .checkpoint_path = "/x/m-7"}, 7));
  ASSERT_OK(writer->add_session_log({.status = SessionLog::Status::kStart, .message = "again"}, -1));
  ASSERT_OK(writer->close());
  const std::vector<Event> events = events_of(writer->path());
  ASSERT_EQ(events.size(), 7u);
  EXPECT_DOUBLE_EQ(events[1].wall_time, events[0].wall_time + 5);
  EXPECT_EQ(events[1].step, 7);
  const auto values = parse_summary(std::get<SummaryEvent>(events[1].what).summary).value_or_throw();
  ASSERT_EQ(values.size(), 1u);
  EXPECT_EQ(values[0].tag, "loss");
  EXPECT_EQ(std::get<float>(values[0].value), 0.5f);
  EXPECT_EQ(std::get<GraphEvent>(events[2].what).graph_def, "graph bytes");
  EXPECT_EQ(std::get<MetaGraphEvent>(events[3].what).meta_graph_def, "meta graph bytes");
  EXPECT_EQ(std::get<RunMetadataEvent>(events[4].what).tag, "step 7");
  EXPECT_EQ(std::get<RunMetadataEvent>(events[4].what).run_metadata, "run bytes");
  EXPECT_EQ(std::get<SessionLog>(events[5].what).checkpoint_path, "/x/m-7");
  EXPECT_EQ(std::get<SessionLog>(events[6].what).status, SessionLog::Status::kStart);
  EXPECT_EQ(std::get<SessionLog>(events[6].what).message, "again");
  EXPECT_EQ(events[6].step, -1);
}

TEST_F(EventWriterTest, WholeEvents) {
  const auto writer = open();
  ASSERT_OK(writer->add_event(testing::from_hex("09000000000000004010052a0d0a0b0a046c6f7373150000003f")));
  ASSERT_OK(writer->close());
  const std::string file = slurp(writer->path());
  EXPECT_TRUE(
      file.ends_with(testing::from_hex("1a00000000000000129bd82d09000000000000004010052a0d0a0b0a046c6f7373"
                                       "150000003fdb81a714")));
}

TEST_F(EventWriterTest, MetadataOnceInEachFile) {
  SummaryBuilder text;
  text.add_text("note", "hello");
  const auto writer = open();
  ASSERT_OK(writer->add_summary(text.bytes(), 1));
  ASSERT_OK(writer->add_summary(text.bytes(), 2));
  ASSERT_OK(writer->close());
  const std::string first = writer->path();
  ASSERT_OK(writer->reopen());
  ASSERT_OK(writer->add_summary(text.bytes(), 3));
  ASSERT_OK(writer->close());
  const auto plugin = [](const Event& event) {
    return parse_summary(std::get<SummaryEvent>(event.what).summary).value_or_throw().at(0).plugin_name;
  };
  const std::vector<Event> events = events_of(first);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(plugin(events[1]), "text");
  EXPECT_EQ(plugin(events[2]), "");
  EXPECT_EQ(plugin(events_of(writer->path()).at(1)), "text");
}

TEST_F(EventWriterTest, BadInputIsRefusedAndHarmless) {
  const auto writer = open();
  const auto refused = [](const Status& status, const std::string& part) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.to_string();
    EXPECT_HAS(status.message(), part);
  };
  refused(writer->add_summary("\xff\xff no message"), "no Summary");
  refused(writer->add_event("\xff\xff no message"), "no Event");
  refused(writer->add_summary(scalar_summary("\xc3(", 1)), "UTF-8");
  refused(writer->add_session_log({.checkpoint_path = "/\xff"}), "UTF-8");
  refused(writer->add_run_metadata("\xed\xa0\x80", ""), "UTF-8");
  ASSERT_OK(writer->add_run_metadata("tag", ""));
  refused(writer->add_run_metadata("tag", ""), "already used");
  ASSERT_OK(writer->add_summary(scalar_summary("\xc3\xa9", 1), 3));
  ASSERT_OK(writer->close());
  EXPECT_EQ(events_of(writer->path()).size(), 3u);
}

TEST_F(EventWriterTest, FlushReturnsWhenAllIsSynced) {
  const auto writer = open();
  for (int step = 1; step <= 50; ++step) {
    ASSERT_OK(writer->add_summary(scalar_summary("x", 1), step));
    ASSERT_OK(writer->flush());
    EXPECT_EQ(disk_.unsynced(), 0);
    EXPECT_EQ(summary_steps(events_of(writer->path())).size(), static_cast<std::size_t>(step));
  }
  const int syncs = disk_.syncs();
  ASSERT_OK(writer->flush());
  EXPECT_EQ(disk_.syncs(), syncs);  // nothing new
}

TEST_F(EventWriterTest, FlushesByItselfInTime) {
  const auto writer = open({.flush_every = std::chrono::seconds(30)});
  const int syncs = disk_.syncs();
  disk_.stop();
  ASSERT_OK(writer->add_summary(scalar_summary("x", 1), 1));
  disk_.wait_until_reached();
  disk_.go_on();
  // The timer is set behind the write; until then time may pass without effect.
  while (disk_.syncs() == syncs) {
    clock_.advance(std::chrono::seconds(30));
    std::this_thread::yield();
  }
  EXPECT_EQ(summary_steps(events_of(writer->path())), std::vector<std::int64_t>{1});
}

TEST_F(EventWriterTest, FlushesAtOnceWhenAsked) {
  const auto writer = open({.flush_every = Duration::zero()});
  const int syncs = disk_.syncs();
  ASSERT_OK(writer->add_summary(scalar_summary("x", 1), 1));
  disk_.wait_for_syncs(syncs + 1);
}

TEST_F(EventWriterTest, WhoAddsWaitsForRoom) {
  const auto writer = open({.max_queue = 3, .patience = std::chrono::milliseconds(1)});
  disk_.stop();
  ASSERT_OK(writer->add_summary(scalar_summary("x", 1), 0));
  disk_.wait_until_reached();
  for (int step = 1; step <= 3; ++step) ASSERT_OK(writer->add_summary(scalar_summary("x", 1), step));
  const Status full = writer->add_summary(scalar_summary("x", 1), 4);
  EXPECT_EQ(full.code(), Code::kDeadlineExceeded);
  EXPECT_HAS(full.message(), writer->path());
  EXPECT_EQ(writer->flush().code(), Code::kDeadlineExceeded);
  disk_.go_on();
  // No error to keep: the disk is only slow.
  Status again = writer->add_summary(scalar_summary("x", 1), 5);
  while (again.code() == Code::kDeadlineExceeded) again = writer->add_summary(scalar_summary("x", 1), 5);
  ASSERT_OK(again);
  ASSERT_OK(writer->close());
  EXPECT_EQ(summary_steps(events_of(writer->path())), (std::vector<std::int64_t>{0, 1, 2, 3, 5}));
}

TEST_F(EventWriterTest, BytesInTheQueueAreBounded) {
  const auto writer = open({.max_queue = 100, .max_queue_bytes = 2000, .patience = std::chrono::milliseconds(1)});
  disk_.stop();
  const std::string large(5000, 'g');
  ASSERT_OK(writer->add_graph(large));  // more than all the room, but alone
  disk_.wait_until_reached();
  ASSERT_OK(writer->add_graph(large.substr(0, 1500)));
  EXPECT_EQ(writer->add_graph(large.substr(0, 1500)).code(), Code::kDeadlineExceeded);
  disk_.go_on();
  ASSERT_OK(writer->close());
}

TEST_F(EventWriterTest, ManyThreads) {
  const auto writer = open({.max_queue = 4, .flush_every = std::chrono::milliseconds(1)});
  constexpr int kThreads = 4, kEvents = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEvents; ++i) {
        EXPECT_TRUE(writer->add_summary(scalar_summary("x", 1), t * kEvents + i).ok());
        if (i % 50 == 0) {
          EXPECT_TRUE(writer->flush().ok());
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_OK(writer->close());
  const std::vector<std::int64_t> steps = summary_steps(events_of(writer->path()));
  ASSERT_EQ(steps.size(), static_cast<std::size_t>(kThreads * kEvents));
  std::vector<std::int64_t> next(kThreads);
  for (const std::int64_t step : steps) {  // each thread's in its order
    EXPECT_EQ(step % kEvents, next[static_cast<std::size_t>(step / kEvents)]++);
  }
}

TEST_F(EventWriterTest, ReopensInALaterFile) {
  auto writer = open();
  const std::string first = writer->path();
  ASSERT_OK(writer->add_summary(scalar_summary("x", 1), 1));
  ASSERT_OK(writer->reopen());  // it is open
  EXPECT_EQ(writer->path(), first);
  ASSERT_OK(writer->close());
  ASSERT_OK(writer->close());
  ASSERT_OK(writer->flush());
  const Status closed = writer->add_summary(scalar_summary("x", 1), 2);
  EXPECT_EQ(closed.code(), Code::kFailedPrecondition);
  EXPECT_HAS(closed.message(), first);
  // The clock stands still: names must differ, and sort, all the same.
  ASSERT_OK(writer->reopen());
  ASSERT_OK(writer->add_summary(scalar_summary("x", 1), 3));
  ASSERT_OK(writer->flush());
  const std::string second = writer->path();
  const auto other = open();
  EXPECT_EQ(files(), (std::vector<std::string>{first, second, other->path()}));
  EXPECT_EQ(summary_steps(events_of(first)), std::vector<std::int64_t>{1});
  EXPECT_EQ(summary_steps(events_of(second)), std::vector<std::int64_t>{3});
}

TEST_F(EventWriterTest, FullDisk) {
  for (const FileOp op : {FileOp::kAppend, FileOp::kSync}) {
    const auto writer = open();
    ASSERT_OK(writer->add_summary(scalar_summary("x", 1), 1));
    ASSERT_OK(writer->flush());
    disk_.fail_at(op);
    (void)writer->add_summary(scalar_summary("x", 1), 2);
    const Status error = writer->flush();
    EXPECT_EQ(error.code(), Code::kResourceExhausted);
    EXPECT_HAS(error.message(), writer->path());
    EXPECT_HAS(error.message(), "No space left");
    EXPECT_HAS(error.message(), "1 events since its last flush lost");
    // Kept, though the disk is well again.
    disk_.fail_at({});
    EXPECT_EQ(writer->add_summary(scalar_summary("x", 1), 3), error);
    EXPECT_EQ(writer->flush(), error);
    const std::string broken = writer->path();
    EXPECT_EQ(summary_steps(events_of(broken)).at(0), 1);
    ASSERT_OK(writer->reopen());
    ASSERT_OK(writer->add_summary(scalar_summary("x", 1), 4));
    ASSERT_OK(writer->close());
    EXPECT_NE(writer->path(), broken);
    EXPECT_EQ(summary_steps(events_of(writer->path())), std::vector<std::int64_t>{4});
  }
}

TEST_F(EventWriterTest, WhoWaitsHearsOfTheFullDisk) {
  const auto writer = open({.max_queue = 1});
  disk_.stop();
  ASSERT_OK(writer->add_summary(scalar_summary("x", 1), 0));
  disk_.wait_until_reached();
  ASSERT_OK(writer->add_summary(scalar_summary("x", 1), 1));
  std::thread adds([&] { EXPECT_EQ(writer->add_summary(scalar_summary("x", 1), 2).code(), Code::kResourceExhausted); });
  std::thread flushes([&] { EXPECT_EQ(writer->flush().code(), Code::kResourceExhausted); });
  disk_.fail_at(FileOp::kAppend);
  disk_.go_on();
  adds.join();
  flushes.join();
  EXPECT_EQ(writer->close().code(), Code::kResourceExhausted);
}

TEST_F(EventWriterTest, NoPlaceForAFile) {
  testing::spill(directory_.file("file"), "");
  EXPECT_EQ(EventWriter::open(local_file_system(), directory_.file("file")).status().code(), Code::kFailedPrecondition);
  disk_.fail_at(FileOp::kOpenWrite);
  const Status status = EventWriter::open(disk_.files(), logdir_).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_HAS(status.message(), logdir_);
}

}  // namespace tutti::event_writer_test
