#include "tutti/graph/internal/node_def_writer.h"

#include "proto/node_def.pb.h"
#include "tutti/graph/attr_codec.h"
#include "tutti/graph/internal/proto_util.h"

namespace tutti {
namespace {

// Tensors over this are kept once, in the node.
constexpr std::size_t kMaxKeptTensorBytes = 256;

// A tensor without a type is never valid, so it marks one whose elements were dropped.
bool is_stripped(const tensorflow::AttrValue& proto) {
  return proto.has_tensor() && proto.tensor().dtype() == tensorflow::DT_INVALID;
}

bool says_the_same(const tensorflow::AttrValue& proto, const AttrValue& value) {
  ExpansionBudget budget;
  Result<AttrValue> decoded = decode_attr(proto, budget);
  return decoded.ok() && *decoded == value;
}

bool is_default(const Node& node, const std::string& name, const AttrValue& value) {
  const AttrDef* def = node.op().find_attr(name);
  return def != nullptr && def->default_value && *def->default_value == value;
}

void write_attrs(const Node& node, bool has_origin, tensorflow::NodeDef* proto) {
  auto& attrs = *proto->mutable_attr();
  for (const auto& [name, value] : node.attrs()) {
    auto it = attrs.find(name);
    if (it == attrs.end()) {
      // A default that the origin left out stays out.
      if (!has_origin || !is_default(node, name, value)) encode_attr(value, &attrs[name]);
    } else if (is_stripped(it->second) || !says_the_same(it->second, value)) {
      encode_attr(value, &it->second);
    }
  }
}

// "node:0" and "node" name the same tensor.
std::string_view without_zero(std::string_view input) {
  return input.ends_with(":0") ? input.substr(0, input.size() - 2) : input;
}

void write_inputs(const Node& node, const std::function<std::string(Output)>& name_input, tensorflow::NodeDef* proto) {
  std::vector<std::string> inputs;
  for (const Output& input : node.inputs()) inputs.push_back(input ? name_input(input) : "");
  for (const Node* before : node.control_inputs()) inputs.push_back(str_cat("^", before->name()));
  for (int i = 0; i < proto->input_size() && i < static_cast<int>(inputs.size()); ++i) {
    if (without_zero(proto->input(i)) == without_zero(inputs[i])) inputs[i] = proto->input(i);
  }
  proto->clear_input();
  for (std::string& input : inputs) proto->add_input(std::move(input));
}

}  // namespace

std::string graph_input_name(Output output) { return output.index == 0 ? output.node->name() : output.name(); }

void write_node_def(const Node& node, const std::function<std::string(Output)>& name_input,
                    tensorflow::NodeDef* proto) {
  bool has_origin = node.origin() != nullptr;
  if (has_origin) {
    Status status = parse_message(*node.origin(), "origin", proto);
    TUTTI_CHECK(status.ok(), status);
  }
  proto->set_name(node.name());
  proto->set_op(node.op_name());
  proto->set_device(node.requested_device());
  write_inputs(node, name_input, proto);
  write_attrs(node, has_origin, proto);
}

std::shared_ptr<const std::string> make_origin(const OpDef& op, tensorflow::NodeDef* proto) {
  for (auto& [name, attr] : *proto->mutable_attr()) {
    const AttrDef* def = op.find_attr(name);
    if (def == nullptr || def->kind != "tensor") continue;
    if (!attr.has_tensor() || attr.tensor().ByteSizeLong() <= kMaxKeptTensorBytes) continue;
    clear_elements(attr.mutable_tensor());
    attr.mutable_tensor()->set_dtype(tensorflow::DT_INVALID);
  }
  return std::make_shared<const std::string>(serialize(*proto));
}

}  // namespace tutti
