// A whole cluster in one thread: the real masters, workers, failure detectors and codecs over a simulated network.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "network.h"
#include "task_session.h"
#include "tutti/distributed/master_interface.h"

namespace tutti::sim {

// How long workers remember steps that have ended.
constexpr std::chrono::seconds kRemembered(2);

// Mistakes that the simulator must be able to find. kNone in real runs.
enum class Planted {
  kNone,
  kRepeatsAreServed,      // a worker does not know a RunGraph that it has seen
  kStepsMixed,            // values are asked for under another step's id, now and then
  kNoCleanup,             // a worker never hears that a step is over
  kSessionsSurviveCrash,  // a restarted worker still knows its predecessor's graphs
  kErrorsUnanswered,      // a master that fails says nothing
};

class SimTask;

// Owns the tasks. Not thread-safe.
class Cluster {
 public:
  Cluster(std::vector<std::string> tasks, std::uint64_t seed, Planted planted);
  ~Cluster();

  ManualClock& clock() { return clock_; }
  std::mt19937_64& random() { return random_; }
  Network& network() { return network_; }
  Observations& observations() { return observations_; }
  const std::vector<std::string>& tasks() const { return names_; }
  Planted planted() const { return planted_; }

  void start(const std::string& task);
  void crash(const std::string& task);
  bool lives(const std::string& task) const { return tasks_.contains(task); }
  // How many times it was started.
  std::int64_t life(const std::string& task) const;
  // Steps that its worker still keeps something of.
  std::size_t open_steps(const std::string& task) const;

  std::shared_ptr<MasterInterface> connect(const std::string& client, const std::string& task);

 private:
  ManualClock clock_;
  std::mt19937_64 random_;
  const Planted planted_;
  const std::vector<std::string> names_;
  Observations observations_;
  Network network_;
  std::map<std::string, std::int64_t> lives_;
  std::map<std::string, std::unique_ptr<SimTask>> tasks_;
  // What is of no use any more, but may still be on the stack that asked for the crash.
  std::vector<std::unique_ptr<SimTask>> dead_;
};

}  // namespace tutti::sim
