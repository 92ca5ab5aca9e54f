#include "labelled_lines.h"

#include <algorithm>
#include <array>

#include "tutti/tutti.h"

namespace tutti::tools {

void LabelledLines::take(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    if (after_return_ && bytes.front() == '\n') bytes.remove_prefix(1);
    after_return_ = false;
    const std::size_t room = kLongestLine - line_.size();
    const std::size_t end = std::min({bytes.find_first_of("\r\n"), room, bytes.size()});
    line_ += bytes.substr(0, end);
    bytes.remove_prefix(end);
    if (bytes.empty()) return;
    if (bytes.front() == '\r' || bytes.front() == '\n') {
      after_return_ = bytes.front() == '\r';
      bytes.remove_prefix(1);
    }
    end_line(out);
  }
}

void LabelledLines::finish(std::string& out) {
  if (!line_.empty()) end_line(out);
  after_return_ = false;
}

void LabelledLines::end_line(std::string& out) {
  out += label_;
  out += line_;
  out += '\n';
  line_.clear();
}

std::string task_label(std::string_view name, std::size_t number, bool coloured) {
  constexpr std::array<std::string_view, 6> kColours = {"36", "32", "33", "35", "34", "31"};
  if (!coloured) return str_cat("[", name, "] ");
  return str_cat("\033[", kColours[number % kColours.size()], "m[", name, "]\033[0m ");
}

}  // namespace tutti::tools
