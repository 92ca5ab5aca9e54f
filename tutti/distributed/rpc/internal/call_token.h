// Proof that a caller knows the cluster's join token, once for each call, in the metadata "tutti-token".
//
// Over TLS the value is "plain HEX": the token itself, which nobody but the authenticated server sees.
//
// In plaintext the token must not be seen, and what was seen must be of no use a second time:
//   1. A call without proof, or with one for another challenge, is refused; the refusal carries the server's challenge,
//      16 random bytes, in the metadata "tutti-challenge".
//   2. The caller sends the call again with "mac CHALLENGE SESSION COUNTER MAC": a random session, a counter that it
//      never repeats in it, and HMAC-SHA256 of these and the method under the token.
//   3. The server refuses counters that it has seen. It remembers a window of them for each session; when it would have
//      to remember too many sessions it draws a new challenge instead and forgets them all, and callers go back to 1.
// A restarted server has another challenge, so that nothing recorded before is of use to it. The bytes of messages are
// not covered: whoever can change packets on their way needs TLS to be kept out.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tutti/core/mutex.h"
#include "tutti/core/status.h"

namespace tutti::rpc_internal {

// 16 random bytes, which nobody can guess.
std::string random_hex();

inline constexpr char kTokenKey[] = "tutti-token";
inline constexpr char kChallengeKey[] = "tutti-challenge";

// The caller's side, one for each channel. Thread-safe.
class TokenSigner {
 public:
  TokenSigner(std::string token, bool encrypted);
  // The value for one call.
  std::string sign(std::string_view method);
  // What a refusal carried.
  void set_challenge(std::string_view challenge);

 private:
  const std::string token_;
  const bool encrypted_;
  const std::string session_;
  Mutex mu_;
  std::string challenge_ TUTTI_GUARDED_BY(mu_);
  std::uint64_t counter_ TUTTI_GUARDED_BY(mu_) = 0;
};

// The server's side. Thread-safe.
class TokenVerifier {
 public:
  struct Verdict {
    Status status;          // OK or kUnauthenticated
    std::string challenge;  // to be sent with the refusal; empty: none
    // The caller gave no proof but may know the token: nothing that people need to hear of.
    bool greeting = false;
  };

  TokenVerifier(std::string token, bool encrypted);
  // `proof`: the call's metadata, empty when it has none.
  Verdict check(std::string_view method, std::string_view proof);

 private:
  // Which counters of a session were seen: all below `next - kWindow` are taken as seen.
  struct Seen {
    static constexpr std::uint64_t kWindow = 1024;
    std::uint64_t next = 0;
    std::bitset<kWindow> recent;  // by counter % kWindow
    bool add(std::uint64_t counter);
  };
  // At about 300 bytes each.
  static constexpr std::size_t kSessions = 65536;

  Verdict check_plain(std::string_view secret) const;
  Verdict check_mac(std::string_view method, std::string_view proof);

  const std::string token_;
  const bool encrypted_;
  Mutex mu_;
  std::string challenge_ TUTTI_GUARDED_BY(mu_);
  std::unordered_map<std::string, Seen> sessions_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::rpc_internal
