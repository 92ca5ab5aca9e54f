#include "tutti/graph/placement.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "tutti/graph/internal/purity.h"

namespace tutti {
namespace {

constexpr std::string_view kColocationPrefix = "loc:@";

// Nodes that go together, and what they ask for.
struct Group {
  std::vector<Node*> members;
  const Node* asking = nullptr;       // the first that asks for anything; null: nobody
  DeviceName asked;                   // by all of them, merged
  DeviceName state;                   // by the variables and handles among them: users do not override it
  DeviceName assigned;                // of the state that is somewhere already
  std::vector<std::size_t> feasible;  // indices into the devices, best first; empty until worked out
  std::optional<std::size_t> chosen;
};

Status cannot_assign(const Node& node, std::string_view why) {
  return invalid_argument("Cannot assign a device for operation ", printable(node.name()), ": ", why);
}

// No inputs and one plain output.
bool is_generator(const Node& node) {
  return node.inputs().empty() && node.num_outputs() == 1 && !node.output_types()[0].is_ref;
}

// A variable, or a handle of one or of a queue.
bool makes_state(const Node& node) {
  if (!node.inputs().empty() || node.num_outputs() != 1) return false;
  const EdgeType type = node.output_types()[0];
  return type.is_ref || type.dtype == DType::kResource;
}

// What a node reads the shape of, if that is all it does; null otherwise. One that takes a list is on its own.
const Node* shape_source(const Node& node) {
  if (!node.op().has(kMetadataOnly) || !node.op().inputs[0].number_attr.empty()) return nullptr;
  return node.input(0).node;
}

// The rules, and the order in which they are applied, are those of TensorFlow's placer:
//   1. Ends of reference and handle edges are joined. Where their wishes contradict, the reader's are forgotten.
//   2. Nodes that name each other in `_class` are joined. Their wishes must not contradict, unless placed softly.
//   3. Nodes are put on a device in topological order, and with a node its group; nodes without inputs come last.
class Placer {
 public:
  Placer(Graph& graph, const PlacementOptions& options)
      : graph_(graph), options_(options), groups_(graph.id_limit()), parent_(graph.id_limit()) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  Status run(std::vector<PlacementReason>* why) {
    TUTTI_ASSIGN_OR_RETURN(order_, graph_.topological_order());
    for (Node* node : order_) TUTTI_RETURN_IF_ERROR(start_group(*node));
    for (Node* node : order_) TUTTI_RETURN_IF_ERROR(join_state(*node));
    for (Node* node : order_) TUTTI_RETURN_IF_ERROR(join_classes(*node));
    for (Node* node : order_) TUTTI_RETURN_IF_ERROR(find_feasible(group_of(*node)));
    choose_all();
    for (Node* node : order_) {
      graph_.set_assigned_device(*node, options_.devices[*group_of(*node).chosen].to_string());
    }
    if (why != nullptr) *why = reasons();
    return {};
  }

 private:
  // ---- Groups: disjoint sets, with path halving and union by size ----

  int root(int i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  Group& group_of(const Node& node) { return groups_[root(node.id())]; }

  Status start_group(Node& node) {
    Group& group = groups_[node.id()];
    group.members = {&node};
    if (!node.requested_device().empty()) {
      Result<DeviceName> name = DeviceName::parse(node.requested_device());
      if (!name.ok()) return cannot_assign(node, name.status().message());
      group.asked = *std::move(name);
      group.asking = &node;
      if (makes_state(node)) group.state = group.asked;
    }
    // State stays where it is, also when the graph has grown since.
    if (node.op().has(kStateful) && !node.assigned_device().empty()) {
      Result<DeviceName> name = DeviceName::parse(node.assigned_device());
      if (!name.ok()) return cannot_assign(node, name.status().message());
      group.assigned = group.asked = *std::move(name);
      group.asking = &node;
    }
    return {};
  }

  Status join_state(const Node& node) {
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Output input = node.input(static_cast<int>(i));
      if (!input || !shares_state(*input.node, node, static_cast<int>(i))) continue;
      TUTTI_RETURN_IF_ERROR(yield_to(*input.node, node));
      TUTTI_RETURN_IF_ERROR(join(*input.node, node));
    }
    return {};
  }

  // Makes the wishes of a reader's group compatible with those of the state that it reads.
  Status yield_to(const Node& source, const Node& reader) {
    const Group& from = group_of(source);
    Group& to = group_of(reader);
    if (!from.assigned.compatible_with(to.assigned) || !from.state.compatible_with(to.state)) {
      return contradiction(reader, to.asked, source, from.asked);
    }
    if (from.asked.compatible_with(to.asked)) return {};
    to.asked = from.asked;
    to.asked.override_with(to.state);
    to.asked.override_with(to.assigned);
    to.asking = from.asking;
    return {};
  }

  Status join_classes(const Node& node) {
    const AttrValue* attr = node.find_attr("_class");
    if (const auto* classes = attr == nullptr ? nullptr : attr->get<std::vector<std::string>>()) {
      for (std::string_view entry : *classes) {
        if (!entry.starts_with(kColocationPrefix)) continue;
        TUTTI_RETURN_IF_ERROR(join_class(node, std::string(entry.substr(kColocationPrefix.size()))));
      }
    }
    return join_class(node, node.name());
  }

  // A class may be named before its node is there, and when that was cut off.
  Status join_class(const Node& node, const std::string& name) {
    const Node* first = classes_.try_emplace(name, &node).first->second;
    Status status = join(*first, node);
    return options_.allow_soft_placement ? Status() : status;  // softly, who cannot be with the others is alone
  }

  static Status contradiction(const Node& node, const DeviceName& asked, const Node& other, const DeviceName& others) {
    return cannot_assign(node, str_cat("it asks for ", asked.to_string(), ", but must be with ",
                                       printable(other.name()), ", which asks for ", others.to_string()));
  }

  Status join(const Node& first, const Node& second) {
    int a = root(first.id());
    int b = root(second.id());
    if (a == b) return {};
    TUTTI_RETURN_IF_ERROR(merge_wishes(first, groups_[a], second, groups_[b]));
    const Node* asking = groups_[a].asking != nullptr ? groups_[a].asking : groups_[b].asking;
    if (groups_[a].members.size() < groups_[b].members.size()) std::swap(a, b);
    Group& to = groups_[a];
    Group& from = groups_[b];
    to.asking = asking;
    to.asked = from.asked = merged_.asked;
    to.state = merged_.state;
    to.assigned = merged_.assigned;
    to.members.insert(to.members.end(), from.members.begin(), from.members.end());
    from = Group();
    parent_[b] = a;
    return {};
  }

  // Into `merged_`.
  Status merge_wishes(const Node& first, const Group& a, const Node& second, const Group& b) {
    merged_ = {.asked = a.asked, .state = a.state, .assigned = a.assigned};
    Status status = merged_.assigned.merge(b.assigned, false);
    if (status.ok()) status = merged_.state.merge(b.state, false);
    if (status.ok()) status = merged_.asked.merge(b.asked, options_.allow_soft_placement);
    if (!status.ok()) {
      const Node& asks = b.asking != nullptr ? *b.asking : second;
      const Node& other = a.asking != nullptr ? *a.asking : first;
      return contradiction(asks, b.asked, other, a.asked);
    }
    // Softly, state may be elsewhere than it asked for: there it stays.
    merged_.asked.override_with(merged_.state);
    merged_.asked.override_with(merged_.assigned);
    return {};
  }

  // ---- Devices that a group may be on ----

  // Types of devices on which every member has a kernel. On failure `lacking` is a member without.
  bool has_kernels(const Group& group, const std::string& type, const Node** lacking) const {
    for (const Node* node : group.members) {
      if (options_.has_kernel(*node, type)) continue;
      *lacking = node;
      return false;
    }
    return true;
  }

  Status find_feasible(Group& group) {
    if (!group.feasible.empty()) return {};
    std::map<std::string, bool> runs_on;  // by type of device
    const Node* lacking = group.members.front();
    for (const DeviceName& device : options_.devices) {
      const std::string type = device.type.value_or("");
      if (!runs_on.contains(type)) runs_on[type] = has_kernels(group, type, &lacking);
    }
    auto filter = [&](const DeviceName& wanted) {
      for (std::size_t i = 0; i < options_.devices.size(); ++i) {
        const DeviceName& device = options_.devices[i];
        if (wanted.matches(device) && runs_on[device.type.value_or("")]) group.feasible.push_back(i);
      }
      return !group.feasible.empty();
    };
    if (filter(group.asked)) return {};
    // Softly: first without the type that users of state ask for, then without that of the state.
    if (options_.allow_soft_placement && (filter(soften(group, group.state)) || filter(soften(group, {})))) return {};
    return no_device(group, *lacking, runs_on);
  }

  // What the group asks for, less the type and number that neither `kept` nor assigned state has.
  static DeviceName soften(const Group& group, const DeviceName& kept) {
    DeviceName softer = group.asked;
    if (!group.assigned.type && !kept.type) softer.type.reset();
    if (!group.assigned.id && !kept.id) softer.id.reset();
    return softer;
  }

  Status no_device(const Group& group, const Node& lacking, const std::map<std::string, bool>& runs_on) const {
    constexpr std::size_t kShown = 16;
    std::vector<std::string> candidates;
    bool matched = false;
    for (const DeviceName& device : options_.devices) {
      matched = matched || group.asked.matches(device);
      if (candidates.size() < kShown) candidates.push_back(device.to_string());
    }
    if (options_.devices.size() > kShown) candidates.push_back("...");
    std::vector<std::string> types;
    for (const auto& [type, runs] : runs_on) {
      if (runs) types.push_back(type);
    }
    std::string why;
    if (!matched) {
      why = str_cat("no device matches ", group.asked.to_string());
    } else {
      why = str_cat(lacking.describe(), " has no kernel for ",
                    group.asked.empty() ? std::string("any device") : group.asked.to_string());
    }
    return cannot_assign(group.asking != nullptr ? *group.asking : *group.members.front(),
                         str_cat(why, ". Candidates: ", str_join(candidates, ", "),
                                 "; types with kernels: ", types.empty() ? "none" : str_join(types, ", ")));
  }

  // ---- Choice ----

  void choose_all() {
    visited_.assign(graph_.id_limit(), false);
    for (const Node* node : order_) {
      if (is_generator(*node)) continue;
      const Node* input = shape_source(*node);
      choose(*node, input == nullptr ? std::nullopt : device_of(*input), {PlacementReason::kInput, input});
    }
    const std::vector<std::vector<Node*>> consumers = graph_.consumers();
    for (const Node* node : order_) {
      if (!is_generator(*node)) continue;
      const std::vector<Node*>& readers = consumers[node->id()];
      choose(*node, shared_device(readers), {PlacementReason::kReaders, readers.empty() ? nullptr : readers.front()});
    }
  }

  // Puts the node's group on `preferred`, for this reason, if it may be there.
  void choose(const Node& node, std::optional<std::size_t> preferred, PlacementReason reason) {
    Group& group = group_of(node);
    visited_[node.id()] = true;
    if (group.chosen) return;
    const auto& feasible = group.feasible;
    if (preferred && std::find(feasible.begin(), feasible.end(), *preferred) != feasible.end()) {
      group.chosen = preferred;
      followed_[&group] = reason;
    } else {
      group.chosen = feasible.front();
    }
  }

  // Nothing before the node's own turn, even when its group has a device.
  std::optional<std::size_t> device_of(const Node& node) {
    return visited_[node.id()] ? group_of(node).chosen : std::nullopt;
  }

  // Where all of them are; nothing when they differ or are not placed.
  std::optional<std::size_t> shared_device(const std::vector<Node*>& nodes) {
    std::optional<std::size_t> shared;
    for (const Node* node : nodes) {
      const std::optional<std::size_t> device = device_of(*node);
      if (!device || (shared && *shared != *device)) return std::nullopt;
      shared = device;
    }
    return shared;
  }

  std::vector<PlacementReason> reasons() {
    std::vector<PlacementReason> why(graph_.id_limit());
    for (const Node* node : order_) why[node->id()] = reason_of(*node, group_of(*node));
    return why;
  }

  PlacementReason reason_of(const Node& node, const Group& group) const {
    if (group.asking == &node) {
      return {group.assigned.empty() ? PlacementReason::kAsked : PlacementReason::kStays, nullptr};
    }
    if (group.asking != nullptr) return {PlacementReason::kWithOther, group.asking};
    if (auto it = followed_.find(&group); it != followed_.end()) return it->second;
    if (group.members.size() > 1 && group.members.front() != &node) {
      return {PlacementReason::kWithOther, group.members.front()};
    }
    return {};
  }

  struct Wishes {
    DeviceName asked;
    DeviceName state;
    DeviceName assigned;
  };

  Graph& graph_;
  const PlacementOptions& options_;
  std::vector<Node*> order_;
  std::vector<Group> groups_;                             // by root
  std::vector<int> parent_;                               // by node id
  std::unordered_map<std::string, const Node*> classes_;  // the first node of each
  std::vector<bool> visited_;                             // by node id
  std::map<const Group*, PlacementReason> followed_;
  Wishes merged_;
};

}  // namespace

void sort_for_placement(std::vector<DeviceName>& devices, const DeviceName& local) {
  auto rank = [&local](const DeviceName& device) {
    return std::make_tuple(device.type != "GPU", !device.same_task(local), device.to_string());
  };
  std::sort(devices.begin(), devices.end(),
            [&rank](const DeviceName& a, const DeviceName& b) { return rank(a) < rank(b); });
}

Status place(Graph& graph, const PlacementOptions& options, std::vector<PlacementReason>* why) {
  if (options.devices.empty()) return invalid_argument("there are no devices to place operations on");
  return Placer(graph, options).run(why);
}

}  // namespace tutti
