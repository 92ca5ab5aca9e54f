// The output of several programs as lines that say whose they are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::tools {

// Puts a label before each line of one program's output, which comes in pieces. A line is kept until it is whole, so
// that lines of several programs do not mix. A carriage return ends a line as well (progress bars), and so does
// kLongestLine.
class LabelledLines {
 public:
  static constexpr std::size_t kLongestLine = 64 << 10;

  explicit LabelledLines(std::string label) : label_(std::move(label)) {}

  // Appends the lines that `bytes` completes to `out`.
  void take(std::string_view bytes, std::string& out);
  // The output has ended: what is left is a line too.
  void finish(std::string& out);

 private:
  void end_line(std::string& out);

  const std::string label_;
  std::string line_;           // begun, not ended
  bool after_return_ = false;  // a line feed now belongs to the line before
};

// "[worker 0] ", in one of several colours when `coloured`.
std::string task_label(std::string_view name, std::size_t number, bool coloured);

}  // namespace tutti::tools
