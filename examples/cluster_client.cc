// A client of a cluster: variables on a parameter server, a product on one worker, a second one on another.
//
//   tutti server --ps_hosts=localhost:2222 --worker_hosts=localhost:2223,localhost:2224 --job_name=ps --task_index=0
//   tutti server ... --job_name=worker --task_index=0
//   tutti server ... --job_name=worker --task_index=1
//   cluster_client grpc://localhost:2223
#include <cstdio>
#include <memory>

#include "tutti/tutti.h"

using namespace tutti;

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: cluster_client grpc://host:port\n"), 2;
  try {
    Graph graph(builtin_ops());
    const auto ones_on_ps = [&](const char* name) {
      const auto scope = graph.device_scope("/job:ps/task:0");
      return variable(graph, ones(graph, DType::kFloat, {2, 2}), name);
    };
    const Var x = ones_on_ps("x");
    const Var y = ones_on_ps("y");
    const auto product_on = [&](const char* task, Output a, Output b) {
      const auto scope = graph.device_scope(task);
      return matmul(a, b) + x;
    };
    const Output first = product_on("/job:worker/task:0", x, y);
    const Output z = product_on("/job:worker/task:1", first, x);

    const std::unique_ptr<Session> session = connect(argv[1], graph).value_or_throw();
    session->run({global_variables_initializer(graph)});
    const Tensor value = session->run({}, {z})[0];
    const auto at = value.flat<float>();
    std::printf("[[%g,%g],[%g,%g]]\n", at[0], at[1], at[2], at[3]);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "cluster_client: %s\n", error.what());
    return 1;
  }
}
