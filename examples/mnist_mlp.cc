// Trains a network of 784-500-500-10 units to read digits.
//
//   mnist_mlp [EPOCHS]
//
// Draws its own digits, or reads MNIST's files from $TUTTI_DATA_DIR (or the folder mnist in it).
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tutti/tutti.h"

using namespace tutti;

namespace {

constexpr int kBatch = 64;
constexpr double kLearningRate = 5e-4;
constexpr std::uint64_t kSeed = 1;

// --- The model ---

// A layer with glorot-uniform weights.
Output dense(Output x, std::int64_t units, const std::string& name) {
  Graph& graph = x.graph();
  auto scope = graph.name_scope(name);
  const std::int64_t inputs = x.shape().dim(1);
  const double limit = std::sqrt(6.0 / static_cast<double>(inputs + units));
  const Seeds seeds{kSeed, graph.num_nodes()};
  Var kernel = variable(graph, random_uniform(graph, {inputs, units}, DType::kFloat, -limit, limit, seeds), "kernel");
  Var bias = variable(graph, zeros(graph, DType::kFloat, {units}), "bias");
  return nn::bias_add(matmul(x, kernel), bias);
}

struct Model {
  Graph graph{builtin_ops()};
  Output images = placeholder(graph, DType::kFloat, {kUnknownDim, kDigitPixels}, "images");
  Output labels = placeholder(graph, DType::kInt64, {kUnknownDim}, "labels");
  Output hidden1 = nn::relu(dense(images, 500, "hidden1"));
  Output hidden2 = nn::relu(dense(hidden1, 500, "hidden2"));
  Output logits = dense(hidden2, kDigitClasses, "logits");
  Output loss = reduce_mean(nn::sparse_softmax_cross_entropy_with_logits(labels, logits));
  Output accuracy = reduce_mean(cast(equal(argmax(logits, 1), labels), DType::kFloat));
  Node* train = Adam(kLearningRate).minimize(loss);
  Node* init = global_variables_initializer(graph);
};

// --- The data ---

DigitSplit load_digits() {
  const char* directory = std::getenv("TUTTI_DATA_DIR");
  if (directory == nullptr || *directory == '\0') {
    std::printf("drawing 30000 digits to learn from and 5000 to test with\n");
    return {draw_digits(30000, kSeed), draw_digits(5000, kSeed + 1)};
  }
  FileSystem& files = local_file_system();
  const std::string mnist = str_cat(directory, "/mnist");
  const std::string from = files.exists(mnist) ? mnist : directory;
  std::printf("reading %s\n", from.c_str());
  return load_mnist(files, from).value_or_throw();
}

// Copies the rows that `order` names.
DigitSet take(const DigitSet& set, std::span<const std::int64_t> order) {
  const auto n = static_cast<std::int64_t>(order.size());
  DigitSet batch{Tensor(DType::kFloat, {n, kDigitPixels}), Tensor(DType::kInt64, {n})};
  float* pixels = batch.images.data<float>();
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = order[static_cast<std::size_t>(i)];
    pixels = std::copy_n(set.images.data<float>() + row * kDigitPixels, kDigitPixels, pixels);
    batch.labels.data<std::int64_t>()[i] = set.labels.data<std::int64_t>()[row];
  }
  return batch;
}

// --- The training ---

// One line that grows on a terminal; nothing elsewhere.
class ProgressBar {
 public:
  ProgressBar(int epoch, int steps) : epoch_(epoch), steps_(steps) {}
  void show(int step, float loss, double rate) {
    if (!terminal_ || (step % 10 != 0 && step != steps_)) return;
    constexpr int kWidth = 30;
    const int filled = kWidth * step / steps_;
    std::printf("\repoch %d [%s%s] %d/%d  loss %.4f  %.0f steps/s ", epoch_, std::string(filled, '=').c_str(),
                std::string(kWidth - filled, ' ').c_str(), step, steps_, loss, rate);
    std::fflush(stdout);
  }
  ~ProgressBar() {
    if (terminal_) std::printf("\r\033[K");
  }

 private:
  const bool terminal_ = isatty(STDOUT_FILENO) != 0;
  const int epoch_;
  const int steps_;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Steps a second.
double train_epoch(Session& session, const Model& model, const DigitSet& set, int epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(set.size()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(kSeed + static_cast<std::uint64_t>(epoch)));
  const int steps = static_cast<int>(set.size() / kBatch);
  ProgressBar bar(epoch, steps);
  const auto start = std::chrono::steady_clock::now();
  for (int step = 1; step <= steps; ++step) {
    const DigitSet batch = take(set, std::span(order).subspan(static_cast<std::size_t>(step - 1) * kBatch, kBatch));
    const auto results =
        session.run({{model.images, batch.images}, {model.labels, batch.labels}}, {model.loss}, {model.train});
    bar.show(step, results[0].scalar<float>(), step / seconds_since(start));
  }
  return steps / seconds_since(start);
}

double test_accuracy(Session& session, const Model& model, const DigitSet& set) {
  constexpr std::int64_t kRows = 1000;
  double right = 0;
  for (std::int64_t at = 0; at < set.size(); at += kRows) {
    const std::int64_t end = std::min(at + kRows, set.size());
    const auto results = session.run(
        {{model.images, set.images.slice(at, end)}, {model.labels, set.labels.slice(at, end)}}, {model.accuracy});
    right += results[0].scalar<float>() * static_cast<double>(end - at);
  }
  return right / static_cast<double>(set.size());
}

void train(int epochs) {
  const DigitSplit digits = load_digits();
  Model model;
  LocalSession session(model.graph);
  session.run({model.init});
  double accuracy = 0, rate = 0;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    rate = train_epoch(session, model, digits.train, epoch);
    accuracy = test_accuracy(session, model, digits.test);
    std::printf("epoch %d/%d  test accuracy %.2f %%  %.0f steps/s\n", epoch, epochs, 100 * accuracy, rate);
    std::fflush(stdout);
  }
  std::printf("test accuracy %.1f %%  %.0f steps/s\n", 100 * accuracy, rate);
}

}  // namespace

int main(int argc, char** argv) {
  const int epochs = argc > 1 ? std::atoi(argv[1]) : 5;
  if (epochs < 1) {
    std::fprintf(stderr, "usage: mnist_mlp [EPOCHS]\n");
    return 2;
  }
  try {
    train(epochs);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "mnist_mlp: %s\n", error.what());
    return 1;
  }
}
