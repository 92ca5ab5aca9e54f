#include "tutti/kernels/cpu/convolution.h"

#include "tutti/core/tensor.h"
#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/element.h"

namespace tutti::cpu {

struct Convolution::FloatCache {
  FloatCache(ConvResult result, bool biased) : convolutions(result, biased) {}
  internal::OneDnnConvolutions convolutions;
};

namespace {

struct Sizes {
  explicit Sizes(const ConvShape& s)
      : input(s.input_elements()), filter(s.filter_elements()), output(s.output_elements()) {}
  std::int64_t input, filter, output;
};

void* result_of(ConvResult result, const ConvArrays& a) {
  return result == ConvResult::kOutput ? a.output : result == ConvResult::kInput ? a.input : a.filter;
}

template <typename T>
Status run_unfolded(ConvResult result, const ConvShape& shape, const ConvArrays& a, Team& team, Allocator& allocator) {
  return internal::unfolded_convolution<T>(result, shape, static_cast<const T*>(a.input),
                                           static_cast<const T*>(a.filter), static_cast<const T*>(a.output),
                                           static_cast<T*>(result_of(result, a)), team, allocator);
}

// Where oneDNN does not.
void add_bias(const ConvShape& s, const ConvArrays& a) {
  const std::int64_t elements = s.output_elements();
  const float* bias = static_cast<const float*>(a.bias);
  for (float* pixel = static_cast<float*>(a.output); pixel != static_cast<float*>(a.output) + elements;
       pixel += s.out_channels) {
    for (std::int64_t c = 0; c < s.out_channels; ++c) pixel[c] += bias[c];
  }
}

}  // namespace

std::string ConvShape::to_string() const {
  const auto planes_of = [&](std::int64_t size) { return volumes ? str_cat(size, "x") : std::string(); };
  return str_cat("of ", batch, volumes ? " volumes " : " images ", planes_of(planes.in), rows.in, "x", columns.in, "x",
                 in_channels, " with a filter ", planes_of(planes.kernel), rows.kernel, "x", columns.kernel, "x",
                 group_inputs(), "x", out_channels, " in ", groups, " groups, giving ", planes_of(planes.out), rows.out,
                 "x", columns.out);
}

Convolution::Convolution(DType dtype, ConvResult result, bool biased)
    : dtype_(dtype), result_(result), biased_(biased) {
  if (compute_dtype(dtype) == DType::kFloat) cache_ = std::make_unique<FloatCache>(result, biased);
}
Convolution::~Convolution() = default;

Status Convolution::run(const ConvShape& shape, const ConvArrays& arrays, Team& team, Allocator& allocator) const {
  const Sizes sizes(shape);
  if (sizes.input == 0 || sizes.filter == 0 || sizes.output == 0) {
    const std::int64_t count = result_ == ConvResult::kOutput  ? sizes.output
                               : result_ == ConvResult::kInput ? sizes.input
                                                               : sizes.filter;
    zero_elements(dtype_, result_of(result_, arrays), count);
    if (biased_) add_bias(shape, arrays);
    return {};
  }
  switch (dtype_) {
    case DType::kFloat:
      if (internal::has_few_places(shape)) {
        TUTTI_RETURN_IF_ERROR(internal::few_places_convolution(result_, shape, arrays, team, allocator));
        if (biased_) add_bias(shape, arrays);
        return {};
      }
      return cache_->convolutions.run(shape, arrays, team, allocator);
    case DType::kDouble:
      return run_unfolded<double>(result_, shape, arrays, team, allocator);
    case DType::kInt32:
      return run_unfolded<std::int32_t>(result_, shape, arrays, team, allocator);
    default:
      return run_widened(shape, arrays, team, allocator);
  }
}

Status Convolution::run_widened(const ConvShape& shape, const ConvArrays& arrays, Team& team,
                                Allocator& allocator) const {
  const ConvertFn widen = find_convert(dtype_, DType::kFloat);
  const ConvertFn narrow = find_convert(DType::kFloat, dtype_);
  const Sizes sizes(shape);
  const auto wide = [&](const void* from, std::int64_t count, bool is_result) -> Result<Tensor> {
    TUTTI_ASSIGN_OR_RETURN(Tensor to, Tensor::create(DType::kFloat, Shape{count}, allocator));
    if (!is_result) widen(from, to.raw(), count);
    return to;
  };
  TUTTI_ASSIGN_OR_RETURN(Tensor input, wide(arrays.input, sizes.input, result_ == ConvResult::kInput));
  TUTTI_ASSIGN_OR_RETURN(Tensor filter, wide(arrays.filter, sizes.filter, result_ == ConvResult::kFilter));
  TUTTI_ASSIGN_OR_RETURN(Tensor output, wide(arrays.output, sizes.output, result_ == ConvResult::kOutput));
  const ConvArrays floats{input.raw(), filter.raw(), output.raw()};
  TUTTI_RETURN_IF_ERROR(cache_->convolutions.run(shape, floats, team, allocator));
  const Tensor& result = result_ == ConvResult::kOutput ? output : result_ == ConvResult::kInput ? input : filter;
  narrow(result.raw(), result_of(result_, arrays), result.num_elements());
  return {};
}

}  // namespace tutti::cpu
