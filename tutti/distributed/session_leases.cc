#include "tutti/distributed/session_leases.h"

#include <utility>

namespace tutti {
namespace {

// A timer that is later than this was not merely scheduled late.
constexpr std::chrono::seconds kSlept{1};

}  // namespace

void SessionLeases::created(const std::string& session, TimePoint now) {
  const auto [lease, is_new] = sessions_.try_emplace(session);
  if (!is_new) return;
  lease->second.ends = now + options_.renew;
  ends_.emplace(lease->second.ends, session);
}

void SessionLeases::held(const std::string& session) {
  Lease& lease = sessions_[session];
  if (lease.calls++ == 0) ends_.erase({lease.ends, session});
}

void SessionLeases::ended(const std::string& session, TimePoint ends) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  Lease& lease = found->second;
  if (lease.calls == 0) ends_.erase({lease.ends, session});
  if (lease.calls > 0) --lease.calls;
  lease.ends = ends;
  if (lease.calls == 0) ends_.emplace(ends, session);
}

void SessionLeases::forget(const std::string& session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  ends_.erase({found->second.ends, session});
  sessions_.erase(found);
}

void SessionLeases::forgive(TimePoint now) {
  if (ends_.empty() || now <= ends_.begin()->first + kSlept) return;
  // A second on top: renewals that came meanwhile are still to be read.
  const Duration late = now - ends_.begin()->first + kSlept;
  for (const auto& [end, session] : std::exchange(ends_, {})) {
    sessions_[session].ends = end + late;
    ends_.emplace(end + late, session);
  }
}

std::vector<std::string> SessionLeases::tick(TimePoint now) {
  forgive(now);
  std::vector<std::string> gone;
  while (!ends_.empty() && ends_.begin()->first <= now) {
    gone.push_back(ends_.begin()->second);
    ends_.erase(ends_.begin());
    sessions_.erase(gone.back());
  }
  return gone;
}

std::optional<TimePoint> SessionLeases::next_tick() const {
  if (ends_.empty()) return std::nullopt;
  return ends_.begin()->first;
}

}  // namespace tutti
