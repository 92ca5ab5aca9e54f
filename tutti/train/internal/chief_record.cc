#include "tutti/train/internal/chief_record.h"

#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "tutti/core/strings.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/train/global_step.h"

namespace tutti::internal {
namespace {

// The next look comes soon.
constexpr std::chrono::seconds kRecordTimeout{3};
constexpr const char* kRecordName = "chief_record";
constexpr const char* kTextName = "chief_record/text";
constexpr const char* kWriteName = "chief_record/write";
constexpr const char* kReadName = "chief_record/read";
constexpr const char* kReadFirstName = "chief_record/read_first";
constexpr const char* kWriteAfterName = "chief_record/write_after";

constexpr std::string_view kVersion = "tutti chief 1";
using Phase = ChiefState::Phase;
constexpr std::array<std::pair<Phase, std::string_view>, 6> kPhases = {{{Phase::kPreparing, "preparing"},
                                                                        {Phase::kReplacing, "replacing"},
                                                                        {Phase::kStopped, "stopped"},
                                                                        {Phase::kTraining, "training"},
                                                                        {Phase::kFailed, "failed"},
                                                                        {Phase::kEnded, "ended"}}};

std::string_view phase_name(Phase phase) {
  for (const auto& [value, name] : kPhases) {
    if (value == phase) return name;
  }
  return "";
}

std::optional<Phase> parse_phase(std::string_view text) {
  for (const auto& [value, name] : kPhases) {
    if (name == text) return value;
  }
  return std::nullopt;
}

}  // namespace

RunOptions chief_record_options() {
  RunOptions options;
  options.timeout = kRecordTimeout;
  return options;
}

// One line a field; the error, which may have several lines, comes last.
std::string encode(const ChiefState& state) {
  return str_cat(kVersion, "\n", printable(state.id), "\n", printable(state.name), "\n", printable(state.process), "\n",
                 printable(state.model), "\n", state.beat, "\n", phase_name(state.phase), "\n", state.step, "\n",
                 state.error);
}

std::optional<ChiefState> decode_chief_state(std::string_view text) {
  constexpr std::size_t kFields = 8;
  std::vector<std::string_view> fields;
  while (fields.size() < kFields) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return std::nullopt;
    fields.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  ChiefState state{.id = std::string(fields[1]),
                   .name = std::string(fields[2]),
                   .process = std::string(fields[3]),
                   .model = std::string(fields[4])};
  const std::optional<Phase> phase = parse_phase(fields[6]);
  const bool read =
      fields[0] == kVersion && phase && parse_int64(fields[5], &state.beat) && parse_int64(fields[7], &state.step);
  if (!read) return std::nullopt;
  state.phase = *phase;
  state.error = std::string(text);
  return state;
}

ChiefRecord::ChiefRecord(Graph& graph) {
  const std::optional<Var> step = get_global_step(graph);
  if (!step) throw_error(failed_precondition("the record of the chief: the graph has no global step"));
  step_ = step->read().name();
  if (graph.find(kRecordName) != nullptr) return;
  const ScopeGuard root = graph.name_scope("");
  const ScopeGuard without_others = graph.device_scope("");
  const ScopeGuard there = graph.device_scope(step->handle().node->requested_device());
  const ScopeGuard beside = graph.colocate_with(*step->handle().node);
  const AttrMap dtype{{"dtype", DType::kString}};
  const AttrMap scalar{{"dtype", DType::kString}, {"shape", PartialShape::scalar()}};
  AttrMap shared = scalar;
  shared["shared_name"] = std::string(kRecordName);
  const Output handle = add_op(graph, "VarHandleOp", {}, shared, kRecordName)->output();
  const Output text = add_op(graph, "Placeholder", {}, scalar, kTextName)->output();
  add_op(graph, "AssignVariableOp", {handle, text}, dtype, kWriteName);
  add_op(graph, "ReadVariableOp", {handle}, dtype, kReadName);
  Node* const first = add_op(graph, "ReadVariableOp", {handle}, dtype, kReadFirstName);
  const ScopeGuard after = graph.control_dependencies({first});
  add_op(graph, "AssignVariableOp", {handle, text}, dtype, kWriteAfterName);
}

Result<std::optional<ChiefState>> ChiefRecord::read(Session& session, const RunOptions& options) const {
  const Result<std::vector<Tensor>> read = session.try_run({}, {TensorName(kReadName)}, {}, options);
  if (read.ok()) return decode_chief_state((*read)[0].scalar<std::string>());
  const Status& error = read.status();
  const bool nothing_yet =
      error.code() == Code::kFailedPrecondition && error.message().find("uninitialized") != std::string::npos;
  if (nothing_yet) return std::optional<ChiefState>();
  return error;
}

Status ChiefRecord::write(Session& session, const ChiefState& state, const RunOptions& options) const {
  const Feeds feeds = {{TensorName(kTextName), Tensor::scalar(encode(state))}};
  return session.try_run(feeds, {}, {NodeName(kWriteName)}, options).status();
}

Result<std::optional<ChiefState>> ChiefRecord::exchange(Session& session, const ChiefState& state, std::int64_t* step,
                                                        const RunOptions& options) const {
  const Feeds feeds = {{TensorName(kTextName), Tensor::scalar(encode(state))}};
  const Result<std::vector<Tensor>> run =
      session.try_run(feeds, {TensorName(kReadFirstName), TensorName(step_)}, {NodeName(kWriteAfterName)}, options);
  if (!run.ok()) return run.status();
  *step = step_value((*run)[1]);
  return decode_chief_state((*run)[0].scalar<std::string>());
}

}  // namespace tutti::internal
