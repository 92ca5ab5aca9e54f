#include "tutti/kernels/cpu/plain_kernels.h"

#include <algorithm>
#include <memory>
#include <string>

#include "tutti/kernels/cpu/broadcast.h"
#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

// These functions take some ten times as long as an addition.
constexpr std::int64_t kPlainGrain = kElementGrain / 8;

char* bytes_at(void* base, std::int64_t element, DType dtype) {
  return static_cast<char*>(base) + element * static_cast<std::int64_t>(dtype_size(dtype));
}
const char* bytes_at(const void* base, std::int64_t element, DType dtype) {
  return static_cast<const char*>(base) + element * static_cast<std::int64_t>(dtype_size(dtype));
}

class PlainUnaryKernel : public Kernel {
 public:
  explicit PlainUnaryKernel(const TypedLoop<UnaryLoop>& loop) : loop_(loop) {}

  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const Tensor in, widened(ctx, ctx.input(0), loop_.in));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, in.shape()));
    TUTTI_ASSIGN_OR_RETURN(Tensor wide, wide_output(ctx, *out, loop_.out));
    parallel_for(ctx.team(), in.num_elements(), kPlainGrain, [&](std::int64_t begin, std::int64_t end) {
      loop_.loop(bytes_at(in.raw(), begin, loop_.in), bytes_at(wide.raw(), begin, loop_.out), end - begin, 0);
    });
    narrow_into(wide, *out);
    return {};
  }

 private:
  const TypedLoop<UnaryLoop> loop_;
};

class PlainBinaryKernel : public Kernel {
 public:
  PlainBinaryKernel(const TypedLoop<BinaryLoop>& loop, std::string_view name) : loop_(loop), name_(name) {}

  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const Tensor a, widened(ctx, ctx.input(0), loop_.in));
    TUTTI_ASSIGN_OR_RETURN(const Tensor b, widened(ctx, ctx.input(1), loop_.in));
    Result<Shape> shape = broadcast_shapes(a.shape(), b.shape());
    if (!shape.ok()) return invalid_argument(name_, ": Incompatible shapes: ", a.shape(), " vs. ", b.shape());
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, *shape));
    TUTTI_ASSIGN_OR_RETURN(Tensor wide, wide_output(ctx, *out, loop_.out));
    const Broadcast<2> walk(*shape, {&a.shape(), &b.shape()});
    const auto run = [&](std::int64_t at_a, std::int64_t at_b, std::int64_t to, std::int64_t count) {
      loop_.loop(bytes_at(a.raw(), at_a, loop_.in), bytes_at(b.raw(), at_b, loop_.in),
                 bytes_at(wide.raw(), to, loop_.out), count, walk.row_step()[0], walk.row_step()[1], 0);
    };
    parallel_for(ctx.team(), shape->num_elements(), kPlainGrain, [&](std::int64_t begin, std::int64_t end) {
      walk.for_elements(begin, end, [&](std::int64_t to, const std::array<std::int64_t, 2>& from, std::int64_t count) {
        run(from[0], from[1], to, count);
      });
    });
    narrow_into(wide, *out);
    return {};
  }

 private:
  const TypedLoop<BinaryLoop> loop_;
  const std::string name_;
};

}  // namespace

KernelFactory plain_unary_kernel(FindUnary find) {
  return [find](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    const DType dtype = init.input_types[0].dtype;
    const TypedLoop<UnaryLoop> loop = find(dtype);
    if (loop.loop == nullptr) return unimplemented(init.op, " of ", dtype_name(dtype), " is not supported");
    return std::unique_ptr<Kernel>(std::make_unique<PlainUnaryKernel>(loop));
  };
}

KernelFactory plain_binary_kernel(FindBinary find) {
  return [find](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    const DType dtype = init.input_types[0].dtype;
    const TypedLoop<BinaryLoop> loop = find(dtype);
    if (loop.loop == nullptr) return unimplemented(init.op, " of ", dtype_name(dtype), " is not supported");
    return std::unique_ptr<Kernel>(std::make_unique<PlainBinaryKernel>(loop, init.op));
  };
}

}  // namespace tutti::cpu
