#include "tutti/train/internal/chief_notice.h"

#include <chrono>

#include "tutti/core/strings.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/train/coordinator.h"
#include "tutti/train/global_step.h"

namespace tutti::internal {
namespace {

// Seldom enough to cost nothing beside training, often enough to be heard soon.
constexpr std::chrono::seconds kBetweenLooks{1};
// Of one look: the next one comes soon.
constexpr std::chrono::seconds kLookTimeout{10};
// Of a post, which is not repeated: the session may be broken.
constexpr std::chrono::seconds kPostTimeout{60};
// What a job that is started again gets until its chief is there, which may restore a large model first.
constexpr std::chrono::seconds kComeBack{300};
constexpr const char* kName = "chief_notice";

RunOptions within(std::chrono::seconds timeout) {
  RunOptions options;
  options.timeout = timeout;
  return options;
}

}  // namespace

void ChiefNotice::build(Graph& graph) {
  const std::optional<Var> step = get_global_step(graph);
  if (!step) throw_error(failed_precondition("synchronous replicas: the graph has no global step"));
  const ScopeGuard root = graph.name_scope("");
  const ScopeGuard without_others = graph.device_scope("");
  const ScopeGuard there = graph.device_scope(step->handle().node->requested_device());
  const ScopeGuard beside = graph.colocate_with(*step->handle().node);
  const AttrMap dtype{{"dtype", DType::kString}};
  const AttrMap scalar{{"dtype", DType::kString}, {"shape", PartialShape::scalar()}};
  AttrMap shared = scalar;
  shared["shared_name"] = std::string(kName);
  const Output handle = add_op(graph, "VarHandleOp", {}, shared, kName)->output();
  const Output text = add_op(graph, "Placeholder", {}, scalar, str_cat(kName, "/text"))->output();
  text_ = text.name();
  write_ = add_op(graph, "AssignVariableOp", {handle, text}, dtype, str_cat(kName, "/Assign"))->name();
  read_ = op1("ReadVariableOp", {handle}, dtype, str_cat(kName, "/Read")).name();
}

Result<std::string> ChiefNotice::read(Session& session, const RunOptions& options) const {
  const Result<std::vector<Tensor>> read = session.try_run({}, {read_}, {}, options);
  if (read.ok()) return (*read)[0].scalar<std::string>();
  const Status& error = read.status();
  const bool nothing_yet =
      error.code() == Code::kFailedPrecondition && error.message().find("uninitialized") != std::string::npos;
  if (nothing_yet) return std::string();
  return error;
}

Status ChiefNotice::write(Session& session, const std::string& text, const RunOptions& options) const {
  return session.try_run({{text_, Tensor::scalar(text)}}, {}, {write_}, options).status();
}

// That the write has run once also makes a later post short: its nodes are where they belong.
void ChiefNotice::prepare(Session& session, const RunOptions& options) const {
  throw_if_error(write(session, "", options).with_context("synchronous replicas"));
}

// The time tells two notices with the same words apart.
void ChiefNotice::post(Session& session, const Clock& clock, const std::string& chief, const Status& error) const {
  const std::string text = str_cat(clock.wall_micros(), " the chief", chief.empty() ? "" : str_cat(" (", chief, ")"),
                                   " ended with an error: ", error.to_string());
  static_cast<void>(write(session, text, within(kPostTimeout)));
}

void ChiefNotice::watch(Session& session, Coordinator& coordinator, const RunOptions& options) const {
  Result<std::string> found = read(session, options);
  if (!found.ok()) throw_error(found.status().with_context("synchronous replicas"));
  coordinator.start_thread("ChiefNotice", [notice = *this, found = *std::move(found), &session, &coordinator] {
    bool old = !found.empty();
    const TimePoint patience_ends = coordinator.clock().now() + kComeBack;
    while (!coordinator.wait_for_stop(kBetweenLooks)) {
      const Result<std::string> text = notice.read(session, within(kLookTimeout));
      if (!text.ok()) continue;  // the worker's own steps meet with that
      old = old && *text == found;
      if (text->empty() || (old && coordinator.clock().now() < patience_ends)) continue;
      const std::string absent = old ? str_cat("; for ", kComeBack.count(), " s there has been no other") : "";
      coordinator.request_stop(cancelled("synchronous replicas: ", text->substr(text->find(' ') + 1), absent));
      static_cast<void>(session.close());
    }
  });
}

}  // namespace tutti::internal
