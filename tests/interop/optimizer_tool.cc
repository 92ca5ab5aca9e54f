// Tutti's side of check_optimizers.py: trains the same small problem with every optimiser and prints every variable
// after every step; then what schedules, clipping, averages and partitioners give. One line each:
//   optimizer NAME DTYPE STEP VARIABLE NUMBER...
//   schedule NAME STEP NUMBER
//   value NAME NUMBER...
//   average NAME STEP VARIABLE NUMBER...
//   part VARIABLE FULL_NAME SPEC
//   partitioner NAME NUMBER...
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/partitioned_variable.h"
#include "tutti/optim/adadelta.h"
#include "tutti/optim/adagrad.h"
#include "tutti/optim/adagrad_da.h"
#include "tutti/optim/adam.h"
#include "tutti/optim/adamax.h"
#include "tutti/optim/adamw.h"
#include "tutti/optim/amsgrad.h"
#include "tutti/optim/clipping.h"
#include "tutti/optim/ftrl.h"
#include "tutti/optim/momentum.h"
#include "tutti/optim/moving_averages.h"
#include "tutti/optim/nadam.h"
#include "tutti/optim/proximal_adagrad.h"
#include "tutti/optim/proximal_gradient_descent.h"
#include "tutti/optim/rmsprop.h"
#include "tutti/optim/schedules.h"
#include "tutti/optim/sgd.h"
#include "tutti/runtime/local_session.h"

namespace tutti::interop {
namespace {

constexpr int kSteps = 6;

// The numbers of the problem, which the script makes in the same way: element i of weights, gradients, rows.
double weight(int i) { return ((3 * i) % 7 - 3) / 2.0; }
double slope(int step, int i) { return ((7 * i + 3 * step) % 11 - 5) / 4.0; }
double row_slope(int step, int i) { return ((5 * i + 2 * step) % 13 - 6) / 8.0; }
std::vector<std::int32_t> rows_of(int step) { return {step % 4, 2, step % 4, 0}; }

Tensor tensor_of(DType dtype, const Shape& shape, const std::function<double(int)>& element) {
  Tensor tensor(dtype, shape);
  for (int i = 0; i < shape.num_elements(); ++i) {
    if (dtype == DType::kFloat) {
      tensor.data<float>()[i] = static_cast<float>(element(i));
    } else {
      tensor.data<double>()[i] = element(i);
    }
  }
  return tensor;
}

std::string numbers(const Tensor& tensor) {
  std::string text;
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    double value = 0;
    switch (tensor.dtype()) {
      case DType::kFloat:
        value = tensor.data<float>()[i];
        break;
      case DType::kDouble:
        value = tensor.data<double>()[i];
        break;
      case DType::kInt64:
        value = static_cast<double>(tensor.data<std::int64_t>()[i]);
        break;
      default:
        throw_error(invalid_argument("cannot print ", dtype_name(tensor.dtype())));
    }
    char digits[40];
    std::snprintf(digits, sizeof digits, " %.17g", value);
    text += digits;
  }
  return text;
}

void print_variables(Session& session, Graph& graph, const std::string& head) {
  for (const Var& variable : global_variables(graph)) {
    std::printf("%s %s%s\n", head.c_str(), variable.name().c_str(),
                numbers(session.run({}, {variable.read()})[0]).c_str());
  }
}

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(const Var& global_step)>;

// A variable with dense gradients and a table of which rows are read, some twice.
void train(const std::string& name, DType dtype, const MakeOptimizer& make) {
  Graph graph(builtin_ops());
  Var w = variable(graph, tensor_of(dtype, {2, 3}, weight), "w");
  Var table = variable(graph, tensor_of(dtype, {4, 2}, weight), "table");
  Var step = variable(graph, Tensor::scalar(std::int64_t{0}), "global_step", false);
  Output g = placeholder(graph, dtype, PartialShape{2, 3});
  Output rows = placeholder(graph, DType::kInt32, PartialShape{4});
  Output row_g = placeholder(graph, dtype, PartialShape{4, 2});
  Output found = op1("ResourceGather", {table.handle(), rows}, {{"dtype", dtype}});
  const std::unique_ptr<Optimizer> optimizer = make(step);
  Node* train_op = optimizer->minimize(reduce_sum(w * g) + reduce_sum(found * row_g), {}, step);
  LocalSession session(graph);
  session.run({}, {}, {global_variables_initializer(graph)});
  for (int t = 0; t < kSteps; ++t) {
    session.run({{g, tensor_of(dtype, {2, 3}, [t](int i) { return slope(t, i); })},
                 {rows, Tensor::vector<std::int32_t>(rows_of(t))},
                 {row_g, tensor_of(dtype, {4, 2}, [t](int i) { return row_slope(t, i); })}},
                {}, {train_op});
    print_variables(session, graph, str_cat("optimizer ", name, " ", dtype_name(dtype), " ", t));
  }
}

template <typename T, typename... Args>
MakeOptimizer always(Args... args) {
  return [=](const Var&) { return std::make_unique<T>(args...); };
}

void print_optimizers() {
  const std::vector<std::pair<std::string, MakeOptimizer>> cases = {
      {"sgd", always<SGD>(0.25)},
      {"momentum", always<Momentum>(0.25, 0.75)},
      {"nesterov", always<Momentum>(0.25, 0.75, MomentumOptions{.use_nesterov = true})},
      {"adam", always<Adam>(0.125, AdamOptions{.beta1 = 0.75, .beta2 = 0.875, .epsilon = 0.0625})},
      {"adam_default", always<Adam>()},
      {"rmsprop", always<RMSProp>(0.125)},
      {"rmsprop_momentum", always<RMSProp>(0.125, RMSPropOptions{.decay = 0.75, .momentum = 0.5, .epsilon = 0.125})},
      {"rmsprop_centered",
       always<RMSProp>(0.125, RMSPropOptions{.decay = 0.75, .momentum = 0.5, .epsilon = 0.125, .centered = true})},
      {"adagrad", always<Adagrad>(0.25, AdagradOptions{.initial_accumulator_value = 0.5})},
      {"adadelta", always<Adadelta>(0.5, AdadeltaOptions{.rho = 0.75, .epsilon = 0.125})},
      {"ftrl", always<Ftrl>(0.25, FtrlOptions{.l1_regularization_strength = 0.25, .l2_regularization_strength = 0.5})},
      {"ftrl_shrinkage", always<Ftrl>(0.25, FtrlOptions{.l2_shrinkage_regularization_strength = 0.125})},
      {"ftrl_beta", always<Ftrl>(0.25, FtrlOptions{.beta = 0.5})},
      {"proximal_gradient_descent", always<ProximalGradientDescent>(0.25, ProximalOptions{0.25, 0.5})},
      {"proximal_adagrad", always<ProximalAdagrad>(0.25, ProximalAdagradOptions{0.5, 0.25, 0.5})},
      {"adagrad_da",
       [](const Var& step) {
         return std::make_unique<AdagradDA>(0.25, step, AdagradDAOptions{0.5, 0.125, 0.25});
       }},
      {"amsgrad", always<AMSGrad>(0.125, AdamOptions{.beta1 = 0.75, .beta2 = 0.5, .epsilon = 0.0625})},
      {"adamw", always<AdamW>(0.125, 0.25, AdamWOptions{.beta1 = 0.75, .beta2 = 0.875, .epsilon = 0.0625})},
      {"adamax", always<Adamax>(0.125, AdamaxOptions{.beta1 = 0.75, .beta2 = 0.875, .epsilon = 0.0625})},
      {"nadam", always<Nadam>(0.125, NadamOptions{.beta1 = 0.75, .beta2 = 0.875, .epsilon = 0.0625})},
  };
  for (const auto& [name, make] : cases) {
    for (DType dtype : {DType::kFloat, DType::kDouble}) train(name, dtype, make);
  }
}

void print_schedules() {
  Graph graph(builtin_ops());
  Output step = placeholder(graph, DType::kInt64, PartialShape::scalar());
  const std::vector<std::pair<std::string, Output>> schedules = {
      {"exponential", exponential_decay(0.5, step, 10, 0.75)},
      {"exponential_staircase", exponential_decay(0.5, step, 10, 0.75, {.staircase = true})},
      {"natural_exp", natural_exp_decay(0.5, step, 10, 0.75)},
      {"natural_exp_staircase", natural_exp_decay(0.5, step, 10, 0.75, {.staircase = true})},
      {"inverse_time", inverse_time_decay(0.5, step, 10, 0.75)},
      {"inverse_time_staircase", inverse_time_decay(0.5, step, 10, 0.75, {.staircase = true})},
      {"piecewise", piecewise_constant(step, {10, 20, 50}, {1, 0.5, 0.25, 0.125})},
      {"polynomial", polynomial_decay(0.5, step, 20, {.end_learning_rate = 0.125, .power = 2})},
      {"polynomial_cycle", polynomial_decay(0.5, step, 20, {.end_learning_rate = 0.125, .cycle = true})},
      {"cosine", cosine_decay(0.5, step, 30, 0.25)},
      {"cosine_restarts", cosine_decay_restarts(0.5, step, 10, {.t_mul = 2, .m_mul = 0.5, .alpha = 0.125})},
      {"cosine_restarts_equal", cosine_decay_restarts(0.5, step, 10, {.t_mul = 1})},
      {"linear_cosine", linear_cosine_decay(0.5, step, 30, {.num_periods = 2, .alpha = 0.125, .beta = 0.0625})},
  };
  LocalSession session(graph);
  for (const auto& [name, rate] : schedules) {
    for (std::int64_t t = 0; t <= 100; t += t < 32 ? 1 : 17) {
      const Tensor value = session.run({{step, Tensor::scalar(t)}}, {rate})[0];
      std::printf("schedule %s %lld%s\n", name.c_str(), static_cast<long long>(t), numbers(value).c_str());
    }
  }
}

void print_clipping() {
  Graph graph(builtin_ops());
  Output x = constant(graph, tensor_of(DType::kDouble, {2, 3}, weight));
  Output y = constant(graph, tensor_of(DType::kDouble, {4}, [](int i) { return slope(1, i); }));
  IndexedSlices rows{constant(graph, tensor_of(DType::kDouble, {4, 2}, [](int i) { return row_slope(0, i); })),
                     constant(graph, Tensor::vector<std::int32_t>(rows_of(1))),
                     constant(graph, Tensor::vector<std::int32_t>({4, 2}))};
  const ClippedGradients tight = clip_by_global_norm({x, y, rows}, 0.5);
  const ClippedGradients loose = clip_by_global_norm({x, y, rows}, 50);
  const std::vector<std::pair<std::string, Output>> values = {
      {"clip_by_value", clip_by_value(x, -0.75, 0.25)},
      {"clip_by_norm", clip_by_norm(x, 0.5)},
      {"clip_by_norm_loose", clip_by_norm(x, 50)},
      {"clip_by_norm_axis", clip_by_norm(x, 0.5, Ints{1})},
      {"clip_by_average_norm", clip_by_average_norm(x, 0.125)},
      {"global_norm", global_norm({x, y, rows})},
      {"clip_by_global_norm_x", tight.gradients[0].dense()},
      {"clip_by_global_norm_rows", tight.gradients[2].slices().values},
      {"clip_by_global_norm_loose", loose.gradients[1].dense()},
      {"clip_by_global_norm_norm", tight.global_norm},
  };
  LocalSession session(graph);
  for (const auto& [name, value] : values) {
    std::printf("value %s%s\n", name.c_str(), numbers(session.run({}, {value})[0]).c_str());
  }
}

// An average of a variable, and one of a value, with its bias and without.
void print_averages(const std::string& name, DType dtype, bool with_updates) {
  Graph graph(builtin_ops());
  Var w = variable(graph, tensor_of(dtype, {3}, weight), "w");
  Output x = placeholder(graph, dtype, PartialShape{3}, "x");
  Output count = placeholder(graph, DType::kInt64, PartialShape::scalar());
  const Output updates = with_updates ? count : Output();
  ExponentialMovingAverage averages(0.9, {.num_updates = updates});
  ExponentialMovingAverage unbiased(0.9, {.num_updates = updates, .zero_debias = true}, "Unbiased");
  Node* change = w.assign_add(x);
  Node* moves = nullptr;
  {
    ScopeGuard wait = graph.control_dependencies({change});
    moves = group(graph, {averages.apply({w}), averages.apply_to_values({x}), unbiased.apply_to_values({x})});
  }
  LocalSession session(graph);
  session.run({}, {}, {global_variables_initializer(graph)});
  for (int t = 0; t < kSteps; ++t) {
    session.run({{x, tensor_of(dtype, {3}, [t](int i) { return slope(t, i); })},
                 {count, Tensor::scalar(static_cast<std::int64_t>(3 * t))}},
                {}, {moves});
    print_variables(session, graph, str_cat("average ", name, " ", t));
  }
}

void print_parts() {
  Graph graph(builtin_ops());
  PartitionedVar rows =
      partitioned_variable(graph, tensor_of(DType::kFloat, {5, 2}, weight), "rows", fixed_size_partitioner(3));
  PartitionedVar columns =
      partitioned_variable(graph, tensor_of(DType::kFloat, {2, 7}, weight), "columns", fixed_size_partitioner(2, 1));
  ScopeGuard scope = graph.name_scope("train");
  Adam().minimize(reduce_sum(square(rows)) + reduce_sum(square(columns)));
  for (const Var& variable : global_variables(graph)) {
    const std::optional<SliceInfo> info = slice_info(variable);
    std::printf("part %s %s %s\n", variable.name().c_str(), info ? info->full_name.c_str() : "-",
                info ? info->spec().c_str() : "");
  }
  const std::vector<std::pair<std::string, Partitioner>> partitioners = {
      {"fixed", fixed_size_partitioner(3)},
      {"min_max", min_max_variable_partitioner({.max_partitions = 20, .min_slice_size = 1000})},
      {"axis_size", variable_axis_size_partitioner({.max_shard_bytes = 1000})},
      {"axis_size_capped", variable_axis_size_partitioner({.max_shard_bytes = 1000, .max_shards = 4})},
  };
  for (const auto& [name, partitioner] : partitioners) {
    std::string counts;
    for (std::int64_t n = 1; n <= 200; n += 7) {
      counts += str_cat(" ", partitioner({n, 33}, DType::kFloat)[0], " ", partitioner({n}, DType::kString)[0]);
    }
    std::printf("partitioner %s%s\n", name.c_str(), counts.c_str());
  }
}

int run() {
  try {
    print_optimizers();
    print_schedules();
    print_clipping();
    print_averages("float", DType::kFloat, false);
    print_averages("double", DType::kDouble, false);
    print_averages("updates", DType::kFloat, true);
    print_parts();
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace tutti::interop

int main() { return tutti::interop::run(); }
