// Which checkpoints are kept, and which are deleted.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tutti::internal {

// TensorFlow's two rules. A value: no files are touched. Times are seconds since 1970.
class KeptCheckpoints {
 public:
  using TimedPath = std::pair<std::string, double>;
  enum class Rule {
    kSaver,    // one that is too many stays for good when it is newer than the hour that is due; then the next is due
    kManager,  // ... when it is so many hours newer than the last one that stayed
  };

  // max_to_keep 0: all are kept. keep_every_n_hours 0, kManager: none stays for good. `now`: from which hours count.
  KeptCheckpoints(Rule rule, int max_to_keep, double keep_every_n_hours, double now)
      : rule_(rule),
        max_to_keep_(max_to_keep),
        keep_every_seconds_(keep_every_n_hours * 3600),
        mark_(rule == Rule::kSaver ? now + keep_every_seconds_ : now) {}

  // A checkpoint was written; one under the same path is forgotten.
  void add(const std::string& path, double time);
  void forget(const std::string& path);
  // Those that are too many, less those that stay for good: to be deleted when the list without them is on the disk.
  std::vector<std::string> take_surplus();

  // Oldest first.
  const std::vector<TimedPath>& list() const { return list_; }
  bool lists(const std::string& path) const;
  void set_list(std::vector<TimedPath> list) { list_ = std::move(list); }
  // kManager: the time of the last one that stayed.
  double last_preserved() const { return mark_; }
  void set_last_preserved(double time) { mark_ = time; }
  Rule rule() const { return rule_; }

 private:
  bool stays(double time);

  const Rule rule_;
  const int max_to_keep_;
  const double keep_every_seconds_;
  double mark_;  // kSaver: what is newer stays; kManager: the last one that stayed
  std::vector<TimedPath> list_;
};

}  // namespace tutti::internal
