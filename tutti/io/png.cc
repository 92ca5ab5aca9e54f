#include "tutti/io/png.h"

#include <zlib.h>

#include <array>
#include <cstdlib>
#include <string_view>

namespace tutti {
namespace {

void append_be32(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
}

void append_chunk(std::string& out, std::string_view type, std::string_view data) {
  append_be32(out, static_cast<std::uint32_t>(data.size()));
  const std::size_t checked = out.size();
  out += type;
  out += data;
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(out.data() + checked), out.size() - checked);
  append_be32(out, static_cast<std::uint32_t>(crc));
}

std::string header(std::uint32_t height, std::uint32_t width, int channels) {
  std::string data;
  append_be32(data, width);
  append_be32(data, height);
  data += '\x08';                                              // bits a channel
  data += channels == 1 ? '\0' : channels == 3 ? '\2' : '\6';  // colour type
  data.append(3, '\0');                                        // deflate, adaptive filters, no interlace
  return data;
}

enum Filter : char { kNone, kSub, kUp, kFilters };

// A row's bytes less their neighbours to the left or above, whichever leaves the smallest differences: those compress
// best. `above` is empty for the first row.
class RowFilter {
 public:
  explicit RowFilter(std::size_t bytes, int channels) : channels_(static_cast<std::size_t>(channels)) {
    for (std::string& row : rows_) row.resize(bytes);
  }

  void append(std::string& out, std::span<const std::uint8_t> row, std::span<const std::uint8_t> above) {
    std::array<std::uint64_t, kFilters> cost{};
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::uint8_t left = i >= channels_ ? row[i - channels_] : 0;
      const std::uint8_t up = above.empty() ? 0 : above[i];
      const std::array<std::uint8_t, kFilters> subtracted = {0, left, up};
      for (int f = kNone; f < kFilters; ++f) {
        const auto difference = static_cast<std::int8_t>(row[i] - subtracted[f]);
        rows_[f][i] = static_cast<char>(difference);
        cost[f] += static_cast<std::uint64_t>(std::abs(difference));
      }
    }
    int best = kNone;
    for (int f = kSub; f < kFilters; ++f) {
      if (cost[f] < cost[best]) best = f;
    }
    out += static_cast<char>(best);
    out += rows_[best];
  }

 private:
  const std::size_t channels_;
  std::array<std::string, kFilters> rows_;
};

Result<std::string> deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  const int code =
      compress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (code != Z_OK) return resource_exhausted("PNG: zlib could not compress ", bytes.size(), " bytes (", code, ")");
  out.resize(size);
  return out;
}

}  // namespace

Result<std::string> encode_png(std::int64_t height, std::int64_t width, int channels,
                               std::span<const std::uint8_t> pixels) {
  constexpr std::int64_t kMaxSide = (std::int64_t{1} << 31) - 1;
  if (height < 1 || width < 1 || height > kMaxSide || width > kMaxSide) {
    return invalid_argument("PNG: an image of ", height, " by ", width);
  }
  if (channels != 1 && channels != 3 && channels != 4) return invalid_argument("PNG: ", channels, " channels");
  const std::size_t row_bytes = static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
  if (pixels.size() / row_bytes != static_cast<std::size_t>(height) || pixels.size() % row_bytes != 0) {
    return invalid_argument("PNG: ", pixels.size(), " bytes for ", height, " by ", width, " by ", channels);
  }
  std::string filtered;
  filtered.reserve(pixels.size() + static_cast<std::size_t>(height));
  RowFilter filter(row_bytes, channels);
  std::span<const std::uint8_t> above;
  for (std::int64_t row = 0; row < height; ++row) {
    const auto current = pixels.subspan(static_cast<std::size_t>(row) * row_bytes, row_bytes);
    filter.append(filtered, current, above);
    above = current;
  }
  TUTTI_ASSIGN_OR_RETURN(const std::string data, deflated(filtered));
  if (data.size() > static_cast<std::size_t>(kMaxSide)) return invalid_argument("PNG: the image has over 2 GiB");
  std::string out = "\x89PNG\r\n\x1a\n";
  append_chunk(out, "IHDR", header(static_cast<std::uint32_t>(height), static_cast<std::uint32_t>(width), channels));
  append_chunk(out, "IDAT", data);
  append_chunk(out, "IEND", "");
  return out;
}

}  // namespace tutti
