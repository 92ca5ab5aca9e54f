// libFuzzer target: bytes are imported as a GraphDef and, when that works, run once with placeholders fed with zeros.
// Anything may fail, with a status; nothing may crash, read out of bounds, or hang.
//
// Mutations are of two kinds: libFuzzer's on the bytes, and ours on the parsed graph (ops exchanged, inputs rewired,
// attributes changed), which get past the importer more often.
#include <google/protobuf/stubs/logging.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "proto/graph.pb.h"
#include "tutti/graph/graph_def.h"
#include "tutti/ops/op_table.h"
#include "tutti/runtime/local_session.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

// One tensor of a hostile graph may be as large as it says: the allocator refuses instead of the fuzzer dying.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=64:detect_leaks=0";
}

namespace tutti {
namespace {

constexpr int kMaxNodes = 300;
constexpr int kMaxFetches = 16;
constexpr std::int64_t kMaxFeedElements = 1024;
constexpr std::int64_t kUnknownDimFed = 2;
constexpr std::chrono::milliseconds kStepTimeout{250};

// One for all inputs: making threads costs more than most graphs do. Its state is reset after each.
const std::shared_ptr<LocalRuntime>& shared_runtime() {
  static const auto runtime =
      std::make_shared<LocalRuntime>(RuntimeOptions{.intra_op_threads = 1, .inter_op_threads = 1});
  return runtime;
}

// Zeros of the placeholder's shape, open dimensions taken small; nothing when it is too large to be of use.
std::optional<Tensor> zeros_for(const Node& node) {
  const DType dtype = node.output_types()[0].dtype;
  const PartialShape& declared = node.output_shape(0);
  std::vector<std::int64_t> dims;
  for (int i = 0; i < std::max(declared.rank(), 0); ++i) {
    dims.push_back(declared.dim(i) == kUnknownDim ? kUnknownDimFed : declared.dim(i));
  }
  Result<Shape> shape = Shape::create(dims);
  if (!shape.ok() || shape->num_elements() > kMaxFeedElements) return std::nullopt;
  if (dtype == DType::kInvalid || (dtype_size(dtype) == 0 && dtype != DType::kString)) return std::nullopt;
  return Tensor(dtype, *shape);
}

void run_once(Graph& graph) {
  Feeds feeds;
  std::vector<TensorName> fetches;
  std::vector<NodeName> targets;
  const std::vector<std::vector<Node*>> consumers = graph.consumers();
  for (Node* node : graph.nodes()) {
    if (node->op_name() == "Placeholder") {
      if (std::optional<Tensor> zeros = zeros_for(*node)) feeds.emplace_back(node->output(), *zeros);
    }
    if (!consumers[static_cast<std::size_t>(node->id())].empty()) continue;
    targets.emplace_back(node);
    if (node->num_outputs() > 0 && fetches.size() < kMaxFetches && node->op_name() != "Placeholder") {
      fetches.emplace_back(node->output());
    }
  }
  LocalSession session(graph, {.runtime = shared_runtime(), .allow_soft_placement = true});
  (void)session.try_run(feeds, fetches, targets, {.timeout = kStepTimeout});
  (void)session.close();
}

// --- Mutations of the parsed graph ---

class GraphMutator {
 public:
  GraphMutator(tensorflow::GraphDef& graph, unsigned seed) : graph_(graph), random_(seed) {}

  void mutate() {
    if (graph_.node_size() == 0) return;
    switch (below(7)) {
      case 0:
        return exchange_op();
      case 1:
        return rewire();
      case 2:
        return drop_node();
      case 3:
        return copy_node();
      case 4:
        return swap_attr();
      default:
        return change_attr();
    }
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  tensorflow::NodeDef& any_node() { return *graph_.mutable_node(below(graph_.node_size())); }

  void exchange_op() {
    static const std::vector<const OpDef*> ops = builtin_ops()->registry()->all();
    any_node().set_op(ops[static_cast<std::size_t>(below(static_cast<int>(ops.size())))]->name);
  }
  void rewire() {
    tensorflow::NodeDef& node = any_node();
    std::string input = any_node().name();
    if (below(4) == 0) input += ":1";
    if (below(4) == 0) input = "^" + input;
    if (node.input_size() == 0 || below(4) == 0) {
      node.add_input(input);
    } else {
      node.set_input(below(node.input_size()), input);
    }
  }
  void drop_node() { graph_.mutable_node()->DeleteSubrange(below(graph_.node_size()), 1); }
  void copy_node() {
    tensorflow::NodeDef copy = any_node();
    copy.set_name(copy.name() + "c");
    *graph_.add_node() = std::move(copy);
  }
  tensorflow::AttrValue* any_attr(tensorflow::NodeDef& node, std::string* name) {
    if (node.attr().empty()) return nullptr;
    auto it = node.mutable_attr()->begin();
    std::advance(it, below(static_cast<int>(node.attr().size())));
    *name = it->first;
    return &it->second;
  }
  void swap_attr() {
    std::string name;
    if (const tensorflow::AttrValue* value = any_attr(any_node(), &name)) {
      const tensorflow::AttrValue copy = *value;
      (*any_node().mutable_attr())[name] = copy;
    }
  }
  void change_attr() {
    std::string name;
    tensorflow::AttrValue* value = any_attr(any_node(), &name);
    if (value == nullptr) return;
    static constexpr std::int64_t kNumbers[] = {0, 1, -1, 2, 3, 7, 1 << 20, INT32_MAX, INT64_MAX, INT64_MIN};
    const std::int64_t number = kNumbers[below(std::size(kNumbers))];
    switch (value->value_case()) {
      case tensorflow::AttrValue::kI:
        return value->set_i(number);
      case tensorflow::AttrValue::kB:
        return value->set_b(!value->b());
      case tensorflow::AttrValue::kF:
        return value->set_f(static_cast<float>(number));
      case tensorflow::AttrValue::kType:
        return value->set_type(static_cast<tensorflow::DataType>(below(32)));
      case tensorflow::AttrValue::kShape:
        return change_shape(*value->mutable_shape(), number);
      case tensorflow::AttrValue::kTensor:
        return change_tensor(*value->mutable_tensor(), number);
      default:
        return value->set_i(number);
    }
  }
  void change_shape(tensorflow::TensorShapeProto& shape, std::int64_t number) {
    if (shape.dim_size() == 0 || below(3) == 0) {
      shape.add_dim()->set_size(number);
    } else {
      shape.mutable_dim(below(shape.dim_size()))->set_size(number);
    }
  }
  void change_tensor(tensorflow::TensorProto& tensor, std::int64_t number) {
    switch (below(4)) {
      case 0:
        return change_shape(*tensor.mutable_tensor_shape(), number);
      case 1:
        return tensor.set_dtype(static_cast<tensorflow::DataType>(below(32)));
      case 2:
        tensor.clear_tensor_content();
        [[fallthrough]];
      default:
        tensor.add_int_val(static_cast<int>(number));
        tensor.add_float_val(static_cast<float>(number));
    }
  }

  tensorflow::GraphDef& graph_;
  std::minstd_rand random_;
};

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);  // it would say what is wrong with every input
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  tensorflow::GraphDef graph;
  if (seed % 4 == 0 || !graph.ParseFromArray(data, static_cast<int>(size))) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  tutti::GraphMutator mutator(graph, seed);
  for (unsigned i = 0; i <= seed / 4 % 3; ++i) mutator.mutate();
  const std::string bytes = graph.SerializeAsString();
  if (bytes.empty() || bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  bytes.copy(reinterpret_cast<char*>(data), bytes.size());
  return bytes.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  Graph graph(builtin_ops());
  const Status imported = import_graph_def({reinterpret_cast<const char*>(data), size}, graph);
  if (imported.ok() && graph.num_nodes() <= kMaxNodes) {
    run_once(graph);
    shared_runtime()->reset();
  }
  return 0;
}
