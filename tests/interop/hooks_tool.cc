// hooks_tool SCENARIO DIRECTORY: trains a job that counts, and says what hooks were told. See check_hooks.py.
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/state.h"
#include "tutti/train/global_step.h"
#include "tutti/train/hooks/checkpoint_saver_hook.h"
#include "tutti/train/hooks/nan_tensor_hook.h"
#include "tutti/train/hooks/profiler_hook.h"
#include "tutti/train/hooks/stop_at_step_hook.h"
#include "tutti/train/monitored_training_session.h"

using namespace tutti;

namespace {

void say(const std::string& line) { std::printf("%s\n", line.c_str()); }

struct Job {
  Job() {
    const Output tag = constant(graph, Tensor::scalar<std::string>("weight"));
    graph.add_to_collection("summaries", *add_op(graph, "ScalarSummary", {tag, w}));
    const Var counter = variable(graph, Tensor::scalar<std::int64_t>(0), "counter", false);
    count = add_op(graph, "ResourceCountUpTo", {counter.handle()}, {{"limit", std::int64_t{3}}, {"T", DType::kInt64}});
    const Output zero = constant(graph, Tensor::scalar(0.0f));
    nan = op1("RealDiv", {zero, zero});
  }
  Graph graph{builtin_ops()};
  Var step = get_or_create_global_step(graph);
  Var w = variable(graph, Tensor::scalar(10.0f), "w");
  Node* train = step.assign_add(constant(graph, Tensor::scalar<std::int64_t>(1)), "train");
  Node* count = nullptr;
  Output nan;
};

// Says what it is told, with the global step at that moment.
class Recorder : public SessionRunHook {
 public:
  Recorder(std::string name, const Job& job, std::int64_t abort_at = -1)
      : name_(std::move(name)), job_(&job), abort_at_(abort_at) {}
  void begin(HookContext&) override { say(name_ + " begin"); }
  void after_create_session(Session& session, Coordinator&) override { note("after_create_session", session); }
  std::optional<RunArgs> before_run(RunContext& context) override {
    note("before_run", context.session());
    return std::nullopt;
  }
  void after_run(RunContext& context, const RunValues&) override {
    note("after_run", context.session());
    if (read_global_step(context.session(), job_->step) != abort_at_) return;
    abort_at_ = -1;
    throw_error(aborted("as asked"));
  }
  void end(Session& session) override { note("end", session); }

 private:
  void note(const std::string& what, Session& session) {
    say(str_cat(name_, " ", what, " ", read_global_step(session, job_->step)));
  }
  const std::string name_;
  const Job* job_;
  std::int64_t abort_at_;
};

class Listener : public CheckpointSaverListener {
 public:
  void begin() override { say("listener begin"); }
  void before_save(Session&, std::int64_t step) override { say(str_cat("listener before_save ", step)); }
  bool after_save(Session&, std::int64_t step) override {
    say(str_cat("listener after_save ", step));
    return step >= 4;
  }
  void end(Session&, std::int64_t step) override { say(str_cat("listener end ", step)); }
};

void run(const std::string& scenario, const std::string& directory) {
  Job job;
  MonitoredTrainingSessionOptions options;
  options.checkpoint_dir = directory;
  options.save_checkpoint_steps = 3;
  options.save_summaries_steps = 2;
  options.log_step_count_steps = 4;
  options.environment.log = nullptr;
  options.chief_only_hooks = {Recorder("chief", job)};
  options.hooks = {Recorder("user", job, scenario == "abort" ? 5 : -1)};
  // TensorFlow's saves are done when it goes on, and so is what it goes back to.
  options.scaffold = std::make_shared<Scaffold>();
  options.scaffold->save_in_background = scenario != "abort";
  std::vector<NodeName> targets = {job.train};
  if (scenario == "input_ends") targets.push_back(job.count);
  if (scenario == "nan") options.hooks.push_back(NanTensorHook(job.nan));
  if (scenario == "nan_stops") options.hooks.push_back(NanTensorHook(job.nan, {.fail_on_nan_loss = false}));
  if (scenario == "again") options.hooks.push_back(StopAtStepHook({.num_steps = 4}));
  if (scenario == "late") options.hooks.push_back(StopAtStepHook({.last_step = 5}));
  if (scenario == "first" || scenario == "abort") options.hooks.push_back(StopAtStepHook({.last_step = 10}));
  if (scenario == "profile") {
    options.hooks.push_back(ProfilerHook({.save_steps = 4, .output_dir = directory}));
    options.hooks.push_back(StopAtStepHook({.last_step = 10}));
  }
  if (scenario == "listener") {
    options.save_checkpoint_secs = 0;
    options.save_checkpoint_steps.reset();
    options.hooks.push_back(CheckpointSaverHook({.checkpoint_dir = directory,
                                                 .save_steps = 2,
                                                 .scaffold = options.scaffold,
                                                 .listeners = {std::make_shared<Listener>()}}));
  }
  try {
    MonitoredTrainingSession session(job.graph, options);
    session.loop([&] { session.run(targets); });
  } catch (const Error& error) {
    say(str_cat("error ", error.status().message()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: hooks_tool SCENARIO DIRECTORY\n"), 2;
  try {
    run(argv[1], argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hooks_tool: %s\n", error.what());
    return 1;
  }
}
