// A task's sessions in the simulator: parts of graphs are interpreted, each node taking some simulated time, and every
// change of a variable is written down.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tutti/core/clock.h"
#include "tutti/runtime/task_session.h"

namespace tutti::sim {

// One change of a variable.
struct Effect {
  std::string task;
  std::int64_t life;  // of the task, when it happened
  std::int64_t step;
  std::string node;
  std::int64_t value;
};

// What the processes of a simulated cluster share with the test that watches them.
struct Observations {
  std::vector<Effect> effects;
  std::int64_t steps_running = 0;
  std::int64_t sessions = 0;  // of masters on workers, in processes that live
  std::vector<std::string> violations;
};

// The state of one process: gone with it.
struct SimState {
  std::string task;
  std::int64_t life = 0;
  std::map<std::string, std::int64_t> variables;  // by shared name
  // False once the process has crashed: what was begun does nothing more.
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);
};

// Knows Const, Identity, NoOp, AddV2, VarHandleOp, ReadVariableOp, AssignAddVariableOp, _Send and _Recv, over int64
// scalars. All arguments must outlive it.
std::unique_ptr<TaskSession> make_sim_session(ManualClock& clock, std::mt19937_64& random, SimState& state,
                                              Observations& observations);

}  // namespace tutti::sim
