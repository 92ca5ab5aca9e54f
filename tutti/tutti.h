// The public interface: what a program that builds, differentiates and runs graphs needs.
//
//   Graph graph(builtin_ops());           build with the functions of ops/*.h
//   Node* train = Adam(1e-3).minimize(loss);          optim/*.h
//   LocalSession session(graph);                      runtime/local_session.h
//   session.run({{x, images}}, {loss}, {train});      runtime/session.h
//   connect("grpc://host:port", graph)                distributed/server.h: the same session on a cluster
//
// examples/ has whole programs. What fails throws tutti::Error.
#pragma once

// Values.
#include "tutti/core/cancellation.h"
#include "tutti/core/dtype.h"
#include "tutti/core/file_system.h"
#include "tutti/core/shape.h"
#include "tutti/core/status.h"
#include "tutti/core/tensor.h"

// Graphs.
#include "tutti/graph/gradients.h"
#include "tutti/graph/graph.h"
#include "tutti/graph/graph_def.h"
#include "tutti/graph/shape_inference.h"

// Ops: functions that add nodes; the table and what kernels see, to register ops of one's own.
#include "tutti/kernels/kernel.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/control_flow.h"
#include "tutti/ops/embedding.h"
#include "tutti/ops/image.h"
#include "tutti/ops/layout.h"
#include "tutti/ops/linalg.h"
#include "tutti/ops/math.h"
#include "tutti/ops/nn.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/parsing.h"
#include "tutti/ops/partitioned_variable.h"
#include "tutti/ops/random.h"
#include "tutti/ops/segments.h"
#include "tutti/ops/sparse.h"
#include "tutti/ops/state.h"

// Optimisers, schedules, and what is done to gradients in between.
#include "tutti/optim/adadelta.h"
#include "tutti/optim/adagrad.h"
#include "tutti/optim/adagrad_da.h"
#include "tutti/optim/adam.h"
#include "tutti/optim/adamax.h"
#include "tutti/optim/adamw.h"
#include "tutti/optim/amsgrad.h"
#include "tutti/optim/clipping.h"
#include "tutti/optim/delay_compensation.h"
#include "tutti/optim/ftrl.h"
#include "tutti/optim/gradient_noise.h"
#include "tutti/optim/lamb.h"
#include "tutti/optim/lars.h"
#include "tutti/optim/momentum.h"
#include "tutti/optim/moving_averages.h"
#include "tutti/optim/nadam.h"
#include "tutti/optim/proximal_adagrad.h"
#include "tutti/optim/proximal_gradient_descent.h"
#include "tutti/optim/rmsprop.h"
#include "tutti/optim/schedules.h"
#include "tutti/optim/sgd.h"
#include "tutti/optim/strict_replicas.h"
#include "tutti/optim/sync_replicas.h"

// Running.
#include "tutti/runtime/local_session.h"
#include "tutti/runtime/session.h"

// Clusters.
#include "tutti/distributed/cluster_spec.h"
#include "tutti/distributed/explain.h"
#include "tutti/distributed/in_process_cluster.h"
#include "tutti/distributed/rpc/certificates.h"
#include "tutti/distributed/server.h"
#include "tutti/distributed/task_environment.h"
#include "tutti/strategies/greedy_load_balancing.h"
#include "tutti/strategies/replica_device_setter.h"

// Event files, for TensorBoard.
#include "tutti/io/event_writer.h"
#include "tutti/io/hparams.h"
#include "tutti/io/summary.h"

// Training jobs.
#include "tutti/train/checkpoint_manager.h"
#include "tutti/train/checkpoint_reader.h"
#include "tutti/train/coordinator.h"
#include "tutti/train/global_step.h"
#include "tutti/train/gradient_ledger.h"
#include "tutti/train/hooks.h"
#include "tutti/train/hooks/checkpoint_saver_hook.h"
#include "tutti/train/hooks/feed_fn_hook.h"
#include "tutti/train/hooks/final_ops_hook.h"
#include "tutti/train/hooks/global_step_waiter_hook.h"
#include "tutti/train/hooks/gradient_ledger_hook.h"
#include "tutti/train/hooks/logging_tensor_hook.h"
#include "tutti/train/hooks/nan_tensor_hook.h"
#include "tutti/train/hooks/profiler_hook.h"
#include "tutti/train/hooks/step_counter_hook.h"
#include "tutti/train/hooks/stop_at_step_hook.h"
#include "tutti/train/hooks/summary_saver_hook.h"
#include "tutti/train/init_from_checkpoint.h"
#include "tutti/train/monitored_training_session.h"
#include "tutti/train/ps_worker.h"
#include "tutti/train/queue_runner.h"
#include "tutti/train/run_config.h"
#include "tutti/train/saver.h"
#include "tutti/train/scaffold.h"
#include "tutti/train/sync_replicas_hook.h"
#include "tutti/train/tf_cluster.h"

// Data.
#include "tutti/data/digits.h"
#include "tutti/data/idx.h"
