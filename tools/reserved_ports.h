// Ports that stay ours until a task listens on them.
#pragma once

#include <vector>

#include "tutti/tutti.h"

namespace tutti::tools {

// Ports of the loopback, all different. Each is held by a bound socket that does not listen: the system then gives it
// to nobody who asks for any port, and connections are refused; but a program that asks for this very port with
// SO_REUSEADDR, as gRPC's servers do, gets it, also again after it died. So no other program can slip in between the
// choice of a port and its use, unless it asks for that port by number.
class ReservedPorts {
 public:
  // kResourceExhausted when there are not so many ports or files.
  static Result<ReservedPorts> reserve(int count);
  ~ReservedPorts();
  ReservedPorts(ReservedPorts&& other) noexcept = default;
  ReservedPorts& operator=(ReservedPorts&&) = delete;

  const std::vector<int>& ports() const { return ports_; }

 private:
  ReservedPorts() = default;
  std::vector<int> sockets_;
  std::vector<int> ports_;
};

}  // namespace tutti::tools
