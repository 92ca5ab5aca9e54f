// Kernels by themselves, on reused memory, as a warm step runs them. Answers are compared with the slow reference once,
// before the clock starts.
//
//   elementwise/OP/N        one op over N floats; N = 1 shows the fixed cost of a kernel
//   reduction/OP/R/C        over rows or columns of an R x C matrix
//   adam/N/THREADS          one fused update of N parameters (648,010: the MLP 784-500-500-10)
//   sparse_xent/B/C         loss and backprop of B rows of C logits
//   matmul/M/N/K/TA/TB/THREADS    the products of that MLP's training step, batch 32; flops as items
//   matmul_double/N         a square product in double
//   conv/DIRECTION/SIZE/IN/OUT/THREADS   3x3 SAME over 128 images of SIZE x SIZE (0 forward, 1 input, 2 filter); flops
//   pool/OP/SIZE/CHANNELS   2x2 windows over 128 images; input elements as items
//   batch_norm/GRAD/SIZE/CHANNELS        training, over 128 images

#include <benchmark/benchmark.h>

#include <cmath>
#include <random>

#include "tutti/kernels/ref/reference.h"
#include "tutti/kernels/resources/variable.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

class BenchScope : public StepScope {
 public:
  explicit BenchScope(int threads) : pool_(make_pool_allocator()), team_(threads) {
    cancellation = &own_;
    allocator = pool_.get();
    team = &team_;
  }
  ResourceStore& step_resources() override { TUTTI_CHECK(false, "not needed here"); }

 private:
  Cancellation own_;
  std::unique_ptr<Allocator> pool_;
  Team team_;
};

// One kernel with its inputs, run again and again.
class KernelRun {
 public:
  KernelRun(const std::string& op, AttrMap attrs, const std::vector<Tensor>& inputs, int threads = 1)
      : op_(op), attrs_(std::move(attrs)), inputs_(inputs), scope_(threads) {
    std::shared_ptr<const OpTable> table = builtin_ops();
    const OpDef* def = table->registry()->find(op);
    TUTTI_CHECK(def != nullptr, op);
    std::vector<EdgeType> given, in, out;
    for (const Tensor& input : inputs) given.push_back({input.dtype(), false});
    throw_if_error(infer_attrs(*def, given, &attrs_));
    throw_if_error(complete_attrs(*def, &attrs_));
    throw_if_error(resolve_types(*def, attrs_, &in, &out));
    const KernelEntry* entry = table->find_kernel(op, attrs_, kCpu);
    TUTTI_CHECK(entry != nullptr, op);
    KernelInit init{.node = op, .op = op, .attrs = attrs_, .input_types = in, .output_types = out};
    kernel_ = entry->make(init).value_or_throw();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      slots_.push_back({inputs[i], nullptr});
      index_.push_back(static_cast<std::uint32_t>(i));
    }
    outputs_.resize(out.size());
    for (const EdgeType& type : out) output_types_.push_back(type.dtype);
  }

  void run() {
    for (Value& output : outputs_) output.tensor = Tensor();
    KernelContext context(scope_, {.slots = slots_.data(),
                                   .input_index = index_.data(),
                                   .outputs = outputs_.data(),
                                   .output_types = output_types_.data(),
                                   .num_inputs = static_cast<int>(slots_.size()),
                                   .num_outputs = static_cast<int>(outputs_.size())});
    throw_if_error(kernel_->compute(context));
  }

  void check() {
    run();
    std::vector<Tensor> want = (*find_reference(op_))(attrs_, inputs_).value_or_throw();
    for (std::size_t i = 0; i < want.size(); ++i) {
      TUTTI_CHECK(distance(outputs_[i].tensor, want[i]) < 1e-4, op_, " gives a wrong answer");
    }
  }

 private:
  static double distance(const Tensor& got, const Tensor& want) {
    if (want.dtype() != DType::kFloat && want.dtype() != DType::kDouble) return bitwise_equal(got, want) ? 0 : 1;
    double error = 0, norm = 1e-12;
    for (std::int64_t i = 0; i < want.num_elements(); ++i) {
      const bool wide = want.dtype() == DType::kDouble;
      const double a = wide ? got.data<double>()[i] : got.data<float>()[i];
      const double b = wide ? want.data<double>()[i] : want.data<float>()[i];
      error += (a - b) * (a - b);
      norm += b * b;
    }
    return std::sqrt(error / norm);
  }

  const std::string op_;
  AttrMap attrs_;
  const std::vector<Tensor> inputs_;
  BenchScope scope_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<Value> slots_;
  std::vector<std::uint32_t> index_;
  std::vector<Value> outputs_;
  std::vector<DType> output_types_;
};

template <typename T = float>
Tensor random_tensor(const Shape& shape, unsigned seed) {
  Tensor tensor(dtype_of<T>(), shape);
  std::mt19937 engine(seed);
  for (T& x : tensor.flat<T>()) x = static_cast<T>(std::uniform_real_distribution<double>(0.1, 1)(engine));
  return tensor;
}

void time_kernel(benchmark::State& state, KernelRun& kernel, std::int64_t items) {
  for (auto _ : state) kernel.run();
  state.SetItemsProcessed(state.iterations() * items);
}

void elementwise(benchmark::State& state, const char* op, int operands) {
  const std::int64_t n = state.range(0);
  const Shape shape = n == 1 ? Shape{} : Shape{n};
  std::vector<Tensor> inputs;
  for (int i = 0; i < operands; ++i) inputs.push_back(random_tensor(shape, static_cast<unsigned>(i)));
  KernelRun kernel(op, {}, inputs);
  kernel.check();
  time_kernel(state, kernel, n);
}
BENCHMARK_CAPTURE(elementwise, AddV2, "AddV2", 2)->Arg(1)->Arg(16)->Arg(500)->Arg(16000)->Arg(648010);
BENCHMARK_CAPTURE(elementwise, Relu, "Relu", 1)->Arg(16)->Arg(16000);
BENCHMARK_CAPTURE(elementwise, Exp, "Exp", 1)->Arg(16000);
BENCHMARK_CAPTURE(elementwise, Tanh, "Tanh", 1)->Arg(16000);
BENCHMARK_CAPTURE(elementwise, Log, "Log", 1)->Arg(16000);

void bias_add(benchmark::State& state) {
  KernelRun kernel("BiasAdd", {},
                   {random_tensor({state.range(0), state.range(1)}, 1), random_tensor({state.range(1)}, 2)});
  kernel.check();
  time_kernel(state, kernel, state.range(0) * state.range(1));
}
BENCHMARK(bias_add)->Args({32, 500})->Args({32, 10});

void reduction(benchmark::State& state, const char* op, int axis) {
  KernelRun kernel(op, {}, {random_tensor({state.range(0), state.range(1)}, 1), Tensor::scalar(std::int32_t{axis})});
  kernel.check();
  time_kernel(state, kernel, state.range(0) * state.range(1));
}
BENCHMARK_CAPTURE(reduction, SumRows, "Sum", 1)->Args({32, 500});
BENCHMARK_CAPTURE(reduction, SumColumns, "Sum", 0)->Args({32, 500})->Args({1024, 500});
BENCHMARK_CAPTURE(reduction, MeanOf32, "Mean", 0)->Args({32, 1});

void adam(benchmark::State& state) {
  const Shape shape{state.range(0)};
  std::vector<std::shared_ptr<ResourceSlot>> slots;
  std::vector<Tensor> inputs;
  for (const char* name : {"var", "m", "v"}) {
    slots.push_back(std::make_shared<ResourceSlot>("localhost", name));
    auto variable = std::make_shared<Variable>(DType::kFloat);
    variable->assign(random_tensor(shape, static_cast<unsigned>(slots.size())));
    slots.back()->get_or_create([&] { return variable; });
    inputs.push_back(Tensor::scalar(ResourceHandle("", slots.back())));
  }
  for (float scalar : {0.9f, 0.999f, 1e-6f, 0.9f, 0.999f, 1e-8f}) inputs.push_back(Tensor::scalar(scalar));
  inputs.push_back(random_tensor(shape, 9));
  KernelRun kernel("ResourceApplyAdam", {}, inputs, static_cast<int>(state.range(1)));
  time_kernel(state, kernel, state.range(0));
  TUTTI_CHECK(std::isfinite(variable_in(*slots[0])->read().data<float>()[0]));
}
BENCHMARK(adam)->Args({10, 1})->Args({500, 1})->Args({648010, 1})->Args({648010, 2})->UseRealTime();

void sparse_xent(benchmark::State& state) {
  const std::int64_t batch = state.range(0), classes = state.range(1);
  Tensor labels(DType::kInt64, {batch});
  for (std::int64_t i = 0; i < batch; ++i) labels.data<std::int64_t>()[i] = i % classes;
  KernelRun kernel("SparseSoftmaxCrossEntropyWithLogits", {}, {random_tensor({batch, classes}, 1), labels});
  kernel.check();
  time_kernel(state, kernel, batch * classes);
}
BENCHMARK(sparse_xent)->Args({32, 10})->Args({128, 1000});

void matmul(benchmark::State& state) {
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const bool ta = state.range(3) != 0, tb = state.range(4) != 0;
  KernelRun kernel("MatMul", {{"transpose_a", ta}, {"transpose_b", tb}},
                   {random_tensor(ta ? Shape{k, m} : Shape{m, k}, 1), random_tensor(tb ? Shape{n, k} : Shape{k, n}, 2)},
                   static_cast<int>(state.range(5)));
  kernel.check();
  time_kernel(state, kernel, 2 * m * n * k);
}
void mlp_products(benchmark::internal::Benchmark* b) {
  for (int threads : {1, 2}) {
    b->Args({32, 500, 784, 0, 0, threads})->Args({32, 500, 500, 0, 0, threads})->Args({32, 10, 500, 0, 0, threads});
    b->Args({784, 500, 32, 1, 0, threads})->Args({500, 500, 32, 1, 0, threads})->Args({500, 10, 32, 1, 0, threads});
    b->Args({32, 500, 500, 0, 1, threads})->Args({32, 500, 10, 0, 1, threads});
  }
  b->Args({2, 2, 2, 0, 0, 1})->Args({8, 8, 8, 0, 0, 1})->Args({16, 16, 16, 0, 0, 1})->Args({32, 32, 16, 0, 1, 1});
}
BENCHMARK(matmul)->Apply(mlp_products)->UseRealTime();

void fused_matmul(benchmark::State& state) {
  KernelRun kernel("_FusedMatMul", {{"activation", "Relu"}},
                   {random_tensor({32, 784}, 1), random_tensor({784, 500}, 2), random_tensor({500}, 3)});
  kernel.check();
  time_kernel(state, kernel, 2 * 32 * 784 * 500);
}
BENCHMARK(fused_matmul);

void matmul_double(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  KernelRun kernel("MatMul", {}, {random_tensor<double>({n, n}, 1), random_tensor<double>({n, n}, 2)});
  if (n <= 128) kernel.check();
  time_kernel(state, kernel, 2 * n * n * n);
}
BENCHMARK(matmul_double)->Arg(8)->Arg(64)->Arg(128)->Arg(512);

using List = std::vector<std::int64_t>;

Tensor sizes_of(const Shape& shape) {
  Tensor sizes(DType::kInt32, {shape.rank()});
  for (int i = 0; i < shape.rank(); ++i) sizes.data<std::int32_t>()[i] = static_cast<std::int32_t>(shape.dim(i));
  return sizes;
}

void conv(benchmark::State& state) {
  const std::int64_t size = state.range(1), in = state.range(2), out = state.range(3);
  const Shape x{128, size, size, in}, w{3, 3, in, out}, y{128, size, size, out};
  const std::vector<std::pair<const char*, std::vector<Tensor>>> directions = {
      {"Conv2D", {random_tensor(x, 1), random_tensor(w, 2)}},
      {"Conv2DBackpropInput", {sizes_of(x), random_tensor(w, 2), random_tensor(y, 3)}},
      {"Conv2DBackpropFilter", {random_tensor(x, 1), sizes_of(w), random_tensor(y, 3)}}};
  const auto& [op, inputs] = directions[static_cast<std::size_t>(state.range(0))];
  KernelRun kernel(op, {{"strides", List{1, 1, 1, 1}}, {"padding", "SAME"}}, inputs, static_cast<int>(state.range(4)));
  kernel.run();
  time_kernel(state, kernel, 2 * 9 * y.num_elements() * in);
}
void cnn_convolutions(benchmark::internal::Benchmark* b) {
  for (int threads : {1, 2}) {
    for (int direction : {0, 1, 2}) {
      if (direction != 1) b->Args({direction, 28, 1, 32, threads});
      b->Args({direction, 14, 32, 64, threads})->Args({direction, 7, 64, 128, threads});
    }
  }
}
BENCHMARK(conv)->Apply(cnn_convolutions)->UseRealTime();

void pool(benchmark::State& state, const char* op) {
  const std::int64_t size = state.range(0), channels = state.range(1);
  const Tensor x = random_tensor({128, size, size, channels}, 1);
  const Tensor y = random_tensor({128, size / 2, size / 2, channels}, 2);
  std::vector<Tensor> inputs{x};
  if (op == std::string("MaxPoolGrad")) inputs = {x, y, y};
  if (op == std::string("AvgPoolGrad")) inputs = {sizes_of(x.shape()), y};
  KernelRun kernel(op, {{"ksize", List{1, 2, 2, 1}}, {"strides", List{1, 2, 2, 1}}, {"padding", "VALID"}}, inputs);
  kernel.check();
  time_kernel(state, kernel, x.num_elements());
}
BENCHMARK_CAPTURE(pool, MaxPool, "MaxPool")->Args({28, 32})->Args({14, 64});
BENCHMARK_CAPTURE(pool, MaxPoolGrad, "MaxPoolGrad")->Args({28, 32})->Args({14, 64});
BENCHMARK_CAPTURE(pool, AvgPool, "AvgPool")->Args({28, 32});
BENCHMARK_CAPTURE(pool, AvgPoolGrad, "AvgPoolGrad")->Args({28, 32});

void batch_norm(benchmark::State& state) {
  const std::int64_t size = state.range(1), channels = state.range(2);
  const Tensor x = random_tensor({128, size, size, channels}, 1), v = random_tensor({channels}, 2);
  const bool grad = state.range(0) != 0;
  KernelRun kernel(grad ? "FusedBatchNormGradV2" : "FusedBatchNormV2", {},
                   grad ? std::vector<Tensor>{x, x, v, v, v} : std::vector<Tensor>{x, v, v, v, v});
  kernel.run();
  time_kernel(state, kernel, x.num_elements());
}
BENCHMARK(batch_norm)->Args({0, 28, 32})->Args({0, 14, 64})->Args({1, 28, 32})->Args({1, 14, 64});

}  // namespace
}  // namespace tutti
