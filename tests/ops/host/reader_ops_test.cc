// Readers of the queue era. What they give for these files is what TensorFlow gives.
#include <new>
#include <string>
#include <vector>

#include "tests/ops/host/file_ops_fixture.h"
#include "tutti/io/record_writer.h"

namespace tutti::reader_ops_test {

using testing::KernelRun;
using testing::value_of;

class ReaderOps : public testing::FileOpsFixture {
 protected:
  ReaderOps() : queue_(make("FIFOQueueV2", {{"component_types", std::vector<DType>{DType::kString}}})) {}

  Value make(const std::string& op, AttrMap attrs = {}) {
    auto made = runner_.run(op + std::to_string(count_++), op, std::move(attrs));
    EXPECT_TRUE(made->status().ok()) << made->status().to_string();
    return made->output(0);
  }
  std::unique_ptr<KernelRun> start(const std::string& op, std::vector<Value> inputs) {
    return runner_.start(op + std::to_string(count_++), op, {}, std::move(inputs));
  }
  void write(const std::string& name, const std::string& contents) {
    ASSERT_TRUE(write_file(local_file_system(), directory_.file(name), contents).ok());
  }
  void put(const std::string& name) {
    auto done = start("QueueEnqueueV2", {queue_, value_of(text(directory_.file(name)))});
    ASSERT_TRUE(done->finished() && done->status().ok());
  }
  void close() { ASSERT_TRUE(start("QueueCloseV2", {queue_})->status().ok()); }

  // "key=value" of the next record with the folder left out, or the code of the error.
  std::string next(const Value& reader) {
    auto done = start("ReaderReadV2", {reader, queue_});
    EXPECT_TRUE(done->finished());
    if (!done->status().ok()) return std::string(code_name(done->status().code()));
    const std::string key = done->tensor(0).scalar<std::string>();
    return key.substr(directory_.path().size() + 1) + "=" + done->tensor(1).scalar<std::string>();
  }
  std::int64_t number(const std::string& op, const Value& reader) {
    return start(op, {reader})->tensor().scalar<std::int64_t>();
  }

  Value queue_;
};

TEST_F(ReaderOps, Lines) {
  write("t", "a\r\nbb\n\nccc");
  write("e", "");
  for (const char* name : {"t", "e", "t"}) put(name);
  close();
  const Value reader = make("TextLineReaderV2");
  for (const char* record : {"t:1=a", "t:2=bb", "t:3=", "t:4=ccc"}) EXPECT_EQ(next(reader), record);
  EXPECT_EQ(number("ReaderNumWorkUnitsCompletedV2", reader), 0);
  EXPECT_EQ(next(reader), "t:1=a");
  EXPECT_EQ(number("ReaderNumWorkUnitsCompletedV2", reader), 2);
  EXPECT_EQ(number("ReaderNumRecordsProducedV2", reader), 5);
  for (const char* record : {"t:2=bb", "t:3=", "t:4=ccc", "OutOfRange"}) EXPECT_EQ(next(reader), record);
  EXPECT_EQ(number("ReaderNumWorkUnitsCompletedV2", reader), 3);
  EXPECT_EQ(start("ReaderSerializeStateV2", {reader})->status().code(), Code::kUnimplemented);
}

TEST_F(ReaderOps, AFileThatDoesNotFitIntoMemory) {
  FaultyFileSystem large(local_file_system(), [](FileOp, const std::string&) -> Status { throw std::bad_alloc(); });
  use(large);
  put("t");
  const Value reader = make("WholeFileReaderV2");
  EXPECT_EQ(next(reader), "ResourceExhausted");
}

TEST_F(ReaderOps, HeaderLinesAreSkipped) {
  write("t", "a\nbb\nc\n");
  write("short", "a\n");
  put("t");
  put("short");
  close();
  const Value reader = make("TextLineReaderV2", {{"skip_header_lines", 2}});
  EXPECT_EQ(next(reader), "t:3=c");
  EXPECT_EQ(next(reader), "OutOfRange");
}

TEST_F(ReaderOps, RecordsOfOneLength) {
  write("f", "HHabcdefghijFF");
  for (const std::int64_t hop : {0, 2}) {
    put("f");
    const Value reader = make("FixedLengthRecordReaderV2",
                              {{"record_bytes", 3}, {"header_bytes", 2}, {"footer_bytes", 2}, {"hop_bytes", hop}});
    if (hop == 0) {
      for (const char* record : {"f:0=abc", "f:1=def", "f:2=ghi"}) EXPECT_EQ(next(reader), record);
    } else {
      for (const char* record : {"f:0=abc", "f:1=cde", "f:2=efg", "f:3=ghi"}) EXPECT_EQ(next(reader), record);
    }
    auto waiting = start("ReaderReadV2", {reader, queue_});
    EXPECT_FALSE(waiting->finished());
    put("f");
    ASSERT_TRUE(waiting->finished());
    EXPECT_EQ(waiting->tensor(1).scalar<std::string>(), "abc");
  }
  const Value wide = make("FixedLengthRecordReaderV2", {{"record_bytes", 2}, {"hop_bytes", 5}});
  put("f");
  for (const char* record : {"f:0=HH", "f:1=de", "f:2=ij"}) EXPECT_EQ(next(wide), record);
  write("short", "H");
  put("short");
  EXPECT_EQ(next(make("FixedLengthRecordReaderV2", {{"record_bytes", 1}, {"header_bytes", 2}})), "OutOfRange");
  auto bad = runner_.run("bad", "FixedLengthRecordReaderV2", {{"record_bytes", 0}});
  EXPECT_EQ(bad->status().code(), Code::kInvalidArgument);
}

TEST_F(ReaderOps, RecordFilesInBatches) {
  {
    const auto out = RecordWriter::create(local_file_system(), directory_.file("r")).value_or_throw();
    for (const char* record : {"one", "three"}) ASSERT_TRUE(out->write(record).ok());
    ASSERT_TRUE(out->close().ok());
  }
  put("r");
  put("r");
  close();
  const Value reader = make("TFRecordReaderV2");
  EXPECT_EQ(next(reader), "r:0=one");
  const Value three = value_of(Tensor::scalar(std::int64_t{3}));
  auto rest = start("ReaderReadUpToV2", {reader, queue_, three});  // a file's end ends a batch
  EXPECT_TRUE(bitwise_equal(rest->tensor(1), texts({"three"})));
  EXPECT_TRUE(bitwise_equal(rest->tensor(0), texts({directory_.file("r:19")})));
  auto both = start("ReaderReadUpToV2", {reader, queue_, three});
  EXPECT_TRUE(bitwise_equal(both->tensor(1), texts({"one", "three"})));
  EXPECT_EQ(start("ReaderReadUpToV2", {reader, queue_, three})->status().code(), Code::kOutOfRange);
}

TEST_F(ReaderOps, DamagedAndMissingFiles) {
  write("bad", "no record file at all");
  put("bad");
  put("none");
  EXPECT_EQ(next(make("TFRecordReaderV2")), "DataLoss");
  EXPECT_EQ(next(make("TextLineReaderV2")), "NotFound");
  put("none");
  EXPECT_EQ(next(make("WholeFileReaderV2")), "NotFound");
}

TEST_F(ReaderOps, CallersTakeTurnsAndAreCancelled) {
  const Value reader = make("WholeFileReaderV2");
  auto first = start("ReaderReadV2", {reader, queue_});
  auto second = start("ReaderReadV2", {reader, queue_});
  auto reset = start("ReaderResetV2", {reader});
  write("a", "A");
  put("a");
  ASSERT_TRUE(first->finished());
  EXPECT_EQ(first->tensor(1).scalar<std::string>(), "A");
  EXPECT_FALSE(second->finished());
  EXPECT_FALSE(reset->finished());
  runner_.step().cancellation->cancel(cancelled("the step timed out"));
  ASSERT_TRUE(second->finished() && reset->finished());
  EXPECT_EQ(second->status().code(), Code::kCancelled);
  EXPECT_EQ(reset->status().code(), Code::kCancelled);
  runner_.new_step();
  use(local_file_system());
  put("a");
  EXPECT_EQ(next(reader), "a=A");
}

TEST_F(ReaderOps, TheOldestFormTakesReferences) {
  const Value queue = make("FIFOQueue", {{"component_types", std::vector<DType>{DType::kString}}});
  const Value reader = make("IdentityReader");
  ASSERT_TRUE(start("QueueEnqueue", {queue, value_of(text("w"))})->status().ok());
  auto read = start("ReaderRead", {reader, queue});
  ASSERT_TRUE(read->finished() && read->status().ok()) << read->status().to_string();
  EXPECT_EQ(read->tensor(0).scalar<std::string>(), "w");
  EXPECT_EQ(start("ReaderSerializeState", {reader})->tensor().scalar<std::string>(),
            std::string("\x08\x01\x10\x01\x18\x01\"\x01w"));
}

TEST_F(ReaderOps, WorkMustBeOneString) {
  const Value numbers = make("FIFOQueueV2", {{"component_types", std::vector<DType>{DType::kInt32}}});
  ASSERT_TRUE(start("QueueEnqueueV2", {numbers, value_of(Tensor::scalar(std::int32_t{1}))})->status().ok());
  EXPECT_EQ(start("ReaderReadV2", {make("IdentityReaderV2"), numbers})->status().code(), Code::kInvalidArgument);
}

}  // namespace tutti::reader_ops_test
