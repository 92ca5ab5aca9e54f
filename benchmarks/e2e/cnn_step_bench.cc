// The CNN step for benchmarks/run: 28x28 images, three 3x3 convolutions of 32, 64 and 128 channels, each with bias,
// ReLU and 2x2 pool, a dense layer; Adam, float.
//
//   cnn_step_bench BATCH THREADS
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

constexpr std::int64_t kSide = 28, kClasses = 10;
constexpr std::int64_t kRows = 4096;

struct Model {
  Model(std::int64_t batch, const RuntimeOptions& threads) : batch_(batch) {
    images = placeholder(graph, DType::kFloat, {batch, kSide * kSide});
    labels = placeholder(graph, DType::kInt64, {batch});
    Output x = reshape(images, Ints{batch, kSide, kSide, 1});
    x = convolved(x, 1, 32, "conv1");
    x = convolved(x, 32, 64, "conv2");
    x = convolved(x, 64, 128, "conv3");
    const std::int64_t flat = 3 * 3 * 128;
    Output logits = nn::bias_add(matmul(reshape(x, Ints{batch, flat}), weights({flat, kClasses}, flat, "logits")),
                                 variable(graph, zeros(graph, DType::kFloat, {kClasses}), "logits/bias"));
    loss = reduce_mean(nn::sparse_softmax_cross_entropy_with_logits(labels, logits));
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
  Output weights(const Shape& shape, std::int64_t inputs, const std::string& name) {
    const double limit = std::sqrt(3.0 / static_cast<double>(inputs));
    return variable(graph, random_uniform(graph, shape, DType::kFloat, -limit, limit, {1, 2}), name + "/kernel");
  }

  Output convolved(Output x, std::int64_t inputs, std::int64_t outputs, const std::string& name) {
    Output filters = weights({3, 3, inputs, outputs}, 9 * inputs, name);
    Output bias = variable(graph, zeros(graph, DType::kFloat, {outputs}), name + "/bias");
    x = nn::relu(nn::bias_add(nn::conv2d(x, filters, {.padding = "SAME"}), bias));
    return nn::max_pool(x, {2, 2}, {.strides = {2, 2}});
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
  return bench::serve_training(argc, argv, "cnn_step_bench", [](std::int64_t batch, int threads) {
    return std::make_unique<Model>(batch, RuntimeOptions{.intra_op_threads = threads, .inter_op_threads = threads});
  });
}
