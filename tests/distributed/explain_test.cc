#include "tutti/distributed/explain.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "proto/function.pb.h"
#include "tutti/core/rendezvous_key.h"
#include "tutti/distributed/in_process_cluster.h"
#include "tutti/graph/graph_def.h"
#include "tutti/ops/array.h"
#include "tutti/ops/math.h"

namespace tutti::explain_test {

// How many values go from one task to another.
using Crossings = std::map<std::pair<std::string, std::string>, int>;

Crossings crossings_of(const std::string& text) {
  Crossings crossings;
  const std::regex line("(/job\\S+) -> (/job\\S+): (\\d+) values?,.*");
  for (const std::string_view one : str_split(text, '\n')) {
    std::smatch match;
    const std::string copy(one);
    if (std::regex_match(copy, match, line)) crossings[{match[1], match[2]}] = std::stoi(match[3]);
  }
  return crossings;
}

Crossings crossings_of(const RunMetadata& metadata) {
  Crossings crossings;
  for (const std::string& graph_def : metadata.partition_graphs) {
    Graph part(builtin_ops());
    throw_if_error(import_graph_def(graph_def, part));
    for (const Node* node : part.nodes()) {
      if (node->op_name() != "_Recv" || node->attr<bool>("client_terminated")) continue;
      ++crossings[{std::string(task_of(node->attr<std::string>("send_device"))),
                   std::string(task_of(node->attr<std::string>("recv_device")))}];
    }
  }
  return crossings;
}

// A function whose body is on two tasks.
void define_function(Graph& graph) {
  tensorflow::FunctionDef function;
  const char kT[] = " attr { key: 'T' value { type: DT_FLOAT } } ";
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      str_cat("signature { name: 'f' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'r' type: DT_FLOAT } }"
              "node_def { name: 'far' op: 'Neg' input: 'a' device: '/job:ps/task:0'",
              kT, "} node_def { name: 'near' op: 'Square' input: 'far:y:0' device: '/job:worker/task:0'", kT,
              "} ret { key: 'r' value: 'near:y:0' }"),
      &function));
  throw_if_error(graph.library().add_serialized(function.SerializeAsString()));
}

class ClusterExplainTest : public ::testing::Test {
 protected:
  ClusterExplainTest() {
    define_function(graph_);
    x_ = placeholder(graph_, DType::kFloat, {2}, "x");
    {
      const auto scope = graph_.device_scope("/job:worker/task:0");
      called_ = add_op(graph_, "PartitionedCall", {x_},
                       {{"f", FunctionRef{"f", nullptr}},
                        {"Tin", std::vector<DType>{DType::kFloat}},
                        {"Tout", std::vector<DType>{DType::kFloat}}},
                       "call")
                    ->output();
    }
    std::vector<Node*> before;
    for (int i = 0; i < 3; ++i) {
      const auto scope = graph_.device_scope("/job:ps/task:1");
      before.push_back(add_op(graph_, "Neg", {constant(graph_, Tensor::scalar(1.0f))}, {}, str_cat("b", i)));
    }
    const auto scope = graph_.device_scope("/job:worker/task:0");
    Node* const after = add_op(graph_, "NoOp", {}, {}, "after");
    graph_.set_control_inputs(*after, before);
  }

  const Signature signature_{.feeds = {"x:0"}, .fetches = {"call:0"}, .targets = {"after"}};
  Graph graph_{builtin_ops()};
  Output x_;
  Output called_;
};

TEST_F(ClusterExplainTest, TellsWhatARunDoes) {
  InProcessClusterOptions options;
  options.workers = 1;
  options.ps = 2;
  options.server.log = [](const std::string&) {};
  const auto cluster = InProcessCluster::start(options).value_or_throw();
  const std::string text = explain(cluster->cluster(), graph_, signature_).value_or_throw();
  ConnectOptions connecting;
  connecting.operation_timeout = std::chrono::seconds(60);
  const auto session = connect(cluster->target(), graph_, connecting).value_or_throw();
  RunMetadata metadata;
  RunOptions running;
  running.metadata = &metadata;
  running.partition_graphs = true;
  session->run({{x_, Tensor::vector({1.0f, 2.0f})}}, {called_}, {"after"}, running);
  EXPECT_EQ(crossings_of(text), crossings_of(metadata)) << text;
  EXPECT_EQ(crossings_of(text).size(), 3u) << text;
  EXPECT_NE(text.find("call/far"), std::string::npos) << text;
}

TEST_F(ClusterExplainTest, TheClientsEndIsAtItsMaster) {
  const ClusterSpec cluster = ClusterSpec::from_flags("h:1,h:2", "h:3,h:4").value_or_throw();
  const std::string worker = "/job:worker/replica:0/task:1";
  const std::string text = explain(cluster, graph_, signature_, {.master = worker}).value_or_throw();
  const std::size_t begin = text.find(worker + "/device:CPU:0: ");
  ASSERT_NE(begin, std::string::npos) << text;
  EXPECT_GT(text.find("x:0  is fed by the client"), begin) << text;
}

TEST_F(ClusterExplainTest, ErrorsNameWhatIsWrong) {
  const ClusterSpec cluster = ClusterSpec::from_flags("", "h:3").value_or_throw();
  EXPECT_EQ(explain(ClusterSpec(), graph_, signature_).status().code(), Code::kInvalidArgument);
  const Status other = explain(cluster, graph_, signature_, {.master = "/job:chief/replica:0/task:0"}).status();
  EXPECT_NE(other.message().find("/job:chief/replica:0/task:0"), std::string::npos) << other.to_string();
  const Status nowhere = explain(cluster, graph_, signature_).status();
  EXPECT_NE(nowhere.message().find("Cannot assign a device for operation"), std::string::npos) << nowhere.to_string();
}

}  // namespace tutti::explain_test
