#include "tutti/distributed/rpc/internal/call_token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tutti::rpc_internal {
namespace {

constexpr std::size_t kNonceBytes = 16;
constexpr std::string_view kPlain = "plain";
constexpr std::string_view kMac = "mac";
// Says that the caller wants a challenge, for who has none yet.
constexpr std::string_view kHello = "hello";

std::string to_hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool is_nonce(std::string_view text) {
  return text.size() == 2 * kNonceBytes && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The parts have no spaces but the last.
std::string mac_of(const std::string& token, std::string_view challenge, std::string_view session,
                   std::string_view counter, std::string_view method) {
  const std::string text = str_cat("tutti-call-1 ", challenge, " ", session, " ", counter, " ", method);
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const auto* made = HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
                          reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, &size);
  TUTTI_CHECK(made != nullptr, "HMAC-SHA256 failed");
  return to_hex({reinterpret_cast<const char*>(mac), size});
}

constexpr std::string_view kNoToken =
    "the call has none. TensorFlow's clients cannot send one: a job for them is started by `tutti run --insecure`, a "
    "server without a token";

TokenVerifier::Verdict refuse(std::string_view why, std::string challenge = {}) {
  return {Status(Code::kUnauthenticated, str_cat("join token: ", why)), std::move(challenge)};
}

}  // namespace

std::string random_hex() {
  unsigned char bytes[kNonceBytes];
  TUTTI_CHECK(RAND_bytes(bytes, sizeof(bytes)) == 1, "the system has no random bytes");
  return to_hex({reinterpret_cast<const char*>(bytes), sizeof(bytes)});
}

TokenSigner::TokenSigner(std::string token, bool encrypted)
    : token_(std::move(token)), encrypted_(encrypted), session_(random_hex()) {}

std::string TokenSigner::sign(std::string_view method) {
  if (encrypted_) return str_cat(kPlain, " ", to_hex(token_));
  std::string challenge;
  std::uint64_t counter = 0;
  {
    MutexLock lock(mu_);
    if (challenge_.empty()) return std::string(kHello);
    challenge = challenge_;
    counter = counter_++;
  }
  const std::string number = str_cat(counter);
  return str_cat(kMac, " ", challenge, " ", session_, " ", number, " ",
                 mac_of(token_, challenge, session_, number, method));
}

void TokenSigner::set_challenge(std::string_view challenge) {
  if (!is_nonce(challenge)) return;
  MutexLock lock(mu_);
  challenge_ = challenge;
}

TokenVerifier::TokenVerifier(std::string token, bool encrypted)
    : token_(std::move(token)), encrypted_(encrypted), challenge_(random_hex()) {}

bool TokenVerifier::Seen::add(std::uint64_t counter) {
  if (counter >= next) {
    const std::uint64_t fresh = std::min(counter - next + 1, kWindow);
    for (std::uint64_t i = 0; i < fresh; ++i) recent.reset((counter - i) % kWindow);
    next = counter + 1;
  } else if (next - counter > kWindow || recent.test(counter % kWindow)) {
    return false;
  }
  recent.set(counter % kWindow);
  return true;
}

TokenVerifier::Verdict TokenVerifier::check(std::string_view method, std::string_view proof) {
  if (encrypted_) {
    if (proof.empty()) return refuse(kNoToken);
    return check_plain(proof);
  }
  if (proof.empty() || proof == kHello) {
    MutexLock lock(mu_);
    Verdict verdict = refuse(kNoToken, challenge_);
    verdict.greeting = proof == kHello;
    return verdict;
  }
  return check_mac(method, proof);
}

TokenVerifier::Verdict TokenVerifier::check_plain(std::string_view proof) const {
  if (same_secret(proof, str_cat(kPlain, " ", to_hex(token_)))) return {};
  return refuse("it is not this cluster's");
}

TokenVerifier::Verdict TokenVerifier::check_mac(std::string_view method, std::string_view proof) {
  const std::vector<std::string_view> parts = str_split(proof.substr(0, 256), ' ');
  std::int64_t counter = 0;
  if (parts.size() != 5 || parts[0] != kMac || !is_nonce(parts[1]) || !is_nonce(parts[2]) ||
      !parse_int64(parts[3], &counter) || counter < 0) {
    return refuse("the call's proof is malformed");
  }
  if (!same_secret(parts[4], mac_of(token_, parts[1], parts[2], parts[3], method))) {
    return refuse("it is not this cluster's");
  }
  MutexLock lock(mu_);
  if (parts[1] != challenge_) {
    Verdict verdict = refuse("the proof is for another challenge", challenge_);
    verdict.greeting = true;
    return verdict;
  }
  if (sessions_.size() >= kSessions && !sessions_.contains(std::string(parts[2]))) {
    challenge_ = random_hex();
    sessions_.clear();
    Verdict verdict = refuse("the proof is for another challenge", challenge_);
    verdict.greeting = true;
    return verdict;
  }
  if (!sessions_[std::string(parts[2])].add(static_cast<std::uint64_t>(counter))) {
    return refuse("the proof was used before", challenge_);
  }
  return {};
}

}  // namespace tutti::rpc_internal
