#include "tutti/train/internal/cluster_session.h"

namespace tutti::internal {

Result<std::unique_ptr<Session>> cluster_session(const std::string& master, Graph&, const ConnectOptions&) {
  return unimplemented("session on \"", printable(master), "\": this build has no clusters (TUTTI_CLUSTER is off)");
}

}  // namespace tutti::internal
