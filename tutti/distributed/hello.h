// How Tutti's tasks and clients recognise each other: messages of "/tutti.TaskService/..." and who is believed.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "tutti/core/clock.h"
#include "tutti/core/payload.h"
#include "tutti/core/status.h"

namespace tutti {

inline constexpr std::string_view kHelloMethod = "/tutti.TaskService/Hello";
inline constexpr std::string_view kLeaseMethod = "/tutti.TaskService/Lease";
// TensorFlow's CreateSession, by a client that is going to lease the session.
inline constexpr std::string_view kCreateLeasedSessionMethod = "/tutti.TaskService/CreateLeasedSession";
inline constexpr std::uint32_t kHelloVersion = 1;

// As in proto/tutti_task.proto.
struct HelloRequest {
  std::uint32_t version = kHelloVersion;
  std::string task;
  std::uint64_t incarnation = 0;
  std::string host_id;
  std::string to_task;
  std::string nonce;
  std::string challenge;
  std::string proof;
};
struct HelloReply {
  std::uint32_t version = kHelloVersion;
  std::string task;
  std::uint64_t incarnation = 0;
  std::string host_id;
  std::string shm_name;
  std::string challenge;
  std::string proof;
  std::string your_task;
  std::string shm_ticket;
};
struct LeaseRequest {
  std::string task;
  std::uint64_t incarnation = 0;
  std::string session_handle;
};
struct LeaseReply {
  std::uint64_t incarnation = 0;
};

Payload encode(const HelloRequest& message);
Payload encode(const HelloReply& message);
Payload encode(const LeaseRequest& message);
Payload encode(const LeaseReply& message);
// kInvalidArgument for what is malformed or has fields of unreasonable size.
Status decode(const Payload& bytes, HelloRequest& message);
Status decode(const Payload& bytes, HelloReply& message);
Status decode(const Payload& bytes, LeaseRequest& message);
Status decode(const Payload& bytes, LeaseReply& message);

// 16 random bytes that nobody can guess.
std::string random_nonce();
// Not 0.
std::uint64_t random_incarnation();

// The answering side. Not thread-safe.
class HelloGate {
 public:
  struct Options {
    HelloReply self;                                         // task, incarnation, host id, shm name
    std::string token;                                       // empty: everybody is believed
    std::function<std::string()> make_nonce = random_nonce;  // of challenges
    Duration challenge_life = std::chrono::seconds(30);
  };
  explicit HelloGate(Options options) : options_(std::move(options)) {}

  // The answer to send. kUnimplemented: another version. kFailedPrecondition: the sender means another task.
  // kUnauthenticated: a proof without the token, or for a challenge that was not given, is too old or was used.
  // A reply without challenge means that the sender is believed.
  Result<HelloReply> answer(const HelloRequest& request, TimePoint now);

 private:
  Status check_proof(const HelloRequest& request, TimePoint now);
  HelloReply challenge(const HelloRequest& request, TimePoint now);

  const Options options_;
  std::map<std::string, TimePoint> challenges_;  // given and not used, with their ends
  std::deque<std::string> order_;                // the same, oldest first
};

// The asking side: the request of the second turn, for an answer with a challenge; or why the answer is not believed.
// `token` empty while the peer wants one: kUnauthenticated.
Result<HelloRequest> answer_challenge(const HelloRequest& first, const HelloReply& reply, const std::string& token);
// Whether a final answer proves that the peer knows the token. Always OK without one.
Status check_reply(const HelloRequest& request, const HelloReply& reply, const std::string& token);

}  // namespace tutti
