// A whole cluster in simulated time: the real masters, workers, peers, leases, clients and messages over a simulated
// network.
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
#include "tutti/distributed/session_leases.h"

namespace tutti {
class Peers;
}

namespace tutti::sim {

// How long workers remember steps that have ended.
constexpr std::chrono::seconds kRemembered(2);
// How long masters wait for clients: shorter than theirs, so that a schedule need not be long.
constexpr SessionLeaseOptions kLeases{.hold = std::chrono::milliseconds(100),
                                      .renew = std::chrono::milliseconds(500),
                                      .grace = std::chrono::milliseconds(500)};
constexpr std::chrono::hours kForever(24);

// Mistakes that the simulator must be able to find. kNone in real runs.
enum class Planted {
  kNone,
  kRepeatsAreServed,      // a master does not know a step that it was asked for before
  kStepsMixed,            // values are asked for under another step's id, now and then
  kNoCleanup,             // a worker never hears that a step is over
  kSessionsSurviveCrash,  // a restarted worker still knows its predecessor's graphs
  kErrorsUnanswered,      // a master that fails says nothing
  kPeersDoubted,          // a task takes its peers for dead before their answers can be there
  kClientsImmortal,       // a master waits for clients that are gone
  kLeasesShort,           // a master does not wait for clients to renew their leases
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

  std::uint64_t new_incarnation(std::int64_t life);
  // As counted by life().
  std::int64_t life_of(std::uint64_t incarnation) const { return incarnations_.at(incarnation); }

 private:
  ManualClock clock_;
  std::mt19937_64 random_;
  const Planted planted_;
  const std::vector<std::string> names_;
  Observations observations_;
  Network network_;
  std::map<std::string, std::int64_t> lives_;
  std::map<std::uint64_t, std::int64_t> incarnations_;
  std::map<std::string, std::unique_ptr<SimTask>> tasks_;
  // What is of no use any more, but may still be on the stack that asked for the crash.
  std::vector<std::unique_ptr<SimTask>> dead_;
};

// The process of a client of one master, put together as connect() does it. `cluster` must outlive it. It crashes in
// the network, under its name.
class SimClient {
 public:
  SimClient(Cluster& cluster, const std::string& name, const std::string& task);
  ~SimClient();
  const std::shared_ptr<MasterInterface>& master() const { return master_; }

 private:
  std::unique_ptr<Peers> peers_;
  std::shared_ptr<MasterInterface> master_;
};

}  // namespace tutti::sim
