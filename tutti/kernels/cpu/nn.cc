#include "tutti/kernels/cpu/nn.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

class BiasAddKernel : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    const DType dtype = init.input_types[0].dtype;
    BinaryFunction add = BinaryFunction::find(BinaryOp::kAdd, dtype);
    if (!add) return unimplemented(init.op, " of ", dtype_name(dtype), " is not supported");
    auto format = init.attrs.find("data_format");
    const bool channels_first =
        format != init.attrs.end() && format->second.get<std::string>() && *format->second.get<std::string>() == "NCHW";
    const std::string name(init.op == "_FusedBiasAdd" ? "BiasAdd" : init.op);  // as users know it
    auto kernel = std::unique_ptr<BiasAddKernel>(new BiasAddKernel(name, add, channels_first));
    if (auto activation = init.attrs.find("activation"); activation != init.attrs.end()) {
      const std::optional<UnaryOp> op = activation_named(*activation->second.get<std::string>());
      if (!op) return invalid_argument(init.op, ": unknown activation ", *activation->second.get<std::string>());
      kernel->activation_ = UnaryFunction::find(*op, dtype);
      if (!kernel->activation_) return unimplemented(init.op, " of ", dtype_name(dtype), " is not supported");
    }
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  Status compute(KernelContext& context) override {
    const Tensor& value = context.input(0);
    const Tensor& bias = context.input(1);
    TUTTI_RETURN_IF_ERROR(check(value.shape(), bias.shape()));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.forward_or_allocate(0, 0, value.shape()));
    if (value.num_elements() == 0) return {};
    const int channel = channels_first_ ? 1 : value.rank() - 1;
    const std::int64_t channels = bias.dim(0);
    const std::int64_t inner = elements_from(value.shape(), channel + 1);
    // A run of `length` elements takes one bias element each, or all the same one.
    const bool spread = inner == 1;
    const std::int64_t length = spread ? channels : inner;
    const std::int64_t size = add_.in_size();
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / length);
    parallel_for(context.team(), value.num_elements() / length, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const char* from = static_cast<const char*>(value.raw()) + i * length * size;
        const char* by = static_cast<const char*>(bias.raw()) + (spread ? 0 : i % channels * size);
        char* to = static_cast<char*>(out->raw()) + i * length * size;
        add_(from, by, to, length, 1, spread ? 1 : 0);
        if (activation_) activation_(to, to, length);
      }
    });
    return {};
  }

 private:
  BiasAddKernel(std::string name, BinaryFunction add, bool channels_first)
      : name_(std::move(name)), add_(add), channels_first_(channels_first) {}

  Status check(const Shape& value, const Shape& bias) const {
    if (value.rank() < 2) return invalid_argument(name_, ": Input tensor must be at least 2D: ", value);
    if (bias.rank() != 1) return invalid_argument(name_, ": Biases must be 1D: ", bias);
    const std::int64_t channels = value.dim(channels_first_ ? 1 : value.rank() - 1);
    if (bias.dim(0) == channels) return {};
    return invalid_argument(name_, ": Must provide as many biases as the ", channels_first_ ? "second" : "last",
                            " dimension of the input tensor: ", bias, " vs. ", value);
  }

  const std::string name_;
  const BinaryFunction add_;
  const bool channels_first_;
  UnaryFunction activation_;
};

class InTopKKernel : public Kernel {
 public:
  explicit InTopKKernel(const KernelInit& init) {
    if (auto it = init.attrs.find("k"); it != init.attrs.end() && it->second.get<std::int64_t>() != nullptr) {
      k_ = *it->second.get<std::int64_t>();
    }
  }

  Status compute(KernelContext& context) override {
    const Tensor& predictions = context.input(0);
    const Tensor& targets = context.input(1);
    if (predictions.rank() != 2)
      return invalid_argument("InTopK: predictions must be 2-dimensional, got ", predictions.shape());
    if (targets.rank() != 1) return invalid_argument("InTopK: targets must be 1-dimensional, got ", targets.shape());
    if (predictions.dim(0) != targets.dim(0)) {
      return invalid_argument("InTopK: First dimension of predictions ", predictions.dim(0),
                              " must match length of targets ", targets.dim(0));
    }
    std::int64_t k = k_.value_or(0);
    if (!k_) {
      TUTTI_ASSIGN_OR_RETURN(k, read_scalar_integer(context.input(2), "k"));
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, targets.shape()));
    const std::int64_t columns = predictions.dim(1);
    for (std::int64_t i = 0; i < targets.num_elements(); ++i) {
      const float* row = predictions.data<float>() + i * columns;
      out->data<bool>()[i] = in_top_k(row, columns, index_at(targets.raw(), targets.dtype(), i), k);
    }
    return {};
  }

 private:
  // Fewer than k scores beat the target's; a row with a score that is not finite has no answer.
  static bool in_top_k(const float* row, std::int64_t columns, std::int64_t target, std::int64_t k) {
    if (target < 0 || target >= columns || !std::isfinite(row[target])) return false;
    std::int64_t better = 0;
    for (std::int64_t c = 0; c < columns; ++c) {
      if (!std::isfinite(row[c])) return false;
      if (row[c] > row[target]) ++better;
    }
    return better < k;
  }

  std::optional<std::int64_t> k_;
};

}  // namespace

KernelFactory bias_add_kernel() { return kernel_of<BiasAddKernel>(); }
KernelFactory in_top_k_kernel() { return kernel_of<InTopKKernel>(); }

}  // namespace tutti::cpu
