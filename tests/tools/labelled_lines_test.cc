#include "labelled_lines.h"

#include <gtest/gtest.h>

namespace tutti::tools::labelled_lines_test {

TEST(LabelledLines, KeepsALineUntilItIsWhole) {
  LabelledLines lines("[w] ");
  std::string out;
  lines.take("one", out);
  EXPECT_EQ(out, "");
  lines.take(" line\nand", out);
  EXPECT_EQ(out, "[w] one line\n");
  lines.take(" two\n\n", out);
  EXPECT_EQ(out, "[w] one line\n[w] and two\n[w] \n");
}

TEST(LabelledLines, TheEndOfTheOutputEndsALine) {
  LabelledLines lines("[w] ");
  std::string out;
  lines.take("no newline", out);
  lines.finish(out);
  lines.finish(out);
  EXPECT_EQ(out, "[w] no newline\n");
}

TEST(LabelledLines, CarriageReturnsEndLinesOnce) {
  LabelledLines lines("");
  std::string out;
  lines.take("10 %\r20 %\r", out);
  EXPECT_EQ(out, "10 %\n20 %\n");
  lines.take("\nwindows\r\nend\n", out);
  EXPECT_EQ(out, "10 %\n20 %\nwindows\nend\n");
}

TEST(LabelledLines, ALineWithoutEndIsCut) {
  LabelledLines lines("");
  std::string out;
  for (int i = 0; i < 40; ++i) lines.take(std::string(10'000, 'x'), out);
  lines.finish(out);
  std::size_t longest = 0, total = 0;
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t end = out.find('\n', at);
    ASSERT_NE(end, out.npos);
    longest = std::max(longest, end - at);
    total += end - at;
    at = end + 1;
  }
  EXPECT_EQ(longest, LabelledLines::kLongestLine);
  EXPECT_EQ(total, 400'000u);
}

TEST(LabelledLines, LabelsAreColouredOnDemand) {
  EXPECT_EQ(task_label("ps 1", 1, false), "[ps 1] ");
  EXPECT_EQ(task_label("ps 1", 1, true), "\033[32m[ps 1]\033[0m ");
  EXPECT_NE(task_label("ps 1", 1, true), task_label("ps 1", 2, true));
}

}  // namespace tutti::tools::labelled_lines_test
