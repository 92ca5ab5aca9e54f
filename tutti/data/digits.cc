#include "tutti/data/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "tutti/data/idx.h"

namespace tutti {
namespace {

// How hard the set is. Larger spreads hurt a linear model first: it sees each pixel by itself.
constexpr float kRotation = 0.20f;     // radians, standard deviation
constexpr float kShear = 0.18f;        // standard deviation
constexpr float kScaleSpread = 0.10f;  // standard deviation of the logarithm, each axis by itself
constexpr float kShift = 1.2f;         // pixels, standard deviation
constexpr float kWobble = 0.030f;      // of the strokes' points, in units of the glyph's height
constexpr float kMinWidth = 0.7f;      // of a stroke, half of it, in pixels
constexpr float kMaxWidth = 1.7f;
constexpr float kMinInk = 0.65f;
constexpr float kNoise = 0.10f;  // of a pixel, standard deviation
constexpr int kMaxSpecks = 3;
constexpr float kGlyphHeight = 18.0f;  // pixels, before scaling
constexpr int kSpanPieces = 5;         // straight pieces between two points of a stroke

struct Point {
  float x = 0, y = 0;
};

// A smooth curve through its points; `closed` joins the last with the first, `sharp` keeps corners.
struct Stroke {
  std::vector<Point> points;
  bool closed = false;
  bool sharp = false;
};
using Glyph = std::vector<Stroke>;

// SplitMix64: small, seekable by its seed, good enough to draw with.
class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t stream) : state_(mix(seed) ^ mix(stream * 0x9E3779B97F4A7C15u + 1)) {}
  std::uint64_t bits() { return mix(state_ += 0x9E3779B97F4A7C15u); }
  float uniform() { return static_cast<float>(bits() >> 40) * 0x1p-24f; }
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  int below(int n) { return static_cast<int>((bits() >> 32) * static_cast<std::uint64_t>(n) >> 32); }
  // Near enough to normal: the sum of four 16-bit numbers, scaled to deviation 1. Tails end at 3.5.
  float normal() {
    const std::uint64_t b = bits();
    const int sum = static_cast<int>((b & 0xFFFF) + (b >> 16 & 0xFFFF) + (b >> 32 & 0xFFFF) + (b >> 48));
    return static_cast<float>(sum - 131070) * (1.7320508f / 65536.0f);
  }

 private:
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

// The ways people write each digit, in a box of width about 0.7 and height 1 around (0, 0); y points down.
std::array<std::vector<Glyph>, kDigitClasses> make_glyphs() {
  std::array<std::vector<Glyph>, kDigitClasses> g;
  g[0] = {
      {{.points = {{0, -.5f}, {-.3f, -.25f}, {-.32f, .2f}, {0, .5f}, {.32f, .2f}, {.3f, -.25f}}, .closed = true}},
      {{.points = {{.05f, -.5f}, {-.2f, -.3f}, {-.24f, .25f}, {0, .5f}, {.22f, .28f}, {.2f, -.3f}}, .closed = true}}};
  g[1] = {
      {{.points = {{0, -.5f}, {0, .5f}}}},
      {{.points = {{-.2f, -.28f}, {.04f, -.5f}, {.04f, .5f}}, .sharp = true}},
      {{.points = {{-.18f, -.3f}, {.02f, -.5f}, {.02f, .5f}}, .sharp = true}, {.points = {{-.22f, .5f}, {.26f, .5f}}}}};
  g[2] = {{{.points = {{-.3f, -.28f}, {-.12f, -.48f}, {.2f, -.44f}, {.28f, -.18f}, {.02f, .16f}, {-.32f, .5f}}},
           {.points = {{-.32f, .5f}, {.34f, .48f}}}},
          {{.points = {{-.3f, -.3f},
                       {0, -.5f},
                       {.28f, -.3f},
                       {.1f, .1f},
                       {-.25f, .44f},
                       {-.28f, .26f},
                       {-.05f, .34f},
                       {.34f, .46f}}}}};
  g[3] = {{{.points = {{-.28f, -.4f}, {.05f, -.5f}, {.27f, -.3f}, {.14f, -.06f}, {-.08f, -.02f}}},
           {.points = {{-.08f, -.02f}, {.2f, .04f}, {.3f, .26f}, {.08f, .49f}, {-.3f, .38f}}}},
          {{.points = {{-.28f, -.48f}, {.28f, -.48f}, {-.02f, -.08f}}, .sharp = true},
           {.points = {{-.02f, -.08f}, {.24f, .04f}, {.28f, .3f}, {.04f, .5f}, {-.28f, .4f}}}}};
  g[4] = {
      {{.points = {{.14f, -.5f}, {-.34f, .16f}, {.36f, .16f}}, .sharp = true}, {.points = {{.14f, -.5f}, {.14f, .5f}}}},
      {{.points = {{-.26f, -.48f}, {-.3f, .04f}, {.3f, .02f}}, .sharp = true},
       {.points = {{.24f, -.46f}, {.2f, .5f}}}}};
  g[5] = {{{.points = {{.3f, -.48f}, {-.22f, -.48f}, {-.26f, -.06f}}, .sharp = true},
           {.points = {{-.26f, -.06f}, {.06f, -.12f}, {.3f, .12f}, {.16f, .44f}, {-.3f, .42f}}}}};
  g[6] = {{{.points = {{.2f, -.5f},
                       {-.16f, -.22f},
                       {-.3f, .18f},
                       {-.08f, .48f},
                       {.24f, .36f},
                       {.22f, .06f},
                       {-.06f, .02f},
                       {-.27f, .22f}}}}};
  g[7] = {{{.points = {{-.32f, -.48f}, {.32f, -.48f}, {-.08f, .5f}}, .sharp = true}},
          {{.points = {{-.32f, -.46f}, {.32f, -.48f}, {-.04f, .5f}}, .sharp = true},
           {.points = {{-.2f, .02f}, {.26f, .0f}}}}};
  g[8] = {{{.points =
                {{0, -.5f}, {-.25f, -.3f}, {0, -.04f}, {.28f, .24f}, {0, .5f}, {-.28f, .24f}, {0, -.04f}, {.25f, -.3f}},
            .closed = true}}};
  g[9] = {
      {{.points = {{.26f, -.28f},
                   {.04f, -.49f},
                   {-.26f, -.3f},
                   {-.14f, -.02f},
                   {.16f, -.06f},
                   {.27f, -.3f},
                   {.24f, .1f},
                   {.1f, .5f}}}},
      {{.points = {{.24f, -.28f}, {0, -.5f}, {-.26f, -.26f}, {-.06f, .0f}, {.2f, -.1f}, {.25f, -.4f}, {.26f, .5f}}}}};
  return g;
}

struct Affine {
  float xx, xy, yx, yy, dx, dy;
  Point operator()(Point p) const { return {xx * p.x + xy * p.y + dx, yx * p.x + yy * p.y + dy}; }
};

// Shear, then scale, then rotation, then shift, from glyph units to pixels.
Affine random_affine(Dice& dice) {
  const float shear = kShear * dice.normal();
  const float sx = kGlyphHeight * std::exp(kScaleSpread * dice.normal());
  const float sy = kGlyphHeight * std::exp(kScaleSpread * dice.normal());
  const float angle = kRotation * dice.normal();
  const float c = std::cos(angle), s = std::sin(angle);
  const float middle = (kDigitSide - 1) * 0.5f;
  return {c * sx,
          c * sx * shear - s * sy,
          s * sx,
          s * sx * shear + c * sy,
          middle + kShift * dice.normal(),
          middle + kShift * dice.normal()};
}

// A point of the Catmull-Rom curve between b and c.
Point curve(Point a, Point b, Point c, Point d, float t) {
  const auto blend = [t](float a, float b, float c, float d) {
    return b + 0.5f * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
  };
  return {blend(a.x, b.x, c.x, d.x), blend(a.y, b.y, c.y, d.y)};
}

// The stroke as a chain of straight pieces, in pixels.
void flatten(const Stroke& stroke, std::span<const Point> points, std::vector<Point>& out) {
  const int n = static_cast<int>(points.size());
  const int spans = stroke.closed ? n : n - 1;
  const auto at = [&](int i) { return stroke.closed ? points[(i + n) % n] : points[std::clamp(i, 0, n - 1)]; };
  out.assign(1, at(0));
  for (int i = 0; i < spans; ++i) {
    if (stroke.sharp || n == 2) {
      out.push_back(at(i + 1));
      continue;
    }
    for (int k = 1; k <= kSpanPieces; ++k) {
      out.push_back(curve(at(i - 1), at(i), at(i + 1), at(i + 2), static_cast<float>(k) / kSpanPieces));
    }
  }
}

// Inks the pixels near the piece from a to b; the edge fades over one pixel.
void draw_piece(Point a, Point b, float half_width, float ink, float* image) {
  const float reach = half_width + 0.5f;
  const int x0 = std::max(0, static_cast<int>(std::ceil(std::min(a.x, b.x) - reach)));
  const int x1 = std::min(kDigitSide - 1, static_cast<int>(std::floor(std::max(a.x, b.x) + reach)));
  const int y0 = std::max(0, static_cast<int>(std::ceil(std::min(a.y, b.y) - reach)));
  const int y1 = std::min(kDigitSide - 1, static_cast<int>(std::floor(std::max(a.y, b.y) + reach)));
  const float ux = b.x - a.x, uy = b.y - a.y;
  const float inverse = 1.0f / std::max(ux * ux + uy * uy, 1e-6f);
  for (int y = y0; y <= y1; ++y) {
    for (int x = x0; x <= x1; ++x) {
      const float px = static_cast<float>(x) - a.x, py = static_cast<float>(y) - a.y;
      const float t = std::clamp((px * ux + py * uy) * inverse, 0.0f, 1.0f);
      const float ex = px - t * ux, ey = py - t * uy;
      const float cover = std::clamp(reach - std::sqrt(ex * ex + ey * ey), 0.0f, 1.0f);
      float& pixel = image[y * kDigitSide + x];
      pixel = std::max(pixel, ink * cover);
    }
  }
}

void draw_glyph(const Glyph& glyph, Dice& dice, float* image) {
  const Affine map = random_affine(dice);
  const float half_width = dice.uniform(kMinWidth, kMaxWidth);
  const float ink = dice.uniform(kMinInk, 1.0f);
  std::vector<Point> points, chain;
  for (const Stroke& stroke : glyph) {
    points.clear();
    for (Point p : stroke.points) {
      p.x += kWobble * dice.normal();
      p.y += kWobble * dice.normal();
      points.push_back(map(p));
    }
    flatten(stroke, points, chain);
    for (std::size_t i = 1; i < chain.size(); ++i) draw_piece(chain[i - 1], chain[i], half_width, ink, image);
  }
}

void draw_specks(Dice& dice, float* image) {
  for (int i = dice.below(kMaxSpecks + 1); i > 0; --i) {
    const Point a{dice.uniform(0, kDigitSide - 1), dice.uniform(0, kDigitSide - 1)};
    const Point b{a.x + 1.5f * dice.normal(), a.y + 1.5f * dice.normal()};
    draw_piece(a, b, dice.uniform(0.2f, 0.8f), dice.uniform(0.3f, 0.9f), image);
  }
}

void add_noise(Dice& dice, float* image) {
  for (int i = 0; i < kDigitPixels; ++i) image[i] = std::clamp(image[i] + kNoise * dice.normal(), 0.0f, 1.0f);
}

// --- MNIST's files ---

Result<Tensor> read_either(FileSystem& fs, const std::string& path) {
  return read_idx(fs, !fs.exists(path) && fs.exists(path + ".gz") ? path + ".gz" : path);
}

Result<DigitSet> load_part(FileSystem& fs, const std::string& directory, const std::string& part) {
  const std::string image_path = str_cat(directory, "/", part, "-images-idx3-ubyte");
  const std::string label_path = str_cat(directory, "/", part, "-labels-idx1-ubyte");
  TUTTI_ASSIGN_OR_RETURN(const Tensor pixels, read_either(fs, image_path));
  TUTTI_ASSIGN_OR_RETURN(const Tensor classes, read_either(fs, label_path));
  if (pixels.dtype() != DType::kUint8 || pixels.rank() != 3 || pixels.dim(1) != kDigitSide ||
      pixels.dim(2) != kDigitSide) {
    return invalid_argument(image_path, ": ", dtype_name(pixels.dtype()), " ", pixels.shape(),
                            " where uint8 [n,28,28] is wanted");
  }
  if (classes.dtype() != DType::kUint8 || classes.rank() != 1 || classes.dim(0) != pixels.dim(0)) {
    return invalid_argument(label_path, ": ", dtype_name(classes.dtype()), " ", classes.shape(), " for ", pixels.dim(0),
                            " images");
  }
  const std::int64_t n = pixels.dim(0);
  DigitSet set;
  TUTTI_ASSIGN_OR_RETURN(set.images, Tensor::create(DType::kFloat, Shape{n, kDigitPixels}, heap_allocator()));
  TUTTI_ASSIGN_OR_RETURN(set.labels, Tensor::create(DType::kInt64, Shape{n}, heap_allocator()));
  std::transform(pixels.flat<std::uint8_t>().begin(), pixels.flat<std::uint8_t>().end(), set.images.data<float>(),
                 [](std::uint8_t grey) { return static_cast<float>(grey) / 255.0f; });
  for (std::int64_t i = 0; i < n; ++i) {
    const int label = classes.data<std::uint8_t>()[i];
    if (label >= kDigitClasses) return invalid_argument(label_path, ": label ", label, " of image ", i, " is over 9");
    set.labels.data<std::int64_t>()[i] = label;
  }
  return set;
}

}  // namespace

DigitSet draw_digits(std::int64_t count, std::uint64_t seed) {
  const auto glyphs = make_glyphs();
  DigitSet set{Tensor(DType::kFloat, Shape{count, kDigitPixels}), Tensor(DType::kInt64, Shape{count})};
  for (std::int64_t i = 0; i < count; ++i) {
    Dice dice(seed, static_cast<std::uint64_t>(i));
    const int digit = dice.below(kDigitClasses);
    const std::vector<Glyph>& forms = glyphs[static_cast<std::size_t>(digit)];
    float* image = set.images.data<float>() + i * kDigitPixels;
    draw_glyph(forms[static_cast<std::size_t>(dice.below(static_cast<int>(forms.size())))], dice, image);
    draw_specks(dice, image);
    add_noise(dice, image);
    set.labels.data<std::int64_t>()[i] = digit;
  }
  return set;
}

Result<DigitSplit> load_mnist(FileSystem& fs, const std::string& directory) {
  DigitSplit split;
  TUTTI_ASSIGN_OR_RETURN(split.train, load_part(fs, directory, "train"));
  TUTTI_ASSIGN_OR_RETURN(split.test, load_part(fs, directory, "t10k"));
  return split;
}

}  // namespace tutti
