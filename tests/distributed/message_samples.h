// One message of each kind with every field set, for tests and as the fuzzer's seeds.
#pragma once

#include <string>
#include <vector>

#include "tutti/distributed/messages.h"

namespace tutti::testing {

inline constexpr char kDevice[] = "/job:worker/replica:0/task:1/device:CPU:0";

// GraphDef{node {name: "n" op: "NoOp"} versions {producer: 1205}}
inline std::string sample_graph() { return {"\x0a\x09\x0a\x01n\x12\x04NoOp\x22\x03\x08\xb5\x09", 16}; }

inline NamedTensors sample_tensors() {
  return {{"x:0", Tensor::of<float>(Shape{2, 3}, {1, 2, 3, 4, 5, 6})},
          {"key;with;parts", Tensor::scalar<std::int64_t>(-7)},
          {"words", Tensor::vector<std::string>({"a", "", std::string("nul\0inside", 10), "\xc3\xa9t\xc3\xa9"})},
          {"large", Tensor(DType::kDouble, Shape{100, 3})},
          {"none", Tensor(DType::kInt32, Shape{0, 4})}};
}

inline std::vector<DeviceInfo> sample_devices() {
  return {{kDevice, "CPU", 1 << 28, 0xfedcba9876543210u, "a processor"}, {"/device:GPU:1", "GPU", 1, 1, ""}};
}

inline ClusterTasks sample_cluster() { return {{"ps", {{1, "h0:1"}}}, {"worker", {{1, "h1:2"}, {7, "h2:3"}}}}; }

inline StepReport sample_report() {
  StepStats stats{.step_id = 0, .start_micros = 1'700'000'000'000'000, .nodes = {}};
  stats.nodes.push_back({"a", "MatMul", kDevice, 0, 2500, 3});
  stats.nodes.push_back({"b", "Add", kDevice, 3000, 9000, 4});
  stats.nodes.push_back({"c", "Relu", "/device:GPU:0", 4000, 5000, 5});
  return {stats, {sample_graph(), sample_graph()}};
}

inline SessionConfig sample_config() {
  return {.device_filters = {"/job:ps", "/job:worker/task:1"},
          .allow_soft_placement = true,
          .log_device_placement = true,
          .operation_timeout = std::chrono::milliseconds(12345),
          .isolate_session_state = true,
          .cluster = sample_cluster(),
          .optimize = false,
          .per_session_threads = true};
}

inline Signature sample_signature() { return {{"x:0", "y:0"}, {"loss:0"}, {"train", "init"}}; }
inline StepOptions sample_options() { return {std::chrono::milliseconds(250), true, true}; }
inline std::vector<Tensor> sample_values() {
  return {Tensor::scalar(1.5f), Tensor::vector<bool>({true, false}), Tensor::scalar<std::string>("s")};
}

// Calls visit(message) for each. The order is part of the fuzzer's format: new ones go to the end.
template <typename Visit>
void each_sample(Visit visit) {
  visit(CreateSessionRequest{sample_graph(), sample_config(), "grpc://h:1"});
  visit(CreateSessionReply{"handle", 3});
  visit(ExtendSessionRequest{"handle", sample_graph(), 4});
  visit(ExtendSessionReply{5});
  visit(RunStepRequest{"handle", sample_tensors(), {"a:0", "b:1"}, {"t"}, sample_options(), "partial", true, -9});
  visit(RunStepReply{sample_tensors(), sample_report(), aborted("gone \xc3\xa9")});
  visit(PartialRunSetupRequest{"handle", sample_signature(), 77});
  visit(PartialRunSetupReply{"12"});
  visit(CloseSessionRequest{"handle"});
  visit(ListDevicesRequest{"handle"});
  visit(ListDevicesReply{sample_devices(), sample_devices()});
  visit(ResetRequest{{"c1", ""}, {"/job:ps"}});
  Signature connected = sample_signature();
  connected.connections = {{"source:0", "z:0"}, {"other:1", "y:2"}};
  visit(MakeCallableRequest{"handle", connected, sample_options(), 8});
  visit(MakeCallableReply{6});
  visit(RunCallableRequest{"handle", 6, sample_values(), 9});
  visit(RunCallableReply{sample_values(), sample_report()});
  visit(ReleaseCallableRequest{"handle", 6});
  visit(GetStatusReply{sample_devices()});
  visit(CreateWorkerSessionRequest{"handle", sample_cluster(), "worker", 1, true, sample_devices(),
                                   "/job:worker/replica:0/task:0", 0xfedcba9876543210u});
  visit(DeleteWorkerSessionRequest{"handle"});
  visit(RegisterGraphRequest{"handle", true, sample_graph(), false, true});
  visit(RegisterGraphReply{"graph", true});
  visit(DeregisterGraphRequest{"handle", true, "graph"});
  visit(RunGraphRequest{"handle",
                        true,
                        "graph",
                        1LL << 56,
                        sample_tensors(),
                        {"k1", "k2"},
                        true,
                        true,
                        true,
                        true,
                        true,
                        INT64_MAX,
                        {1, -2}});
  visit(RunGraphReply{sample_tensors(), sample_report(), out_of_range("end of sequence")});
  visit(CleanupGraphRequest{-1});
  visit(CleanupAllRequest{{"c1", "c2"}});
  visit(RecvTensorRequest{11, "a;b;c;d;0:0", 12});
  visit(RecvTensorReply{Tensor(DType::kFloat, Shape{300}), true, 13});
  visit(EmptyMessage{});
  visit(RecvTensorsRequest{11, 12, {"a;b;c;d;0:0", "a;b;c;e;0:0"}, 13, {1, 0}});
  visit(RecvTensorsReply{{{1, Tensor(DType::kFloat, Shape{300})}, {2, Tensor()}, {0, Tensor::scalar(1.5f)}}});
}

}  // namespace tutti::testing
