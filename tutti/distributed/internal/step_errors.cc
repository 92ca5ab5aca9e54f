#include "tutti/distributed/internal/step_errors.h"

#include <algorithm>

namespace tutti::internal {
namespace {

// What workers put into the message of a derived failure.
constexpr std::string_view kDerivedMark = "[_Derived_]";
// No more is sent of a list of errors.
constexpr std::size_t kMaxSummaryBytes = 8 * 1024;

bool is_marked(const Status& status) { return status.message().find(kDerivedMark) != std::string::npos; }

// For people.
Status without_mark(const Status& status) {
  std::string text = status.message();
  for (std::size_t at = text.find(kDerivedMark); at != std::string::npos; at = text.find(kDerivedMark)) {
    text.erase(at, kDerivedMark.size());
  }
  return Status(status.code(), std::move(text));
}

}  // namespace

Status from_task(const std::string& task, const Status& status) {
  return Status(status.code(), str_cat("From ", task, ":\n", status.message()));
}

void StepErrors::add(const std::string& task, const Status& status, bool after_cancel) {
  errors_.push_back({task, status, after_cancel});
}

bool StepErrors::has_first_hand() const {
  return std::any_of(errors_.begin(), errors_.end(), [](const Entry& entry) { return !entry.after_cancel; });
}

bool StepErrors::is_derived(std::size_t index) const {
  const Status& status = errors_[index].status;
  if (is_marked(status)) return true;
  if (errors_[index].after_cancel && (status.code() == Code::kCancelled || status.code() == Code::kAborted))
    return true;
  for (std::size_t i = 0; i < errors_.size(); ++i) {
    const Status& other = errors_[i].status;
    if (i == index || is_marked(other)) continue;
    // A receive that failed because the sender did: the sender's message with something around it, or the same.
    if (other.code() != status.code() || other.message().empty()) continue;
    if (status.message() == other.message() ? i < index : status.message().find(other.message()) != std::string::npos) {
      return true;
    }
  }
  return false;
}

Status StepErrors::summary(std::size_t succeeded) const {
  std::vector<Status> roots;
  for (std::size_t i = 0; i < errors_.size(); ++i) {
    if (!is_derived(i)) roots.push_back(from_task(errors_[i].task, errors_[i].status));
  }
  if (roots.empty()) return from_task(errors_.front().task, without_mark(errors_.front().status));
  if (roots.size() == 1) return roots.front();
  auto code = std::find_if(roots.begin(), roots.end(), [](const Status& s) { return s.code() != Code::kCancelled; });
  std::string text = str_cat(roots.size(), " root error(s) found.");
  for (std::size_t i = 0; i < roots.size(); ++i) text += str_cat("\n  (", i, ") ", roots[i].to_string());
  text +=
      str_cat("\n", succeeded, " successful operations.\n", errors_.size() - roots.size(), " derived errors ignored.");
  if (text.size() > kMaxSummaryBytes) text.resize(kMaxSummaryBytes);
  return Status(code == roots.end() ? Code::kCancelled : code->code(), std::move(text));
}

}  // namespace tutti::internal
