#include "tutti/distributed/rpc/internal/connection_guard.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include "tutti/core/strings.h"
#include "tutti/core/thread_setup.h"

namespace tutti::rpc_internal {
namespace {

using namespace std::chrono_literals;

// What epoll says of the wake-up and, from here on, of listeners; connections come after them.
constexpr std::uint64_t kWakeToken = 0;
constexpr std::uint64_t kFirstListenerToken = 1;
constexpr std::uint64_t kFirstConnectionToken = 1000;

// How often connections that are sending are looked at.
constexpr std::chrono::milliseconds kTick{10};
// Ticks without a byte after which a connection is looked at no more before its next byte.
constexpr int kStillTicks = 100;
// Connections accepted before the others are looked at again.
constexpr int kAcceptedAtOnce = 64;
// A second line about refused or closed connections comes no sooner.
constexpr std::chrono::minutes kLinesApart{1};

// Bytes that the kernel holds for gRPC, of a connection that has not begun a long message. What gRPC reads at once it
// also parses at once, and nothing ends that: in a header that comes in pieces of 16 bytes, each piece costs a copy of
// all before it; of calls that are abandoned, each costs 12 kB until its turn comes.
constexpr int kFirstWindow = 32 << 10;
constexpr int kAnyWindow = 1 << 30;

// gRPC may serve a connection that has bytes waiting on the thread that hands it over, until all are read once.
constexpr int kHandOverThreads = 4;

// After the last stranger of it was cut off, a host is distrusted for so long; one on trial has so long until the next.
constexpr std::chrono::seconds kDistrustTime{10};
constexpr std::chrono::milliseconds kTrialTime{30};
constexpr std::chrono::milliseconds kLongestWait{500};

// Of a message that has begun, over ServerLimits::message.
constexpr std::uint64_t kMessageBytesPerSecond = 4096;

rlim_t file_limit() {
  rlimit files{};
  return getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : 1024;
}

UniqueFd open_reserve() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

bool no_files_left(int error) { return error == EMFILE || error == ENFILE; }

struct PeerName {
  std::string host;
  int port = 0;
};

PeerName peer_name(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return {text, ntohs(v4.sin_port)};
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    ::inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof(text));
  } else {
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  }
  return {text, ntohs(v6.sin6_port)};
}

bool watch(int epoll, int operation, int fd, std::uint32_t events, std::uint64_t token) {
  epoll_event event{.events = events, .data = {.u64 = token}};
  return ::epoll_ctl(epoll, operation, fd, &event) == 0;
}

}  // namespace

// gRPC's servers begin with windows of 4 MiB for each call and enlarge them for links where more is under way. A call
// becomes known some milliseconds after its bytes were taken, and on a busy machine some tens.
constexpr ConnectionGuard::Bounds ConnectionGuard::kStranger{6 << 20, 9 << 19, 64 << 10, 15};
constexpr ConnectionGuard::Bounds ConnectionGuard::kDistrusted{2 << 20, 1 << 20, 64 << 10, 3};
constexpr ConnectionGuard::Bounds ConnectionGuard::kCaller{32 << 20, 32 << 20, 64 << 10, 15};
constexpr ConnectionGuard::Bounds ConnectionGuard::kProven{16 << 20, 8 << 20, 256 << 10, 10};
constexpr ConnectionGuard::Bounds ConnectionGuard::kOwing{32 << 20, 32 << 20, 8 << 20, 20};

// "ipv4:10.0.0.1:40312", "ipv6:%5Bfe80::1%252%5D:40312" (brackets and the zone's % are escaped).
std::string peer_key(const std::string& grpc_peer) {
  const std::size_t scheme = grpc_peer.find(':');
  const std::size_t colon = grpc_peer.rfind(':');
  if (scheme == std::string::npos || colon <= scheme) return grpc_peer;
  std::string host = grpc_peer.substr(scheme + 1, colon - scheme - 1);
  if (host.starts_with("%5B")) host = host.substr(3, host.find('%', 3) - 3);
  if (host.starts_with("[")) host = host.substr(1, host.find_first_of("%]") - 1);
  return str_cat(host, " ", grpc_peer.substr(colon + 1));
}

ConnectionGuard::ConnectionGuard(const ServerLimits& limits, std::chrono::milliseconds unacknowledged, TaskLog log)
    : unacknowledged_ms_(static_cast<unsigned>(unacknowledged.count())),
      of_one_abandoned_(Duration(1s) / std::max(1, limits.calls_per_connection)),
      message_seconds_(static_cast<int>(std::chrono::ceil<std::chrono::seconds>(limits.message).count())),
      log_(std::move(log)) {}

ConnectionGuard::~ConnectionGuard() { stop(); }

Status ConnectionGuard::start(std::vector<UniqueFd> listeners, HandOver hand_over, OwedMessage owed_message) {
  listeners_ = std::move(listeners);
  hand_over_ = std::move(hand_over);
  owed_message_ = std::move(owed_message);
  reserve_ = open_reserve();
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_ || !wake_ || !watch(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), EPOLLIN, kWakeToken)) {
    return resource_exhausted("files for accepting connections: ", std::generic_category().message(errno));
  }
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    if (!watch(epoll_.get(), EPOLL_CTL_ADD, listeners_[i].get(), EPOLLIN, kFirstListenerToken + i)) {
      return resource_exhausted("watching a listening socket: ", std::generic_category().message(errno));
    }
  }
  next_second_ = std::chrono::steady_clock::now() + 1s;
  try {
    hand_over_threads_ = std::make_unique<ThreadPool>("rpc-connect", kHandOverThreads);
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return resource_exhausted("a thread for accepting connections: ", error.what());
  }
  return {};
}

void ConnectionGuard::stop() {
  if (thread_.joinable()) {
    {
      MutexLock lock(mu_);
      stopping_ = true;
    }
    ::eventfd_write(wake_.get(), 1);
    thread_.join();
  }
  hand_over_threads_.reset();
  listeners_.clear();
  MutexLock lock(mu_);
  // gRPC's files of these sockets stay open.
  active_.clear();
  by_key_.clear();
  by_name_.clear();
  of_host_.clear();
  distrusted_.clear();
  connections_.clear();
  epoll_.reset();
}

void ConnectionGuard::run() {
  begin_thread("rpc-accept");
  constexpr int kEvents = 64;
  epoll_event events[kEvents];
  while (!stopping()) {
    const int count = ::epoll_wait(epoll_.get(), events, kEvents, timeout_ms(std::chrono::steady_clock::now()));
    for (int i = 0; i < count; ++i) {
      const std::uint64_t token = events[i].data.u64;
      if (token == kWakeToken) {
        eventfd_t wakes = 0;
        ::eventfd_read(wake_.get(), &wakes);
      } else if (token >= kFirstConnectionToken) {
        connection_ready(token, events[i].events);
      } else {
        accept_all(listeners_[token - kFirstListenerToken].get());
      }
    }
    const TimePoint now = std::chrono::steady_clock::now();
    if (now >= next_tick_) {
      next_tick_ = now + kTick;
      tick();
    }
    hand_over_waiting();
    if (now >= next_second_) {
      next_second_ = now + 1s;
      each_second();
    }
    say();
  }
}

int ConnectionGuard::timeout_ms(TimePoint now) {
  MutexLock lock(mu_);
  if (connections_.empty() && !paused_) return -1;
  const bool ticks = !active_.empty() || !distrusted_.empty() || paused_;
  const TimePoint next = ticks ? std::min(next_tick_, next_second_) : next_second_;
  return static_cast<int>(std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(next - now).count()));
}

void ConnectionGuard::listen_for(std::uint32_t events) {
  paused_ = events == 0;
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    watch(epoll_.get(), EPOLL_CTL_MOD, listeners_[i].get(), events, kFirstListenerToken + i);
  }
}

void ConnectionGuard::accept_all(int listener) {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    UniqueFd accepted(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (accepted) {
      take_in(listener, std::move(accepted));
      continue;
    }
    if (errno == EAGAIN) return;
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (no_files_left(errno) && refuse_with_reserve(listener)) continue;
    // Memory may be back by the next tick, or a file.
    return listen_for(0);
  }
}

// Others may take the file that is freed here before accept does, or before the reserve is back.
bool ConnectionGuard::refuse_with_reserve(int listener) {
  if (!reserve_) return false;
  reserve_.reset();
  UniqueFd refused(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const bool closed = static_cast<bool>(refused);
  if (closed) {
    MutexLock lock(mu_);
    to_say(str_cat("refused a connection from ", peer_name(refused.get()).host, ": the process has used up its ",
                   file_limit(), " files (ulimit -n)"));
  }
  refused.reset();
  reserve_ = open_reserve();
  return closed;
}

void ConnectionGuard::take_in(int listener, UniqueFd accepted) {
  const PeerName name = peer_name(accepted.get());
  {
    MutexLock lock(mu_);
    const std::string refused = refusal(name.host);
    if (!refused.empty()) return to_say(str_cat("refused a connection from ", name.host, ": ", refused));
    UniqueFd own(::fcntl(accepted.get(), F_DUPFD_CLOEXEC, 0));
    const Id id = kFirstConnectionToken + next_id_++;
    // Edges, since gRPC takes the bytes; that both sides have shut down is told in any case.
    if (!own || !watch(epoll_.get(), EPOLL_CTL_ADD, own.get(), EPOLLIN | EPOLLET, id)) {
      return to_say(str_cat("refused a connection from ", name.host, ": ", std::generic_category().message(errno)));
    }
    Connection& connection = connections_[id];
    connection.name = str_cat(name.host, ":", name.port);
    connection.key = str_cat(name.host, " ", name.port);
    connection.host = name.host;
    connection.fd = std::move(own);
    connection.listener = listener;
    by_key_[connection.key] = id;
    ++of_host_[name.host];
    const int yes = 1;
    ::setsockopt(accepted.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    ::setsockopt(accepted.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms_, sizeof(unacknowledged_ms_));
    ::setsockopt(accepted.get(), IPPROTO_TCP, TCP_WINDOW_CLAMP, &kFirstWindow, sizeof(kFirstWindow));
    const auto distrust = distrusted_.find(name.host);
    if (distrust != distrusted_.end()) {
      connection.held_back = std::move(accepted);
      distrust->second.waiting.emplace_back(id, std::chrono::steady_clock::now());
      return;
    }
  }
  schedule_hand_over(listener, std::move(accepted));
}

void ConnectionGuard::schedule_hand_over(int listener, UniqueFd connection) {
  auto shared = std::make_shared<UniqueFd>(std::move(connection));
  hand_over_threads_->schedule([this, listener, shared] { hand_over_(listener, std::move(*shared)); });
}

void ConnectionGuard::hand_over_waiting() {
  std::vector<std::pair<int, UniqueFd>> next;
  {
    MutexLock lock(mu_);
    const TimePoint now = std::chrono::steady_clock::now();
    for (auto host = distrusted_.begin(); host != distrusted_.end();) {
      Distrust& distrust = host->second;
      if (distrust.on_trial != 0 && now >= distrust.trial_end) distrust.on_trial = 0;
      while (!distrust.waiting.empty()) {
        const auto [id, since] = distrust.waiting.front();
        if (distrust.on_trial != 0 && now < since + kLongestWait) break;
        distrust.waiting.pop_front();
        const auto found = connections_.find(id);
        if (found == connections_.end()) continue;
        next.emplace_back(found->second.listener, std::move(found->second.held_back));
        distrust.on_trial = id;
        distrust.trial_end = now + kTrialTime;
      }
      const bool over = distrust.waiting.empty() && now >= distrust.until;
      host = over ? distrusted_.erase(host) : std::next(host);
    }
  }
  for (auto& [listener, connection] : next) schedule_hand_over(listener, std::move(connection));
}

void ConnectionGuard::end_trial(Id id, const std::string& host) {
  const auto distrust = distrusted_.find(host);
  if (distrust == distrusted_.end() || distrust->second.on_trial != id) return;
  distrust->second.on_trial = 0;
  ::eventfd_write(wake_.get(), 1);
}

bool ConnectionGuard::stopping() {
  MutexLock lock(mu_);
  return stopping_;
}

std::string ConnectionGuard::refusal(const std::string& host) const {
  const rlim_t files = file_limit();
  const rlim_t most = std::max<rlim_t>(1, files / 8 * 3);
  if (connections_.size() >= most) {
    return str_cat(connections_.size(), " are open, the most for a process that may open ", files,
                   " files (ulimit -n)");
  }
  const auto found = of_host_.find(host);
  if (found != of_host_.end() && found->second >= std::max<rlim_t>(1, most / 4 * 3)) {
    return str_cat("it has ", found->second, " open, the most of one host for a process that may open ", files,
                   " files (ulimit -n)");
  }
  return {};
}

ConnectionGuard::Traffic ConnectionGuard::traffic_of(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  int unread = 0;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || ::ioctl(fd, FIONREAD, &unread) != 0) return {};
  const auto waiting = static_cast<std::uint64_t>(unread);
  return {.taken = info.tcpi_bytes_received - std::min<std::uint64_t>(waiting, info.tcpi_bytes_received),
          .unread = waiting,
          .sent = info.tcpi_bytes_sent};
}

void ConnectionGuard::connection_ready(Id id, std::uint32_t events) {
  MutexLock lock(mu_);
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  if ((events & EPOLLHUP) != 0) return forget(id);
  inspect(id, found->second, false);
}

void ConnectionGuard::tick() {
  if (paused_) {
    if (!reserve_) reserve_ = open_reserve();
    listen_for(EPOLLIN);
  }
  MutexLock lock(mu_);
  for (auto next = active_.begin(); next != active_.end();) {
    const Id id = *next++;  // which may leave the set
    inspect(id, connections_.at(id), true);
  }
}

void ConnectionGuard::inspect(Id id, Connection& connection, bool at_tick) {
  if (connection.cut || connection.held_back) return;
  Traffic now = traffic_of(connection.fd.get());
  // The kernel is asked twice; what arrives in between would make it less than before.
  now.taken = std::max(now.taken, connection.last.taken);
  if (now.sent != connection.last.sent) {
    connection.quiet_base = now.taken;
    if (connection.proven || connection.owes) begin_stretch(connection, now);
  }
  const bool comes = now.taken != connection.last.taken || now.unread > 0;
  connection.last = now;
  if (at_tick) {
    look_for_message(connection);
    connection.still_ticks = comes ? 0 : connection.still_ticks + 1;
  }
  const Bounds bounds = bounds_of(connection);
  const std::uint64_t unused = now.taken - connection.base;
  if (at_tick && comes && unused > bounds.lasting) ++connection.long_ticks;
  const std::uint64_t most = at_tick ? bounds.at_tick : bounds.at_once;
  if (connection.long_ticks > bounds.ticks || (unused > most && !may_be_message(connection))) {
    return cut(connection, connection.proven ? str_cat("it sent ", unused, " bytes that end no header and no message")
                                             : str_cat("it sent ", unused, " bytes and no complete request"));
  }
  // Of strangers every arrival is told besides.
  set_active(id, connection, connection.proven ? connection.still_ticks < kStillTicks : unused > kStranger.lasting);
}

void ConnectionGuard::begin_stretch(Connection& connection, const Traffic& now) {
  connection.base = now.taken;
  connection.long_ticks = 0;
}

// Between two ticks a message may have begun, and much of it come.
bool ConnectionGuard::may_be_message(const Connection& connection) const {
  return connection.last.taken - connection.quiet_base <= kOwing.at_once && !connection.name_at_grpc.empty() &&
         owed_message_(connection.name_at_grpc).has_value();
}

void ConnectionGuard::look_for_message(Connection& connection) {
  // Most connections are told apart without asking.
  const bool long_stretch = connection.last.taken - connection.base > kStranger.lasting;
  if (connection.name_at_grpc.empty() || (!long_stretch && !connection.first_window && !connection.owes)) return;
  const std::optional<std::uint64_t> owed = owed_message_(connection.name_at_grpc);
  const bool owes = owed && owed == connection.owed_at_tick;
  connection.owed_at_tick = owed;
  if (owes && !connection.owes) begin_stretch(connection, connection.last);
  connection.owes = owes;
  if (!owes || !connection.first_window) return;
  connection.first_window = false;
  ::setsockopt(connection.fd.get(), IPPROTO_TCP, TCP_WINDOW_CLAMP, &kAnyWindow, sizeof(kAnyWindow));
}

ConnectionGuard::Bounds ConnectionGuard::bounds_of(const Connection& connection) const {
  if (connection.owes) return kOwing;
  if (connection.proven) return kProven;
  if (!connection.name_at_grpc.empty()) return kCaller;
  return distrusted_.contains(connection.host) ? kDistrusted : kStranger;
}

void ConnectionGuard::set_active(Id id, Connection& connection, bool active) {
  if (active == connection.active) return;
  connection.active = active;
  connection.still_ticks = 0;
  if (active) {
    active_.insert(id);
  } else {
    active_.erase(id);
  }
  const std::uint32_t events = active && connection.proven ? 0 : EPOLLIN | EPOLLET;
  watch(epoll_.get(), EPOLL_CTL_MOD, connection.fd.get(), events, id);
}

void ConnectionGuard::each_second() {
  std::vector<std::pair<Id, std::string>> named;
  {
    MutexLock lock(mu_);
    for (const auto& [id, connection] : connections_) {
      if (!connection.name_at_grpc.empty() && !connection.cut) named.emplace_back(id, connection.name_at_grpc);
    }
  }
  for (const auto& [id, peer] : named) {
    const std::optional<std::uint64_t> owed = owed_message_(peer);
    MutexLock lock(mu_);
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;
    Connection& connection = found->second;
    if (owed) {
      inspect_owed(connection, *owed);
    } else {
      connection.owed_seconds = 0;
    }
  }
}

void ConnectionGuard::inspect_owed(Connection& connection, std::uint64_t owed) {
  const std::uint64_t taken = traffic_of(connection.fd.get()).taken;
  const bool first = connection.owed_seconds == 0 || owed != connection.owed;
  if (!first && connection.owed_seconds++ < message_seconds_) return;
  const std::uint64_t came = taken - connection.owed_taken;
  const std::uint64_t wanted = kMessageBytesPerSecond * static_cast<std::uint64_t>(message_seconds_);
  if (!first && came < wanted) {
    return cut(connection, str_cat("of a message that it owes, ", came, " bytes came in ", message_seconds_, " s"));
  }
  connection.owed = owed;
  connection.owed_taken = taken;
  connection.owed_seconds = 1;
}

void ConnectionGuard::cut(Connection& connection, const std::string& why) {
  if (std::exchange(connection.cut, true)) return;
  if (!connection.proven) distrusted_[connection.host].until = std::chrono::steady_clock::now() + kDistrustTime;
  // gRPC finds the end of the connection and closes it. That resets the connection, so that neither side keeps what was
  // under way.
  const linger reset{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(connection.fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  ::shutdown(connection.fd.get(), SHUT_RDWR);
  to_say(str_cat("closed the connection of ", connection.name, ": ", why));
}

void ConnectionGuard::forget(Id id) {
  const auto found = connections_.find(id);
  const Connection& connection = found->second;
  // Before the file is closed: while gRPC still has its own, epoll would go on telling of this one.
  watch(epoll_.get(), EPOLL_CTL_DEL, connection.fd.get(), 0, id);
  const auto host = of_host_.find(connection.host);
  if (--host->second == 0) of_host_.erase(host);
  if (!connection.name_at_grpc.empty()) by_name_.erase(connection.name_at_grpc);
  const auto key = by_key_.find(connection.key);
  if (key != by_key_.end() && key->second == id) by_key_.erase(key);
  active_.erase(id);
  end_trial(id, connection.host);
  connections_.erase(found);
}

ConnectionGuard::Connection* ConnectionGuard::find(const std::string& peer) {
  const auto named = by_name_.find(peer);
  if (named != by_name_.end()) return &connections_.at(named->second);
  const auto found = by_key_.find(peer_key(peer));
  if (found == by_key_.end()) return nullptr;
  Connection& connection = connections_.at(found->second);
  connection.name_at_grpc = peer;
  by_name_.emplace(peer, found->second);
  return &connection;
}

void ConnectionGuard::call_admitted(const std::string& peer) {
  MutexLock lock(mu_);
  find(peer);
}

void ConnectionGuard::message_received(const std::string& peer) {
  MutexLock lock(mu_);
  Connection* const connection = find(peer);
  if (connection == nullptr || std::exchange(connection->proven, true)) return;
  const Traffic now = traffic_of(connection->fd.get());
  connection->last = {std::max(now.taken, connection->last.taken), now.unread, now.sent};
  begin_stretch(*connection, connection->last);
  // Its arrivals were told one by one.
  connection->active = false;
  const Id id = by_name_.at(peer);
  set_active(id, *connection, true);
  end_trial(id, connection->host);
}

void ConnectionGuard::call_abandoned(const std::string& peer, TimePoint now) {
  {
    MutexLock lock(mu_);
    Connection* const connection = find(peer);
    if (connection == nullptr) return;
    connection->abandoned_until = std::max(connection->abandoned_until, now) + of_one_abandoned_;
    if (connection->abandoned_until - now <= 1s) return;
    cut(*connection, str_cat("it abandoned more than ", Duration(1s) / of_one_abandoned_, " calls in a second"));
  }
  say();
}

std::size_t ConnectionGuard::num_connections() {
  MutexLock lock(mu_);
  return connections_.size();
}

void ConnectionGuard::to_say(const std::string& line) {
  const TimePoint now = std::chrono::steady_clock::now();
  if (said_ != TimePoint() && now - said_ < kLinesApart) {
    ++unsaid_;
    return;
  }
  said_ = now;
  const int others = std::exchange(unsaid_, 0);
  line_ = others > 0 ? str_cat(line, " (and ", others, " more before it)") : line;
}

void ConnectionGuard::say() {
  std::string line;
  {
    MutexLock lock(mu_);
    line.swap(line_);
  }
  if (line.empty()) return;
  if (log_) {
    log_.warning(line);
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
}

}  // namespace tutti::rpc_internal
