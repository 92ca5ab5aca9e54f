#include "task_session.h"

#include <deque>
#include <functional>
#include <utility>

#include "tutti/core/rendezvous_key.h"
#include "tutti/graph/graph.h"
#include "tutti/graph/graph_def.h"
#include "tutti/ops/op_table.h"

namespace tutti::sim {
namespace {

struct SimGraph : TaskGraph {
  Graph graph{builtin_ops()};
  std::string bytes;
  std::vector<std::string> keys;
  std::string graph_def() const override { return bytes; }
  const std::vector<std::string>& received() const override { return keys; }
};

std::string key_of(const Node& node) {
  return RendezvousKey{
      .send_device = node.attr<std::string>("send_device"),
      .send_incarnation = static_cast<std::uint64_t>(node.attr<std::int64_t>("send_device_incarnation")),
      .recv_device = node.attr<std::string>("recv_device"),
      .name = node.attr<std::string>("tensor_name")}
      .to_string();
}

// One step of one part: nodes run one after another, as their inputs come, with pauses between.
class SimStep : public std::enable_shared_from_this<SimStep> {
 public:
  SimStep(ManualClock& clock, std::mt19937_64& random, SimState& state, Observations& observations,
          std::shared_ptr<const SimGraph> graph, const TaskStep& step, TaskSession::Done done)
      : clock_(clock),
        random_(random),
        state_(state),
        observations_(observations),
        alive_(state.alive),
        graph_(std::move(graph)),
        step_(step),
        done_(std::move(done)) {}

  void start() {
    ++observations_.steps_running;
    consumers_ = graph_->graph.consumers();
    for (Node* node : graph_->graph.nodes()) {
      std::set<const Node*> before;
      for (const Output& input : node->inputs()) before.insert(input.node);
      before.insert(node->control_inputs().begin(), node->control_inputs().end());
      waits_for_[node] = before.size();
      if (before.empty()) ready_.push_back(node);
    }
    left_ = waits_for_.size();
    cancelled_ = step_.cancellation->register_callback([self = shared_from_this()] {
      self->cancelled_ = 0;
      self->end(self->step_.cancellation->status());
    });
    if (cancelled_ == 0) return end(step_.cancellation->status());
    go_on();
  }

 private:
  // A moment later, so that faults find steps in every phase.
  void go_on() {
    if (!done_) return;
    if (left_ == 0) return end({});
    if (ready_.empty()) return;
    const Duration pause = std::chrono::microseconds(random_() % 300);
    clock_.call_at(clock_.now() + pause, [self = shared_from_this(), alive = alive_] {
      if (*alive && self->done_) self->run_one();
    });
  }

  void run_one() {
    if (ready_.empty()) return;
    Node* node = ready_.front();
    ready_.pop_front();
    if (node->op_name() == "_Recv") {
      go_on();
      return step_.rendezvous->recv(
          key_of(*node), *step_.cancellation,
          [self = shared_from_this(), node, alive = alive_](Status status, Tensor value, bool) {
            if (!*alive || !self->done_) return;
            if (!status.ok()) return self->end(std::move(status));
            self->complete(*node, std::move(value));
          });
    }
    Result<Tensor> value = compute(*node);
    if (!value.ok()) return end(value.status());
    complete(*node, *std::move(value));
  }

  void complete(const Node& node, Tensor value) {
    values_[&node] = std::move(value);
    --left_;
    for (Node* reader : consumers_[node.id()]) {
      if (--waits_for_[reader] == 0) ready_.push_back(reader);
    }
    go_on();
  }

  std::int64_t input(const Node& node, int index) { return values_[node.input(index).node].scalar<std::int64_t>(); }

  Result<Tensor> compute(const Node& node) {
    const std::string& op = node.op_name();
    const auto number = [](std::int64_t value) { return Tensor::scalar(value); };
    if (op == "Const") return node.attr<Tensor>("value");
    if (op == "NoOp" || op == "VarHandleOp") return number(0);
    if (op == "Identity") return values_[node.input(0).node];
    if (op == "AddV2") return number(input(node, 0) + input(node, 1));
    if (op == "ReadVariableOp") return number(state_.variables[variable(node)]);
    if (op == "AssignAddVariableOp") {
      state_.variables[variable(node)] += input(node, 1);
      observations_.effects.push_back({state_.task, state_.life, step_.id, node.name(), input(node, 1)});
      return number(0);
    }
    if (op == "_Send") {
      TUTTI_RETURN_IF_ERROR(step_.rendezvous->send(key_of(node), values_[node.input(0).node], false));
      return number(0);
    }
    return unimplemented("the simulator does not know ", op);
  }

  static std::string variable(const Node& node) { return node.input(0).node->attr<std::string>("shared_name"); }

  void end(Status status) {
    if (!done_) return;
    if (cancelled_ != 0) step_.cancellation->deregister(std::exchange(cancelled_, 0));
    --observations_.steps_running;
    std::exchange(done_, nullptr)(std::move(status));
  }

  ManualClock& clock_;
  std::mt19937_64& random_;
  SimState& state_;
  Observations& observations_;
  const std::shared_ptr<bool> alive_;
  const std::shared_ptr<const SimGraph> graph_;
  const TaskStep step_;
  TaskSession::Done done_;
  Cancellation::Token cancelled_ = 0;
  std::vector<std::vector<Node*>> consumers_;
  std::map<const Node*, std::size_t> waits_for_;
  std::map<const Node*, Tensor> values_;
  std::deque<Node*> ready_;
  std::size_t left_ = 0;
};

class SimTaskSession : public TaskSession {
 public:
  SimTaskSession(ManualClock& clock, std::mt19937_64& random, SimState& state, Observations& observations)
      : clock_(clock), random_(random), state_(state), observations_(observations) {
    ++observations_.sessions;
  }
  ~SimTaskSession() override { --observations_.sessions; }

  Result<std::shared_ptr<const TaskGraph>> add_graph(std::string_view graph_def, const TaskGraphOptions&) override {
    auto graph = std::make_shared<SimGraph>();
    TUTTI_RETURN_IF_ERROR(import_graph_def(graph_def, graph->graph));
    for (const Node* node : graph->graph.nodes()) {
      if (node->op_name() == "_Recv") graph->keys.push_back(key_of(*node));
    }
    return std::shared_ptr<const TaskGraph>(std::move(graph));
  }

  void run(const std::shared_ptr<const TaskGraph>& graph, const TaskStep& step, Done done) override {
    std::make_shared<SimStep>(clock_, random_, state_, observations_, std::static_pointer_cast<const SimGraph>(graph),
                              step, std::move(done))
        ->start();
  }

 private:
  ManualClock& clock_;
  std::mt19937_64& random_;
  SimState& state_;
  Observations& observations_;
};

}  // namespace

std::unique_ptr<TaskSession> make_sim_session(ManualClock& clock, std::mt19937_64& random, SimState& state,
                                              Observations& observations) {
  return std::make_unique<SimTaskSession>(clock, random, state, observations);
}

}  // namespace tutti::sim
