#include "tutti/graph/graph_def.h"

#include <google/protobuf/text_format.h>

#include <algorithm>

#include "proto/graph.pb.h"
#include "tutti/graph/function.h"
#include "tutti/graph/internal/graph_importer.h"
#include "tutti/graph/internal/node_def_writer.h"
#include "tutti/graph/internal/proto_util.h"

namespace tutti {
namespace {

// tf.version.GRAPH_DEF_VERSION of TensorFlow 2.21, whose graphs we read.
constexpr int kConsumerVersion = 2474;

// A .pbtxt file, which parses as no message.
Status check_binary(std::string_view bytes) {
  constexpr std::size_t kLooked = 4096;
  const std::string_view head = bytes.substr(0, kLooked);
  const bool printable_only = std::all_of(head.begin(), head.end(), [](unsigned char c) {
    return (c >= ' ' && c < 0x7f) || c == '\n' || c == '\r' || c == '\t';
  });
  if (!printable_only || head.find('{') == head.npos) return {};
  return invalid_argument("GraphDef of ", bytes.size(),
                          " bytes is text, as in a .pbtxt file; the binary form is wanted (SerializeToString)");
}

Status check_versions(const tensorflow::VersionDef& versions) {
  if (versions.min_consumer() > kConsumerVersion) {
    return invalid_argument("GraphDef asks for a consumer of version ", versions.min_consumer(),
                            " or later (made with ", versions.producer(), "), this is ", kConsumerVersion);
  }
  const auto& bad = versions.bad_consumers();
  if (std::find(bad.begin(), bad.end(), kConsumerVersion) != bad.end()) {
    return invalid_argument("GraphDef refuses consumers of version ", kConsumerVersion);
  }
  return {};
}

tensorflow::GraphDef to_graph_def(const Graph& graph, int first_id = 0) {
  tensorflow::GraphDef def;
  Status status = parse_message(graph.origin(), "origin", &def);
  TUTTI_CHECK(status.ok(), status);
  for (int id = first_id; id < graph.id_limit(); ++id) {
    const Node* node = graph.node_by_id(id);
    if (node != nullptr) write_node_def(*node, graph_input_name, def.add_node());
  }
  const FunctionLibrary& library = graph.library();
  for (const std::string& name : library.names()) {
    status = parse_message(library.serialized(name), name, def.mutable_library()->add_function());
    TUTTI_CHECK(status.ok(), status);
    if (std::string gradient = library.gradient_of(name); !gradient.empty()) {
      auto* entry = def.mutable_library()->add_gradient();
      entry->set_function_name(name);
      entry->set_gradient_func(gradient);
    }
  }
  return def;
}

}  // namespace

Status import_graph_def(std::string_view bytes, Graph& graph, const ImportOptions& options) {
  tensorflow::GraphDef def;
  TUTTI_RETURN_IF_ERROR(check_binary(bytes));
  TUTTI_RETURN_IF_ERROR(parse_message(bytes, "GraphDef", &def));
  TUTTI_RETURN_IF_ERROR(check_versions(def.versions()));
  if (!options.prefix.empty()) TUTTI_RETURN_IF_ERROR(check_node_name(options.prefix));
  GraphImporter importer(graph, GraphImporter::Dialect::kGraph);
  importer.set_prefix(options.prefix);
  TUTTI_RETURN_IF_ERROR(importer.add_functions(def.library()));
  TUTTI_RETURN_IF_ERROR(importer.add_nodes(*def.mutable_node()));
  importer.keep_rest(std::move(def));
  if (options.accept) TUTTI_RETURN_IF_ERROR(options.accept(graph));
  importer.commit();
  return {};
}

std::string export_graph_def(const Graph& graph, int first_id) { return serialize(to_graph_def(graph, first_id)); }

std::string graph_def_text(const Graph& graph) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(to_graph_def(graph), &text);
  return text;
}

}  // namespace tutti
