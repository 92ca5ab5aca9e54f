// Runs bodies without v1 control flow.
//
// Nodes are grouped into segments: all nodes of a segment wait for the same asynchronous nodes, so once one
// of them may run, all may, one after the other, on one thread, without scheduling. An asynchronous node
// is a segment of its own. A body in which nothing waits is a single segment.
//
// How nodes get their segments (in topological order): an asynchronous node starts one. Any other node joins
// the segment that all its predecessors are in, or whose own predecessors cover the rest; else it goes to the
// segment made for exactly its set of predecessor segments. By induction every node of a segment truly waits for
// every asynchronous node that any of them waits for: grouping delays nothing and adds no cycle.
//
// With `parallel_nodes`, expensive nodes are segments too, and run beside each other on the pool.
//
// A receive may bring a dead value: the sender's branch was not taken. Everything that waits for it is then dead too:
// it does not run, except for transfers, which tell their other end. Since all nodes of a segment wait for the same
// asynchronous nodes, segments live or die as a whole, and bodies that receive nothing pay nothing.

#include <algorithm>
#include <atomic>
#include <map>
#include <span>
#include <utility>

#include "tutti/core/flush_denormals.h"
#include "tutti/kernels/guard.h"
#include "tutti/runtime/held_work.h"
#include "tutti/runtime/internal/node_table.h"
#include "tutti/runtime/internal/resume.h"
#include "tutti/runtime/step_stats.h"

namespace tutti::internal {
namespace {

struct Range {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

struct Item {
  NodeKind kind;
  bool is_transfer;
  bool sent;
  bool is_long;  // what others wait for goes out first
  Kernel* kernel;
  int num_inputs;
  int num_outputs;
  std::uint32_t inputs_begin;  // into input_slots_ and last_use_
  std::uint32_t output_slot;   // first of its outputs
  std::uint32_t output_types_begin;
  Range reads;    // into reads_: references to read first
  Range frees;    // into frees_: slots nobody needs afterwards
  Range counted;  // into counted_: slots shared with other segments, given back by count
  int index;
  AsyncKernel* async_kernel;
  const Node* node;
};

// What reads as much takes longer than it takes to wake who waits for held work.
constexpr std::size_t kLongBytes = std::size_t{256} << 10;

struct ReferenceRead {
  std::uint32_t from;
  std::uint32_t to;
};

struct Segment {
  std::vector<int> items;
  std::vector<int> successors;
  int num_predecessors = 0;
  bool to_pool = false;  // worth a thread of its own
};

class SegmentExecutable;

// One run. Reused by later runs of the same executable.
class Execution final : public WaitingRun {
 public:
  explicit Execution(const SegmentExecutable& plan);

  void start(StepScope& step, std::vector<Tensor> args, Executable::Done done);
  void go_on(std::vector<int> ready) override;

 private:
  // An asynchronous kernel under way. Shared by the caller and the callback, whichever ends last.
  struct AsyncCall {
    explicit AsyncCall(KernelContext c) : context(std::move(c)) {}
    KernelContext context;
    // Set by the first of: the callback, the return of compute_async. The second goes on with the run
    // (acq_rel: it sees `status`).
    std::atomic<bool> first_is_done{false};
    Status status;
    std::int64_t start_nanos = 0;
  };

  void drain(std::vector<int> ready);
  // Both return false when the run has ended, and with it possibly this object.
  bool run_segment(int segment, std::vector<int>& ready);
  bool end_segment(int segment, const Status& status, std::vector<int>& ready);
  Status run_items(const Segment& segment);
  Status skip_items(const Segment& segment);
  void end_receive(int segment, const Item& item);
  bool is_dead(int segment) const { return dead_ != nullptr && dead_[segment].load(std::memory_order_relaxed); }
  Status run_item(const Item& item);
  Status begin_item(const Item& item);
  void end_item(const Item& item);
  bool start_async(int segment, std::vector<int>& ready);
  bool takes_long(const Item& item) const;
  KernelContext context_for(const Item& item);
  void fail(const Status& status);
  void finish();

  const SegmentExecutable& plan_;
  StepScope* step_ = nullptr;
  std::vector<Value> slots_;
  std::vector<Tensor> args_;
  std::vector<Tensor> results_;
  Executable::Done done_;
  // Counts of what a segment still waits for, and of the readers a shared slot still has. Decrements are
  // acq_rel: the last one sees what the others wrote.
  std::unique_ptr<std::atomic<int>[]> pending_;
  std::unique_ptr<std::atomic<int>[]> uses_;
  // Per segment, null when nothing is received. Written before a segment's pending count goes down, read after.
  std::unique_ptr<std::atomic<bool>[]> dead_;
  // Segments that run or are about to; the run ends when none is left.
  std::atomic<int> active_{0};
  std::atomic<bool> failed_{false};  // relaxed hint; the status itself is guarded
  Mutex mu_;
  Status status_ TUTTI_GUARDED_BY(mu_);
};

class SegmentExecutable : public Executable {
 public:
  SegmentExecutable(NodeTable table, const CompileOptions& options);

  bool may_block() const override { return table_.may_block; }
  int num_args() const override { return table_.num_args; }
  const Graph& graph() const override { return *table_.graph; }

 private:
  void start(StepScope& step, std::vector<Tensor> args, Done done) const override;
  friend class Execution;
  void lay_out_items();
  void make_segments(bool parallel_nodes);
  void plan_lifetimes();
  std::unique_ptr<Execution> take_execution() const;
  void give_back(std::unique_ptr<Execution> execution) const;

  const NodeTable table_;
  ThreadPool* const pool_;
  std::vector<Item> items_;
  std::vector<std::uint32_t> input_slots_;
  std::vector<std::uint8_t> last_use_;
  std::vector<ReferenceRead> reads_;
  std::vector<std::uint32_t> frees_;
  std::vector<std::uint32_t> counted_;       // indices into uses
  std::vector<std::uint32_t> counted_slot_;  // use index -> slot
  std::vector<int> initial_uses_;
  std::vector<Segment> segments_;
  std::vector<int> segment_of_;
  std::vector<int> roots_;
  std::uint32_t num_slots_ = 0;
  bool receives_ = false;  // segments may be dead

  // Idle executions, most recently used last: their memory is warm.
  mutable Mutex mu_;
  mutable std::vector<std::unique_ptr<Execution>> idle_ TUTTI_GUARDED_BY(mu_);
};

// ---- Compilation ----

SegmentExecutable::SegmentExecutable(NodeTable table, const CompileOptions& options)
    : table_(std::move(table)), pool_(options.pool) {
  lay_out_items();
  make_segments(options.parallel_nodes && pool_ != nullptr);
  plan_lifetimes();
}

void SegmentExecutable::lay_out_items() {
  items_.reserve(table_.items.size());
  for (const NodeItem& from : table_.items) {
    Item item{.kind = from.kind,
              .is_transfer = from.node->op().has(kTransfer),
              .sent = from.sent,
              .is_long = from.node->op().has(kExpensive),
              .kernel = from.kernel,
              .num_inputs = from.num_inputs,
              .num_outputs = from.num_outputs,
              .output_slot = num_slots_,
              .output_types_begin = from.output_types_begin,
              .index = from.index,
              .async_kernel = from.async_kernel,
              .node = from.node};
    num_slots_ += static_cast<std::uint32_t>(from.num_outputs);
    receives_ = receives_ || (item.is_transfer && item.num_outputs > 0);
    items_.push_back(item);
  }
  for (std::size_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    item.inputs_begin = static_cast<std::uint32_t>(input_slots_.size());
    item.reads.begin = static_cast<std::uint32_t>(reads_.size());
    for (const InputEdge& edge : table_.inputs[i]) {
      std::uint32_t slot = items_[edge.from].output_slot + static_cast<std::uint32_t>(edge.output);
      if (edge.is_read) {
        reads_.push_back({slot, num_slots_});
        slot = num_slots_++;
      }
      input_slots_.push_back(slot);
    }
    item.reads.end = static_cast<std::uint32_t>(reads_.size());
  }
}

void SegmentExecutable::make_segments(bool parallel_nodes) {
  segment_of_.assign(items_.size(), -1);
  std::vector<std::vector<int>> predecessors;  // per segment, sorted
  std::map<std::vector<int>, int> by_predecessors;
  auto new_segment = [&](std::vector<int> before) {
    segments_.emplace_back();
    predecessors.push_back(std::move(before));
    return static_cast<int>(segments_.size()) - 1;
  };
  auto find_segment = [&](const std::vector<int>& before) {
    // Joins the latest predecessor when that one waits for all the others already.
    if (!before.empty()) {
      const int last = before.back();
      const bool closed =
          items_[segments_[last].items.front()].kind == NodeKind::kAsyncKernel || segments_[last].to_pool;
      if (!closed && std::all_of(before.begin(), before.end() - 1, [&](int s) {
            return std::binary_search(predecessors[last].begin(), predecessors[last].end(), s);
          })) {
        return last;
      }
    }
    auto [it, is_new] = by_predecessors.try_emplace(before, 0);
    if (is_new) it->second = new_segment(before);
    return it->second;
  };

  for (std::size_t i = 0; i < items_.size(); ++i) {
    std::vector<int> before;
    for (const InputEdge& edge : table_.inputs[i]) before.push_back(segment_of_[edge.from]);
    for (int from : table_.control_inputs[i]) before.push_back(segment_of_[from]);
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());

    const bool alone = items_[i].kind == NodeKind::kAsyncKernel ||
                       (parallel_nodes && items_[i].kind == NodeKind::kKernel && items_[i].node->op().has(kExpensive));
    const int segment = alone ? new_segment(before) : find_segment(before);
    segments_[segment].items.push_back(static_cast<int>(i));
    segments_[segment].to_pool = alone && items_[i].kind != NodeKind::kAsyncKernel;
    segment_of_[i] = segment;
  }
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    segments_[s].num_predecessors = static_cast<int>(predecessors[s].size());
    for (int before : predecessors[s]) segments_[before].successors.push_back(static_cast<int>(s));
    if (predecessors[s].empty()) roots_.push_back(static_cast<int>(s));
  }
  // What waits for the outside is asked for before anything is computed; `drain` takes from the back.
  std::stable_partition(roots_.begin(), roots_.end(),
                        [&](int s) { return items_[segments_[s].items.front()].kind != NodeKind::kAsyncKernel; });
}

// A slot whose readers are all in its own segment dies after the last of them, known here. One that other
// segments read is counted down at run time. Slots nobody reads die with the node that wrote them.
void SegmentExecutable::plan_lifetimes() {
  std::vector<int> producer(num_slots_, -1);
  std::vector<int> last_reader(num_slots_, -1);
  std::vector<int> num_readers(num_slots_, 0);
  std::vector<bool> crosses(num_slots_, false);
  for (std::size_t i = 0; i < items_.size(); ++i) {
    for (int o = 0; o < items_[i].num_outputs; ++o) producer[items_[i].output_slot + o] = static_cast<int>(i);
  }
  auto readers = [&](std::size_t i, auto visit) {
    const Item& item = items_[i];
    for (std::uint32_t r = item.reads.begin; r < item.reads.end; ++r) visit(reads_[r].from);
    for (int k = 0; k < item.num_inputs; ++k) {
      const std::uint32_t slot = input_slots_[item.inputs_begin + k];
      if (producer[slot] >= 0) visit(slot);
    }
  };
  for (std::size_t i = 0; i < items_.size(); ++i) {
    readers(i, [&](std::uint32_t slot) {
      last_reader[slot] = static_cast<int>(i);
      ++num_readers[slot];
      if (segment_of_[producer[slot]] != segment_of_[i]) crosses[slot] = true;
    });
  }
  std::vector<int> use_index(num_slots_, -1);
  for (std::uint32_t slot = 0; slot < num_slots_; ++slot) {
    if (!crosses[slot]) continue;
    use_index[slot] = static_cast<int>(initial_uses_.size());
    initial_uses_.push_back(num_readers[slot]);
    counted_slot_.push_back(slot);
  }

  last_use_.assign(input_slots_.size(), 0);
  for (std::size_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    item.frees.begin = static_cast<std::uint32_t>(frees_.size());
    item.counted.begin = static_cast<std::uint32_t>(counted_.size());
    for (std::uint32_t r = item.reads.begin; r < item.reads.end; ++r) frees_.push_back(reads_[r].to);
    readers(i, [&](std::uint32_t slot) {
      if (crosses[slot]) {
        counted_.push_back(static_cast<std::uint32_t>(use_index[slot]));
      } else if (last_reader[slot] == static_cast<int>(i)) {
        frees_.push_back(slot);
        last_reader[slot] = -1;  // listed once, even when the node reads it twice
      }
    });
    for (int o = 0; o < item.num_outputs; ++o) {
      if (num_readers[item.output_slot + o] == 0) frees_.push_back(item.output_slot + o);
    }
    item.frees.end = static_cast<std::uint32_t>(frees_.size());
    item.counted.end = static_cast<std::uint32_t>(counted_.size());
    const auto inputs = std::span(input_slots_).subspan(item.inputs_begin, item.num_inputs);
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      // What comes in twice is written over by nobody: the node would read what it has written.
      const bool freed = std::find(frees_.begin() + item.frees.begin, frees_.end(), inputs[k]) != frees_.end();
      last_use_[item.inputs_begin + k] = freed && std::ranges::count(inputs, inputs[k]) == 1;
    }
  }
}

std::unique_ptr<Execution> SegmentExecutable::take_execution() const {
  {
    MutexLock lock(mu_);
    if (!idle_.empty()) {
      std::unique_ptr<Execution> execution = std::move(idle_.back());
      idle_.pop_back();
      return execution;
    }
  }
  return std::make_unique<Execution>(*this);
}

void SegmentExecutable::give_back(std::unique_ptr<Execution> execution) const {
  constexpr std::size_t kMaxIdle = 16;  // more concurrent runs than this make new ones each time
  MutexLock lock(mu_);
  if (idle_.size() < kMaxIdle) idle_.push_back(std::move(execution));
}

void SegmentExecutable::start(StepScope& step, std::vector<Tensor> args, Done done) const {
  // The execution owns itself while it runs, and gives itself back when it ends.
  take_execution().release()->start(step, std::move(args), std::move(done));
}

// ---- Execution ----

Execution::Execution(const SegmentExecutable& plan)
    : plan_(plan),
      slots_(plan.num_slots_),
      pending_(std::make_unique<std::atomic<int>[]>(plan.segments_.size())),
      uses_(std::make_unique<std::atomic<int>[]>(plan.initial_uses_.size())),
      dead_(plan.receives_ ? std::make_unique<std::atomic<bool>[]>(plan.segments_.size()) : nullptr) {}

void Execution::start(StepScope& step, std::vector<Tensor> args, Executable::Done done) {
  step_ = &step;
  args_ = std::move(args);
  results_.resize(plan_.table_.num_results);
  done_ = std::move(done);
  failed_.store(false, std::memory_order_relaxed);
  for (std::size_t s = 0; s < plan_.segments_.size(); ++s) {
    pending_[s].store(plan_.segments_[s].num_predecessors, std::memory_order_relaxed);
    if (dead_) dead_[s].store(false, std::memory_order_relaxed);
  }
  for (std::size_t u = 0; u < plan_.initial_uses_.size(); ++u) {
    uses_[u].store(plan_.initial_uses_[u], std::memory_order_relaxed);
  }
  if (plan_.roots_.empty()) return finish();
  active_.store(static_cast<int>(plan_.roots_.size()), std::memory_order_relaxed);
  drain(plan_.roots_);
}

void Execution::go_on(std::vector<int> ready) {
  const HeldWork held;
  drain(std::move(ready));
}

void Execution::drain(std::vector<int> ready) {
  const MemoryScope unchecked(nullptr);  // a kernel of another body may be around it
  while (!ready.empty()) {
    const int segment = ready.back();
    ready.pop_back();
    if (plan_.segments_[segment].to_pool && !ready.empty()) {
      plan_.pool_->schedule([this, segment] { drain({segment}); });
      continue;
    }
    if (!run_segment(segment, ready)) return;
  }
}

bool Execution::run_segment(int segment, std::vector<int>& ready) {
  const Segment& s = plan_.segments_[segment];
  const bool dead = is_dead(segment);
  const Item& first = plan_.items_[s.items.front()];
  if (first.kind == NodeKind::kAsyncKernel && (!dead || first.is_transfer)) return start_async(segment, ready);
  return end_segment(segment, dead ? skip_items(s) : run_items(s), ready);
}

bool Execution::end_segment(int segment, const Status& status, std::vector<int>& ready) {
  if (!status.ok()) {
    fail(status);
  } else if (!failed_.load(std::memory_order_relaxed)) {
    const bool dead = is_dead(segment);
    for (int next : plan_.segments_[segment].successors) {
      if (dead) dead_[next].store(true, std::memory_order_relaxed);
      if (pending_[next].fetch_sub(1, std::memory_order_acq_rel) == 1) {
        active_.fetch_add(1, std::memory_order_relaxed);
        ready.push_back(next);
      }
    }
  }
  if (active_.fetch_sub(1, std::memory_order_acq_rel) > 1) return true;
  finish();
  return false;
}

Status Execution::run_items(const Segment& segment) {
  const FlushDenormals flush;
  for (int i : segment.items) {
    TUTTI_RETURN_IF_ERROR(run_item(plan_.items_[i]));
  }
  return {};
}

// Of a dead segment: lets go of what its nodes would have read, and lets transfers send their dead values on.
Status Execution::skip_items(const Segment& segment) {
  for (int i : segment.items) {
    const Item& item = plan_.items_[i];
    if (item.kind == NodeKind::kRetval) return dead_result(plan_.table_.items[i]);
    if (item.is_transfer) {
      TUTTI_RETURN_IF_ERROR(run_item(item));
    } else {
      end_item(item);
    }
  }
  return {};
}

// A receive is dead when its value is, and its value when it is.
void Execution::end_receive(int segment, const Item& item) {
  Tensor& value = slots_[item.output_slot].tensor;
  if (!value.has_value()) dead_[segment].store(true, std::memory_order_relaxed);
  if (is_dead(segment)) value.reset();
}

KernelContext Execution::context_for(const Item& item) {
  return KernelContext(*step_, {.slots = slots_.data(),
                                .input_index = plan_.input_slots_.data() + item.inputs_begin,
                                .last_use = plan_.last_use_.data() + item.inputs_begin,
                                .outputs = slots_.data() + item.output_slot,
                                .output_types = plan_.table_.output_types.data() + item.output_types_begin,
                                .num_inputs = item.num_inputs,
                                .num_outputs = item.num_outputs,
                                .sent = item.sent});
}

bool Execution::takes_long(const Item& item) const {
  if (item.is_long) return true;
  if (item.is_transfer) return false;
  std::size_t bytes = 0;
  for (int k = 0; k < item.num_inputs; ++k) {
    const Tensor& input = slots_[plan_.input_slots_[item.inputs_begin + k]].tensor;
    if (input.has_value()) bytes += input.bytes();
  }
  return bytes >= kLongBytes;
}

Status Execution::begin_item(const Item& item) {
  if (step_->cancellation->cancelled()) [[unlikely]]
    return step_->cancellation->status();
  for (std::uint32_t r = item.reads.begin; r < item.reads.end; ++r) {
    const ReferenceRead& read = plan_.reads_[r];
    if (item.is_transfer && !slots_[read.from].ref) continue;  // dead
    Status status = read_reference(slots_[read.from], &slots_[read.to].tensor);
    if (!status.ok()) [[unlikely]]
      return plan_.table_.annotate(*item.node, status);
  }
  return {};
}

void Execution::end_item(const Item& item) {
  for (std::uint32_t f = item.frees.begin; f < item.frees.end; ++f) {
    Value& value = slots_[plan_.frees_[f]];
    value.tensor.reset();
    if (value.ref) value.ref.reset();
  }
  for (std::uint32_t c = item.counted.begin; c < item.counted.end; ++c) {
    const std::uint32_t use = plan_.counted_[c];
    if (uses_[use].fetch_sub(1, std::memory_order_acq_rel) > 1) continue;
    Value& value = slots_[plan_.counted_slot_[use]];
    value.tensor.reset();
    value.ref.reset();
  }
}

Status Execution::run_item(const Item& item) {
  TUTTI_RETURN_IF_ERROR(begin_item(item));
  switch (item.kind) {
    case NodeKind::kArg:
      slots_[item.output_slot].tensor = std::move(args_[item.index]);
      break;
    case NodeKind::kRetval:
      results_[item.index] = slots_[plan_.input_slots_[item.inputs_begin]].tensor;
      break;
    case NodeKind::kKernel: {
      if (HeldWork::waits() && takes_long(item)) HeldWork::run_now();
      KernelContext context = context_for(item);
      const std::int64_t start = step_->trace ? step_->trace->now() : 0;
      Status status = guarded_compute(*item.kernel, context);
      if (step_->trace) [[unlikely]]
        step_->trace->record(*item.node, start, step_->trace->now());
      if (!status.ok()) [[unlikely]]
        return plan_.table_.annotate(*item.node, status);
      break;
    }
    case NodeKind::kAsyncKernel:
    case NodeKind::kNothing:
      break;
  }
  end_item(item);
  return {};
}

bool Execution::start_async(int segment, std::vector<int>& ready) {
  const Item& item = plan_.items_[plan_.segments_[segment].items.front()];
  Status begun = begin_item(item);
  if (!begun.ok()) return end_segment(segment, begun, ready);

  auto call = std::make_shared<AsyncCall>(context_for(item));
  if (step_->trace) call->start_nanos = step_->trace->now();
  auto end_call = [this, segment, &item](AsyncCall& ended, std::vector<int>& next) {
    if (step_->trace) step_->trace->record(*item.node, ended.start_nanos, step_->trace->now());
    Status status = std::move(ended.status);
    if (status.ok()) {
      if (item.is_transfer && item.num_outputs > 0) end_receive(segment, item);
      end_item(item);
    } else {
      status = plan_.table_.annotate(*item.node, status);
    }
    return end_segment(segment, status, next);
  };
  guarded_compute_async(*item.async_kernel, call->context, [this, call, end_call](Status status) {
    const MemoryScope unchecked(nullptr);
    call->status = std::move(status);
    if (!call->first_is_done.exchange(true, std::memory_order_acq_rel)) return;  // the starter goes on
    // Whoever ended the wait has work of its own.
    resume(*plan_.pool_, *this, [call, end_call](std::vector<int>& next) { end_call(*call, next); });
  });
  if (!call->first_is_done.exchange(true, std::memory_order_acq_rel)) return true;  // the callback goes on
  return end_call(*call, ready);
}

void Execution::fail(const Status& status) {
  failed_.store(true, std::memory_order_relaxed);
  {
    MutexLock lock(mu_);
    if (!status_.ok()) return;
    status_ = status;
  }
  // Wakes the run's nodes that wait for the outside.
  step_->cancellation->cancel(status);
}

void Execution::finish() {
  Status status;
  {
    MutexLock lock(mu_);
    std::swap(status, status_);
  }
  if (!status.ok()) {
    for (Value& value : slots_) value = {};
  }
  Executable::Done done = std::move(done_);
  std::vector<Tensor> results = std::move(results_);
  done_ = nullptr;
  results_.clear();
  args_.clear();
  plan_.give_back(std::unique_ptr<Execution>(this));
  if (!status.ok()) results.clear();
  done(std::move(status), std::move(results));
}

}  // namespace

Result<std::unique_ptr<Executable>> compile_segments(NodeTable table, const CompileOptions& options) {
  return std::unique_ptr<Executable>(std::make_unique<SegmentExecutable>(std::move(table), options));
}

}  // namespace tutti::internal
