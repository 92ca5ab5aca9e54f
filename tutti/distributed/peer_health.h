// Failure detection: what one task knows of each of its peers, as a state machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tutti/core/clock.h"
#include "tutti/core/status.h"

namespace tutti {

// How long a task may be silent before the others take it for dead.
inline constexpr std::chrono::milliseconds kDefaultLease{30'000};
// The leases that can be asked for.
inline constexpr std::chrono::milliseconds kShortestLease{500};
inline constexpr std::chrono::milliseconds kLongestLease{1'000'000'000};

struct PeerHealthOptions {
  Duration heartbeat = std::chrono::milliseconds(250);  // a live peer that was silent for so long is asked
  // Silence after which a peer is suspected: calls to it wait, and the log says so. Also how long one question waits
  // for its answer before another is sent.
  Duration suspect = std::chrono::milliseconds(1000);
  // Silence after which a peer is lost. A process may pause for as long (a stopped VM, swap, a debugger) and go on as
  // if nothing had happened. A peer whose port refuses connections is lost at once.
  Duration lease = kDefaultLease;
  Duration first_retry = std::chrono::milliseconds(20);  // after a failed connection; doubles up to `last_retry`
  Duration last_retry = std::chrono::milliseconds(500);
  // A peer that was never there, or that was lost and is waited for, is reported as missing after so long, and then
  // again and again.
  Duration patience = std::chrono::seconds(3);
  Duration reminder = std::chrono::seconds(10);

  // With a suspicion and heartbeats that come several times within the lease.
  PeerHealthOptions within_lease() const;
};

enum class PeerState {
  kUnknown,     // nobody asked for it yet
  kConnecting,  // asked for, never answered
  kAlive,
  kSuspected,  // silent, or its connection closed; calls to it wait
  kLost,       // its lease ran out, or it can no longer be reached; still asked, it may come back
};
std::string_view peer_state_name(PeerState state);

// Where an attempt to reach a peer ended.
enum class ConnectStage {
  kNameLookup,
  kRefused,  // its host is there, and no process listens on the port
  kConnect,  // timed out, unreachable: says nothing about the process
  kHandshake,
};

// What happened, in order.
struct PeerEvent {
  enum class Kind {
    kAlive,      // there for the first time, or answered first, or again as the same incarnation after it was lost
    kRestarted,  // answered as another incarnation: what it held is gone
    kLost,
    kSuspected,  // to be logged: `cause` names the silence and what follows from it
    kRecovered,  // to be logged: a suspect that was logged has answered, as the same incarnation
    kAsk,        // now is the time to ask it whether it lives
    kMissing,    // to be logged: `cause` has the stage and the reason
  };
  Kind kind;
  std::string task;
  std::uint64_t incarnation = 0;  // kAlive, kRestarted: the new one
  Status cause;                   // kRestarted: kAborted; kRecovered: OK; otherwise kUnavailable
  Duration silence{0};            // kRecovered: how long it did not answer
  bool is_reminder = false;       // kMissing: nothing new, for callers that still wait
};

// Fed with what was heard and with the time; gives what follows from it. A tick that comes late by more than a
// heartbeat means that this process slept: silence of that time does not count. Not thread-safe, has no thread, sends
// nothing. Unknown tasks may be named: they are added.
class PeerHealth {
 public:
  using Events = std::vector<PeerEvent>;

  explicit PeerHealth(PeerHealthOptions options = {});

  // Somebody needs this task: it is asked from now on.
  Events watch(const std::string& task, TimePoint now);
  // As watch, and it is asked now, whenever it would have been.
  Events ask_now(const std::string& task, TimePoint now);
  // Somebody waits until it is back, if it is lost: from now on it is said to be missing like one that was never there.
  Events await(const std::string& task, TimePoint now);
  // It answered. An incarnation that was replaced by a later one is not believed any more.
  Events heard(const std::string& task, std::uint64_t incarnation, TimePoint now);
  // It called us. That may be a late message of a process that has been replaced meanwhile: from an incarnation that is
  // not known it is a reason to ask who is there, no more. Only where nothing is known and nobody asks it is listened
  // to.
  Events called(const std::string& task, std::uint64_t incarnation, TimePoint now);
  // A call that was made to this incarnation was answered: a sign of life, of which nothing follows.
  void answered(const std::string& task, std::uint64_t incarnation, TimePoint now);
  Events connection_failed(const std::string& task, ConnectStage stage, const Status& reason, TimePoint now);
  // A connection that stood is gone.
  Events connection_closed(const std::string& task, TimePoint now);
  Events tick(TimePoint now);
  // When tick has something to do; nothing: never.
  std::optional<TimePoint> next_tick() const;

  PeerState state(const std::string& task) const;
  // Of its last answer; 0: none yet, though it may have called.
  std::uint64_t incarnation(const std::string& task) const;

 private:
  struct Peer {
    PeerState state = PeerState::kUnknown;
    std::uint64_t incarnation = 0;
    bool answered = false;                  // as this incarnation; false: it only called
    std::vector<std::uint64_t> dead;        // incarnations that were replaced, the last few
    TimePoint heard;                        // last
    std::optional<TimePoint> silent_since;  // kSuspected was reported, and kRecovered not yet
    TimePoint asked_for;                    // when it was first watched, or last lost
    bool watched = false;                   // somebody needs it; one that only calls us is listened to, not asked
    bool awaited = false;                   // somebody has waited for it since it was lost
    std::optional<TimePoint> next_ask;
    Duration retry{0};  // 0: the last attempt did not fail
    std::optional<Status> failure;
    std::optional<ConnectStage> failed_at;           // of the failure
    std::set<std::optional<ConnectStage>> reported;  // the stages at which it was reported as missing
    std::optional<TimePoint> next_reminder;          // of its being missing
  };

  // When we ourselves were late, stopped or starved, peers are not blamed for it.
  void forgive(TimePoint now);
  static bool is_dead(const Peer& peer, std::uint64_t incarnation);
  Events believe(const std::string& task, std::uint64_t incarnation, bool answered, TimePoint now);
  Duration next_retry(const Peer& peer) const;
  void lose(const std::string& task, Peer& peer, const Status& cause, TimePoint now, Events& events);
  static bool is_missed(const Peer& peer) {
    return peer.state == PeerState::kConnecting || (peer.state == PeerState::kLost && peer.awaited);
  }
  // Whether it is missing at a stage that was not reported yet.
  static bool is_news(const Peer& peer) { return is_missed(peer) && !peer.reported.contains(peer.failed_at); }
  void report_missing(const std::string& task, Peer& peer, TimePoint now, Events& events);
  void tick_peer(const std::string& task, Peer& peer, TimePoint now, Events& events);
  std::optional<TimePoint> next_tick_of(const Peer& peer) const;

  const PeerHealthOptions options_;
  TimePoint forgiven_until_{};
  std::map<std::string, Peer> peers_;
};

// Which stage a failed call's status tells of, from its code and words.
ConnectStage connect_stage(const Status& status);

}  // namespace tutti
