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
//   avg_pool         the same, averages; avg_pool_grad its gradient
//   max_pool3        3x3 windows, two apart, of 16 images of 32x32x64
//   momentum         update of the 648,010 weights
//   matmul           512x1024 and 1024x1024
//   bias_relu        bias of 16 images of 32x32x256 and what is over zero
//   softmax          of 32,768 rows of 128
//   row_mean         of 4,096 rows of 512; squared_difference of the rows and their means
//   transpose        heads of attention to the front: 32x128x8x64
//   concat           four blocks of 16 images of 17x17x192, by channels
//   conv7x7          64 channels of 16 images of 64x64x3, two apart
//   einsum_dense     projection of 32 x 128 rows of 512 onto 8 heads of 64
//   einsum_scores    scores of attention: 32 sequences of 128, 8 heads of 64, as they lie in memory
//   batch_matmul     256 products of 128x64 and 64x128
//   top_k            the 10 largest of 256 rows of 32,000
//   resize_bilinear  32 images of 256x256x3 to 224x224
//   decode_jpeg      one image of 500x375
//   parse_example    1,024 Examples of 13 floats and 26 integers
//   conv3x3          16 images of 16x16x128 to as many channels; conv1x1 to 512 channels
//   conv_input_grad, conv_filter_grad   the two gradients of conv3x3
//   batch_norm       training on 16 images of 16x16x512; batch_norm_grad its gradient
//   lstm_sequence    40 steps of 128 cells over 64 inputs, 32 rows; lstm_training with the gradients of all
//
// Inputs are variables, results stay in the runtime. Speaks the protocol of peers.py (step_bench.h).
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "step_bench.h"
#include "tutti/graph/gradients.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/image.h"
#include "tutti/ops/layout.h"
#include "tutti/ops/linalg.h"
#include "tutti/ops/math.h"
#include "tutti/ops/nn.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/parsing.h"
#include "tutti/ops/random.h"
#include "tutti/ops/state.h"
#include "tutti/runtime/local_session.h"

using namespace tutti;

namespace {

constexpr std::int64_t kWeights = 648010;
constexpr std::int64_t kRows = 200000, kWidth = 64, kIds = 26 * 1024;
constexpr std::int64_t kBatch = 1024, kClasses = 1000, kSegments = 20000;

// What a step is asked for. Nodes themselves, never a NoOp that waits for them: what is computed for nobody is not
// computed at all.
struct Targets {
  Targets(Node* node) : nodes{node} {}
  Targets(std::vector<Node*> several) : nodes(std::move(several)) {}
  std::vector<Node*> nodes;
};

class OpBench {
 public:
  OpBench(const std::string& op, int threads) {
    const auto it = builders().find(op);
    if (it == builders().end()) throw Error(invalid_argument("there is no op ", op, " here"));
    const Targets targets = it->second(*this);
    Node* init = global_variables_initializer(graph_);
    session_ = std::make_unique<LocalSession>(
        graph_, SessionOptions{.threads = {.intra_op_threads = threads, .inter_op_threads = threads}});
    session_->run({init});
    Signature signature;
    for (const Node* node : targets.nodes) signature.targets.push_back(node->name());
    callable_ = session_->make_callable(signature).value_or_throw();
  }

  void step() { session_->run_callable(callable_, {}).value_or_throw(); }

 private:
  static const std::map<std::string, std::function<Targets(OpBench&)>>& builders() {
    static const std::map<std::string, std::function<Targets(OpBench&)>> all{
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
        {"avg_pool_grad",
         [](OpBench& b) {
           return add_op(b.graph_, "AvgPoolGrad", {b.sizes({128, 28, 28, 32}), b.numbers({128, 14, 14, 32})},
                         window(2));
         }},
        {"max_pool3",
         [](OpBench& b) {
           return op1("MaxPool", {b.numbers({16, 32, 32, 64})}, window(3, "SAME")).node;
         }},
        {"momentum", &OpBench::momentum},
        {"matmul",
         [](OpBench& b) {
           return matmul(b.numbers({512, 1024}), b.numbers({1024, 1024})).node;
         }},
        {"bias_relu",
         [](OpBench& b) {
           return nn::relu(nn::bias_add(b.numbers({16, 32, 32, 256}), b.numbers({256}))).node;
         }},
        {"softmax",
         [](OpBench& b) {
           return nn::softmax(b.numbers({32768, 128})).node;
         }},
        {"row_mean",
         [](OpBench& b) {
           return reduce_mean(b.numbers({4096, 512}), Reduce(Ints{1}, true)).node;
         }},
        {"squared_difference",
         [](OpBench& b) {
           return squared_difference(b.numbers({4096, 512}), b.numbers({4096, 1})).node;
         }},
        {"transpose",
         [](OpBench& b) {
           return transpose(b.numbers({32, 128, 8, 64}), Ints{0, 2, 1, 3}).node;
         }},
        {"concat",
         [](OpBench& b) {
           std::vector<Output> blocks;
           for (int i = 0; i < 4; ++i) blocks.push_back(b.numbers({16, 17, 17, 192}));
           return concat(blocks, 3).node;
         }},
        {"conv7x7",
         [](OpBench& b) {
           return b.convolution("Conv2D", {b.numbers({16, 64, 64, 3}), b.numbers({7, 7, 3, 64})}, 2);
         }},
        {"einsum_dense",
         [](OpBench& b) {
           return einsum("abc,cde->abde", {b.numbers({32, 128, 512}), b.numbers({512, 8, 64})}).node;
         }},
        {"einsum_scores",
         [](OpBench& b) {
           return einsum("aecd,abcd->acbe", {b.numbers({32, 128, 8, 64}), b.numbers({32, 128, 8, 64})}).node;
         }},
        {"batch_matmul",
         [](OpBench& b) {
           return batch_matmul(b.numbers({256, 128, 64}), b.numbers({256, 64, 128})).node;
         }},
        {"top_k",
         [](OpBench& b) {
           return top_k(b.numbers({256, 32000}), 10).values.node;
         }},
        {"resize_bilinear",
         [](OpBench& b) {
           return image::resize(b.numbers({32, 256, 256, 3}), {224, 224}).node;
         }},
        {"decode_jpeg", &OpBench::decode_jpeg},
        {"parse_example", &OpBench::parse_example},
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
        {"lstm_sequence", [](OpBench& b) { return b.lstm().node; }},
        {"lstm_training", &OpBench::lstm_training}};
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

  Node* momentum() {
    const Shape shape{kWeights};
    Var weights = numbers(shape), sums = numbers(shape);
    return add_op(graph_, "ResourceApplyMomentum",
                  {weights.handle(), sums.handle(), scalar(1e-4f), numbers(shape), scalar(0.9f)});
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

  // Two apart.
  static AttrMap window(std::int64_t size, const std::string& padding = "VALID") {
    return {{"ksize", std::vector<std::int64_t>{1, size, size, 1}},
            {"strides", std::vector<std::int64_t>{1, 2, 2, 1}},
            {"padding", padding}};
  }

  Output pool(const std::string& op) { return op1(op, {numbers({128, 28, 28, 32})}, window(2)); }

  Node* max_pool_grad() {
    // The pooled values are a variable too, so that only the gradient is computed.
    Var images = numbers({128, 28, 28, 32});
    return add_op(graph_, "MaxPoolGrad",
                  {images, variable(graph_, pooled(images), "pooled"), numbers({128, 14, 14, 32})}, window(2));
  }

  Node* decode_jpeg() {
    Tensor pixels(DType::kUint8, Shape{375, 500, 3});
    std::uint8_t* to = pixels.data<std::uint8_t>();
    for (int y = 0; y < 375; ++y) {
      for (int x = 0; x < 500; ++x) {
        for (int c = 0; c < 3; ++c) {
          *to++ = static_cast<std::uint8_t>(3 * y + 2 * x + 60 * c + (7919 * y + 104729 * x) % 13);
        }
      }
    }
    const Output file = image::encode_jpeg(constant(graph_, pixels));
    return image::decode_jpeg(variable(graph_, file, "contents", false)).node;
  }

  static std::string varint(std::uint64_t value) {
    std::string bytes;
    for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
    bytes.push_back(static_cast<char>(value));
    return bytes;
  }
  static std::string field(int number, const std::string& bytes) {
    return varint(static_cast<std::uint64_t>(number) << 3 | 2) + varint(bytes.size()) + bytes;
  }

  Node* parse_example() {
    std::vector<io::FixedLenFeature> features;
    for (int k = 0; k < 13; ++k) features.push_back({str_cat("dense feature ", k), PartialShape{1}, DType::kFloat});
    for (int k = 0; k < 26; ++k) features.push_back({str_cat("category ", k), PartialShape{1}, DType::kInt64});
    Tensor examples(DType::kString, Shape{kBatch});
    for (std::int64_t i = 0; i < kBatch; ++i) {
      std::string entries;
      for (std::size_t k = 0; k < features.size(); ++k) {
        const bool floats = features[k].dtype == DType::kFloat;
        const std::string one = floats ? std::string("\0\0\0\x3f", 4)
                                       : varint(static_cast<std::uint64_t>(i * 7919 + std::ssize(entries)) % 1000000);
        entries += field(1, field(1, features[k].key) + field(2, field(floats ? 2 : 3, field(1, one))));
      }
      examples.data<std::string>()[i] = field(1, entries);
    }
    return io::parse_example(variable(graph_, examples, "examples", false), features).dense.begin()->second.node;
  }

  Var images(std::int64_t channels) { return numbers({16, 16, 16, channels}); }

  Output sizes(std::initializer_list<std::int32_t> dims) {
    return constant(graph_, Tensor::vector<std::int32_t>(dims));
  }

  Node* convolution(const std::string& op, const std::vector<Output>& inputs, std::int64_t stride = 1) {
    return add_op(graph_, op, inputs,
                  {{"strides", std::vector<std::int64_t>{1, stride, stride, 1}}, {"padding", std::string("SAME")}});
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

  struct Lstm {
    Node* node;
    std::vector<Output> learned;  // what gradients are wanted of
  };
  Lstm lstm() {
    Output length = constant(graph_, Tensor::scalar(std::int64_t{40}));
    Output x = numbers({40, 32, 64}), weights = numbers({192, 512}), bias = numbers({512});
    Output state = numbers({32, 128}), peephole = numbers({128});
    Node* node = add_op(graph_, "BlockLSTM", {length, x, state, state, weights, peephole, peephole, peephole, bias},
                        {{"cell_clip", 0.0f}});
    return {node, {x, weights, bias}};
  }
  Targets lstm_training() {
    const Lstm made = lstm();
    std::vector<Node*> wanted;
    for (Gradient& gradient : gradients({reduce_sum({made.node, 6})}, made.learned)) {
      wanted.push_back(gradient.dense().node);
    }
    return wanted;
  }

  // Of the initial values of `images`.
  Output pooled(const Var& images) { return op1("MaxPool", {images.initializer()->input(1)}, window(2)); }

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
