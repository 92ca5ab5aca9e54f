// A job that saves without end, for tests that kill it: save_loop PREFIX single|sharded|tasks|background [MEGABYTES]
// Restores the newest checkpoint when there is one; every step fills all variables with the number of the step. Prints
// "saved STEP" when a save is known to have succeeded. "tasks": shards as of three tasks.
#include <cstdio>
#include <string>
#include <vector>

#include "tutti/io/paths.h"
#include "tutti/ops/array.h"
#include "tutti/ops/state.h"
#include "tutti/runtime/local_session.h"
#include "tutti/train/saver.h"

int main(int argc, char** argv) {
  using namespace tutti;
  if (argc < 3) return 2;
  const std::string prefix = argv[1], way = argv[2];
  // Of the one device there is: a saver, which knows names only, takes them for three tasks.
  constexpr const char* kNames[] = {"/job:localhost", "/job:localhost/task:0", "/task:0"};
  const int megabytes = argc > 3 ? std::stoi(argv[3]) : 1;
  Graph graph(builtin_ops());
  Output one = constant(graph, 1.0f, DType::kFloat);
  Var step = variable(graph, Tensor::scalar<std::int64_t>(0), "global_step", false);
  std::vector<Node*> updates = {step.assign_add(constant(graph, 1, DType::kInt64))};
  for (int i = 0; i < megabytes; ++i) {
    const ScopeGuard there = graph.device_scope(way == "tasks" ? kNames[i % 3] : "");
    Var v = variable(graph, Tensor(DType::kFloat, {1 << 18}), str_cat("v", i));
    updates.push_back(v.assign_add(fill({1 << 18}, one)));
  }
  Node* train = group(graph, updates, "train");
  Node* init = global_variables_initializer(graph);
  try {
    Saver saver(
        graph,
        {.max_to_keep = 2, .sharded = way == "sharded" || way == "tasks", .save_in_background = way == "background"});
    LocalSession session(graph);
    const auto state = read_checkpoint_state(local_file_system(), directory_of(prefix)).value_or_throw();
    if (state) {
      saver.restore(session, state->model_checkpoint_path);
      saver.recover_last_checkpoints(state->all_model_checkpoint_paths);
    } else {
      session.run({init});
    }
    for (;;) {
      session.run({train});
      const std::int64_t now = session.run({}, {step})[0].scalar<std::int64_t>();
      saver.save(session, prefix, now);
      if (way == "background") saver.wait();
      std::printf("saved %lld\n", static_cast<long long>(now));
      std::fflush(stdout);
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
