#include <algorithm>
#include <cstring>
#include <vector>

#include "tutti/kernels/cpu/csv.h"
#include "tutti/kernels/cpu/element.h"

namespace tutti::cpu {
namespace {

class DecodePaddedRaw : public Kernel {
 public:
  explicit DecodePaddedRaw(const KernelInit& init)
      : dtype_(init.attr<DType>("out_type")), little_endian_(init.attr<bool>("little_endian")) {}

  Status compute(KernelContext& ctx) override {
    const Tensor& in = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t length, read_scalar_integer(ctx.input(1), "fixed_length"));
    const auto element = static_cast<std::int64_t>(dtype_size(dtype_));
    if (length <= 0) return invalid_argument("fixed_length (", length, ") must be greater than zero.");
    if (length % element != 0) {
      return invalid_argument("fixed_length (", length, ") must be a multiple of the size of out_type (", element, ")");
    }
    std::vector<std::int64_t> dims(in.shape().dims().begin(), in.shape().dims().end());
    dims.push_back(length / element);
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    char* to = static_cast<char*>(out->raw());
    for (std::int64_t i = 0; i < in.num_elements(); ++i, to += length) {
      const std::string& text = in.data<std::string>()[i];
      const std::size_t copied = std::min(text.size(), static_cast<std::size_t>(length));
      std::memcpy(to, text.data(), copied);
      std::memset(to + copied, 0, static_cast<std::size_t>(length) - copied);
      if (!little_endian_) {
        for (char* at = to; at != to + length; at += element) std::reverse(at, at + element);
      }
    }
    return {};
  }

 private:
  const DType dtype_;
  const bool little_endian_;
};

}  // namespace

KernelFactory decode_padded_raw_kernel() { return kernel_of<DecodePaddedRaw>(); }

}  // namespace tutti::cpu
