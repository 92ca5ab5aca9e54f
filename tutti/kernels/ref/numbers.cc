#include "tutti/kernels/ref/numbers.h"

#include <type_traits>

#include "tutti/core/with_dtype.h"

namespace tutti::ref {
namespace {

template <typename Fn>
void with_element(DType dtype, Fn fn) {
  with_plain(dtype, fn, [dtype] { TUTTI_CHECK(false, "no reference for ", dtype_name(dtype)); });
}

template <typename T>
inline constexpr bool kIsComplex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
template <typename T>
inline constexpr bool kIsSmallFloat = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>;

template <typename W, typename T>
W widen(T value) {
  if constexpr (kIsSmallFloat<T>) {
    return widen<W>(static_cast<float>(value));
  } else if constexpr (kIsComplex<T>) {
    if constexpr (kIsComplex<W>)
      return W(value.real(), value.imag());
    else
      return static_cast<W>(value.real());
  } else {
    return static_cast<W>(value);
  }
}

template <typename T, typename W>
T narrow(W value) {
  if constexpr (kIsComplex<T>) {
    if constexpr (kIsComplex<W>) {
      using Part = typename T::value_type;
      return T(static_cast<Part>(value.real()), static_cast<Part>(value.imag()));
    } else {
      return T(static_cast<typename T::value_type>(value));
    }
  } else if constexpr (kIsComplex<W>) {
    return narrow<T>(value.real());
  } else if constexpr (kIsSmallFloat<T>) {
    return T(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else if constexpr (std::is_integral_v<T> && std::is_same_v<W, double>) {
    return static_cast<T>(static_cast<Integer>(value));
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace

template <typename W>
std::vector<W> load(const Tensor& tensor) {
  std::vector<W> values;
  with_element(tensor.dtype(), [&](auto plain) {
    for (auto value : tensor.flat<decltype(plain)>()) values.push_back(widen<W>(value));
  });
  return values;
}

template <typename W>
Tensor store(DType dtype, const Shape& shape, const std::vector<W>& values) {
  Tensor tensor(dtype, shape);
  with_element(dtype, [&](auto plain) {
    using T = decltype(plain);
    for (std::size_t i = 0; i < values.size(); ++i) tensor.data<T>()[i] = narrow<T>(values[i]);
  });
  return tensor;
}

template std::vector<double> load(const Tensor&);
template std::vector<Integer> load(const Tensor&);
template std::vector<Complex> load(const Tensor&);
template Tensor store(DType, const Shape&, const std::vector<double>&);
template Tensor store(DType, const Shape&, const std::vector<Integer>&);
template Tensor store(DType, const Shape&, const std::vector<Complex>&);

std::vector<std::vector<std::int64_t>> coordinates(const Shape& shape) {
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
    std::vector<std::int64_t> at(static_cast<std::size_t>(shape.rank()));
    std::int64_t rest = i;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      at[d] = rest % shape.dim(d);
      rest /= shape.dim(d);
    }
    all.push_back(std::move(at));
  }
  return all;
}

std::int64_t broadcast_position(const Shape& shape, const std::vector<std::int64_t>& at) {
  std::int64_t position = 0;
  const std::size_t missing = at.size() - static_cast<std::size_t>(shape.rank());
  for (int d = 0; d < shape.rank(); ++d) {
    position = position * shape.dim(d) + (shape.dim(d) == 1 ? 0 : at[missing + static_cast<std::size_t>(d)]);
  }
  return position;
}

}  // namespace tutti::ref
