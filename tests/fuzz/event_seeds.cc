// Writes event files for the fuzzer to start from, in its own form: event_seeds FOLDER
#include <cstdio>
#include <string>

#include "memory_files.h"
#include "tutti/io/event_reader.h"
#include "tutti/io/event_writer.h"
#include "tutti/io/hparams.h"
#include "tutti/io/internal/coding.h"
#include "tutti/io/summary.h"

using namespace tutti;

namespace {

std::string all_values() {
  SummaryBuilder summary;
  Histogram histogram;
  for (const double value : {-1.0, 0.0, 0.5, 2.0}) histogram.add(value);
  summary.add_scalar("scalar", 0.5f);
  summary.add_histogram("histogram", histogram);
  summary.add_image("image", 1, 1, 3, "png");
  summary.add_audio("audio", 8000, 1, 1, "wav");
  summary.add_text("text", "words");
  throw_if_error(summary.add_tensor("tensor", Tensor::vector<std::int32_t>({1, 2, 3}), ""));
  return summary.bytes();
}

// The path of a file with every kind of event.
std::string write_events(FileSystem& files) {
  const auto writer = EventWriter::open(files, "/logs").value_or_throw();
  throw_if_error(writer->add_summary(all_values(), 1));
  throw_if_error(writer->add_summary(hparams_summary({{"lr", 0.1}}, 1).value_or_throw(), 0));
  throw_if_error(writer->add_graph("graph"));
  throw_if_error(writer->add_meta_graph("meta graph"));
  throw_if_error(writer->add_run_metadata("tag", "run", 2));
  throw_if_error(writer->add_session_log({.status = SessionLog::Status::kStart}, 3));
  throw_if_error(writer->close());
  return writer->path();
}

// Lengths and events, without checksums.
std::string unframed(FileSystem& files, const std::string& path) {
  const auto reader = EventReader::open(files, path).value_or_throw();
  std::string bytes, record;
  while (reader->next_record(&record).value_or_throw()) {
    put_varint64(bytes, record.size());
    bytes += record;
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: event_seeds FOLDER\n"), 2;
  try {
    const std::string folder = argv[1];
    fuzz::MemoryFileSystem files;
    const std::string path = write_events(files);
    throw_if_error(write_file(local_file_system(), folder + "/unframed", std::string(1, 0) + unframed(files, path)));
    throw_if_error(
        write_file(local_file_system(), folder + "/file", std::string(1, 1) + read_file(files, path).value_or_throw()));
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "event_seeds: %s\n", error.what());
    return 1;
  }
}
