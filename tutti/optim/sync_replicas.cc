#include "tutti/optim/sync_replicas.h"

#include <algorithm>
#include <optional>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/optim/internal/sync_nodes.h"

namespace tutti {

namespace {

// As kernels/resources/gradient_ledger.h has it.
constexpr std::string_view kWorkerAttr = "_tutti_worker";

// The accumulator does not know how many rows there are, and an optimiser that makes rows dense has to. (TensorFlow
// has no such optimiser, nor this node.) Empty where the shape is open.
Output shape_of_rows(const Var& variable) {
  const std::optional<Shape> shape = variable.shape().as_shape();
  if (!shape) return {};
  const std::vector<std::int64_t> dims(shape->dims().begin(), shape->dims().end());
  return constant(variable.handle().graph(), Tensor::vector<std::int64_t>(dims), "dense_shape");
}

}  // namespace

SyncReplicas::SyncReplicas(Optimizer& optimizer, SyncReplicasOptions options)
    : ReplicaSync(optimizer),
      options_(std::move(options)),
      total_num_replicas_(options_.total_num_replicas == 0 ? options_.replicas_to_aggregate
                                                           : options_.total_num_replicas) {
  if (options_.replicas_to_aggregate < 1 || total_num_replicas_ < 1) {
    throw_error(invalid_argument(options_.name, ": ", options_.replicas_to_aggregate, " replicas to aggregate of ",
                                 options_.total_num_replicas, "; both must be positive"));
  }
}

AttrMap SyncReplicas::named(AttrMap attrs) const {
  if (!options_.worker.empty()) attrs[std::string(kWorkerAttr)] = options_.worker;
  return attrs;
}

// The order in which nodes are made gives them their names: it is TensorFlow's.
ReplicaSync::Nodes SyncReplicas::build(const std::vector<GradientAndVariable>& gradients, const Var& global_step) {
  Graph& graph = global_step.handle().graph();
  Nodes nodes;
  Node* anchor = no_op(graph);  // where it is placed is this worker
  const Var local_step =
      local_variable(graph, *anchor, scalar_tensor(global_step.dtype(), std::int64_t{0}), "sync_rep_local_step");
  steps_ = {local_step, global_step};
  const auto assign = [&local_step](Output value) {
    Node* assigned = add_op(value.graph(), "AssignVariableOp", {local_step.handle(), value},
                            {{"dtype", local_step.dtype()}, {"validate_shape", true}});
    ScopeGuard wait = assigned->graph().control_dependencies({assigned});
    local_step.read_again();
    return assigned;
  };
  nodes.local_step_init = assign(read_in_place(global_step));
  nodes.ready_for_local_init = report_uninitialized(graph, global_variables(graph));

  ScopeGuard scope = graph.name_scope(options_.name);
  std::vector<GradientAndVariable> aggregated;
  for (const GradientAndVariable& pair : gradients) aggregated.push_back({exchange(pair), pair.variable});
  {
    ScopeGuard there = graph.device_scope(device_of(global_step));
    ScopeGuard root = graph.name_scope("");
    Node* update = optimizer_.apply_gradients(aggregated, global_step);
    {
      ScopeGuard cpu = graph.device_scope("/device:CPU:*");
      queue_ = add_op(graph, "FIFOQueueV2", {},
                      {{"component_types", std::vector<DType>{global_step.dtype()}},
                       {"shapes", std::vector<PartialShape>{PartialShape(Shape{})}},
                       {"capacity", std::int64_t{-1}},
                       {"shared_name", std::string("sync_token_q")}},
                      "sync_token_q");
    }
    Node* token = nullptr;
    {
      ScopeGuard wait = graph.control_dependencies(sent_);
      token = add_op(graph, "QueueDequeueV2", {queue_->output()},
                     {{"component_types", std::vector<DType>{global_step.dtype()}}}, queue_->name() + "_Dequeue");
    }
    nodes.train = assign(token->output());
    nodes.sync = enqueue(std::max(total_num_replicas_, options_.replicas_to_aggregate), {update});
    if (options_.variable_averages) {
      ScopeGuard wait = graph.control_dependencies({nodes.sync});
      nodes.sync = options_.variable_averages();
    }
    const auto close = [&](bool cancel_pending) {
      return add_op(graph, "QueueCloseV2", {queue_->output()}, {{"cancel_pending_enqueues", cancel_pending}},
                    queue_->name() + "_Close");
    };
    nodes.close = close(false);
    nodes.cancel = close(true);
  }
  std::vector<Node*> chief_init{nodes.local_step_init};
  for (const Accumulator& accumulator : accumulators_) chief_init.push_back(set_global_step(accumulator));
  nodes.chief_init = group_by_device(graph, chief_init);
  return nodes;
}

// Sends this worker's gradient and gives what is taken for it in exchange.
Gradient SyncReplicas::exchange(const GradientAndVariable& pair) {
  if (!pair.gradient) return {};
  ScopeGuard there = pair.variable.handle().graph().device_scope(device_of(pair.variable));
  return pair.gradient.is_sparse() ? exchange_rows(pair.gradient.slices(), pair.variable)
                                   : exchange_dense(pair.gradient.dense(), pair.variable);
}

Gradient SyncReplicas::exchange_dense(Output gradient, const Var& variable) {
  Graph& graph = gradient.graph();
  Node* accumulator = add_op(
      graph, "ResourceConditionalAccumulator", {},
      {{"dtype", gradient.dtype()}, {"shape", variable.shape()}, {"shared_name", variable.name() + ":0/grad_accum"}},
      "conditional_accumulator");
  accumulators_.push_back({accumulator, device_of(variable), false});
  sent_.push_back(add_op(graph, "ResourceAccumulatorApplyGradient",
                         {accumulator->output(), read_step(steps_[0]), gradient}, named({})));
  Output required =
      constant(graph, options_.replicas_to_aggregate, DType::kInt32, "ResourceAccumulatorTakeGradient/num_required");
  return op1("ResourceAccumulatorTakeGradient", {accumulator->output(), required}, {{"dtype", gradient.dtype()}});
}

Gradient SyncReplicas::exchange_rows(const IndexedSlices& slices, const Var& variable) {
  Graph& graph = slices.values.graph();
  const DType dtype = slices.values.dtype();
  Node* accumulator =
      add_op(graph, "SparseConditionalAccumulator", {},
             {{"dtype", dtype}, {"shape", PartialShape(Shape{})}, {"shared_name", variable.name() + ":0/grad_accum"}},
             "sparse_conditional_accumulator");
  accumulators_.push_back({accumulator, device_of(variable), true});
  Output step = read_step(steps_[0]);
  Output indices = as_int64(slices.indices);
  Output shape =
      slices.dense_shape ? as_int64(slices.dense_shape) : constant(graph, Tensor(DType::kInt64, Shape{0}), "no_shape");
  // The handle is a reference, which binds to it what uses it.
  {
    ScopeGuard beside = graph.colocate_with(*accumulator);
    sent_.push_back(add_op(graph, "SparseAccumulatorApplyGradient",
                           {accumulator->output(), step, indices, slices.values, shape},
                           named({{"has_known_shape", static_cast<bool>(slices.dense_shape)}})));
  }
  Output required =
      constant(graph, options_.replicas_to_aggregate, DType::kInt32, "SparseAccumulatorTakeGradient/num_required");
  Output whole = shape_of_rows(variable);
  ScopeGuard beside = graph.colocate_with(*accumulator);
  Node* taken = add_op(graph, "SparseAccumulatorTakeGradient", {accumulator->output(), required}, {{"dtype", dtype}});
  return IndexedSlices{taken->output(1), taken->output(0), whole ? whole : taken->output(2)};
}

Node* SyncReplicas::set_global_step(const Accumulator& accumulator) {
  Graph& graph = accumulator.node->graph();
  ScopeGuard there = graph.device_scope(accumulator.device);
  Output step = read_step(steps_[1]);
  if (!accumulator.sparse) {
    return add_op(graph, "ResourceAccumulatorSetGlobalStep", {accumulator.node->output(), step}, {}, "SetGlobalStep");
  }
  ScopeGuard beside = graph.colocate_with(*accumulator.node);
  return add_op(graph, "AccumulatorSetGlobalStep", {accumulator.node->output(), step}, {}, "SetGlobalStep");
}

Node* SyncReplicas::enqueue(int count, const std::vector<Node*>& after) {
  Output tokens = fill_with_step(steps_[1], count, after);
  return add_op(tokens.graph(), "QueueEnqueueManyV2", {queue_->output(), tokens}, {}, queue_->name() + "_EnqueueMany");
}

Node* SyncReplicas::init_tokens(int num_tokens) {
  built();
  const int needed = options_.replicas_to_aggregate - total_num_replicas_;
  if (num_tokens == -1) {
    num_tokens = options_.replicas_to_aggregate;
  } else if (num_tokens < needed) {
    throw_error(
        invalid_argument("Too few tokens to finish the first step: ", num_tokens, " (given) vs ", needed, " (needed)"));
  }
  Graph& graph = queue_->graph();
  if (num_tokens <= 0) return no_op(graph, "no_init_tokens");
  ScopeGuard there = graph.device_scope(device_of(steps_[1]));
  ScopeGuard root = graph.name_scope("");
  return enqueue(num_tokens, {});
}

const Var& SyncReplicas::local_step() const {
  built();
  return steps_[0];
}

Output SyncReplicas::token_queue() const {
  built();
  return queue_->output();
}

}  // namespace tutti
