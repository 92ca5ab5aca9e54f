// The other process of tests that kill, stop and watch one.
//
//   shm_peer UID serve            prints the name it listens under, serves TestHandler's methods until its input ends
//   shm_peer UID call NAME METHOD connects, calls METHOD with a megabyte of shared memory, prints "called", and waits
//                                 for its input to end; prints the status when the connection fails
//
// UID 0: stays who it is.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "call_support.h"
#include "tutti/transport/shm/shm_transport.h"

namespace tutti {
namespace {

void wait_for_end_of_input() {
  for (std::string line; std::getline(std::cin, line);) {
  }
}

ShmOptions peer_options(Clock& clock) {
  ShmOptions options;
  options.task = "peer";
  options.secret = "a secret";
  options.clock = &clock;
  return options;
}

int serve(Clock& clock) {
  test::TestHandler handler;
  auto transport = ShmTransport::create(peer_options(clock), &handler).value_or_throw();
  handler.allocator = &transport->shared_allocator();
  std::cout << transport->name() << std::endl;
  wait_for_end_of_input();
  return 0;
}

int call(Clock& clock, const std::string& name, const std::string& method) {
  auto transport = ShmTransport::create(peer_options(clock), nullptr).value_or_throw();
  auto channel = transport->connect(name, nullptr);
  if (!channel.ok()) {
    std::cout << channel.status().to_string() << std::endl;
    return 1;
  }
  const BufferPtr buffer = transport->shared_allocator().allocate(1 << 20);
  std::memset(buffer->data(), 'p', buffer->bytes());
  Payload request;
  test::append_buffer(request, buffer);
  auto answer = test::start_call(**channel, method, std::move(request));
  std::cout << "called" << std::endl;
  wait_for_end_of_input();
  return 0;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  if (const int uid = std::atoi(argv[1]); uid != 0 && ::setuid(static_cast<uid_t>(uid)) != 0) return 3;
  const auto clock = tutti::make_system_clock();
  const std::string mode = argv[2];
  if (mode == "serve") return tutti::serve(*clock);
  if (mode == "call" && argc == 5) return tutti::call(*clock, argv[3], argv[4]);
  return 2;
}
