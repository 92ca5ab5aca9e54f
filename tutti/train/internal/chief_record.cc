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
constexpr std::chrono::seconds kRecordTimeout{10};
constexpr const char* kRecordName = "chief_record";
constexpr const char* kTextName = "chief_record/text";
constexpr const char* kWriteName = "chief_record/write";
constexpr const char* kReadName = "chief_record/read";

constexpr std::string_view kVersion = "tutti chief 1";
using Phase = ChiefState::Phase;
constexpr std::array<std::pair<Phase, std::string_view>, 4> kPhases = {{{Phase::kPreparing, "preparing"},
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
                 state.beat, "\n", phase_name(state.phase), "\n", state.step, "\n", state.error);
}

std::optional<ChiefState> decode_chief_state(std::string_view text) {
  constexpr std::size_t kFields = 7;
  std::vector<std::string_view> fields;
  while (fields.size() < kFields) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return std::nullopt;
    fields.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  ChiefState state{.id = std::string(fields[1]), .name = std::string(fields[2]), .process = std::string(fields[3])};
  const std::optional<Phase> phase = parse_phase(fields[5]);
  const bool read =
      fields[0] == kVersion && phase && parse_int64(fields[4], &state.beat) && parse_int64(fields[6], &state.step);
  if (!read) return std::nullopt;
  state.phase = *phase;
  state.error = std::string(text);
  return state;
}

ChiefRecord::ChiefRecord(Graph& graph) : text_(kTextName), write_(kWriteName), read_(kReadName) {
  if (graph.find(kRecordName) != nullptr) return;
  const std::optional<Var> step = get_global_step(graph);
  if (!step) throw_error(failed_precondition("the record of the chief: the graph has no global step"));
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
}

Result<std::optional<ChiefState>> ChiefRecord::read(Session& session, const RunOptions& options) const {
  const Result<std::vector<Tensor>> read = session.try_run({}, {read_}, {}, options);
  if (read.ok()) return decode_chief_state((*read)[0].scalar<std::string>());
  const Status& error = read.status();
  const bool nothing_yet =
      error.code() == Code::kFailedPrecondition && error.message().find("uninitialized") != std::string::npos;
  if (nothing_yet) return std::optional<ChiefState>();
  return error;
}

Status ChiefRecord::write(Session& session, const ChiefState& state, const RunOptions& options) const {
  return session.try_run({{text_, Tensor::scalar(encode(state))}}, {}, {write_}, options).status();
}

}  // namespace tutti::internal
