// Runs bodies with v1 control flow: Switch, Merge, Enter, Exit, NextIteration, LoopCond.
//
// Values travel as tokens tagged with a frame (one execution of a loop) and an iteration. A token may be dead: it
// stands for a value of an untaken branch. The rules:
//   * A node runs when all its inputs have arrived in one iteration; if one is dead it does not run, and all
//     its outputs are dead.
//   * A transfer runs even then: a Send tells the other end that its value is dead, and a Recv takes what is sent.
//     What it receives may be dead too.
//   * Switch gives its input to one output; the other is dead.
//   * Merge runs on its first live input, or is dead once every input that can arrive in this iteration is
//     dead. (Of a loop's Merge those are, in iteration 0, the inputs that are not NextIterations; later, those that
//     are.)
//   * Enter carries a token into iteration 0 of a child frame, or, when constant, into every iteration.
//   * NextIteration carries a live token into the next iteration and swallows a dead one.
//   * Exit carries a live token to the parent; an Exit that never saw one sends a dead token when its frame ends.
// A frame ends when all its Enters have arrived and nothing is left to run in it. At most `parallel_iterations`
// iterations of a frame are open at a time; further tokens wait for the oldest to end.
//
// One thread at a time drives a run. Asynchronous nodes put their results into an inbox, and whoever finds
// nobody driving drives on, in the pool.

#include <algorithm>
#include <list>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "tutti/core/flush_denormals.h"
#include "tutti/kernels/cpu/string_hash.h"
#include "tutti/runtime/held_work.h"
#include "tutti/runtime/internal/node_table.h"
#include "tutti/runtime/internal/resume.h"
#include "tutti/runtime/step_stats.h"

namespace tutti::internal {
namespace {

enum class Role : std::uint8_t { kPlain, kSwitch, kMerge, kEnter, kExit, kNextIteration };

constexpr int kControl = -1;

// Loops inside one another. Real graphs have a handful; each level costs a run a frame, and a graph that has this
// many was made to hurt.
constexpr int kMaxLoopDepth = 1000;

struct OutEdge {
  int to = 0;
  int output = kControl;  // of this item, or kControl
  int input = kControl;   // of `to`, or kControl
  bool last = false;      // nobody later in the list takes the output
};

struct ReadyItem {
  Role role = Role::kPlain;
  bool hands_on = false;  // one input becomes an output as it is: no kernel has to run for that
  bool ignores_dead_control = false;
  bool is_transfer = false;
  bool constant_enter = false;
  int frame = 0;        // definition, of where it runs
  int child_frame = 0;  // of an Enter
  int local = 0;        // index among the frame's items
  int first_value = 0;  // index of its first input among the frame's values
  int initial_pending = 0;
  int merge_entries = 0;  // data inputs that can arrive in iteration 0
  int merge_backs = 0;    // data inputs that can arrive later
  std::vector<OutEdge> outs;
  std::vector<std::uint32_t> input_index;
  std::vector<bool> reads;
};

struct FrameDef {
  int parent = -1;
  int depth = 0;
  std::string name;
  std::vector<int> items;
  std::vector<int> pending;  // of each item, when an iteration opens
  std::vector<int> exits;
  int num_values = 0;
  int num_enters = 0;
  int parallel_iterations = 1;
};

struct Frame;

struct Iteration {
  Frame* frame = nullptr;
  LoopPosition position;
  std::vector<int> pending;         // per local item
  std::vector<int> dead;            // dead inputs so far
  std::vector<std::uint8_t> taken;  // of a Merge: ran, or has its live input
  std::vector<Value> values;
  int outstanding = 0;  // items ready or running, and child frames
  std::map<int, std::unique_ptr<Frame>> children;
};

struct Token {
  int to = 0;
  int input = kControl;
  Value value;
  bool dead = false;
};

struct Frame {
  const FrameDef* def = nullptr;
  int def_index = 0;
  std::uint64_t id = 0;             // 0 for the root
  Iteration* parent = nullptr;      // null for the root
  std::list<Iteration> iterations;  // oldest first
  std::list<Iteration> spare;       // ended ones, whose memory the next take over
  std::int64_t next_number = 0;
  int pending_enters = 0;
  std::vector<Token> invariants;
  std::vector<Token> deferred;  // for the iteration after the newest, until it may open
  std::vector<bool> exit_fired;
};

// Tells executions of loops apart, by name and place, as every task that runs a part of one computes it, TensorFlow's
// included: the number is in the names of values that cross between tasks.
std::uint64_t frame_id(const LoopPosition& parent, std::string_view name) {
  const auto combine = [](std::uint64_t a, std::uint64_t b) {
    return a ^ (b + 0x9e3779b97f4a7800 + (a << 10) + (a >> 4));
  };
  return combine(parent.frame, combine(static_cast<std::uint64_t>(parent.iteration), cpu::murmur_hash64(name)));
}

bool is_dead(const Value& value) { return !value.tensor.has_value() && !value.ref; }

class FrameExecution;

class FrameExecutable : public Executable {
 public:
  static Result<std::unique_ptr<Executable>> create(NodeTable table, ThreadPool* pool);

  bool may_block() const override { return table_.may_block; }
  int num_args() const override { return table_.num_args; }
  const Graph& graph() const override { return *table_.graph; }

 private:
  void start(StepScope& step, std::vector<Tensor> args, Done done) const override;
  friend class FrameExecution;
  FrameExecutable(NodeTable table, ThreadPool* pool) : table_(std::move(table)), pool_(pool) {}
  Status assign_frames();
  Result<int> frame_of_inputs(std::size_t item);
  Status check_back_edges() const;
  int child_frame(int parent, const Node& enter);
  // `loop "name"`, or that it is outside of every loop.
  std::string describe_frame(int frame) const;
  void connect();

  NodeTable table_;
  ThreadPool* const pool_;
  std::vector<ReadyItem> items_;
  std::vector<FrameDef> frames_;
  std::map<std::pair<int, std::string>, int> frame_by_name_;
  std::vector<int> sources_;  // items without inputs, in the root frame
  std::vector<std::uint8_t> all_last_use_;
};

Role role_of(const Node& node) {
  const std::string& op = node.op_name();
  if (op == "Switch" || op == "RefSwitch") return Role::kSwitch;
  if (op == "Merge" || op == "RefMerge") return Role::kMerge;
  if (op == "Enter" || op == "RefEnter") return Role::kEnter;
  if (op == "Exit" || op == "RefExit") return Role::kExit;
  if (op == "NextIteration" || op == "RefNextIteration") return Role::kNextIteration;
  return Role::kPlain;
}

// Whether the node only decides where a value goes. References are left to the kernels.
bool hands_on(const Node& node, Role role) {
  if (node.op_name().starts_with("Ref")) return false;
  if (role == Role::kPlain) return node.op_name() == "Identity" || node.op_name() == "LoopCond";
  return true;
}

// ---- Compilation ----

Result<std::unique_ptr<Executable>> FrameExecutable::create(NodeTable table, ThreadPool* pool) {
  auto executable = std::unique_ptr<FrameExecutable>(new FrameExecutable(std::move(table), pool));
  TUTTI_RETURN_IF_ERROR(executable->assign_frames());
  TUTTI_RETURN_IF_ERROR(executable->check_back_edges());
  executable->connect();
  return std::unique_ptr<Executable>(std::move(executable));
}

Result<int> FrameExecutable::frame_of_inputs(std::size_t i) {
  int frame = -1;
  auto visit = [&](int from) -> Status {
    if (from >= static_cast<int>(i)) return {};  // a back edge
    const ReadyItem& source = items_[from];
    int out = source.frame;
    if (source.role == Role::kEnter) out = source.child_frame;
    if (source.role == Role::kExit) out = frames_[source.frame].parent;
    if (out < 0) {
      return invalid_argument(table_.items[from].node->describe(), ": an Exit outside of every loop");
    }
    if (frame >= 0 && frame != out) {
      return invalid_argument(table_.items[i].node->describe(), ": its inputs come from different loops, \"",
                              printable(frames_[frame].name), "\" and \"", printable(frames_[out].name), "\"");
    }
    frame = out;
    return {};
  };
  for (const InputEdge& edge : table_.inputs[i]) TUTTI_RETURN_IF_ERROR(visit(edge.from));
  for (int from : table_.control_inputs[i]) TUTTI_RETURN_IF_ERROR(visit(from));
  return std::max(frame, 0);
}

std::string FrameExecutable::describe_frame(int frame) const {
  if (frame == 0) return "no loop";
  return str_cat("loop \"", printable(frames_[frame].name), "\"");
}

int FrameExecutable::child_frame(int parent, const Node& enter) {
  const std::string& name = enter.attr<std::string>("frame_name");
  auto [it, is_new] = frame_by_name_.try_emplace({parent, name}, static_cast<int>(frames_.size()));
  if (is_new) frames_.push_back({.parent = parent, .depth = frames_[parent].depth + 1, .name = name});
  FrameDef& def = frames_[it->second];
  ++def.num_enters;
  const std::int64_t parallel = enter.attr<std::int64_t>("parallel_iterations");
  def.parallel_iterations = static_cast<int>(std::clamp<std::int64_t>(parallel, 1, 1 << 20));
  return it->second;
}

Status FrameExecutable::assign_frames() {
  frames_.push_back({});
  items_.resize(table_.items.size());
  std::size_t most_inputs = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Node& node = *table_.items[i].node;
    ReadyItem& item = items_[i];
    item.role = role_of(node);
    item.hands_on = hands_on(node, item.role);
    item.ignores_dead_control = node.op().has(kIgnoresDeadControl);
    item.is_transfer = node.op().has(kTransfer);
    TUTTI_ASSIGN_OR_RETURN(item.frame, frame_of_inputs(i));
    if (item.role == Role::kEnter) {
      item.constant_enter = node.attr<bool>("is_constant");
      item.child_frame = child_frame(item.frame, node);
      if (frames_[item.child_frame].depth > kMaxLoopDepth) {
        return invalid_argument(node.describe(), ": loops are nested more than ", kMaxLoopDepth, " deep");
      }
    }
    if ((item.role == Role::kNextIteration || item.role == Role::kExit) && item.frame == 0) {
      return invalid_argument(node.describe(), ": outside of every loop");
    }
    FrameDef& frame = frames_[item.frame];
    item.local = static_cast<int>(frame.items.size());
    frame.items.push_back(static_cast<int>(i));
    if (item.role == Role::kExit) frame.exits.push_back(static_cast<int>(i));
    item.first_value = frame.num_values;
    frame.num_values += static_cast<int>(table_.inputs[i].size());
    for (std::size_t k = 0; k < table_.inputs[i].size(); ++k) {
      item.input_index.push_back(static_cast<std::uint32_t>(item.first_value + static_cast<int>(k)));
      item.reads.push_back(table_.inputs[i][k].is_read);
    }
    most_inputs = std::max(most_inputs, table_.inputs[i].size());
  }
  all_last_use_.assign(most_inputs, 1);
  return {};
}

// A Merge gets its frame from the inputs that come before it; those that come after it must agree.
Status FrameExecutable::check_back_edges() const {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    for (const InputEdge& edge : table_.inputs[i]) {
      const ReadyItem& source = items_[edge.from];
      if (source.role != Role::kNextIteration || source.frame == items_[i].frame) continue;
      return invalid_argument(table_.items[i].node->describe(), ", in ", describe_frame(items_[i].frame),
                              ", continues ", table_.items[edge.from].node->describe(), ", which is in ",
                              describe_frame(source.frame));
    }
  }
  return {};
}

void FrameExecutable::connect() {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    ReadyItem& item = items_[i];
    const auto& inputs = table_.inputs[i];
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      items_[inputs[k].from].outs.push_back({static_cast<int>(i), inputs[k].output, static_cast<int>(k)});
      if (items_[inputs[k].from].role == Role::kNextIteration) {
        ++item.merge_backs;
      } else {
        ++item.merge_entries;
      }
    }
    for (int from : table_.control_inputs[i]) items_[from].outs.push_back({static_cast<int>(i), kControl, kControl});
    item.initial_pending = static_cast<int>(table_.control_inputs[i].size());
    if (item.role != Role::kMerge) item.initial_pending += static_cast<int>(inputs.size());
    if (inputs.empty() && table_.control_inputs[i].empty()) sources_.push_back(static_cast<int>(i));
  }
  for (ReadyItem& item : items_) {
    std::set<int> taken_later;
    for (auto edge = item.outs.rbegin(); edge != item.outs.rend(); ++edge) {
      edge->last = edge->output != kControl && taken_later.insert(edge->output).second;
      // Which input it was, only the kernel says.
      if (item.role == Role::kMerge && edge->output == 1) item.hands_on = false;
    }
  }
  for (FrameDef& frame : frames_) {
    for (int item : frame.items) frame.pending.push_back(items_[item].initial_pending);
  }
}

// ---- Execution ----

class FrameExecution final : public WaitingRun {
 public:
  FrameExecution(const FrameExecutable& plan, StepScope& step, std::vector<Tensor> args, Executable::Done done)
      : plan_(plan), step_(step), args_(std::move(args)), done_(std::move(done)) {
    results_.resize(plan.table_.num_results);
  }

  void start();
  void go_on(std::vector<int> /*ready*/) override { drive(); }

 private:
  struct Ready {
    Iteration* iteration;
    int item;
  };
  struct AsyncCall {
    AsyncCall(const Ready& r, std::vector<Value> o, const KernelContext::Frame& f, StepScope& s)
        : ready(r), outputs(std::move(o)), context(s, with_outputs(f)) {}
    KernelContext::Frame with_outputs(KernelContext::Frame f) {
      f.outputs = outputs.data();
      return f;
    }
    Ready ready;
    std::vector<Value> outputs;
    KernelContext context;
    Status status;
  };

  void drive();
  Ready take_ready();
  void run_ready(const Ready& ready);
  bool hand_on(const Ready& ready, std::vector<Value>& outputs);
  Status run_kernel(const Ready& ready, std::vector<Value>& outputs, bool& pending);
  Status read_inputs(const Ready& ready);
  bool is_dead_node(const Ready& ready) const;
  void end_item(const Ready& ready, std::vector<Value>& outputs);
  void propagate(Iteration& iteration, const ReadyItem& item, std::vector<Value>& outputs, bool dead);
  void deliver(Iteration& iteration, Token token);
  void deliver_merge(Iteration& iteration, const ReadyItem& item, Token token);
  void make_ready(Iteration& iteration, int item);
  Frame& child_of(Iteration& iteration, int def);
  Iteration& open_iteration(Frame& frame);
  void to_next_iteration(Iteration& iteration, Token token);
  void release(Iteration& iteration);
  void settle(Frame& frame);
  bool collect(Frame& frame);
  void end_frame(Frame& frame);
  void drop_frames();
  bool became_ready(const Iteration& iteration, int item) const;
  Status check_nothing_waits() const;
  void fail(const Status& status);
  void finish();

  const FrameExecutable& plan_;
  StepScope& step_;
  std::vector<Tensor> args_;
  std::vector<Tensor> results_;
  Executable::Done done_;

  // Owned by whoever drives.
  std::unique_ptr<Frame> root_;
  std::vector<Ready> ready_;  // the first next_ready_ of them have run
  std::size_t next_ready_ = 0;
  std::vector<Value> outputs_;  // of the node that runs, unless it is asynchronous; empty values otherwise
  Status status_;

  Mutex mu_;
  bool driving_ TUTTI_GUARDED_BY(mu_) = true;
  int calls_ TUTTI_GUARDED_BY(mu_) = 0;  // asynchronous nodes under way or in the inbox
  std::vector<std::shared_ptr<AsyncCall>> inbox_ TUTTI_GUARDED_BY(mu_);
};

void FrameExecutable::start(StepScope& step, std::vector<Tensor> args, Done done) const {
  // Owns itself until finish().
  (new FrameExecution(*this, step, std::move(args), std::move(done)))->start();
}

void FrameExecution::start() {
  root_ = std::make_unique<Frame>();
  root_->def = &plan_.frames_[0];
  Iteration& iteration = open_iteration(*root_);
  for (int item : plan_.sources_) make_ready(iteration, item);
  drive();
}

// Runs what is ready and what came into the inbox until nothing is left to do on this thread.
void FrameExecution::drive() {
  while (true) {
    while (next_ready_ < ready_.size()) {
      run_ready(take_ready());
    }
    std::vector<std::shared_ptr<AsyncCall>> ended;
    {
      MutexLock lock(mu_);
      if (inbox_.empty()) {
        driving_ = false;
        if (calls_ > 0) return;  // the last of them drives on
      }
      ended.swap(inbox_);
      calls_ -= static_cast<int>(ended.size());
    }
    if (ended.empty()) return finish();
    for (const auto& call : ended) {
      if (!status_.ok()) continue;
      if (!call->status.ok()) {
        fail(plan_.table_.annotate(*plan_.table_.items[call->ready.item].node, call->status));
      } else {
        end_item(call->ready, call->outputs);
      }
    }
  }
}

// The oldest. REQUIRES: there is one.
FrameExecution::Ready FrameExecution::take_ready() {
  constexpr std::size_t kMostKept = 1024;
  const Ready ready = ready_[next_ready_++];
  if (next_ready_ == ready_.size() || next_ready_ == kMostKept) {
    ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(next_ready_));
    next_ready_ = 0;
  }
  return ready;
}

bool FrameExecution::is_dead_node(const Ready& ready) const {
  const ReadyItem& item = plan_.items_[ready.item];
  if (item.role == Role::kMerge) return ready.iteration->taken[item.local] == 0;
  return ready.iteration->dead[item.local] != 0;
}

void FrameExecution::run_ready(const Ready& ready) {
  if (step_.cancellation->cancelled()) return fail(step_.cancellation->status());
  const NodeItem& node = plan_.table_.items[ready.item];
  outputs_.resize(node.num_outputs);
  if (is_dead_node(ready) && !plan_.items_[ready.item].is_transfer) {
    if (node.kind == NodeKind::kRetval) return fail(dead_result(node));
    return end_item(ready, outputs_);
  }
  if (hand_on(ready, outputs_)) return end_item(ready, outputs_);
  bool pending = false;
  Status status = run_kernel(ready, outputs_, pending);
  if (!status.ok()) {
    outputs_.clear();
    return fail(plan_.table_.annotate(*node.node, status));
  }
  if (!pending) end_item(ready, outputs_);
}

// False: it is for the kernel, which knows what to do with references, what to say of bad input, and is recorded.
bool FrameExecution::hand_on(const Ready& ready, std::vector<Value>& outputs) {
  const ReadyItem& item = plan_.items_[ready.item];
  if (!item.hands_on || step_.trace) return false;
  Value* const inputs = ready.iteration->values.data() + item.first_value;
  std::size_t from = 0, to = 0;
  if (item.role == Role::kMerge) {
    while (from < item.input_index.size() && !inputs[from].tensor.has_value()) ++from;
    if (from == item.input_index.size()) return false;
  } else if (item.role == Role::kSwitch) {
    const Tensor& taken = inputs[1].tensor;
    if (taken.dtype() != DType::kBool || taken.num_elements() != 1 || taken.shape().rank() != 0) return false;
    to = *taken.data<bool>() ? 1 : 0;
  }
  if (!inputs[from].tensor.has_value()) return false;
  outputs[to].tensor = std::move(inputs[from].tensor);
  return true;
}

Status FrameExecution::read_inputs(const Ready& ready) {
  const ReadyItem& item = plan_.items_[ready.item];
  for (std::size_t k = 0; k < item.reads.size(); ++k) {
    if (!item.reads[k]) continue;
    Value& value = ready.iteration->values[item.input_index[k]];
    if ((item.role == Role::kMerge || item.is_transfer) && is_dead(value)) continue;
    TUTTI_RETURN_IF_ERROR(read_reference(value, &value.tensor));
    value.ref.reset();
  }
  return {};
}

Status FrameExecution::run_kernel(const Ready& ready, std::vector<Value>& outputs, bool& pending) {
  const FlushDenormals flush;
  const ReadyItem& item = plan_.items_[ready.item];
  const NodeItem& node = plan_.table_.items[ready.item];
  TUTTI_RETURN_IF_ERROR(read_inputs(ready));
  std::vector<Value>& values = ready.iteration->values;
  if (node.kind == NodeKind::kNothing) return {};
  if (node.kind == NodeKind::kArg) {
    outputs[0].tensor = args_[node.index];
    return {};
  }
  if (node.kind == NodeKind::kRetval) {
    results_[node.index] = values[item.first_value].tensor;
    return {};
  }
  const KernelContext::Frame frame{.slots = values.data(),
                                   .input_index = item.input_index.data(),
                                   .last_use = plan_.all_last_use_.data(),
                                   .outputs = outputs.data(),
                                   .output_types = plan_.table_.output_types.data() + node.output_types_begin,
                                   .num_inputs = node.num_inputs,
                                   .num_outputs = node.num_outputs,
                                   .loop = &ready.iteration->position,
                                   .sent = node.sent};
  if (node.kind == NodeKind::kKernel) {
    if (HeldWork::waits() && node.node->op().has(kExpensive)) HeldWork::run_now();
    KernelContext context(step_, frame);
    const std::int64_t start = step_.trace ? step_.trace->now() : 0;
    Status status = compute(*node.kernel, context);
    if (step_.trace) step_.trace->record(*node.node, start, step_.trace->now());
    return status;
  }
  pending = true;
  auto call = std::make_shared<AsyncCall>(ready, std::move(outputs), frame, step_);
  {
    MutexLock lock(mu_);
    ++calls_;
  }
  compute_async(*node.async_kernel, call->context, [this, call](Status status) {
    call->status = std::move(status);
    bool drive_on = false;
    {
      MutexLock lock(mu_);
      inbox_.push_back(call);
      drive_on = !driving_;
      driving_ = true;
    }
    if (drive_on) resume(*plan_.pool_, *this, [](std::vector<int>& ready) { ready.push_back(0); });
  });
  return {};
}

void FrameExecution::end_item(const Ready& ready, std::vector<Value>& outputs) {
  const ReadyItem& item = plan_.items_[ready.item];
  Iteration& iteration = *ready.iteration;
  bool dead = is_dead_node(ready);
  if (item.is_transfer) {  // a receive is dead when its value is, and its value when it is
    dead = dead || std::any_of(outputs.begin(), outputs.end(), is_dead);
    if (dead) std::fill(outputs.begin(), outputs.end(), Value());
  }
  for (std::uint32_t index : item.input_index) iteration.values[index] = {};
  propagate(iteration, item, outputs, dead);
  outputs.clear();
  release(iteration);
}

void FrameExecution::propagate(Iteration& iteration, const ReadyItem& item, std::vector<Value>& outputs, bool dead) {
  if (item.role == Role::kExit) {
    if (dead) return;  // told to the parent when the frame ends
    Frame& frame = *iteration.frame;
    const auto& exits = frame.def->exits;
    const int self = plan_.frames_[item.frame].items[item.local];
    frame.exit_fired[std::find(exits.begin(), exits.end(), self) - exits.begin()] = true;
  }
  Frame* child = item.role == Role::kEnter ? &child_of(iteration, item.child_frame) : nullptr;
  for (const OutEdge& edge : item.outs) {
    Token token{.to = edge.to, .input = edge.input, .dead = dead};
    if (edge.output != kControl) {
      token.value = edge.last ? std::move(outputs[edge.output]) : outputs[edge.output];
      token.dead = dead || is_dead(token.value);
    }
    switch (item.role) {
      case Role::kEnter:
        if (item.constant_enter) {
          child->invariants.push_back(token);
          for (Iteration& open : child->iterations) deliver(open, token);
        } else {
          deliver(child->iterations.front(), std::move(token));
        }
        break;
      case Role::kExit:
        deliver(*iteration.frame->parent, std::move(token));
        break;
      case Role::kNextIteration:
        if (!token.dead) to_next_iteration(iteration, std::move(token));
        break;
      case Role::kPlain:
      case Role::kSwitch:
      case Role::kMerge:
        deliver(iteration, std::move(token));
        break;
    }
  }
  if (child != nullptr) {
    --child->pending_enters;
    settle(*child);
  }
}

void FrameExecution::deliver(Iteration& iteration, Token token) {
  const ReadyItem& item = plan_.items_[token.to];
  if (item.role == Role::kMerge) return deliver_merge(iteration, item, std::move(token));
  if (token.input == kControl) {
    if (token.dead && !item.ignores_dead_control) ++iteration.dead[item.local];
  } else {
    if (token.dead) ++iteration.dead[item.local];
    iteration.values[item.first_value + token.input] = std::move(token.value);
  }
  if (--iteration.pending[item.local] == 0) make_ready(iteration, token.to);
}

void FrameExecution::deliver_merge(Iteration& iteration, const ReadyItem& item, Token token) {
  const int local = item.local;
  const bool is_loop_merge = item.merge_backs > 0;
  const int expected = is_loop_merge && iteration.position.iteration > 0 ? item.merge_backs : item.merge_entries;
  const bool was_decided = iteration.taken[local] != 0 || iteration.dead[local] == expected;
  if (token.input == kControl) {
    --iteration.pending[local];
    if (was_decided && iteration.pending[local] == 0) make_ready(iteration, token.to);
    return;
  }
  if (was_decided) return;  // a second live input: the first one won
  if (token.dead) {
    ++iteration.dead[local];
  } else {
    iteration.taken[local] = 1;
    iteration.values[item.first_value + token.input] = std::move(token.value);
  }
  const bool decided = iteration.taken[local] != 0 || iteration.dead[local] == expected;
  if (decided && iteration.pending[local] == 0) make_ready(iteration, token.to);
}

void FrameExecution::make_ready(Iteration& iteration, int item) {
  ++iteration.outstanding;
  ready_.push_back({&iteration, item});
}

Frame& FrameExecution::child_of(Iteration& iteration, int def) {
  std::unique_ptr<Frame>& child = iteration.children[def];
  if (!child) {
    child = std::make_unique<Frame>();
    child->def = &plan_.frames_[def];
    child->def_index = def;
    child->id = frame_id(iteration.position, child->def->name);
    child->parent = &iteration;
    child->pending_enters = child->def->num_enters;
    child->exit_fired.assign(child->def->exits.size(), false);
    ++iteration.outstanding;
    open_iteration(*child);
  }
  return *child;
}

Iteration& FrameExecution::open_iteration(Frame& frame) {
  if (frame.spare.empty()) frame.spare.emplace_back();
  frame.iterations.splice(frame.iterations.end(), frame.spare, frame.spare.begin());
  Iteration& iteration = frame.iterations.back();
  iteration.frame = &frame;
  iteration.position = {.frame = frame.id, .iteration = frame.next_number++};
  const FrameDef& def = *frame.def;
  iteration.pending = def.pending;
  iteration.dead.assign(def.items.size(), 0);
  iteration.taken.assign(def.items.size(), 0);
  iteration.values.resize(def.num_values);
  for (const Token& token : frame.invariants) deliver(iteration, token);
  return iteration;
}

void FrameExecution::to_next_iteration(Iteration& iteration, Token token) {
  Frame& frame = *iteration.frame;
  for (Iteration& open : frame.iterations) {
    if (open.position.iteration == iteration.position.iteration + 1) return deliver(open, std::move(token));
  }
  if (static_cast<int>(frame.iterations.size()) < frame.def->parallel_iterations) {
    return deliver(open_iteration(frame), std::move(token));
  }
  frame.deferred.push_back(std::move(token));
}

// One thing that kept the iteration open has ended.
void FrameExecution::release(Iteration& iteration) {
  --iteration.outstanding;
  settle(*iteration.frame);
}

// Ends the frame when nothing is left in it, then those around it for which that was the last thing to wait for. A
// loop, not a recursion: frames nest as deep as the graph says.
void FrameExecution::settle(Frame& innermost) {
  Frame* frame = &innermost;
  while (collect(*frame)) {
    Iteration& parent = *frame->parent;
    end_frame(*frame);
    --parent.outstanding;
    frame = parent.frame;
  }
}

// Drops finished iterations from the old end and opens what waited for that. True when nothing is left in the frame.
bool FrameExecution::collect(Frame& frame) {
  if (frame.pending_enters > 0 || frame.parent == nullptr) return false;
  while (frame.iterations.front().outstanding == 0) {
    if (frame.iterations.size() == 1 && frame.deferred.empty()) return true;
    for (Value& value : frame.iterations.front().values) {
      if (value.tensor.has_value() || value.ref) value = {};
    }
    frame.spare.splice(frame.spare.end(), frame.iterations, frame.iterations.begin());
    if (frame.deferred.empty()) continue;
    std::vector<Token> tokens = std::move(frame.deferred);
    frame.deferred.clear();
    Iteration& opened = open_iteration(frame);
    for (Token& token : tokens) deliver(opened, std::move(token));
  }
  return false;
}

void FrameExecution::end_frame(Frame& frame) {
  Iteration& parent = *frame.parent;
  for (std::size_t e = 0; e < frame.def->exits.size(); ++e) {
    if (frame.exit_fired[e]) continue;
    for (const OutEdge& edge : plan_.items_[frame.def->exits[e]].outs) {
      deliver(parent, {.to = edge.to, .input = edge.input, .value = {}, .dead = true});
    }
  }
  parent.children.erase(frame.def_index);
}

// Frames own their iterations, which own frames: dropped from the outside in, so that no destructor meets another.
void FrameExecution::drop_frames() {
  std::vector<std::unique_ptr<Frame>> open;
  open.push_back(std::move(root_));
  while (!open.empty()) {
    const std::unique_ptr<Frame> frame = std::move(open.back());
    open.pop_back();
    for (Iteration& iteration : frame->iterations) {
      for (auto& [def, child] : iteration.children) open.push_back(std::move(child));
    }
  }
}

void FrameExecution::fail(const Status& status) {
  ready_.clear();
  next_ready_ = 0;
  if (!status_.ok()) return;
  status_ = status;
  step_.cancellation->cancel(status);
}

// REQUIRES: `iteration` is the only one of its frame so far.
bool FrameExecution::became_ready(const Iteration& iteration, int index) const {
  const ReadyItem& item = plan_.items_[index];
  if (iteration.pending[item.local] > 0) return false;
  if (item.role != Role::kMerge) return true;
  return iteration.taken[item.local] != 0 || iteration.dead[item.local] == item.merge_entries;
}

// A sound graph brings every node outside of loops a token, dead or not, and ends every loop. In one that does not,
// what never ran is an error even when nobody wants its value. Names what waits first and, of what waits for that, the
// last: the target or fetch.
Status FrameExecution::check_nothing_waits() const {
  const Iteration* iteration = &root_->iterations.front();
  const Node* first = nullptr;
  const Node* last = nullptr;
  for (int index : root_->def->items) {
    if (became_ready(*iteration, index)) continue;
    last = plan_.table_.items[index].node;
    if (first == nullptr) first = last;
  }
  if (first != nullptr) {
    return invalid_argument(last->describe(), " never ran: its loop is malformed, ", first->describe(),
                            " did not get all its inputs");
  }
  // Only a loop that still waits for an Enter stays open, and keeps those around it open.
  while (!iteration->children.empty()) {
    const Frame& frame = *iteration->children.begin()->second;
    if (frame.pending_enters > 0) {
      return invalid_argument("loop \"", printable(frame.def->name), "\" never ran to its end: ", frame.pending_enters,
                              " of its ", frame.def->num_enters, " Enters did not get their inputs");
    }
    auto open = std::find_if(frame.iterations.begin(), frame.iterations.end(),
                             [](const Iteration& it) { return !it.children.empty(); });
    if (open == frame.iterations.end()) break;
    iteration = &*open;
  }
  return {};
}

void FrameExecution::finish() {
  std::unique_ptr<FrameExecution> self(this);
  if (status_.ok()) status_ = check_nothing_waits();
  for (std::size_t i = 0; i < results_.size() && status_.ok(); ++i) {
    if (!results_[i].has_value())
      status_ = invalid_argument("result ", i, " was never computed: its loop is malformed");
  }
  if (!status_.ok()) results_.clear();
  drop_frames();
  Executable::Done done = std::move(done_);
  Status status = std::move(status_);
  std::vector<Tensor> results = std::move(results_);
  self.reset();
  done(std::move(status), std::move(results));
}

}  // namespace

Result<std::unique_ptr<Executable>> compile_frames(NodeTable table, const CompileOptions& options) {
  return FrameExecutable::create(std::move(table), options.pool);
}

}  // namespace tutti::internal
