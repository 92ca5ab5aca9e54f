// What writers, readers and mergers of bundles share: names of files, and the bytes of strings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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

// Appends the elements as they are stored. REQUIRES: check_storable(tensor.dtype()).
Result<StoredBytes> append_elements(WritableFile& file, const Tensor& tensor);

// Fills a string tensor from its stored bytes. kDataLoss says what is wrong. `crc` gets their checksum.
Status decode_strings(std::string_view stored, Tensor& tensor, std::uint32_t* crc);

}  // namespace tutti
