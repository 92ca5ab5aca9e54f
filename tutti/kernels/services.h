// What kernels may ask of the task that runs them. Declared here, implemented above (runtime,
// distributed), so that kernels know neither graphs nor networks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/attr_value.h"
#include "tutti/core/resource_handle.h"
#include "tutti/core/status.h"
#include "tutti/core/tensor.h"

namespace tutti {

class Cancellation;
class Clock;
class FileSystem;
class MemoryAccount;
class StepScope;

// Named state of a task, in containers. Thread-safe.
class ResourceStore {
 public:
  // The container that an empty container attribute means.
  static constexpr std::string_view kDefaultContainer = "localhost";

  virtual ~ResourceStore() = default;
  // The slot of that name, made when it is new. Never null; the same pointer for the same name for
  // as long as the store lives.
  virtual std::shared_ptr<ResourceSlot> slot(std::string_view container, std::string_view name) = 0;
  // A name for a resource that one kernel keeps for itself: no other kernel gets it, and no client may ask for it,
  // since it begins with '_'.
  std::string private_name(std::string_view node) { return str_cat("_", next_private_++, "_", node); }

 private:
  std::atomic<std::uint64_t> next_private_{0};  // relaxed would do: only the numbers must differ
};

// Meeting place of producers and consumers of a step's tensors. Thread-safe. A producer never blocks,
// a consumer may ask early; each key is sent once and received once.
class Rendezvous {
 public:
  // `dead`: the value was never computed (an untaken branch); it travels too.
  using Done = std::function<void(Status status, Tensor value, bool dead)>;

  virtual ~Rendezvous() = default;
  virtual Status send(const std::string& key, Tensor value, bool dead) = 0;
  // `done` runs exactly once: with the value, with the cause of the abort, or, once `cancellation` is cancelled, with
  // its status; a request that was cancelled takes no value. `cancellation` must live until `done` is called.
  virtual void recv(const std::string& key, Cancellation& cancellation, Done done) = 0;
  // Fails everything waiting and everything later. The first cause is kept. REQUIRES: !cause.ok().
  virtual void abort(Status cause) = 0;
};

// Runs functions of the graph's library inside the caller's step. Thread-safe.
class FunctionRunner {
 public:
  using Handle = int;
  using Done = std::function<void(Status status, std::vector<Tensor> results)>;

  virtual ~FunctionRunner() = default;
  // Compiles on first use. Errors name the function.
  virtual Result<Handle> instantiate(const FunctionRef& function) = 0;
  // Whether running it can wait for something other than arithmetic (a dequeue, a receive).
  virtual bool may_block(Handle handle) const = 0;
  // `done` runs exactly once, possibly before this returns, possibly on another thread.
  virtual void run(Handle handle, StepScope& step, std::vector<Tensor> args, Done done) = 0;
  // The same, waiting on the calling thread. REQUIRES: !may_block(handle).
  virtual Status run_inline(Handle handle, StepScope& step, std::vector<Tensor> args, std::vector<Tensor>* results) = 0;
};

// Threads for work that waits for the disk: never those that steps run on, so that a slow disk holds up nothing but who
// asked for it. Thread-safe.
class BlockingRunner {
 public:
  virtual ~BlockingRunner() = default;
  // `work` may wait, but not for other work given to this runner.
  virtual void run(std::function<void()> work) = 0;
};

// The services that exist for as long as a session does. Null where a task has none.
struct Services {
  ResourceStore* resources = nullptr;
  FunctionRunner* functions = nullptr;
  Clock* clock = nullptr;
  FileSystem* files = nullptr;
  BlockingRunner* blocking = nullptr;  // null: what waits does so on the thread that calls it
  MemoryAccount* memory = nullptr;     // what the session's kernels take counts on it; null: nothing is counted
  std::string_view task;               // "/job:worker/replica:0/task:1": whose resources these are; empty: unknown
};

}  // namespace tutti
