#include "tutti/kernels/guard.h"

#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <stdexcept>

namespace tutti::guard_test {

class TestScope : public StepScope {
 public:
  TestScope() {
    cancellation = &own_;
    allocator = &heap_allocator();
  }
  ResourceStore& step_resources() override { TUTTI_CHECK(false, "not needed here"); }

 private:
  Cancellation own_;
};

using Body = std::function<Status()>;

class TestKernel : public Kernel {
 public:
  explicit TestKernel(Body body) : body_(std::move(body)) {}
  Status compute(KernelContext&) override { return body_(); }

 private:
  const Body body_;
};

class TestAsyncKernel : public AsyncKernel {
 public:
  explicit TestAsyncKernel(Body body) : body_(std::move(body)) {}
  void compute_async(KernelContext&, Done done) override { done(body_()); }

 private:
  const Body body_;
};

const std::vector<std::pair<Body, Status>>& bodies() {
  static const std::vector<std::pair<Body, Status>> all{
      {[] { return Status(); }, Status()},
      {[] { return aborted("as it says"); }, aborted("as it says")},
      {[]() -> Status { throw std::bad_alloc(); }, resource_exhausted("out of memory")},
      {[]() -> Status { throw std::length_error("vector"); }, resource_exhausted("out of memory: vector")},
      {[]() -> Status { throw std::runtime_error("bug"); }, internal_error("the kernel threw: bug")},
      {[]() -> Status { throw 7; }, internal_error("the kernel threw something that is not an exception")},
  };
  return all;
}

TEST(Guard, WhatAKernelThrowsIsItsStatus) {
  TestScope step;
  KernelContext context(step, {});
  for (const auto& [body, expected] : bodies()) {
    TestKernel kernel(body);
    EXPECT_EQ(guarded_compute(kernel, context), expected);
  }
}

TEST(Guard, AnAsynchronousKernelThatThrowsIsDoneOnce) {
  TestScope step;
  KernelContext context(step, {});
  for (const auto& [body, expected] : bodies()) {
    TestAsyncKernel kernel(body);
    std::vector<Status> ended;
    guarded_compute_async(kernel, context, [&ended](Status status) { ended.push_back(std::move(status)); });
    EXPECT_EQ(ended, std::vector<Status>{expected});
  }
}

TEST(Guard, AKernelThatCannotBeMade) {
  const AttrMap none;
  const KernelInit init{.node = "n", .op = "Op", .attrs = none};
  for (const auto& [body, expected] : bodies()) {
    const auto made = guarded_make(
        [&body = body](const KernelInit&) -> Result<std::unique_ptr<Kernel>> {
          TUTTI_RETURN_IF_ERROR(body());
          return std::unique_ptr<Kernel>(std::make_unique<TestKernel>(body));
        },
        init);
    EXPECT_EQ(made.status(), expected);
  }
}

}  // namespace tutti::guard_test
