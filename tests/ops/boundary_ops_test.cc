#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "tests/support/kernel_runner.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/op_evaluator.h"

namespace tutti::boundary_ops_test {

using testing::KernelRunner;
using testing::value_of;

Result<std::vector<Tensor>> try_op(const std::string& op, const AttrMap& attrs, const std::vector<Tensor>& inputs) {
  return evaluate_op(*builtin_ops(), op, attrs, inputs);
}

TEST(BoundaryOps, PassThroughsShareMemory) {
  const Tensor x = Tensor::vector<float>({1, 2});
  for (const char* op : {"Identity", "Snapshot", "StopGradient", "PreventGradient"}) {
    EXPECT_EQ((*try_op(op, {}, {x}))[0].raw(), x.raw()) << op;
  }
  EXPECT_EQ((*try_op("PlaceholderWithDefault", {{"shape", PartialShape{-1}}}, {x}))[0].raw(), x.raw());
  const auto both = *try_op("IdentityN", {}, {x, Tensor::scalar(std::int32_t{3})});
  EXPECT_EQ(both[0].raw(), x.raw());
  EXPECT_EQ(both[1].scalar<std::int32_t>(), 3);
}

TEST(BoundaryOps, ConstGivesItsValue) {
  const Tensor x = Tensor::vector<std::string>({"a"});
  EXPECT_TRUE(bitwise_equal((*try_op("Const", {{"dtype", DType::kString}, {"value", x}}, {}))[0], x));
  EXPECT_EQ(try_op("Const", {{"dtype", DType::kFloat}, {"value", x}}, {}).status().code(), Code::kInvalidArgument);
  Graph graph(builtin_ops());
  EXPECT_THROW(add_op(graph, "Const", {}, {{"dtype", DType::kFloat}, {"value", x}}), Error);
}

TEST(BoundaryOps, UnfedPlaceholdersSaySo) {
  KernelRunner runner;
  const AttrMap attrs{{"dtype", DType::kFloat}, {"shape", PartialShape{-1, 784}}};
  EXPECT_EQ(runner.run("x", "Placeholder", attrs)->status(),
            invalid_argument("You must feed a value for placeholder tensor 'x' with dtype float and shape [?,784]"));
  EXPECT_EQ(runner.run("y", "Placeholder", {{"dtype", DType::kInt32}})->status(),
            invalid_argument("You must feed a value for placeholder tensor 'y' with dtype int32"));
}

TEST(BoundaryOps, CheckNumerics) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  const AttrMap attrs{{"message", "loss"}};
  EXPECT_TRUE(try_op("CheckNumerics", attrs, {Tensor::vector<float>({1, -1})}).ok());
  EXPECT_TRUE(try_op("CheckNumerics", attrs, {Tensor(DType::kFloat, {0})}).ok());
  const auto text = [&](const Tensor& x) { return try_op("CheckNumerics", attrs, {x}).status().message(); };
  EXPECT_NE(text(Tensor::vector<float>({1, nan})).find("loss : Tensor had NaN values"), std::string::npos);
  EXPECT_NE(text(Tensor::vector<float>({-inf})).find("loss : Tensor had Inf values"), std::string::npos);
  EXPECT_NE(text(Tensor::vector<float>({inf, nan})).find("loss : Tensor had Inf and NaN values"), std::string::npos);
  EXPECT_NE(text(Tensor::vector<Half>({Half(nan)})).find("NaN"), std::string::npos);
}

TEST(BoundaryOps, Assert) {
  const Tensor message = Tensor::scalar(std::string("x must be positive"));
  EXPECT_TRUE(try_op("Assert", {}, {Tensor::scalar(true), message}).ok());
  const Status failed =
      try_op("Assert", {}, {Tensor::scalar(false), message, Tensor::vector<std::int32_t>({1, 2, 3, 4})}).status();
  EXPECT_EQ(failed.code(), Code::kInvalidArgument);
  EXPECT_NE(failed.message().find("assertion failed: [x must be positive] [1 2 3...]"), std::string::npos)
      << failed.message();
}

// Keeps what is sent until somebody asks.
class MapRendezvous : public Rendezvous {
 public:
  Status send(const std::string& key, Tensor value, bool dead) override {
    if (auto it = waiting.find(key); it != waiting.end()) {
      answer(key, Status(), std::move(value), dead);
    } else {
      sent[key] = {std::move(value), dead};
    }
    return {};
  }
  void recv(const std::string& key, Cancellation& cancellation, Done done) override {
    if (cancellation.cancelled()) return done(cancellation.status(), Tensor(), false);
    if (auto it = sent.find(key); it != sent.end()) return done(Status(), it->second.first, it->second.second);
    waiting[key] = std::move(done);
    cancellation.register_callback([this, key, &cancellation] { answer(key, cancellation.status(), Tensor(), false); });
  }
  void abort(Status cause) override {
    while (!waiting.empty()) answer(waiting.begin()->first, cause, Tensor(), false);
  }
  void answer(std::string key, const Status& status, Tensor value, bool dead) {
    auto request = waiting.extract(key);
    if (!request.empty()) request.mapped()(status, std::move(value), dead);
  }
  std::map<std::string, std::pair<Tensor, bool>> sent;
  std::map<std::string, Done> waiting;
};

class CutEdges : public ::testing::Test {
 protected:
  CutEdges() { runner_.step().rendezvous = &rendezvous_; }
  std::unique_ptr<testing::KernelRun> send(const Tensor& value) {
    AttrMap attrs = where_;
    attrs["T"] = DType::kFloat;
    return runner_.run("send", "_Send", attrs, {value_of(value)});
  }
  std::unique_ptr<testing::KernelRun> recv(DType dtype = DType::kFloat) {
    AttrMap attrs = where_;
    attrs["tensor_type"] = dtype;
    return runner_.start("recv" + std::to_string(count_++), "_Recv", attrs, {});
  }

  const AttrMap where_{{"tensor_name", "edge_1"},
                       {"send_device", "/job:a/replica:0/task:0/device:CPU:0"},
                       {"send_device_incarnation", 255},
                       {"recv_device", "/job:b/replica:0/task:1/device:CPU:0"}};
  MapRendezvous rendezvous_;
  KernelRunner runner_;
  int count_ = 0;
};

TEST_F(CutEdges, SendThenReceive) {
  ASSERT_TRUE(send(Tensor::scalar(3.0f))->status().ok());
  ASSERT_EQ(rendezvous_.sent.size(), 1u);
  EXPECT_EQ(rendezvous_.sent.begin()->first,
            "/job:a/replica:0/task:0/device:CPU:0;00000000000000ff;/job:b/replica:0/task:1/device:CPU:0;edge_1;0:0");
  auto got = recv();
  ASSERT_TRUE(got->finished() && got->status().ok());
  EXPECT_EQ(got->tensor().scalar<float>(), 3);
}

TEST_F(CutEdges, ReceiveWaitsForTheSend) {
  auto got = recv();
  EXPECT_FALSE(got->finished());
  ASSERT_TRUE(send(Tensor::scalar(3.0f))->status().ok());
  ASSERT_TRUE(got->finished() && got->status().ok());
  EXPECT_EQ(got->tensor().scalar<float>(), 3);
}

TEST_F(CutEdges, DeadValuesTravel) {
  ASSERT_TRUE(send(Tensor())->status().ok());
  auto got = recv();
  ASSERT_TRUE(got->finished() && got->status().ok());
  EXPECT_FALSE(got->tensor().has_value());
}

TEST_F(CutEdges, CancellationAnswersAtOnce) {
  auto got = recv();
  runner_.step().cancellation->cancel(cancelled("stop"));
  ASSERT_TRUE(got->finished());
  EXPECT_EQ(got->status(), cancelled("stop"));
  rendezvous_.abort(aborted("later"));  // must not answer a second time
  EXPECT_EQ(recv()->status(), cancelled("stop"));
}

TEST_F(CutEdges, AbortsAndWrongTypesAreErrors) {
  auto got = recv();
  rendezvous_.abort(unavailable("peer is gone"));
  ASSERT_TRUE(got->finished());
  EXPECT_EQ(got->status(), unavailable("peer is gone"));
  ASSERT_TRUE(send(Tensor::scalar(3.0f))->status().ok());
  EXPECT_EQ(recv(DType::kInt32)->status().code(), Code::kInternal);
}

}  // namespace tutti::boundary_ops_test
