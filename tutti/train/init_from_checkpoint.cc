#include "tutti/train/init_from_checkpoint.h"

#include <vector>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/slice_info.h"
#include "tutti/train/checkpoint_reader.h"
#include "tutti/train/internal/restore_check.h"
#include "tutti/train/internal/saver_graph.h"

namespace tutti {
namespace {

using internal::SavedVariable;

// What a checkpoint would call the variable.
std::string full_name(const Node& node) {
  const std::optional<SliceInfo> part = slice_info(node);
  return part ? part->full_name : node.name();
}

class Assignment {
 public:
  Assignment(Graph& graph, const CheckpointReader& reader)
      : variables_(graph.collection("variables")), reader_(reader) {}

  void add(const std::string& stored, const std::string& wanted) {
    const std::size_t before = matches_;
    if (stored.ends_with('/') != wanted.ends_with('/')) {
      throw_error(invalid_argument("init_from_checkpoint: \"", printable(stored), "\" to \"", printable(wanted),
                                   "\": both or none must be a scope, which ends in '/'"));
    }
    if (wanted.ends_with('/')) {
      add_scope(stored == "/" ? "" : stored, wanted == "/" ? "" : wanted);
    } else {
      for (Node* node : variables_) {
        if (node->name() == wanted || full_name(*node) == wanted) take(stored, *node);
      }
    }
    if (matches_ > before) return;
    throw_error(invalid_argument("init_from_checkpoint: no variable for \"", printable(stored), "\" to \"",
                                 printable(wanted), "\" of checkpoint \"", printable(reader_.prefix()), "\""));
  }

  std::vector<SavedVariable> take_all() {
    std::vector<SavedVariable> all;
    for (auto& [node, variable] : found_) all.push_back(std::move(variable));
    return all;
  }

 private:
  void add_scope(const std::string& stored, const std::string& wanted) {
    for (Node* node : variables_) {
      const std::string name = full_name(*node);
      if (!name.starts_with(wanted)) continue;
      const std::string in_checkpoint = stored + name.substr(wanted.size());
      if (reader_.contains(in_checkpoint)) take(in_checkpoint, *node);
    }
  }

  void take(const std::string& stored, Node& node) {
    ++matches_;
    found_.insert_or_assign(node.id(), internal::saved_variable(stored, node));
  }

  const std::vector<Node*>& variables_;
  const CheckpointReader& reader_;
  std::size_t matches_ = 0;
  std::map<int, SavedVariable> found_;  // by id, so that the order is that of the graph
};

Output restored_value(const SavedVariable& variable, const std::string& prefix) {
  Graph& graph = variable.node->graph();
  ScopeGuard without_others = graph.device_scope("");
  ScopeGuard device = graph.device_scope(variable.device);
  ScopeGuard beside = graph.colocate_with(*variable.node);
  ScopeGuard root = graph.name_scope("");
  ScopeGuard scope = graph.name_scope("checkpoint_initializer");
  const auto texts = [&](const std::string& text, const std::string& name) {
    return constant(graph, Tensor::vector<std::string>({text}), name);
  };
  Node* restore = add_op(graph, "RestoreV2",
                         {constant(graph, Tensor::scalar(prefix), "prefix"), texts(variable.name, "tensor_names"),
                          texts(variable.spec, "shape_and_slices")},
                         {{"dtypes", std::vector<DType>{variable.dtype}}}, "RestoreV2");
  return restore->output();
}

}  // namespace

int init_from_checkpoint(Graph& graph, const std::string& path, const std::map<std::string, std::string>& assignment,
                         FileSystem& fs) {
  const std::unique_ptr<CheckpointReader> reader = CheckpointReader::open(fs, path).value_or_throw();
  Assignment chosen(graph, *reader);
  for (const auto& [stored, wanted] : assignment) chosen.add(stored, wanted);
  const std::vector<SavedVariable> variables = chosen.take_all();
  throw_if_error(internal::check_restorable(*reader, variables, /*reshape=*/false));
  for (const SavedVariable& variable : variables) {
    Node* initializer = graph.find(variable.node->name() + "/Assign");
    if (initializer == nullptr || initializer->inputs().size() != 2) {
      throw_error(invalid_argument("init_from_checkpoint: ", variable.node->describe(), " has no initialiser"));
    }
  }
  for (const SavedVariable& variable : variables) {
    Node& initializer = *graph.find(variable.node->name() + "/Assign");
    throw_if_error(graph.set_input(initializer, 1, restored_value(variable, reader->prefix())));
  }
  return static_cast<int>(variables.size());
}

}  // namespace tutti
