// What delay costs, and what compensating for it (DC-ASGD) gives back: a small network learns digits from workers that
// take turns, so that each gradient is as many updates old as there are other workers. No threads: the same numbers
// every time.
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tutti/data/digits.h"
#include "tutti/ops/array.h"
#include "tutti/ops/math.h"
#include "tutti/ops/nn.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/random.h"
#include "tutti/optim/delay_compensation.h"
#include "tutti/optim/sgd.h"
#include "tutti/runtime/local_session.h"

namespace tutti {
namespace {

constexpr int kBatch = 32, kUpdates = 1500, kHidden = 64;
constexpr double kRate = 0.06;
constexpr std::int64_t kImages = 6000, kTestImages = 2000;

struct Worker {
  std::unique_ptr<DelayCompensation> optimizer;
  Node* pull;
  Node* push;
  std::vector<Tensor> weights;  // as pulled
};

class Experiment {
 public:
  Experiment(int workers, const DelayCompensationOptions& options) {
    for (const GradientAndVariable& pair : sgd_.compute_gradients(loss_)) {
      variables_.push_back(pair.variable);
      gradients_.push_back(pair.gradient.dense());
      received_.push_back({placeholder(graph_, DType::kFloat, pair.variable.shape()), pair.variable});
    }
    for (int k = 0; k < workers; ++k) {
      DelayCompensationOptions own = options;
      own.worker = k;
      auto optimizer = std::make_unique<DelayCompensation>(sgd_, own);
      Node* pull = optimizer->pull(variables_);
      Node* push = optimizer->apply_gradients(received_);
      workers_.push_back({std::move(optimizer), pull, push, {}});
    }
    init_ = global_variables_initializer(graph_);
  }

  // The accuracy on images that were not trained on.
  double run(const DigitSet& train, const DigitSet& test) {
    LocalSession session(graph_);
    session.run({init_});
    for (Worker& worker : workers_) pull(session, worker);
    std::mt19937 engine(5);
    for (int t = 0; t < kUpdates; ++t) {
      Worker& worker = workers_[static_cast<std::size_t>(t) % workers_.size()];
      const std::int64_t at = static_cast<std::int64_t>(engine() % static_cast<unsigned>(train.size() - kBatch));
      Feeds feeds = {{images_, train.images.slice(at, at + kBatch)}, {labels_, train.labels.slice(at, at + kBatch)}};
      for (std::size_t i = 0; i < variables_.size(); ++i) feeds.push_back({variables_[i].read(), worker.weights[i]});
      const std::vector<Tensor> found = session.run(feeds, {gradients_.begin(), gradients_.end()});
      Feeds sent;
      for (std::size_t i = 0; i < found.size(); ++i) sent.push_back({received_[i].gradient.dense(), found[i]});
      session.run(sent, {}, {worker.push});
      pull(session, worker);
    }
    const Tensor accuracy = session.run({{images_, test.images}, {labels_, test.labels}}, {accuracy_})[0];
    return accuracy.scalar<float>();
  }

 private:
  void pull(Session& session, Worker& worker) {
    session.run({worker.pull});
    std::vector<TensorName> reads;
    for (const Var& variable : variables_) reads.push_back(variable.read());
    worker.weights = session.run({}, reads);
  }

  Output dense(Output x, std::int64_t inputs, std::int64_t units, const std::string& name) {
    const double limit = std::sqrt(6.0 / static_cast<double>(inputs + units));
    Var kernel = variable(graph_, random_uniform(graph_, {inputs, units}, DType::kFloat, -limit, limit, {1, units}),
                          name + "/kernel");
    Var bias = variable(graph_, zeros(graph_, DType::kFloat, {units}), name + "/bias");
    return nn::bias_add(matmul(x, kernel), bias);
  }

  Graph graph_{builtin_ops()};
  Output images_ = placeholder(graph_, DType::kFloat, {kUnknownDim, kDigitPixels});
  Output labels_ = placeholder(graph_, DType::kInt64, {kUnknownDim});
  Output logits_ = dense(nn::relu(dense(images_, kDigitPixels, kHidden, "hidden")), kHidden, kDigitClasses, "logits");
  Output loss_ = reduce_mean(nn::sparse_softmax_cross_entropy_with_logits(labels_, logits_));
  Output accuracy_ = reduce_mean(cast(equal(argmax(logits_, 1), labels_), DType::kFloat));
  SGD sgd_{kRate};
  std::vector<Var> variables_;
  std::vector<Output> gradients_;
  std::vector<GradientAndVariable> received_;
  std::vector<Worker> workers_;
  Node* init_ = nullptr;
};

void report() {
  const DigitSet train = draw_digits(kImages, 1), test = draw_digits(kTestImages, 2);
  std::printf("asynchronous SGD, 784-%d-10 on drawn digits, %d updates of batch %d, rate %g: accuracy after training\n",
              kHidden, kUpdates, kBatch, kRate);
  for (int workers : {1, 4, 8, 16}) {
    std::printf("gradients %2d updates old: plain %.4f", workers - 1,
                Experiment(workers, {.lambda = 0}).run(train, test));
    for (double lambda : {0.04, 1.0}) {
      std::printf(", compensated (lambda %g) %.4f", lambda, Experiment(workers, {.lambda = lambda}).run(train, test));
    }
    std::printf(", adaptive (lambda 2) %.4f\n", Experiment(workers, {.lambda = 2, .adaptive = true}).run(train, test));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tutti

int main() { tutti::report(); }
