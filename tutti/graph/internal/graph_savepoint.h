// A point that a graph goes back to when what came after it failed.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tutti/graph/graph.h"

namespace tutti::internal {

// When it goes without having been kept, the nodes that were added since are removed, those that were saved are as they
// were, and so are the collections. What other nodes read by then stays. So do functions in the library, and names stay
// taken.
class [[nodiscard]] GraphSavepoint {
 public:
  explicit GraphSavepoint(Graph& graph);
  ~GraphSavepoint();
  GraphSavepoint(const GraphSavepoint&) = delete;
  GraphSavepoint& operator=(const GraphSavepoint&) = delete;

  int first_new_id() const { return first_new_id_; }
  // To be called before an older node is changed.
  void save(const Node& node) { saved_.push_back(node); }
  void keep() { kept_ = true; }

 private:
  std::vector<bool> read_by_older() const;  // by id
  void restore_collections(const std::vector<bool>& stays);

  Graph& graph_;
  const int first_new_id_;
  std::map<std::string, std::size_t> collected_;  // nodes in each collection; they only grow
  std::vector<Node> saved_;
  bool kept_ = false;
};

}  // namespace tutti::internal
