#include "tutti/distributed/rpc/internal/listening_sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "tutti/core/strings.h"

namespace tutti::rpc_internal {
namespace {

// Connections that wait to be accepted; Linux cuts it to net.core.somaxconn.
constexpr int kBacklog = 4096;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  in_port_t& port() {
    return storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(storage).sin6_port
                                         : reinterpret_cast<sockaddr_in&>(storage).sin_port;
  }
};

SocketAddress ipv6_wildcard(in_port_t port) {
  SocketAddress address;
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = in6addr_any;
  v6.sin6_port = port;
  address.size = sizeof(v6);
  return address;
}

bool is_ipv4_wildcard(const SocketAddress& address) {
  return address.storage.ss_family == AF_INET &&
         reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr.s_addr == INADDR_ANY;
}

bool is_ipv6_wildcard(const SocketAddress& address) {
  return address.storage.ss_family == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr);
}

// Stores the port in `address`. Empty: errno says why.
UniqueFd bind_and_listen(SocketAddress& address) {
  UniqueFd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fd;
  const int yes = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (address.storage.ss_family == AF_INET6) {
    const int only_ipv6 = is_ipv6_wildcard(address) ? 0 : 1;
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_ipv6, sizeof(only_ipv6));
  }
  if (::bind(fd.get(), address.get(), address.size) != 0 || ::listen(fd.get(), kBacklog) != 0 ||
      ::getsockname(fd.get(), address.get(), &address.size) != 0) {
    return {};
  }
  return fd;
}

}  // namespace

Result<ListeningSockets> listen_at(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failed =
      ::getaddrinfo(host.empty() ? nullptr : host.c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (failed != 0) return Status(Code::kUnknown, str_cat(address, ": ", ::gai_strerror(failed)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> freed(found, ::freeaddrinfo);

  ListeningSockets listening;
  int error = 0;
  const auto open = [&](SocketAddress candidate) {
    if (listening.port != 0) candidate.port() = htons(static_cast<in_port_t>(listening.port));
    UniqueFd fd = bind_and_listen(candidate);
    if (!fd) {
      if (error == 0) error = errno;
      return false;
    }
    listening.port = ntohs(candidate.port());
    listening.sockets.push_back(std::move(fd));
    return true;
  };
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress candidate;
    std::memcpy(&candidate.storage, one->ai_addr, one->ai_addrlen);
    candidate.size = one->ai_addrlen;
    if (is_ipv4_wildcard(candidate) && open(ipv6_wildcard(candidate.port()))) continue;
    open(candidate);
  }
  if (!listening.sockets.empty()) return listening;
  if (error == EADDRINUSE) return Status(Code::kUnknown, str_cat(address, " is in use by another server"));
  return Status(Code::kUnknown, str_cat(address, ": ", std::generic_category().message(error)));
}

}  // namespace tutti::rpc_internal
