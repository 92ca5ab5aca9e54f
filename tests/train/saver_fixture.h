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

// Names of the one device of a local session that a saver takes for those of several tasks: it knows names only.
inline constexpr const char* kNamesOfTasks[] = {"/job:localhost", "/job:localhost/task:0", "/task:0"};

// Least squares with Adam: weights, slots, powers, global step. With `tasks` the variables ask for so many of those
// names, and a sharded save has as many shards.
struct SmallModel {
  explicit SmallModel(std::int64_t rows = 3, int tasks = 0)
      : graph(builtin_ops()),
        w(on_task(0, tasks, Tensor(DType::kFloat, Shape{rows, 2}), "w")),
        b(on_task(1, tasks, Tensor::vector<float>({1, 2}), "b")),
        global_step(on_task(2, tasks, Tensor::scalar<std::int64_t>(0), "global_step", false)) {
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

 private:
  Var on_task(int number, int tasks, Tensor value, const std::string& name, bool trainable = true) {
    ScopeGuard there = graph.device_scope(tasks == 0 ? "" : kNamesOfTasks[number % tasks]);
    return variable(graph, std::move(value), name, trainable);
  }
};

inline bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), bitwise_equal);
}

inline std::vector<std::string> files_in(const std::string& directory) {
  return local_file_system().list(directory).value_or_throw();
}

}  // namespace tutti
