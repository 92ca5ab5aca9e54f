// Moving averages of variables and of other values, under TensorFlow's names. They throw Error.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tutti/optim/optimizer.h"

namespace tutti {

struct ExponentialMovingAverageOptions {
  // A count of steps, such as global_step.read(). Where given, the decay is at most (1 + n) / (10 + n), so that
  // averages follow faster in the beginning.
  Output num_updates = {};
  // Averages of values (not of variables) start at zero. True: they are corrected for that.
  bool zero_debias = false;
};

// average -= (1 - decay) (average - value). The average of "w" is a variable "w/ExponentialMovingAverage" beside it,
// which starts as "w" does, or as "w" is when it is there first; of a part of a partitioned variable, the same part.
// Serves one graph. Not thread-safe.
class ExponentialMovingAverage {
 public:
  explicit ExponentialMovingAverage(Hyper decay, ExponentialMovingAverageOptions options = {},
                                    std::string name = "ExponentialMovingAverage")
      : decay_(decay), options_(options), name_(std::move(name)) {}

  // A node that moves the averages of these variables, of a floating type, once. They are read when it runs: put it
  // behind the train op with control_dependencies.
  Node* apply(const std::vector<Var>& variables);
  // The same of values.
  Node* apply_to_values(const std::vector<Output>& values);

  // None: there was no apply.
  std::optional<Var> average(const Var& variable) const { return average_of(variable.name()); }
  std::optional<Var> average(Output value) const { return average_of(value.name()); }
  // The name of the average, whether there was an apply or not.
  std::string average_name(const Var& variable) const;
  const std::string& name() const { return name_; }

  // What an evaluation restores, for a Saver: the trainable variables and those with an average from their averages,
  // all others from their own names. Parts of a partitioned variable share the name of the whole.
  std::multimap<std::string, Var> variables_to_restore(Graph& graph) const;

 private:
  std::optional<Var> average_of(const std::string& key) const;
  Output one_minus_decay(Graph& graph) const;
  Node* move(const Var& average, Output value, Output rest) const;
  Node* move_unbiased(const Var& average, Output value, Output rest);

  const Hyper decay_;
  const ExponentialMovingAverageOptions options_;
  const std::string name_;
  std::map<std::string, Var> averages_;                // by name of the variable, or of the value ("sum:0")
  std::map<std::string, std::pair<Var, Var>> biased_;  // by name of the average: its sum as it is, and its steps
};

}  // namespace tutti
