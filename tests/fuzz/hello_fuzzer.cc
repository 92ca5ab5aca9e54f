// libFuzzer target: the first byte says which message of "/tutti.TaskService/..." the rest is. It is decoded, and when
// that works encoded and decoded again, which must give the same bytes; hellos go through the gate, and nobody who does
// not know the token is believed.
#include <google/protobuf/stubs/logging.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tutti/distributed/hello.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);  // it would say what is wrong with every input
  return 0;
}

namespace tutti {
namespace {

constexpr char kToken[] = "a token that no input knows";

void need(bool holds) {
  if (!holds) std::abort();
}

template <typename Message>
bool check_bytes(const Payload& bytes, Message& message) {
  if (!decode(bytes, message).ok()) return false;
  const std::string first = encode(message).flatten();
  need(decode(Payload(first), message).ok());
  need(encode(message).flatten() == first);
  return true;
}

void check_request(const HelloRequest& request) {
  HelloGate::Options options;
  options.self = {.task = "/job:ps/replica:0/task:0", .incarnation = 9, .host_id = "h", .shm_name = "s"};
  HelloGate open(options);
  options.token = kToken;
  HelloGate closed(options);
  const TimePoint now{std::chrono::hours(1)};
  (void)open.answer(request, now);
  for (int turn = 0; turn < 2; ++turn) {
    const Result<HelloReply> reply = closed.answer(request, now);
    need(!reply.ok() || (!reply->challenge.empty() && reply->shm_name.empty()));
  }
}

void check_answer(const HelloReply& reply) {
  HelloRequest request;
  request.nonce = "a nonce";
  need(!check_reply(request, reply, kToken).ok());
  need(!answer_challenge(request, reply, kToken).ok());
  need(!answer_challenge(request, reply, "").ok());
}

void check_one(int kind, const Payload& bytes) {
  HelloRequest request;
  HelloReply reply;
  LeaseRequest lease;
  LeaseReply leased;
  if (kind == 0 && check_bytes(bytes, request)) check_request(request);
  if (kind == 1 && check_bytes(bytes, reply)) check_answer(reply);
  if (kind == 2) check_bytes(bytes, lease);
  if (kind == 3) check_bytes(bytes, leased);
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  tutti::check_one(data[0] % 4, tutti::Payload(std::string(reinterpret_cast<const char*>(data) + 1, size - 1)));
  return 0;
}
