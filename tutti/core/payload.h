// Bytes in pieces: how a message travels without its tensors being copied.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

// A sequence of bytes that lies in several places, each kept alive by its owner. Copies share the pieces. Whoever
// gives bytes away does not change them afterwards.
class Payload {
 public:
  struct Piece {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;  // keeps `bytes` valid
    bool lent = false;                  // by another process, which could change them while they are read
    std::string_view view() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
  };

  Payload() = default;
  explicit Payload(std::string bytes) { append(std::move(bytes)); }

  // Empty ones are left out.
  void append(std::string bytes);
  void append(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, bool lent = false);
  void append(const Payload& other);

  const std::vector<Piece>& pieces() const { return pieces_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Bytes [begin, end), which share the owners of these. REQUIRES: begin <= end <= size().
  Payload slice(std::size_t begin, std::size_t end) const;
  // One copy of everything.
  std::string flatten() const;

 private:
  std::vector<Piece> pieces_;
  std::size_t size_ = 0;
};

}  // namespace tutti
