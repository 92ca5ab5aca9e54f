#include "tutti/graph/internal/reachable_functions.h"

#include <set>
#include <string>
#include <vector>

#include "proto/function.pb.h"
#include "tutti/graph/internal/proto_util.h"

namespace tutti {
namespace {

class Reach {
 public:
  explicit Reach(const FunctionLibrary& library) : library_(library) {}

  void add(const Node& node) {
    add(node.op_name());
    for (const auto& [name, value] : node.attrs()) add(value);
  }

  // Follows calls until nothing is new.
  Status close() {
    while (!open_.empty()) {
      const std::string name = std::move(open_.back());
      open_.pop_back();
      add(library_.gradient_of(name));
      tensorflow::FunctionDef def;
      TUTTI_RETURN_IF_ERROR(parse_message(library_.serialized(name), name, &def));
      for (const tensorflow::NodeDef& node : def.node_def()) {
        add(node.op());
        if (!node.device().empty()) devices_.insert(node.device());
        for (const auto& [attr, value] : node.attr()) add(value);
      }
    }
    return {};
  }

  const std::set<std::string>& found() const { return found_; }
  const std::set<std::string>& devices() const { return devices_; }

 private:
  void add(const std::string& name) {
    if (!name.empty() && library_.contains(name) && found_.insert(name).second) open_.push_back(name);
  }
  void add(const AttrValue& value) {
    if (const auto* function = value.get<FunctionRef>()) add(*function);
    if (const auto* functions = value.get<std::vector<FunctionRef>>()) {
      for (const FunctionRef& function : *functions) add(function);
    }
  }
  // Attributes of a call may name functions too. They nest no deeper than messages were allowed to.
  void add(const FunctionRef& function) {
    add(function.name);
    if (!function.attrs) return;
    for (const auto& [name, value] : *function.attrs) add(value);
  }
  void add(const tensorflow::AttrValue& value) {
    if (value.has_func()) add(value.func());
    for (const tensorflow::NameAttrList& function : value.list().func()) add(function);
  }
  void add(const tensorflow::NameAttrList& function) {
    add(function.name());
    for (const auto& [name, value] : function.attr()) add(value);
  }

  const FunctionLibrary& library_;
  std::set<std::string> found_;
  std::set<std::string> devices_;  // that nodes of functions found ask for
  std::vector<std::string> open_;
};

}  // namespace

Result<std::shared_ptr<FunctionLibrary>> reachable_functions(const std::vector<const Node*>& nodes,
                                                             const std::shared_ptr<FunctionLibrary>& library) {
  if (library->names().empty()) return library;
  Reach reach(*library);
  for (const Node* node : nodes) reach.add(*node);
  TUTTI_RETURN_IF_ERROR(reach.close());
  auto part = std::make_shared<FunctionLibrary>();
  for (const std::string& name : reach.found()) {
    TUTTI_RETURN_IF_ERROR(part->add_serialized(library->serialized(name)));
    if (std::string gradient = library->gradient_of(name); !gradient.empty()) {
      part->set_gradient(name, std::move(gradient));
    }
  }
  return part;
}

Result<std::set<std::string>> devices_of_functions(const Node& node) {
  Reach reach(node.graph().library());
  reach.add(node);
  TUTTI_RETURN_IF_ERROR(reach.close());
  return reach.devices();
}

}  // namespace tutti
