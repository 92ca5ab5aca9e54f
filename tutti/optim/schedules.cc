#include "tutti/optim/schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tutti/ops/array.h"
#include "tutti/ops/math.h"

namespace tutti {
namespace {

// What the functions share: an open name scope, and their arguments as values of one type.
class Formula {
 public:
  Formula(const std::string& name, const char* otherwise, const Hyper& learning_rate, Output step)
      : graph_(graph_of(step, otherwise)), scope_(graph_.name_scope(name.empty() ? otherwise : name)) {
    dtype_ = learning_rate.value() ? learning_rate.value().dtype() : DType::kFloat;
    rate = in(learning_rate, "learning_rate");
    this->step = cast(step, dtype_);
  }

  Output in(const Hyper& value, const char* name) const { return value.in(graph_, dtype_, name); }

  Output rate, step;

 private:
  static Graph& graph_of(Output step, const char* what) {
    if (!step) throw_error(invalid_argument(what, ": the step is empty"));
    return step.graph();
  }

  Graph& graph_;
  ScopeGuard scope_;
  DType dtype_ = DType::kFloat;
};

Output periods(const Formula& f, const Hyper& decay_steps, bool staircase) {
  Output passed = f.step / f.in(decay_steps, "decay_steps");
  return staircase ? floor(passed) : passed;
}

// 1 at 0 and at 2, 0 at 1 and at 3.
Output half_cosine(Output x) { return 0.5 * (1.0 + cos(x * std::numbers::pi)); }

}  // namespace

Output exponential_decay(const Hyper& learning_rate, Output step, const Hyper& decay_steps, const Hyper& decay_rate,
                         const DecayOptions& options) {
  Formula f(options.name, "ExponentialDecay", learning_rate, step);
  return f.rate * pow(f.in(decay_rate, "decay_rate"), periods(f, decay_steps, options.staircase));
}

Output natural_exp_decay(const Hyper& learning_rate, Output step, const Hyper& decay_steps, const Hyper& decay_rate,
                         const DecayOptions& options) {
  Formula f(options.name, "NaturalExpDecay", learning_rate, step);
  return f.rate * exp(neg(f.in(decay_rate, "decay_rate")) * periods(f, decay_steps, options.staircase));
}

Output inverse_time_decay(const Hyper& learning_rate, Output step, const Hyper& decay_steps, const Hyper& decay_rate,
                          const DecayOptions& options) {
  Formula f(options.name, "InverseTimeDecay", learning_rate, step);
  return f.rate / (1.0 + f.in(decay_rate, "decay_rate") * periods(f, decay_steps, options.staircase));
}

Output piecewise_constant(Output step, const std::vector<double>& boundaries, const std::vector<double>& values,
                          DType dtype, const std::string& name) {
  if (values.size() != boundaries.size() + 1 || !std::is_sorted(boundaries.begin(), boundaries.end())) {
    throw_error(invalid_argument("piecewise_constant: boundaries [", str_join(boundaries, ", "),
                                 "] must rise and values [", str_join(values, ", "), "] be one more"));
  }
  if (!step) throw_error(invalid_argument("piecewise_constant: the step is empty"));
  Graph& graph = step.graph();
  ScopeGuard scope = graph.name_scope(name.empty() ? "PiecewiseConstant" : name);
  Output x = cast(step, DType::kDouble);  // steps to 2^53 as they are
  Output result = constant(graph, values.back(), dtype);
  for (std::size_t i = boundaries.size(); i-- > 0;) {
    Output within = less_equal(x, constant(graph, boundaries[i], DType::kDouble));
    result = where(within, constant(graph, values[i], dtype), result);
  }
  return result;
}

Output polynomial_decay(const Hyper& learning_rate, Output step, const Hyper& decay_steps,
                        const PolynomialDecayOptions& options) {
  Formula f(options.name, "PolynomialDecay", learning_rate, step);
  Output length = f.in(decay_steps, "decay_steps");
  Output at = f.step;
  if (options.cycle) {
    Output started = equal(at, zeros_like(at));
    length = length * where(started, ones_like(at), ceil(at / length));
  } else {
    at = minimum(at, length);
  }
  Output end = f.in(options.end_learning_rate, "end_learning_rate");
  return (f.rate - end) * pow(1.0 - at / length, f.in(options.power, "power")) + end;
}

Output cosine_decay(const Hyper& learning_rate, Output step, const Hyper& decay_steps, double alpha,
                    const std::string& name) {
  Formula f(name, "CosineDecay", learning_rate, step);
  Output length = f.in(decay_steps, "decay_steps");
  return f.rate * ((1 - alpha) * half_cosine(minimum(f.step, length) / length) + alpha);
}

Output cosine_decay_restarts(const Hyper& learning_rate, Output step, const Hyper& first_decay_steps,
                             const CosineRestartsOptions& options) {
  if (!(options.t_mul >= 1)) {
    throw_error(invalid_argument("cosine_decay_restarts: t_mul must be at least 1, got ", options.t_mul));
  }
  Formula f(options.name, "SGDRDecay", learning_rate, step);
  Output done = f.step / f.in(first_decay_steps, "first_decay_steps");  // in first periods
  Output restarts = floor(done), fraction = done - restarts;
  if (options.t_mul > 1) {
    Output t_mul = f.in(options.t_mul, "t_mul");
    restarts = floor(log(1.0 - done * (1.0 - t_mul)) / log(t_mul));
    Output length = pow(t_mul, restarts);  // of the period under way
    fraction = (done - (1.0 - length) / (1.0 - t_mul)) / length;
  }
  Output height = pow(f.in(options.m_mul, "m_mul"), restarts);
  return f.rate * ((1 - options.alpha) * (height * half_cosine(fraction)) + options.alpha);
}

Output linear_cosine_decay(const Hyper& learning_rate, Output step, const Hyper& decay_steps,
                           const LinearCosineOptions& options) {
  Formula f(options.name, "LinearCosineDecay", learning_rate, step);
  Output length = f.in(decay_steps, "decay_steps");
  Output at = minimum(f.step, length);
  Output cosine = half_cosine(2 * options.num_periods * (at / length));
  return f.rate * ((options.alpha + (length - at) / length) * cosine + options.beta);
}

Output warm_up(const Hyper& learning_rate, Output step, const Hyper& warmup_steps, const Hyper& start,
               const std::string& name) {
  Formula f(name, "WarmUp", learning_rate, step);
  Output length = f.in(warmup_steps, "warmup_steps");
  Output from = f.in(start, "start");
  Output line = from + (f.rate - from) * (f.step / length);
  return where(less(f.step, length), line, f.rate);
}

double linear_scaling_rule(std::int64_t workers, std::int64_t batch_per_worker, double base_rate,
                           std::int64_t base_batch) {
  if (workers < 1 || batch_per_worker < 1 || base_batch < 1) {
    throw_error(invalid_argument("linear_scaling_rule: ", workers, " workers, batches of ", batch_per_worker,
                                 " and a base batch of ", base_batch, " must all be positive"));
  }
  return base_rate * (static_cast<double>(workers) * static_cast<double>(batch_per_worker)) /
         static_cast<double>(base_batch);
}

}  // namespace tutti
