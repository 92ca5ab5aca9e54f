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

std::string http2_frame(char type, char flags, std::uint32_t stream, std::string_view payload) {
  std::string frame;
  for (int shift = 16; shift >= 0; shift -= 8) frame += static_cast<char>((payload.size() >> shift) & 0xFF);
  frame += type;
  frame += flags;
  for (int shift = 24; shift >= 0; shift -= 8) frame += static_cast<char>((stream >> shift) & 0xFF);
  frame += payload;
  return frame;
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

RawConnection::RawConnection(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
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

bool RawConnection::wait_closed() {
  char buffer[4096];
  while (readable(fd_, 60'000)) {
    if (recv(fd_, buffer, sizeof(buffer), 0) <= 0) return true;
  }
  return false;
}

std::string http2_hello() { return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + http2_frame(4, 0, 0, {}); }

std::string http2_call(std::uint32_t stream, std::string_view method, std::string_view message) {
  const std::string headers = header(":method", "POST") + header(":scheme", "http") + header(":path", method) +
                              header(":authority", "test") + header("content-type", "application/grpc") +
                              header("te", "trailers");
  constexpr char kEndHeaders = 4;
  constexpr char kEndStream = 1;
  std::string framed(1, '\0');  // not compressed
  for (int shift = 24; shift >= 0; shift -= 8) framed += static_cast<char>((message.size() >> shift) & 0xFF);
  framed += message;
  return http2_frame(1, kEndHeaders, stream, headers) + http2_frame(0, kEndStream, stream, framed);
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
  listen(listener_, 1);
  if (pipe(stop_) != 0) return;
  thread_ = std::thread([this, port] { run(port); });
}

RecordingProxy::~RecordingProxy() {
  close(stop_[1]);
  if (thread_.joinable()) thread_.join();
  close(stop_[0]);
  close(listener_);
}

std::string RecordingProxy::sent() const {
  MutexLock lock(mu_);
  return sent_;
}

void RecordingProxy::run(int server_port) {
  pollfd waits[2] = {{listener_, POLLIN, 0}, {stop_[0], POLLIN, 0}};
  if (poll(waits, 2, -1) <= 0 || waits[1].revents != 0) return;
  const int client = accept(listener_, nullptr, nullptr);
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(server_port);
  bool open = connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  char buffer[4096];
  while (open) {
    pollfd ends[3] = {{client, POLLIN, 0}, {server, POLLIN, 0}, {stop_[0], POLLIN, 0}};
    if (poll(ends, 3, -1) <= 0 || ends[2].revents != 0) break;
    for (int i = 0; i < 2 && open; ++i) {
      if (ends[i].revents == 0) continue;
      const ssize_t count = recv(ends[i].fd, buffer, sizeof(buffer), 0);
      open =
          count > 0 && ::send(i == 0 ? server : client, buffer, static_cast<std::size_t>(count), MSG_NOSIGNAL) == count;
      if (open && i == 0) {
        MutexLock lock(mu_);
        sent_.append(buffer, static_cast<std::size_t>(count));
      }
    }
  }
  close(client);
  close(server);
}

}  // namespace tutti::test
