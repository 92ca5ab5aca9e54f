// A process that writes events is killed; what it had flushed is there.
#include <csignal>

#include "tests/io/event_support.h"
#include "tests/support/child_process.h"

namespace tutti::event_crash_test {

TEST(EventCrash, FlushedEventsSurviveAKill) {
  TempDirectory directory;
  for (int round = 0; round < 5; ++round) {
    ChildProcess program({TUTTI_EVENT_PROGRAM, directory.path()});
    // At different places of its work: after so many flushes, and however far it has come since.
    std::string line;
    for (int i = 0; i <= round * 3; ++i) line = program.wait_for_line("flushed ");
    ASSERT_FALSE(line.empty()) << program.output();
    program.send(SIGKILL);
    ASSERT_EQ(program.wait(), 128 + SIGKILL);
    // All that it said before it died.
    const std::string& said = program.output();
    const std::size_t last_line = said.rfind("flushed ", said.rfind('\n'));
    const std::int64_t flushed = std::stoll(said.substr(last_line + 8));

    const auto files = list_event_files(local_file_system(), directory.path()).value_or_throw();
    ASSERT_EQ(files.size(), static_cast<std::size_t>(round) + 1);
    const std::vector<std::int64_t> steps = testing::summary_steps(testing::events_of(files.back()));
    EXPECT_GE(static_cast<std::int64_t>(steps.size()), flushed);
    for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i], static_cast<std::int64_t>(i) + 1);
  }
}

}  // namespace tutti::event_crash_test
