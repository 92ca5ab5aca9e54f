#include "tutti/distributed/in_process_cluster.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "tests/support/variant_values.h"
#include "tutti/graph/graph_def.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/state.h"

namespace tutti::in_process_cluster_test {

using namespace std::chrono_literals;

InProcessClusterOptions quiet(int workers, int ps) {
  InProcessClusterOptions options;
  options.workers = workers;
  options.ps = ps;
  options.server.log = [](const std::string&) {};
  options.server.runtime.intra_op_threads = 1;
  options.server.runtime.inter_op_threads = 1;
  return options;
}

ConnectOptions within(std::chrono::seconds limit = 60s) {
  ConnectOptions options;
  options.operation_timeout = limit;
  return options;
}

std::vector<float> values(const Tensor& tensor) {
  const auto data = tensor.flat<float>();
  return {data.begin(), data.end()};
}

// A variable on each parameter server, added up on each worker.
struct SumGraph {
  SumGraph(int ps, int workers) : graph(builtin_ops()) {
    std::vector<Output> reads;
    for (int i = 0; i < ps; ++i) {
      const auto scope = graph.device_scope(str_cat("/job:ps/task:", i));
      reads.push_back(
          variable(graph, constant(graph, Tensor::of<float>({}, {1.0f + static_cast<float>(i)})), str_cat("v", i)));
    }
    for (int i = 0; i < workers; ++i) {
      const auto scope = graph.device_scope(str_cat("/job:worker/task:", i));
      Output sum = reads[0];
      for (std::size_t k = 1; k < reads.size(); ++k) sum = sum + reads[k];
      sums.push_back(sum);
    }
    initializer = global_variables_initializer(graph);
  }
  Graph graph;
  std::vector<TensorName> sums;
  Node* initializer;
};

// Row E6.
TEST(InProcessClusterTest, ThreeWorkersAndTwoParameterServersInOneCall) {
  const auto cluster = InProcessCluster::start(quiet(3, 2)).value_or_throw();
  EXPECT_EQ(*cluster->cluster().num_tasks("worker"), 3);
  EXPECT_EQ(*cluster->cluster().num_tasks("ps"), 2);
  std::set<std::string> addresses;
  for (const auto& [task, address] : task_addresses(cluster->cluster())) {
    EXPECT_FALSE(address.ends_with(":0")) << address;
    addresses.insert(address);
  }
  EXPECT_EQ(addresses.size(), 5u);
  SumGraph sum(2, 3);
  const auto session = connect(cluster->target(), sum.graph, within()).value_or_throw();
  EXPECT_EQ(session->list_devices().size(), 5u);
  session->run({sum.initializer});
  for (const Tensor& value : session->run({}, sum.sums)) EXPECT_EQ(values(value), std::vector<float>{3});
}

TEST(InProcessClusterTest, ASessionWithoutAWire) {
  const auto cluster = InProcessCluster::start(quiet(2, 1)).value_or_throw();
  SumGraph sum(1, 2);
  const auto session = cluster->worker(1).connect(sum.graph, within()).value_or_throw();
  session->run({sum.initializer});
  for (const Tensor& value : session->run({}, sum.sums)) EXPECT_EQ(values(value), std::vector<float>{1});
}

TEST(InProcessClusterTest, ASessionOutlivesItsServer) {
  auto cluster = InProcessCluster::start(quiet(1, 1)).value_or_throw();
  SumGraph sum(1, 1);
  const auto session = cluster->worker(0).connect(sum.graph, within()).value_or_throw();
  session->run({sum.initializer});
  cluster.reset();
  EXPECT_FALSE(session->try_run({}, sum.sums).ok());
}

TEST(InProcessClusterTest, SeveralClustersAtOnceDoNotMeet) {
  const auto one = InProcessCluster::start(quiet(1, 1)).value_or_throw();
  const auto two = InProcessCluster::start(quiet(1, 1)).value_or_throw();
  SumGraph first(1, 1);
  SumGraph second(1, 1);
  const auto session = connect(one->target(), first.graph, within()).value_or_throw();
  const auto other = connect(two->target(), second.graph, within()).value_or_throw();
  session->run({first.initializer});
  EXPECT_EQ(other->try_run({}, second.sums).status().code(), Code::kFailedPrecondition);
}

TEST(InProcessClusterTest, ALostTaskIsNamed) {
  const auto cluster = InProcessCluster::start(quiet(1, 2)).value_or_throw();
  SumGraph sum(2, 1);
  const auto session = connect(cluster->target(), sum.graph, within()).value_or_throw();
  session->run({sum.initializer});
  cluster->ps(1).stop();
  Status lost;
  while (lost.ok()) lost = session->try_run({}, sum.sums).status();
  EXPECT_EQ(lost.code(), Code::kUnavailable) << lost.to_string();
  EXPECT_NE(lost.message().find("/job:ps/replica:0/task:1"), std::string::npos) << lost.to_string();
}

TEST(InProcessClusterTest, AStepTellsWhatEachTaskRan) {
  const auto cluster = InProcessCluster::start(quiet(1, 2)).value_or_throw();
  SumGraph sum(2, 1);
  const auto session = connect(cluster->target(), sum.graph, within()).value_or_throw();
  session->run({sum.initializer});
  RunMetadata metadata;
  RunOptions options;
  options.metadata = &metadata;
  session->run({}, sum.sums, {}, options);
  EXPECT_TRUE(metadata.partition_graphs.empty()) << "nobody asked for them";
  options.partition_graphs = true;
  session->run({}, sum.sums, {}, options);
  ASSERT_EQ(metadata.partition_graphs.size(), 3u);
  std::set<std::string> tasks;
  std::multiset<std::string> sent, received;
  for (const std::string& graph_def : metadata.partition_graphs) {
    Graph part(builtin_ops());
    ASSERT_TRUE(import_graph_def(graph_def, part).ok());
    std::string task;
    for (const Node* node : part.nodes()) {
      const std::string here(node->requested_device().substr(0, node->requested_device().find("/device:")));
      if (task.empty()) tasks.insert(task = here);
      EXPECT_EQ(here, task) << node->name();
      if (node->op_name() != "_Send" && node->op_name() != "_Recv") continue;
      if (node->attr<bool>("client_terminated")) continue;
      (node->op_name() == "_Send" ? sent : received).insert(node->attr<std::string>("tensor_name"));
    }
  }
  EXPECT_EQ(tasks.size(), 3u);
  EXPECT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent, received);
}

// What is made on worker 1 and used on worker 0.
struct VariantGraph {
  VariantGraph() : graph(builtin_ops()), rows(placeholder(graph, DType::kFloat, PartialShape{-1, -1}, "rows")) {
    const auto there = graph.device_scope("/job:worker/task:1");
    const AttrMap floats{{"element_dtype", DType::kFloat}}, variants{{"element_dtype", DType::kVariant}};
    const Output any = constant(graph, Tensor::scalar<std::int32_t>(-1));
    const Output index = constant(graph, Tensor::scalar<std::int32_t>(1));
    const Output size = constant(graph, Tensor::scalar<std::int32_t>(3));
    list = op1("TensorListFromTensor", {rows, any}, floats, "list");
    const Output row = op1("TensorListGetItem", {list, index, any}, floats);
    const Output reserved = op1("TensorListReserve", {any, size}, floats);
    const Output partly = op1("TensorListSetItem", {reserved, index, row}, floats, "partly");
    const Output lists = op1("TensorListReserve", {any, size}, variants);
    const Output nested = op1("TensorListSetItem", {lists, index, list}, variants, "nested");
    const AttrMap types{{"Toutput_types", std::vector<DType>{DType::kFloat, DType::kVariant}}};
    Node* optional = add_op(graph, "OptionalFromValue", {row, list}, types, "optional");
    const Output none = add_op(graph, "OptionalNone", {}, {}, "none")->output();

    const auto here = graph.device_scope("/job:worker/task:0");
    const Output every = constant(graph, Tensor::scalar<std::int32_t>(-1));
    const Output second = constant(graph, Tensor::scalar<std::int32_t>(1));
    stacked = op1("TensorListStack", {list, every}, floats);
    partly_stacked = op1("TensorListStack", {partly, every}, floats);
    inner_stacked =
        op1("TensorListStack", {op1("TensorListGetItem", {nested, second, every}, variants), every}, floats);
    Node* values = add_op(graph, "OptionalGetValue", {optional->output()},
                          {{"output_types", std::vector<DType>{DType::kFloat, DType::kVariant}},
                           {"output_shapes", std::vector<PartialShape>{PartialShape(), PartialShape()}}});
    component = values->output(0);
    component_length = op1("TensorListLength", {values->output(1)});
    has_value = op1("OptionalHasValue", {none});
  }
  Graph graph;
  Output rows, list, stacked, partly_stacked, inner_stacked, component, component_length, has_value;
};

TEST(InProcessClusterTest, VariantsCrossBetweenTasksAndToClients) {
  for (const bool shared_memory : {true, false}) {
    InProcessClusterOptions options = quiet(2, 0);
    options.server.shared_memory = shared_memory;
    const auto cluster = InProcessCluster::start(options).value_or_throw();
    VariantGraph made;
    // Rows large enough that tensors lie over the messages.
    const std::int64_t width = 50'000;
    Tensor rows(DType::kFloat, {3, width});
    for (std::int64_t i = 0; i < rows.num_elements(); ++i) rows.data<float>()[i] = static_cast<float>(i);
    Tensor zeros_and_row(DType::kFloat, {3, width});
    std::fill_n(zeros_and_row.data<float>(), zeros_and_row.num_elements(), 0.f);
    std::copy_n(rows.data<float>() + width, width, zeros_and_row.data<float>() + width);
    const auto session = connect(cluster->target(), made.graph, within()).value_or_throw();
    const Feeds feeds{{made.rows, rows}};
    const auto got = session->run(feeds, {made.stacked, made.partly_stacked, made.inner_stacked, made.component,
                                          made.component_length, made.has_value, made.list});
    EXPECT_TRUE(bitwise_equal(got[0], rows));
    EXPECT_TRUE(bitwise_equal(got[1], zeros_and_row));
    EXPECT_TRUE(bitwise_equal(got[2], rows));
    EXPECT_TRUE(bitwise_equal(got[3], rows.slice(1, 2).reshaped({width})));
    EXPECT_EQ(got[4].scalar<std::int32_t>(), 3);
    EXPECT_FALSE(got[5].scalar<bool>());
    // The list itself came to the client, which may send it back.
    ASSERT_NE(got[6].scalar<Variant>().get<TensorList>(), nullptr);
    EXPECT_TRUE(bitwise_equal(session->run({{made.list, got[6]}}, {made.stacked})[0], rows));
  }
}

TEST(InProcessClusterTest, AValueThatCannotCrossIsNamed) {
  const auto cluster = InProcessCluster::start(quiet(2, 0)).value_or_throw();
  Graph graph(builtin_ops());
  const Output value = placeholder(graph, DType::kFloat, PartialShape::scalar(), "value");
  Output deep = value;
  {
    const auto there = graph.device_scope("/job:worker/task:1");
    for (int depth = 0; depth < 41; ++depth) {
      const std::vector<DType> types{depth == 0 ? DType::kFloat : DType::kVariant};
      deep = op1("OptionalFromValue", {deep}, {{"Toutput_types", types}}, str_cat("level", depth));
    }
  }
  const auto here = graph.device_scope("/job:worker/task:0");
  const Output has_value = op1("OptionalHasValue", {deep});
  const auto session = connect(cluster->target(), graph, within()).value_or_throw();
  try {
    session->run({{value, Tensor::scalar(1.f)}}, {has_value});
    ADD_FAILURE() << "it crossed";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("RecvTensor from /job:worker/replica:0/task:1: "), std::string::npos) << text;
    EXPECT_NE(text.find("level40"), std::string::npos) << text;
    EXPECT_NE(text.find("41 deep in one another"), std::string::npos) << text;
  }
}

TEST(InProcessClusterTest, AConstantMayBeAList) {
  const auto cluster = InProcessCluster::start(quiet(2, 0)).value_or_throw();
  Graph graph(builtin_ops());
  const auto there = graph.device_scope("/job:worker/task:1");
  const Output list = constant(
      graph, testing::list_of(DType::kFloat, {2}, {Tensor::vector<float>({1, 2}), Tensor::vector<float>({3, 4})}));
  const auto here = graph.device_scope("/job:worker/task:0");
  const Output shape = constant(graph, Tensor::vector<std::int32_t>({2}));
  const Output stacked = op1("TensorListStack", {list, shape}, {{"element_dtype", DType::kFloat}});
  const auto session = connect(cluster->target(), graph, within()).value_or_throw();
  EXPECT_EQ(values(session->run({}, {stacked})[0]), (std::vector<float>{1, 2, 3, 4}));
}

TEST(InProcessClusterTest, AServerHasDefaultsForItsSessions) {
  Graph graph(builtin_ops());
  Output one;
  {
    const auto scope = graph.device_scope("/job:worker/task:0/device:GPU:0");
    one = constant(graph, Tensor::scalar(1.0f));
  }
  for (const bool soft : {false, true}) {
    InProcessClusterOptions options = quiet(1, 0);
    options.server.default_config.allow_soft_placement = soft;
    const auto cluster = InProcessCluster::start(options).value_or_throw();
    const auto session = connect(cluster->target(), graph, within()).value_or_throw();
    EXPECT_EQ(session->try_run({}, {one}).ok(), soft);
  }
}

TEST(InProcessClusterTest, BadCountsAreRefused) {
  EXPECT_EQ(InProcessCluster::start(quiet(0, 0)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(InProcessCluster::start(quiet(-1, 1)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(InProcessCluster::start(quiet(1, 1'000'000)).status().code(), Code::kInvalidArgument);
}

// Needs 8 GB: for a soak.
TEST(InProcessClusterTest, TensorsOverTwoGigabytes) {
  if (std::getenv("TUTTI_STRESS") == nullptr) GTEST_SKIP() << "TUTTI_STRESS is not set";
  constexpr std::int64_t kElements = 580'000'000;
  for (const bool shared_memory : {true, false}) {
    InProcessClusterOptions options = quiet(2, 0);
    options.server.shared_memory = shared_memory;
    const auto cluster = InProcessCluster::start(options).value_or_throw();
    Graph graph(builtin_ops());
    const Output value = placeholder(graph, DType::kFloat, Shape{});
    std::vector<TensorName> ends;
    for (const std::int64_t elements : {kElements, std::int64_t{1'000'000}}) {
      const auto there = graph.device_scope("/job:worker/task:1");
      const Output large = fill({elements}, value);
      const auto here = graph.device_scope("/job:worker/task:0");
      ends.push_back(slice(large, {elements - 1}, {1}));
    }
    const auto session = connect(cluster->target(), graph, within(600s)).value_or_throw();
    const Feeds feeds{{value, Tensor::scalar(2.5f)}};
    EXPECT_EQ(values(session->run(feeds, {ends[0]})[0]), std::vector<float>{2.5f});
    EXPECT_EQ(values(session->run(feeds, {ends[1]})[0]), std::vector<float>{2.5f});
  }
}

}  // namespace tutti::in_process_cluster_test
