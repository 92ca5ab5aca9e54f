// What the examples that train on digits have in common: the data and a network of 784-500-500-10 units.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tutti/tutti.h"

namespace examples {

using namespace tutti;

inline constexpr std::uint64_t kSeed = 1;

// A layer with glorot-uniform weights.
inline Output dense(Output x, std::int64_t units, const std::string& name) {
  Graph& graph = x.graph();
  const auto scope = graph.name_scope(name);
  const std::int64_t inputs = x.shape().dim(1);
  const double limit = std::sqrt(6.0 / static_cast<double>(inputs + units));
  const Seeds seeds{kSeed, graph.num_nodes()};
  const Var kernel =
      variable(graph, random_uniform(graph, {inputs, units}, DType::kFloat, -limit, limit, seeds), "kernel");
  const Var bias = variable(graph, zeros(graph, DType::kFloat, {units}), "bias");
  return nn::bias_add(matmul(x, kernel), bias);
}

// The network and how wrong it is, in the devices and scopes that are open.
struct DigitModel {
  explicit DigitModel(Graph& graph)
      : images(placeholder(graph, DType::kFloat, {kUnknownDim, kDigitPixels}, "images")),
        labels(placeholder(graph, DType::kInt64, {kUnknownDim}, "labels")),
        logits(
            dense(nn::relu(dense(nn::relu(dense(images, 500, "hidden1")), 500, "hidden2")), kDigitClasses, "logits")),
        loss(reduce_mean(nn::sparse_softmax_cross_entropy_with_logits(labels, logits))),
        accuracy(reduce_mean(cast(equal(argmax(logits, 1), labels), DType::kFloat))) {}

  Feeds feeds(const DigitSet& batch) const { return {{images, batch.images}, {labels, batch.labels}}; }

  Output images;
  Output labels;
  Output logits;
  Output loss;
  Output accuracy;
};

// MNIST's files from $TUTTI_DATA_DIR (or the folder mnist in it); else nothing.
inline std::optional<DigitSplit> read_digits() {
  const char* directory = std::getenv("TUTTI_DATA_DIR");
  if (directory == nullptr || *directory == '\0') return std::nullopt;
  FileSystem& files = local_file_system();
  const std::string mnist = str_cat(directory, "/mnist");
  return load_mnist(files, files.exists(mnist) ? mnist : directory).value_or_throw();
}

// Digits to learn from, MNIST's or drawn; every worker draws its own.
inline DigitSet training_digits(std::int64_t drawn, int worker) {
  if (auto read = read_digits()) return std::move(read->train);
  return draw_digits(drawn, kSeed + 1 + static_cast<std::uint64_t>(worker));
}

inline DigitSet test_digits() {
  if (auto read = read_digits()) return std::move(read->test);
  return draw_digits(5000, kSeed);
}

// Batches of a set in random order, for ever.
class Batches {
 public:
  Batches(DigitSet set, std::int64_t size, std::uint64_t seed)
      : set_(std::move(set)), size_(std::min(size, set_.size())), random_(seed) {
    order_.resize(static_cast<std::size_t>(set_.size()));
    std::iota(order_.begin(), order_.end(), 0);
    next_ = order_.size();
  }

  DigitSet next() {
    const auto count = static_cast<std::size_t>(size_);
    if (next_ + count > order_.size()) {
      std::shuffle(order_.begin(), order_.end(), random_);
      next_ = 0;
    }
    DigitSet batch{Tensor(DType::kFloat, {size_, kDigitPixels}), Tensor(DType::kInt64, {size_})};
    float* pixels = batch.images.data<float>();
    for (std::int64_t i = 0; i < size_; ++i) {
      const std::int64_t row = order_[next_++];
      pixels = std::copy_n(set_.images.data<float>() + row * kDigitPixels, kDigitPixels, pixels);
      batch.labels.data<std::int64_t>()[i] = set_.labels.data<std::int64_t>()[row];
    }
    return batch;
  }

 private:
  const DigitSet set_;
  const std::int64_t size_;
  std::mt19937_64 random_;
  std::vector<std::int64_t> order_;
  std::size_t next_ = 0;
};

// Of the whole set, in pieces.
inline double test_accuracy(Session& session, const DigitModel& model, const DigitSet& set) {
  constexpr std::int64_t kRows = 1000;
  double right = 0;
  for (std::int64_t at = 0; at < set.size(); at += kRows) {
    const std::int64_t end = std::min(at + kRows, set.size());
    const DigitSet piece{set.images.slice(at, end), set.labels.slice(at, end)};
    right += session.run(model.feeds(piece), {model.accuracy})[0].scalar<float>() * static_cast<double>(end - at);
  }
  return right / static_cast<double>(set.size());
}

}  // namespace examples
