// Writes one message of each kind for the fuzzer to start from, in its own form: hello_seeds FOLDER
#include <cstdio>
#include <string>
#include <vector>

#include "tutti/core/file_system.h"
#include "tutti/distributed/hello.h"

using namespace tutti;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: hello_seeds FOLDER\n");
    return 2;
  }
  const std::string task = "/job:worker/replica:0/task:1";
  const std::string bytes(16, '\x7f');
  const std::vector<Payload> messages = {
      encode(HelloRequest{.task = task, .incarnation = 7, .host_id = "host", .to_task = task, .nonce = bytes}),
      encode(HelloReply{.task = task, .incarnation = 7, .host_id = "host", .shm_name = "tutti-1", .proof = bytes}),
      encode(LeaseRequest{.task = task, .incarnation = 7, .session_handle = "0123456789abcdef"}),
      encode(LeaseReply{.incarnation = 7}),
      encode(HelloRequest{.task = task, .nonce = bytes, .challenge = bytes, .proof = bytes}),
      encode(HelloReply{.task = task, .challenge = bytes, .proof = bytes, .your_task = task, .shm_ticket = bytes})};
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string seed = static_cast<char>(i % 4) + messages[i].flatten();
    const Status written = write_file(local_file_system(), str_cat(argv[1], "/seed_", i), seed);
    if (written.ok()) continue;
    std::fprintf(stderr, "hello_seeds: %s\n", written.to_string().c_str());
    return 1;
  }
  return 0;
}
