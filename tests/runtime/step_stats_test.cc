#include "tutti/runtime/step_stats.h"

#include <gtest/gtest.h>

namespace tutti::step_stats_test {

TEST(ChromeTrace, HasOneEventANodeAndEscapesNames) {
  StepStats stats;
  stats.nodes.push_back(
      {.name = "a\"b\\\x01", .op = "MatMul", .device = "/cpu", .start_nanos = 1500, .end_nanos = 4000});
  stats.nodes.push_back(
      {.name = "c", .op = "Add", .device = "/cpu", .start_nanos = 4000, .end_nanos = 4100, .thread = 7});
  const std::string json = chrome_trace(stats);
  EXPECT_NE(json.find(R"("name":"MatMul","pid":0,"tid":0,"ts":1.5,"dur":2.5)"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("name":"a\"b\\\u0001")"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("name":"Add","pid":0,"tid":1)"), std::string::npos) << json;
}

}  // namespace tutti::step_stats_test
