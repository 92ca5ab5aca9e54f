// A small model that trains, for tests of checkpoints.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/core/temp_directory.h"
#include "tutti/ops/array.h"
#include "tutti/ops/math.h"
#include "tutti/ops/state.h"
#include "tutti/optim/adam.h"
#include "tutti/runtime/local_session.h"
#include "tutti/train/saver.h"

namespace tutti {

// Least squares with Adam: weights, slots, powers, global step.
struct SmallModel {
  explicit SmallModel(std::int64_t rows = 3)
      : graph(builtin_ops()),
        w(variable(graph, Tensor(DType::kFloat, Shape{rows, 2}), "w")),
        b(variable(graph, Tensor::vector<float>({1, 2}), "b")),
        global_step(variable(graph, Tensor::scalar<std::int64_t>(0), "global_step", false)) {
    Output x = ones(graph, DType::kFloat, {4, rows});
    Output loss = reduce_mean(square(matmul(x, w) + b));
    train = Adam(0.1).minimize(loss, {}, global_step);
    init = global_variables_initializer(graph);
  }

  std::vector<Tensor> values(Session& session) {
    std::vector<TensorName> reads;
    for (const Var& variable : global_variables(graph)) reads.emplace_back(variable.read());
    return session.run({}, reads);
  }

  Graph graph;
  Var w, b, global_step;
  Node* train;
  Node* init;
};

inline bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), bitwise_equal);
}

inline std::vector<std::string> files_in(const std::string& directory) {
  return local_file_system().list(directory).value_or_throw();
}

}  // namespace tutti
