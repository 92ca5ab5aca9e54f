// The named state of a task.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/kernels/services.h"

namespace tutti {

// Slots by container and name, in memory. A slot that is empty and that nobody holds any more goes some time: names
// that are mentioned once cost nothing for ever. Thread-safe.
class LocalResourceStore : public ResourceStore {
 public:
  LocalResourceStore();
  std::shared_ptr<ResourceSlot> slot(std::string_view container, std::string_view name) override;
  // Destroys what the containers hold (all of them when none is named). Handles stay valid and find empty slots. Who
  // waits in a queue or an accumulator gets kAborted.
  void reset(const std::vector<std::string>& containers);
  std::size_t num_slots() const;

 private:
  using Container = std::map<std::string, std::shared_ptr<ResourceSlot>, std::less<>>;
  void drop_unused() TUTTI_REQUIRES(mu_);

  mutable Mutex mu_;
  std::map<std::string, Container, std::less<>> containers_ TUTTI_GUARDED_BY(mu_);
  std::size_t slots_ TUTTI_GUARDED_BY(mu_) = 0;
  std::size_t drop_at_ TUTTI_GUARDED_BY(mu_);  // so many slots
};

}  // namespace tutti
