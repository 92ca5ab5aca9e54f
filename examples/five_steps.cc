// The five steps of distributed training, with in-graph replication: one client builds one graph, with a copy of the
// model for each worker, averages their gradients and applies them to variables on a parameter server.
//
//   five_steps [STEPS [CHECKPOINT_DIR]]
//
// By itself it makes the cluster of servers of this process. As the tasks of one it is the same program,
//
//   tutti run --ps 1 --workers 2 five_steps
//
// where the first worker is the client and the others serve it.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "digit_training.h"
#include "tutti/tutti.h"

using namespace tutti;
using namespace examples;

namespace {

constexpr std::int64_t kBatch = 32;

// A linear model: what is shown here is where things go.
struct Weights {
  Var weights;
  Var biases;
};

// The model of one worker, which shares the variables.
struct Tower {
  Output images;
  Output labels;
  Output loss;
  std::vector<GradientAndVariable> gradients;
};

Tower make_tower(Graph& graph, const Weights& model, Optimizer& optimizer, int worker) {
  const auto device = graph.device_scope(str_cat("/job:worker/task:", worker));
  const auto name = graph.name_scope(str_cat("tower_", worker));
  const Output images = placeholder(graph, DType::kFloat, {kUnknownDim, kDigitPixels}, "images");
  const Output labels = placeholder(graph, DType::kInt64, {kUnknownDim}, "labels");
  const Output logits = nn::bias_add(matmul(images, model.weights), model.biases);
  const Output loss = reduce_mean(nn::sparse_softmax_cross_entropy_with_logits(labels, logits));
  return {images, labels, loss, optimizer.compute_gradients(loss, {model.weights, model.biases})};
}

// The mean of each variable's gradients over all towers.
std::vector<GradientAndVariable> average(const std::vector<Tower>& towers) {
  std::vector<GradientAndVariable> means;
  for (std::size_t i = 0; i < towers[0].gradients.size(); ++i) {
    Output sum = towers[0].gradients[i].gradient.dense();
    for (std::size_t t = 1; t < towers.size(); ++t) sum = sum + towers[t].gradients[i].gradient.dense();
    means.push_back({sum / static_cast<double>(towers.size()), towers[0].gradients[i].variable});
  }
  return means;
}

// On the parameter server: the client puts a word in for each worker that serves it, when all is done.
Output done_queue(Graph& graph) {
  const auto device = graph.device_scope("/job:ps/task:0");
  return add_op(graph, "FIFOQueueV2", {}, {{"component_types", std::vector{DType::kInt32}}, {"shared_name", "done"}})
      ->output();
}

// What a task does that is not the client's: parameter servers are ended from outside, workers by the client's word.
void serve(Server& server, const RunConfig& config) {
  if (config.task_type == "ps") return server.join();
  Graph graph(builtin_ops());
  Node* const word =
      add_op(graph, "QueueDequeueV2", {done_queue(graph)}, {{"component_types", std::vector{DType::kInt32}}});
  ConnectOptions options;
  options.device_filters = {"/job:ps", server.task()};
  connect(server.target(), graph, options).value_or_throw()->run({word});
}

void train(const std::string& master, int workers, std::int64_t steps, const std::string& checkpoint_dir) {
  // 2. The data: every worker has its own.
  std::vector<Batches> batches;
  for (int i = 0; i < workers; ++i) batches.emplace_back(training_digits(4000, i), kBatch, kSeed);

  // 3. The graph.
  Graph graph(builtin_ops());
  Adam optimizer(1e-3);
  const auto on_ps = [&] { return graph.device_scope("/job:ps/task:0"); };
  const Weights model = [&] {
    const auto scope = on_ps();
    return Weights{variable(graph, zeros(graph, DType::kFloat, {kDigitPixels, kDigitClasses}), "weights"),
                   variable(graph, zeros(graph, DType::kFloat, {kDigitClasses}), "biases")};
  }();
  std::vector<Tower> towers;
  for (int i = 0; i < workers; ++i) towers.push_back(make_tower(graph, model, optimizer, i));

  // 4. Parameter-server mode: averages and updates are computed where the variables are.
  const auto scope = on_ps();
  const Var global_step = get_or_create_global_step(graph);
  Node* const update = optimizer.apply_gradients(average(towers), global_step);
  Output loss = towers[0].loss;
  for (std::size_t i = 1; i < towers.size(); ++i) loss = loss + towers[i].loss;
  loss = loss / static_cast<double>(workers);
  Node* const tell = add_op(graph, "QueueEnqueueV2", {done_queue(graph), constant(graph, Tensor::scalar(1))});

  // 5. The training: hooks say when it ends, what is shown and what is saved.
  const auto scaffold = std::make_shared<Scaffold>();
  std::vector<Hook> chief_only_hooks;
  if (!checkpoint_dir.empty()) {
    chief_only_hooks.push_back(
        CheckpointSaverHook({.checkpoint_dir = checkpoint_dir, .save_steps = 100, .scaffold = scaffold}));
  }
  MonitoredTrainingSession session(
      graph, {.master = master,
              .scaffold = scaffold,
              .hooks = {StopAtStepHook({.last_step = steps}),
                        LoggingTensorHook({.tensors = {{"step", global_step}, {"loss", loss}}, .every_n_iter = 50})},
              .chief_only_hooks = chief_only_hooks});
  session.loop([&] {
    Feeds feeds;
    for (int i = 0; i < workers; ++i) {
      const DigitSet batch = batches[static_cast<std::size_t>(i)].next();
      feeds.emplace_back(towers[static_cast<std::size_t>(i)].images, batch.images);
      feeds.emplace_back(towers[static_cast<std::size_t>(i)].labels, batch.labels);
    }
    session.run(feeds, {}, {update});
  });

  const auto after = connect(master, graph).value_or_throw();
  std::printf("ended at step %lld\n", static_cast<long long>(read_global_step(*after, global_step)));
  for (int i = 1; i < workers; ++i) after->run({tell});
}

// 1. The cluster: that of TF_CONFIG, or one of this process.
void run(std::int64_t steps, const std::string& checkpoint_dir) {
  const RunConfig config = RunConfig::from_env();
  ServerOptions quiet;
  quiet.log = [](const std::string&) {};
  TFCluster cluster({.num_workers = 2, .num_ps = 1, .cluster = config.cluster, .server = quiet});
  if (config.cluster.empty()) {
    cluster.start_cluster();
    return train(cluster.target(), 2, steps, checkpoint_dir);
  }
  Server& server = cluster.join_cluster(config.task_type, config.task_id);
  if (!config.is_chief()) return serve(server, config);
  train(config.master(), config.num_worker_replicas(), steps, checkpoint_dir);
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 200;
  if (steps < 1 || argc > 3) return std::fprintf(stderr, "usage: five_steps [STEPS [CHECKPOINT_DIR]]\n"), 2;
  try {
    run(steps, argc > 2 ? argv[2] : "");
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "five_steps: %s\n", error.what());
    return 1;
  }
}
