// The arithmetic of optimisers: one fused pass over a variable, its slots and its gradient.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <span>

#include "tutti/core/dtype.h"
#include "tutti/core/status.h"

namespace tutti::cpu {

enum class UpdateRule {
  kGradientDescent,
  kProximalDescent,
  kMomentum,
  kNesterovMomentum,
  kKerasMomentum,
  kKerasNesterov,
  kAdam,
  kNesterovAdam,
  kAdamAmsgrad,
  kAdaMax,
  kRmsProp,
  kCenteredRmsProp,
  kAdagrad,
  kProximalAdagrad,
  kAdadelta,
  kFtrl,
  kAdagradDa,
  kAddSign,
  kPowerSign,
};

inline constexpr int kMaxUpdateStates = 4;  // the variable and its slots
inline constexpr int kMaxUpdateScalars = 8;

// Changes n elements of each state from old to fresh (which may be the same memory), given their gradient.
// `scalars` are constants of the same type, made by `prepare_scalars`.
using UpdateLoop = void (*)(const void* const* old, void* const* fresh, const void* grad, const void* scalars,
                            std::int64_t n);

// For float and double, and for complex128 where TensorFlow updates complex variables; null otherwise. `root`: Ftrl
// with a power of -0.5, which needs no general power.
UpdateLoop find_update(UpdateRule rule, DType dtype, bool root);

// Refuses what TensorFlow does of an op's scalar inputs, in the order of `prepare_scalars`: those of ProximalAdagrad,
// and of Ftrl on rows.
Status check_scalars(UpdateRule rule, std::span<const double> inputs, bool flag, bool sparse);

// Turns the op's scalar inputs, in the op's order, into the constants of the loop. `flag`: update_slots of Adagrad,
// multiply_linear_by_lr of Ftrl.
//   Adam      beta1_power, beta2_power, lr, beta1, beta2, epsilon       (with AMSGrad likewise)
//   AdaMax    beta1_power, lr, beta1, beta2, epsilon
//   RMSProp   lr, rho, momentum, epsilon       (centered likewise)
//   Adagrad   lr [, epsilon]
//   Adadelta  lr, rho, epsilon
//   Ftrl      lr, l1, l2 [, l2_shrinkage], lr_power
//   momentum  lr, momentum
//   descent   alpha [, l1, l2 of the proximal one]
//   proximal Adagrad  lr, l1, l2
//   AdagradDA  lr, l1, l2, global_step
//   AddSign    lr, alpha, sign_decay, beta
//   PowerSign  lr, logbase, sign_decay, beta
std::array<double, kMaxUpdateScalars> prepare_scalars(UpdateRule rule, std::span<const double> inputs, bool flag);
// The same of a rule that has a loop of complex128.
std::array<std::complex<double>, kMaxUpdateScalars> prepare_scalars(UpdateRule rule,
                                                                    std::span<const std::complex<double>> inputs,
                                                                    bool flag);

// States that a rule changes, the variable included.
int update_states(UpdateRule rule);

}  // namespace tutti::cpu
