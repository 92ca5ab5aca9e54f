// PNG through libpng, with the conversions that TensorFlow asks of it.
#include <png.h>

#include <csetjmp>
#include <cstring>
#include <exception>
#include <vector>

#include "tutti/io/images/image_codec.h"

namespace tutti {
namespace {

struct PngState {
  std::jmp_buf back;  // errors jump there; nothing that has a destructor is made on the way
  char text[128] = "";
  std::string_view input;  // what is left of it
  std::string* output = nullptr;
};

[[noreturn]] void png_fail(png_structp png, png_const_charp text) {
  auto* state = static_cast<PngState*>(png_get_error_ptr(png));
  std::strncpy(state->text, text, sizeof state->text - 1);
  std::longjmp(state->back, 1);
}

void png_quiet(png_structp, png_const_charp) {}

void png_take(png_structp png, png_bytep to, std::size_t count) {
  auto* state = static_cast<PngState*>(png_get_io_ptr(png));
  if (count > state->input.size()) png_error(png, "it ends early");
  std::memcpy(to, state->input.data(), count);
  state->input.remove_prefix(count);
}

class PngReader {
 public:
  explicit PngReader(std::string_view bytes) { state_.input = bytes; }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  bool read_header() {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state_, png_fail, png_quiet);
    if (png_ == nullptr) return false;
    if (setjmp(state_.back) != 0) return false;
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) return false;
    png_set_read_fn(png_, &state_, png_take);
    // Text and profiles may be compressed: what they grow to is nothing that is needed here.
    png_set_chunk_malloc_max(png_, 8 << 20);
    png_set_chunk_cache_max(png_, 16);
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
    // Of these a file may have many. (What tells of colours stays: conversion to grey looks at it.)
    static constexpr png_byte kMany[] = "tEXt\0zTXt\0iTXt\0sPLT";
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kMany, 4);
    png_read_info(png_, info_);
    return true;
  }

  ImageSize size(int channels, int channel_bytes) const {
    return {.height = png_get_image_height(png_, info_),
            .width = png_get_image_width(png_, info_),
            .channels = channels != 0 ? channels : own_channels(),
            .channel_bytes = channel_bytes};
  }

  // Sets up what turns the file's samples into `size`.
  bool convert(const ImageSize& size) {
    if (setjmp(state_.back) != 0) return false;
    const int type = png_get_color_type(png_, info_);
    const int depth = png_get_bit_depth(png_, info_);
    const bool wants_grey = size.channels < 3, is_grey = (type & PNG_COLOR_MASK_COLOR) == 0;
    if (is_grey && depth < 8) png_set_expand_gray_1_2_4_to_8(png_);
    if (size.channels % 2 == 0) {
      if (has_transparency()) {
        png_set_tRNS_to_alpha(png_);
      } else {
        png_set_add_alpha(png_, (1u << depth) - 1, PNG_FILLER_AFTER);
      }
    } else if ((type & PNG_COLOR_MASK_ALPHA) != 0 || has_transparency()) {
      png_set_strip_alpha(png_);
    }
    if (depth > 8 && size.channel_bytes == 1) png_set_strip_16(png_);
    doubled_ = depth <= 8 && size.channel_bytes == 2;
    png_set_packing(png_);
    passes_ = png_set_interlace_handling(png_);
    if (size.channel_bytes == 2) png_set_swap(png_);
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (wants_grey && !is_grey) png_set_rgb_to_gray(png_, 1, 0.299, 0.587);
    if (!wants_grey && is_grey) png_set_gray_to_rgb(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  std::size_t row_bytes() const { return png_get_rowbytes(png_, info_); }
  bool doubled() const { return doubled_; }  // rows come in bytes and are to be of 16 bits

  bool read_rows(png_bytep first, std::int64_t rows, std::int64_t stride) {
    if (setjmp(state_.back) != 0) return false;
    for (int pass = 0; pass < passes_; ++pass) {
      for (std::int64_t y = 0; y < rows; ++y) png_read_row(png_, first + y * stride, nullptr);
    }
    png_read_end(png_, info_);
    return true;
  }

  Status error() const {
    return invalid_argument("Invalid PNG data: ", state_.text[0] != '\0' ? state_.text : "it cannot be read");
  }

 private:
  bool has_transparency() const { return png_get_valid(png_, info_, PNG_INFO_tRNS) != 0; }
  int own_channels() const {
    if (png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE) return has_transparency() ? 4 : 3;
    return png_get_channels(png_, info_);
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  PngState state_;
  int passes_ = 1;
  bool doubled_ = false;
};

}  // namespace

Status decode_png(std::string_view bytes, int channels, int channel_bytes, const ImageLimits& limits,
                  const PixelRoom& room) {
  PngReader png(bytes);
  if (!png.read_header()) return png.error();
  const ImageSize size = png.size(channels, channel_bytes);
  TUTTI_RETURN_IF_ERROR(check_image_size(size, limits, "PNG"));
  if (!png.convert(size)) return png.error();
  const std::int64_t expected = png.doubled() ? size.row_bytes() / 2 : size.row_bytes();
  if (static_cast<std::int64_t>(png.row_bytes()) != expected) {
    return invalid_argument("Invalid PNG data: rows of ", png.row_bytes(), " bytes instead of ", expected);
  }
  TUTTI_ASSIGN_OR_RETURN(void* to, room(size));
  auto* pixels = static_cast<std::uint8_t*>(to);
  if (!png.read_rows(pixels, size.height, size.row_bytes())) return png.error();
  if (!png.doubled()) return {};
  // In place, from the end of each row: byte b becomes bb.
  for (std::int64_t y = 0; y < size.height; ++y) {
    std::uint8_t* row = pixels + y * size.row_bytes();
    for (std::int64_t i = expected - 1; i >= 0; --i) row[2 * i] = row[2 * i + 1] = row[i];
  }
  return {};
}

// --- Writing. ---

namespace {

void png_give(png_structp png, png_bytep bytes, std::size_t count) {
  bool taken = true;
  try {
    static_cast<PngState*>(png_get_io_ptr(png))->output->append(reinterpret_cast<const char*>(bytes), count);
  } catch (const std::exception&) {
    taken = false;
  }
  if (!taken) png_error(png, "out of memory");  // not from within the handler: it jumps
}

void png_flush_nothing(png_structp) {}

class PngWriter {
 public:
  explicit PngWriter(std::string* output) { state_.output = output; }
  ~PngWriter() { png_destroy_write_struct(&png_, &info_); }
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;

  bool write(const void* pixels, const ImageSize& size, int compression) {
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, &state_, png_fail, png_quiet);
    if (png_ == nullptr) return false;
    if (setjmp(state_.back) != 0) return false;
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) return false;
    constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                              PNG_COLOR_TYPE_RGB_ALPHA};
    png_set_write_fn(png_, &state_, png_give, png_flush_nothing);
    png_set_compression_level(png_, compression);
    png_set_compression_mem_level(png_, 9);
    png_set_IHDR(png_, info_, static_cast<png_uint_32>(size.width), static_cast<png_uint_32>(size.height),
                 8 * size.channel_bytes, kTypes[size.channels - 1], PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png_, info_);
    if (size.channel_bytes == 2) png_set_swap(png_);
    const auto* row = static_cast<const png_byte*>(pixels);
    for (std::int64_t y = 0; y < size.height; ++y, row += size.row_bytes()) png_write_row(png_, row);
    png_write_end(png_, nullptr);
    return true;
  }
  Status error() const { return invalid_argument("PNG encoding failed: ", state_.text); }

 private:
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  PngState state_;
};

}  // namespace

Result<std::string> encode_png_image(const void* pixels, const ImageSize& size, int compression) {
  if (size.channels < 1 || size.channels > 4)
    return invalid_argument("PNG encoding failed: ", size.channels, " channels");
  if (compression < -1 || compression > 9) {
    return invalid_argument("compression should be in [-1,9], got ", compression);
  }
  TUTTI_RETURN_IF_ERROR(check_image_size(size, {.max_bytes = std::int64_t{1} << 40}, "PNG"));
  std::string bytes;
  PngWriter png(&bytes);
  if (!png.write(pixels, size, compression)) return png.error();
  return bytes;
}

}  // namespace tutti
