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
#include <string_view>
#include <utility>

#include "tutti/core/flush_denormals.h"
#include "tutti/kernels/cpu/string_hash.h"
#include "tutti/kernels/guard.h"
#include "tutti/runtime/held_work.h"
#include "tutti/runtime/internal/frame_plan.h"
#include "tutti/runtime/internal/resume.h"
#include "tutti/runtime/step_stats.h"

namespace tutti::internal {
namespace {

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
  int input = kControlEdge;
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

class FrameExecutable : public Executable {
 public:
  FrameExecutable(FramePlan plan, ThreadPool* pool) : plan_(std::move(plan)), pool_(pool) {}

  bool may_block() const override { return plan_.table.may_block; }
  int num_args() const override { return plan_.table.num_args; }
  const Graph& graph() const override { return *plan_.table.graph; }

 private:
  void start(StepScope& step, std::vector<Tensor> args, Done done) const override;

  const FramePlan plan_;
  ThreadPool* const pool_;
};

class FrameExecution final : public WaitingRun {
 public:
  FrameExecution(const FramePlan& plan, ThreadPool* pool, StepScope& step, std::vector<Tensor> args,
                 Executable::Done done)
      : plan_(plan), pool_(pool), step_(step), args_(std::move(args)), done_(std::move(done)) {
    results_.resize(plan.table.num_results);
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
  void propagate(Iteration& iteration, const FrameItem& item, std::vector<Value>& outputs, bool dead);
  void deliver(Iteration& iteration, Token token);
  void deliver_merge(Iteration& iteration, const FrameItem& item, Token token);
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

  const FramePlan& plan_;
  ThreadPool* const pool_;
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
  (new FrameExecution(plan_, pool_, step, std::move(args), std::move(done)))->start();
}

void FrameExecution::start() {
  root_ = std::make_unique<Frame>();
  root_->def = &plan_.frames[0];
  Iteration& iteration = open_iteration(*root_);
  for (int item : plan_.sources) make_ready(iteration, item);
  drive();
}

// Runs what is ready and what came into the inbox until nothing is left to do on this thread.
void FrameExecution::drive() {
  const MemoryScope unchecked(nullptr);  // a kernel of another body may be around it
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
        fail(plan_.table.annotate(*plan_.table.items[call->ready.item].node, call->status));
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
  const FrameItem& item = plan_.items[ready.item];
  if (item.role == FrameRole::kMerge) return ready.iteration->taken[item.local] == 0;
  return ready.iteration->dead[item.local] != 0;
}

void FrameExecution::run_ready(const Ready& ready) {
  if (step_.cancellation->cancelled()) return fail(step_.cancellation->status());
  const NodeItem& node = plan_.table.items[ready.item];
  outputs_.resize(node.num_outputs);
  if (is_dead_node(ready) && !plan_.items[ready.item].is_transfer) {
    if (node.kind == NodeKind::kRetval) return fail(dead_result(node));
    return end_item(ready, outputs_);
  }
  if (hand_on(ready, outputs_)) return end_item(ready, outputs_);
  bool pending = false;
  Status status = run_kernel(ready, outputs_, pending);
  if (!status.ok()) {
    outputs_.clear();
    return fail(plan_.table.annotate(*node.node, status));
  }
  if (!pending) end_item(ready, outputs_);
}

// False: it is for the kernel, which knows what to do with references, what to say of bad input, and is recorded.
bool FrameExecution::hand_on(const Ready& ready, std::vector<Value>& outputs) {
  const FrameItem& item = plan_.items[ready.item];
  if (!item.hands_on || step_.trace) return false;
  Value* const inputs = ready.iteration->values.data() + item.first_value;
  std::size_t from = 0, to = 0;
  if (item.role == FrameRole::kMerge) {
    while (from < item.input_index.size() && !inputs[from].tensor.has_value()) ++from;
    if (from == item.input_index.size()) return false;
  } else if (item.role == FrameRole::kSwitch) {
    const Tensor& taken = inputs[1].tensor;
    if (taken.dtype() != DType::kBool || taken.num_elements() != 1 || taken.shape().rank() != 0) return false;
    to = *taken.data<bool>() ? 1 : 0;
  }
  if (!inputs[from].tensor.has_value()) return false;
  outputs[to].tensor = std::move(inputs[from].tensor);
  return true;
}

Status FrameExecution::read_inputs(const Ready& ready) {
  const FrameItem& item = plan_.items[ready.item];
  for (std::size_t k = 0; k < item.reads.size(); ++k) {
    if (!item.reads[k]) continue;
    Value& value = ready.iteration->values[item.input_index[k]];
    if (!value.ref) continue;  // a value already, or dead
    TUTTI_RETURN_IF_ERROR(read_reference(value, &value.tensor));
    value.ref.reset();
  }
  return {};
}

Status FrameExecution::run_kernel(const Ready& ready, std::vector<Value>& outputs, bool& pending) {
  const FlushDenormals flush;
  const FrameItem& item = plan_.items[ready.item];
  const NodeItem& node = plan_.table.items[ready.item];
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
                                   .last_use = plan_.all_last_use.data(),
                                   .outputs = outputs.data(),
                                   .output_types = plan_.table.output_types.data() + node.output_types_begin,
                                   .num_inputs = node.num_inputs,
                                   .num_outputs = node.num_outputs,
                                   .loop = &ready.iteration->position,
                                   .sent = node.sent};
  if (node.kind == NodeKind::kKernel) {
    if (HeldWork::waits() && node.node->op().has(kExpensive)) HeldWork::run_now();
    KernelContext context(step_, frame);
    const std::int64_t start = step_.trace ? step_.trace->now() : 0;
    Status status = guarded_compute(*node.kernel, context);
    if (step_.trace) step_.trace->record(*node.node, start, step_.trace->now());
    return status;
  }
  pending = true;
  auto call = std::make_shared<AsyncCall>(ready, std::move(outputs), frame, step_);
  {
    MutexLock lock(mu_);
    ++calls_;
  }
  guarded_compute_async(*node.async_kernel, call->context, [this, call](Status status) {
    const MemoryScope unchecked(nullptr);
    call->status = std::move(status);
    bool drive_on = false;
    {
      MutexLock lock(mu_);
      inbox_.push_back(call);
      drive_on = !driving_;
      driving_ = true;
    }
    if (drive_on) resume(*pool_, *this, [](std::vector<int>& ready) { ready.push_back(0); });
  });
  return {};
}

void FrameExecution::end_item(const Ready& ready, std::vector<Value>& outputs) {
  const FrameItem& item = plan_.items[ready.item];
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

void FrameExecution::propagate(Iteration& iteration, const FrameItem& item, std::vector<Value>& outputs, bool dead) {
  if (item.role == FrameRole::kExit) {
    if (dead) return;  // told to the parent when the frame ends
    Frame& frame = *iteration.frame;
    const auto& exits = frame.def->exits;
    const int self = plan_.frames[item.frame].items[item.local];
    frame.exit_fired[std::find(exits.begin(), exits.end(), self) - exits.begin()] = true;
  }
  Frame* child = item.role == FrameRole::kEnter ? &child_of(iteration, item.child_frame) : nullptr;
  for (const FrameEdge& edge : item.outs) {
    Token token{.to = edge.to, .input = edge.input, .dead = dead};
    if (edge.output != kControlEdge) {
      token.value = edge.last ? std::move(outputs[edge.output]) : outputs[edge.output];
      token.dead = dead || is_dead(token.value);
    }
    switch (item.role) {
      case FrameRole::kEnter:
        if (item.constant_enter) {
          child->invariants.push_back(token);
          for (Iteration& open : child->iterations) deliver(open, token);
        } else {
          deliver(child->iterations.front(), std::move(token));
        }
        break;
      case FrameRole::kExit:
        deliver(*iteration.frame->parent, std::move(token));
        break;
      case FrameRole::kNextIteration:
        if (!token.dead) to_next_iteration(iteration, std::move(token));
        break;
      case FrameRole::kPlain:
      case FrameRole::kSwitch:
      case FrameRole::kMerge:
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
  const FrameItem& item = plan_.items[token.to];
  if (item.role == FrameRole::kMerge) return deliver_merge(iteration, item, std::move(token));
  if (token.input == kControlEdge) {
    if (token.dead && !item.ignores_dead_control) ++iteration.dead[item.local];
  } else {
    if (token.dead) ++iteration.dead[item.local];
    iteration.values[item.first_value + token.input] = std::move(token.value);
  }
  if (--iteration.pending[item.local] == 0) make_ready(iteration, token.to);
}

void FrameExecution::deliver_merge(Iteration& iteration, const FrameItem& item, Token token) {
  const int local = item.local;
  const bool is_loop_merge = item.merge_backs > 0;
  const int expected = is_loop_merge && iteration.position.iteration > 0 ? item.merge_backs : item.merge_entries;
  const bool was_decided = iteration.taken[local] != 0 || iteration.dead[local] == expected;
  if (token.input == kControlEdge) {
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
    child->def = &plan_.frames[def];
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
    for (const FrameEdge& edge : plan_.items[frame.def->exits[e]].outs) {
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
  const FrameItem& item = plan_.items[index];
  if (iteration.pending[item.local] > 0) return false;
  if (item.role != FrameRole::kMerge) return true;
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
    last = plan_.table.items[index].node;
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
  TUTTI_ASSIGN_OR_RETURN(FramePlan plan, FramePlan::create(std::move(table)));
  return std::unique_ptr<Executable>(std::make_unique<FrameExecutable>(std::move(plan), options.pool));
}

}  // namespace tutti::internal
