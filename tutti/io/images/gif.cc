// GIF: blocks, colour tables and the variable-width LZW code that its pixels are packed in.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "tutti/io/images/image_codec.h"

namespace tutti {
namespace {

// Reads forward; once it has run out, everything is zero and `ended` says so.
class GifBytes {
 public:
  explicit GifBytes(std::string_view bytes) : rest_(bytes) {}

  int byte() {
    if (rest_.empty()) {
      ended_ = true;
      return 0;
    }
    const int value = static_cast<unsigned char>(rest_[0]);
    rest_.remove_prefix(1);
    return value;
  }
  int word() {
    const int low = byte();
    return low | byte() << 8;
  }
  std::string_view take(std::size_t count) {
    if (count > rest_.size()) ended_ = true;
    const std::string_view part = rest_.substr(0, std::min(count, rest_.size()));
    rest_.remove_prefix(part.size());
    return part;
  }
  // The bytes of sub-blocks up to their end.
  std::string sub_blocks() {
    std::string all;
    for (int length = byte(); length != 0 && !ended_; length = byte()) all += take(static_cast<std::size_t>(length));
    return all;
  }
  bool ended() const { return ended_; }

 private:
  std::string_view rest_;
  bool ended_ = false;
};

// Unpacks codes of 2 to 12 bits. A code stands for a run of pixels: that of an earlier code and one more.
class LzwDecoder {
 public:
  explicit LzwDecoder(int code_bits) : clear_(1 << code_bits) {
    for (int i = 0; i < clear_; ++i) last_[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i);
    forget();
  }

  // Fills `pixels`; false when the code is broken or too short.
  bool decode(std::string_view packed, std::vector<std::uint8_t>& pixels) {
    std::size_t filled = 0;
    std::uint32_t bits = 0;
    int have = 0;
    std::size_t at = 0;
    while (filled < pixels.size()) {
      while (have < width_) {
        if (at == packed.size()) return false;
        bits |= std::uint32_t{static_cast<unsigned char>(packed[at++])} << have;
        have += 8;
      }
      const int code = static_cast<int>(bits & ((1u << width_) - 1));
      bits >>= width_;
      have -= width_;
      if (code == clear_) {
        forget();
      } else if (code == clear_ + 1 || !put(code, pixels, &filled)) {
        return false;
      }
    }
    return true;
  }

 private:
  static constexpr int kMaxCodes = 4096;
  static constexpr int kNone = -1;

  void forget() {
    width_ = 1;
    while ((1 << width_) < clear_ + 2) ++width_;
    next_ = clear_ + 2;
    before_ = kNone;
  }

  bool put(int code, std::vector<std::uint8_t>& pixels, std::size_t* filled) {
    if (code > next_ || (code == next_ && before_ == kNone)) return false;
    // The run comes out last pixel first.
    std::size_t length = 0;
    int walk = code;
    if (code == next_) {  // the code that is being defined: the run before and its own first pixel
      run_[length++] = first_;
      walk = before_;
    }
    while (walk >= clear_ + 2) {
      run_[length++] = last_[static_cast<std::size_t>(walk)];
      walk = prefix_[static_cast<std::size_t>(walk)];
    }
    if (walk >= clear_) return false;
    first_ = static_cast<std::uint8_t>(walk);
    run_[length++] = first_;
    if (before_ != kNone && next_ < kMaxCodes) define();
    before_ = code;
    while (length > 0 && *filled < pixels.size()) pixels[(*filled)++] = run_[--length];
    return true;
  }

  void define() {
    prefix_[static_cast<std::size_t>(next_)] = static_cast<std::int16_t>(before_);
    last_[static_cast<std::size_t>(next_)] = first_;
    ++next_;
    if (next_ == 1 << width_ && width_ < 12) ++width_;
  }

  const int clear_;
  int width_ = 0;
  int next_ = 0;
  int before_ = kNone;
  std::uint8_t first_ = 0;
  std::array<std::int16_t, kMaxCodes> prefix_{};
  std::array<std::uint8_t, kMaxCodes> last_{};
  std::array<std::uint8_t, kMaxCodes + 2> run_{};
};

struct GifFrame {
  std::int64_t left = 0, top = 0, width = 0, height = 0;
  bool interlaced = false;
  int transparent = -1;
  std::string_view colors;  // red, green, blue each
  int code_bits = 0;
  std::string packed;
  std::vector<std::uint8_t> indices;  // into the colours, once unpacked
};

struct GifFile {
  std::vector<GifFrame> frames;
  Status damage;  // why there are no more
};

// Frames up to the end of the file, or to where it is damaged.
GifFile read_blocks(std::string_view bytes) {
  GifFile file;
  GifBytes in(bytes);
  in.take(6);
  in.take(4);  // the screen's size: TensorFlow goes by the frames
  const int flags = in.byte();
  in.take(2);
  std::string_view shared;
  if ((flags & 0x80) != 0) shared = in.take(std::size_t{3} << ((flags & 7) + 1));
  int transparent = -1;
  while (!in.ended()) {
    const int kind = in.byte();
    if (kind == 0x3b) return file;
    if (kind == 0x21) {
      const int label = in.byte();
      const std::string body = in.sub_blocks();
      if (label == 0xf9 && body.size() >= 4) {
        transparent = (body[0] & 1) != 0 ? static_cast<unsigned char>(body[3]) : -1;
      }
      continue;
    }
    if (kind != 0x2c) break;
    GifFrame frame;
    frame.left = in.word();
    frame.top = in.word();
    frame.width = in.word();
    frame.height = in.word();
    const int local = in.byte();
    frame.interlaced = (local & 0x40) != 0;
    frame.colors = (local & 0x80) != 0 ? in.take(std::size_t{3} << ((local & 7) + 1)) : shared;
    frame.transparent = transparent;
    transparent = -1;
    frame.code_bits = in.byte();
    frame.packed = in.sub_blocks();
    if (in.ended()) break;
    if (frame.code_bits < 1 || frame.code_bits > 8 || frame.width == 0 || frame.height == 0) {
      file.damage = invalid_argument("Invalid GIF data: frame ", file.frames.size(), " has codes of ", frame.code_bits,
                                     " bits for ", frame.width, " by ", frame.height, " pixels");
      return file;
    }
    file.frames.push_back(std::move(frame));
  }
  file.damage = invalid_argument("Invalid GIF data: it breaks off after ", file.frames.size(), " frames");
  return file;
}

// Unpacks frames until one is broken: as in TensorFlow, that one and what lies behind it do not count. The size of the
// image goes by all others, also where only the first is wanted.
Result<ImageSize> unpack_frames(GifFile& file, bool first_frame_only, const ImageLimits& limits) {
  ImageSize size{.frames = 0, .channels = 3};
  for (std::size_t i = 0; i < file.frames.size(); ++i) {
    GifFrame& frame = file.frames[i];
    ImageSize larger = size;
    larger.frames = first_frame_only ? 1 : size.frames + 1;
    larger.width = std::max(size.width, frame.width);
    larger.height = std::max(size.height, frame.height);
    TUTTI_RETURN_IF_ERROR(check_image_size(larger, limits, "GIF"));
    frame.indices.assign(static_cast<std::size_t>(frame.width * frame.height), 0);
    if (!LzwDecoder(frame.code_bits).decode(frame.packed, frame.indices)) {
      file.damage = invalid_argument("Invalid GIF data: the pixels of frame ", i, " cannot be unpacked");
      file.frames.resize(i);
      break;
    }
    size = larger;
    if (first_frame_only && i > 0) frame.indices = {};
  }
  if (file.frames.empty()) {
    return file.damage.ok() ? invalid_argument("Invalid GIF data: it has no frames") : file.damage;
  }
  if (first_frame_only) file.frames.resize(1);
  return size;
}

// The rows of an interlaced frame in the order in which they are stored.
std::vector<std::int64_t> row_order(const GifFrame& frame) {
  std::vector<std::int64_t> rows;
  if (!frame.interlaced) {
    for (std::int64_t y = 0; y < frame.height; ++y) rows.push_back(y);
    return rows;
  }
  constexpr std::int64_t kStarts[] = {0, 4, 2, 1}, kSteps[] = {8, 8, 4, 2};
  for (int pass = 0; pass < 4; ++pass) {
    for (std::int64_t y = kStarts[pass]; y < frame.height; y += kSteps[pass]) rows.push_back(y);
  }
  return rows;
}

Status draw(const GifFrame& frame, const ImageSize& size, std::uint8_t* canvas) {
  const std::vector<std::int64_t> rows = row_order(frame);
  const auto colors = static_cast<int>(frame.colors.size() / 3);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::int64_t y = frame.top + rows[r];
    if (y >= size.height) continue;
    const std::uint8_t* from = frame.indices.data() + static_cast<std::int64_t>(r) * frame.width;
    for (std::int64_t x = frame.left; x < std::min(frame.left + frame.width, size.width); ++x) {
      const int index = from[x - frame.left];
      if (index == frame.transparent) continue;
      if (index >= colors) return invalid_argument("Invalid GIF data: colour ", index, " of ", colors);
      std::memcpy(canvas + (y * size.width + x) * 3, frame.colors.data() + 3 * index, 3);
    }
  }
  return {};
}

}  // namespace

Status decode_gif(std::string_view bytes, bool first_frame_only, const ImageLimits& limits, const PixelRoom& room) {
  GifFile file = read_blocks(bytes);
  TUTTI_ASSIGN_OR_RETURN(const ImageSize size, unpack_frames(file, first_frame_only, limits));
  TUTTI_ASSIGN_OR_RETURN(void* to, room(size));
  const std::int64_t canvas_bytes = size.height * size.row_bytes();
  auto* canvas = static_cast<std::uint8_t*>(to);
  std::memset(canvas, 0, static_cast<std::size_t>(canvas_bytes));
  for (std::size_t i = 0; i < file.frames.size(); ++i, canvas += canvas_bytes) {
    if (i > 0) std::memcpy(canvas, canvas - canvas_bytes, static_cast<std::size_t>(canvas_bytes));
    if (file.frames[i].colors.empty()) return invalid_argument("Invalid GIF data: missing color map for frame ", i);
    TUTTI_RETURN_IF_ERROR(draw(file.frames[i], size, canvas));
  }
  return {};
}

}  // namespace tutti
