// Nodes as NodeDef messages.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tutti/graph/graph.h"

namespace tensorflow {
class NodeDef;
}

namespace tutti {

// What `node` is, over what its origin holds besides. `name_input` writes a data input.
void write_node_def(const Node& node, const std::function<std::string(Output)>& name_input, tensorflow::NodeDef* proto);

// What to keep of a NodeDef for write_node_def: all but the elements of larger tensors that a node of `op`
// has itself. They are dropped from `proto`.
std::shared_ptr<const std::string> make_origin(const OpDef& op, tensorflow::NodeDef* proto);

// "node", "node:1".
std::string graph_input_name(Output output);

}  // namespace tutti
