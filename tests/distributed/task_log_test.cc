#include "tutti/distributed/task_log.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::task_log_test {

void say_all(const TaskLog& log) {
  log(LogLevel::kDebug, "debug");
  log("info");
  log.warning("warning");
  log(LogLevel::kError, "error");
}

TEST(TaskLog, EachLevelIsQuieterThanTheOneBefore) {
  const std::vector<std::pair<LogLevel, std::string>> expected{{LogLevel::kDebug, "debug\ninfo\nwarning\nerror\n"},
                                                               {LogLevel::kInfo, "info\nwarning\nerror\n"},
                                                               {LogLevel::kWarning, "warning\nerror\n"},
                                                               {LogLevel::kError, "error\n"}};
  for (const auto& [least, text] : expected) {
    ::testing::internal::CaptureStderr();
    say_all(log_to_stderr(least));
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), text);
  }
}

TEST(TaskLog, AFunctionOfLinesGetsAllButDebugging) {
  std::vector<std::string> lines;
  say_all([&lines](const std::string& line) { lines.push_back(line); });
  EXPECT_EQ(lines, (std::vector<std::string>{"info", "warning", "error"}));
}

TEST(TaskLog, NobodyListens) {
  EXPECT_FALSE(TaskLog());
  EXPECT_FALSE(TaskLog(nullptr));
  say_all(TaskLog());
  // Also as a function of lines, which parts of a task that have one level only take.
  const std::function<void(const std::string&)> function = TaskLog();
  function("line");
}

}  // namespace tutti::task_log_test
