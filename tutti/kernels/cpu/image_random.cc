#include "tutti/kernels/cpu/image_random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/philox.h"
#include "tutti/kernels/cpu/random_fill.h"

namespace tutti::cpu {
namespace {

// As many words of the kernel's sequence, for one run.
PhiloxWords reserve_words(SharedPhilox& generator, std::uint64_t words) {
  return PhiloxWords(generator.reserve((words + 3) / 4));
}

std::int64_t below(PhiloxWords& words, std::int64_t limit) {
  return limit > 0 ? static_cast<std::int64_t>(words.next() % static_cast<std::uint64_t>(limit)) : 0;
}

float unit(PhiloxWords& words) {
  const std::uint32_t pattern = (std::uint32_t{127} << 23) | (words.next() & 0x7fffffu);
  float value;
  std::memcpy(&value, &pattern, sizeof value);
  return value - 1.0f;
}

class RandomCrop : public Kernel {
 public:
  explicit RandomCrop(const KernelInit& init) : generator_(init) {}

  Status compute(KernelContext& ctx) override {
    const Tensor& image = ctx.input(0);
    const Tensor& size = ctx.input(1);
    if (image.rank() != 3) return invalid_argument("input must be 3-dimensional, got ", image.shape());
    if (size.rank() != 1) return invalid_argument("shape_t must be 1-dimensional, got ", size.shape());
    if (size.num_elements() != 2) return invalid_argument("shape_t must have two elements, got ", size.shape());
    const std::int64_t height = size.data<std::int64_t>()[0], width = size.data<std::int64_t>()[1];
    if (height == image.dim(0) && width == image.dim(1)) {
      ctx.set_output(0, image);
      return {};
    }
    TUTTI_RETURN_IF_ERROR(check_side("width", image.dim(1), width));
    TUTTI_RETURN_IF_ERROR(check_side("height", image.dim(0), height));
    PhiloxWords words = reserve_words(generator_, 2);
    const std::int64_t left = image.dim(1) > width ? below(words, image.dim(1) - width + 1) : 0;
    const std::int64_t top = image.dim(0) > height ? below(words, image.dim(0) - height + 1) : 0;
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{height, width, image.dim(2)}));
    const std::int64_t channels = image.dim(2);
    for (std::int64_t y = 0; y < height && out->num_elements() > 0; ++y) {
      copy_elements(image.dtype(), at_element(image.dtype(), out->raw(), y * width * channels),
                    at_element(image.dtype(), image.raw(), ((top + y) * image.dim(1) + left) * channels),
                    width * channels);
    }
    return {};
  }

 private:
  static Status check_side(std::string_view name, std::int64_t side, std::int64_t target) {
    if (target < 0) return invalid_argument("target_", name, " must not be negative, got ", target);
    if (side >= target) return {};
    return failed_precondition(name, " must be >= target_", name, ": ", name, " = ", side, ", target_", name, " = ",
                               target);
  }

  SharedPhilox generator_;
};

struct Rectangle {
  std::int64_t left = 0, top = 0, right = 0, bottom = 0;

  float area() const { return std::abs(static_cast<float>((right - left) * (bottom - top))); }
  // By which share this rectangle is covered by the other.
  float covered_by(const Rectangle& other) const {
    const std::int64_t width = std::min(right, other.right) - std::max(left, other.left);
    const std::int64_t height = std::min(bottom, other.bottom) - std::max(top, other.top);
    if (width <= 0 || height <= 0) return 0;
    return static_cast<float>(width * height) / area();
  }
};

struct CropRules {
  float min_aspect = 0, max_aspect = 0, min_area = 0, max_area = 0;
  std::int64_t attempts = 0;
};

Result<CropRules> read_rules(const KernelInit& init) {
  CropRules rules;
  const auto& aspects = init.attr<std::vector<float>>("aspect_ratio_range");
  const auto& areas = init.attr<std::vector<float>>("area_range");
  if (aspects.size() != 2 || !(aspects[0] > 0 && aspects[1] > 0)) {
    return invalid_argument(init.op, ": aspect_ratio_range must be two positive numbers, got [",
                            str_join(aspects, ", "), "]");
  }
  if (areas.size() != 2 || !(areas[0] > 0 && areas[1] > 0 && areas[0] <= 1 && areas[1] <= 1)) {
    return invalid_argument(init.op, ": area_range must be two numbers in (0, 1], got [", str_join(areas, ", "), "]");
  }
  rules = {aspects[0], aspects[1], areas[0], areas[1], init.attr<std::int64_t>("max_attempts")};
  if (rules.attempts <= 0 || rules.attempts > std::numeric_limits<std::int32_t>::max()) {
    return invalid_argument(init.op, ": Max attempts must be greater than zero, got ", rules.attempts);
  }
  return rules;
}

// A rectangle of an aspect ratio (width over height), of an area within bounds, somewhere in the image.
class CropSearch {
 public:
  CropSearch(const CropRules& rules, std::int64_t width, std::int64_t height)
      : rules_(rules), width_(width), height_(height) {}

  bool try_one(PhiloxWords& words, Rectangle* found) const {
    const float aspect = unit(words) * (rules_.max_aspect - rules_.min_aspect) + rules_.min_aspect;
    if (rules_.min_area > rules_.max_area || aspect <= 0) return false;
    const float min_area = rules_.min_area * static_cast<float>(width_) * static_cast<float>(height_);
    const float max_area = rules_.max_area * static_cast<float>(width_) * static_cast<float>(height_);
    const auto width_at = [aspect](std::int64_t h) -> std::int64_t {
      return std::lrintf(static_cast<float>(h) * aspect);
    };
    std::int64_t h = std::lrintf(std::sqrt(min_area / aspect));
    const std::int64_t largest = max_height(aspect, std::lrintf(std::sqrt(max_area / aspect)));
    h = std::min(h, largest);
    if (h < largest) h += below(words, largest - h + 1);
    const auto area_at = [&](std::int64_t side) { return static_cast<float>(width_at(side) * side); };
    if (area_at(h) < min_area) h += 1;  // what rounding took away
    if (area_at(h) > max_area) h -= 1;
    const std::int64_t w = width_at(h);
    if (area_at(h) < min_area || area_at(h) > max_area || w > width_ || h > height_ || w <= 0 || h <= 0) return false;
    const std::int64_t y = h < height_ ? below(words, height_ - h) : 0;
    const std::int64_t x = w < width_ ? below(words, width_ - w) : 0;
    *found = {x, y, x + w, y + h};
    return true;
  }

 private:
  std::int64_t max_height(float aspect, std::int64_t wanted) const {
    if (std::lrintf(static_cast<float>(wanted) * aspect) > width_) {
      wanted = static_cast<std::int64_t>((static_cast<float>(width_) + 0.5f - 1e-7f) / aspect);
      if (std::lrintf(static_cast<float>(wanted) * aspect) > width_) wanted -= 1;
    }
    return std::min(wanted, height_);
  }

  const CropRules rules_;
  const std::int64_t width_, height_;
};

class SampleDistortedBox : public Kernel {
 public:
  SampleDistortedBox(const KernelInit& init, const CropRules& rules)
      : generator_(init), rules_(rules), use_image_(init.attr<bool>("use_image_if_no_bounding_boxes")) {
    if (const auto it = init.attrs.find("min_object_covered"); it != init.attrs.end())
      covered_ = *it->second.get<float>();
  }
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(const CropRules rules, read_rules(init));
    return std::unique_ptr<Kernel>(std::make_unique<SampleDistortedBox>(init, rules));
  }

  Status compute(KernelContext& ctx) override {
    DimList size;
    if (ctx.input(0).rank() != 1 || ctx.input(0).dim(0) != 3) {
      return invalid_argument("image_size must be a vector of height, width and channels, got shape ",
                              ctx.input(0).shape());
    }
    TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(0), "image_size", &size));
    const std::int64_t height = size[0], width = size[1];
    constexpr std::int64_t kMaxSide = 1 << 24;  // beyond it a float does not tell pixels apart
    if (height <= 0 || width <= 0 || height > kMaxSide || width > kMaxSide) {
      return invalid_argument("image height and width must be positive and under 2^24, got ", height, " and ", width);
    }
    TUTTI_ASSIGN_OR_RETURN(const std::vector<Rectangle> objects, read_objects(ctx.input(1), height, width));
    float covered = covered_;
    if (ctx.num_inputs() > 2) {
      if (ctx.input(2).rank() != 0)
        return invalid_argument("min_object_covered must be 0-D, got ", ctx.input(2).shape());
      covered = ctx.input(2).scalar<float>();
    }
    if (!(covered >= 0)) return invalid_argument("Min object covered must be non-negative: ", covered);
    return give(ctx, sample(ctx, objects, covered, height, width), height, width);
  }

 private:
  Result<std::vector<Rectangle>> read_objects(const Tensor& boxes, std::int64_t height, std::int64_t width) const {
    std::vector<Rectangle> objects;
    if (boxes.rank() != 3) {
      return invalid_argument("input boxes must be 3-dimensional [batch, num_boxes, coords]: ", boxes.shape());
    }
    if (boxes.dim(2) != 4) {
      return invalid_argument("bounding boxes must have shape [batch, N, 4], got ", boxes.shape());
    }
    if (boxes.num_elements() > 0) {
      const auto h = static_cast<float>(height), w = static_cast<float>(width);
      for (std::int64_t i = 0; i < boxes.num_elements(); i += 4) {
        const float* box = boxes.data<float>() + i;
        for (int k = 0; k < 4; ++k) {
          if (!(box[k] >= 0 && box[k] <= 1)) {
            return invalid_argument("All bounding box coordinates must be in [0.0, 1.0]: ", box[k]);
          }
        }
        objects.push_back({static_cast<std::int64_t>(box[1] * w), static_cast<std::int64_t>(box[0] * h),
                           static_cast<std::int64_t>(box[3] * w), static_cast<std::int64_t>(box[2] * h)});
      }
    }
    if (!objects.empty()) return objects;
    if (use_image_) return std::vector<Rectangle>{{0, 0, width, height}};
    return invalid_argument(
        "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you wish to not "
        "provide "
        "any bounding boxes.");
  }

  Rectangle sample(KernelContext& ctx, const std::vector<Rectangle>& objects, float covered, std::int64_t height,
                   std::int64_t width) {
    PhiloxWords words = reserve_words(generator_, 4 * static_cast<std::uint64_t>(rules_.attempts));
    const CropSearch search(rules_, width, height);
    Rectangle found;
    for (std::int64_t i = 0; i < rules_.attempts && !ctx.cancellation().cancelled(); ++i) {
      if (!search.try_one(words, &found) || found.area() < 1) continue;
      const bool enough = std::any_of(objects.begin(), objects.end(), [&](const Rectangle& object) {
        return object.area() >= 1 && object.covered_by(found) >= covered;
      });
      if (enough) return found;
    }
    return {0, 0, width, height};
  }

  static Status give(KernelContext& ctx, const Rectangle& crop, std::int64_t height, std::int64_t width) {
    const std::vector<std::int64_t> begin{crop.top, crop.left, 0};
    const std::vector<std::int64_t> size{crop.bottom - crop.top, crop.right - crop.left, -1};
    TUTTI_RETURN_IF_ERROR(give_integers(ctx, 0, begin));
    TUTTI_RETURN_IF_ERROR(give_integers(ctx, 1, size));
    TUTTI_ASSIGN_OR_RETURN(Tensor * box, ctx.allocate_output(2, Shape{1, 1, 4}));
    float* to = box->data<float>();
    to[0] = static_cast<float>(crop.top) / static_cast<float>(height);
    to[1] = static_cast<float>(crop.left) / static_cast<float>(width);
    to[2] = static_cast<float>(crop.bottom) / static_cast<float>(height);
    to[3] = static_cast<float>(crop.right) / static_cast<float>(width);
    return {};
  }

  static Status give_integers(KernelContext& ctx, int i, const std::vector<std::int64_t>& values) {
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(i, Shape{std::ssize(values)}));
    for (std::size_t k = 0; k < values.size(); ++k) {
      switch (out->dtype()) {
        case DType::kInt64:
          out->data<std::int64_t>()[k] = values[k];
          break;
        case DType::kInt32:
          out->data<std::int32_t>()[k] = static_cast<std::int32_t>(values[k]);
          break;
        case DType::kInt16:
          out->data<std::int16_t>()[k] = static_cast<std::int16_t>(values[k]);
          break;
        case DType::kInt8:
          out->data<std::int8_t>()[k] = static_cast<std::int8_t>(values[k]);
          break;
        default:
          out->data<std::uint8_t>()[k] = static_cast<std::uint8_t>(values[k]);
      }
    }
    return {};
  }

  SharedPhilox generator_;
  const CropRules rules_;
  const bool use_image_;
  float covered_ = 0;
};

}  // namespace

KernelFactory random_crop_kernel() { return kernel_of<RandomCrop>(); }
KernelFactory sample_distorted_bounding_box_kernel() { return kernel_of<SampleDistortedBox>(); }

}  // namespace tutti::cpu
