#include "raw_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace tutti::test {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

int bound_port(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

int bound_socket() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(0);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return -1;
  return fd;
}

bool readable(int fd, int timeout_ms) {
  pollfd wait{fd, POLLIN, 0};
  return poll(&wait, 1, timeout_ms) > 0;
}

// A header as a literal that nobody is to remember.
std::string header(std::string_view name, std::string_view value) {
  std::string out(1, '\0');
  out += static_cast<char>(name.size());
  out += name;
  out += static_cast<char>(value.size());
  out += value;
  return out;
}

}  // namespace

RawConnection::RawConnection(int port, const char* from) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  sockaddr_in own = loopback(0);
  inet_pton(AF_INET, from, &own.sin_addr);
  if (fd >= 0) bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof(own));
  if (fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    fd_ = fd;
  } else if (fd >= 0) {
    close(fd);
  }
}

RawConnection::RawConnection(RawConnection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

RawConnection::~RawConnection() {
  if (fd_ >= 0) close(fd_);
}

bool RawConnection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string RawConnection::receive(std::size_t limit, int quiet_ms) {
  std::string received;
  char buffer[4096];
  while (received.size() < limit && readable(fd_, quiet_ms)) {
    const ssize_t count = recv(fd_, buffer, std::min(sizeof(buffer), limit - received.size()), 0);
    if (count <= 0) break;
    received.append(buffer, static_cast<std::size_t>(count));
  }
  return received;
}

bool RawConnection::wait_closed(int quiet_ms) {
  char buffer[4096];
  while (readable(fd_, quiet_ms)) {
    if (recv(fd_, buffer, sizeof(buffer), 0) <= 0) return true;
  }
  return false;
}

std::string http2_hello() { return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + http2_frame(FrameType::kSettings, 0, 0, {}); }

std::string http2_frame(FrameType type, int flags, std::uint32_t stream, std::string_view payload) {
  std::string frame;
  for (int shift = 16; shift >= 0; shift -= 8) frame += static_cast<char>((payload.size() >> shift) & 0xFF);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (int shift = 24; shift >= 0; shift -= 8) frame += static_cast<char>((stream >> shift) & 0xFF);
  frame += payload;
  return frame;
}

std::string http2_headers(std::uint32_t stream, std::string_view method, int flags) {
  return http2_frame(FrameType::kHeaders, flags, stream,
                     header(":method", "POST") + header(":scheme", "http") + header(":path", method) +
                         header(":authority", "test") + header("content-type", "application/grpc") +
                         header("te", "trailers"));
}

std::string http2_call(std::uint32_t stream, std::string_view method, std::string_view message) {
  std::string framed(1, '\0');  // not compressed
  for (int shift = 24; shift >= 0; shift -= 8) framed += static_cast<char>((message.size() >> shift) & 0xFF);
  framed += message;
  return http2_headers(stream, method) + http2_frame(FrameType::kData, kEndStream, stream, framed);
}

IdlePeers::IdlePeers(int port, int count) {
  int report[2];
  int release[2];
  if (pipe(report) != 0 || pipe(release) != 0) return;
  const std::string hello = http2_hello();
  process_ = fork();
  if (process_ == 0) {  // system calls only: other threads' locks are as they were
    close(release[1]);
    const sockaddr_in address = loopback(port);
    char byte = 0;
    int greeted = 0;
    for (int i = 0; i < count; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM, 0);
      const bool connected = fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
      if (!connected || ::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) < 0) break;
      if (readable(fd, 60'000) && recv(fd, &byte, 1, 0) == 1) ++greeted;
    }
    if (write(report[1], &greeted, sizeof(greeted)) == sizeof(greeted)) readable(release[0], -1);
    _exit(0);
  }
  close(report[1]);
  close(release[0]);
  report_ = report[0];
  release_ = release[1];
}

IdlePeers::~IdlePeers() {
  close(release_);
  if (process_ > 0) waitpid(process_, nullptr, 0);
  close(report_);
}

int IdlePeers::wait_connected() {
  int greeted = 0;
  return read(report_, &greeted, sizeof(greeted)) == sizeof(greeted) ? greeted : -1;
}

RecordingProxy::RecordingProxy(int port) : listener_(bound_socket()), port_(bound_port(listener_)) {
  listen(listener_, 16);
  if (pipe(stop_) != 0) return;
  thread_ = std::thread([this, port] { run(port); });
}

RecordingProxy::~RecordingProxy() {
  close(stop_[1]);
  if (thread_.joinable()) thread_.join();
  close(stop_[0]);
  close(listener_);
}

std::string RecordingProxy::longest_sent() const {
  MutexLock lock(mu_);
  return *std::max_element(sent_.begin(), sent_.end(),
                           [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
}

namespace {

struct ProxiedConnection {
  int client = -1;
  int server = -1;
  bool open = false;
};

}  // namespace

void RecordingProxy::run(int server_port) {
  std::vector<ProxiedConnection> connections;
  const auto accept_one = [&] {
    ProxiedConnection made{.client = accept(listener_, nullptr, nullptr),
                           .server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const sockaddr_in address = loopback(server_port);
    made.open = connect(made.server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    connections.push_back(made);
    MutexLock lock(mu_);
    sent_.resize(connections.size());
  };
  const auto pass = [&](std::size_t number, bool from_client) {
    ProxiedConnection& connection = connections[number];
    char buffer[4096];
    const ssize_t count = recv(from_client ? connection.client : connection.server, buffer, sizeof(buffer), 0);
    const auto size = static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    connection.open =
        count > 0 && ::send(from_client ? connection.server : connection.client, buffer, size, MSG_NOSIGNAL) == count;
    if (!connection.open || !from_client) return;
    MutexLock lock(mu_);
    sent_[number].append(buffer, size);
  };
  while (true) {
    std::vector<pollfd> ends = {{stop_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const ProxiedConnection& connection : connections) {
      ends.push_back({connection.open ? connection.client : -1, POLLIN, 0});
      ends.push_back({connection.open ? connection.server : -1, POLLIN, 0});
    }
    if (poll(ends.data(), ends.size(), -1) <= 0 || ends[0].revents != 0) break;
    for (std::size_t i = 2; i < ends.size(); ++i) {
      if (ends[i].revents != 0 && connections[i / 2 - 1].open) pass(i / 2 - 1, i % 2 == 0);
    }
    if (ends[1].revents != 0) accept_one();
  }
  for (const ProxiedConnection& connection : connections) {
    close(connection.client);
    close(connection.server);
  }
}

}  // namespace tutti::test
