#include "tutti/graph/explain.h"

#include <map>
#include <unordered_map>
#include <utility>

#include "tutti/core/rendezvous_key.h"
#include "tutti/graph/step_cut.h"

namespace tutti {
namespace {

std::string name_of(const Node* node) { return node == nullptr ? std::string("?") : printable(node->name()); }

std::string reason_text(const Node& node, const PlacementReason& reason) {
  switch (reason.kind) {
    case PlacementReason::kFirstDevice:
      return "first device that fits";
    case PlacementReason::kAsked:
      return str_cat("asks for ", printable(node.requested_device()));
    case PlacementReason::kStays:
      return "its state is there";
    case PlacementReason::kWithOther:
      return str_cat("goes with ", name_of(reason.other));
    case PlacementReason::kInput:
      return str_cat("reads only the shape of ", name_of(reason.other));
    case PlacementReason::kReaders:
      return str_cat("where its readers are, ", name_of(reason.other), " among them");
  }
  return "";
}

// Of a value that crosses; -1 where its size is not known.
std::int64_t bytes_of(const Crossing& crossing) {
  const std::int64_t elements = crossing.shape.num_elements();
  const auto size = static_cast<std::int64_t>(dtype_size(crossing.dtype));
  if (elements < 0 || (size == 0 && elements > 0)) return -1;
  std::int64_t bytes = 0;
  return __builtin_mul_overflow(elements, size, &bytes) ? -1 : bytes;
}

std::string plural(std::size_t count, std::string_view thing) {
  return str_cat(count, " ", thing, count == 1 ? "" : "s");
}

class Explainer {
 public:
  Explainer(const Signature& signature, const ExplainOptions& options) : signature_(signature), options_(options) {}

  Result<std::string> run(const Graph& graph) {
    // Placement sees the whole graph, as it does in a session; it works on a copy.
    Signature everything;
    for (const Node* node : graph.nodes()) everything.targets.push_back(node->name());
    TUTTI_ASSIGN_OR_RETURN(const FunctionBody whole, extract_subgraph(graph, everything));
    std::vector<PlacementReason> why;
    TUTTI_RETURN_IF_ERROR(place(*whole.graph, options_.placement, &why));
    for (const Node* node : whole.graph->nodes()) {
      reasons_[node->name()] = {node->assigned_device(), reason_text(*node, why[node->id()])};
    }
    TUTTI_ASSIGN_OR_RETURN(FunctionBody body, extract_subgraph(*whole.graph, signature_));
    TUTTI_ASSIGN_OR_RETURN(const Partitioning parts, cut(body, *whole.graph));
    describe_nodes(body, parts);
    describe_crossings(parts);
    return std::move(text_);
  }

 private:
  struct Reason {
    std::string device;
    std::string text;
  };

  std::string client_device() const {
    return options_.client_device.empty() ? options_.placement.devices.front().to_string() : options_.client_device;
  }

  Result<Partitioning> cut(FunctionBody& body, const Graph& placed) const {
    const PartitionOptions options{.part_of = [](const std::string& device) { return std::string(task_of(device)); },
                                   .incarnation_of = [](const std::string&) { return 0; },
                                   .client_device = client_device()};
    return cut_step(body, placed,
                    {.partition = options, .place = [this](Graph& graph) { return place(graph, options_.placement); }});
  }

  // `node` of a part.
  std::string why(const Node& node) const {
    const auto reason = reasons_.find(node.name());
    if (reason == reasons_.end()) return "from a function or a joined control edge";
    return node.assigned_device() == reason->second.device ? reason->second.text : "kept with what it passes on";
  }

  // The signature's own nodes, those of its functions included: what the cut adds is told by the crossings.
  void describe_nodes(const FunctionBody& body, const Partitioning& parts) {
    std::map<std::string, std::vector<std::string>> lines;  // by device
    for (const Part& part : parts.parts) {
      for (const Node* node : part.graph->nodes()) {
        if (body.graph->find(node->name()) == nullptr) continue;
        lines[node->assigned_device()].push_back(
            str_cat("  ", printable(node->name()), "  ", node->op_name(), "  ", why(*node), "\n"));
      }
      for (const Part::Terminal& feed : part.feeds) {
        lines[client_device()].push_back(
            str_cat("  ", printable(signature_.feeds[feed.index]), "  is fed by the client\n"));
      }
      for (const Part::Terminal& fetch : part.fetches) {
        lines[client_device()].push_back(
            str_cat("  ", printable(signature_.fetches[fetch.index]), "  is fetched by the client\n"));
      }
    }
    for (const auto& [device, entries] : lines) {
      text_ += str_cat(device, ": ", plural(entries.size(), "node"), "\n");
      for (const std::string& entry : entries) text_ += entry;
    }
  }

  void describe_crossings(const Partitioning& parts) {
    std::map<std::pair<std::string, std::string>, std::vector<const Crossing*>> pairs;
    for (const Crossing& crossing : parts.crossings) pairs[{crossing.from, crossing.to}].push_back(&crossing);
    if (pairs.empty()) text_ += "nothing crosses between tasks\n";
    for (const auto& [tasks, crossings] : pairs) {
      std::string entries;
      std::int64_t known = 0;
      std::size_t unknown = 0;
      bool in_loop = false;
      for (const Crossing* crossing : crossings) {
        const std::int64_t bytes = bytes_of(*crossing);
        if (bytes < 0) ++unknown;
        if (bytes > 0) known += bytes;
        in_loop = in_loop || crossing->in_loop;
        entries += describe(*crossing, bytes);
      }
      text_ +=
          str_cat(tasks.first, " -> ", tasks.second, ": ", plural(crossings.size(), "value"), ", ", known, " bytes");
      if (unknown > 0) text_ += str_cat(" and ", unknown, " of unknown size");
      if (in_loop) text_ += ", some of them in every iteration of a loop";
      text_ += str_cat("\n", entries);
    }
  }

  static std::string describe(const Crossing& crossing, std::int64_t bytes) {
    const char* often = crossing.in_loop ? "  in every iteration" : "";
    if (crossing.tensor.starts_with('^')) return str_cat("  ", printable(crossing.tensor), "  order only", often, "\n");
    return str_cat("  ", printable(crossing.tensor), "  ", dtype_name(crossing.dtype), " ", crossing.shape.to_string(),
                   "  ", bytes < 0 ? std::string("unknown") : str_cat(bytes, " bytes"), often, "\n");
  }

  const Signature& signature_;
  const ExplainOptions& options_;
  std::unordered_map<std::string, Reason> reasons_;  // by node
  std::string text_;
};

}  // namespace

Result<std::string> explain(const Graph& graph, const Signature& signature, const ExplainOptions& options) {
  if (options.placement.devices.empty()) return invalid_argument("there are no devices to place operations on");
  return Explainer(signature, options).run(graph);
}

}  // namespace tutti
