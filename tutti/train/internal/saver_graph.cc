#include "tutti/train/internal/saver_graph.h"

#include <map>
#include <optional>
#include <set>

#include "tutti/core/device_name.h"
#include "tutti/io/paths.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/slice_info.h"

namespace tutti::internal {
namespace {

// The variable that is read before all others: docs in saver.h.
constexpr std::string_view kGlobalStep = "global_step";
constexpr std::string_view kColocation = "loc:@";

using Variables = std::vector<SavedVariable>;
using Shards = std::map<std::string, Variables>;  // by device

Output text(Graph& graph, const std::string& value, const std::string& name) {
  return constant(graph, Tensor::scalar(value), name);
}
Output texts(Graph& graph, const std::vector<std::string>& values, const std::string& name) {
  return constant(graph, Tensor::vector<std::string>(values), name);
}

// The node that this one is to stand beside; null when it may stand alone.
const Node* beside(const Node& node) {
  const AttrValue* attr = node.find_attr("_class");
  const auto* classes = attr == nullptr ? nullptr : attr->get<std::vector<std::string>>();
  if (classes == nullptr || classes->empty() || !classes->front().starts_with(kColocation)) return nullptr;
  return node.graph().find(std::string_view(classes->front()).substr(kColocation.size()));
}

// The device that is asked for by the node that this one, by way of others, stands beside, or by itself.
std::string device_of(const Node& node) {
  std::set<const Node*> seen;
  const Node* last = &node;
  for (const Node* at = &node; at != nullptr && seen.insert(at).second; at = beside(*at)) last = at;
  return last->requested_device();
}

// The first CPU of the device's task: where files are written.
std::string cpu_of(const std::string& device) {
  DeviceName name = DeviceName::parse(device).value_or_throw();
  name.type = "CPU";
  name.id = 0;
  return name.to_string();
}

// A device whatever the program's scopes say.
class OnDevice {
 public:
  OnDevice(Graph& graph, const std::string& device)
      : without_others_(graph.device_scope("")), device_(graph.device_scope(device)) {}

 private:
  const ScopeGuard without_others_, device_;
};

// Beside a variable.
class Beside {
 public:
  explicit Beside(const SavedVariable& variable)
      : device_(variable.node->graph(), variable.device), node_(variable.node->graph().colocate_with(*variable.node)) {}

 private:
  const OnDevice device_;
  const ScopeGuard node_;
};

class Builder {
 public:
  Builder(Graph& graph, const Variables& variables, const SaverGraphOptions& options)
      : graph_(graph), variables_(variables), options_(options) {
    for (const SavedVariable& variable : variables) {
      shards_[options.sharded ? cpu_of(variable.device) : ""].push_back(variable);
    }
  }

  SaverGraph build() {
    ScopeGuard scope = graph_.name_scope(options_.name);
    Output given = op1("PlaceholderWithDefault", {text(graph_, "model", "filename/input")},
                       {{"shape", PartialShape::scalar()}}, "filename");
    filename_ = op1("PlaceholderWithDefault", {given}, {{"shape", PartialShape::scalar()}}, "Const");
    SaverGraph result;
    result.names.filename_tensor = filename_.name();
    result.names.sharded = options_.sharded;
    result.names.save_tensor = add_save(read_all(variables_)).name();
    result.parts_tensor = parts_;
    result.names.restore_op = add_restore()->name();
    if (options_.background) add_background(result);
    return result;
  }

 private:
  using Values = std::map<const Node*, Output>;  // by variable

  Output read(const SavedVariable& variable) {
    const Beside place(variable);
    if (variable.is_resource()) {
      return op1("ReadVariableOp", {variable.node->output()}, {{"dtype", variable.dtype}}, "ReadVariableOp");
    }
    return op1("Identity", {variable.node->output()}, {}, "Identity");
  }

  // The global step comes first. Reads are of the saver's own: those of the model may be older than the call.
  Values read_all(const Variables& variables) {
    Values values;
    std::vector<Node*> first;
    for (const SavedVariable& variable : variables) {
      if (variable.name != kGlobalStep) continue;
      values[variable.node] = read(variable);
      first.push_back(values[variable.node].node);
    }
    ScopeGuard wait = graph_.control_dependencies(first);
    for (const SavedVariable& variable : variables) {
      if (!values.contains(variable.node)) values[variable.node] = read(variable);
    }
    return values;
  }

  // --- Saving ---

  // Writes one shard; gives its prefix when that is done.
  Output add_save_shard(const Variables& variables, const Values& values, Output prefix) {
    std::vector<std::string> names, specs;
    std::vector<Output> inputs;
    for (const SavedVariable& variable : variables) {
      names.push_back(variable.name);
      specs.push_back(variable.spec);
      inputs.push_back(values.at(variable.node));
    }
    inputs.insert(inputs.begin(), {prefix, texts(graph_, names, "SaveV2/tensor_names"),
                                   texts(graph_, specs, "SaveV2/shape_and_slices")});
    Node* save = add_op(graph_, "SaveV2", std::move(inputs), {}, "SaveV2");
    ScopeGuard beside = graph_.colocate_with(*prefix.node);
    ScopeGuard wait = graph_.control_dependencies({save});
    Output written = op1("Identity", {prefix}, {}, "control_dependency");
    for (const SavedVariable& variable : variables) written_by_[variable.node] = written.node;
    return written;
  }

  Output add_save(const Values& values) {
    if (!options_.sharded) return add_save_shard(variables_, values, filename_);
    Output suffix = text(graph_, "_temp/part", "Const_1");
    parts_ = suffix.name();
    Output temporary = op1("StringJoin", {filename_, suffix}, {}, "StringJoin");
    Output count = constant(graph_, Tensor::scalar(static_cast<std::int32_t>(shards_.size())), "num_shards");
    std::vector<Output> prefixes;
    std::vector<Node*> saved;
    std::int32_t number = 0;
    for (const auto& [device, variables] : shards_) {
      const OnDevice there(graph_, device);
      Output shard = constant(graph_, Tensor::scalar(number++), "ShardedFilename/shard");
      prefixes.push_back(op1("ShardedFilename", {temporary, shard, count}, {}, "ShardedFilename"));
      saved.push_back(add_save_shard(variables, values, prefixes.back()).node);
    }
    return add_merge(prefixes, saved);
  }

  // The last task puts the parts together, which is little work: files are renamed.
  Output add_merge(const std::vector<Output>& prefixes, const std::vector<Node*>& saved) {
    const OnDevice there(graph_, shards_.rbegin()->first);
    ScopeGuard wait = graph_.control_dependencies(saved);
    Output all = op1("Pack", prefixes, {{"axis", 0}}, "MergeV2Checkpoints/checkpoint_prefixes");
    Node* merge =
        add_op(graph_, "MergeV2Checkpoints", {all, filename_}, {{"delete_old_dirs", true}}, "MergeV2Checkpoints");
    ScopeGuard merged = graph_.control_dependencies({merge});
    return op1("Identity", {filename_}, {}, "Identity");
  }

  // --- Restoring ---

  Node* add_restore() {
    if (!options_.sharded) {
      ScopeGuard there = graph_.device_scope("/device:CPU:0");
      const std::vector<Output> values = add_restore_values(variables_);
      return group_by_device(add_assigns(variables_, values, {}), "restore_all");
    }
    std::vector<std::vector<Output>> values;
    std::vector<Node*> read;
    for (const auto& [device, variables] : shards_) {
      const OnDevice there(graph_, device);
      values.push_back(add_restore_values(variables));
      read.push_back(values.back()[0].node);
    }
    // No variable changes before everything was read, on every task: else one damaged shard would leave a mixture.
    const OnDevice last(graph_, shards_.rbegin()->first);
    if (read.size() > 1) read = {group(graph_, read, "restore_all/read")};
    std::vector<Node*> done;
    for (const auto& [device, variables] : shards_) {
      const std::vector<Node*> assigned = add_assigns(variables, values[done.size()], read);
      const OnDevice there(graph_, device);
      done.push_back(group(graph_, assigned, "restore_shard"));
    }
    return group(graph_, done, "restore_all");
  }

  std::vector<Output> add_restore_values(const Variables& variables) {
    std::vector<std::string> names, specs;
    std::vector<DType> dtypes;
    for (const SavedVariable& variable : variables) {
      names.push_back(variable.name);
      specs.push_back(variable.spec);
      dtypes.push_back(variable.dtype);
    }
    Node* node = add_op(
        graph_, "RestoreV2",
        {filename_, texts(graph_, names, "RestoreV2/tensor_names"), texts(graph_, specs, "RestoreV2/shape_and_slices")},
        {{"dtypes", dtypes}}, "RestoreV2");
    std::vector<Output> values;
    for (int i = 0; i < node->num_outputs(); ++i) values.push_back(node->output(i));
    return values;
  }

  std::vector<Node*> add_assigns(const Variables& variables, const std::vector<Output>& values,
                                 const std::vector<Node*>& after) {
    ScopeGuard wait = graph_.control_dependencies(after);
    std::vector<Node*> assigned;
    for (std::size_t i = 0; i < variables.size(); ++i) assigned.push_back(add_assign(variables[i], values[i]));
    return assigned;
  }

  Node* add_assign(const SavedVariable& variable, Output value) {
    const Beside place(variable);
    const std::optional<Shape> shape = variable.shape.as_shape();
    if (options_.reshape && shape) value = reshape(value, *shape, "Reshape");
    if (variable.is_resource()) {
      value = op1("Identity", {value}, {}, "Identity");
      return add_op(graph_, "AssignVariableOp", {variable.node->output(), value}, {{"dtype", variable.dtype}},
                    "AssignVariableOp");
    }
    return add_op(graph_, "Assign", {variable.node->output(), value}, {{"validate_shape", true}, {"use_locking", true}},
                  "Assign");
  }

  // --- In the background ---

  // Beside each variable another one takes over its present value, which costs nothing (docs/design/0001). Those are
  // then written by a step of its own, and emptied.
  void add_background(SaverGraph& result) {
    ScopeGuard scope = graph_.name_scope("held");
    const Values present = read_all(variables_);
    // Another client with the same graph may save at the same time, and its copies have names of their own.
    const std::string of_holder = options_.holder.empty() ? temporary_name("") : str_cat("/", options_.holder);
    std::vector<Node*> kept;
    Variables copies;
    for (const SavedVariable& variable : variables_) {
      const Beside place(variable);
      SavedVariable copy = variable;
      copy.node = add_op(graph_, "VarHandleOp", {}, {{"dtype", variable.dtype}, {"shape", variable.shape}},
                         variable.node->name());
      graph_.set_attr(*copy.node, "shared_name", copy.node->name() + of_holder);
      kept.push_back(add_op(graph_, "AssignVariableOp", {copy.node->output(), present.at(variable.node)},
                            {{"dtype", variable.dtype}}, "AssignVariableOp"));
      copies.push_back(std::move(copy));
    }
    result.hold = group_by_device(kept, "hold");
    Values held;
    for (const SavedVariable& copy : copies) held[copy.node] = read(copy);
    Builder writer(graph_, copies, options_);
    writer.filename_ = filename_;
    result.write_tensor = writer.add_save(held).name();
    result.write_parts_tensor = writer.parts_;
    std::vector<Node*> dropped;
    for (const SavedVariable& copy : copies) {
      const Beside place(copy);
      ScopeGuard wait = graph_.control_dependencies({writer.written_by_.at(copy.node)});
      dropped.push_back(add_op(graph_, "DestroyResourceOp", {copy.node->output()}, {{"ignore_lookup_error", true}},
                               "DestroyResourceOp"));
    }
    result.let_go = group_by_device(dropped, "let_go");
  }

  // One edge from each task to the group.
  Node* group_by_device(const std::vector<Node*>& nodes, const std::string& name) {
    std::map<std::string, std::vector<Node*>> by_device;
    for (Node* node : nodes) by_device[device_of(*node)].push_back(node);
    if (by_device.size() == 1) return group(graph_, nodes, name);
    std::vector<Node*> groups;
    for (const auto& [device, members] : by_device) {
      const OnDevice there(graph_, device);
      groups.push_back(group(graph_, members, name + "/NoOp"));
    }
    return group(graph_, groups, name);
  }

  Graph& graph_;
  const Variables& variables_;
  const SaverGraphOptions& options_;
  Shards shards_;
  Output filename_;
  std::string parts_;                        // the tensor with the suffix of parts; empty: there are none
  std::map<const Node*, Node*> written_by_;  // when the variable is in its file
};

}  // namespace

bool SavedVariable::is_resource() const { return node->op_name() == "VarHandleOp"; }

SavedVariable saved_variable(std::string name, Node& node) {
  static const std::set<std::string_view> kinds = {"VarHandleOp", "VariableV2", "Variable"};
  if (!kinds.contains(node.op_name())) {
    throw_error(
        invalid_argument("Saver: ", node.describe(), ", to be saved as \"", printable(name), "\", is not a variable"));
  }
  SavedVariable variable{.name = std::move(name),
                         .spec = {},
                         .node = &node,
                         .dtype = node.attr<DType>("dtype"),
                         .shape = node.attr<PartialShape>("shape"),
                         .device = device_of(node)};
  if (const std::optional<SliceInfo> part = slice_info(node)) variable.spec = part->spec();
  return variable;
}

SaverGraph build_saver_graph(Graph& graph, const std::vector<SavedVariable>& variables,
                             const SaverGraphOptions& options) {
  return Builder(graph, variables, options).build();
}

}  // namespace tutti::internal
