// An op of your own: signature, shape rule, gradient and kernel in one row, outside of the library.
//
//   $ build/release/bin/custom_op
//   cube(3) = 27, its derivative = 27

#include <cstdio>

#include "tutti/tutti.h"

namespace {

using namespace tutti;

Status cube(KernelContext& context) {
  const Tensor& x = context.input(0);
  TUTTI_ASSIGN_OR_RETURN(Tensor * y, context.forward_or_allocate(0, 0, x.shape()));
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    const float value = x.data<float>()[i];
    y->data<float>()[i] = value * value * value;
  }
  return {};
}

void cube_grad(GradContext& context) {
  Output x = context.input(0);
  context.set(0, context.grad() * x * x * 3.0);
}

}  // namespace

int main() {
  auto ops = std::make_shared<OpTable>();
  register_all_ops(*ops);
  ops->add({.name = "Cube",
            .signature = "x: T -> y: T",
            .attrs = "T: type",
            .types = DTypeSet{DType::kFloat},
            .shape = shape::unchanged,
            .grad = cube_grad,
            .traits = kElementwise,
            .kernels = {TUTTI_CPU(kernel_from(cube))}});

  Graph graph(ops);
  Output x = placeholder(graph, DType::kFloat, PartialShape::scalar(), "x");
  Output y = op1("Cube", {x});
  Output slope = gradients({y}, {x})[0].dense();

  LocalSession session(graph, {.ops = ops});
  const std::vector<Tensor> out = session.run({{x, Tensor::scalar(3.0f)}}, {y, slope});
  std::printf("cube(3) = %g, its derivative = %g\n", out[0].scalar<float>(), out[1].scalar<float>());
  return out[0].scalar<float>() == 27.0f && out[1].scalar<float>() == 27.0f ? 0 : 1;
}
