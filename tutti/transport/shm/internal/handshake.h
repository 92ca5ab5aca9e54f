// How two processes come to trust each other and to share a ring. See docs/design/0005-shared-memory.md.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/status.h"
#include "tutti/transport/internal/sha256.h"
#include "tutti/transport/shm/internal/files.h"

namespace tutti::shm {

inline constexpr std::uint32_t kProtocolVersion = 3;
inline constexpr std::size_t kMaxTaskBytes = 512;

// Everything that crosses the socket is one of these, whole. Fields that a kind does not use are 0.
struct Packet {
  enum Kind : std::uint32_t {
    kHello = 1,      // nonce, text: the task that connects
    kChallenge = 2,  // nonce, proof, text: the task that listens
    kProof = 3,      // proof
    kWelcome = 4,    // bytes: of a ring. Descriptors: the memory file of the rings, the doorbells of who listens and of
                     // who connects
    kRefusal = 5,    // code, text
    kSegment = 6,    // id, bytes. Descriptor: the memory file
  };
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t kind;
  std::uint64_t id;
  std::uint64_t bytes;
  std::array<std::uint8_t, 32> nonce;
  Digest proof;
  std::uint32_t code;
  std::uint32_t text_bytes;
  std::array<char, kMaxTaskBytes> text;

  static Packet make(Kind kind, std::string_view text = {});
  // Cut to what is there.
  std::string_view text_view() const;
};

struct Received {
  Packet packet;
  std::vector<UniqueFd> fds;
};

// With a packet.
inline constexpr std::size_t kMostDescriptors = 3;
// kUnavailable when the socket is full or gone. Never waits.
Status send_packet(int socket, const Packet& packet, std::span<const int> fds = {});
// Nothing: none there. kUnavailable: closed. kDataLoss: not a packet of ours. Never waits.
Result<std::optional<Received>> receive_packet(int socket);

// What one look at the socket has found.
struct Batch {
  std::vector<Received> packets;
  bool more = false;  // there may be more to take
  Status end;         // after the packets: as of receive_packet
};
// At most kPacketsAtOnce. Never waits.
inline constexpr std::size_t kPacketsAtOnce = 4;
Batch receive_packets(int socket);

// Says why, as far as the socket takes it.
void refuse(int socket, const Status& why);

// The process at the other end.
struct PeerProcess {
  int pid = 0;
  unsigned uid = 0;
};
// kPermissionDenied unless it runs as the same user or as root.
Result<PeerProcess> check_peer_user(int socket);

// What both have at the end.
struct Joined {
  UniqueFd socket;
  UniqueFd own_bell;   // rung by the peer
  UniqueFd peer_bell;  // wakes the peer
  std::string peer_task;
  PeerProcess peer;
  std::shared_ptr<Mapping> rings;
  std::size_t ring_bytes = 0;
  bool connector = false;  // whether we are the one that connected
};

// Who we are.
struct Identity {
  std::string task;
  std::string secret;
  // Not empty: who connects must know, beside the secret, the ticket for the task that it says to be.
  std::string ticket_key;
};

// What proves to the listener with this key that somebody is `task`. Whoever has the key gives it to that task alone.
std::string make_ticket(const std::string& key, std::string_view task);
// What is to be known for a handshake with a ticket; the secret itself where there is none.
std::string with_ticket(const std::string& secret, const std::string& ticket);

// The side that listens, one packet at a time.
class Acceptance {
 public:
  Acceptance(UniqueFd socket, PeerProcess peer, const Identity& identity, std::size_t ring_bytes);

  int socket() const { return socket_.get(); }
  // Takes one step. True: finish() may be called. An error: the peer has been told, close it.
  Result<bool> take(const Packet& packet);
  Result<Joined> finish();

 private:
  Status refuse(Status why);
  Result<bool> take_hello(const Packet& packet);
  Result<bool> take_proof(const Packet& packet);
  // What the one that connects must know.
  std::string secret() const;

  UniqueFd socket_;
  const PeerProcess peer_;
  const Identity& identity_;
  const std::size_t ring_bytes_;
  bool greeted_ = false;
  Packet hello_{};
  Packet challenge_{};
};

// The side that connects. Waits for the peer, at most half a second a packet; kCancelled as soon as `stop`, a
// descriptor, is readable (-1: none).
Result<Joined> join(const std::string& name, const Identity& identity, int stop = -1);

// A socket that listens under `name`.
Result<UniqueFd> listen_on(const std::string& name);
// 32 bytes that nobody can guess.
Result<std::string> random_key();
// 32 hexadecimal digits that nobody can guess.
Result<std::string> random_name();

}  // namespace tutti::shm
