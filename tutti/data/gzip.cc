#include "tutti/data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

namespace tutti {
namespace {

constexpr std::size_t kChunkBytes = 1 << 16;
// zlib's counters are 32 bits wide.
constexpr std::size_t kMaxInputChunk = 1 << 30;
constexpr int kGzipWindow = 15 + 16;  // the largest window, gzip framing

// Frees zlib's state on every way out.
struct Inflater {
  z_stream stream = {};
  bool ready = false;
  Inflater() { ready = inflateInit2(&stream, kGzipWindow) == Z_OK; }
  ~Inflater() {
    if (ready) inflateEnd(&stream);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b'; }

Result<std::string> gunzip(std::string_view bytes, std::size_t limit) {
  Inflater inflater;
  if (!inflater.ready) return resource_exhausted("gzip: no memory for zlib's state");
  z_stream& stream = inflater.stream;
  std::string out;
  std::size_t used = 0;
  while (out.size() < limit) {
    const std::size_t before = out.size();
    const std::size_t room = std::min(kChunkBytes, limit - before);
    out.resize(before + room);
    const std::size_t given = std::min(kMaxInputChunk, bytes.size() - used);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + used));
    stream.avail_in = static_cast<uInt>(given);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = static_cast<uInt>(room);
    const int state = inflate(&stream, Z_NO_FLUSH);
    used += given - stream.avail_in;
    out.resize(before + room - stream.avail_out);
    if (state == Z_STREAM_END) {
      if (!is_gzip(bytes.substr(used))) return out;  // like gunzip, ignore what is not another member
      if (inflateReset(&stream) != Z_OK) return internal_error("gzip: zlib cannot start the next member");
    } else if (state == Z_BUF_ERROR || (state == Z_OK && used == bytes.size() && out.size() == before)) {
      return data_loss("gzip: ends early, after ", out.size(), " bytes of content");
    } else if (state != Z_OK) {
      return data_loss("gzip: damaged after ", out.size(),
                       " bytes of content: ", stream.msg ? stream.msg : "no detail");
    }
  }
  return out;
}

}  // namespace tutti
