// A cluster and workers of one's own kind: subclasses of TFCluster and PSWorker.
//
//   ps_worker [STEPS [CHECKPOINT_PREFIX]]
//
// Two workers, threads of this process, train a network whose variables are on a parameter server. The first one makes
// STEPS steps and saves; the other goes on until it is stopped. As the tasks of a cluster,
//
//   tutti run --ps 1 --workers 2 ps_worker
//
// each is a process, and every worker makes STEPS steps.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "digit_training.h"
#include "tutti/tutti.h"

using namespace tutti;
using namespace examples;

namespace {

// One thread for each task, and no word about who found whom.
class SmallCluster : public TFCluster {
 public:
  using TFCluster::TFCluster;

 protected:
  ServerOptions task_options(const std::string& job, int index) const override {
    ServerOptions options = TFCluster::task_options(job, index);
    options.runtime.intra_op_threads = 1;
    options.runtime.inter_op_threads = 1;
    options.log = [](const std::string&) {};
    return options;
  }
};

class DigitWorker : public PSWorker {
 public:
  // Without end when `steps` is 0; without a checkpoint when there is no prefix.
  DigitWorker(PSWorkerOptions options, std::int64_t steps, std::string prefix)
      : PSWorker(std::move(options)),
        steps_(steps),
        prefix_(std::move(prefix)),
        batches_(training_digits(4000, task_index()), 32, kSeed) {}
  ~DigitWorker() override { finish(); }

 private:
  void build(Graph& graph) override {
    const auto scope = graph.device_scope(device());
    model_.emplace(graph);
    global_step_.emplace(get_or_create_global_step(graph));
    train_ = Adam(1e-3).minimize(model_->loss, {}, *global_step_);
    saver_ = std::make_unique<Saver>(graph);
  }

  bool step(Session& session, const RunOptions& options) override {
    const auto values = session.run(model_->feeds(batches_.next()), {model_->loss}, {train_}, options);
    if (++done_ % 10 == 0)
      std::printf("worker %d: step %lld, loss %f\n", task_index(), done_, values[0].scalar<float>());
    if (steps_ == 0 || done_ < steps_) return true;
    if (!prefix_.empty()) std::printf("saved to %s\n", saver_->save(session, prefix_).c_str());
    return false;
  }

  const std::int64_t steps_;
  const std::string prefix_;
  Batches batches_;
  std::optional<DigitModel> model_;
  std::optional<Var> global_step_;
  Node* train_ = nullptr;
  std::unique_ptr<Saver> saver_;
  long long done_ = 0;
};

// All tasks in this process.
void train_here(std::int64_t steps, const std::string& prefix) {
  SmallCluster cluster({.num_workers = 2, .num_ps = 1});
  cluster.start_cluster();
  const auto options = [&](int index) {
    return PSWorkerOptions{
        .cluster = cluster.cluster(), .is_chief = cluster.is_chief("worker", index), .task_index = index};
  };
  DigitWorker chief(options(0), steps, prefix);
  DigitWorker other(options(1), 0, "");
  chief.start();
  other.start();
  chief.join();
  other.stop();
  cluster.shutdown();
  std::printf("both workers have ended\n");
}

// The task that TF_CONFIG names.
void train_as(const RunConfig& config, std::int64_t steps, const std::string& prefix) {
  SmallCluster cluster({.cluster = config.cluster});
  Server& server = cluster.join_cluster(config.task_type, config.task_id);
  if (config.task_type == "ps") return server.join();
  PSWorkerOptions options{.cluster = config.cluster,
                          .is_chief = config.is_chief(),
                          .job_name = config.task_type,
                          .task_index = config.task_id};
  // A worker that has made its steps is no matter to the others.
  options.session.config.cluster.device_filters = {"/job:ps", server.task()};
  DigitWorker worker(std::move(options), steps, config.is_chief() ? prefix : "");
  worker.start();
  worker.join();
  std::printf("this worker has ended\n");
}

void train(std::int64_t steps, const std::string& prefix) {
  const RunConfig config = RunConfig::from_env();
  return config.cluster.empty() ? train_here(steps, prefix) : train_as(config, steps, prefix);
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 200;
  if (steps < 1 || argc > 3) return std::fprintf(stderr, "usage: ps_worker [STEPS [CHECKPOINT_PREFIX]]\n"), 2;
  try {
    train(steps, argc > 2 ? argv[2] : "");
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "ps_worker: %s\n", error.what());
    return 1;
  }
}
