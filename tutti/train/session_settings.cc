#include "tutti/train/session_settings.h"

#include "tutti/train/internal/cluster_session.h"

namespace tutti {

Result<std::unique_ptr<Session>> open_session(const std::string& master, Graph& graph,
                                              const SessionSettings& settings) {
  if (settings.connect) return settings.connect(graph);
  if (master.empty() || master == "local") {
    return std::unique_ptr<Session>(std::make_unique<LocalSession>(graph, settings.local));
  }
  return internal::cluster_session(master, graph, settings.cluster);
}

}  // namespace tutti
