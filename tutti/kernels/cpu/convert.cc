#include "tutti/kernels/cpu/convert.h"

#include <complex>
#include <limits>
#include <type_traits>

#include "tutti/core/with_dtype.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

template <typename T>
inline constexpr bool kIsSmallFloat = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>;
template <typename T>
struct IsComplex : std::false_type {};
template <typename T>
struct IsComplex<std::complex<T>> : std::true_type {};

// To int32 or int64 without undefined behaviour; written so that the common case is one instruction and a compare.
template <typename Int, typename From>
inline Int truncate(From value) {
  constexpr From kLimit = -static_cast<From>(std::numeric_limits<Int>::min());
  return value >= -kLimit && value < kLimit ? static_cast<Int>(value) : std::numeric_limits<Int>::min();
}

inline std::uint64_t truncate_unsigned(double value) {
  constexpr double kHalf = 9223372036854775808.0;
  if (value >= kHalf && value < 2 * kHalf) return static_cast<std::uint64_t>(value - kHalf) + (std::uint64_t{1} << 63);
  return static_cast<std::uint64_t>(truncate<std::int64_t>(value));
}

template <typename To, typename From>
inline To convert_one(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (kIsSmallFloat<From>) {
    return convert_one<To>(static_cast<float>(value));
  } else if constexpr (IsComplex<From>::value && IsComplex<To>::value) {
    using Part = typename To::value_type;
    return To(static_cast<Part>(value.real()), static_cast<Part>(value.imag()));
  } else if constexpr (IsComplex<From>::value) {
    return convert_one<To>(value.real());
  } else if constexpr (IsComplex<To>::value) {
    return To(convert_one<typename To::value_type>(value));
  } else if constexpr (kIsSmallFloat<To>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, std::uint64_t>) {
    return truncate_unsigned(value);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr bool kFitsInt32 = sizeof(To) < sizeof(std::int32_t) || std::is_same_v<To, std::int32_t>;
    return static_cast<To>(truncate<std::conditional_t<kFitsInt32, std::int32_t, std::int64_t>>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <typename From, typename To>
void convert_loop(const void* from, void* to, std::int64_t n) {
  const From* in = static_cast<const From*>(from);
  To* out = static_cast<To*>(to);
  for (std::int64_t i = 0; i < n; ++i) out[i] = convert_one<To>(in[i]);
}

class CastKernel : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    const DType from = init.input_types[0].dtype;
    const DType to = init.output_types[0].dtype;
    ConvertFn convert = find_convert(from, to);
    if (convert == nullptr && from != to) {
      return unimplemented("Cast ", dtype_name(from), " to ", dtype_name(to), " is not supported");
    }
    return std::unique_ptr<Kernel>(new CastKernel(from == to ? nullptr : convert));
  }

  Status compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (convert_ == nullptr) {
      context.set_output(0, in);
      return {};
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, in.shape()));
    const char* from = static_cast<const char*>(in.raw());
    char* to = static_cast<char*>(out->raw());
    const std::int64_t in_size = static_cast<std::int64_t>(dtype_size(in.dtype()));
    const std::int64_t out_size = static_cast<std::int64_t>(dtype_size(out->dtype()));
    parallel_for(context.team(), in.num_elements(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      convert_(from + begin * in_size, to + begin * out_size, end - begin);
    });
    return {};
  }

 private:
  explicit CastKernel(ConvertFn convert) : convert_(convert) {}
  const ConvertFn convert_;  // null: the types are the same
};

}  // namespace

ConvertFn find_convert(DType from, DType to) {
  const auto none = []() -> ConvertFn { return nullptr; };
  const auto convert_from = [&](auto in) {
    return with_plain(
        to, [](auto out) -> ConvertFn { return &convert_loop<decltype(in), decltype(out)>; }, none);
  };
  return with_plain(from, convert_from, none);
}

DType compute_dtype(DType dtype) {
  switch (dtype) {
    case DType::kHalf:
    case DType::kBfloat16:
      return DType::kFloat;
    case DType::kInt8:
    case DType::kInt16:
    case DType::kUint8:
    case DType::kUint16:
      return DType::kInt32;
    case DType::kUint32:
      return DType::kInt64;
    case DType::kComplex64:
      return DType::kComplex128;
    default:
      return dtype;
  }
}

Result<Tensor> widened(KernelContext& context, const Tensor& in, DType wide) {
  if (in.dtype() == wide) return in;
  TUTTI_ASSIGN_OR_RETURN(Tensor result, context.allocate_temp(wide, in.shape()));
  find_convert(in.dtype(), wide)(in.raw(), result.raw(), in.num_elements());
  return result;
}

Result<Tensor> wide_output(KernelContext& context, const Tensor& out, DType wide) {
  if (out.dtype() == wide) return out;
  return context.allocate_temp(wide, out.shape());
}

void narrow_into(const Tensor& wide, Tensor& out) {
  if (wide.dtype() != out.dtype()) find_convert(wide.dtype(), out.dtype())(wide.raw(), out.raw(), out.num_elements());
}

KernelFactory cast_kernel() { return kernel_of<CastKernel>(); }

}  // namespace tutti::cpu
