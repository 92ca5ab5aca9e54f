#include "tutti/io/wav_reader.h"

namespace tutti {
namespace {

// Takes from the front; fails once it has run out.
class WavCursor {
 public:
  explicit WavCursor(std::string_view bytes) : rest_(bytes) {}

  bool take(std::size_t count, std::string_view* part) {
    if (count > rest_.size()) return false;
    *part = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return true;
  }
  // A number of `count` bytes, low byte first.
  bool number(std::size_t count, std::int64_t* value) {
    std::string_view part;
    if (!take(count, &part)) return false;
    *value = 0;
    for (std::size_t i = count; i-- > 0;) *value = *value << 8 | static_cast<unsigned char>(part[i]);
    return true;
  }
  bool word(std::string_view expected) {
    std::string_view part;
    return take(expected.size(), &part) && part == expected;
  }
  bool done() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

Status read_format(WavCursor& in, WavFile* file) {
  std::int64_t size = 0, format = 0, per_second = 0, per_frame = 0, bits = 0;
  if (!in.number(4, &size) || (size != 16 && size != 18)) {
    return invalid_argument("Bad format chunk size for WAV: Expected 16 or 18, but got ", size);
  }
  if (!in.number(2, &format) || !in.number(2, &file->channels) || !in.number(4, &file->sample_rate) ||
      !in.number(4, &per_second) || !in.number(2, &per_frame) || !in.number(2, &bits)) {
    return invalid_argument("Data too short: the format chunk of a WAV file");
  }
  if (format != 1) return invalid_argument("Bad audio format for WAV: Expected 1 (PCM), but got ", format);
  if (bits != 16) return invalid_argument("Can only read 16-bit WAV files, but received ", bits);
  if (file->channels < 1 || per_frame != 2 * file->channels) {
    return invalid_argument("Bad bytes per sample in WAV header: Expected ", 2 * file->channels, " but got ",
                            per_frame);
  }
  if (per_second != per_frame * file->sample_rate) {
    return invalid_argument("Bad bytes per second in WAV header: Expected ", per_frame * file->sample_rate, " but got ",
                            per_second);
  }
  std::string_view extra;
  if (size == 18 && !in.take(2, &extra)) return invalid_argument("Data too short: the format chunk of a WAV file");
  return {};
}

}  // namespace

float WavFile::sample(std::int64_t frame, std::int64_t channel) const {
  const auto at = static_cast<std::size_t>(2 * (frame * channels + channel));
  const auto low = static_cast<unsigned char>(samples[at]), high = static_cast<unsigned char>(samples[at + 1]);
  return static_cast<float>(static_cast<std::int16_t>(low | high << 8)) / 32768.0f;
}

Result<WavFile> read_wav(std::string_view bytes) {
  WavCursor in(bytes);
  std::int64_t size = 0;
  if (!in.word("RIFF") || !in.number(4, &size) || !in.word("WAVE") || !in.word("fmt ")) {
    return invalid_argument("Header mismatch: no WAV file, ", bytes.size(), " bytes");
  }
  WavFile file;
  TUTTI_RETURN_IF_ERROR(read_format(in, &file));
  while (!in.done()) {
    std::string_view kind, body;
    if (!in.take(4, &kind) || !in.number(4, &size)) return invalid_argument("Data too short: a chunk of a WAV file");
    if (kind == "data") {
      file.frames = size / (2 * file.channels);
      if (!in.take(static_cast<std::size_t>(2 * file.channels * file.frames), &file.samples)) {
        return invalid_argument("Data too short when trying to read ", file.frames, " samples of a WAV file");
      }
      return file;
    }
    if (!in.take(static_cast<std::size_t>(size), &body)) {
      return invalid_argument("Data too short: a chunk of ", size, " bytes of a WAV file");
    }
  }
  return invalid_argument("No data found in WAV");
}

}  // namespace tutti
