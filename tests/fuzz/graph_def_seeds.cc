// Writes graphs for the fuzzer to start from, each small and whole: graph_def_seeds FOLDER
#include <cstdio>
#include <functional>
#include <string>

#include "tutti/tutti.h"

using namespace tutti;

namespace {

void training_step(Graph& graph, Optimizer& optimizer) {
  Output x = placeholder(graph, DType::kFloat, {kUnknownDim, 3}, "x");
  Output y = placeholder(graph, DType::kInt64, {kUnknownDim}, "y");
  Var w = variable(graph, random_uniform(graph, {3, 4}, DType::kFloat, -1, 1, {1, 2}), "w");
  Var b = variable(graph, zeros(graph, DType::kFloat, {4}), "b");
  Output logits = nn::bias_add(matmul(x, w), b);
  Output loss = reduce_mean(nn::sparse_softmax_cross_entropy_with_logits(y, nn::relu(logits)));
  optimizer.minimize(loss);
}

void sgd(Graph& graph) {
  SGD optimizer(0.1);
  training_step(graph, optimizer);
}

void adam(Graph& graph) {
  Adam optimizer(0.1);
  training_step(graph, optimizer);
}

void branches(Graph& graph) {
  Output x = placeholder(graph, DType::kFloat, {2, 2}, "x");
  Output pred = placeholder(graph, DType::kBool, PartialShape::scalar(), "pred");
  Output index = placeholder(graph, DType::kInt32, PartialShape::scalar(), "index");
  const BodyFn twice = [](Graph&, const std::vector<Output>& args) { return std::vector{args[0] + args[0]}; };
  const BodyFn square = [](Graph&, const std::vector<Output>& args) { return std::vector{args[0] * args[0]}; };
  Output a = cond(pred, {x}, twice, square)[0];
  Output b = case_(index, {x}, {twice, square, twice})[0];
  gradients({reduce_sum(a + b)}, {x});
}

void loop(Graph& graph) {
  Output x = placeholder(graph, DType::kFloat, {3}, "x");
  const BodyFn small = [](Graph& body, const std::vector<Output>& args) {
    return std::vector{less(args[0], constant(body, 3, DType::kInt32))};
  };
  const BodyFn grow = [](Graph& body, const std::vector<Output>& args) {
    return std::vector{args[0] + constant(body, 1, DType::kInt32), tanh(args[1])};
  };
  Output end = while_loop({constant(graph, 0, DType::kInt32), x}, small, grow)[1];
  gradients({end}, {x});
}

void old_loop(Graph& graph) {
  const AttrMap frame{{"frame_name", "loop"}};
  Output enter = op1("Enter", {constant(graph, 0, DType::kInt32)}, frame);
  Output limit = op1("Enter", {constant(graph, 3, DType::kInt32)}, {{"frame_name", "loop"}, {"is_constant", true}});
  NodeSpec spec{.op = "Merge", .name = "merge", .inputs = {enter, Output()}, .attrs = {{"T", DType::kInt32}, {"N", 2}}};
  Node* merge = graph.add_exact(spec).value_or_throw();
  Output go = op1("LoopCond", {less(merge->output(), limit)});
  Node* branch = add_op(graph, "Switch", {merge->output(), go});
  Output body = identity(branch->output(1));
  auto inside = graph.control_dependencies({body.node});
  Output next = op1("NextIteration", {body + constant(graph, 1, DType::kInt32)});
  throw_if_error(graph.set_input(*merge, 1, next));
  op1("Exit", {branch->output(0)});
}

void functions(Graph& graph) {
  define_function(graph, "double_it", {DType::kFloat},
                  [](Graph&, const std::vector<Output>& args) { return std::vector{args[0] + args[0]}; });
  Output x = placeholder(graph, DType::kFloat, {2}, "x");
  Output y = call(graph, "double_it", call(graph, "double_it", {x}))[0];
  gradients({y}, {x});
}

void shapes(Graph& graph) {
  Output x = placeholder(graph, DType::kFloat, {4, 6}, "x");
  Output y = concat({transpose(reshape(x, {6, 4})), slice(x, {0, 0}, {4, 2})}, 1);
  y = gather(tile(y, {2, 1}), constant(graph, Tensor::vector<std::int32_t>({0, 3, 5})));
  y = strided_slice(y, {0, 1}, {3, 7}, {1, 2});
  y = pad(y, {{1, 1}, {0, 2}});
  gradients({reduce_sum(y)}, {x});
}

void write(const std::string& folder, const std::string& name, const std::function<void(Graph&)>& build) {
  Graph graph(builtin_ops());
  build(graph);
  throw_if_error(write_file(local_file_system(), str_cat(folder, "/seed_", name), export_graph_def(graph)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: graph_def_seeds FOLDER\n");
    return 2;
  }
  try {
    write(argv[1], "sgd", sgd);
    write(argv[1], "adam", adam);
    write(argv[1], "branches", branches);
    write(argv[1], "loop", loop);
    write(argv[1], "old_loop", old_loop);
    write(argv[1], "functions", functions);
    write(argv[1], "shapes", shapes);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "graph_def_seeds: %s\n", error.what());
    return 1;
  }
}
