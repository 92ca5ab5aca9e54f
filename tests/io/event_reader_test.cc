#include "tutti/io/event_reader.h"

#include "proto/event.pb.h"
#include "tests/io/event_support.h"
#include "tutti/io/crc32c.h"
#include "tutti/io/internal/coding.h"
#include "tutti/io/record_writer.h"

namespace tutti::event_reader_test {

using testing::slurp;
using testing::spill;

class EventReaderTest : public ::testing::Test {
 protected:
  // Three events, of steps 1, 2 and 3.
  std::string sample() {
    const auto file = RecordWriter::create(fs_, path_).value_or_throw();
    for (int step = 1; step <= 3; ++step) {
      tensorflow::Event event;
      event.set_step(step);
      event.set_graph_def(std::string(static_cast<std::size_t>(step) * 10, 'g'));
      throw_if_error(file->write(event.SerializeAsString()));
    }
    throw_if_error(file->close());
    return slurp(path_);
  }
  // What can be read, and how it ended.
  Status read(std::vector<std::int64_t>* steps) {
    TUTTI_ASSIGN_OR_RETURN(const auto reader, EventReader::open(fs_, path_));
    Event event;
    while (true) {
      const Result<bool> more = reader->next(&event);
      if (!more.ok()) {
        EXPECT_EQ(reader->next(&event).status(), more.status());
        return more.status();
      }
      if (!*more) return {};
      steps->push_back(event.step);
    }
  }

  TempDirectory directory_;
  const std::string path_ = directory_.file("events.out.tfevents.0000000001.host");
  FileSystem& fs_ = local_file_system();
};

TEST_F(EventReaderTest, FollowsAFileByteByByte) {
  const std::string whole = sample();
  spill(path_, "");
  const auto reader = EventReader::open(fs_, path_).value_or_throw();
  const auto file = fs_.open_for_append(path_).value_or_throw();
  Event event;
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_FALSE(reader->next(&event).value_or_throw());
    ASSERT_OK(file->append(whole.substr(i, 1)));
    ASSERT_OK(file->flush());
    if (reader->offset() + 12 > i + 1) continue;
    if (reader->next(&event).value_or_throw()) {
      ends.push_back(i + 1);
      EXPECT_EQ(event.step, static_cast<std::int64_t>(ends.size()));
      EXPECT_EQ(reader->offset(), i + 1);
    }
  }
  EXPECT_EQ(ends.size(), 3u);
  EXPECT_FALSE(reader->next(&event).value_or_throw());
}

TEST_F(EventReaderTest, ATornTailIsNoError) {
  const std::string whole = sample();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    spill(path_, whole.substr(0, size));
    std::vector<std::int64_t> steps;
    ASSERT_OK(read(&steps));
    EXPECT_LT(steps.size(), 3u);
  }
}

TEST_F(EventReaderTest, EveryFlippedBitIsFound) {
  const std::string whole = sample();
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    spill(path_, damaged);
    std::vector<std::int64_t> steps;
    const Status status = read(&steps);
    EXPECT_EQ(status.code(), Code::kDataLoss) << bit;
    EXPECT_HAS(status.message(), path_);
    EXPECT_LT(steps.size(), 3u);
  }
}

TEST_F(EventReaderTest, ZeroesAfterACrashAreDamage) {
  const std::string whole = sample();
  spill(path_, whole + std::string(12, '\0'));
  std::vector<std::int64_t> steps;
  const Status status = read(&steps);
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_HAS(status.message(), str_cat("event at ", whole.size(), " of "));
  EXPECT_EQ(steps.size(), 3u);
}

TEST_F(EventReaderTest, ARecordThatIsNoEvent) {
  const std::string whole = sample();
  const auto file = fs_.open_for_append(path_).value_or_throw();
  RecordWriter records(fs_.open_for_append(path_).value_or_throw());
  ASSERT_OK(records.write("\xff\xff\xff"));
  ASSERT_OK(records.close());
  std::vector<std::int64_t> steps;
  const Status status = read(&steps);
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_HAS(status.message(), str_cat("event at ", whole.size(), " of "));
  EXPECT_EQ(steps.size(), 3u);
}

// Lengths that their own checksums confirm: nobody takes the memory.
TEST_F(EventReaderTest, HugeLengths) {
  for (const std::uint64_t length : {std::uint64_t{1} << 40, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    std::string bytes;
    put_fixed64(bytes, length);
    put_fixed32(bytes, mask_crc(crc32c(bytes)));
    spill(path_, bytes + "few");
    std::vector<std::int64_t> steps;
    const Status status = read(&steps);
    if (length > std::uint64_t{1} << 62) {
      EXPECT_EQ(status.code(), Code::kDataLoss);
    } else {
      EXPECT_TRUE(status.ok()) << status.to_string();
    }
  }
}

TEST_F(EventReaderTest, UnknownKindsArePassedOn) {
  tensorflow::Event event;
  event.set_step(5);
  std::string bytes = event.SerializeAsString();
  bytes += testing::from_hex("a206026869");  // field 100
  const Event parsed = parse_event(bytes).value_or_throw();
  EXPECT_EQ(parsed.step, 5);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(parsed.what));
  event.mutable_log_message()->set_message("old");
  EXPECT_EQ(std::get<LogEvent>(parse_event(event.SerializeAsString()).value_or_throw().what).message, "old");
}

TEST_F(EventReaderTest, FilesInOrder) {
  for (const char* name : {"events.out.tfevents.0000000003.a", "events.out.tfevents.0000000002.b", "model.ckpt"}) {
    spill(directory_.file(name), "");
  }
  EXPECT_EQ(list_event_files(fs_, directory_.path()).value_or_throw(),
            (std::vector<std::string>{directory_.file("events.out.tfevents.0000000002.b"),
                                      directory_.file("events.out.tfevents.0000000003.a")}));
  EXPECT_EQ(list_event_files(fs_, directory_.file("none")).status().code(), Code::kNotFound);
  EXPECT_EQ(EventReader::open(fs_, directory_.file("none")).status().code(), Code::kNotFound);
}

}  // namespace tutti::event_reader_test
