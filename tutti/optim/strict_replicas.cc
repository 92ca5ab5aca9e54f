#include "tutti/optim/strict_replicas.h"

#include <limits>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/optim/internal/sync_nodes.h"

namespace tutti {

namespace {

// One that no global step comes to.
constexpr std::int64_t kNoStep = std::numeric_limits<std::int64_t>::min();

Tensor no_claim() { return Tensor::vector<std::int64_t>({-1, -1}); }

StrictReplicasOptions checked(StrictReplicasOptions options) {
  if (options.num_shards < 1 || options.lease.count() < 1) {
    throw_error(invalid_argument(options.name, ": ", options.num_shards, " shards with a lease of ",
                                 options.lease.count(), " ms; both must be positive"));
  }
  if (options.worker.empty()) throw_error(invalid_argument(options.name, ": the worker has no name"));
  return options;
}

}  // namespace

struct StrictReplicas::Exchanged {
  Node* send = nullptr;
  Node* take = nullptr;
  Node* set_step = nullptr;   // waits for nothing but the step's value
  Node* set_aside = nullptr;  // the accumulator is at no step any more
  Gradient mean;
};

StrictReplicas::StrictReplicas(Graph& graph, Optimizer& optimizer, StrictReplicasOptions options)
    : ReplicaSync(optimizer),
      options_(checked(std::move(options))),
      claim_(local_variable(graph, *no_op(graph), no_claim(), "strict_rep_claim")) {}

Node* StrictReplicas::next_shard(Output finished) {
  return add_op(finished.graph(), "TuttiNextShard", {board_->output(), finished, threads_},
                {{"worker", options_.worker}}, "next_shard");
}

Node* StrictReplicas::hold(Output claim, const std::string& name) {
  ScopeGuard here = claim.graph().colocate_with(*claim_.handle().node);
  return claim_.assign(claim, name);
}

ReplicaSync::Nodes StrictReplicas::build(const std::vector<GradientAndVariable>& gradients, const Var& global_step) {
  Graph& graph = global_step.handle().graph();
  if (&graph != &claim_.handle().graph()) throw_error(invalid_argument("the global step is of another graph"));
  Nodes nodes;
  nodes.ready_for_local_init = report_uninitialized(graph, global_variables(graph));

  ScopeGuard scope = graph.name_scope(options_.name);
  {
    ScopeGuard here = graph.colocate_with(*claim_.handle().node);
    threads_ = add_op(graph, "TuttiTeamSize", {}, {}, "threads")->output();
  }
  const std::string& home = device_of(global_step);
  // The step whose gradients the chief takes, or starts with: one value for all accumulators.
  const Output step = read_step(global_step);
  std::vector<GradientAndVariable> means;
  std::vector<Node*> sent, taken, set, set_aside;
  for (const GradientAndVariable& pair : gradients) {
    if (!pair.gradient) continue;
    const Exchanged exchanged = exchange(pair, step);
    means.push_back({exchanged.mean, pair.variable});
    sent.push_back(exchanged.send);
    taken.push_back(exchanged.take);
    set.push_back(exchanged.set_step);
    set_aside.push_back(exchanged.set_aside);
  }

  ScopeGuard there = graph.device_scope(home);
  board_ = add_op(graph, "TuttiShardBoard", {},
                  {{"num_shards", std::int64_t{options_.num_shards}},
                   {"lease_ms", static_cast<std::int64_t>(options_.lease.count())},
                   {"shared_name", options_.name + "/board"}},
                  "board");
  const auto open = [&](Output at) { return add_op(graph, "TuttiOpenShards", {board_->output(), at}, {}, "open"); };

  // No variable changes before the last gradient is there: who computes a shard a second time, because the first worker
  // died halfway, must find all variables as they were.
  Node* barrier = group(graph, taken, "barrier");
  Node* update = nullptr;
  {
    ScopeGuard wait = graph.control_dependencies({barrier});
    ScopeGuard root = graph.name_scope("");
    update = optimizer_.apply_gradients(means, global_step);
  }
  {
    ScopeGuard wait = graph.control_dependencies({update});
    nodes.sync = open(read_step(global_step));
    graph.add_to_collection(kWholeUpdatesOnly, *nodes.sync);
  }
  if (options_.variable_averages) {
    ScopeGuard wait = graph.control_dependencies({nodes.sync});
    ScopeGuard root = graph.name_scope("");
    nodes.sync = options_.variable_averages();
  }
  {
    ScopeGuard wait = graph.control_dependencies(sent);
    Node* next = next_shard(claim());
    next_claim_ = next->output();
    nodes.train = hold(next_claim_, "train");
  }
  nodes.local_step_init = hold(next_shard(constant(graph, no_claim(), "none"))->output(), "local_step_init");
  {
    Node* opened = nullptr;
    {
      ScopeGuard wait = graph.control_dependencies(set);
      opened = open(step);
    }
    ScopeGuard wait = graph.control_dependencies({opened});
    Node* first = next_shard(constant(graph, no_claim(), "none"));
    nodes.chief_init = hold(first->output(), "chief_init");
  }
  nodes.close = add_op(graph, "TuttiCloseShards", {board_->output()}, {}, "close");
  nodes.cancel = nodes.close;
  nodes.interrupt = group(graph, set_aside, "interrupt");
  nodes.presence = add_op(graph, "TuttiAttendShards", {board_->output()}, {{"worker", options_.worker}}, "presence");
  return nodes;
}

StrictReplicas::Exchanged StrictReplicas::exchange(const GradientAndVariable& pair, Output step) {
  const Var& variable = pair.variable;
  Graph& graph = variable.handle().graph();
  ScopeGuard there = graph.device_scope(device_of(variable));
  const bool sparse = pair.gradient.is_sparse();
  const std::string kind = sparse ? "TuttiSparseShard" : "TuttiShard";
  const AttrMap dtype{{"dtype", variable.dtype()}};
  const auto add = [&](const std::string& op, std::vector<Output> inputs, AttrMap attrs, const std::string& name) {
    return add_op(graph, op, std::move(inputs), std::move(attrs), name);
  };
  Output handle = add(kind + "Accumulator", {},
                      {{"dtype", variable.dtype()},
                       {"shape", variable.shape()},
                       {"num_shards", std::int64_t{options_.num_shards}},
                       {"shared_name", variable.name() + ":0/shard_accum"}},
                      "accumulator")
                      ->output();
  std::vector<Output> sent{handle, claim()};
  if (sparse) {
    const IndexedSlices& rows = pair.gradient.slices();
    if (!rows.dense_shape) {
      throw_error(invalid_argument("the sparse gradient of \"", printable(variable.name()), "\" has no shape"));
    }
    sent.insert(sent.end(), {as_int64(rows.indices), rows.values, as_int64(rows.dense_shape)});
  } else {
    sent.push_back(pair.gradient.dense());
  }
  Exchanged result;
  result.send = add(kind + "ApplyGradient", std::move(sent), {{"worker", options_.worker}}, "send");
  result.take = add(kind + "TakeGradient", {handle, step}, dtype, "take");
  result.set_step = add("TuttiShardSetStep", {handle, step}, {}, "set_step");
  Output no_step = constant(graph, kNoStep, DType::kInt64, "no_step");
  result.set_aside = add("TuttiShardSetStep", {handle, no_step}, {}, "set_aside");
  if (sparse) {
    result.mean = IndexedSlices{result.take->output(1), result.take->output(0), result.take->output(2)};
  } else {
    result.mean = result.take->output();
  }
  return result;
}

Output StrictReplicas::next_claim() const {
  built();
  return next_claim_;
}

Node* StrictReplicas::init_tokens(int /*num_tokens*/) {
  built();
  return no_op(board_->graph(), "no_init_tokens");
}

}  // namespace tutti
