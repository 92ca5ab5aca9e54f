#include "tutti/runtime/internal/frame_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace tutti::internal {
namespace {

// Loops inside one another. Real graphs have a handful; each level costs a run a frame, and a graph that has this
// many was made to hurt.
constexpr int kMaxLoopDepth = 1000;

FrameRole role_of(const Node& node) {
  const std::string& op = node.op_name();
  if (op == "Switch" || op == "RefSwitch") return FrameRole::kSwitch;
  if (op == "Merge" || op == "RefMerge") return FrameRole::kMerge;
  if (op == "Enter" || op == "RefEnter") return FrameRole::kEnter;
  if (op == "Exit" || op == "RefExit") return FrameRole::kExit;
  if (op == "NextIteration" || op == "RefNextIteration") return FrameRole::kNextIteration;
  return FrameRole::kPlain;
}

// Whether the node only decides where a value goes. References are left to the kernels.
bool hands_on(const Node& node, FrameRole role) {
  if (node.op_name().starts_with("Ref")) return false;
  if (role == FrameRole::kPlain) return node.op_name() == "Identity" || node.op_name() == "LoopCond";
  return true;
}

class FrameCompiler {
 public:
  explicit FrameCompiler(NodeTable table) { plan_.table = std::move(table); }

  Result<FramePlan> compile();

 private:
  Status assign_frames();
  Result<int> frame_of_inputs(std::size_t item);
  Status check_back_edges() const;
  int child_frame(int parent, const Node& enter);
  // `loop "name"`, or that it is outside of every loop.
  std::string describe_frame(int frame) const;
  void connect();

  FramePlan plan_;
  std::map<std::pair<int, std::string>, int> frame_by_name_;
};

Result<FramePlan> FrameCompiler::compile() {
  TUTTI_RETURN_IF_ERROR(assign_frames());
  TUTTI_RETURN_IF_ERROR(check_back_edges());
  connect();
  return std::move(plan_);
}

Result<int> FrameCompiler::frame_of_inputs(std::size_t i) {
  int frame = -1;
  auto visit = [&](int from) -> Status {
    if (from >= static_cast<int>(i)) return {};  // a back edge
    const FrameItem& source = plan_.items[from];
    int out = source.frame;
    if (source.role == FrameRole::kEnter) out = source.child_frame;
    if (source.role == FrameRole::kExit) out = plan_.frames[source.frame].parent;
    if (out < 0) {
      return invalid_argument(plan_.table.items[from].node->describe(), ": an Exit outside of every loop");
    }
    if (frame >= 0 && frame != out) {
      return invalid_argument(plan_.table.items[i].node->describe(), ": its inputs come from different loops, \"",
                              printable(plan_.frames[frame].name), "\" and \"", printable(plan_.frames[out].name),
                              "\"");
    }
    frame = out;
    return {};
  };
  for (const InputEdge& edge : plan_.table.inputs[i]) TUTTI_RETURN_IF_ERROR(visit(edge.from));
  for (int from : plan_.table.control_inputs[i]) TUTTI_RETURN_IF_ERROR(visit(from));
  return std::max(frame, 0);
}

std::string FrameCompiler::describe_frame(int frame) const {
  if (frame == 0) return "no loop";
  return str_cat("loop \"", printable(plan_.frames[frame].name), "\"");
}

int FrameCompiler::child_frame(int parent, const Node& enter) {
  const std::string& name = enter.attr<std::string>("frame_name");
  auto [it, is_new] = frame_by_name_.try_emplace({parent, name}, static_cast<int>(plan_.frames.size()));
  if (is_new) plan_.frames.push_back({.parent = parent, .depth = plan_.frames[parent].depth + 1, .name = name});
  FrameDef& def = plan_.frames[it->second];
  ++def.num_enters;
  const std::int64_t parallel = enter.attr<std::int64_t>("parallel_iterations");
  def.parallel_iterations = static_cast<int>(std::clamp<std::int64_t>(parallel, 1, 1 << 20));
  return it->second;
}

Status FrameCompiler::assign_frames() {
  plan_.frames.push_back({});
  plan_.items.resize(plan_.table.items.size());
  std::size_t most_inputs = 0;
  for (std::size_t i = 0; i < plan_.items.size(); ++i) {
    const Node& node = *plan_.table.items[i].node;
    FrameItem& item = plan_.items[i];
    item.role = role_of(node);
    item.hands_on = hands_on(node, item.role);
    item.ignores_dead_control = node.op().has(kIgnoresDeadControl);
    item.is_transfer = node.op().has(kTransfer);
    TUTTI_ASSIGN_OR_RETURN(item.frame, frame_of_inputs(i));
    if (item.role == FrameRole::kEnter) {
      item.constant_enter = node.attr<bool>("is_constant");
      item.child_frame = child_frame(item.frame, node);
      if (plan_.frames[item.child_frame].depth > kMaxLoopDepth) {
        return invalid_argument(node.describe(), ": loops are nested more than ", kMaxLoopDepth, " deep");
      }
    }
    if ((item.role == FrameRole::kNextIteration || item.role == FrameRole::kExit) && item.frame == 0) {
      return invalid_argument(node.describe(), ": outside of every loop");
    }
    FrameDef& frame = plan_.frames[item.frame];
    item.local = static_cast<int>(frame.items.size());
    frame.items.push_back(static_cast<int>(i));
    if (item.role == FrameRole::kExit) frame.exits.push_back(static_cast<int>(i));
    item.first_value = frame.num_values;
    frame.num_values += static_cast<int>(plan_.table.inputs[i].size());
    for (std::size_t k = 0; k < plan_.table.inputs[i].size(); ++k) {
      item.input_index.push_back(static_cast<std::uint32_t>(item.first_value + static_cast<int>(k)));
      item.reads.push_back(plan_.table.inputs[i][k].is_read);
    }
    most_inputs = std::max(most_inputs, plan_.table.inputs[i].size());
  }
  plan_.all_last_use.assign(most_inputs, 1);
  return {};
}

// A Merge gets its frame from the inputs that come before it; those that come after it must agree.
Status FrameCompiler::check_back_edges() const {
  for (std::size_t i = 0; i < plan_.items.size(); ++i) {
    for (const InputEdge& edge : plan_.table.inputs[i]) {
      const FrameItem& source = plan_.items[edge.from];
      if (source.role != FrameRole::kNextIteration || source.frame == plan_.items[i].frame) continue;
      return invalid_argument(plan_.table.items[i].node->describe(), ", in ", describe_frame(plan_.items[i].frame),
                              ", continues ", plan_.table.items[edge.from].node->describe(), ", which is in ",
                              describe_frame(source.frame));
    }
  }
  return {};
}

void FrameCompiler::connect() {
  for (std::size_t i = 0; i < plan_.items.size(); ++i) {
    FrameItem& item = plan_.items[i];
    const auto& inputs = plan_.table.inputs[i];
    const auto& control_inputs = plan_.table.control_inputs[i];
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      plan_.items[inputs[k].from].outs.push_back({static_cast<int>(i), inputs[k].output, static_cast<int>(k)});
      if (plan_.items[inputs[k].from].role == FrameRole::kNextIteration) {
        ++item.merge_backs;
      } else {
        ++item.merge_entries;
      }
    }
    for (int from : control_inputs) plan_.items[from].outs.push_back({static_cast<int>(i), kControlEdge, kControlEdge});
    item.initial_pending = static_cast<int>(control_inputs.size());
    if (item.role != FrameRole::kMerge) item.initial_pending += static_cast<int>(inputs.size());
    if (inputs.empty() && control_inputs.empty()) plan_.sources.push_back(static_cast<int>(i));
  }
  for (FrameItem& item : plan_.items) {
    std::set<int> taken_later;
    for (auto edge = item.outs.rbegin(); edge != item.outs.rend(); ++edge) {
      edge->last = edge->output != kControlEdge && taken_later.insert(edge->output).second;
      // Which input it was, only the kernel says.
      if (item.role == FrameRole::kMerge && edge->output == 1) item.hands_on = false;
    }
  }
  for (FrameDef& frame : plan_.frames) {
    for (int item : frame.items) frame.pending.push_back(plan_.items[item].initial_pending);
  }
}

}  // namespace

Result<FramePlan> FramePlan::create(NodeTable table) { return FrameCompiler(std::move(table)).compile(); }

}  // namespace tutti::internal
