#include "tutti/tutti.h"

tutti::Status negate(tutti::KernelContext& context) {
  TUTTI_ASSIGN_OR_RETURN(tutti::Tensor * y, context.forward_or_allocate(0, 0, context.input(0).shape()));
  *y->data<float>() = -*context.input(0).data<float>();
  return {};
}

int main() {
  int unused_here_is_no_error_of_tutti;
  tutti::OpTable ops;
  ops.add({.name = "Negate", .signature = "x: float -> y: float", .kernels = {TUTTI_CPU(tutti::kernel_from(negate))}});
}
