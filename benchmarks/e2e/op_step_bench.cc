// One op at a time, at sizes of real models, for benchmarks/run.
//
//   op_step_bench OP THREADS
//
//   adam             update of 648,010 weights
//   sparse_adagrad   update of 26,624 rows of a table of 200,000 x 64
//   gather           26,624 rows of that table
//   embedding_bag    their means in 1,024 bags of 26; embedding_bag_grad the gradient, of the rows that were used
//   segment_sum      26,624 rows added up to 20,000, in no order
//   softmax_xent     loss and gradient of 1,024 rows of 1,000 classes
//   max_pool         2x2 windows of 128 images of 28x28x32; max_pool_grad its gradient
//   avg_pool         the same, averages
//   conv3x3          16 images of 16x16x128 to as many channels; conv1x1 to 512 channels
//   conv_input_grad, conv_filter_grad   the two gradients of conv3x3
//   batch_norm       training on 16 images of 16x16x512; batch_norm_grad its gradient
//   lstm_sequence    40 steps of 128 cells over 64 inputs, 32 rows
//   batch_matmul     32 products of 128x64 by 64x128
//
// Inputs are variables, results stay in the runtime. Speaks the protocol of peers.py (step_bench.h).
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "step_bench.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/random.h"
#include "tutti/ops/state.h"
#include "tutti/runtime/local_session.h"

using namespace tutti;

namespace {

constexpr std::int64_t kWeights = 648010;
constexpr std::int64_t kRows = 200000, kWidth = 64, kIds = 26 * 1024;
constexpr std::int64_t kBatch = 1024, kClasses = 1000, kSegments = 20000;

class OpBench {
 public:
  OpBench(const std::string& op, int threads) {
    const auto it = builders().find(op);
    if (it == builders().end()) throw Error(invalid_argument("there is no op ", op, " here"));
    Node* node = it->second(*this);
    Node* init = global_variables_initializer(graph_);
    session_ = std::make_unique<LocalSession>(
        graph_, SessionOptions{.threads = {.intra_op_threads = threads, .inter_op_threads = threads}});
    session_->run({init});
    callable_ = session_->make_callable({{}, {}, {node->name()}}).value_or_throw();
  }

  void step() { session_->run_callable(callable_, {}).value_or_throw(); }

 private:
  static const std::map<std::string, std::function<Node*(OpBench&)>>& builders() {
    static const std::map<std::string, std::function<Node*(OpBench&)>> all{
        {"adam", &OpBench::adam},
        {"sparse_adagrad", &OpBench::sparse_adagrad},
        {"gather",
         [](OpBench& b) {
           return gather(b.numbers({kRows, kWidth}), b.ids(kRows, kIds)).node;
         }},
        {"embedding_bag",
         [](OpBench& b) {
           return op1("SparseSegmentMean", {b.numbers({kRows, kWidth}), b.ids(kRows, kIds), b.bags()}).node;
         }},
        {"embedding_bag_grad", &OpBench::embedding_bag_grad},
        {"segment_sum", &OpBench::segment_sum},
        {"softmax_xent", &OpBench::softmax_xent},
        {"max_pool", [](OpBench& b) { return b.pool("MaxPool").node; }},
        {"max_pool_grad", &OpBench::max_pool_grad},
        {"avg_pool", [](OpBench& b) { return b.pool("AvgPool").node; }},
        {"conv3x3",
         [](OpBench& b) {
           return b.convolution("Conv2D", {b.images(128), b.numbers({3, 3, 128, 128})});
         }},
        {"conv1x1",
         [](OpBench& b) {
           return b.convolution("Conv2D", {b.images(128), b.numbers({1, 1, 128, 512})});
         }},
        {"conv_input_grad",
         [](OpBench& b) {
           return b.convolution("Conv2DBackpropInput",
                                {b.sizes({16, 16, 16, 128}), b.numbers({3, 3, 128, 128}), b.images(128)});
         }},
        {"conv_filter_grad",
         [](OpBench& b) {
           return b.convolution("Conv2DBackpropFilter", {b.images(128), b.sizes({3, 3, 128, 128}), b.images(128)});
         }},
        {"batch_norm", &OpBench::batch_norm},
        {"batch_norm_grad", &OpBench::batch_norm_grad},
        {"lstm_sequence", &OpBench::lstm_sequence},
        {"batch_matmul", [](OpBench& b) {
           return add_op(b.graph_, "BatchMatMulV2", {b.numbers({32, 128, 64}), b.numbers({32, 64, 128})});
         }}};
    return all;
  }

  Var numbers(const Shape& shape) {
    Output initial = random_uniform(graph_, shape, DType::kFloat, 0, 1, {1, ++seed_});
    return variable(graph_, initial, str_cat("v", seed_));
  }

  Var ids(std::int64_t limit, std::int64_t count) {
    Tensor values(DType::kInt64, Shape{count});
    std::uint64_t state = 1;
    for (std::int64_t& id : values.flat<std::int64_t>()) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      id = static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(limit));
    }
    return variable(graph_, values, str_cat("v", ++seed_), false);
  }

  // For each id the bag that it is in: kBatch of them, equally large.
  Var bags() {
    Tensor values(DType::kInt64, Shape{kIds});
    for (std::int64_t i = 0; i < kIds; ++i) values.data<std::int64_t>()[i] = i / (kIds / kBatch);
    return variable(graph_, values, str_cat("v", ++seed_), false);
  }

  Output scalar(float value) { return constant(graph_, Tensor::scalar(value)); }

  Node* adam() {
    const Shape shape{kWeights};
    Var weights = numbers(shape), m = numbers(shape), v = numbers(shape);
    return add_op(graph_, "ResourceApplyAdam",
                  {weights.handle(), m.handle(), v.handle(), scalar(0.5f), scalar(0.5f), scalar(1e-4f), scalar(0.9f),
                   scalar(0.999f), scalar(1e-7f), numbers(shape)});
  }

  Node* sparse_adagrad() {
    Var table = numbers({kRows, kWidth}), sums = numbers({kRows, kWidth});
    return add_op(
        graph_, "ResourceSparseApplyAdagradV2",
        {table.handle(), sums.handle(), scalar(0.01f), scalar(1e-7f), numbers({kIds, kWidth}), ids(kRows, kIds)});
  }

  Node* embedding_bag_grad() {
    Output rows = constant(graph_, static_cast<std::int64_t>(kRows), DType::kInt32);
    return add_op(graph_, "SparseSegmentMeanGradV2", {numbers({kBatch, kWidth}), ids(kRows, kIds), bags(), rows});
  }

  Node* segment_sum() {
    Output segments = constant(graph_, static_cast<std::int64_t>(kSegments), DType::kInt32);
    return unsorted_segment_sum(numbers({kIds, kWidth}), ids(kSegments, kIds), segments).node;
  }

  Node* softmax_xent() {
    return add_op(graph_, "SparseSoftmaxCrossEntropyWithLogits", {numbers({kBatch, kClasses}), ids(kClasses, kBatch)});
  }

  AttrMap window() {
    const std::vector<std::int64_t> sizes{1, 2, 2, 1};
    return {{"ksize", sizes}, {"strides", sizes}, {"padding", std::string("VALID")}};
  }

  Output pool(const std::string& op) { return op1(op, {numbers({128, 28, 28, 32})}, window()); }

  Node* max_pool_grad() {
    // The pooled values are a variable too, so that only the gradient is computed.
    Var images = numbers({128, 28, 28, 32});
    return add_op(graph_, "MaxPoolGrad",
                  {images, variable(graph_, pooled(images), "pooled"), numbers({128, 14, 14, 32})}, window());
  }

  Var images(std::int64_t channels) { return numbers({16, 16, 16, channels}); }

  Output sizes(std::initializer_list<std::int32_t> dims) {
    return constant(graph_, Tensor::vector<std::int32_t>(dims));
  }

  Node* convolution(const std::string& op, const std::vector<Output>& inputs) {
    return add_op(graph_, op, inputs,
                  {{"strides", std::vector<std::int64_t>{1, 1, 1, 1}}, {"padding", std::string("SAME")}});
  }

  Node* batch_norm() {
    Output none = constant(graph_, Tensor(DType::kFloat, {0}));
    return add_op(graph_, "FusedBatchNormV3", {images(512), numbers({512}), numbers({512}), none, none});
  }

  Node* batch_norm_grad() {
    const Shape channels{512};
    return add_op(graph_, "FusedBatchNormGradV3",
                  {images(512), images(512), numbers(channels), numbers(channels), numbers(channels), numbers({0})});
  }

  Node* lstm_sequence() {
    Output length = constant(graph_, Tensor::scalar(std::int64_t{40}));
    Var state = numbers({32, 128}), peephole = numbers({128});
    return add_op(graph_, "BlockLSTM",
                  {length, numbers({40, 32, 64}), state, state, numbers({192, 512}), peephole, peephole, peephole,
                   numbers({512})},
                  {{"cell_clip", 0.0f}});
  }

  // Of the initial values of `images`.
  Output pooled(const Var& images) { return op1("MaxPool", {images.initializer()->input(1)}, window()); }

  Graph graph_{builtin_ops()};
  std::int64_t seed_ = 0;
  std::unique_ptr<LocalSession> session_;
  Session::CallableId callable_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: op_step_bench OP THREADS\n");
    return 2;
  }
  return bench::serve([&] {
    auto op = std::make_shared<OpBench>(argv[1], std::atoi(argv[2]));
    return [op] { op->step(); };
  });
}
