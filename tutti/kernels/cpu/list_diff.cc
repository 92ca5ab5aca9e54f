#include "tutti/kernels/cpu/list_diff.h"

#include <string>
#include <unordered_set>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/number_types.h"

namespace tutti::cpu {
namespace {

// Elements as one of three types that can be looked up: few tables to compile for many dtypes.
template <typename Key>
std::vector<Key> keys_of(const Tensor& tensor) {
  std::vector<Key> keys;
  keys.reserve(static_cast<std::size_t>(tensor.num_elements()));
  with_real(
      tensor.dtype(),
      [&]<typename T>(T) {
        for (const T& element : tensor.flat<T>()) {
          if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>) {
            keys.push_back(static_cast<Key>(element));
          } else {
            keys.push_back(static_cast<Key>(static_cast<float>(element)));
          }
        }
      },
      [&] {
        for (const bool element : tensor.flat<bool>()) keys.push_back(static_cast<Key>(element));
      });
  return keys;
}

template <typename Key>
std::vector<std::int64_t> positions_left(const std::vector<Key>& x, const std::vector<Key>& y) {
  const std::unordered_set<Key> taken(y.begin(), y.end());
  std::vector<std::int64_t> left;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!taken.contains(x[i])) left.push_back(static_cast<std::int64_t>(i));
  }
  return left;
}

std::vector<std::int64_t> positions_left(const Tensor& x, const Tensor& y) {
  if (x.dtype() == DType::kString) {
    const auto strings = [](const Tensor& t) {
      return std::vector<std::string>(t.flat<std::string>().begin(), t.flat<std::string>().end());
    };
    return positions_left(strings(x), strings(y));
  }
  if (is_floating(x.dtype())) return positions_left(keys_of<double>(x), keys_of<double>(y));
  return positions_left(keys_of<std::int64_t>(x), keys_of<std::int64_t>(y));
}

}  // namespace

Status list_diff(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &y = ctx.input(1);
  if (x.rank() != 1) return invalid_argument("x should be a 1D vector, not ", x.shape());
  if (y.rank() != 1) return invalid_argument("y should be a 1D vector, not ", y.shape());
  const std::int64_t size = x.num_elements();
  TUTTI_RETURN_IF_ERROR(check_fits({&size, 1}, ctx.output_type(1), "size"));
  const std::vector<std::int64_t> left = positions_left(x, y);
  const Shape shape{static_cast<std::int64_t>(left.size())};
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  TUTTI_ASSIGN_OR_RETURN(Tensor * positions, ctx.allocate_output(1, shape));
  for (std::size_t i = 0; i < left.size(); ++i) {
    copy_elements(x.dtype(), at_element(x.dtype(), out->raw(), static_cast<std::int64_t>(i)),
                  at_element(x.dtype(), x.raw(), left[i]), 1);
  }
  write_indices(left, *positions);
  return {};
}

}  // namespace tutti::cpu
