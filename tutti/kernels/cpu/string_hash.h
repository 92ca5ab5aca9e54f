// Hashes of strings as TensorFlow's ops compute them: the values are part of models (bucket numbers), so they are
// fixed for ever.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti::cpu {

// FarmHash's Fingerprint64.
std::uint64_t fingerprint64(std::string_view text);
// SipHash-2-4 under a key of two words.
std::uint64_t sip_hash(std::uint64_t key0, std::uint64_t key1, std::string_view text);
// The 64-bit MurmurHash2 of StringToHashBucket, which is older than both.
std::uint64_t murmur_hash64(std::string_view text);

}  // namespace tutti::cpu
