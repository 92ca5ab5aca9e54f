// What writers, readers and mergers of bundles share: names of files, and the bytes of strings and variants.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/file_system.h"
#include "tutti/core/tensor.h"

namespace tutti {

inline constexpr int kBundleVersion = 1;
inline constexpr std::string_view kBundleHeaderKey = "";

std::string bundle_index_path(std::string_view prefix);
std::string bundle_data_path(std::string_view prefix, int shard, int num_shards);

// Whether checkpoints hold values of this type; kUnimplemented, naming the type, for those that live in one process.
Status check_storable(DType dtype);

// A span of a data file and its checksum, not masked.
struct StoredBytes {
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
};

// Appends the elements as they are stored. REQUIRES: check_storable(tensor.dtype()), and no variants.
Result<StoredBytes> append_elements(WritableFile& file, const Tensor& tensor);
// Appends those of a tensor of variants, each given as its message.
Result<StoredBytes> append_variants(WritableFile& file, std::span<const std::string> messages);

// Fills a string tensor from its stored bytes. kDataLoss says what is wrong. `crc` gets their checksum.
Status decode_strings(std::string_view stored, Tensor& tensor, std::uint32_t* crc);

// The messages of `count` variants, in `stored`. kDataLoss says what is wrong. `crc` gets their checksum.
// REQUIRES: stored.size() >= count * kLeastVariantBytes.
Result<std::vector<std::string_view>> split_variants(std::string_view stored, std::size_t count, std::uint32_t* crc);
// The length and the checksum of an empty message.
inline constexpr std::uint64_t kLeastVariantBytes = 5;

}  // namespace tutti
