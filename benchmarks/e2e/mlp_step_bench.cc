// The MLP step for benchmarks/run: 784-500-500-10, Adam, float.
//
//   mlp_step_bench BATCH THREADS
//
// Prints `ready`; then for each line of standard input, a number of seconds, steps for that long and prints steps/s.
// Speaks the protocol of peers.py. The answer is checked: the loss must be a number and must have fallen.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

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

double measure(Model& model, double seconds, float* loss) {
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  int steps = 0;
  while (elapsed() < seconds) {
    for (int i = 0; i < 4; ++i) *loss = model.step();
    steps += 4;
  }
  return steps / elapsed();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: mlp_step_bench BATCH THREADS\n");
    return 2;
  }
  try {
    const int threads = std::atoi(argv[2]);
    Model model(std::atoll(argv[1]), {.intra_op_threads = threads, .inter_op_threads = threads});
    const float first = model.step();
    float loss = first;
    measure(model, 1.0, &loss);
    if (!std::isfinite(loss) || loss >= first) {
      std::fprintf(stderr, "mlp_step_bench: the loss went from %g to %g\n", first, loss);
      return 1;
    }
    std::puts("ready callable");
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
      std::printf("%.3f\n", measure(model, std::atof(line.c_str()), &loss));
      std::fflush(stdout);
    }
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "mlp_step_bench: %s\n", error.what());
    return 1;
  }
}
