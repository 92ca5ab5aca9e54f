#include "tutti/runtime/resource_store.h"

#include <algorithm>

#include "tutti/kernels/resources/waiting_room.h"

namespace tutti {

std::shared_ptr<ResourceSlot> LocalResourceStore::slot(std::string_view container, std::string_view name) {
  if (container.empty()) container = kDefaultContainer;
  MutexLock lock(mu_);
  Container& slots = containers_[std::string(container)];
  auto it = slots.find(name);
  if (it == slots.end()) {
    auto slot = std::make_shared<ResourceSlot>(std::string(container), std::string(name));
    it = slots.emplace(std::string(name), std::move(slot)).first;
  }
  return it->second;
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
  for (const auto& slot : cleared) {
    const std::shared_ptr<Resource> resource = slot->get();
    slot->clear();
    if (auto* room = dynamic_cast<WaitingRoom*>(resource.get())) room->abandon();
  }
}

}  // namespace tutti
