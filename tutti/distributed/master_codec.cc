// Fields of MasterService's messages. See codec.h.
#include "tutti/distributed/codec.h"
#include "tutti/distributed/internal/fields.h"
#include "tutti/distributed/internal/message_parts.h"

namespace tutti {
namespace {

// A pool of threads for the session: that it is there is all that matters.
template <typename F, typename Bool>
void thread_pool_fields(F& f, Bool& per_session_threads) {
  std::vector<EmptyMessage> pools;
  f.repeated(12, "session_inter_op_thread_pool", "ThreadPoolOptionProto", pools, [](auto&, auto&) {});
  if constexpr (!std::is_const_v<Bool>) per_session_threads = per_session_threads || !pools.empty();
}

// ConfigProto
template <typename F>
void fields(F& f, Is<SessionConfig> auto& config) {
  f.field(4, "device_filters", config.device_filters);
  f.field(7, "allow_soft_placement", config.allow_soft_placement);
  f.field(8, "log_device_placement", config.log_device_placement);
  f.field(9, "use_per_session_threads", config.per_session_threads);
  f.message(10, "graph_options", "GraphOptions",
            [&config](auto& inner) { graph_options_fields(inner, config.optimize); });
  f.field(11, "operation_timeout_in_ms", config.operation_timeout);
  thread_pool_fields(f, config.per_session_threads);
  f.converted(14, "cluster_def", config.cluster);
  f.field(15, "isolate_session_state", config.isolate_session_state);
}

template <typename F>
void fields(F& f, Is<CreateSessionRequest> auto& m) {
  f.field(1, "graph_def", m.graph_def);
  f.message(2, "config", "ConfigProto", [&m](auto& inner) { fields(inner, m.config); });
  f.field(3, "target", m.target);
  f.field(1000, "fail_fast", m.fail_fast);
}

template <typename F>
void fields(F& f, Is<CreateSessionReply> auto& m) {
  f.field(1, "session_handle", m.session_handle);
  f.field(2, "graph_version", m.graph_version);
}

template <typename F>
void fields(F& f, Is<ExtendSessionRequest> auto& m) {
  f.field(1, "session_handle", m.session_handle);
  f.field(2, "graph_def", m.graph_def);
  f.field(3, "current_graph_version", m.current_graph_version);
}

template <typename F>
void fields(F& f, Is<ExtendSessionReply> auto& m) {
  f.field(4, "new_graph_version", m.new_graph_version);
}

template <typename F>
void fields(F& f, Is<RunStepRequest> auto& m) {
  f.field(1, "session_handle", m.session_handle);
  tensor_fields(f, 2, "feed", m.feeds);
  f.field(3, "fetch", m.fetches);
  f.field(4, "target", m.targets);
  f.message(5, "options", "RunOptions", [&m](auto& inner) { fields(inner, m.options); });
  f.field(6, "partial_run_handle", m.partial_run_handle);
  f.field(7, "store_errors_in_response_body", m.store_errors_in_response_body);
  f.field(8, "request_id", m.request_id);
}

template <typename F>
void fields(F& f, Is<RunStepReply> auto& m) {
  tensor_fields(f, 1, "tensor", m.tensors);
  f.message(2, "metadata", "RunMetadata", [&m](auto& inner) { fields(inner, m.report); });
  f.status(3, 4, m.status);
}

template <typename F>
void fields(F& f, Is<PartialRunSetupRequest> auto& m) {
  f.field(1, "session_handle", m.session_handle);
  f.field(2, "feed", m.signature.feeds);
  f.field(3, "fetch", m.signature.fetches);
  f.field(4, "target", m.signature.targets);
  f.field(5, "request_id", m.request_id);
}

template <typename F>
void fields(F& f, Is<PartialRunSetupReply> auto& m) {
  f.field(1, "partial_run_handle", m.partial_run_handle);
}

template <typename F>
void fields(F& f, Is<CloseSessionRequest> auto& m) {
  f.field(1, "session_handle", m.session_handle);
}

template <typename F>
void fields(F& f, Is<ListDevicesRequest> auto& m) {
  f.field(1, "session_handle", m.session_handle);
}

template <typename F>
void fields(F& f, Is<ListDevicesReply> auto& m) {
  device_fields(f, 1, "local_device", m.local);
  device_fields(f, 2, "remote_device", m.remote);
}

template <typename F>
void fields(F& f, Is<ResetRequest> auto& m) {
  f.field(1, "container", m.containers);
  f.field(2, "device_filters", m.device_filters);
}

// CallableOptions. Where feeds and fetches lie makes no difference here: everything is in host memory.
template <typename F, typename Message>
void callable_fields(F& f, Message& m) {
  f.field(1, "feed", m.signature.feeds);
  f.field(2, "fetch", m.signature.fetches);
  f.field(3, "target", m.signature.targets);
  f.message(4, "run_options", "RunOptions", [&m](auto& inner) { fields(inner, m.options); });
  f.repeated(5, "tensor_connection", "TensorConnection", m.signature.connections, [](auto& inner, auto& connection) {
    inner.field(1, "from_tensor", connection.from);
    inner.field(2, "to_tensor", connection.to);
  });
}

template <typename F>
void fields(F& f, Is<MakeCallableRequest> auto& m) {
  f.field(1, "session_handle", m.session_handle);
  f.message(2, "options", "CallableOptions", [&m](auto& inner) { callable_fields(inner, m); });
  f.field(3, "request_id", m.request_id);
}

template <typename F>
void fields(F& f, Is<MakeCallableReply> auto& m) {
  f.field(1, "handle", m.handle);
}

template <typename F>
void fields(F& f, Is<RunCallableRequest> auto& m) {
  f.field(1, "session_handle", m.session_handle);
  f.field(2, "handle", m.handle);
  f.tensors(3, "feed", m.feeds);
  f.field(4, "request_id", m.request_id);
}

template <typename F>
void fields(F& f, Is<RunCallableReply> auto& m) {
  f.tensors(1, "fetch", m.fetches);
  f.message(2, "metadata", "RunMetadata", [&m](auto& inner) { fields(inner, m.report); });
}

template <typename F>
void fields(F& f, Is<ReleaseCallableRequest> auto& m) {
  f.field(1, "session_handle", m.session_handle);
  f.field(2, "handle", m.handle);
}

}  // namespace

TUTTI_DEFINE_CODEC(CreateSessionRequest)
TUTTI_DEFINE_CODEC(CreateSessionReply)
TUTTI_DEFINE_CODEC(ExtendSessionRequest)
TUTTI_DEFINE_CODEC(ExtendSessionReply)
TUTTI_DEFINE_CODEC(RunStepRequest)
TUTTI_DEFINE_CODEC(RunStepReply)
TUTTI_DEFINE_CODEC(PartialRunSetupRequest)
TUTTI_DEFINE_CODEC(PartialRunSetupReply)
TUTTI_DEFINE_CODEC(CloseSessionRequest)
TUTTI_DEFINE_CODEC(ListDevicesRequest)
TUTTI_DEFINE_CODEC(ListDevicesReply)
TUTTI_DEFINE_CODEC(ResetRequest)
TUTTI_DEFINE_CODEC(MakeCallableRequest)
TUTTI_DEFINE_CODEC(MakeCallableReply)
TUTTI_DEFINE_CODEC(RunCallableRequest)
TUTTI_DEFINE_CODEC(RunCallableReply)
TUTTI_DEFINE_CODEC(ReleaseCallableRequest)

}  // namespace tutti
