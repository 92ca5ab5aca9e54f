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
// Of one look, or one post: the session may be broken.
constexpr std::chrono::seconds kLookTimeout{10};
constexpr const char* kName = "chief_notice";

RunOptions brief() {
  RunOptions options;
  options.timeout = kLookTimeout;
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

std::optional<std::string> ChiefNotice::read(Session& session) const {
  const Result<std::vector<Tensor>> read = session.try_run({}, {read_}, {}, brief());
  if (!read.ok()) return {};
  return (*read)[0].scalar<std::string>();
}

void ChiefNotice::write(Session& session, const std::string& text) const {
  static_cast<void>(session.try_run({{text_, Tensor::scalar(text)}}, {}, {write_}, brief()));
}

void ChiefNotice::prepare(Session& session) const {
  if (!read(session)) write(session, "");
}

// The time tells two notices with the same words apart.
void ChiefNotice::post(Session& session, const Clock& clock, const std::string& chief, const Status& error) const {
  write(session, str_cat(clock.wall_micros(), " the chief", chief.empty() ? "" : str_cat(" (", chief, ")"),
                         " ended with an error: ", error.to_string()));
}

void ChiefNotice::watch(Session& session, Coordinator& coordinator) const {
  coordinator.start_thread("ChiefNotice", [notice = *this, known = read(session).value_or(""), &session, &coordinator] {
    while (!coordinator.wait_for_stop(kBetweenLooks)) {
      const std::string text = notice.read(session).value_or("");
      if (text.empty() || text == known) continue;
      coordinator.request_stop(cancelled("synchronous replicas: ", text.substr(text.find(' ') + 1)));
      static_cast<void>(session.close());
    }
  });
}

}  // namespace tutti::internal
