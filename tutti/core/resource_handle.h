// What flows through a graph in place of state: a name, and on the task that owns the state a pointer.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "tutti/core/mutex.h"

namespace tutti {

// State that outlives a step: a variable, a queue, an accumulator, a table. Thread-safe by itself.
class Resource {
 public:
  virtual ~Resource() = default;
  // What it is, for messages: "variable float [784,500]".
  virtual std::string debug_string() const = 0;
};

// The place of one named resource in a task's store. It exists from the first mention of the name,
// empty until the resource is created, and empty again after the resource is destroyed or its container
// reset. Handles and kernels keep the slot, so reaching the state needs no look-up.
class ResourceSlot {
 public:
  ResourceSlot(std::string container, std::string name) : container_(std::move(container)), name_(std::move(name)) {}

  const std::string& container() const { return container_; }
  const std::string& name() const { return name_; }

  // Null while empty.
  std::shared_ptr<Resource> get() const {
    MutexLock lock(mu_);
    return resource_;
  }
  // Fills an empty slot with what `make` gives, or returns what is there already.
  template <typename Make>
  std::shared_ptr<Resource> get_or_create(Make make) {
    MutexLock lock(mu_);
    if (!resource_) resource_ = make();
    return resource_;
  }
  // Gives what was in it, or null.
  std::shared_ptr<Resource> clear() {
    MutexLock lock(mu_);
    return std::exchange(resource_, nullptr);
  }

 private:
  const std::string container_;
  const std::string name_;
  mutable Mutex mu_;
  std::shared_ptr<Resource> resource_ TUTTI_GUARDED_BY(mu_);
};

// The element of a kResource tensor.
class ResourceHandle {
 public:
  ResourceHandle() = default;
  ResourceHandle(std::string device, std::shared_ptr<ResourceSlot> slot)
      : device_(std::move(device)), container_(slot->container()), name_(slot->name()), slot_(std::move(slot)) {}
  // A handle as it arrives from another task: names only.
  ResourceHandle(std::string device, std::string container, std::string name)
      : device_(std::move(device)), container_(std::move(container)), name_(std::move(name)) {}

  const std::string& device() const { return device_; }
  const std::string& container() const { return container_; }
  const std::string& name() const { return name_; }
  // Null where the handle came from elsewhere and was not bound to this task's store.
  const std::shared_ptr<ResourceSlot>& slot() const { return slot_; }

 private:
  std::string device_;
  std::string container_;
  std::string name_;
  std::shared_ptr<ResourceSlot> slot_;
};

}  // namespace tutti
