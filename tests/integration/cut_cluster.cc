#include "tests/integration/cut_cluster.h"

#include <gtest/gtest.h>

#include <latch>

#include "tests/support/kernel_runner.h"
#include "tutti/core/rendezvous_key.h"
#include "tutti/graph/graph_def.h"
#include "tutti/runtime/internal/session_compiler.h"
#include "tutti/runtime/local_rendezvous.h"

namespace tutti::testing {

struct CutCluster::Task {
  std::unique_ptr<LocalRuntime> runtime;
};

CutCluster::CutCluster(const std::vector<std::string>& jobs) {
  for (const std::string& job : jobs) {
    auto runtime = std::make_unique<LocalRuntime>(
        RuntimeOptions{.intra_op_threads = 1, .inter_op_threads = 1, .job = job, .task = 0});
    devices_.push_back(runtime->devices()[0].to_string());
    const std::string name = runtime->task_name();
    tasks_[name] = std::make_unique<Task>(Task{std::move(runtime)});
  }
}

CutCluster::~CutCluster() = default;

Result<FunctionBody> CutCluster::place_and_extract(Graph& graph, const Signature& signature) {
  PlacementOptions placement;
  for (const std::string& device : devices_) placement.devices.push_back(DeviceName::parse(device).value_or_throw());
  placement.has_kernel = [](const Node&, const std::string&) { return true; };
  TUTTI_RETURN_IF_ERROR(place(graph, placement));
  return extract_subgraph(graph, signature);
}

Result<std::vector<Tensor>> CutCluster::run(Graph& graph, const Feeds& feeds, const std::vector<Output>& fetches,
                                            const std::vector<Node*>& targets) {
  Signature signature;
  for (const auto& [name, value] : feeds) signature.feeds.push_back(name.str());
  for (const Output& fetch : fetches) signature.fetches.push_back(fetch.name());
  for (const Node* target : targets) signature.targets.push_back(target->name());
  TUTTI_ASSIGN_OR_RETURN(FunctionBody body, place_and_extract(graph, signature));
  const PartitionOptions options{.part_of = [](const std::string& device) { return std::string(task_of(device)); },
                                 .incarnation_of = [](const std::string& device) { return device.size(); },
                                 .client_device = devices_[0],
                                 .first_number = next_number_};
  TUTTI_ASSIGN_OR_RETURN(parts_, partition(body, options));
  next_number_ = parts_.next_number;
  std::vector<Tensor> results(fetches.size());
  TUTTI_RETURN_IF_ERROR(run_parts(feeds, &results));
  return results;
}

Status CutCluster::run_parts(const Feeds& feeds, std::vector<Tensor>* results) {
  struct Running {
    std::unique_ptr<Graph> graph;
    std::unique_ptr<internal::SessionCompiler> compiler;
    std::shared_ptr<const Executable> executable;
    std::unique_ptr<TestStep> step;
    Status status;
  };
  LocalRendezvous rendezvous;
  std::vector<Running> running;
  for (const Part& part : parts_.parts) {
    LocalRuntime& runtime = *tasks_.at(part.name)->runtime;
    Running& run = running.emplace_back();
    run.graph = std::make_unique<Graph>(builtin_ops());
    Status imported = import_graph_def(export_graph_def(*part.graph), *run.graph);
    if (!imported.ok()) return imported.with_context(part.name);
    run.compiler = std::make_unique<internal::SessionCompiler>(
        *run.graph, internal::SessionCompiler::Options{.ops = builtin_ops(), .runtime = &runtime});
    Signature all;
    for (const Node* node : run.graph->nodes()) all.targets.push_back(node->name());
    TUTTI_ASSIGN_OR_RETURN(FunctionBody body, extract_subgraph(*run.graph, all));
    TUTTI_ASSIGN_OR_RETURN(run.executable, run.compiler->compile_body(std::move(body), {}));
    run.step = std::make_unique<TestStep>(runtime.resources());
    run.step->rendezvous = &rendezvous;
    run.step->services = run.compiler->services();
    for (const Part::Terminal& feed : part.feeds) {
      TUTTI_RETURN_IF_ERROR(rendezvous.send(feed.key, feeds[feed.index].second, false));
    }
  }
  std::latch left(static_cast<std::ptrdiff_t>(running.size()));
  for (Running& run : running) {
    run.executable->run(*run.step, {}, [&](Status status, const std::vector<Tensor>&) {
      run.status = std::move(status);
      if (!run.status.ok()) rendezvous.abort(run.status);
      left.count_down();
    });
  }
  left.wait();
  Status first;
  for (std::size_t i = 0; i < running.size(); ++i) first.update(running[i].status.with_context(parts_.parts[i].name));
  TUTTI_RETURN_IF_ERROR(first);
  for (const Part& part : parts_.parts) {
    for (const Part::Terminal& fetch : part.fetches) {
      Cancellation never;
      rendezvous.recv(fetch.key, never, [&](const Status& status, Tensor value, bool dead) {
        first.update(status);
        if (dead) first.update(invalid_argument("fetch ", fetch.index, " is dead"));
        (*results)[fetch.index] = std::move(value);
      });
    }
  }
  return first;
}

}  // namespace tutti::testing
