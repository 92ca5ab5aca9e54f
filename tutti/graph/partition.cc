#include "tutti/graph/partition.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "tutti/core/rendezvous_key.h"
#include "tutti/graph/internal/loop_frames.h"
#include "tutti/graph/internal/part_devices.h"
#include "tutti/graph/internal/reachable_functions.h"

namespace tutti {
namespace {

// "x:1" of "_arg_x_1": the name that a client knows the tensor by.
std::string tensor_of(std::string_view node, std::string_view prefix) {
  std::string name(node.starts_with(prefix) ? node.substr(prefix.size()) : node);
  if (const std::size_t at = name.rfind('_'); at != std::string::npos && at > 0) name[at] = ':';
  return name;
}

// Cuts one body. The steps:
//   1. Every node gets a device and thereby a part, and a copy there, with its inputs open.
//   2. Each part that has nodes of a loop whose condition is elsewhere gets a control loop: Enter, Merge, Switch and
//      NextIteration of an empty tensor, turned by that condition.
//   3. The inputs of the copies are connected, one after another, from a list. An input of another part becomes a
//      receive, and in a loop a receive waits for the Merge of the part's control loop: so it runs once in every
//      iteration, the last one included, as the send does. (What is not computed there travels as a dead value.)
//      An Enter or NextIteration of another part is copied instead, since its value is there in some iterations only;
//      the copy goes to the end of the list. Nothing recurses, so graphs may be of any depth.
class Partitioner {
 public:
  Partitioner(const FunctionBody& body, const PartitionOptions& options)
      : body_(body), graph_(*body.graph), options_(options), next_number_(options.first_number) {}

  Result<Partitioning> run() {
    TUTTI_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph_.topological_order());
    TUTTI_ASSIGN_OR_RETURN(devices_, part_devices(body_, order, options_.client_device));
    TUTTI_ASSIGN_OR_RETURN(frames_, LoopFrames::find(graph_, order));
    find_terminals();
    TUTTI_RETURN_IF_ERROR(make_parts());
    TUTTI_RETURN_IF_ERROR(copy_nodes());
    TUTTI_RETURN_IF_ERROR(turn_loops());
    for (std::size_t i = 0; i < open_.size(); ++i) {
      const Copy copy = open_[i];
      TUTTI_RETURN_IF_ERROR(connect(copy));
    }
    result_.next_number = next_number_;
    return std::move(result_);
  }

 private:
  // A node of a part whose inputs are those of `original`.
  struct Copy {
    Node* node;
    const Node* original;
    int part;
  };

  // ---- Parts and copies ----

  void find_terminals() {
    unused_.assign(graph_.id_limit(), false);
    terminal_.assign(graph_.id_limit(), false);
    for (const Node* arg : body_.args) unused_[arg->id()] = terminal_[arg->id()] = true;
    for (const Node* retval : body_.retvals) terminal_[retval->id()] = true;
    for (const Node* node : graph_.nodes()) {
      for (const Output& input : node->inputs()) {
        if (input) unused_[input.node->id()] = false;
      }
      for (const Node* before : node->control_inputs()) unused_[before->id()] = false;
    }
    // A fed source may be a target: it is run like any other, though nothing comes of it.
    for (const Node* target : body_.targets) unused_[target->id()] = false;
  }

  Status make_parts() {
    std::unordered_map<std::string, std::string> name_of_device;
    std::map<std::string, std::vector<const Node*>> members;
    for (const Node* node : graph_.nodes()) {
      if (unused_[node->id()]) continue;
      const std::string& device = devices_[node->id()];
      auto [it, is_new] = name_of_device.try_emplace(device);
      if (is_new) it->second = options_.part_of(device);
      members[it->second].push_back(node);
    }
    part_of_.assign(graph_.id_limit(), -1);
    for (const auto& [name, nodes] : members) {
      TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<FunctionLibrary> library,
                             reachable_functions(nodes, graph_.shared_library()));
      for (const Node* node : nodes) part_of_[node->id()] = static_cast<int>(result_.parts.size());
      result_.parts.push_back(
          {.name = name, .graph = std::make_unique<Graph>(graph_.shared_ops(), std::move(library))});
      device_of_part_.push_back(devices_[nodes.front()->id()]);
    }
    return {};
  }

  Status copy_nodes() {
    copies_.assign(graph_.id_limit(), nullptr);
    for (std::size_t i = 0; i < body_.args.size(); ++i) TUTTI_RETURN_IF_ERROR(add_feed(static_cast<int>(i)));
    for (const Node* node : graph_.nodes()) {
      if (unused_[node->id()] || terminal_[node->id()]) continue;
      TUTTI_RETURN_IF_ERROR(copy(*node, node->name(), part_of_[node->id()]).status());
    }
    for (std::size_t i = 0; i < body_.retvals.size(); ++i) TUTTI_RETURN_IF_ERROR(add_fetch(static_cast<int>(i)));
    return {};
  }

  Result<Node*> copy(const Node& node, std::string name, int part) {
    TUTTI_ASSIGN_OR_RETURN(Node * copy, graph_of(part).copy_node(node, std::move(name)));
    put_on(*copy, part == part_of_[node.id()] ? devices_[node.id()] : device_of_part_[part]);
    if (part == part_of_[node.id()]) copies_[node.id()] = copy;
    open_.push_back({copy, &node, part});
    return copy;
  }

  Graph& graph_of(int part) { return *result_.parts[part].graph; }

  static void put_on(Node& node, const std::string& device) {
    node.graph().set_requested_device(node, device);
    node.graph().set_assigned_device(node, device);
  }

  // Not the name of a node of any part: numbers are used once, and parts have the graph's own names otherwise.
  std::string new_name(std::string_view source) {
    std::string name;
    do {
      name = str_cat(source, options_.suffix, next_number_++);
    } while (graph_.find(name) != nullptr);
    return name;
  }

  Result<Node*> add(int part, NodeSpec spec, const std::string& device) {
    TUTTI_ASSIGN_OR_RETURN(Node * node, graph_of(part).add_exact(std::move(spec)));
    put_on(*node, device);
    return node;
  }

  // ---- The client's ends ----

  AttrMap terminal_attrs(const std::string& tensor) const {
    return {{"tensor_name", tensor},
            {"send_device", options_.client_device},
            {"send_device_incarnation", static_cast<std::int64_t>(options_.incarnation_of(options_.client_device))},
            {"recv_device", options_.client_device},
            {"client_terminated", true}};
  }

  std::string terminal_key(const std::string& tensor) const {
    return RendezvousKey{.send_device = options_.client_device,
                         .send_incarnation = options_.incarnation_of(options_.client_device),
                         .recv_device = options_.client_device,
                         .name = tensor}
        .to_string();
  }

  // The name of a client's end, which is the same in every cut, unless the graph or another end has it.
  std::string terminal_name(std::string_view prefix, std::string_view rest) {
    std::string name = str_cat(prefix, rest);
    if (graph_.find(name) != nullptr || !terminal_names_.insert(name).second) return new_name(name);
    return name;
  }

  Status add_feed(int index) {
    const Node& arg = *body_.args[index];
    if (unused_[arg.id()]) return {};
    std::string tensor = tensor_of(arg.name(), "_arg_");
    if (!fed_.insert(tensor).second) fed_.insert(tensor = arg.name());
    AttrMap attrs = terminal_attrs(tensor);
    attrs["tensor_type"] = arg.output_types()[0].dtype;
    std::string_view rest = arg.name();
    if (rest.starts_with("_arg_")) rest.remove_prefix(5);
    const int part = part_of_[arg.id()];
    TUTTI_ASSIGN_OR_RETURN(Node * recv,
                           add(part, {.op = "_Recv", .name = terminal_name("_recv_", rest), .attrs = std::move(attrs)},
                               options_.client_device));
    graph_of(part).set_output_shape(*recv, 0, arg.output_shape(0));
    copies_[arg.id()] = recv;
    open_.push_back({recv, &arg, part});
    result_.parts[part].feeds.push_back({.index = index, .key = terminal_key(tensor)});
    return {};
  }

  Status add_fetch(int index) {
    const Node& retval = *body_.retvals[index];
    std::string_view rest = retval.name();
    if (rest.starts_with("_retval_")) rest.remove_prefix(8);
    std::string name = terminal_name("_send_", rest);
    std::string tensor = tensor_of(retval.name(), "_retval_");
    if (fed_.contains(tensor)) {  // both ends of it are the client's, so it needs a second name
      name = new_name(name);
      tensor = name;
    }
    AttrMap attrs = terminal_attrs(tensor);
    attrs["T"] = retval.input_types()[0].dtype;
    const int part = part_of_[retval.id()];
    TUTTI_ASSIGN_OR_RETURN(
        Node * send,
        add(part, {.op = "_Send", .name = std::move(name), .inputs = {Output()}, .attrs = std::move(attrs)},
            options_.client_device));
    copies_[retval.id()] = send;
    open_.push_back({send, &retval, part});
    result_.parts[part].fetches.push_back({.index = index, .key = terminal_key(tensor)});
    return {};
  }

  // ---- Loops ----

  Status turn_loops() {
    if (frames_.frames.size() == 1) return {};
    for (const Node* node : graph_.nodes()) {
      const int frame = frames_.of[node->id()];
      if (frame == 0 || unused_[node->id()]) continue;
      const Node* condition = frames_.frames[frame].condition;
      const int part = part_of_[node->id()];
      if (condition != nullptr && part_of_[condition->id()] == part) continue;
      if (condition == nullptr && !spans_parts(frame)) continue;
      TUTTI_RETURN_IF_ERROR(control_loop(frame, part).status());
    }
    return {};
  }

  // Whether nodes of a loop without a condition, which nobody builds, are in several parts.
  bool spans_parts(int frame) {
    if (parts_of_frame_.empty()) {
      parts_of_frame_.resize(frames_.frames.size());
      for (const Node* node : graph_.nodes()) {
        if (!unused_[node->id()]) parts_of_frame_[frames_.of[node->id()]].insert(part_of_[node->id()]);
      }
    }
    return parts_of_frame_[frame].size() > 1;
  }

  // The control loops of a part hang in one another like the loops they stand for. Made from the outside in.
  Result<Node*> control_loop(int frame, int part) {
    std::vector<int> missing;
    for (int f = frame; f != 0 && !control_loops_.contains({f, part}); f = frames_.frames[f].parent) {
      missing.push_back(f);
    }
    for (; !missing.empty(); missing.pop_back()) {
      TUTTI_RETURN_IF_ERROR(add_control_loop(missing.back(), part));
    }
    return control_loops_.at({frame, part});
  }

  Status add_control_loop(int frame, int part) {
    const LoopFrames::Frame& loop = frames_.frames[frame];
    if (loop.condition == nullptr) {
      return invalid_argument("loop \"", printable(loop.name), "\" is cut between tasks but has no LoopCond");
    }
    const std::string& base = loop.condition->name();
    const std::string& device = device_of_part_[part];
    TUTTI_ASSIGN_OR_RETURN(const Output start, loop_start(loop.parent, part, base));
    TUTTI_ASSIGN_OR_RETURN(
        Node * enter, add(part,
                          {.op = "Enter",
                           .name = new_name(base),
                           .inputs = {start},
                           .attrs = {{"frame_name", loop.name}, {"parallel_iterations", loop.parallel_iterations}}},
                          device));
    TUTTI_ASSIGN_OR_RETURN(Node * merge, add(part,
                                             {.op = "Merge",
                                              .name = new_name(base),
                                              .inputs = {enter->output(), Output()},
                                              .attrs = {{"T", DType::kFloat}, {"N", 2}}},
                                             device));
    control_loops_[{frame, part}] = merge;
    TUTTI_ASSIGN_OR_RETURN(const Output condition, value_in(part, {loop.condition, 0}, nullptr));
    TUTTI_ASSIGN_OR_RETURN(
        Node * turn,
        add(part, {.op = "Switch", .name = new_name(base), .inputs = {merge->output(), condition}}, device));
    TUTTI_ASSIGN_OR_RETURN(
        Node * next, add(part, {.op = "NextIteration", .name = new_name(base), .inputs = {turn->output(1)}}, device));
    return graph_of(part).set_input(*merge, 1, next->output());
  }

  // What enters a control loop: a token of each iteration around it.
  Result<Output> loop_start(int parent, int part, const std::string& base) {
    if (parent != 0) return control_loops_.at({parent, part})->output();
    TUTTI_ASSIGN_OR_RETURN(Node * token, add_token(part, base, {}));
    return token->output();
  }

  // An empty tensor: what travels when only the order matters.
  Result<Node*> add_token(int part, const std::string& base, std::vector<Node*> after) {
    return add(part,
               {.op = "Const",
                .name = new_name(str_cat(base, "/ctrl")),
                .attrs = {{"dtype", DType::kFloat}, {"value", Tensor(DType::kFloat, Shape{0})}},
                .control_inputs = std::move(after)},
               device_of_part_[part]);
  }

  // ---- Edges ----

  Status connect(const Copy& copy) {
    Graph& graph = graph_of(copy.part);
    const Node& original = *copy.original;
    for (int i = 0; i < static_cast<int>(original.inputs().size()); ++i) {
      if (!original.input(i)) continue;
      TUTTI_RETURN_IF_ERROR(check_edge(original, i, copy.part));
      TUTTI_ASSIGN_OR_RETURN(const Output value, value_in(copy.part, original.input(i), &original));
      TUTTI_RETURN_IF_ERROR(graph.set_input(*copy.node, i, value));
    }
    std::vector<Node*> before;
    for (Node* node : original.control_inputs()) {
      TUTTI_ASSIGN_OR_RETURN(Node * there, control_in(copy.part, *node));
      before.push_back(there);
    }
    if (!before.empty()) graph.set_control_inputs(*copy.node, std::move(before));
    return {};
  }

  Status check_edge(const Node& reader, int input, int part) const {
    const Node& source = *reader.input(input).node;
    if (part_of_[source.id()] == part) return {};
    const EdgeType type = reader.input_types()[input];
    if (type.is_ref) {
      return invalid_argument(reader.describe(), " on ", devices_[reader.id()], " needs a reference to ",
                              source.describe(), " on ", devices_[source.id()], ": references do not leave their task");
    }
    if (type.dtype == DType::kResource && !terminal_[reader.id()]) {
      return invalid_argument(reader.describe(), " on ", devices_[reader.id()], " uses the handle that ",
                              source.describe(), " gives on ", devices_[source.id()],
                              ": what it stands for does not leave its task");
    }
    return {};
  }

  // Whether `node` is there in some iterations of its loop only, so that each part needs one of its own.
  static bool is_gate(const Node& node) {
    const LoopRole role = loop_role(node);
    return (role == LoopRole::kEnter || role == LoopRole::kNextIteration) && !node.output_types()[0].is_ref;
  }

  Result<Node*> gate_in(int part, const Node& node) {
    Node*& gate = gates_[{node.id(), part}];
    if (gate != nullptr) return gate;
    TUTTI_ASSIGN_OR_RETURN(gate, copy(node, new_name(node.name()), part));
    return gate;
  }

  // `source` as a value of `part`. `reader`: null for a control loop's own Switch.
  Result<Output> value_in(int part, Output source, const Node* reader) {
    const Node& node = *source.node;
    if (part_of_[node.id()] == part) return Output(copies_[node.id()], source.index);
    if (is_gate(node)) {
      TUTTI_ASSIGN_OR_RETURN(Node * gate, gate_in(part, node));
      return Output(gate, source.index);
    }
    const bool is_read = node.output_types()[source.index].is_ref;
    // What a variable holds is read when it is sent: for each reader, after what that reader waits for.
    if (is_read) return cut(part, source, reader);
    const auto key = std::make_tuple(node.id(), source.index, part);
    if (auto it = received_.find(key); it != received_.end()) return it->second;
    TUTTI_ASSIGN_OR_RETURN(const Output received, cut(part, source, reader));
    received_[key] = received;
    return received;
  }

  Result<Output> cut(int part, Output source, const Node* reader) {
    const Node& node = *source.node;
    const int from = part_of_[node.id()];
    std::vector<Node*> after;
    if (node.output_types()[source.index].is_ref && reader != nullptr) {
      for (const Node* before : reader->control_inputs()) {
        if (part_of_[before->id()] == from) after.push_back(copies_[before->id()]);
      }
    }
    result_.crossings.push_back({.from = result_.parts[from].name,
                                 .to = result_.parts[part].name,
                                 .tensor = terminal_[node.id()] ? tensor_of(node.name(), "_arg_") : source.name(),
                                 .dtype = source.dtype(),
                                 .shape = source.shape(),
                                 .in_loop = frames_.of_outputs[node.id()] != 0});
    return transfer(node, {copies_[node.id()], source.index}, reader, std::move(after), part);
  }

  Result<Node*> control_in(int part, const Node& node) {
    if (part_of_[node.id()] == part) return copies_[node.id()];
    if (is_gate(node)) return gate_in(part, node);
    Node*& arrived = arrivals_[{node.id(), part}];
    if (arrived != nullptr) return arrived;
    const int from = part_of_[node.id()];
    TUTTI_ASSIGN_OR_RETURN(Node * token, add_token(from, node.name(), {copies_[node.id()]}));
    put_on(*token, devices_[node.id()]);
    TUTTI_ASSIGN_OR_RETURN(const Output received, transfer(node, token->output(), nullptr, {}, part));
    TUTTI_ASSIGN_OR_RETURN(arrived, add(part, {.op = "Identity", .name = new_name(node.name()), .inputs = {received}},
                                        device_of_part_[part]));
    result_.crossings.push_back({.from = result_.parts[from].name,
                                 .to = result_.parts[part].name,
                                 .tensor = str_cat("^", node.name()),
                                 .dtype = DType::kFloat,
                                 .shape = PartialShape{0},
                                 .in_loop = frames_.of_outputs[node.id()] != 0});
    return arrived;
  }

  // Sends `value`, which comes from `source`, after these nodes to `part`.
  Result<Output> transfer(const Node& source, Output value, const Node* reader, std::vector<Node*> after, int part) {
    const std::string& recv_device =
        reader != nullptr && part_of_[reader->id()] == part ? devices_[reader->id()] : device_of_part_[part];
    const std::string& send_device = devices_[source.id()];
    AttrMap attrs{{"tensor_name", str_cat("edge_", next_edge_++, "_", source.name())},
                  {"send_device", send_device},
                  {"send_device_incarnation", static_cast<std::int64_t>(options_.incarnation_of(send_device))},
                  {"recv_device", recv_device},
                  {"client_terminated", false},
                  {"_src", source.name()}};
    if (reader != nullptr) attrs["_dst"] = reader->name();
    AttrMap recv_attrs = attrs;
    attrs["T"] = value.dtype();
    recv_attrs["tensor_type"] = value.dtype();
    TUTTI_RETURN_IF_ERROR(add(part_of_[source.id()],
                              {.op = "_Send",
                               .name = new_name(source.name()),
                               .inputs = {value},
                               .attrs = std::move(attrs),
                               .control_inputs = std::move(after)},
                              send_device)
                              .status());
    std::vector<Node*> iteration;
    if (const int frame = frames_.of_outputs[source.id()]; frame != 0) {
      TUTTI_ASSIGN_OR_RETURN(Node * merge, control_loop(frame, part));
      iteration.push_back(merge);
    }
    TUTTI_ASSIGN_OR_RETURN(Node * recv, add(part,
                                            {.op = "_Recv",
                                             .name = new_name(source.name()),
                                             .attrs = std::move(recv_attrs),
                                             .control_inputs = std::move(iteration)},
                                            recv_device));
    graph_of(part).set_output_shape(*recv, 0, value.shape());
    return recv->output();
  }

  const FunctionBody& body_;
  const Graph& graph_;
  const PartitionOptions& options_;

  std::vector<std::string> devices_;  // by node id
  std::vector<bool> unused_;          // by node id: an argument that nothing reads
  std::vector<bool> terminal_;        // by node id: an argument or result of the body
  LoopFrames frames_;
  std::vector<int> part_of_;                   // by node id
  std::vector<std::string> device_of_part_;    // for nodes that could be on any of its devices
  std::vector<Node*> copies_;                  // by node id, in the node's own part
  std::vector<std::set<int>> parts_of_frame_;  // empty until asked for
  std::set<std::string> terminal_names_;
  std::set<std::string> fed_;

  std::map<std::pair<int, int>, Node*> control_loops_;    // their Merges, by frame and part
  std::map<std::pair<int, int>, Node*> gates_;            // by node id and part
  std::map<std::pair<int, int>, Node*> arrivals_;         // of control edges, by node id and part
  std::map<std::tuple<int, int, int>, Output> received_;  // by node id, output and part
  std::vector<Copy> open_;                                // in the order in which they are connected
  std::int64_t next_edge_ = 0;
  std::int64_t next_number_;
  Partitioning result_;
};

}  // namespace

Result<Partitioning> partition(const FunctionBody& body, const PartitionOptions& options) {
  return Partitioner(body, options).run();
}

}  // namespace tutti
