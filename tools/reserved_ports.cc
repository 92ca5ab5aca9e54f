#include "reserved_ports.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tutti::tools {

Result<ReservedPorts> ReservedPorts::reserve(int count) {
  ReservedPorts reserved;
  for (int i = 0; i < count; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return resource_exhausted("a socket for port ", i, " of ", count, ": ", std::strerror(errno));
    reserved.sockets_.push_back(fd);
    const int yes = 1;
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
        bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      return resource_exhausted("port ", i, " of ", count, " on 127.0.0.1: ", std::strerror(errno));
    }
    reserved.ports_.push_back(ntohs(address.sin_port));
  }
  return reserved;
}

ReservedPorts::~ReservedPorts() {
  for (const int fd : sockets_) close(fd);
}

}  // namespace tutti::tools
