// Adds events without end and says after each flush how many are safe: event_program LOGDIR. For a test to kill.
#include <cstdio>
#include <string>

#include "tutti/io/event_writer.h"
#include "tutti/io/summary.h"

using namespace tutti;

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: event_program LOGDIR\n"), 2;
  try {
    const auto writer = EventWriter::open(local_file_system(), argv[1]).value_or_throw();
    for (std::int64_t step = 1;; ++step) {
      SummaryBuilder summary;
      summary.add_scalar("step", static_cast<float>(step));
      // Large ones too: a kill then hits the middle of a write.
      if (step % 3 == 0) summary.add_text("long", std::string(100'000, 'x'));
      throw_if_error(writer->add_summary(summary.bytes(), step));
      if (step % 7 != 0) continue;
      throw_if_error(writer->flush());
      std::printf("flushed %lld\n", static_cast<long long>(step));
      std::fflush(stdout);
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "event_program: %s\n", error.what());
    return 1;
  }
}
