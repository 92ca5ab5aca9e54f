#include "tutti/transport/shm/internal/handshake.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "tutti/transport/shm/internal/doorbell.h"
#include "tutti/transport/shm/internal/ring.h"

namespace tutti::shm {
namespace {

constexpr std::array<char, 8> kMagic = {'T', 'U', 'T', 'T', 'I', 'S', 'H', 'M'};
constexpr std::chrono::milliseconds kHandshakePatience{500};

static_assert(std::is_trivially_copyable_v<Packet> && std::has_unique_object_representations_v<Packet>);

Status fill_random(std::span<std::uint8_t> out) {
  if (::getrandom(out.data(), out.size(), 0) != static_cast<ssize_t>(out.size())) {
    return internal_error(errno_text("getrandom"));
  }
  return {};
}

// Binds the proof to who proves, to both names and to both nonces, so that none can be used twice or by another.
Digest make_proof(const std::string& secret, std::string_view role, const Packet& hello, const Packet& challenge) {
  std::string data = str_cat("tutti shm ", kProtocolVersion, " ", role, " ");
  for (const Packet* packet : {&hello, &challenge}) {
    data.append(reinterpret_cast<const char*>(packet->nonce.data()), packet->nonce.size());
    data += str_cat(packet->text_view().size(), ":", packet->text_view());
  }
  return hmac_sha256(secret, data);
}

Result<std::pair<sockaddr_un, socklen_t>> address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof address.sun_path) {
    return invalid_argument("shared memory: a name of ", name.size(), " bytes");
  }
  // A zero first: the abstract namespace, in which nothing stays behind.
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return std::pair(address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
}

Result<UniqueFd> make_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return resource_exhausted(errno_text("unix socket"));
  return fd;
}

// Waits until something can be received.
Status wait_readable(int socket, int stop) {
  const auto end = std::chrono::steady_clock::now() + kHandshakePatience;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    std::array<pollfd, 2> polls = {pollfd{.fd = socket, .events = POLLIN, .revents = 0},
                                   pollfd{.fd = stop, .events = POLLIN, .revents = 0}};
    const int ready = ::poll(polls.data(), polls.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready > 0 && polls[1].revents != 0) return cancelled("the transport was stopped");
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return unavailable(errno_text("poll"));
    if (left.count() <= 0) return unavailable("no answer within ", kHandshakePatience.count(), " ms");
  }
}

Result<Received> wait_for_packet(int socket, int stop, Packet::Kind kind) {
  while (true) {
    TUTTI_RETURN_IF_ERROR(wait_readable(socket, stop));
    TUTTI_ASSIGN_OR_RETURN(auto received, receive_packet(socket));
    if (!received) continue;
    const Packet& packet = received->packet;
    if (packet.kind == Packet::kRefusal) {
      const bool known = packet.code >= 1 && packet.code <= static_cast<std::uint32_t>(Code::kUnauthenticated);
      return Status(known ? static_cast<Code>(packet.code) : Code::kUnknown,
                    str_cat("refused: ", printable(packet.text_view())));
    }
    if (packet.version != kProtocolVersion) {
      return failed_precondition("speaks version ", packet.version, ", we ", kProtocolVersion);
    }
    if (packet.kind != kind) return data_loss("packet ", packet.kind, " where ", static_cast<int>(kind), " was due");
    return *std::move(received);
  }
}

Status check_welcome(const Received& welcome) {
  const std::uint64_t ring_bytes = welcome.packet.bytes;
  if (ring_bytes < kMinRingBytes || ring_bytes > kMaxRingBytes || !std::has_single_bit(ring_bytes)) {
    return data_loss("rings of ", ring_bytes, " bytes");
  }
  if (welcome.fds.size() != 3) return data_loss(welcome.fds.size(), " descriptors instead of 3");
  for (int bell : {1, 2}) TUTTI_RETURN_IF_ERROR(check_doorbell(welcome.fds[bell].get()));
  return check_memory_file(welcome.fds[0].get(), ring_file_bytes(ring_bytes));
}

Result<Joined> join_on(UniqueFd socket, const Identity& identity, int stop) {
  Joined joined;
  joined.connector = true;
  TUTTI_ASSIGN_OR_RETURN(joined.peer, check_peer_user(socket.get()));

  Packet hello = Packet::make(Packet::kHello, identity.task);
  TUTTI_RETURN_IF_ERROR(fill_random(hello.nonce));
  // Who refuses us may have hung up already; its reason is then still there to be read.
  (void)send_packet(socket.get(), hello);
  TUTTI_ASSIGN_OR_RETURN(const Received challenge, wait_for_packet(socket.get(), stop, Packet::kChallenge));
  const Digest expected = make_proof(identity.secret, "listener", hello, challenge.packet);
  if (!same_digest(expected, challenge.packet.proof)) {
    return Status(Code::kUnauthenticated,
                  str_cat(printable(challenge.packet.text_view()), " does not know our secret"));
  }
  joined.peer_task = std::string(challenge.packet.text_view());

  Packet proof = Packet::make(Packet::kProof);
  proof.proof = make_proof(identity.secret, "connector", hello, challenge.packet);
  TUTTI_RETURN_IF_ERROR(send_packet(socket.get(), proof));
  TUTTI_ASSIGN_OR_RETURN(Received welcome, wait_for_packet(socket.get(), stop, Packet::kWelcome));
  TUTTI_RETURN_IF_ERROR(check_welcome(welcome));
  joined.ring_bytes = welcome.packet.bytes;
  TUTTI_ASSIGN_OR_RETURN(joined.rings, Mapping::map(welcome.fds[0].get(), ring_file_bytes(joined.ring_bytes),
                                                    Mapping::Access::kReadWrite));
  joined.peer_bell = std::move(welcome.fds[1]);
  joined.own_bell = std::move(welcome.fds[2]);
  joined.socket = std::move(socket);
  return joined;
}

// Room for so many packets and their descriptors, filled by one system call: fewer than asked for means that there
// were no more.
template <std::size_t kCount>
class Slots {
 public:
  Slots() {
    for (std::size_t i = 0; i < kCount; ++i) {
      data_[i] = {.iov_base = &packets_[i], .iov_len = sizeof packets_[i]};
      msghdr& message = messages_[i].msg_hdr;
      message.msg_iov = &data_[i];
      message.msg_iovlen = 1;
      message.msg_control = controls_[i].bytes.data();
      message.msg_controllen = controls_[i].bytes.size();
    }
  }

  Result<std::size_t> receive(int socket) {
    int count = 0;
    bool reset = false;  // told first when the peer closed without reading; what it had sent is still there
    do {
      count = ::recvmmsg(socket, messages_.data(), kCount, MSG_DONTWAIT | MSG_CMSG_CLOEXEC, nullptr);
    } while (count < 0 && (errno == EINTR || (errno == ECONNRESET && !std::exchange(reset, true))));
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    return unavailable(errno_text("unix socket"));
  }

  // Once for each that was received, since its descriptors go along.
  Result<Received> take(std::size_t i) {
    Received received{.packet = {}, .fds = take_descriptors(messages_[i].msg_hdr)};
    const std::size_t size = messages_[i].msg_len;
    if (size == 0) return unavailable("the connection was closed");
    const Packet& packet = packets_[i];
    if (size != sizeof(Packet) || (messages_[i].msg_hdr.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
        packet.magic != kMagic || packet.text_bytes > kMaxTaskBytes) {
      return data_loss("a packet that is not ours");
    }
    received.packet = packet;
    return received;
  }

 private:
  struct Control {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> bytes;
  };
  static std::vector<UniqueFd> take_descriptors(msghdr& message) {
    std::vector<UniqueFd> fds;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
        fds.emplace_back(fd);
      }
    }
    return fds;
  }

  // Not cleared: only what was received is read.
  std::array<Packet, kCount> packets_;
  std::array<Control, kCount> controls_;
  std::array<iovec, kCount> data_{};
  std::array<mmsghdr, kCount> messages_{};
};

}  // namespace

Packet Packet::make(Kind kind, std::string_view text) {
  Packet packet{};
  packet.magic = kMagic;
  packet.version = kProtocolVersion;
  packet.kind = kind;
  packet.text_bytes = static_cast<std::uint32_t>(std::min(text.size(), packet.text.size()));
  std::copy_n(text.begin(), packet.text_bytes, packet.text.begin());
  return packet;
}

std::string_view Packet::text_view() const { return {text.data(), std::min<std::size_t>(text_bytes, text.size())}; }

Status send_packet(int socket, const Packet& packet, std::span<const int> fds) {
  TUTTI_CHECK(fds.size() <= kMostDescriptors, fds.size(), " descriptors with a packet");
  iovec data{.iov_base = const_cast<Packet*>(&packet), .iov_len = sizeof packet};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno != EINTR) return unavailable(errno_text("unix socket"));
  }
  return {};
}

std::string make_ticket(const std::string& key, std::string_view task) {
  const Digest digest = hmac_sha256(key, str_cat("tutti shm ticket ", task));
  return std::string(digest.begin(), digest.end());
}

std::string with_ticket(const std::string& secret, const std::string& ticket) {
  return ticket.empty() ? secret : str_cat(secret.size(), ":", secret, ticket);
}

Result<std::optional<Received>> receive_packet(int socket) {
  Slots<1> slots;
  TUTTI_ASSIGN_OR_RETURN(const std::size_t count, slots.receive(socket));
  if (count == 0) return std::optional<Received>();
  TUTTI_ASSIGN_OR_RETURN(Received received, slots.take(0));
  return std::optional<Received>(std::move(received));
}

Batch receive_packets(int socket) {
  Slots<kPacketsAtOnce> slots;
  Batch batch;
  const Result<std::size_t> count = slots.receive(socket);
  if (!count.ok()) return {.packets = {}, .more = false, .end = count.status()};
  batch.more = *count == kPacketsAtOnce;
  for (std::size_t i = 0; i < *count; ++i) {
    Result<Received> received = slots.take(i);  // also those after the end: their descriptors are to be closed
    batch.end.update(received.ok() ? Status() : received.status());
    if (batch.end.ok()) batch.packets.push_back(*std::move(received));
  }
  return batch;
}

void refuse(int socket, const Status& why) {
  Packet refusal = Packet::make(Packet::kRefusal, why.message());
  refusal.code = static_cast<std::uint32_t>(why.code());
  (void)send_packet(socket, refusal);
}

Result<PeerProcess> check_peer_user(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return unavailable(errno_text("SO_PEERCRED"));
  }
  if (credentials.uid != ::geteuid() && credentials.uid != 0) {
    return permission_denied("process ", credentials.pid, " runs as user ", credentials.uid, ", not ", ::geteuid());
  }
  return PeerProcess{.pid = credentials.pid, .uid = credentials.uid};
}

Acceptance::Acceptance(UniqueFd socket, PeerProcess peer, const Identity& identity, std::size_t ring_bytes)
    : socket_(std::move(socket)), peer_(peer), identity_(identity), ring_bytes_(ring_bytes) {}

Status Acceptance::refuse(Status why) {
  shm::refuse(socket_.get(), why);
  return why;
}

Result<bool> Acceptance::take(const Packet& packet) {
  if (packet.version != kProtocolVersion) {
    return refuse(failed_precondition(identity_.task, " speaks version ", kProtocolVersion, ", you ", packet.version));
  }
  if (!greeted_ && packet.kind == Packet::kHello) return take_hello(packet);
  if (greeted_ && packet.kind == Packet::kProof) return take_proof(packet);
  return refuse(data_loss("packet ", packet.kind, " out of turn"));
}

std::string Acceptance::secret() const {
  if (identity_.ticket_key.empty()) return identity_.secret;
  return with_ticket(identity_.secret, make_ticket(identity_.ticket_key, hello_.text_view()));
}

Result<bool> Acceptance::take_hello(const Packet& packet) {
  greeted_ = true;
  hello_ = packet;
  challenge_ = Packet::make(Packet::kChallenge, identity_.task);
  TUTTI_RETURN_IF_ERROR(fill_random(challenge_.nonce));
  challenge_.proof = make_proof(secret(), "listener", hello_, challenge_);
  TUTTI_RETURN_IF_ERROR(send_packet(socket_.get(), challenge_));
  return false;
}

Result<bool> Acceptance::take_proof(const Packet& packet) {
  if (!same_digest(packet.proof, make_proof(secret(), "connector", hello_, challenge_))) {
    return refuse(Status(Code::kUnauthenticated, str_cat("your secret is not that of ", identity_.task,
                                                         identity_.ticket_key.empty() ? "" : " for your name")));
  }
  return true;
}

Result<Joined> Acceptance::finish() {
  Joined joined;
  joined.peer_task = std::string(hello_.text_view());
  joined.peer = peer_;
  joined.ring_bytes = ring_bytes_;
  const std::size_t bytes = ring_file_bytes(ring_bytes_);
  TUTTI_ASSIGN_OR_RETURN(const UniqueFd file, make_memory_file("tutti-rings", bytes));
  TUTTI_ASSIGN_OR_RETURN(joined.rings, Mapping::map(file.get(), bytes, Mapping::Access::kReadWrite));
  Packet welcome = Packet::make(Packet::kWelcome);
  welcome.bytes = ring_bytes_;
  TUTTI_ASSIGN_OR_RETURN(joined.own_bell, make_doorbell());
  TUTTI_ASSIGN_OR_RETURN(joined.peer_bell, make_doorbell());
  const std::array<int, 3> shared = {file.get(), joined.own_bell.get(), joined.peer_bell.get()};
  TUTTI_RETURN_IF_ERROR(send_packet(socket_.get(), welcome, shared));
  joined.socket = std::move(socket_);
  return joined;
}

Result<Joined> join(const std::string& name, const Identity& identity, int stop) {
  const std::string context = str_cat("shm to ", printable(name));
  const auto address = address_of(name);
  if (!address.ok()) return address.status();
  TUTTI_ASSIGN_OR_RETURN(UniqueFd socket, make_socket());
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&(*address).first), (*address).second) != 0) {
    return unavailable(errno_text(context));
  }
  auto joined = join_on(std::move(socket), identity, stop);
  if (!joined.ok()) return joined.status().with_context(context);
  return joined;
}

Result<UniqueFd> listen_on(const std::string& name) {
  TUTTI_ASSIGN_OR_RETURN(const auto address, address_of(name));
  TUTTI_ASSIGN_OR_RETURN(UniqueFd socket, make_socket());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.first), address.second) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return unavailable(errno_text(str_cat("listening under ", name)));
  }
  return socket;
}

Result<std::string> random_key() {
  Digest bytes{};
  TUTTI_RETURN_IF_ERROR(fill_random(bytes));
  std::string key(bytes.size(), '\0');
  std::copy(bytes.begin(), bytes.end(), key.begin());
  return key;
}

Result<std::string> random_name() {
  std::array<std::uint8_t, 16> bytes{};
  TUTTI_RETURN_IF_ERROR(fill_random(bytes));
  std::string name = "tutti-";
  for (const std::uint8_t byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return name;
}

}  // namespace tutti::shm
