#include <cstdio>

#include "tutti/tutti.h"

tutti::Status negate(tutti::KernelContext& context) {
  const tutti::Tensor& x = context.input(0);
  TUTTI_ASSIGN_OR_RETURN(tutti::Tensor * y, context.forward_or_allocate(0, 0, x.shape()));
  for (std::int64_t i = 0; i < x.num_elements(); ++i) y->data<float>()[i] = -x.data<float>()[i];
  return {};
}

int main() {
  int unused_here_is_no_error_of_tutti;
  auto ops = std::make_shared<tutti::OpTable>();
  tutti::register_all_ops(*ops);
  ops->add({.name = "Negate", .signature = "x: float -> y: float", .kernels = {TUTTI_CPU(tutti::kernel_from(negate))}});
  tutti::Graph graph(ops);
  const tutti::Output x = tutti::placeholder(graph, tutti::DType::kFloat, tutti::PartialShape::scalar(), "x");
  const tutti::Output y = tutti::op1("Negate", {x});
  tutti::LocalSession session(graph, {.ops = ops});
  const tutti::Tensor three = tutti::Tensor::scalar(3.0f);
  std::printf("Negate(3) = %g\n", session.run({{x, three}}, {y * 2.0 - y})[0].scalar<float>());
}
