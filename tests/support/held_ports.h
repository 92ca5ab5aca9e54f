// Ports for tests whose servers must know their port before they listen, or come back to it.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

namespace tutti {

// Ports of the loopback, all different, where nobody listens: connections are refused. Each is held by a bound socket
// that does not listen, so that the system gives it to nobody who asks for any port; a server that asks for this very
// one, with SO_REUSEADDR as gRPC's do, gets it, also again after it was gone (tools/reserved_ports.h says more).
class HeldPorts {
 public:
  explicit HeldPorts(int count) {
    for (int i = 0; i < count; ++i) hold_one();
  }
  ~HeldPorts() {
    for (const int fd : sockets_) close(fd);
  }
  HeldPorts(const HeldPorts&) = delete;
  HeldPorts& operator=(const HeldPorts&) = delete;

  int operator[](int i) const { return ports_[static_cast<std::size_t>(i)]; }

 private:
  void hold_one() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int yes = 1;
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
        bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      ADD_FAILURE() << "no free port";
    }
    sockets_.push_back(fd);
    ports_.push_back(ntohs(address.sin_port));
  }

  std::vector<int> sockets_;
  std::vector<int> ports_;
};

}  // namespace tutti
