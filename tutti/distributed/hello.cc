#include "tutti/distributed/hello.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cstring>

#include "proto/tutti_task.pb.h"
#include "tutti/core/strings.h"

namespace tutti {
namespace {

constexpr std::size_t kMaxFieldBytes = 1024;
constexpr std::size_t kMaxMessageBytes = 16 * 1024;
// Beyond this the oldest are dropped: who floods us with first turns makes others repeat theirs, no more.
constexpr std::size_t kMaxChallenges = 10'000;

template <typename Proto>
Payload to_bytes(const Proto& proto) {
  return Payload(proto.SerializeAsString());
}

template <typename Proto>
Status from_bytes(const Payload& bytes, const char* name, Proto& proto) {
  if (bytes.size() > kMaxMessageBytes) return invalid_argument(name, ": ", bytes.size(), " bytes are too many");
  if (!proto.ParseFromString(bytes.flatten())) return invalid_argument(name, ": malformed");
  return {};
}

// Moves `from` to `to` where it is of reasonable size.
Status take(const char* field, std::string* from, std::string& to) {
  if (from->size() > kMaxFieldBytes) return invalid_argument(field, ": ", from->size(), " bytes are too many");
  to = std::move(*from);
  return {};
}

// Parts with their lengths, so that no two lists of parts look alike.
std::string hmac(const std::string& token, std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const auto part : parts) text += str_cat(part.size(), ":", part);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), digest, &size);
  return std::string(reinterpret_cast<const char*>(digest), size);
}

std::string client_proof(const std::string& token, const HelloRequest& request) {
  return hmac(token, {"tutti hello 1, asking", request.nonce, request.challenge, request.task,
                      std::to_string(request.incarnation), request.to_task});
}

std::string server_proof(const std::string& token, const std::string& nonce, const HelloReply& reply) {
  return hmac(token,
              {"tutti hello 1, answering", nonce, reply.challenge, reply.task, std::to_string(reply.incarnation)});
}

bool same(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Status unauthenticated(std::string message) { return Status(Code::kUnauthenticated, std::move(message)); }

}  // namespace

Payload encode(const HelloRequest& message) {
  HelloRequestProto proto;
  proto.set_version(message.version);
  proto.set_task(message.task);
  proto.set_incarnation(message.incarnation);
  proto.set_host_id(message.host_id);
  proto.set_to_task(message.to_task);
  proto.set_nonce(message.nonce);
  proto.set_challenge(message.challenge);
  proto.set_proof(message.proof);
  return to_bytes(proto);
}

Payload encode(const HelloReply& message) {
  HelloReplyProto proto;
  proto.set_version(message.version);
  proto.set_task(message.task);
  proto.set_incarnation(message.incarnation);
  proto.set_host_id(message.host_id);
  proto.set_shm_name(message.shm_name);
  proto.set_challenge(message.challenge);
  proto.set_proof(message.proof);
  proto.set_your_task(message.your_task);
  proto.set_shm_ticket(message.shm_ticket);
  return to_bytes(proto);
}

Payload encode(const LeaseRequest& message) {
  LeaseRequestProto proto;
  proto.set_task(message.task);
  proto.set_incarnation(message.incarnation);
  proto.set_session_handle(message.session_handle);
  return to_bytes(proto);
}

Payload encode(const LeaseReply& message) {
  LeaseReplyProto proto;
  proto.set_incarnation(message.incarnation);
  return to_bytes(proto);
}

Status decode(const Payload& bytes, HelloRequest& message) {
  HelloRequestProto proto;
  TUTTI_RETURN_IF_ERROR(from_bytes(bytes, "HelloRequest", proto));
  message.version = proto.version();
  message.incarnation = proto.incarnation();
  TUTTI_RETURN_IF_ERROR(take("HelloRequest.task", proto.mutable_task(), message.task));
  TUTTI_RETURN_IF_ERROR(take("HelloRequest.host_id", proto.mutable_host_id(), message.host_id));
  TUTTI_RETURN_IF_ERROR(take("HelloRequest.to_task", proto.mutable_to_task(), message.to_task));
  TUTTI_RETURN_IF_ERROR(take("HelloRequest.nonce", proto.mutable_nonce(), message.nonce));
  TUTTI_RETURN_IF_ERROR(take("HelloRequest.challenge", proto.mutable_challenge(), message.challenge));
  return take("HelloRequest.proof", proto.mutable_proof(), message.proof);
}

Status decode(const Payload& bytes, HelloReply& message) {
  HelloReplyProto proto;
  TUTTI_RETURN_IF_ERROR(from_bytes(bytes, "HelloReply", proto));
  message.version = proto.version();
  message.incarnation = proto.incarnation();
  TUTTI_RETURN_IF_ERROR(take("HelloReply.task", proto.mutable_task(), message.task));
  TUTTI_RETURN_IF_ERROR(take("HelloReply.host_id", proto.mutable_host_id(), message.host_id));
  TUTTI_RETURN_IF_ERROR(take("HelloReply.shm_name", proto.mutable_shm_name(), message.shm_name));
  TUTTI_RETURN_IF_ERROR(take("HelloReply.challenge", proto.mutable_challenge(), message.challenge));
  TUTTI_RETURN_IF_ERROR(take("HelloReply.your_task", proto.mutable_your_task(), message.your_task));
  TUTTI_RETURN_IF_ERROR(take("HelloReply.shm_ticket", proto.mutable_shm_ticket(), message.shm_ticket));
  return take("HelloReply.proof", proto.mutable_proof(), message.proof);
}

Status decode(const Payload& bytes, LeaseRequest& message) {
  LeaseRequestProto proto;
  TUTTI_RETURN_IF_ERROR(from_bytes(bytes, "LeaseRequest", proto));
  message.incarnation = proto.incarnation();
  TUTTI_RETURN_IF_ERROR(take("LeaseRequest.task", proto.mutable_task(), message.task));
  return take("LeaseRequest.session_handle", proto.mutable_session_handle(), message.session_handle);
}

Status decode(const Payload& bytes, LeaseReply& message) {
  LeaseReplyProto proto;
  TUTTI_RETURN_IF_ERROR(from_bytes(bytes, "LeaseReply", proto));
  message.incarnation = proto.incarnation();
  return {};
}

std::string random_nonce() {
  std::string bytes(16, '\0');
  TUTTI_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) == 1,
              "the system gives no random bytes");
  return bytes;
}

std::uint64_t random_incarnation() {
  std::uint64_t value = 0;
  while (value == 0) std::memcpy(&value, random_nonce().data(), sizeof(value));
  return value;
}

HelloReply HelloGate::challenge(const HelloRequest& request, TimePoint now) {
  while (!order_.empty()) {
    const auto oldest = challenges_.find(order_.front());
    if (oldest != challenges_.end() && oldest->second > now && challenges_.size() < kMaxChallenges) break;
    if (oldest != challenges_.end()) challenges_.erase(oldest);
    order_.pop_front();
  }
  HelloReply reply = options_.self;
  reply.shm_name.clear();
  reply.challenge = options_.make_nonce();
  reply.proof = server_proof(options_.token, request.nonce, reply);
  challenges_[reply.challenge] = now + options_.challenge_life;
  order_.push_back(reply.challenge);
  return reply;
}

Status HelloGate::check_proof(const HelloRequest& request, TimePoint now) {
  const auto found = challenges_.find(request.challenge);
  if (found == challenges_.end() || found->second <= now) {
    return unauthenticated("hello: its challenge was never given, is too old, or was answered before");
  }
  challenges_.erase(found);
  if (!same(request.proof, client_proof(options_.token, request))) {
    return unauthenticated("hello: the join token is another one than this cluster's");
  }
  return {};
}

Result<HelloReply> HelloGate::answer(const HelloRequest& request, TimePoint now) {
  if (request.version != kHelloVersion) {
    return unimplemented("hello: version ", request.version, " is not known here, ", kHelloVersion, " is");
  }
  if (!request.to_task.empty() && request.to_task != options_.self.task) {
    return failed_precondition("hello: meant for ", printable(request.to_task), ", but this is ", options_.self.task,
                               ": the sides have different clusters in mind");
  }
  if (options_.token.empty()) return options_.self;
  if (request.proof.empty()) return challenge(request, now);
  TUTTI_RETURN_IF_ERROR(check_proof(request, now));
  HelloReply reply = options_.self;
  reply.proof = server_proof(options_.token, request.nonce, reply);
  return reply;
}

Result<HelloRequest> answer_challenge(const HelloRequest& first, const HelloReply& reply, const std::string& token) {
  if (token.empty()) return unauthenticated(str_cat(reply.task, " wants a join token, and none is known here"));
  TUTTI_RETURN_IF_ERROR(check_reply(first, reply, token));
  HelloRequest second = first;
  second.nonce = random_nonce();
  second.challenge = reply.challenge;
  second.proof = client_proof(token, second);
  return second;
}

Status check_reply(const HelloRequest& request, const HelloReply& reply, const std::string& token) {
  if (token.empty()) return {};
  if (same(reply.proof, server_proof(token, request.nonce, reply))) return {};
  return unauthenticated(str_cat("hello: ", printable(reply.task, 100), " does not know the join token"));
}

}  // namespace tutti
