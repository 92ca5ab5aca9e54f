#include "reserved_ports.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <set>

namespace tutti::tools::reserved_ports_test {

sockaddr_in loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

// A socket that listens on the port; -1 when it may not.
int listen_on(int port, bool reuse) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = reuse ? 1 : 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in address = loopback(port);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 && listen(fd, 1) == 0) return fd;
  close(fd);
  return -1;
}

bool reachable(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  const bool connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return connected;
}

TEST(ReservedPorts, AreDifferentAndRefuseConnections) {
  const ReservedPorts reserved = ReservedPorts::reserve(20).value_or_throw();
  const std::set<int> different(reserved.ports().begin(), reserved.ports().end());
  EXPECT_EQ(different.size(), 20u);
  for (const int port : different) EXPECT_FALSE(reachable(port));
}

TEST(ReservedPorts, AServerGetsItsPortAgainAndAgain) {
  const ReservedPorts reserved = ReservedPorts::reserve(1).value_or_throw();
  const int port = reserved.ports()[0];
  for (int round = 0; round < 3; ++round) {
    const int server = listen_on(port, true);
    ASSERT_GE(server, 0);
    EXPECT_TRUE(reachable(port));
    EXPECT_LT(listen_on(port, true), 0) << "two servers on one port";
    close(server);
    EXPECT_FALSE(reachable(port));
  }
}

TEST(ReservedPorts, NobodyElseIsGivenThem) {
  const ReservedPorts reserved = ReservedPorts::reserve(50).value_or_throw();
  const std::set<int> ours(reserved.ports().begin(), reserved.ports().end());
  EXPECT_LT(listen_on(reserved.ports()[0], false), 0);
  std::vector<int> others;
  for (int i = 0; i < 500; ++i) {
    const int fd = listen_on(0, true);
    ASSERT_GE(fd, 0);
    sockaddr_in address = {};
    socklen_t size = sizeof(address);
    ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
    EXPECT_FALSE(ours.contains(ntohs(address.sin_port)));
    others.push_back(fd);
  }
  for (const int fd : others) close(fd);
}

TEST(ReservedPorts, AreGivenBack) {
  int port = 0;
  {
    const ReservedPorts reserved = ReservedPorts::reserve(1).value_or_throw();
    port = reserved.ports()[0];
  }
  const int fd = listen_on(port, false);
  EXPECT_GE(fd, 0);
  close(fd);
}

}  // namespace tutti::tools::reserved_ports_test
