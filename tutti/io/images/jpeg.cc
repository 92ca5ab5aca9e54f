#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

// clang-format off
#include <jpeglib.h>  // wants size_t and FILE from before it
#include <jerror.h>   // likewise
// clang-format on

#include "tutti/io/images/image_codec.h"

namespace tutti {
namespace {

// libjpeg reports errors by a call that must not return. It jumps back to where the library was called from; nothing
// that has a destructor is made between there and here.
struct JpegErrors {
  jpeg_error_mgr base;  // first: the library hands out its address
  std::jmp_buf back;
  char text[JMSG_LENGTH_MAX];
};

[[noreturn]] void jpeg_fail(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  (*info->err->format_message)(info, errors->text);
  std::longjmp(errors->back, 1);
}

void jpeg_quiet(j_common_ptr, int) {}
void jpeg_silent(j_common_ptr) {}

jpeg_error_mgr* set_up(JpegErrors* errors) {
  jpeg_error_mgr* base = jpeg_std_error(&errors->base);
  base->error_exit = jpeg_fail;
  base->emit_message = jpeg_quiet;
  base->output_message = jpeg_silent;
  errors->text[0] = '\0';
  return base;
}

// --- A source in memory. At its end it fails, or, once, says that the image ends there. ---

struct JpegSource {
  jpeg_source_mgr base;
  bool recover;
  bool ended;
};

constexpr JOCTET kEndOfImage[2] = {0xff, JPEG_EOI};

void source_begin(j_decompress_ptr) {}
void source_end(j_decompress_ptr) {}

boolean source_fill(j_decompress_ptr info) {
  auto* source = reinterpret_cast<JpegSource*>(info->src);
  if (!source->recover || source->ended) ERREXIT(info, JERR_INPUT_EOF);
  source->ended = true;
  source->base.next_input_byte = kEndOfImage;
  source->base.bytes_in_buffer = 2;
  return TRUE;
}

void source_skip(j_decompress_ptr info, long count) {
  auto* source = reinterpret_cast<JpegSource*>(info->src);
  if (count <= 0) return;
  if (static_cast<std::size_t>(count) > source->base.bytes_in_buffer) {
    source->base.bytes_in_buffer = 0;
    source_fill(info);
    return;
  }
  source->base.next_input_byte += count;
  source->base.bytes_in_buffer -= static_cast<std::size_t>(count);
}

// A file of a few bytes per scan can have any number of scans, each of which goes over the whole image.
constexpr int kMaxScans = 500;

void check_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  std::snprintf(errors->text, sizeof errors->text, "it has more than %d scans", kMaxScans);
  std::longjmp(errors->back, 1);
}

// Owns the library's object.
class Decompressor {
 public:
  Decompressor(std::string_view bytes, bool recover) {
    info_.err = set_up(&errors_);
    source_ = {};
    source_.recover = recover;
    source_.base.init_source = source_begin;
    source_.base.fill_input_buffer = source_fill;
    source_.base.skip_input_data = source_skip;
    source_.base.resync_to_restart = jpeg_resync_to_restart;
    source_.base.term_source = source_end;
    source_.base.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
    source_.base.bytes_in_buffer = bytes.size();
    progress_.progress_monitor = check_scans;
  }
  ~Decompressor() { jpeg_destroy_decompress(&info_); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  const jpeg_decompress_struct& info() const { return info_; }

  bool read_header() {
    if (setjmp(errors_.back) != 0) return false;
    jpeg_create_decompress(&info_);
    info_.src = &source_.base;
    info_.progress = &progress_;
    // A progressive file may make the library hold all coefficients; files of its size are cut off long before.
    info_.mem->max_memory_to_use = 1L << 30;
    return jpeg_read_header(&info_, TRUE) == JPEG_HEADER_OK;
  }

  bool start(const JpegOptions& options, J_COLOR_SPACE space) {
    if (setjmp(errors_.back) != 0) return false;
    info_.out_color_space = space;
    info_.do_fancy_upsampling = options.fancy_upscaling ? TRUE : FALSE;
    info_.scale_num = 1;
    info_.scale_denom = static_cast<unsigned>(options.ratio);
    info_.dct_method = options.fast_dct ? JDCT_IFAST : JDCT_ISLOW;
    return jpeg_start_decompress(&info_) == TRUE;
  }

  // Only the columns [*x, *x + *width), rounded outwards to whole blocks.
  bool crop_columns(JDIMENSION* x, JDIMENSION* width) {
    if (setjmp(errors_.back) != 0) return false;
    jpeg_crop_scanline(&info_, x, width);
    return true;
  }
  bool skip_rows(JDIMENSION count) {
    if (count == 0) return true;
    if (setjmp(errors_.back) != 0) return false;
    return jpeg_skip_scanlines(&info_, count) == count;
  }
  bool read_row(JSAMPLE* row) {
    if (setjmp(errors_.back) != 0) return false;
    return jpeg_read_scanlines(&info_, &row, 1) == 1;
  }

  Status error() const {
    return invalid_argument("Invalid JPEG data or crop window: ",
                            errors_.text[0] != '\0' ? errors_.text : "it cannot be read");
  }

 private:
  jpeg_decompress_struct info_ = {};
  JpegErrors errors_ = {};
  JpegSource source_;
  jpeg_progress_mgr progress_ = {};
};

bool has_cmyk(const Decompressor& jpeg) {
  return jpeg.info().jpeg_color_space == JCS_CMYK || jpeg.info().jpeg_color_space == JCS_YCCK;
}

// Adobe writes its inks inverted.
void cmyk_to_rgb(const JSAMPLE* from, std::int64_t pixels, bool inverted, std::uint8_t* to) {
  for (std::int64_t i = 0; i < pixels; ++i, from += 4, to += 3) {
    const int k = inverted ? from[3] : 255 - from[3];
    for (int c = 0; c < 3; ++c) to[c] = static_cast<std::uint8_t>(k * (inverted ? from[c] : 255 - from[c]) / 255);
  }
}

Status check_crop(const CropWindow& crop, const jpeg_decompress_struct& info) {
  const bool inside = crop.y >= 0 && crop.x >= 0 && crop.height > 0 && crop.width > 0 &&
                      crop.y <= std::int64_t{info.output_height} - crop.height &&
                      crop.x <= std::int64_t{info.output_width} - crop.width;
  if (inside) return {};
  return invalid_argument("Invalid JPEG data or crop window: rows [", crop.y, ", ", crop.y, " + ", crop.height,
                          "), columns [", crop.x, ", ", crop.x, " + ", crop.width, ") of an image of ",
                          info.output_height, " by ", info.output_width);
}

// Where the pixels of an output row lie in a row that the library gives.
struct RowPart {
  JDIMENSION offset = 0;  // pixels to leave out in front
  JDIMENSION width = 0;   // of the library's row
};

Status read_rows(Decompressor& jpeg, const JpegOptions& options, const ImageSize& size, const RowPart& part,
                 std::uint8_t* to) {
  const auto components = static_cast<std::int64_t>(jpeg.info().output_components);
  const bool direct = part.offset == 0 && part.width == size.width && components == size.channels;
  std::vector<JSAMPLE> row(direct ? 0 : static_cast<std::size_t>(part.width * components));
  for (std::int64_t y = 0; y < size.height; ++y, to += size.row_bytes()) {
    if (!jpeg.read_row(direct ? to : row.data())) {
      const auto enough = static_cast<float>(size.height) * options.acceptable_fraction;
      if (!options.recover_truncated || static_cast<float>(y) < enough) return jpeg.error();
      std::memset(to, 0, static_cast<std::size_t>((size.height - y) * size.row_bytes()));
      return {};
    }
    if (direct) continue;
    const JSAMPLE* from = row.data() + part.offset * components;
    if (components == size.channels) {
      std::memcpy(to, from, static_cast<std::size_t>(size.row_bytes()));
    } else {
      cmyk_to_rgb(from, size.width, jpeg.info().saw_Adobe_marker == TRUE, to);
    }
  }
  return {};
}

}  // namespace

Status decode_jpeg(std::string_view bytes, const JpegOptions& options, const ImageLimits& limits,
                   const PixelRoom& room) {
  Decompressor jpeg(bytes, options.recover_truncated);
  if (!jpeg.read_header()) return jpeg.error();
  const jpeg_decompress_struct& info = jpeg.info();
  const int channels = options.channels != 0 ? options.channels : (info.num_components >= 3 ? 3 : info.num_components);
  if (channels != 1 && channels != 3) return invalid_argument("Invalid JPEG data: ", channels, " channels");
  ImageSize size{.height = info.image_height, .width = info.image_width, .channels = channels};
  TUTTI_RETURN_IF_ERROR(check_image_size(size, limits, "JPEG"));
  const J_COLOR_SPACE space = channels == 1 ? JCS_GRAYSCALE : (has_cmyk(jpeg) ? JCS_CMYK : JCS_RGB);
  if (!jpeg.start(options, space)) return jpeg.error();
  size.height = info.output_height;
  size.width = info.output_width;
  RowPart part{.offset = 0, .width = info.output_width};
  if (options.crop) {
    const CropWindow& crop = *options.crop;
    TUTTI_RETURN_IF_ERROR(check_crop(crop, info));
    auto x = static_cast<JDIMENSION>(crop.x);
    part.width = static_cast<JDIMENSION>(crop.width);
    if (!jpeg.crop_columns(&x, &part.width)) return jpeg.error();
    part.offset = static_cast<JDIMENSION>(crop.x) - x;
    size.height = crop.height;
    size.width = crop.width;
  }
  TUTTI_ASSIGN_OR_RETURN(void* to, room(size));
  if (options.crop && !jpeg.skip_rows(static_cast<JDIMENSION>(options.crop->y))) return jpeg.error();
  return read_rows(jpeg, options, size, part, static_cast<std::uint8_t*>(to));
}

Result<ImageSize> jpeg_size(std::string_view bytes) {
  Decompressor jpeg(bytes, /*recover=*/false);
  if (!jpeg.read_header()) return jpeg.error();
  const jpeg_decompress_struct& info = jpeg.info();
  return ImageSize{.height = info.image_height, .width = info.image_width, .channels = info.num_components};
}

// --- Writing. ---

namespace {

// --- A destination that grows. (The library's own may free what its user frees again, after an error.) ---

struct JpegDestination {
  jpeg_destination_mgr base;
  JOCTET buffer[16 << 10];
  std::string* bytes;
};

void destination_rewind(JpegDestination* destination) {
  destination->base.next_output_byte = destination->buffer;
  destination->base.free_in_buffer = sizeof destination->buffer;
}

void destination_take(j_compress_ptr info, std::size_t count) {
  auto* destination = reinterpret_cast<JpegDestination*>(info->dest);
  bool taken = true;
  try {
    destination->bytes->append(reinterpret_cast<const char*>(destination->buffer), count);
  } catch (const std::exception&) {
    taken = false;
  }
  if (!taken) ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);  // not from within the handler: it jumps
  destination_rewind(destination);
}

void destination_begin(j_compress_ptr info) { destination_rewind(reinterpret_cast<JpegDestination*>(info->dest)); }

// The library calls it when the buffer is full, whatever it says about the room that is left.
boolean destination_empty(j_compress_ptr info) {
  destination_take(info, sizeof JpegDestination::buffer);
  return TRUE;
}

void destination_end(j_compress_ptr info) {
  destination_take(info, sizeof JpegDestination::buffer - info->dest->free_in_buffer);
}

// Owns the library's object and what it writes.
class Compressor {
 public:
  Compressor() {
    info_.err = set_up(&errors_);
    destination_.base.init_destination = destination_begin;
    destination_.base.empty_output_buffer = destination_empty;
    destination_.base.term_destination = destination_end;
    destination_.bytes = &bytes_;
  }
  ~Compressor() { jpeg_destroy_compress(&info_); }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  bool write(const std::uint8_t* pixels, const ImageSize& size, const JpegWriteOptions& options, const char* marker,
             unsigned marker_bytes) {
    if (setjmp(errors_.back) != 0) return false;
    jpeg_create_compress(&info_);
    info_.dest = &destination_.base;
    info_.image_width = static_cast<JDIMENSION>(size.width);
    info_.image_height = static_cast<JDIMENSION>(size.height);
    info_.input_components = size.channels;
    info_.in_color_space = size.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info_);
    if (options.optimize_size) info_.optimize_coding = TRUE;
    info_.density_unit = static_cast<UINT8>(options.density_unit);
    info_.X_density = static_cast<UINT16>(options.x_density);
    info_.Y_density = static_cast<UINT16>(options.y_density);
    jpeg_set_quality(&info_, options.quality, TRUE);
    if (options.progressive) jpeg_simple_progression(&info_);
    if (!options.chroma_downsampling) {
      for (int i = 0; i < info_.num_components; ++i)
        info_.comp_info[i].h_samp_factor = info_.comp_info[i].v_samp_factor = 1;
    }
    jpeg_start_compress(&info_, TRUE);
    if (marker_bytes > 0) {
      jpeg_write_marker(&info_, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(marker), marker_bytes);
    }
    while (info_.next_scanline < info_.image_height) {
      auto* row = const_cast<JSAMPLE*>(pixels + static_cast<std::int64_t>(info_.next_scanline) * size.row_bytes());
      jpeg_write_scanlines(&info_, &row, 1);
    }
    jpeg_finish_compress(&info_);
    return true;
  }

  std::string take() { return std::move(bytes_); }
  Status error() const { return invalid_argument("JPEG encoding failed: ", errors_.text); }

 private:
  jpeg_compress_struct info_ = {};
  JpegErrors errors_ = {};
  JpegDestination destination_ = {};
  std::string bytes_;
};

}  // namespace

Result<std::string> encode_jpeg(const void* pixels, const ImageSize& size, const JpegWriteOptions& options) {
  if (size.height < 1 || size.width < 1 || size.height > JPEG_MAX_DIMENSION || size.width > JPEG_MAX_DIMENSION ||
      (size.channels != 1 && size.channels != 3) || size.channel_bytes != 1) {
    return invalid_argument("JPEG encoding failed: an image of ", size.height, " by ", size.width, " with ",
                            size.channels, " channels");
  }
  if (options.quality < 0 || options.quality > 100) {
    return invalid_argument("JPEG encoding failed: quality must be in [0,100], got ", options.quality);
  }
  std::string marker;
  if (!options.xmp_metadata.empty()) {
    marker = std::string("http://ns.adobe.com/xap/1.0/") + '\0' + options.xmp_metadata;
    if (marker.size() > 65533)
      return invalid_argument("JPEG encoding failed: XMP metadata of ", marker.size(), " bytes");
  }
  Compressor jpeg;
  if (!jpeg.write(static_cast<const std::uint8_t*>(pixels), size, options, marker.data(),
                  static_cast<unsigned>(marker.size()))) {
    return jpeg.error();
  }
  return jpeg.take();
}

}  // namespace tutti
