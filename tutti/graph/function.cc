#include "tutti/graph/function.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <unordered_set>

#include "proto/function.pb.h"
#include "tutti/graph/attr_codec.h"
#include "tutti/graph/internal/arg_ranges.h"
#include "tutti/graph/internal/graph_importer.h"
#include "tutti/graph/internal/node_def_writer.h"
#include "tutti/graph/internal/proto_util.h"

namespace tutti {
namespace {

using tensorflow::FunctionDef;

// --- A signature as an op. ---

Result<ArgDef> read_arg(const tensorflow::OpDef::ArgDef& proto) {
  ArgDef arg;
  arg.name = proto.name();
  arg.is_ref = proto.is_ref();
  arg.type_attr = proto.type_attr();
  arg.number_attr = proto.number_attr();
  arg.type_list_attr = proto.type_list_attr();
  if (!arg.type_attr.empty() || !arg.type_list_attr.empty()) return arg;
  if (!is_valid_dtype(proto.type())) {
    return invalid_argument("argument \"", printable(arg.name), "\" is of unknown type ",
                            static_cast<int>(proto.type()));
  }
  arg.dtype = static_cast<DType>(proto.type());
  return arg;
}

Result<AttrDef> read_attr_def(const tensorflow::OpDef::AttrDef& proto) {
  AttrDef attr;
  attr.name = proto.name();
  attr.kind = proto.type();
  ExpansionBudget budget;
  if (proto.has_default_value()) {
    TUTTI_ASSIGN_OR_RETURN(attr.default_value, decode_attr(proto.default_value(), budget));
  }
  if (proto.has_minimum()) attr.minimum = proto.minimum();
  if (proto.has_allowed_values()) {
    const auto& allowed = proto.allowed_values().list();
    attr.allowed_strings.assign(allowed.s().begin(), allowed.s().end());
    if (allowed.type_size() > 0) attr.allowed_types = DTypeSet();
    for (int number : allowed.type()) {
      if (is_valid_dtype(number)) attr.allowed_types = attr.allowed_types | DTypeSet{static_cast<DType>(number)};
    }
  }
  return attr;
}

Result<std::shared_ptr<const OpDef>> read_signature(const tensorflow::OpDef& proto) {
  auto op = std::make_shared<OpDef>();
  op->name = proto.name();
  for (const auto& arg : proto.input_arg()) {
    TUTTI_ASSIGN_OR_RETURN(ArgDef def, read_arg(arg));
    op->inputs.push_back(std::move(def));
  }
  for (const auto& arg : proto.output_arg()) {
    TUTTI_ASSIGN_OR_RETURN(ArgDef def, read_arg(arg));
    op->outputs.push_back(std::move(def));
  }
  for (const auto& attr : proto.attr()) {
    Result<AttrDef> def = read_attr_def(attr);
    if (!def.ok()) return def.status().with_context(str_cat("attribute \"", printable(attr.name()), "\""));
    op->attrs.push_back(*std::move(def));
  }
  if (proto.is_stateful()) op->traits |= kStateful;
  return std::shared_ptr<const OpDef>(std::move(op));
}

// --- A definition as a body. ---

// Arguments and placeholders are stateful only so that each of them stays itself.
bool has_effect(const Node& node) {
  const bool only_brings =
      node.inputs().empty() && (node.op_name() == "_Arg" || node.op_name().starts_with("Placeholder"));
  return node.op().has(kStateful) && !only_brings;
}

class BodyBuilder {
 public:
  BodyBuilder(FunctionDef& def, const OpDef& signature, AttrMap attrs, Graph& graph)
      : def_(def),
        signature_(signature),
        attrs_(std::move(attrs)),
        graph_(graph),
        importer_(graph, GraphImporter::Dialect::kFunction) {}

  Status build(FunctionBody* body) {
    TUTTI_RETURN_IF_ERROR(complete_attrs(signature_, &attrs_));
    TUTTI_RETURN_IF_ERROR(resolve_types(signature_, attrs_, &arg_types_, &result_types_));
    importer_.set_placeholders(&attrs_);
    TUTTI_RETURN_IF_ERROR(add_args(&body->args));
    TUTTI_RETURN_IF_ERROR(importer_.add_nodes(*def_.mutable_node_def()));
    TUTTI_RETURN_IF_ERROR(find_targets(&body->targets));
    TUTTI_RETURN_IF_ERROR(add_retvals(&body->retvals));
    importer_.commit();
    return {};
  }

 private:
  Status add_args(std::vector<Node*>* args) {
    const std::vector<ArgRange> ranges = arg_ranges(signature_.inputs, attrs_);
    for (std::size_t k = 0; k < ranges.size(); ++k) {
      std::vector<Output> values;
      for (int i = 0; i < ranges[k].count; ++i) {
        const std::string& name = signature_.inputs[k].name;
        const EdgeType type = arg_types_[ranges[k].begin + i];
        if (type.is_ref) return unimplemented("argument \"", printable(name), "\" is a reference");
        NodeSpec spec{.op = "_Arg", .name = ranges[k].count == 1 ? name : str_cat(name, "_", i)};
        spec.attrs = {{"T", type.dtype}, {"index", static_cast<std::int64_t>(args->size())}};
        TUTTI_ASSIGN_OR_RETURN(Node * arg, graph_.add_exact(std::move(spec)));
        describe_arg(static_cast<int>(k), *arg);
        args->push_back(arg);
        values.push_back(arg->output());
      }
      importer_.define(signature_.inputs[k].name, std::move(values));
    }
    return {};
  }

  // What the definition says of an argument beyond its type.
  void describe_arg(int k, Node& arg) {
    ExpansionBudget budget;
    if (auto it = def_.arg_attr().find(k); it != def_.arg_attr().end()) {
      for (const auto& [name, proto] : it->second.attr()) {
        Result<AttrValue> value = decode_attr(proto, budget);
        if (value.ok() && name.starts_with('_')) graph_.set_attr(arg, name, *std::move(value));
      }
    }
    const AttrValue* attr = arg.find_attr("_output_shapes");
    const auto* shapes = attr == nullptr ? nullptr : attr->get<std::vector<PartialShape>>();
    if (shapes != nullptr && shapes->size() == 1) graph_.set_output_shape(arg, 0, shapes->front());

    std::vector<PartialShape> handle_shapes;
    std::vector<DType> handle_dtypes;
    for (const auto& handle : def_.signature().input_arg(k).handle_data()) {
      Result<PartialShape> shape = decode_shape(handle.shape());
      if (!shape.ok() || !is_valid_dtype(handle.dtype())) return;
      handle_shapes.push_back(*std::move(shape));
      handle_dtypes.push_back(static_cast<DType>(handle.dtype()));
    }
    if (handle_shapes.empty()) return;
    graph_.set_attr(arg, "_handle_shapes", std::move(handle_shapes));
    graph_.set_attr(arg, "_handle_dtypes", std::move(handle_dtypes));
  }

  // Effects that nothing reads: those the definition lists, or all there are when it lists none.
  Status find_targets(std::vector<Node*>* targets) {
    for (const auto& [key, name] : def_.control_ret()) {
      Node* node = graph_.find(name);
      if (node == nullptr) {
        return invalid_argument("control result \"", printable(key), "\" is \"", printable(name),
                                "\", and there is no such node");
      }
      targets->push_back(node);
    }
    std::sort(targets->begin(), targets->end(), [](const Node* a, const Node* b) { return a->id() < b->id(); });
    targets->erase(std::unique(targets->begin(), targets->end()), targets->end());
    if (!targets->empty()) return {};
    for (Node* node : graph_.nodes()) {
      if (has_effect(*node)) targets->push_back(node);
    }
    return {};
  }

  Status add_retvals(std::vector<Node*>* retvals) {
    const std::vector<ArgRange> ranges = arg_ranges(signature_.outputs, attrs_);
    for (std::size_t k = 0; k < ranges.size(); ++k) {
      const std::string& name = signature_.outputs[k].name;
      Status status = add_result(name, ranges[k], retvals);
      if (!status.ok()) return status.with_context(str_cat("result \"", printable(name), "\""));
    }
    return {};
  }

  Status add_result(const std::string& name, ArgRange range, std::vector<Node*>* retvals) {
    auto it = def_.ret().find(name);
    if (it == def_.ret().end()) return invalid_argument("the definition does not say what it is");
    TUTTI_ASSIGN_OR_RETURN(std::vector<Output> values, importer_.resolve(it->second));
    if (static_cast<int>(values.size()) != range.count) {
      return invalid_argument("\"", printable(it->second), "\" gives ", values.size(), " tensors, must be ",
                              range.count);
    }
    for (int i = 0; i < range.count; ++i) {
      NodeSpec spec{.op = "_Retval", .name = graph_.unique_name(str_cat(name, "_retval")), .inputs = {values[i]}};
      spec.attrs = {{"T", result_types_[range.begin + i].dtype}, {"index", static_cast<std::int64_t>(retvals->size())}};
      TUTTI_ASSIGN_OR_RETURN(Node * retval, graph_.add_exact(std::move(spec)));
      retvals->push_back(retval);
    }
    return {};
  }

  FunctionDef& def_;
  const OpDef& signature_;
  AttrMap attrs_;
  Graph& graph_;
  GraphImporter importer_;
  std::vector<EdgeType> arg_types_;
  std::vector<EdgeType> result_types_;
};

// --- A body as a definition. ---

// Letters, digits and '_', beginning with a letter, and not taken.
std::string argument_name(std::string_view text, std::unordered_set<std::string>& taken) {
  std::string name;
  if (text.empty() || !std::isalpha(static_cast<unsigned char>(text[0]))) name = "a";
  for (char c : text) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  std::string unique = name;
  for (int i = 1; !taken.insert(unique).second; ++i) unique = str_cat(name, "_", i);
  return unique;
}

class DefinitionWriter {
 public:
  explicit DefinitionWriter(const FunctionBody& body) : body_(body) {}

  Status write(const std::string& name, FunctionDef* def) {
    def->mutable_signature()->set_name(name);
    const std::vector<Node*> nodes = body_.graph->nodes();
    for (Node* node : body_.args) outside_.insert(node);
    for (Node* node : body_.retvals) outside_.insert(node);
    for (Node* node : nodes) {
      if (!outside_.contains(node)) names_.insert(node->name());
    }
    for (std::size_t i = 0; i < body_.args.size(); ++i) write_arg(static_cast<int>(i), *body_.args[i], def);
    std::vector<Node*> effects = body_.targets;
    for (Node* node : nodes) {
      if (outside_.contains(node)) continue;
      write_node_def(
          *node, [this](Output value) { return reference(value); }, def->add_node_def());
      drop_outside_controls(def->mutable_node_def(def->node_def_size() - 1));
      if (node->op().has(kStateful)) effects.push_back(node);
    }
    write_effects(effects, def);
    return write_results(def);
  }

 private:
  void write_arg(int i, const Node& arg, FunctionDef* def) {
    auto* proto = def->mutable_signature()->add_input_arg();
    proto->set_name(argument_name(arg.name(), names_));
    proto->set_type(static_cast<tensorflow::DataType>(arg.output_types()[0].dtype));
    arg_names_[&arg] = proto->name();
    auto& attrs = *(*def->mutable_arg_attr())[i].mutable_attr();
    for (const auto& [name, value] : arg.attrs()) {
      if (name.starts_with('_')) encode_attr(value, &attrs[name]);
    }
    if (arg.output_shape(0).has_rank()) {
      encode_attr(std::vector<PartialShape>{arg.output_shape(0)}, &attrs["_output_shapes"]);
    }
    if (attrs.empty()) def->mutable_arg_attr()->erase(i);
    write_handle_data(arg, proto);
  }

  static void write_handle_data(const Node& arg, tensorflow::OpDef::ArgDef* proto) {
    const AttrValue* shapes_attr = arg.find_attr("_handle_shapes");
    const AttrValue* dtypes_attr = arg.find_attr("_handle_dtypes");
    if (shapes_attr == nullptr || dtypes_attr == nullptr) return;
    const auto* shapes = shapes_attr->get<std::vector<PartialShape>>();
    const auto* dtypes = dtypes_attr->get<std::vector<DType>>();
    if (shapes == nullptr || dtypes == nullptr || shapes->size() != dtypes->size()) return;
    for (std::size_t i = 0; i < shapes->size(); ++i) {
      auto* data = proto->add_handle_data();
      data->set_dtype(static_cast<tensorflow::DataType>((*dtypes)[i]));
      encode_shape((*shapes)[i], data->mutable_shape());
    }
  }

  // "arg", or "node:output_arg:k".
  std::string reference(Output value) const {
    if (auto it = arg_names_.find(value.node); it != arg_names_.end()) return it->second;
    const std::vector<ArgRange> ranges = arg_ranges(value.node->op().outputs, value.node->attrs());
    std::size_t k = 0;
    while (value.index >= ranges[k].begin + ranges[k].count) ++k;
    return str_cat(value.node->name(), ":", value.node->op().outputs[k].name, ":", value.index - ranges[k].begin);
  }

  // Arguments are there before anything runs: waiting for one means nothing.
  void drop_outside_controls(tensorflow::NodeDef* def) const {
    auto& inputs = *def->mutable_input();
    inputs.erase(std::remove_if(inputs.begin(), inputs.end(),
                                [this](const std::string& input) {
                                  return input.starts_with('^') && !is_inside(input.substr(1));
                                }),
                 inputs.end());
  }
  bool is_inside(const std::string& name) const {
    const Node* node = body_.graph->find(name);
    return node != nullptr && !outside_.contains(node);
  }

  void write_effects(const std::vector<Node*>& effects, FunctionDef* def) const {
    std::unordered_set<std::string> written;
    for (const Node* node : effects) {
      if (outside_.contains(node) || !written.insert(node->name()).second) continue;
      def->mutable_signature()->add_control_output(node->name());
      (*def->mutable_control_ret())[node->name()] = node->name();
      if (node->op().has(kStateful)) def->mutable_signature()->set_is_stateful(true);
    }
  }

  Status write_results(FunctionDef* def) const {
    std::unordered_set<std::string> taken;
    for (const Node* retval : body_.retvals) {
      if (retval->inputs().size() != 1 || !retval->input(0)) {
        return invalid_argument(retval->describe(), " is not a result");
      }
      auto* proto = def->mutable_signature()->add_output_arg();
      proto->set_name(argument_name(retval->name(), taken));
      proto->set_type(static_cast<tensorflow::DataType>(retval->input(0).dtype()));
      (*def->mutable_ret())[proto->name()] = reference(retval->input(0));
    }
    return {};
  }

  const FunctionBody& body_;
  std::unordered_set<const Node*> outside_;  // arguments and results
  std::unordered_set<std::string> names_;    // of nodes and arguments
  std::unordered_map<const Node*, std::string> arg_names_;
};

std::string describe_function(std::string_view name) { return str_cat("function \"", printable(name), "\""); }

}  // namespace

struct FunctionLibrary::Entry {
  std::string serialized;
  std::shared_ptr<const OpDef> signature;
};

namespace {

// Any letters: TensorFlow calls them "__inference_<lambda>_12".
Status check_function_name(std::string_view name) {
  constexpr std::size_t kMaxLength = 64 << 10;
  if (name.empty()) return invalid_argument("a function without a name");
  if (name.size() <= kMaxLength) return {};
  return invalid_argument("the name of function \"", printable(name.substr(0, 64)), "...\" has ", name.size(),
                          " bytes, more than ", kMaxLength);
}

}  // namespace

FunctionLibrary::FunctionLibrary() = default;
FunctionLibrary::~FunctionLibrary() = default;

Status FunctionLibrary::add_serialized(std::string_view function_def) {
  FunctionDef def;
  TUTTI_RETURN_IF_ERROR(parse_message(function_def, "FunctionDef", &def));
  const std::string& name = def.signature().name();
  TUTTI_RETURN_IF_ERROR(check_function_name(name));
  Result<std::shared_ptr<const OpDef>> signature = read_signature(def.signature());
  if (!signature.ok()) return signature.status().with_context(describe_function(name));
  std::string bytes = serialize(def);
  if (auto it = functions_.find(name); it != functions_.end()) {
    if (it->second->serialized == bytes) return {};
    return already_exists(describe_function(name), " is in the library with another body");
  }
  functions_.emplace(name, std::make_unique<Entry>(Entry{std::move(bytes), *std::move(signature)}));
  return {};
}

Status FunctionLibrary::add(const std::string& name, const FunctionBody& body) {
  FunctionDef def;
  Status status = DefinitionWriter(body).write(name, &def);
  if (!status.ok()) return status.with_context(describe_function(name));
  return add_serialized(serialize(def));
}

void FunctionLibrary::remove(std::string_view name) {
  if (auto it = functions_.find(name); it != functions_.end()) functions_.erase(it);
}

bool FunctionLibrary::contains(std::string_view name) const { return functions_.find(name) != functions_.end(); }

std::vector<std::string> FunctionLibrary::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : functions_) names.push_back(name);
  return names;
}

FunctionRef FunctionLibrary::called_by(const Node& node) const {
  auto attrs = std::make_shared<AttrMap>();
  for (const AttrDef& attr : signature(node.op_name())->attrs) {
    if (const AttrValue* value = node.find_attr(attr.name)) attrs->emplace(attr.name, *value);
  }
  return FunctionRef{.name = node.op_name(), .attrs = std::move(attrs)};
}

std::shared_ptr<const OpDef> FunctionLibrary::signature(std::string_view name) const {
  auto it = functions_.find(name);
  return it == functions_.end() ? nullptr : it->second->signature;
}

const std::string& FunctionLibrary::serialized(std::string_view name) const {
  auto it = functions_.find(name);
  TUTTI_CHECK(it != functions_.end(), name);
  return it->second->serialized;
}

Result<FunctionBody> FunctionLibrary::instantiate(const FunctionRef& function, std::shared_ptr<const OpRegistry> ops,
                                                  std::shared_ptr<FunctionLibrary> library) const {
  auto it = functions_.find(function.name);
  if (it == functions_.end()) return not_found(describe_function(function.name), " is not in the library");
  FunctionDef def;
  TUTTI_RETURN_IF_ERROR(parse_message(it->second->serialized, "FunctionDef", &def));
  FunctionBody body;
  body.graph = std::make_unique<Graph>(std::move(ops), std::move(library));
  BodyBuilder builder(def, *it->second->signature, function.attrs ? *function.attrs : AttrMap(), *body.graph);
  Status status = builder.build(&body);
  if (!status.ok()) return status.with_context(describe_function(function.name));
  return body;
}

std::string FunctionLibrary::gradient_of(std::string_view name) const {
  auto it = gradients_.find(name);
  return it == gradients_.end() ? "" : it->second;
}

void FunctionLibrary::set_gradient(std::string name, std::string gradient) {
  gradients_.insert_or_assign(std::move(name), std::move(gradient));
}

std::string FunctionLibrary::unique_name(std::string_view base) const {
  std::string name(base);
  for (int i = 1; contains(name); ++i) name = str_cat(base, "_", i);
  return name;
}

FunctionBody make_function_body(Graph& outer, const std::vector<DType>& arg_types,
                                const std::vector<PartialShape>& arg_shapes) {
  FunctionBody body;
  body.graph = std::make_unique<Graph>(outer.shared_ops(), outer.shared_library());
  for (std::size_t i = 0; i < arg_types.size(); ++i) {
    NodeSpec spec{.op = "_Arg", .name = str_cat("arg", i)};
    spec.attrs = {{"T", arg_types[i]}, {"index", static_cast<std::int64_t>(i)}};
    Node* arg = body.graph->add_node(std::move(spec)).value_or_throw();
    if (i < arg_shapes.size()) body.graph->set_output_shape(*arg, 0, arg_shapes[i]);
    body.args.push_back(arg);
  }
  return body;
}

void set_results(FunctionBody& body, const std::vector<Output>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    NodeSpec spec{.op = "_Retval", .name = str_cat("result", i), .inputs = {results[i]}};
    spec.attrs = {{"index", static_cast<std::int64_t>(i)}};
    body.retvals.push_back(body.graph->add_node(std::move(spec)).value_or_throw());
  }
}

}  // namespace tutti
