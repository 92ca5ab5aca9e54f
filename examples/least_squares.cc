// Finds the weights of a linear function from three examples.
#include <cstdio>

#include "tutti/tutti.h"

using namespace tutti;

int main() {
  Graph graph(builtin_ops());
  Output x = placeholder(graph, DType::kFloat, {kUnknownDim, 2}, "x");
  Output y = placeholder(graph, DType::kFloat, {kUnknownDim, 1}, "y");
  Var w = variable(graph, zeros(graph, DType::kFloat, {2, 1}), "w");
  Output loss = reduce_mean(square(matmul(x, w) - y));
  Node* train = SGD(0.1).minimize(loss);
  Node* init = global_variables_initializer(graph);

  LocalSession session(graph);
  session.run({init});
  const Tensor inputs = Tensor::of<float>({3, 2}, {1, 0, 0, 1, 1, 1});
  const Tensor targets = Tensor::of<float>({3, 1}, {2, -3, -1});
  for (int step = 0; step < 200; ++step) session.run({{x, inputs}, {y, targets}}, {}, {train});
  std::printf("%s\n", session.run({}, {w})[0].to_string().c_str());  // close to 2, -3
}
