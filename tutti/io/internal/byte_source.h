// Bytes from front to back: of a file, or of what a compressed file holds.
#pragma once

#include <memory>
#include <span>

#include "tutti/core/file_system.h"

namespace tutti {

// One thread at a time.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills `out`; the count is less than asked only at the end.
  virtual Result<std::size_t> read(std::span<char> out) = 0;
};

std::unique_ptr<ByteSource> make_file_source(std::unique_ptr<RandomAccessFile> file, std::size_t buffer_bytes);

enum class Compression { kNone, kZlib, kGzip };

// What `compressed` holds. Several gzip members count as one. kDataLoss when it is damaged or ends early;
// kResourceExhausted when there is no memory for zlib's state. REQUIRES: not kNone.
std::unique_ptr<ByteSource> make_inflate_source(std::unique_ptr<ByteSource> compressed, Compression compression);

}  // namespace tutti
