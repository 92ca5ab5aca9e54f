#include "tutti/distributed/peer_health.h"

#include <algorithm>
#include <utility>

#include "tutti/core/strings.h"

namespace tutti {
namespace {

using Kind = PeerEvent::Kind;

// Of replaced incarnations; a late message is late by seconds, not by restarts.
constexpr std::size_t kRememberedDead = 8;

std::string_view stage_name(ConnectStage stage) {
  switch (stage) {
    case ConnectStage::kNameLookup:
      return "name lookup failed";
    case ConnectStage::kRefused:
      return "connection refused";
    case ConnectStage::kConnect:
      return "connection failed";
    case ConnectStage::kHandshake:
      break;
  }
  return "handshake failed";
}

std::int64_t whole_ms(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace

std::string_view peer_state_name(PeerState state) {
  switch (state) {
    case PeerState::kUnknown:
      return "unknown";
    case PeerState::kConnecting:
      return "connecting";
    case PeerState::kAlive:
      return "alive";
    case PeerState::kSuspected:
      return "suspected";
    case PeerState::kLost:
      break;
  }
  return "lost";
}

PeerHealthOptions PeerHealthOptions::within_lease() const {
  PeerHealthOptions fitting = *this;
  fitting.suspect = std::min(suspect, lease / 2);
  fitting.heartbeat = std::min(heartbeat, lease / 4);
  return fitting;
}

PeerHealth::PeerHealth(PeerHealthOptions options) : options_(options.within_lease()) {}

Duration PeerHealth::next_retry(const Peer& peer) const {
  if (peer.retry == Duration(0)) return options_.first_retry;
  return std::min(peer.retry * 2, options_.last_retry);
}

void PeerHealth::forgive(TimePoint now) {
  const auto next = next_tick();
  if (!next) return;
  // What was forgiven at an input before the tick is not forgiven again.
  const TimePoint expected = std::max(*next, forgiven_until_);
  if (now <= expected + options_.heartbeat) return;
  forgiven_until_ = now;
  const Duration late = now - expected;
  for (auto& [task, peer] : peers_) peer.heard = std::min(now, peer.heard + late);
}

PeerHealth::Events PeerHealth::watch(const std::string& task, TimePoint now) {
  forgive(now);
  Events events;
  Peer& peer = peers_[task];
  if (std::exchange(peer.watched, true)) return events;
  peer.asked_for = now;
  peer.next_ask = now;
  if (peer.state == PeerState::kUnknown) peer.state = PeerState::kConnecting;
  tick_peer(task, peer, now, events);
  return events;
}

PeerHealth::Events PeerHealth::ask_now(const std::string& task, TimePoint now) {
  Events events = watch(task, now);
  if (!events.empty()) return events;
  Peer& peer = peers_[task];
  peer.next_ask = now;
  tick_peer(task, peer, now, events);
  return events;
}

PeerHealth::Events PeerHealth::await(const std::string& task, TimePoint now) {
  forgive(now);
  Events events;
  Peer& peer = peers_[task];
  if (peer.state != PeerState::kLost) return events;
  peer.awaited = true;
  tick_peer(task, peer, now, events);
  return events;
}

bool PeerHealth::is_dead(const Peer& peer, std::uint64_t incarnation) {
  return std::count(peer.dead.begin(), peer.dead.end(), incarnation) != 0;
}

PeerHealth::Events PeerHealth::heard(const std::string& task, std::uint64_t incarnation, TimePoint now) {
  forgive(now);
  if (incarnation == 0 || is_dead(peers_[task], incarnation)) return {};
  return believe(task, incarnation, true, now);
}

PeerHealth::Events PeerHealth::called(const std::string& task, std::uint64_t incarnation, TimePoint now) {
  forgive(now);
  Peer& peer = peers_[task];
  if (incarnation == 0 || is_dead(peer, incarnation)) return {};
  const bool nothing_known = peer.incarnation == 0 && !peer.watched;
  if (nothing_known || peer.incarnation == incarnation) return believe(task, incarnation, false, now);
  if (peer.watched) peer.next_ask = now + options_.heartbeat;
  return {{Kind::kAsk, task, peer.incarnation, {}}};
}

PeerHealth::Events PeerHealth::believe(const std::string& task, std::uint64_t incarnation, bool answered,
                                       TimePoint now) {
  Events events;
  Peer& peer = peers_[task];
  const PeerState before = peer.state;
  peer.state = PeerState::kAlive;
  peer.heard = now;
  const std::optional<TimePoint> silent_since = std::exchange(peer.silent_since, std::nullopt);
  peer.retry = Duration(0);
  peer.failure.reset();
  peer.failed_at.reset();
  peer.awaited = false;
  peer.reported.clear();
  peer.next_reminder.reset();
  if (peer.watched) peer.next_ask = now + options_.heartbeat;
  const bool first_answer = answered && !std::exchange(peer.answered, true);
  if (peer.incarnation == incarnation) {
    if (before == PeerState::kLost || first_answer) {
      events.push_back({Kind::kAlive, task, incarnation, {}});
    } else if (silent_since) {
      events.push_back({Kind::kRecovered, task, incarnation, {}, now - *silent_since});
    }
    return events;
  }
  const std::uint64_t old = std::exchange(peer.incarnation, incarnation);
  if (old == 0) {
    events.push_back({Kind::kAlive, task, incarnation, {}});
    return events;
  }
  peer.dead.push_back(old);
  if (peer.dead.size() > kRememberedDead) peer.dead.erase(peer.dead.begin());
  events.push_back({Kind::kRestarted, task, incarnation,
                    aborted(task, " was restarted (incarnation ", incarnation, ", before ", old,
                            "): what it held is gone; make a new session")});
  return events;
}

void PeerHealth::answered(const std::string& task, std::uint64_t incarnation, TimePoint now) {
  const auto found = peers_.find(task);
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  const bool there = peer.state == PeerState::kAlive || peer.state == PeerState::kSuspected;
  if (!there || peer.incarnation != incarnation) return;
  peer.state = PeerState::kAlive;
  peer.heard = std::max(peer.heard, now);
  // It is asked as before: by our questions it knows that we live.
}

void PeerHealth::lose(const std::string& task, Peer& peer, const Status& cause, TimePoint now, Events& events) {
  peer.state = PeerState::kLost;
  peer.silent_since.reset();
  peer.asked_for = now;
  peer.retry = next_retry(peer);
  peer.next_ask.reset();
  if (peer.watched) peer.next_ask = now + peer.retry;
  events.push_back({Kind::kLost, task, peer.incarnation, cause});
}

PeerHealth::Events PeerHealth::connection_failed(const std::string& task, ConnectStage stage, const Status& reason,
                                                 TimePoint now) {
  forgive(now);
  Events events;
  Peer& peer = peers_[task];
  peer.failed_at = stage;
  peer.failure = unavailable(task, ": ", stage_name(stage), ": ", printable(reason.message(), 300));
  const bool was_there = peer.state == PeerState::kAlive || peer.state == PeerState::kSuspected;
  // It answered before and no process listens there now. Only silence has to wait for the lease.
  if (was_there && stage == ConnectStage::kRefused) {
    lose(task, peer, unavailable(task, " is gone: ", printable(reason.message(), 300)), now, events);
    return events;
  }
  peer.retry = next_retry(peer);
  if (peer.watched) peer.next_ask = now + peer.retry;
  tick_peer(task, peer, now, events);
  return events;
}

PeerHealth::Events PeerHealth::connection_closed(const std::string& task, TimePoint now) {
  forgive(now);
  Events events;
  Peer& peer = peers_[task];
  if (peer.state == PeerState::kAlive) {  // a suspect is asked already
    peer.state = PeerState::kSuspected;
    if (peer.watched) peer.next_ask = now;
  }
  tick_peer(task, peer, now, events);
  return events;
}

void PeerHealth::tick_peer(const std::string& task, Peer& peer, TimePoint now, Events& events) {
  const bool was_there = peer.state == PeerState::kAlive || peer.state == PeerState::kSuspected;
  if (was_there && now >= peer.heard + options_.lease) {
    const Status cause = unavailable(task, " is gone: nothing was heard of it for ", whole_ms(now - peer.heard), " ms",
                                     peer.failure ? str_cat(" (", peer.failure->message(), ")") : "");
    lose(task, peer, cause, now, events);
    return;
  }
  if (was_there && now >= peer.heard + options_.suspect) {
    peer.state = PeerState::kSuspected;
    if (!peer.silent_since) {
      peer.silent_since = peer.heard;
      events.push_back({Kind::kSuspected, task, peer.incarnation,
                        unavailable(task, " has not answered for ", whole_ms(now - peer.heard),
                                    " ms: calls to it wait; it is given up after ", whole_ms(options_.lease), " ms")});
    }
  }
  if (peer.next_ask && now >= *peer.next_ask) {
    const bool there = peer.state == PeerState::kAlive || peer.state == PeerState::kSuspected;
    peer.next_ask = now + (there ? options_.heartbeat : std::max(options_.heartbeat, peer.retry));
    events.push_back({Kind::kAsk, task, peer.incarnation, {}});
  }
  report_missing(task, peer, now, events);
}

void PeerHealth::report_missing(const std::string& task, Peer& peer, TimePoint now, Events& events) {
  const bool news = is_news(peer) && now >= peer.asked_for + options_.patience;
  const bool reminder = is_missed(peer) && peer.next_reminder && now >= *peer.next_reminder;
  if (!news && !reminder) return;
  peer.reported.insert(peer.failed_at);
  peer.next_reminder = now + options_.reminder;
  events.push_back({.kind = Kind::kMissing,
                    .task = task,
                    .cause = peer.failure ? *peer.failure : unavailable(task, ": it does not answer"),
                    .is_reminder = !news});
}

PeerHealth::Events PeerHealth::tick(TimePoint now) {
  forgive(now);
  Events events;
  for (auto& [task, peer] : peers_) tick_peer(task, peer, now, events);
  return events;
}

std::optional<TimePoint> PeerHealth::next_tick_of(const Peer& peer) const {
  std::optional<TimePoint> next = peer.next_ask;
  const auto consider = [&](TimePoint when) { next = next ? std::min(*next, when) : when; };
  const bool there = peer.state == PeerState::kAlive || peer.state == PeerState::kSuspected;
  if (there && !peer.silent_since) consider(peer.heard + options_.suspect);
  if (there) consider(peer.heard + options_.lease);
  if (is_news(peer)) consider(peer.asked_for + options_.patience);
  if (is_missed(peer) && peer.next_reminder) consider(*peer.next_reminder);
  return next;
}

std::optional<TimePoint> PeerHealth::next_tick() const {
  std::optional<TimePoint> next;
  for (const auto& [task, peer] : peers_) {
    const auto of_peer = next_tick_of(peer);
    if (of_peer && (!next || *of_peer < *next)) next = of_peer;
  }
  return next;
}

PeerState PeerHealth::state(const std::string& task) const {
  const auto found = peers_.find(task);
  return found == peers_.end() ? PeerState::kUnknown : found->second.state;
}

std::uint64_t PeerHealth::incarnation(const std::string& task) const {
  const auto found = peers_.find(task);
  return found == peers_.end() || !found->second.answered ? 0 : found->second.incarnation;
}

ConnectStage connect_stage(const Status& status) {
  const std::string_view text = status.message();
  if (contains(text, "DNS resolution") || contains(text, "name lookup") || contains(text, "resolve")) {
    return ConnectStage::kNameLookup;
  }
  if (contains(text, "andshake") || contains(text, "SSL") || contains(text, "TLS") || contains(text, "certificate")) {
    return ConnectStage::kHandshake;
  }
  // Any other code came from a process that listens there.
  if (status.code() != Code::kUnavailable) return ConnectStage::kHandshake;
  return contains(text, "refused") ? ConnectStage::kRefused : ConnectStage::kConnect;
}

}  // namespace tutti
