// Which sessions still have a client: leases that Tutti's clients hold on their sessions, as a state machine.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/clock.h"

namespace tutti {

struct SessionLeaseOptions {
  // How long the master holds a client's call before it answers; then the client calls again.
  Duration hold = std::chrono::seconds(5);
  Duration renew = std::chrono::seconds(30);  // an answered call must be followed by the next within
  Duration grace = std::chrono::seconds(1);   // the same for a call whose connection closed
};

// A client keeps one call open for each of its sessions. Sessions that nobody leased or promised to are not known here.
// A tick that comes late by more than a second means that this process slept: the clients get that time on top. Not
// thread-safe.
class SessionLeases {
 public:
  explicit SessionLeases(SessionLeaseOptions options = {}) : options_(options) {}

  // The session was made for a client that will lease it, and has as long for the first call as for each later one.
  void created(const std::string& session, TimePoint now);
  // A call for the session came in and is held.
  void held(const std::string& session);
  void answered(const std::string& session, TimePoint now) { ended(session, now + options_.renew); }
  // The caller of a held call is gone.
  void broken(const std::string& session, TimePoint now) { ended(session, now + options_.grace); }
  // The session ended otherwise.
  void forget(const std::string& session);
  // The sessions whose client is gone; they are forgotten here.
  std::vector<std::string> tick(TimePoint now);
  std::optional<TimePoint> next_tick() const;
  std::size_t size() const { return sessions_.size(); }

 private:
  struct Lease {
    int calls = 0;  // that are held
    TimePoint ends;
  };
  void ended(const std::string& session, TimePoint ends);
  void forgive(TimePoint now);

  const SessionLeaseOptions options_;
  std::map<std::string, Lease> sessions_;
  std::set<std::pair<TimePoint, std::string>> ends_;  // of those without a call
};

}  // namespace tutti
