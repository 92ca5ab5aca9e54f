// Writes a few good streams and handshakes for the fuzzer to start from, in its own form: shm_message_seeds FOLDER
#include <cstdio>
#include <string>
#include <vector>

#include "tutti/core/file_system.h"
#include "tutti/transport/shm/internal/handshake.h"
#include "tutti/transport/shm/internal/message.h"

using namespace tutti;

namespace {

template <typename T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// A call with a value in the ring, of so many bytes, and one in a segment.
std::string call(std::uint64_t id, std::size_t bytes) {
  const std::string method = "/tutti.TaskService/Lease";
  return bytes_of(shm::MessageHeader{.kind = static_cast<std::uint32_t>(shm::MessageKind::kCall),
                                     .code = 0,
                                     .id = id,
                                     .text_bytes = static_cast<std::uint32_t>(method.size()),
                                     .pieces = 2,
                                     .inline_bytes = bytes}) +
         bytes_of(shm::PieceHeader{.segment = 0, .offset = 0, .bytes = bytes, .loan = 0}) +
         bytes_of(shm::PieceHeader{.segment = 3, .offset = 64, .bytes = 100, .loan = 5}) + method +
         std::string(bytes, 'x');
}

std::string release(std::uint64_t id) {
  return bytes_of(shm::MessageHeader{.kind = static_cast<std::uint32_t>(shm::MessageKind::kRelease),
                                     .code = 0,
                                     .id = id,
                                     .text_bytes = 0,
                                     .pieces = 0,
                                     .inline_bytes = 0});
}

std::string packet(shm::Packet::Kind kind) {
  return std::string(1, '\0') + bytes_of(shm::Packet::make(kind, "/job:worker/replica:0/task:1"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: shm_message_seeds FOLDER\n");
    return 2;
  }
  const std::string ring("\0\x03", 2);
  const std::string handshake("\x01\0", 2);
  const std::vector<std::string> seeds = {
      ring + call(1, 10) + release(5), ring + call(1, 0) + call(2, 5000) + release(5), ring + call(7, 70'000),
      handshake + packet(shm::Packet::kHello) + packet(shm::Packet::kProof), handshake + packet(shm::Packet::kProof)};
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    const Status written = write_file(local_file_system(), str_cat(argv[1], "/seed_", i), seeds[i]);
    if (written.ok()) continue;
    std::fprintf(stderr, "shm_message_seeds: %s\n", written.to_string().c_str());
    return 1;
  }
  return 0;
}
