#include "tutti/train/internal/kept_checkpoints.h"

#include <algorithm>

namespace tutti::internal {

void KeptCheckpoints::add(const std::string& path, double time) {
  forget(path);
  list_.emplace_back(path, time);
}

void KeptCheckpoints::forget(const std::string& path) {
  std::erase_if(list_, [&](const TimedPath& known) { return known.first == path; });
}

bool KeptCheckpoints::lists(const std::string& path) const {
  return std::ranges::any_of(list_, [&](const TimedPath& known) { return known.first == path; });
}

bool KeptCheckpoints::stays(double time) {
  if (rule_ == Rule::kSaver) {
    if (time <= mark_) return false;
    mark_ += keep_every_seconds_;
    return true;
  }
  if (keep_every_seconds_ <= 0 || time - keep_every_seconds_ < mark_) return false;
  mark_ = time;
  return true;
}

std::vector<std::string> KeptCheckpoints::take_surplus() {
  std::vector<std::string> surplus;
  if (max_to_keep_ <= 0) {
    // All stay. TensorFlow's Saver then lists the newest only.
    if (rule_ == Rule::kSaver && list_.size() > 1) list_.erase(list_.begin(), list_.end() - 1);
    return surplus;
  }
  while (list_.size() > static_cast<std::size_t>(max_to_keep_)) {
    const TimedPath oldest = std::move(list_.front());
    list_.erase(list_.begin());
    if (!stays(oldest.second)) surplus.push_back(oldest.first);
  }
  return surplus;
}

}  // namespace tutti::internal
