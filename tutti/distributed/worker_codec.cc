// Fields of WorkerService's messages. See codec.h.
#include "tutti/distributed/codec.h"
#include "tutti/distributed/internal/fields.h"
#include "tutti/distributed/internal/message_parts.h"

namespace tutti {
namespace {

template <typename F>
void fields(F& f, Is<GetStatusReply> auto& m) {
  device_fields(f, 1, "device_attributes", m.devices);
}

// ServerDef
template <typename F, typename Message>
void server_def_fields(F& f, Message& m) {
  f.converted(1, "cluster", m.cluster);
  f.field(2, "job_name", m.job);
  f.field(3, "task_index", m.task);
  std::string protocol = "grpc";
  f.field(5, "protocol", protocol);
}

template <typename F>
void fields(F& f, Is<CreateWorkerSessionRequest> auto& m) {
  f.field(1, "session_handle", m.session_handle);
  f.message(2, "server_def", "ServerDef", [&m](auto& inner) { server_def_fields(inner, m); });
  f.field(3, "isolate_session_state", m.isolate_session_state);
  device_fields(f, 4, "cluster_device_attributes", m.cluster_devices);
  f.field(5, "master_task", m.master_task);
  f.field(6, "master_incarnation", m.master_incarnation);
}

template <typename F>
void fields(F& f, Is<DeleteWorkerSessionRequest> auto& m) {
  f.field(1, "session_handle", m.session_handle);
}

// Masters say in two places whether to optimise.
template <typename F>
void fields(F& f, Is<RegisterGraphRequest> auto& m) {
  const auto graph_options = [&m](auto& inner) { graph_options_fields(inner, m.optimize); };
  f.field(1, "session_handle", m.session_handle);
  f.field(2, "graph_def", m.graph_def);
  f.message(4, "graph_options", "GraphOptions", graph_options);
  f.field(6, "create_worker_session_called", m.create_worker_session_called);
  f.message(8, "config_proto", "ConfigProto", [&](auto& inner) {
    inner.field(7, "allow_soft_placement", m.allow_soft_placement);
    inner.message(10, "graph_options", "GraphOptions", graph_options);
  });
}

// Fields from 1000 on are Tutti's own: TensorFlow's readers skip them.
template <typename F>
void fields(F& f, Is<RegisterGraphReply> auto& m) {
  f.field(1, "graph_handle", m.graph_handle);
  f.field(1000, "takes_ended_steps", m.takes_ended_steps);
}

template <typename F>
void fields(F& f, Is<DeregisterGraphRequest> auto& m) {
  f.field(1, "graph_handle", m.graph_handle);
  f.field(2, "session_handle", m.session_handle);
  f.field(3, "create_worker_session_called", m.create_worker_session_called);
}

template <typename F>
void fields(F& f, Is<RunGraphRequest> auto& m) {
  f.field(1, "graph_handle", m.graph_handle);
  f.field(2, "step_id", m.step_id);
  tensor_fields(f, 3, "send", m.sends);
  f.field(4, "recv_key", m.recv_keys);
  f.message(5, "exec_opts", "ExecutorOpts", [&m](auto& inner) {
    inner.field(3, "record_timeline", m.trace);
    inner.field(4, "record_partition_graphs", m.partition_graphs);
  });
  f.field(6, "is_partial", m.is_partial);
  f.field(7, "is_last_partial_run", m.is_last_partial_run);
  f.field(8, "session_handle", m.session_handle);
  f.field(9, "store_errors_in_response_body", m.store_errors_in_response_body);
  f.field(10, "create_worker_session_called", m.create_worker_session_called);
  f.field(11, "request_id", m.request_id);
  f.field(1000, "ended_steps", m.ended_steps);
}

template <typename F>
void fields(F& f, Is<RunGraphReply> auto& m) {
  tensor_fields(f, 1, "recv", m.recvs);
  f.converted(2, "step_stats", m.report.step_stats);
  f.field(4, "partition_graph", m.report.partition_graphs);
  f.status(5, 6, m.status);
}

template <typename F>
void fields(F& f, Is<CleanupGraphRequest> auto& m) {
  f.field(1, "step_id", m.step_id);
}

template <typename F>
void fields(F& f, Is<CleanupAllRequest> auto& m) {
  f.field(1, "container", m.containers);
}

template <typename F>
void fields(F& f, Is<RecvTensorRequest> auto& m) {
  f.field(1, "step_id", m.step_id);
  f.field(2, "rendezvous_key", m.rendezvous_key);
  f.field(7, "request_id", m.request_id);
}

template <typename F>
void fields(F& f, Is<RecvTensorReply> auto& m) {
  f.tensor(1, "tensor", m.tensor);
  f.field(2, "is_dead", m.is_dead);
  f.field(3, "send_start_micros", m.send_start_micros);
}

template <typename F>
void fields(F& f, Is<RecvTensorsRequest> auto& m) {
  f.field(1, "step_id", m.step_id);
  f.field(2, "request_id", m.request_id);
  f.field(3, "rendezvous_key", m.rendezvous_keys);
  f.field(4, "continues", m.continues);
  f.field(5, "unhurried", m.unhurried);
}

template <typename F>
void fields(F& f, Is<RecvTensorsReply> auto& m) {
  f.repeated(1, "value", "ReceivedTensor", m.values, [](auto& inner, auto& value) {
    inner.field(1, "index", value.index);
    inner.tensor(2, "tensor", value.tensor);
  });
}

template <typename F>
void fields(F&, Is<EmptyMessage> auto&) {}

}  // namespace

TUTTI_DEFINE_CODEC(GetStatusReply)
TUTTI_DEFINE_CODEC(CreateWorkerSessionRequest)
TUTTI_DEFINE_CODEC(DeleteWorkerSessionRequest)
TUTTI_DEFINE_CODEC(RegisterGraphRequest)
TUTTI_DEFINE_CODEC(RegisterGraphReply)
TUTTI_DEFINE_CODEC(DeregisterGraphRequest)
TUTTI_DEFINE_CODEC(RunGraphRequest)
TUTTI_DEFINE_CODEC(RunGraphReply)
TUTTI_DEFINE_CODEC(CleanupGraphRequest)
TUTTI_DEFINE_CODEC(CleanupAllRequest)
TUTTI_DEFINE_CODEC(RecvTensorRequest)
TUTTI_DEFINE_CODEC(RecvTensorsRequest)
TUTTI_DEFINE_CODEC(RecvTensorsReply)
TUTTI_DEFINE_CODEC(EmptyMessage)

// The value of a dead branch means nothing, but readers expect a tensor.
Result<Payload> encode(const RecvTensorReply& message) {
  if (message.tensor.has_value()) return encode_fields([&message](auto& f) { fields(f, message); });
  if (!message.is_dead) return invalid_argument("RecvTensorReply: a live value without a tensor");
  const RecvTensorReply dead{Tensor(DType::kFloat, Shape{0}), true, message.send_start_micros};
  return encode_fields([&dead](auto& f) { fields(f, dead); });
}

Status decode(const Payload& bytes, RecvTensorReply& message) {
  message = {};
  TUTTI_RETURN_IF_ERROR(decode_fields(bytes, "RecvTensorReply", [&message](auto& f) { fields(f, message); }));
  if (message.tensor.has_value() || message.is_dead) return {};
  return invalid_argument("RecvTensorReply: a live value without a tensor");
}

}  // namespace tutti
