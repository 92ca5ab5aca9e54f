#include "tutti/runtime/resource_store.h"

#include <algorithm>

#include "tutti/kernels/resources/slots.h"

namespace tutti {
namespace {

// Fewer slots than these are not worth looking through.
constexpr std::size_t kFewSlots = 64;

// Nobody else can come to hold the slot meanwhile: the store alone gives it out.
bool unused(const std::shared_ptr<ResourceSlot>& slot) { return slot.use_count() == 1 && slot->get() == nullptr; }

}  // namespace

LocalResourceStore::LocalResourceStore() : drop_at_(kFewSlots) {}

std::shared_ptr<ResourceSlot> LocalResourceStore::slot(std::string_view container, std::string_view name) {
  if (container.empty()) container = kDefaultContainer;
  MutexLock lock(mu_);
  Container& slots = containers_[std::string(container)];
  auto it = slots.find(name);
  if (it == slots.end()) {
    if (slots_ >= drop_at_) drop_unused();
    auto slot = std::make_shared<ResourceSlot>(std::string(container), std::string(name));
    // Dropping may have taken the container itself.
    it = containers_[std::string(container)].emplace(std::string(name), std::move(slot)).first;
    ++slots_;
  }
  return it->second;
}

std::size_t LocalResourceStore::num_slots() const {
  MutexLock lock(mu_);
  return slots_;
}

// Half of the slots at least are new since the last time, so that each pays for a few looks only.
void LocalResourceStore::drop_unused() {
  slots_ = 0;
  for (auto& [name, slots] : containers_) {
    std::erase_if(slots, [](const auto& entry) { return unused(entry.second); });
    slots_ += slots.size();
  }
  std::erase_if(containers_, [](const auto& entry) { return entry.second.empty(); });
  drop_at_ = std::max(kFewSlots, 2 * slots_);
}

void LocalResourceStore::reset(const std::vector<std::string>& containers) {
  std::vector<std::shared_ptr<ResourceSlot>> cleared;  // resources are destroyed after the lock is gone
  {
    MutexLock lock(mu_);
    for (auto& [name, slots] : containers_) {
      if (!containers.empty() && std::find(containers.begin(), containers.end(), name) == containers.end()) continue;
      for (auto& [slot_name, slot] : slots) cleared.push_back(slot);
    }
  }
  for (const auto& slot : cleared) destroy_resource(*slot);
  cleared.clear();
  MutexLock lock(mu_);
  drop_unused();
}

}  // namespace tutti
