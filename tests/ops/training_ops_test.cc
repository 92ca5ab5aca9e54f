// Optimiser updates, on reference and resource variables, against the formulas written out element by element.

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "tests/support/simd_targets.h"
#include "tutti/kernels/resources/variable.h"
#include "tutti/ops/op_evaluator.h"
#include "tutti/ops/op_table.h"

namespace tutti::training_ops_test {

using State = std::map<std::string, double>;  // one element of everything, by the op's input names

// The update of one element: reads "grad" and scalars, changes the states in place.
struct Rule {
  std::string name;  // behind "Apply"
  std::vector<std::string> states;
  std::function<void(State&)> update;
  AttrMap attrs = {};
  bool resource_only = false;
};

double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

void ftrl(State& s, double shrinkage, bool by_lr) {
  const double g = s["grad"], p = -s["lr_power"], lr = s["lr"];
  const double used = g + 2 * shrinkage * s["var"];
  const double next = s["accum"] + g * g;
  const double sigma = std::pow(next, p) - std::pow(s["accum"], p);
  s["linear"] += by_lr ? used * lr - sigma * s["var"] : used - sigma / lr * s["var"];
  const double l1 = by_lr ? s["l1"] * lr : s["l1"];
  const double quadratic = by_lr ? std::pow(next, p) + 2 * s["l2"] * lr : std::pow(next, p) / lr + 2 * s["l2"];
  s["var"] = std::abs(s["linear"]) > l1 ? (sign(s["linear"]) * l1 - s["linear"]) / quadratic : 0;
  s["accum"] = next;
}

double shrunk(const State& s, double x, double rate) {
  return sign(x) * std::max(std::abs(x) - rate * s.at("l1"), 0.0) / (1 + rate * s.at("l2"));
}

// The sparse form calls its gradient otherwise.
void proximal_descent(State& s) {
  const double g = s.contains("delta") ? s["delta"] : s["grad"];
  s["var"] = shrunk(s, s["var"] - s["alpha"] * g, s["alpha"]);
}

void proximal_adagrad(State& s) {
  s["accum"] += s["grad"] * s["grad"];
  const double rate = s["lr"] / std::sqrt(s["accum"]);
  s["var"] = shrunk(s, s["var"] - rate * s["grad"], rate);
}

void adam(State& s, bool nesterov) {
  const double g = s["grad"];
  const double alpha = s["lr"] * std::sqrt(1 - s["beta2_power"]) / (1 - s["beta1_power"]);
  s["m"] = s["beta1"] * s["m"] + (1 - s["beta1"]) * g;
  s["v"] = s["beta2"] * s["v"] + (1 - s["beta2"]) * g * g;
  const double top = nesterov ? g * (1 - s["beta1"]) + s["beta1"] * s["m"] : s["m"];
  s["var"] -= alpha * top / (std::sqrt(s["v"]) + s["epsilon"]);
}

void momentum(State& s, bool nesterov) {
  s["accum"] = s["accum"] * s["momentum"] + s["grad"];
  s["var"] -= nesterov ? s["lr"] * s["grad"] + s["lr"] * s["momentum"] * s["accum"] : s["lr"] * s["accum"];
}

void keras_momentum(State& s, bool nesterov) {
  s["accum"] = s["accum"] * s["momentum"] - s["lr"] * s["grad"];
  s["var"] += nesterov ? s["accum"] * s["momentum"] - s["lr"] * s["grad"] : s["accum"];
}

void adagrad(State& s, bool update, double epsilon) {
  if (update) s["accum"] += s["grad"] * s["grad"];
  s["var"] -= s["lr"] * s["grad"] / (std::sqrt(s["accum"]) + epsilon);
}

void rms_prop(State& s, bool centered) {
  const double g = s["grad"], rest = 1 - s["rho"];
  s["ms"] += (g * g - s["ms"]) * rest;
  double variance = s["ms"];
  if (centered) {
    s["mg"] += (g - s["mg"]) * rest;
    variance -= s["mg"] * s["mg"];
  }
  s["mom"] = s["mom"] * s["momentum"] + s["lr"] * g / std::sqrt(variance + s["epsilon"]);
  s["var"] -= s["mom"];
}

void adadelta(State& s) {
  const double g = s["grad"], rho = s["rho"], e = s["epsilon"];
  s["accum"] = rho * s["accum"] + (1 - rho) * g * g;
  const double step = std::sqrt(s["accum_update"] + e) / std::sqrt(s["accum"] + e) * g;
  s["var"] -= s["lr"] * step;
  s["accum_update"] = rho * s["accum_update"] + (1 - rho) * step * step;
}

void adagrad_da(State& s) {
  double& sum = s["gradient_accumulator"];
  double& squares = s["gradient_squared_accumulator"];
  sum += s["grad"];
  squares += s["grad"] * s["grad"];
  const double t = s["global_step"];
  s["var"] =
      -s["lr"] * sign(sum) * std::max(std::abs(sum) - s["l1"] * t, 0.0) / (s["l2"] * t * s["lr"] + std::sqrt(squares));
}

// Of the gradient and its running mean, which this makes.
double agreement(State& s) {
  s["m"] = s["beta"] * s["m"] + (1 - s["beta"]) * s["grad"];
  return s["sign_decay"] * sign(s["grad"]) * sign(s["m"]);
}

std::vector<Rule> rules() {
  const AttrMap nesterov{{"use_nesterov", true}}, frozen{{"update_slots", false}},
      by_lr{{"multiply_linear_by_lr", true}};
  return {
      {"GradientDescent", {"var"}, [](State& s) { s["var"] -= s["alpha"] * s["delta"]; }},
      {"ProximalGradientDescent", {"var"}, proximal_descent},
      {"Momentum", {"var", "accum"}, [](State& s) { momentum(s, false); }},
      {"Momentum", {"var", "accum"}, [](State& s) { momentum(s, true); }, nesterov},
      {"KerasMomentum", {"var", "accum"}, [](State& s) { keras_momentum(s, false); }, {}, true},
      {"KerasMomentum", {"var", "accum"}, [](State& s) { keras_momentum(s, true); }, nesterov, true},
      {"Adam", {"var", "m", "v"}, [](State& s) { adam(s, false); }},
      {"Adam", {"var", "m", "v"}, [](State& s) { adam(s, true); }, nesterov},
      {"AdamWithAmsgrad",
       {"var", "m", "v", "vhat"},
       [](State& s) {
         const double g = s["grad"];
         s["m"] = s["beta1"] * s["m"] + (1 - s["beta1"]) * g;
         s["v"] = s["beta2"] * s["v"] + (1 - s["beta2"]) * g * g;
         s["vhat"] = std::max(s["vhat"], s["v"]);
         s["var"] -= s["lr"] * std::sqrt(1 - s["beta2_power"]) / (1 - s["beta1_power"]) * s["m"] /
                     (std::sqrt(s["vhat"]) + s["epsilon"]);
       },
       {},
       true},
      {"AdaMax",
       {"var", "m", "v"},
       [](State& s) {
         s["m"] += (s["grad"] - s["m"]) * (1 - s["beta1"]);
         s["v"] = std::max(s["beta2"] * s["v"], std::abs(s["grad"]));
         s["var"] -= s["lr"] / (1 - s["beta1_power"]) * s["m"] / (s["v"] + s["epsilon"]);
       }},
      {"RMSProp", {"var", "ms", "mom"}, [](State& s) { rms_prop(s, false); }},
      {"CenteredRMSProp", {"var", "mg", "ms", "mom"}, [](State& s) { rms_prop(s, true); }},
      {"Adagrad", {"var", "accum"}, [](State& s) { adagrad(s, true, 0); }},
      {"Adagrad", {"var", "accum"}, [](State& s) { adagrad(s, false, 0); }, frozen},
      {"AdagradV2", {"var", "accum"}, [](State& s) { adagrad(s, true, s["epsilon"]); }},
      {"ProximalAdagrad", {"var", "accum"}, proximal_adagrad},
      {"Adadelta", {"var", "accum", "accum_update"}, adadelta},
      {"Ftrl", {"var", "accum", "linear"}, [](State& s) { ftrl(s, 0, false); }},
      {"Ftrl", {"var", "accum", "linear"}, [](State& s) { ftrl(s, 0, true); }, by_lr},
      {"FtrlV2", {"var", "accum", "linear"}, [](State& s) { ftrl(s, s["l2_shrinkage"], false); }},
      {"AdagradDA", {"var", "gradient_accumulator", "gradient_squared_accumulator"}, adagrad_da},
      {"AddSign", {"var", "m"}, [](State& s) { s["var"] -= s["lr"] * (s["alpha"] + agreement(s)) * s["grad"]; }},
      {"PowerSign",
       {"var", "m"},
       [](State& s) { s["var"] -= s["lr"] * std::exp(s["logbase"] * agreement(s)) * s["grad"]; }},
  };
}

const std::map<std::string, double> kScalars = {
    {"alpha", 0.1},         {"lr", 0.05},        {"momentum", 0.9},      {"beta1_power", 0.729},
    {"beta2_power", 0.997}, {"beta1", 0.9},      {"beta2", 0.999},       {"rho", 0.9},
    {"l1", 0.02},           {"l2", 0.03},        {"l2_shrinkage", 0.01}, {"lr_power", -0.5},
    {"beta", 0.9},          {"sign_decay", 0.7}, {"logbase", 0.8},       {"global_step", 3}};
// Large enough to tell where it is added.
constexpr double kEpsilon = 0.01;

double scalar_of(const std::string& name, double power) {
  if (name == "epsilon") return kEpsilon;
  if (name == "lr_power") return power;
  return kScalars.at(name);
}

Tensor as(DType dtype, const Tensor& doubles) {
  return (*evaluate_op(*builtin_ops(), "Cast", {{"DstT", dtype}}, {doubles}))[0];
}

std::vector<double> doubles(const Tensor& tensor) {
  const Tensor wide = as(DType::kDouble, tensor);
  return {wide.data<double>(), wide.data<double>() + wide.num_elements()};
}

class Scope : public StepScope {
 public:
  Scope() {
    cancellation = &own_;
    allocator = &heap_allocator();
    team = &two_;
  }
  ResourceStore& step_resources() override { TUTTI_CHECK(false, "not needed here"); }

 private:
  Cancellation own_;
  Team two_{2};
};

std::shared_ptr<ResourceSlot> make_slot(const std::string& name, const Tensor& value) {
  auto slot = std::make_shared<ResourceSlot>("localhost", name);
  auto variable = std::make_shared<Variable>(value.dtype());
  variable->assign(value);
  slot->get_or_create([&] { return variable; });
  return slot;
}

// Runs a kernel by itself: variables by slot (as references or resources), the other inputs by value.
Status run_apply(const std::string& op, const AttrMap& given, DType dtype,
                 const std::vector<std::shared_ptr<ResourceSlot>>& slots, const std::vector<Tensor>& rest,
                 std::shared_ptr<ResourceSlot>* returned = nullptr) {
  std::shared_ptr<const OpTable> table = builtin_ops();
  const OpDef* def = table->registry()->find(op);
  if (def == nullptr) return not_found(op);
  AttrMap attrs = given;
  attrs["T"] = dtype;
  if (def->find_attr("Tindices") != nullptr) attrs["Tindices"] = DType::kInt32;
  TUTTI_RETURN_IF_ERROR(complete_attrs(*def, &attrs));
  std::vector<EdgeType> in, out;
  TUTTI_RETURN_IF_ERROR(resolve_types(*def, attrs, &in, &out));
  TUTTI_CHECK(in.size() == slots.size() + rest.size(), op);

  std::vector<Value> values;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (in[i].is_ref) {
      values.push_back({Tensor(), slots[i]});
    } else {
      values.push_back({Tensor::scalar(ResourceHandle("", slots[i])), nullptr});
    }
  }
  for (const Tensor& tensor : rest) values.push_back({tensor, nullptr});
  std::vector<std::uint32_t> index(values.size());
  for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<std::uint32_t>(i);
  Value output;
  const DType output_type = dtype;
  const KernelEntry* entry = table->find_kernel(op, attrs, kCpu);
  if (entry == nullptr) return unimplemented(op, " has no kernel for ", dtype_name(dtype));
  KernelInit init{.node = op, .op = op, .attrs = attrs, .input_types = in, .output_types = out};
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, entry->make(init));
  Scope scope;
  KernelContext context(scope, {.slots = values.data(),
                                .input_index = index.data(),
                                .outputs = &output,
                                .output_types = &output_type,
                                .num_inputs = static_cast<int>(values.size()),
                                .num_outputs = static_cast<int>(out.size())});
  TUTTI_RETURN_IF_ERROR(kernel->compute(context));
  if (returned != nullptr) *returned = output.ref;
  return {};
}

Tensor current(const std::shared_ptr<ResourceSlot>& slot) { return variable_in(*slot)->read(); }

// One problem: states and gradient of `shape`, run through an op and through the formula.
class Comparison {
 public:
  Comparison(const Rule& rule, const std::string& op, DType dtype, const Shape& shape, double power)
      : rule_(rule), op_(op), dtype_(dtype), power_(power), def_(builtin_ops()->registry()->find(op)) {
    std::mt19937 engine(5);
    for (const std::string& state : rule.states) {
      Tensor value(DType::kDouble, shape);
      // Accumulators of squares are positive.
      const bool positive = state != "var" && state != "linear" && state != "m" && state != "mom" && state != "mg" &&
                            state != "gradient_accumulator";
      // The mean gradient is small beside the mean square, or the variance would be negative.
      const double scale = state == "mg" ? 0.2 : 1;
      for (double& x : value.flat<double>()) {
        x = scale * std::uniform_real_distribution<double>(positive ? 0.5 : -1, 1.5)(engine);
      }
      initial_.push_back(as(dtype, value));
      slots_.push_back(make_slot(state, initial_.back()));
    }
    Tensor grad(DType::kDouble, shape);
    for (double& x : grad.flat<double>()) x = std::uniform_real_distribution<double>(-1, 1)(engine);
    grad_ = as(dtype, grad);
  }

  void run(const Tensor& indices = {}) {
    std::vector<Tensor> rest;
    for (std::size_t i = rule_.states.size(); i < def_->inputs.size(); ++i) {
      const std::string& name = def_->inputs[i].name;
      if (name == "grad" || name == "delta") {
        rest.push_back(indices.has_value() ? grad_.slice(0, indices.dim(0)) : grad_);
      } else if (name == "indices") {
        rest.push_back(indices);
      } else if (name == "global_step") {
        rest.push_back(Tensor::scalar(static_cast<std::int64_t>(kScalars.at(name))));
      } else {
        rest.push_back(as(dtype_, Tensor::scalar(scalar_of(name, power_))));
      }
    }
    std::shared_ptr<ResourceSlot> returned;
    const Status status = run_apply(op_, rule_.attrs, dtype_, slots_, rest, &returned);
    ASSERT_TRUE(status.ok()) << op_ << ": " << status.to_string();
    if (def_->outputs.size() == 1) {
      EXPECT_EQ(returned, slots_[0]) << op_;
    }
    compare(indices);
  }

 private:
  void compare(const Tensor& indices) {
    std::vector<std::vector<double>> want;
    for (const Tensor& state : initial_) want.push_back(doubles(state));
    const std::vector<double> grads = doubles(grad_);
    const std::int64_t row = indices.has_value() ? grad_.num_elements() / grad_.dim(0) : grad_.num_elements();
    const std::int64_t rows = indices.has_value() ? indices.num_elements() : 1;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t at = indices.has_value() ? indices.data<std::int32_t>()[r] * row : 0;
      for (std::int64_t i = 0; i < row; ++i) update_one(want, at + i, grads[static_cast<std::size_t>(r * row + i)]);
    }
    const bool wide = dtype_ == DType::kDouble || dtype_ == DType::kComplex128;
    const double tolerance = wide ? 1e-12 : dtype_size(dtype_) == 2 ? 2e-2 : 2e-6;
    for (std::size_t s = 0; s < want.size(); ++s) {
      const std::vector<double> got = doubles(current(slots_[s]));
      double error = 0, norm = 1e-6;
      for (std::size_t i = 0; i < got.size(); ++i) {
        error += std::pow(got[i] - want[s][i], 2);
        norm += want[s][i] * want[s][i];
      }
      EXPECT_LE(std::sqrt(error / norm), tolerance) << op_ << " of " << dtype_name(dtype_) << ", " << rule_.states[s];
    }
  }

  void update_one(std::vector<std::vector<double>>& states, std::int64_t at, double grad) {
    State s;
    for (std::size_t k = 0; k < states.size(); ++k) s[rule_.states[k]] = states[k][static_cast<std::size_t>(at)];
    for (const ArgDef& input : def_->inputs) {
      const bool is_state = std::find(rule_.states.begin(), rule_.states.end(), input.name) != rule_.states.end();
      if (is_state || input.name == "indices") continue;
      const bool is_grad = input.name == "grad" || input.name == "delta";
      s[input.name] = is_grad ? grad : scalar_of(input.name, power_);
    }
    rule_.update(s);
    for (std::size_t k = 0; k < states.size(); ++k) states[k][static_cast<std::size_t>(at)] = s[rule_.states[k]];
  }

  const Rule& rule_;
  const std::string op_;
  const DType dtype_;
  const double power_;
  const OpDef* def_;
  std::vector<Tensor> initial_;
  std::vector<std::shared_ptr<ResourceSlot>> slots_;
  Tensor grad_;
};

// Complex where TensorFlow has it. Here without imaginary parts: the formulas are of real numbers.
std::vector<DType> types_of(const Rule& rule) {
  static const std::set<std::string> kComplex{"GradientDescent", "Momentum", "KerasMomentum", "Adam",    "RMSProp",
                                              "CenteredRMSProp", "Adagrad",  "AdagradV2",     "Adadelta"};
  std::vector<DType> types{DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16};
  if (kComplex.contains(rule.name)) types.insert(types.end(), {DType::kComplex64, DType::kComplex128});
  return types;
}

void check_dense_forms() {
  for (const Rule& rule : rules()) {
    for (DType dtype : types_of(rule)) {
      for (const Shape& shape : {Shape{}, Shape{7}, Shape{3, 11}, Shape{0, 4}, Shape{1030}, Shape{80, 500}}) {
        // Enough for two threads; once is enough.
        if (shape.num_elements() > 2000 && (dtype != DType::kFloat || rule.name != "Adam")) continue;
        if (!rule.resource_only) Comparison(rule, "Apply" + rule.name, dtype, shape, -0.5).run();
        Comparison(rule, "ResourceApply" + rule.name, dtype, shape, -0.5).run();
      }
    }
  }
}

TEST(TrainingOps, DenseFormsFollowTheFormula) { testing::for_each_simd_target(check_dense_forms); }

TEST(TrainingOps, SparseFormsChangeTheListedRowsInOrder) {
  const Tensor indices = Tensor::vector<std::int32_t>({4, 0, 4, 2});
  for (const Rule& rule : rules()) {
    if (builtin_ops()->registry()->find("ResourceSparseApply" + rule.name) == nullptr) continue;
    for (DType dtype : types_of(rule)) {
      if (dtype == DType::kHalf || dtype == DType::kBfloat16) continue;
      if (!rule.resource_only) Comparison(rule, "SparseApply" + rule.name, dtype, {6, 19}, -0.5).run(indices);
      Comparison(rule, "ResourceSparseApply" + rule.name, dtype, {6, 19}, -0.5).run(indices);
    }
  }
}

// Enough for two threads, most rows several times.
TEST(TrainingOps, ManyRowsKeepTheOrderOfRepeatedIndices) {
  std::mt19937 engine(3);
  Tensor indices(DType::kInt32, {700});
  for (std::int32_t& index : indices.flat<std::int32_t>()) index = static_cast<std::int32_t>(engine() % 150);
  for (const Rule& rule : rules()) {
    if (rule.name != "Adagrad" && rule.name != "Momentum") continue;
    Comparison(rule, "ResourceSparseApply" + rule.name, DType::kFloat, {700, 80}, -0.5).run(indices);
  }
}

TEST(TrainingOps, FtrlTakesAnyPower) {
  testing::for_each_simd_target([] {
    for (const Rule& rule : rules()) {
      if (!rule.name.starts_with("Ftrl")) continue;
      for (const double power : {-0.7, -1.0, 0.0}) {
        Comparison(rule, "ResourceApply" + rule.name, DType::kDouble, {40}, power).run();
      }
    }
  });
}

std::vector<std::shared_ptr<ResourceSlot>> ftrl_slots(const std::vector<double>& var, const std::vector<double>& accum,
                                                      const std::vector<double>& linear) {
  return {make_slot("var", Tensor::vector<double>(var)), make_slot("accum", Tensor::vector<double>(accum)),
          make_slot("linear", Tensor::vector<double>(linear))};
}

std::vector<Tensor> scalars(const std::vector<double>& values) {
  std::vector<Tensor> tensors;
  for (const double value : values) tensors.push_back(Tensor::scalar(value));
  return tensors;
}

void expect_near(const std::shared_ptr<ResourceSlot>& slot, const std::vector<double>& want) {
  const std::vector<double> got = doubles(current(slot));
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << slot->name() << " " << i;
}

// Zero to the power of zero is one. TensorFlow 2.15's numbers.
TEST(TrainingOps, FtrlOfAnEmptyAccumulator) {
  std::vector<Tensor> rest{Tensor::vector<double>({0.1, 0})};
  for (const Tensor& scalar : scalars({0.1, 0.1, 0.1, 0})) rest.push_back(scalar);
  const auto slots = ftrl_slots({1, 2}, {0, 0}, {0.5, 0.5});
  ASSERT_TRUE(run_apply("ResourceApplyFtrl", {}, DType::kDouble, slots, rest).ok());
  expect_near(slots[0], {-0.0490196086, -0.0392156877});
  expect_near(slots[2], {0.6, 0.5});
}

// The dense form takes a negative l1 too, and counts with it. TensorFlow 2.15's numbers; without a sum there is nothing
// to move.
TEST(TrainingOps, FtrlWithANegativePenalty) {
  std::vector<Tensor> rest{Tensor::vector<double>({0.1, 0, 0})};
  for (const Tensor& scalar : scalars({0.1, -1, 0.1, -0.5})) rest.push_back(scalar);
  const auto slots = ftrl_slots({1, 2, 3}, {1, 1, 1}, {0.5, 0.5, 0});
  ASSERT_TRUE(run_apply("ResourceApplyFtrl", {}, DType::kDouble, slots, rest).ok());
  expect_near(slots[0], {-0.151233449, -0.147058829, 0});
}

// TensorFlow 2.15's numbers.
TEST(TrainingOps, ComplexVariables) {
  using C = std::complex<double>;
  const auto one = [](C value) { return Tensor::scalar(value); };
  const auto slot = [](const std::string& name, C a, C b) { return make_slot(name, Tensor::vector<C>({a, b})); };
  const auto expect = [](const std::shared_ptr<ResourceSlot>& slot, C a, C b) {
    const Tensor value = current(slot);
    EXPECT_NEAR(std::abs(value.data<C>()[0] - a), 0, 1e-12) << slot->name() << " " << value.data<C>()[0];
    EXPECT_NEAR(std::abs(value.data<C>()[1] - b), 0, 1e-12) << slot->name() << " " << value.data<C>()[1];
  };
  const Tensor grad = Tensor::vector<C>({{1, 2}, {-1, -1}}), lr = one({0.1, 0.2});
  auto var = slot("var", {1, 1}, {2, -1}), accum = slot("accum", {0.5, 0.25}, {0.5, -1});
  ASSERT_TRUE(run_apply("ResourceApplyAdagrad", {}, DType::kComplex128, {var, accum}, {lr, grad}).ok());
  expect(var, {0.9107077030348005, 0.7932903041485039}, {2.0687121499445027, -0.7089306619549289});
  expect(accum, {-2.5, 4.25}, {0.5, 1});
  var = slot("var", {1, 1}, {2, -1}), accum = slot("accum", {0.5, 0.25}, {0.5, -1});
  ASSERT_TRUE(run_apply("ResourceApplyMomentum", {{"use_nesterov", true}}, DType::kComplex128, {var, accum},
                        {lr, grad, one({0.5, 0.5})})
                  .ok());
  expect(var, {1.7125, 0.55}, {1.7, -0.725});
  expect(accum, {1.125, 2.375}, {-0.25, -1.25});
  var = slot("var", {1, 1}, {2, -1});
  const auto m = slot("m", {0.5, 0.25}, {0.5, -1}), v = slot("v", 1, {0, 1});
  ASSERT_TRUE(run_apply("ResourceApplyAdam", {}, DType::kComplex128, {var, m, v},
                        {one(0.5), one({0.25, 0.5}), one(0.1), one({0.5, 0.1}), one(0.75), one({0, 0.1}), grad})
                  .ok());
  expect(var, {0.7591709625284133, 1.0705796729256436}, {2.139773296675377, -0.9794565722480315});
  expect(m, {0.925, 1.075}, {-0.25, -0.85});
  expect(v, {0, 1}, {0, 1.25});
}

// A reader keeps the version that it read.
TEST(TrainingOps, UpdatesDoNotTouchPinnedVersions) {
  auto slot = make_slot("w", Tensor::vector<float>({1, 2, 3}));
  const Tensor before = current(slot);
  ASSERT_TRUE(run_apply("ResourceApplyGradientDescent", {}, DType::kFloat, {slot},
                        {Tensor::scalar(1.0f), Tensor::vector<float>({1, 1, 1})})
                  .ok());
  EXPECT_TRUE(bitwise_equal(before, Tensor::vector<float>({1, 2, 3})));
  EXPECT_TRUE(bitwise_equal(current(slot), Tensor::vector<float>({0, 1, 2})));
}

void expect_refused(const Status& status, Code code, const std::vector<std::string>& words) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  for (const std::string& word : words)
    EXPECT_NE(status.message().find(word), std::string::npos) << status.to_string() << " lacks " << word;
}

TEST(TrainingOps, Refusals) {
  const Tensor lr = Tensor::scalar(0.1f), grad = Tensor::vector<float>({1, 2});
  auto var = make_slot("dense/kernel", Tensor::vector<float>({1, 2}));
  auto accum = make_slot("dense/kernel/Momentum", Tensor::vector<float>({1, 2, 3}));
  auto empty = std::make_shared<ResourceSlot>("localhost", "never/assigned");
  auto wide = make_slot("wide", Tensor::vector<double>({1, 2}));
  const std::string op = "ResourceApplyGradientDescent";
  expect_refused(run_apply(op, {}, DType::kFloat, {empty}, {lr, grad}), Code::kFailedPrecondition, {"never/assigned"});
  expect_refused(run_apply(op, {}, DType::kFloat, {var}, {lr, Tensor::vector<float>({1})}), Code::kInvalidArgument,
                 {"[2]", "[1]"});
  expect_refused(run_apply(op, {}, DType::kFloat, {var}, {grad, grad}), Code::kInvalidArgument, {"scalar", "[2]"});
  expect_refused(run_apply(op, {}, DType::kFloat, {wide}, {lr, grad}), Code::kInvalidArgument,
                 {"wide", "double", "float"});
  expect_refused(run_apply("ResourceApplyMomentum", {}, DType::kFloat, {var, accum}, {lr, grad, lr}),
                 Code::kInvalidArgument, {"dense/kernel/Momentum", "[2]", "[3]"});
  expect_refused(run_apply("ApplyMomentum", {}, DType::kFloat, {var, var}, {lr, grad, lr}), Code::kInvalidArgument, {});
  auto table = make_slot("table", Tensor(DType::kFloat, {3, 2}));
  auto slots = make_slot("slots", Tensor(DType::kFloat, {3, 2}));
  const std::string sparse = "ResourceSparseApplyAdagrad";
  expect_refused(run_apply(sparse, {}, DType::kFloat, {table, slots},
                           {lr, Tensor(DType::kFloat, {1, 2}), Tensor::vector<std::int32_t>({3})}),
                 Code::kInvalidArgument, {"Index 3 at offset 0 in indices is out of range"});
  expect_refused(run_apply(sparse, {}, DType::kFloat, {table, slots},
                           {lr, Tensor(DType::kFloat, {1, 5}), Tensor::vector<std::int32_t>({0})}),
                 Code::kInvalidArgument, {"[1,5]", "[3,2]"});
  // A refused update leaves the variable as it was, and usable.
  EXPECT_TRUE(bitwise_equal(current(var), Tensor::vector<float>({1, 2})));
  EXPECT_TRUE(run_apply(op, {}, DType::kFloat, {var}, {lr, grad}).ok());
}

// Which scalars TensorFlow 2.15 refuses, and in which forms: those of rows, and of ProximalAdagrad all.
TEST(TrainingOps, ScalarsOfNoMeaningAreRefused) {
  const double nan = std::nan("");
  const Tensor grad = Tensor::vector<double>({0.1, 0}), rows = Tensor::vector<std::int32_t>({0, 1});
  const auto ftrl = [&](bool sparse, const std::vector<double>& values, bool by_lr = false) {
    std::vector<Tensor> rest{grad};
    if (sparse) rest.push_back(rows);
    for (const Tensor& scalar : scalars(values)) rest.push_back(scalar);
    return run_apply(str_cat(sparse ? "ResourceSparseApply" : "ResourceApply", values.size() > 4 ? "FtrlV2" : "Ftrl"),
                     {{"multiply_linear_by_lr", by_lr}}, DType::kDouble, ftrl_slots({1, 2}, {1, 1}, {1, 1}), rest);
  };
  const auto adagrad = [&](bool sparse, const std::vector<double>& values) {
    std::vector<Tensor> rest = scalars(values);
    rest.push_back(grad);
    if (sparse) rest.push_back(rows);
    auto slots = ftrl_slots({1, 2}, {1, 1}, {});
    slots.pop_back();
    return run_apply(sparse ? "ResourceSparseApplyProximalAdagrad" : "ResourceApplyProximalAdagrad", {}, DType::kDouble,
                     slots, rest);
  };
  const Code bad = Code::kInvalidArgument;
  for (const double lr : {0.0, -1.0, nan}) {
    expect_refused(ftrl(true, {lr, 0.1, 0.1, -0.5}), bad, {"lr is not a positive scalar"});
    expect_refused(adagrad(false, {lr, 0.1, 0.1}), bad, {"lr is not a positive scalar"});
    expect_refused(adagrad(true, {lr, 0.1, 0.1}), bad, {"lr is not a positive scalar"});
    EXPECT_TRUE(ftrl(false, {lr, 0.1, 0.1, -0.5}).ok());
  }
  EXPECT_TRUE(ftrl(true, {0, 0.1, 0.1, -0.5}, true).ok()) << "nothing is divided by it";
  expect_refused(ftrl(true, {-1, 0.1, 0.1, -0.5}, true), bad, {"lr", "-1"});
  expect_refused(ftrl(true, {0.1, -1, 0.1, -0.5}), bad, {"l1", "-1"});
  expect_refused(ftrl(true, {0.1, 0.1, -1, -0.5}), bad, {"l2", "-1"});
  expect_refused(ftrl(true, {0.1, 0.1, 0.1, 0.5}), bad, {"lr_power", "0.5"});
  expect_refused(ftrl(true, {0.1, 0.1, 0.1, -1, -0.5}), bad, {"l2 shrinkage", "-1"});
  expect_refused(adagrad(false, {0.1, -1, 0.1}), bad, {"l1", "-1"});
  expect_refused(adagrad(true, {0.1, 0.1, -1}), bad, {"l2", "-1"});
  EXPECT_TRUE(ftrl(false, {0.1, -1, -1, -1, 0.5}).ok());
  EXPECT_TRUE(ftrl(true, {0.1, 0, 0, 0, 0}).ok());
}

}  // namespace tutti::training_ops_test
