// libFuzzer target: what a hostile process of the same host may write. An even first byte: the rest goes through a
// ring, in pieces as long as the second byte says, and what the reader makes of it is compared with the same bytes
// looked at in one piece. An odd one: the rest are packets of a handshake, which nobody gets through who does not know
// the secret.
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "tutti/transport/shm/internal/handshake.h"
#include "tutti/transport/shm/internal/message.h"

namespace tutti::shm {
namespace {

constexpr std::uint64_t kMaxBytes = 1 << 16;

void need(bool holds) {
  if (!holds) std::abort();
}

// The bytes as the sender laid them out.
class Flat {
 public:
  explicit Flat(std::string_view bytes) : bytes_(bytes) {}
  std::string_view take(std::size_t count) {
    need(count <= bytes_.size());
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  template <typename Header>
  Header header() {
    Header header;
    std::memcpy(&header, take(sizeof header).data(), sizeof header);
    return header;
  }

 private:
  std::string_view bytes_;
};

void compare(Flat& flat, const Message& message) {
  const auto header = flat.header<MessageHeader>();
  need(static_cast<std::uint32_t>(message.kind) == header.kind && message.id == header.id);
  need(message.code == header.code && message.buffers.size() == message.pieces.size());
  std::string_view descriptions = flat.take(std::size_t{header.pieces} * sizeof(PieceHeader));
  need(message.text == flat.take(header.text_bytes));
  std::string_view inline_bytes = flat.take(header.inline_bytes);
  if (message.refused_bytes > 0) return;
  need(message.pieces.size() == header.pieces);
  for (std::size_t i = 0; i < message.pieces.size(); ++i) {
    PieceHeader piece;
    std::memcpy(&piece, descriptions.data() + i * sizeof piece, sizeof piece);
    need(message.pieces[i].segment == piece.segment && message.pieces[i].bytes == piece.bytes);
    need((message.buffers[i] == nullptr) == (piece.segment != 0));
    if (piece.segment != 0) continue;
    const auto* data = static_cast<const char*>(message.buffers[i]->data()) + message.pieces[i].offset;
    need(message.pieces[i].offset + piece.bytes <= message.buffers[i]->bytes());
    need(std::string_view(data, piece.bytes) == inline_bytes.substr(0, piece.bytes));
    inline_bytes.remove_prefix(piece.bytes);
  }
  need(inline_bytes.empty());
}

void through_a_ring(std::string_view bytes, std::size_t piece) {
  alignas(64) static std::byte memory[ring_file_bytes(kMinRingBytes)];
  std::fill(std::begin(memory), std::end(memory), std::byte{0});
  const Ring ring = Ring::at(memory, kMinRingBytes, 0);
  RingWriter writer(ring);
  RingReader reader(ring);
  MessageReader messages(heap_allocator(), kMaxBytes);
  Flat flat(bytes);
  const auto take = [&](Message message) {
    compare(flat, message);
    return Status();
  };
  while (!bytes.empty()) {
    const std::string_view now = bytes.substr(0, piece);
    bytes.remove_prefix(now.size());
    need(writer.refresh() && writer.room() >= now.size());
    writer.write(std::as_bytes(std::span(now)));
    writer.publish();
    need(reader.refresh());
    if (!messages.read(reader, take, [&] { reader.publish(); }).ok()) return;
    reader.publish();
  }
}

void through_a_handshake(std::string_view bytes) {
  int fds[2] = {-1, -1};
  need(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  const UniqueFd peer(fds[1]);
  const Identity identity{.task = "/job:ps/replica:0/task:0", .secret = "unknown", .ticket_key = "also unknown"};
  Acceptance acceptance(UniqueFd(fds[0]), {}, identity, kMinRingBytes);
  const Packet good = Packet::make(Packet::kHello);
  for (bool open = true; open && !bytes.empty();) {
    // A byte that says how much of a packet is as it should be, and the packet.
    const std::size_t right = static_cast<unsigned char>(bytes.front()) % 32;
    bytes.remove_prefix(1);
    std::string packet(reinterpret_cast<const char*>(&good), sizeof good);
    const std::size_t count = std::min(bytes.size(), sizeof good - right);
    std::copy_n(bytes.begin(), count, packet.begin() + static_cast<std::ptrdiff_t>(right));
    if (count + right < sizeof good && right % 2 == 1) packet.resize(count + right);
    bytes.remove_prefix(count);
    if (::send(peer.get(), packet.data(), packet.size(), MSG_NOSIGNAL) < 0) return;
    const auto received = receive_packet(acceptance.socket());
    if (!received.ok() || !*received) return;
    const Result<bool> proved = acceptance.take((*received)->packet);
    need(!proved.ok() || !*proved);
    open = proved.ok();
  }
}

}  // namespace
}  // namespace tutti::shm

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  if (data[0] % 2 == 1) {
    tutti::shm::through_a_handshake(bytes);
  } else {
    tutti::shm::through_a_ring(bytes, 1 + std::size_t{data[1]} * 16);
  }
  return 0;
}
