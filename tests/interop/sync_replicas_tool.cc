// Tutti's side of check_sync_replicas.py: sync_replicas_tool graph FILE [sparse] writes the GraphDef of a small model
// with SyncReplicas; sync_replicas_tool steps [sparse] trains it in one process and prints its variables after each
// step. The model and the numbers are those of check_sync_replicas.py.
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "tutti/graph/graph_def.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"
#include "tutti/optim/sgd.h"
#include "tutti/optim/sync_replicas.h"
#include "tutti/runtime/local_session.h"
#include "tutti/strategies/replica_device_setter.h"

namespace tutti::interop {
namespace {

struct Model {
  Model(Graph& graph, bool sparse)
      : global_step(variable(graph, Tensor::scalar(std::int64_t{0}), "global_step", false)),
        w(variable(graph, Tensor::of<float>({2, 1}, {0.5, -0.25}), "w")),
        variables{w} {
    x = placeholder(graph, DType::kFloat, PartialShape{kUnknownDim, 2}, "x");
    ids = placeholder(graph, DType::kInt32, PartialShape{kUnknownDim}, "ids");
    Output y = square(matmul(x, w));
    if (sparse) {
      const Var table = variable(graph, Tensor::of<float>({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), "t");
      variables.push_back(table);
      Output rows;
      {
        const ScopeGuard beside = graph.colocate_with(*table.handle().node);
        rows = op1("ResourceGather", {table.handle(), ids}, {{"dtype", DType::kFloat}});
      }
      y = y + reduce_mean(square(rows));
    }
    loss = reduce_mean(y);
  }
  Var global_step, w;
  std::vector<Var> variables;
  Output x, ids, loss;
};

int write_graph(const std::string& path, bool sparse) {
  Graph graph(builtin_ops());
  const ScopeGuard scope =
      graph.device_scope(replica_device_setter({.ps_tasks = 2, .worker_device = "/job:worker/task:0"}));
  Model model(graph, sparse);
  SGD optimizer(0.5);
  SyncReplicas sync(optimizer, {.replicas_to_aggregate = 2, .total_num_replicas = 3});
  sync.minimize(model.loss, model.global_step);
  sync.init_tokens();
  std::ofstream(path, std::ios::binary) << export_graph_def(graph);
  return 0;
}

void print(const std::vector<Tensor>& values) {
  for (const Tensor& value : values) {
    for (std::int64_t i = 0; i < value.num_elements(); ++i) {
      if (value.dtype() == DType::kInt64) {
        std::printf("%lld ", static_cast<long long>(value.data<std::int64_t>()[i]));
      } else {
        std::printf("%.9g ", static_cast<double>(value.data<float>()[i]));
      }
    }
  }
  std::printf("\n");
}

// One worker that contributes twice to each step, as the other side does it.
int train(bool sparse) {
  Graph graph(builtin_ops());
  Model model(graph, sparse);
  SGD optimizer(0.05);
  SyncReplicas sync(optimizer, {.replicas_to_aggregate = 2, .total_num_replicas = 1});
  Node* train = sync.minimize(model.loss, model.global_step);
  Node* tokens = sync.init_tokens(1);
  Node* initializer = global_variables_initializer(graph);
  LocalSession session(graph);
  session.run({initializer});
  session.run({sync.chief_init()});
  session.run({tokens});
  std::vector<TensorName> reads{model.global_step.read(), sync.local_step().read()};
  for (const Var& variable : model.variables) reads.emplace_back(variable.read());
  std::int32_t number = 0;
  for (int step = 0; step < 5; ++step) {
    std::thread chief([&] { session.run({sync.sync()}); });
    for (int k = 0; k < 2; ++k, ++number) {
      const auto n = static_cast<float>(number);
      session.run({{model.x, Tensor::of<float>({2, 2}, {n, 1 - n, 0.5f, 0.25f * n})},
                   {model.ids, Tensor::vector<std::int32_t>({number % 5, (2 * number + 1) % 5})}},
                  {}, {train});
    }
    chief.join();
    print(session.run({}, reads));
  }
  return 0;
}

int run(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const bool sparse = std::string(argv[argc - 1]) == "sparse";
  if (mode == "graph" && argc > 2) return write_graph(argv[2], sparse);
  if (mode == "steps") return train(sparse);
  std::fprintf(stderr, "usage: sync_replicas_tool graph FILE [sparse] | steps [sparse]\n");
  return 2;
}

}  // namespace
}  // namespace tutti::interop

int main(int argc, char** argv) {
  try {
    return tutti::interop::run(argc, argv);
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
