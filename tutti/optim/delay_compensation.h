// Asynchronous training with delay compensation (DC-ASGD): a gradient that was computed from old weights is corrected
// by what the weights have done since, to first order.
//   g' = g + lambda g² (w - backup)
// where `backup` is the weights as the worker pulled them. The wrapped optimiser applies g'. With lambda 0, or when
// nobody else has changed the weights since, g' is g.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/optim/optimizer.h"

namespace tutti {

struct DelayCompensationOptions {
  int worker = 0;  // each keeps backups of its own, beside the variables
  double lambda = 0.04;
  // True: lambda / sqrt(m + epsilon) in place of lambda, where m = decay m + (1 - decay) g² is kept by all workers
  // together, in the slot "w/DelayCompensation".
  bool adaptive = false;
  double decay = 0.95;
  double epsilon = 1e-7;
};

// A worker may work in one step or in two:
// - minimize, or compute_gradients and apply_gradients: the step notes the weights that it reads (Var::read) as the
//   backup, and corrects by what other workers did until its gradient was there.
// - `pull` in one step, and in a later one apply_gradients of gradients from elsewhere. After it the backup is the
//   weights as the update left them.
// Backups belong to the session, not to the model: they are not saved and need no initialiser, but a push before any
// pull fails, as a read of a variable without value does.
class DelayCompensation : public Optimizer {
 public:
  // `inner` must outlive it.
  explicit DelayCompensation(Optimizer& inner, DelayCompensationOptions options = {},
                             std::string name = "DelayCompensation");

  // A node that notes the weights as they are now.
  Node* pull(const std::vector<Var>& variables);

  // Those of the wrapped optimiser.
  const std::vector<Var>& slots() const override { return inner_.slots(); }
  std::optional<Var> get_slot(const Var& variable, const std::string& which) const override {
    return inner_.get_slot(variable, which);
  }

 protected:
  std::vector<GradientAndVariable> compute(Output loss, const std::vector<Var>& variables,
                                           const GradientOptions& options) override;
  Node* apply(const std::vector<GradientAndVariable>& gradients, const std::optional<Var>& global_step,
              const std::string& name) override;

 private:
  Output backup(const Var& variable);
  Node* note(const Var& variable, Output value);
  Gradient compensated(const GradientAndVariable& pair);
  Output strength(const Var& variable, Output gradient, Output indices);
  Var mean_square(const Var& variable);
  void enter(Graph& graph);

  Optimizer& inner_;
  const DelayCompensationOptions options_;
  Graph* graph_ = nullptr;                   // the one that the members below belong to
  std::map<std::string, Output> backups_;    // handles, by variable
  std::map<std::string, Node*> pulled_;      // by variable: what notes the weights in the step of their gradient
  std::map<std::string, Var> mean_squares_;  // by variable
};

}  // namespace tutti
