#include "tutti/graph/placement.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "tutti/graph/internal/purity.h"

namespace tutti {
namespace {

constexpr std::string_view kColocationPrefix = "loc:@";

// Disjoint sets of node ids, with path halving and union by size.
class UnionFind {
 public:
  explicit UnionFind(int size) : parent_(size), size_(size, 1) { std::iota(parent_.begin(), parent_.end(), 0); }
  int find(int i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(int a, int b) {
    a = find(a);
    b = find(b);
    if (a == b) return;
    if (size_[a] < size_[b]) std::swap(a, b);
    parent_[b] = a;
    size_[a] += size_[b];
  }

 private:
  std::vector<int> parent_;
  std::vector<int> size_;
};

// Nodes that go together.
struct Group {
  std::vector<Node*> members;
  DeviceName wanted;                  // what they ask for, merged
  std::vector<std::size_t> feasible;  // indices into the devices, best first
  std::optional<std::size_t> chosen;
};

Status cannot_assign(const Node& node, std::string_view why) {
  return invalid_argument("Cannot assign a device for operation ", printable(node.name()), ": ", why);
}

class Placer {
 public:
  Placer(Graph& graph, const PlacementOptions& options)
      : graph_(graph), options_(options), sets_(graph.id_limit()), group_of_(graph.id_limit(), -1) {}

  Status run() {
    TUTTI_ASSIGN_OR_RETURN(order_, graph_.topological_order());
    for (Node* node : order_) join_neighbours(*node);
    make_groups();
    for (Group& group : groups_) {
      TUTTI_RETURN_IF_ERROR(merge_requests(group));
      TUTTI_RETURN_IF_ERROR(find_feasible(group));
    }
    choose();
    for (Group& group : groups_) {
      const std::string device = options_.devices[*group.chosen].to_string();
      for (Node* node : group.members) graph_.set_assigned_device(*node, device);
    }
    return {};
  }

 private:
  void join_neighbours(const Node& node) {
    if (const AttrValue* attr = node.find_attr("_class")) {
      if (const auto* classes = attr->get<std::vector<std::string>>()) {
        for (const std::string& entry : *classes) join_by_name(node, entry);
      }
    }
    const bool call = calls_function(node);  // its body may use handles of several devices
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Output input = node.input(static_cast<int>(i));
      if (!input) continue;
      const EdgeType type = node.input_types()[i];
      if (type.is_ref || (type.dtype == DType::kResource && !call && !calls_function(*input.node))) {
        sets_.join(node.id(), input.node->id());
      }
    }
  }

  void join_by_name(const Node& node, std::string_view entry) {
    if (!entry.starts_with(kColocationPrefix)) return;
    // The other node may have been cut off: then nothing is asked.
    const Node* other = graph_.find(entry.substr(kColocationPrefix.size()));
    if (other != nullptr) sets_.join(node.id(), other->id());
  }

  // In the order of their first nodes.
  void make_groups() {
    std::vector<int> by_root(graph_.id_limit(), -1);
    for (Node* node : order_) {
      int& group = by_root[sets_.find(node->id())];
      if (group < 0) {
        group = static_cast<int>(groups_.size());
        groups_.emplace_back();
      }
      groups_[group].members.push_back(node);
      group_of_[node->id()] = group;
    }
  }

  Status merge_requests(Group& group) {
    const Node* first = nullptr;  // that asked for anything
    for (Node* node : group.members) {
      // State stays where it is, also when the graph has grown since.
      const bool pinned = node->op().has(kStateful) && !node->assigned_device().empty();
      const std::string& request = pinned ? node->assigned_device() : node->requested_device();
      if (request.empty()) continue;
      Result<DeviceName> name = DeviceName::parse(request);
      if (!name.ok()) return cannot_assign(*node, name.status().message());
      Status merged = group.wanted.merge(*name, options_.allow_soft_placement);
      if (!merged.ok()) {
        return cannot_assign(
            *node, str_cat("it asks for ", printable(request), ", but must be with ", printable(first->name()),
                           ", which asks for ", printable(first->requested_device()), " (", merged.message(), ")"));
      }
      if (first == nullptr) first = node;
    }
    return {};
  }

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
    };
    filter(group.wanted);
    if (group.feasible.empty() && options_.allow_soft_placement) {
      DeviceName softer = group.wanted;
      softer.type.reset();
      softer.id.reset();
      filter(softer);
    }
    if (!group.feasible.empty()) return {};
    return no_device(group, *lacking, runs_on);
  }

  Status no_device(const Group& group, const Node& lacking, const std::map<std::string, bool>& runs_on) const {
    constexpr std::size_t kShown = 16;
    std::vector<std::string> candidates;
    bool matched = false;
    for (const DeviceName& device : options_.devices) {
      matched = matched || group.wanted.matches(device);
      if (candidates.size() < kShown) candidates.push_back(device.to_string());
    }
    if (options_.devices.size() > kShown) candidates.push_back("...");
    std::vector<std::string> types;
    for (const auto& [type, runs] : runs_on) {
      if (runs) types.push_back(type);
    }
    std::string why;
    if (!matched) {
      why = str_cat("no device matches ", group.wanted.to_string());
    } else {
      why = str_cat(lacking.describe(), " has no kernel for ",
                    group.wanted.empty() ? std::string("any device") : group.wanted.to_string());
    }
    return cannot_assign(*asking(group),
                         str_cat(why, ". Candidates: ", str_join(candidates, ", "),
                                 "; types with kernels: ", types.empty() ? "none" : str_join(types, ", ")));
  }

  // The member to name: the first that asks for something.
  static const Node* asking(const Group& group) {
    for (const Node* node : group.members) {
      if (!node->requested_device().empty()) return node;
    }
    return group.members.front();
  }

  bool allows(const Group& group, std::size_t device) const {
    return std::find(group.feasible.begin(), group.feasible.end(), device) != group.feasible.end();
  }

  // No inputs and one plain output: best made where it is used.
  static bool is_generator(const Group& group) {
    const Node& node = *group.members.front();
    return group.members.size() == 1 && node.inputs().empty() && node.num_outputs() == 1 &&
           !node.output_types()[0].is_ref && !node.op().has(kStateful);
  }

  // Reads only shapes, or hands its input on: best where its input is.
  static bool follows_input(const Group& group) {
    const Node& node = *group.members.front();
    return group.members.size() == 1 && !node.inputs().empty() && node.input(0) &&
           (node.op().has(kMetadataOnly) || node.op().has(kControlFlow));
  }

  void choose() {
    for (Group& group : groups_) {
      if (is_generator(group)) continue;
      group.chosen = group.feasible.front();
      if (!follows_input(group)) continue;
      const Group& source = groups_[group_of_[group.members.front()->input(0).node->id()]];
      if (source.chosen && allows(group, *source.chosen)) group.chosen = source.chosen;
    }
    const std::vector<std::vector<Node*>> consumers = graph_.consumers();
    for (Group& group : groups_) {
      if (group.chosen) continue;
      group.chosen = group.feasible.front();
      std::optional<std::size_t> shared = shared_device(consumers[group.members.front()->id()]);
      if (shared && allows(group, *shared)) group.chosen = shared;
    }
  }

  // Where all of them are; nothing when they differ or are not placed.
  std::optional<std::size_t> shared_device(const std::vector<Node*>& nodes) const {
    std::optional<std::size_t> shared;
    for (const Node* node : nodes) {
      const std::optional<std::size_t>& device = groups_[group_of_[node->id()]].chosen;
      if (!device || (shared && *shared != *device)) return std::nullopt;
      shared = device;
    }
    return shared;
  }

  Graph& graph_;
  const PlacementOptions& options_;
  UnionFind sets_;
  std::vector<Node*> order_;
  std::vector<int> group_of_;  // by node id
  std::vector<Group> groups_;
};

}  // namespace

Status place(Graph& graph, const PlacementOptions& options) {
  if (options.devices.empty()) return invalid_argument("there are no devices to place operations on");
  return Placer(graph, options).run();
}

}  // namespace tutti
