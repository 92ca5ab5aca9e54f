#include "tutti/kernels/cpu/sequences.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

class ReverseSequence : public Kernel {
 public:
  explicit ReverseSequence(const KernelInit& init)
      : seq_dim_(init.attr<std::int64_t>("seq_dim")), batch_dim_(init.attr<std::int64_t>("batch_dim")) {}

  Status compute(KernelContext& ctx) override {
    const Tensor& input = ctx.input(0);
    const Tensor& lengths = ctx.input(1);
    TUTTI_RETURN_IF_ERROR(check(input, lengths));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, input.shape()));
    if (input.num_elements() == 0) return {};
    const int seq = static_cast<int>(seq_dim_), batch = static_cast<int>(batch_dim_);
    DimList strides;
    strides_of(input.shape(), &strides);
    // Elements behind both dimensions move together.
    const std::int64_t chunk = std::min(strides[seq], strides[batch]);
    const std::int64_t steps = input.dim(seq), batches = input.dim(batch);
    with_element(input.dtype(), [&]<typename E>(const E&) {
      const E* from = static_cast<const E*>(input.raw());
      E* to = static_cast<E*>(out->raw());
      parallel_for(ctx.team(), input.num_elements() / chunk, std::max<std::int64_t>(1, kElementGrain / chunk),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       const std::int64_t at = i * chunk;
                       const std::int64_t step = at / strides[seq] % steps;
                       const std::int64_t length =
                           index_at(lengths.raw(), lengths.dtype(), at / strides[batch] % batches);
                       const std::int64_t source = step < length ? length - 1 - step : step;
                       std::copy_n(from + at + (source - step) * strides[seq], chunk, to + at);
                     }
                   });
    });
    return {};
  }

 private:
  Status check(const Tensor& input, const Tensor& lengths) const {
    if (lengths.rank() != 1) return invalid_argument("seq_lengths must be 1-dim, not ", lengths.rank());
    if (seq_dim_ == batch_dim_) return invalid_argument("batch_dim == seq_dim == ", seq_dim_);
    if (seq_dim_ < 0 || seq_dim_ >= input.rank()) {
      return invalid_argument("seq_dim must be < input rank (", seq_dim_, " vs. ", input.rank(), ")");
    }
    if (batch_dim_ < 0 || batch_dim_ >= input.rank()) {
      return invalid_argument("batch_dim must be < input rank (", batch_dim_, " vs. ", input.rank(), ")");
    }
    const std::int64_t batches = input.dim(static_cast<int>(batch_dim_));
    if (lengths.num_elements() != batches) {
      return invalid_argument("Length of seq_lengths != input.dims(", batch_dim_, "), (", lengths.num_elements(),
                              " vs. ", batches, ")");
    }
    const std::int64_t steps = input.dim(static_cast<int>(seq_dim_));
    for (std::int64_t i = 0; i < batches; ++i) {
      const std::int64_t length = index_at(lengths.raw(), lengths.dtype(), i);
      if (length < 0) return invalid_argument("seq_lengths(", i, ") < 0: ", length);
      if (length > steps) return invalid_argument("seq_lengths(", i, ") > input.dims(", seq_dim_, "): ", length);
    }
    return {};
  }

  const std::int64_t seq_dim_;
  const std::int64_t batch_dim_;
};

// By how much each dimension is shifted, counted forward and within its size.
Result<std::vector<std::int64_t>> read_shifts(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  const Tensor& shift = ctx.input(1);
  const Tensor& axis = ctx.input(2);
  if (input.rank() < 1) return invalid_argument("input must be 1-D or higher");
  if (shift.rank() > 1) return invalid_argument("shift must be a scalar or a 1-D vector. Found: ", shift.shape());
  if (axis.rank() > 1) return invalid_argument("axis must be a scalar or a 1-D vector. Found: ", axis.shape());
  if (shift.shape() != axis.shape()) {
    return invalid_argument("shift and axis must have the same size: ", shift.shape(), " and ", axis.shape());
  }
  std::vector<std::int64_t> shifts(static_cast<std::size_t>(input.rank()), 0);
  for (std::int64_t i = 0; i < axis.num_elements(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(const int at, normalise_axis(index_at(axis.raw(), axis.dtype(), i), input.rank()));
    const std::int64_t size = std::max<std::int64_t>(1, input.dim(at));
    std::int64_t& sum = shifts[static_cast<std::size_t>(at)];
    sum = (sum + index_at(shift.raw(), shift.dtype(), i) % size + size) % size;
  }
  return shifts;
}

}  // namespace

KernelFactory reverse_sequence_kernel() { return kernel_of<ReverseSequence>(); }

Status roll(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::int64_t> shifts, read_shifts(ctx));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, input.shape()));
  if (input.num_elements() == 0) return {};
  // What lies behind the last dimension that moves is copied in one piece; along that dimension, in two.
  int last = input.rank() - 1;
  while (last > 0 && shifts[static_cast<std::size_t>(last)] == 0) --last;
  const std::int64_t size = input.dim(last), chunk = elements_from(input.shape(), last + 1);
  const std::int64_t shift = shifts[static_cast<std::size_t>(last)];
  const std::int64_t rows = elements_before(input.shape(), last), row_size = size * chunk;
  with_element(input.dtype(), [&]<typename E>(const E&) {
    const auto copy_row = [&](std::int64_t row) {
      // Where the row goes, dimension by dimension from the innermost.
      std::int64_t rest = row, target = 0, stride = 1;
      for (int d = last - 1; d >= 0; --d) {
        const std::int64_t at = (rest % input.dim(d) + shifts[static_cast<std::size_t>(d)]) % input.dim(d);
        rest /= input.dim(d);
        target += at * stride;
        stride *= input.dim(d);
      }
      const E* from = static_cast<const E*>(input.raw()) + row * row_size;
      E* to = static_cast<E*>(out->raw()) + target * row_size;
      std::copy_n(from, (size - shift) * chunk, to + shift * chunk);
      std::copy_n(from + (size - shift) * chunk, shift * chunk, to);
    };
    parallel_for(ctx.team(), rows, std::max<std::int64_t>(1, kElementGrain / row_size),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = begin; row < end; ++row) copy_row(row);
                 });
  });
  return {};
}

}  // namespace tutti::cpu
