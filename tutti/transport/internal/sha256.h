// SHA-256 (FIPS 180-4) and HMAC (RFC 2104), for the proof of a shared secret.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tutti {

using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::string_view data);
Digest hmac_sha256(std::string_view key, std::string_view data);
// Takes the same time wherever they differ.
bool same_digest(const Digest& a, const Digest& b);

}  // namespace tutti
