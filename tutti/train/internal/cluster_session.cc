#include "tutti/train/internal/cluster_session.h"

namespace tutti::internal {

Result<std::unique_ptr<Session>> cluster_session(const std::string& master, Graph& graph,
                                                 const ConnectOptions& options) {
  return connect(master, graph, options);
}

}  // namespace tutti::internal
