// Tutti's side of check_savers.py: a training job that stops and goes on.
//   saver_tool start PREFIX STEPS [sharded]     trains from the beginning, then saves to PREFIX-STEPS
//   saver_tool continue PREFIX STEPS TO         restores PREFIX, trains STEPS more, saves to TO (no step added)
//   saver_tool meta META PREFIX TARGET STEPS TO restores TensorFlow's graph META from PREFIX with the saver that it
//                                               names, runs TARGET so often, and saves with that saver to TO
// The model is linear regression with Adam over two layers, the first partitioned, on data that numpy can make too.
#include <cstdio>
#include <string>
#include <vector>

#include "tutti/graph/meta_graph.h"
#include "tutti/ops/array.h"
#include "tutti/ops/math.h"
#include "tutti/ops/partitioned_variable.h"
#include "tutti/ops/state.h"
#include "tutti/optim/adam.h"
#include "tutti/runtime/local_session.h"
#include "tutti/train/saver.h"

namespace tutti::interop {
namespace {

constexpr std::int64_t kRows = 7, kInner = 4, kBatch = 5;

// 0, 0.01, 0.02, ... from `start`: as np.arange gives it.
Tensor ramp(const Shape& shape, float start) {
  Tensor tensor(DType::kFloat, shape);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.data<float>()[i] = start + 0.01f * static_cast<float>(i);
  }
  return tensor;
}

struct Job {
  Job() : graph(builtin_ops()) {
    PartitionedVar hidden_w = partitioned_variable(
        graph, {kRows, kInner}, DType::kFloat,
        [](Graph& g, const SliceInfo& part) { return constant(g, ramp(part.shape, -0.1f)); }, "hidden/w",
        fixed_size_partitioner(2));
    Var out = variable(graph, ramp({kInner, 1}, 0.2f), "out/w");
    Var bias = variable(graph, Tensor::vector<float>({0.5f}), "out/b");
    Var step = variable(graph, Tensor::scalar<std::int64_t>(0), "global_step", false);
    Output x = constant(graph, ramp({kBatch, kRows}, 0.0f), "x");
    Output y = constant(graph, ramp({kBatch, 1}, 1.0f), "y");
    Output hidden = tanh(matmul(x, hidden_w));
    Output loss = reduce_mean(square(matmul(hidden, out) + bias - y));
    train = Adam(0.05).minimize(loss, {}, step);
    init = global_variables_initializer(graph);
  }

  Graph graph;
  Node* train;
  Node* init;
};

void start(const std::string& prefix, int steps, bool sharded) {
  Job job;
  Saver saver(job.graph, {.sharded = sharded});
  LocalSession session(job.graph);
  session.run({job.init});
  for (int i = 0; i < steps; ++i) session.run({job.train});
  std::printf("%s\n", saver.save(session, prefix, steps).c_str());
}

void go_on(const std::string& prefix, int steps, const std::string& to) {
  Job job;
  Saver saver(job.graph);
  LocalSession session(job.graph);
  saver.restore(session, prefix);
  for (int i = 0; i < steps; ++i) session.run({job.train});
  saver.save(session, to);
}

void from_meta(const std::string& meta, const std::string& prefix, const std::string& target, int steps,
               const std::string& to) {
  Graph graph(builtin_ops());
  const MetaGraph about =
      import_meta_graph(read_file(local_file_system(), meta).value_or_throw(), graph).value_or_throw();
  LocalSession session(graph);
  Feeds from, into;
  from.emplace_back(about.saver.filename_tensor, Tensor::scalar(prefix));
  into.emplace_back(about.saver.filename_tensor, Tensor::scalar(to));
  session.run(from, {}, {NodeName(about.saver.restore_op)});
  for (int i = 0; i < steps; ++i) session.run({NodeName(target)});
  session.run(into, {TensorName(about.saver.save_tensor)});
}

int main(const std::vector<std::string>& args) {
  if (args.size() >= 3 && args[0] == "start") {
    start(args[1], std::stoi(args[2]), args.size() > 3 && args[3] == "sharded");
  } else if (args.size() == 4 && args[0] == "continue") {
    go_on(args[1], std::stoi(args[2]), args[3]);
  } else if (args.size() == 6 && args[0] == "meta") {
    from_meta(args[1], args[2], args[3], std::stoi(args[4]), args[5]);
  } else {
    std::fprintf(stderr, "saver_tool: see the comment at the top of its source\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace tutti::interop

int main(int argc, char** argv) {
  try {
    return tutti::interop::main(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
