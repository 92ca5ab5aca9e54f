#include "tutti/kernels/cpu/fused_elementwise.h"

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

// Elements of a block: with a dozen operands of 8 bytes it still fits the first two levels of cache.
constexpr std::int64_t kChainBlock = 1024;
constexpr std::int64_t kNoOperand = INT64_MIN;

const std::map<std::string_view, UnaryOp>& unary_ops() {
  static const std::map<std::string_view, UnaryOp> ops{{"Neg", UnaryOp::kNeg},
                                                       {"Square", UnaryOp::kSquare},
                                                       {"Sqrt", UnaryOp::kSqrt},
                                                       {"Rsqrt", UnaryOp::kRsqrt},
                                                       {"Reciprocal", UnaryOp::kReciprocal},
                                                       {"Inv", UnaryOp::kReciprocal},
                                                       {"Exp", UnaryOp::kExp},
                                                       {"Expm1", UnaryOp::kExpm1},
                                                       {"Log", UnaryOp::kLog},
                                                       {"Log1p", UnaryOp::kLog1p},
                                                       {"Abs", UnaryOp::kAbs},
                                                       {"Sign", UnaryOp::kSign},
                                                       {"Floor", UnaryOp::kFloor},
                                                       {"Ceil", UnaryOp::kCeil},
                                                       {"Round", UnaryOp::kRound},
                                                       {"Rint", UnaryOp::kRound},
                                                       {"Sin", UnaryOp::kSin},
                                                       {"Cos", UnaryOp::kCos},
                                                       {"Tan", UnaryOp::kTan},
                                                       {"Tanh", UnaryOp::kTanh},
                                                       {"Sigmoid", UnaryOp::kSigmoid},
                                                       {"Erf", UnaryOp::kErf},
                                                       {"Relu", UnaryOp::kRelu},
                                                       {"Relu6", UnaryOp::kRelu6},
                                                       {"Elu", UnaryOp::kElu},
                                                       {"Selu", UnaryOp::kSelu},
                                                       {"Softplus", UnaryOp::kSoftplus},
                                                       {"Softsign", UnaryOp::kSoftsign}};
  return ops;
}

const std::map<std::string_view, BinaryOp>& binary_ops() {
  static const std::map<std::string_view, BinaryOp> ops{{"Add", BinaryOp::kAdd},
                                                        {"AddV2", BinaryOp::kAdd},
                                                        {"Sub", BinaryOp::kSub},
                                                        {"Mul", BinaryOp::kMul},
                                                        {"Div", BinaryOp::kDiv},
                                                        {"RealDiv", BinaryOp::kDiv},
                                                        {"DivNoNan", BinaryOp::kDivNoNan},
                                                        {"MulNoNan", BinaryOp::kMulNoNan},
                                                        {"Pow", BinaryOp::kPow},
                                                        {"Maximum", BinaryOp::kMaximum},
                                                        {"Minimum", BinaryOp::kMinimum},
                                                        {"SquaredDifference", BinaryOp::kSquaredDifference},
                                                        {"SigmoidGrad", BinaryOp::kSigmoidGrad},
                                                        {"TanhGrad", BinaryOp::kTanhGrad},
                                                        {"SqrtGrad", BinaryOp::kSqrtGrad},
                                                        {"RsqrtGrad", BinaryOp::kRsqrtGrad},
                                                        {"ReciprocalGrad", BinaryOp::kReciprocalGrad},
                                                        {"InvGrad", BinaryOp::kReciprocalGrad},
                                                        {"ReluGrad", BinaryOp::kReluGrad},
                                                        {"Relu6Grad", BinaryOp::kRelu6Grad},
                                                        {"EluGrad", BinaryOp::kEluGrad},
                                                        {"SeluGrad", BinaryOp::kSeluGrad},
                                                        {"SoftplusGrad", BinaryOp::kSoftplusGrad},
                                                        {"SoftsignGrad", BinaryOp::kSoftsignGrad}};
  return ops;
}

struct Step {
  UnaryFunction unary;
  BinaryFunction binary;
  std::int64_t a = 0;
  std::int64_t b = kNoOperand;
  int result = 0;  // scratch block that takes it
};

class FusedElementwise : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    auto kernel = std::unique_ptr<FusedElementwise>(new FusedElementwise);
    const DType dtype = init.attr<DType>("T");
    kernel->element_size_ = static_cast<std::int64_t>(element_stride(dtype));
    const auto& ops = init.attr<std::vector<std::string>>("ops");
    const auto& operands = init.attr<std::vector<std::int64_t>>("operands");
    const auto num_inputs = static_cast<std::int64_t>(init.input_types.size());
    if (ops.empty() || operands.size() != 2 * ops.size() || num_inputs == 0) {
      return invalid_argument(ops.size(), " steps with ", operands.size(), " operands and ", num_inputs, " inputs");
    }
    for (std::size_t s = 0; s < ops.size(); ++s) {
      TUTTI_ASSIGN_OR_RETURN(Step step, make_step(ops[s], operands[2 * s], operands[2 * s + 1], dtype));
      for (std::int64_t operand : {step.a, step.b}) {
        if (operand == kNoOperand) continue;
        if (operand >= num_inputs || operand < -static_cast<std::int64_t>(s)) {
          return invalid_argument("step ", s, " (", printable(ops[s]), ") has operand ", operand);
        }
      }
      kernel->steps_.push_back(step);
    }
    kernel->assign_blocks();
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  Status compute(KernelContext& context) override {
    TUTTI_ASSIGN_OR_RETURN(const Shape* shape, common_shape(context));
    const std::int64_t n = shape->num_elements();
    std::array<Source, kMaxSources> sources{};
    for (int i = 0; i < context.num_inputs(); ++i) {
      const Tensor& input = context.input(i);
      sources[i] = {static_cast<const char*>(input.raw()), input.num_elements() == 1 && n != 1 ? 0 : 1};
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * output, context.allocate_output(0, *shape));
    const std::int64_t scratch_bytes = num_blocks_ * kChainBlock * element_size_;
    const int pieces = parallel_pieces(context.team(), n, kElementGrain);
    TUTTI_ASSIGN_OR_RETURN(Tensor scratch, context.allocate_temp(DType::kInt8, Shape{scratch_bytes * pieces}));
    char* out = static_cast<char*>(output->raw());
    char* blocks = static_cast<char*>(scratch.raw());
    parallel_ranges(context.team(), n, kElementGrain, [&](int piece, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; i += kChainBlock) {
        run_block(sources, blocks + scratch_bytes * piece, out, i, std::min(kChainBlock, end - i));
      }
    });
    return {};
  }

 private:
  static constexpr int kMaxSources = 16;
  struct Source {
    const char* data;
    int step;  // 0 for one element that serves all
  };

  static Result<Step> make_step(const std::string& op, std::int64_t a, std::int64_t b, DType dtype) {
    Step step{.a = a, .b = b};
    auto unary = unary_ops().find(op);
    auto binary = binary_ops().find(op);
    if (b == kNoOperand && unary != unary_ops().end()) {
      step.unary = UnaryFunction::find(unary->second, dtype);
      if (step.unary) return step;
    }
    if (b != kNoOperand && binary != binary_ops().end()) {
      step.binary = BinaryFunction::find(binary->second, dtype);
      if (step.binary) return step;
    }
    return invalid_argument("no step ", printable(op), " for ", dtype_name(dtype));
  }

  // A step may write where a dead result lies: blocks are reused after the last step that reads them.
  void assign_blocks() {
    std::vector<std::size_t> last_read(steps_.size(), 0);
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      for (std::int64_t operand : {steps_[s].a, steps_[s].b}) {
        if (operand < 0 && operand != kNoOperand) last_read[static_cast<std::size_t>(-1 - operand)] = s;
      }
    }
    std::vector<int> free_blocks;
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      if (free_blocks.empty()) free_blocks.push_back(num_blocks_++);
      steps_[s].result = free_blocks.back();
      free_blocks.pop_back();
      for (std::size_t before = 0; before < s; ++before) {
        if (last_read[before] == s) free_blocks.push_back(steps_[before].result);
      }
    }
  }

  Result<const Shape*> common_shape(const KernelContext& context) const {
    if (context.num_inputs() > kMaxSources)
      return invalid_argument(context.num_inputs(), " inputs, at most ", kMaxSources);
    const Shape* shape = &context.input(0).shape();
    for (int i = 1; i < context.num_inputs(); ++i) {
      const Shape& other = context.input(i).shape();
      if (shape->rank() == 0) {
        shape = &other;
      } else if (other.rank() != 0 && !(other == *shape)) {
        return invalid_argument("operands have shapes ", *shape, " and ", other);
      }
    }
    return shape;
  }

  void run_block(const std::array<Source, kMaxSources>& sources, char* blocks, char* out, std::int64_t at,
                 std::int64_t count) const {
    auto source_of = [&](std::int64_t operand) -> Source {
      if (operand < 0)
        return {blocks + steps_[static_cast<std::size_t>(-1 - operand)].result * kChainBlock * element_size_, 1};
      const Source& source = sources[static_cast<std::size_t>(operand)];
      return {source.data + at * element_size_ * source.step, source.step};
    };
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      const Step& step = steps_[s];
      const bool is_last = s + 1 == steps_.size();
      void* result = is_last ? out + at * element_size_ : blocks + step.result * kChainBlock * element_size_;
      const Source a = source_of(step.a);
      if (step.b != kNoOperand) {
        const Source b = source_of(step.b);
        step.binary(a.data, b.data, result, count, a.step, b.step);
      } else if (a.step == 1) {
        step.unary(a.data, result, count);
      } else {
        for (std::int64_t i = 0; i < count; ++i) step.unary(a.data, static_cast<char*>(result) + i * element_size_, 1);
      }
    }
  }

  std::int64_t element_size_ = 0;
  std::vector<Step> steps_;
  int num_blocks_ = 0;
};

}  // namespace

KernelFactory fused_elementwise_kernel() { return kernel_of<FusedElementwise>(); }

bool is_fusable(std::string_view op) { return unary_ops().contains(op) || binary_ops().contains(op); }

}  // namespace tutti::cpu
