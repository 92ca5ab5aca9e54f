#include "tutti/ops/op_evaluator.h"

#include <gtest/gtest.h>

#include <new>

namespace tutti::op_evaluator_test {

// Constant folding runs kernels through it, on threads where an exception would end the process.
TEST(OpEvaluator, WhatAKernelThrowsIsAStatus) {
  OpTable ops;
  ops.add({.name = "Throws",
           .signature = "x: float -> y: float",
           .kernels = {TUTTI_CPU(kernel_from([](KernelContext&) -> Status { throw std::bad_alloc(); }))}});
  ops.add(
      {.name = "CannotBeMade",
       .signature = "x: float -> y: float",
       .kernels = {TUTTI_CPU([](const KernelInit&) -> Result<std::unique_ptr<Kernel>> { throw std::bad_alloc(); })}});
  for (const char* op : {"Throws", "CannotBeMade"}) {
    const Status status = evaluate_op(ops, op, {}, {Tensor::scalar(1.0f)}).status();
    EXPECT_EQ(status.code(), Code::kResourceExhausted) << op << ": " << status.to_string();
  }
}

}  // namespace tutti::op_evaluator_test
