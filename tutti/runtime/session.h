// Running a graph: the same interface on one machine and on a cluster.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tutti/core/cancellation.h"
#include "tutti/core/status.h"
#include "tutti/core/tensor.h"
#include "tutti/graph/graph.h"
#include "tutti/graph/subgraph.h"
#include "tutti/runtime/step_stats.h"

namespace tutti {

// Names a value of the graph: "dense/MatMul:0", or an Output, or anything that converts to one.
class TensorName {
 public:
  TensorName(std::string name) : name_(std::move(name)) {}  // NOLINT: implicit
  TensorName(const char* name) : name_(name) {}             // NOLINT: implicit
  template <typename T>
  requires std::is_convertible_v<const T&, Output> TensorName(const T& value)
      : name_(static_cast<Output>(value).name()) {}  // NOLINT: implicit
  const std::string& str() const { return name_; }

 private:
  std::string name_;
};

// Names a node to run: "train", or a Node.
class NodeName {
 public:
  NodeName(std::string name) : name_(std::move(name)) {}  // NOLINT: implicit
  NodeName(const char* name) : name_(name) {}             // NOLINT: implicit
  NodeName(const Node* node) : name_(node->name()) {}     // NOLINT: implicit
  const std::string& str() const { return name_; }

 private:
  std::string name_;
};

using Feeds = std::vector<std::pair<TensorName, Tensor>>;

struct RunMetadata {
  StepStats step_stats;
  // GraphDefs: what each task ran, where RunOptions::partition_graphs asked for it.
  std::vector<std::string> partition_graphs;
};

struct RunOptions {
  // kDeadlineExceeded when the step takes longer; 0 = no limit.
  std::chrono::milliseconds timeout{0};
  // Ends the step early when cancelled. Must outlive the run; of a partial run, which may go on a moment after the call
  // that was told of its end, the session.
  Cancellation* cancellation = nullptr;
  // Where to put what the step did; null: not recorded. Must outlive the run.
  RunMetadata* metadata = nullptr;
  // Put the graphs that the tasks ran there too.
  bool partition_graphs = false;
};

// Runs parts of a graph. Thread-safe: any number of runs at a time.
class Session {
 public:
  using CallableId = std::int64_t;
  using Done = std::function<void(Status, std::vector<Tensor>)>;

  virtual ~Session() = default;

  // Runs what the fetches and targets need, with the feeds in place of what the graph has there, and
  // gives the fetches in order. Throws Error.
  std::vector<Tensor> run(const Feeds& feeds, const std::vector<TensorName>& fetches,
                          const std::vector<NodeName>& targets = {}, const RunOptions& options = {});
  // Runs targets only.
  void run(const std::vector<NodeName>& targets, const RunOptions& options = {}) { run({}, {}, targets, options); }
  // The same without exceptions.
  Result<std::vector<Tensor>> try_run(const Feeds& feeds, const std::vector<TensorName>& fetches,
                                      const std::vector<NodeName>& targets = {}, const RunOptions& options = {});
  // The same without waiting: `done` is called exactly once, on any thread, possibly before this returns. A
  // step that waits (in a dequeue, say) holds no thread. `done` must neither close nor destroy the session.
  void run_async(const Feeds& feeds, const std::vector<TensorName>& fetches, const std::vector<NodeName>& targets,
                 const RunOptions& options, Done done);

  // A signature checked and compiled once. Errors as for run.
  virtual Result<CallableId> make_callable(const Signature& signature) = 0;
  // `feeds` in the order of the signature's.
  virtual void run_callable_async(CallableId callable, std::vector<Tensor> feeds, const RunOptions& options,
                                  Done done) = 0;
  virtual Result<std::vector<Tensor>> run_callable(CallableId callable, std::vector<Tensor> feeds,
                                                   const RunOptions& options = {});
  virtual Status release_callable(CallableId callable) = 0;

  // A step in several calls: names every feed and fetch of all of them; each is then given or taken once. The call
  // that gives or takes the last of them waits for the targets too and gives the step's status. `options` hold from
  // here to that call, their time limit too. On a cluster they end a call that waits, and with it the step; between
  // calls nothing ends there, and there is no metadata.
  virtual Result<std::string> partial_run_setup(const Signature& signature, const RunOptions& options) = 0;
  Result<std::string> partial_run_setup(const Signature& signature) { return partial_run_setup(signature, {}); }
  virtual Result<std::vector<Tensor>> partial_run(const std::string& handle, const Feeds& feeds,
                                                  const std::vector<TensorName>& fetches) = 0;

  // Adds nodes to the graph.
  virtual Status extend(std::string_view graph_def) = 0;
  virtual std::vector<std::string> list_devices() = 0;
  // Cancels what runs and waits for it, its callbacks included; later calls fail. Idempotent.
  virtual Status close() = 0;

 private:
  // That run() keeps compiled. Programs have a few dozen; one that adds nodes in its loop and runs them has a new one
  // each time, and would fill the memory without a limit.
  static constexpr std::size_t kMaxSignatures = 1024;
  struct Known {
    CallableId callable = 0;
    int runs = 0;                                       // that go on: it is not released meanwhile
    std::list<const std::string*>::iterator last_used;  // in by_use_
  };
  // Counts a run in.
  Result<Known*> callable_for(const Feeds& feeds, const std::vector<TensorName>& fetches,
                              const std::vector<NodeName>& targets);
  Known* add_known(std::string key, CallableId callable);
  void count_out(Known& known);

  // A graph only grows, so what a signature needs never changes.
  Mutex signatures_mu_;
  std::unordered_map<std::string, Known> signatures_ TUTTI_GUARDED_BY(signatures_mu_);
  std::list<const std::string*> by_use_ TUTTI_GUARDED_BY(signatures_mu_);  // keys of signatures_, the last used first
};

}  // namespace tutti
