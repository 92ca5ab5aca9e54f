// The MLP step for benchmarks/run: 784-500-500-10, Adam, float.
//
//   mlp_step_bench BATCH THREADS
//
// Speaks the protocol of peers.py (step_bench.h).
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "step_bench.h"
#include "tutti/tutti.h"

using namespace tutti;

namespace {

constexpr std::int64_t kInputs = 784, kHidden = 500, kClasses = 10;
constexpr std::int64_t kRows = 4096;

struct Model {
  Model(std::int64_t batch, const RuntimeOptions& threads) : batch_(batch) {
    images = placeholder(graph, DType::kFloat, {batch, kInputs});
    labels = placeholder(graph, DType::kInt64, {batch});
    Output hidden = nn::relu(dense(images, kInputs, kHidden, "hidden1"));
    hidden = nn::relu(dense(hidden, kHidden, kHidden, "hidden2"));
    loss =
        reduce_mean(nn::sparse_softmax_cross_entropy_with_logits(labels, dense(hidden, kHidden, kClasses, "logits")));
    Node* train = Adam(1e-4).minimize(loss);
    Node* init = global_variables_initializer(graph);
    session = std::make_unique<LocalSession>(graph, SessionOptions{.threads = threads});
    session->run({init});
    step_ = session->make_callable({{images.name(), labels.name()}, {loss.name()}, {train->name()}}).value_or_throw();
    data_ = draw_digits(std::max(kRows, batch), 1);
  }

  float step() {
    if (at_ + batch_ > data_.size()) at_ = 0;
    std::vector<Tensor> feeds{data_.images.slice(at_, at_ + batch_), data_.labels.slice(at_, at_ + batch_)};
    at_ += batch_;
    return session->run_callable(step_, std::move(feeds)).value_or_throw()[0].scalar<float>();
  }

 private:
  Output dense(Output x, std::int64_t inputs, std::int64_t units, const std::string& name) {
    auto scope = graph.name_scope(name);
    const double limit = std::sqrt(6.0 / static_cast<double>(inputs + units));
    Output kernel =
        variable(graph, random_uniform(graph, {inputs, units}, DType::kFloat, -limit, limit, {1, 2}), "kernel");
    return nn::bias_add(matmul(x, kernel), variable(graph, zeros(graph, DType::kFloat, {units}), "bias"));
  }

  Graph graph{builtin_ops()};
  Output images, labels, loss;
  std::unique_ptr<LocalSession> session;
  Session::CallableId step_ = 0;
  const std::int64_t batch_;
  DigitSet data_;
  std::int64_t at_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  return bench::serve_training(argc, argv, "mlp_step_bench", [](std::int64_t batch, int threads) {
    return std::make_unique<Model>(batch, RuntimeOptions{.intra_op_threads = threads, .inter_op_threads = threads});
  });
}
