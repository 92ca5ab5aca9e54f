#include "tutti/distributed/session_leases.h"

#include <algorithm>

namespace tutti {

void SessionLeases::ended(const std::string& session, TimePoint ends) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  Lease& lease = found->second;
  if (lease.calls > 0) --lease.calls;
  lease.ends = ends;
}

std::vector<std::string> SessionLeases::tick(TimePoint now) {
  std::vector<std::string> gone;
  std::erase_if(sessions_, [&](const auto& entry) {
    const auto& [session, lease] = entry;
    const bool over = lease.calls == 0 && now >= lease.ends;
    if (over) gone.push_back(session);
    return over;
  });
  return gone;
}

std::optional<TimePoint> SessionLeases::next_tick() const {
  std::optional<TimePoint> next;
  for (const auto& [session, lease] : sessions_) {
    if (lease.calls == 0) next = next ? std::min(*next, lease.ends) : lease.ends;
  }
  return next;
}

}  // namespace tutti
