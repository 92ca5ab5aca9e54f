// What strangers and bad clients may do to a `tutti server`: it lives on, its memory stays bounded, and others are
// served.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <random>
#include <sstream>
#include <thread>

#include "proto/graph.pb.h"
#include "tests/core/temp_directory.h"
#include "tests/distributed/rpc/raw_connection.h"
#include "tests/integration/process_cluster.h"
#include "tests/support/open_files.h"
#include "tutti/core/strings.h"
#include "tutti/distributed/codec.h"
#include "tutti/distributed/internal/methods.h"
#include "tutti/distributed/rpc/grpc_transport.h"
#include "tutti/graph/graph_def.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"

namespace tutti::cluster_abuse_test {

using namespace std::chrono_literals;
using test::http2_call;
using test::http2_hello;
using test::RawConnection;

constexpr std::int64_t kMiB = 1 << 20;

struct Answer {
  Status status;
  Payload payload;
};

class ClusterAbuseTest : public ::testing::Test {
 protected:
  ClusterAbuseTest() : ClusterAbuseTest(std::vector<std::string>{}) {}
  explicit ClusterAbuseTest(std::vector<std::string> flags) : cluster_(0, 1, with_threads(std::move(flags))) {
    cluster_.start_all();
    expect_service();  // what the first step makes is there to stay
  }
  ~ClusterAbuseTest() override {
    EXPECT_GT(resident_bytes(), 0) << "the server has died";
    expect_service();
    cluster_.child("worker", 0).send(SIGTERM);
    EXPECT_EQ(cluster_.child("worker", 0).wait(), 0) << cluster_.child("worker", 0).output();
  }

  static std::vector<std::string> with_threads(std::vector<std::string> flags) {
    flags.emplace_back("--threads=2");
    return flags;
  }
  void expect_service() {
    Graph graph(builtin_ops());
    const Output two = ones(graph, DType::kFloat, {}) + ones(graph, DType::kFloat, {});
    auto session = connect(cluster_.target("worker", 0), graph, within());
    ASSERT_TRUE(session.ok()) << session.status().to_string();
    const auto got = (*session)->try_run({}, {two});
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    EXPECT_EQ((*got)[0].scalar<float>(), 2);
  }
  int port() const { return cluster_.port("worker", 0); }
  std::int64_t resident_bytes() { return process_counts(cluster_.child("worker", 0).id()).resident_bytes; }
  // Freed memory goes back to the system when the allocator says so.
  void expect_memory_back(std::int64_t before, std::int64_t slack) {
    const auto limit = std::chrono::steady_clock::now() + 60s;
    while (resident_bytes() > before + slack && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(10ms);
    }
    EXPECT_LE(resident_bytes() - before, slack) << "bytes more than before";
  }

  Answer call(std::string_view method, const Payload& request, std::chrono::seconds limit = 60s) {
    auto channel = client_.channel(str_cat("127.0.0.1:", port()));
    std::promise<Answer> ended;
    CallOptions options;
    options.deadline = std::chrono::steady_clock::now() + limit;
    channel->call(method, request, options, [&](Status status, Payload payload) {
      ended.set_value({std::move(status), std::move(payload)});
    });
    return ended.get_future().get();
  }
  Status create_session(const std::string& graph_def, std::string* handle = nullptr) {
    CreateSessionRequest request;
    request.graph_def = graph_def;
    const Answer answer = call(methods::kCreateSession, encode(request).value_or_throw());
    CreateSessionReply reply;
    if (answer.status.ok() && handle != nullptr) {
      EXPECT_TRUE(decode(answer.payload, reply).ok());
      *handle = reply.session_handle;
    }
    return answer.status;
  }

  ProcessCluster cluster_;
  GrpcClient client_{{}};
};

TEST_F(ClusterAbuseTest, GarbageHalfCallsAndBytesOneAtATime) {
  std::mt19937 random(7);
  const std::int64_t before = resident_bytes();
  const std::string whole = http2_hello() + http2_call(1, methods::kGetStatus);
  std::vector<std::unique_ptr<RawConnection>> half;
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 5) {
    half.push_back(std::make_unique<RawConnection>(port()));
    ASSERT_TRUE(half.back()->send(std::string_view(whole).substr(0, bytes)));
    std::string garbage(random() % 5000 + 1, '\0');
    for (char& c : garbage) c = static_cast<char>(random());
    RawConnection(port()).send(garbage);
    RawConnection(port()).send(http2_hello() + garbage);
  }
  for (const char* text : {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02", "SSH-2.0-x\r\n"}) {
    RawConnection(port()).send(text);
  }
  RawConnection slow(port());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ASSERT_TRUE(slow.send(std::string_view(whole).substr(i, 1)));
    if (i % 100 == 0) expect_service();
  }
  EXPECT_FALSE(slow.receive(1, 60'000).empty()) << "slow is not wrong";
  half.clear();
  expect_memory_back(before, 64 * kMiB);
}

TEST_F(ClusterAbuseTest, IdleConnectionsCostLittle) {
  const bool stress = stress_factor() > 1;
  const int count = testing::allowed_connections(stress ? 10'000 : 1000);
  ASSERT_GE(count, stress ? 4'000 : 100) << "the system allows too few open files (ulimit -Hn)";
  const ProcessCounts before = process_counts(cluster_.child("worker", 0).id());
  {
    test::IdlePeers peers(port(), count);
    ASSERT_EQ(peers.wait_connected(), count) << "the server has greeted all of them";
    expect_service();
    const ProcessCounts with = process_counts(cluster_.child("worker", 0).id());
    EXPECT_LT(with.threads, before.threads + 200) << "gRPC starts some more when the machine is slow";
    const std::int64_t each = (with.resident_bytes - before.resident_bytes) / count;
    std::printf("%d idle connections, %ld bytes each\n", count, static_cast<long>(each));
    EXPECT_LT(each, 100'000);
  }
  const auto limit = std::chrono::steady_clock::now() + 60s;
  const auto open = [&] { return process_counts(cluster_.child("worker", 0).id()).files; };
  while (open() > before.files + 20 && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(10ms);
  EXPECT_LE(open(), before.files + 20) << "who hung up is forgotten";
}

// Soft and hard limit, of which the kernel tells by name.
std::pair<std::string, std::string> open_files_of(pid_t process) {
  std::ifstream in(str_cat("/proc/", process, "/limits"));
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("Max open files")) continue;
    std::istringstream fields(line.substr(sizeof("Max open files")));
    std::pair<std::string, std::string> limits;
    fields >> limits.first >> limits.second;
    return limits;
  }
  return {};
}

TEST(ClusterLimits, AServerTakesAllFilesThatItMayHave) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  ProcessCluster cluster(0, 1);
  cluster.start_all();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  const auto [soft, hard] = open_files_of(cluster.child("worker", 0).id());
  EXPECT_EQ(soft, hard);
  EXPECT_NE(soft, "200");
}

class SmallQuotaTest : public ClusterAbuseTest {
 protected:
  static constexpr int kQuota = 4;
  SmallQuotaTest() : ClusterAbuseTest({str_cat("--max-calls=", kQuota)}) {}
};

TEST_F(SmallQuotaTest, AClientThatNeverReadsItsFetches) {
  constexpr std::int64_t kFetch = 16 * kMiB;
  constexpr int kCalls = 32;
  Graph graph(builtin_ops());
  const Output seed = placeholder(graph, DType::kFloat, Shape{}, "seed");
  (void)mul(ones(graph, DType::kFloat, {kFetch / 4}), seed, "large");
  std::string session;
  ASSERT_TRUE(create_session(export_graph_def(graph), &session).ok());
  RunStepRequest step;
  step.session_handle = session;
  step.feeds = {{"seed:0", Tensor::scalar(1.0f)}};
  step.fetches = {"large:0"};
  const std::string message = encode(step).value_or_throw().flatten();
  // One connection after the other: what the first was owed serves the others.
  std::int64_t before = resident_bytes();
  for (int round = 0; round < 3; ++round) {
    std::int64_t most = 0;
    {
      RawConnection deaf(port());
      std::string calls = http2_hello();
      for (std::uint32_t i = 0; i < kCalls; ++i) calls += http2_call(2 * i + 1, methods::kRunStep, message);
      ASSERT_TRUE(deaf.send(calls));
      // The server makes the first answers, and goes on serving others.
      const auto limit = std::chrono::steady_clock::now() + 60s;
      while (round == 0 && most < kFetch && std::chrono::steady_clock::now() < limit) {
        most = std::max(most, resident_bytes() - before);
      }
      for (int i = 0; i < 5; ++i) {
        expect_service();
        most = std::max(most, resident_bytes() - before);
      }
    }
    std::printf("round %d: %d answers of 16 MiB that nobody reads: at most %ld MiB more\n", round, kCalls,
                static_cast<long>(most / kMiB));
    // The answers of the quota, what their steps hold meanwhile, and as many of the one before that are being freed.
    EXPECT_LT(most, 4 * kQuota * kFetch) << "of " << kCalls * kFetch << " that were asked for";
  }
}

class SlowLorisTest : public ClusterAbuseTest {
 protected:
  SlowLorisTest() : ClusterAbuseTest({"--handshake-limit=1"}) {}
};

TEST_F(SlowLorisTest, IsHungUpOn) {
  std::vector<std::unique_ptr<RawConnection>> half;
  for (std::size_t bytes = 0; bytes < http2_hello().size(); bytes += 3) {
    half.push_back(std::make_unique<RawConnection>(port()));
    ASSERT_TRUE(half.back()->send(std::string_view(http2_hello()).substr(0, bytes)));
  }
  // A byte each 50 ms: 1.5 s for what must be there in one.
  RawConnection slow(port());
  for (const char byte : http2_hello().substr(0, 30)) {
    if (!slow.send({&byte, 1})) break;
    slow.receive(1, 50);
  }
  EXPECT_TRUE(slow.wait_closed());
  for (const auto& connection : half) EXPECT_TRUE(connection->wait_closed());
}

class FewSessionsTest : public ClusterAbuseTest {
 protected:
  FewSessionsTest() : ClusterAbuseTest({"--max-sessions=3"}) {}
};

TEST_F(FewSessionsTest, MoreAreRefused) {
  std::vector<std::string> handles;
  Status status;
  while (handles.size() < 10) {
    std::string handle;
    status = create_session("", &handle);
    if (!status.ok()) break;
    handles.push_back(handle);
  }
  EXPECT_EQ(handles.size(), 3u);
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
  EXPECT_NE(status.message().find("(--max-sessions)"), std::string::npos) << status.to_string();
  for (const std::string& handle : handles) {
    EXPECT_TRUE(call(methods::kCloseSession, encode(CloseSessionRequest{handle}).value_or_throw()).status.ok());
  }
}

class SmallMessagesTest : public ClusterAbuseTest {
 protected:
  SmallMessagesTest() : ClusterAbuseTest({"--max-message-bytes=3MB", "--max-connection-bytes=2MB"}) {}
};

TEST_F(SmallMessagesTest, LargerOnesAreRefused) {
  Graph graph(builtin_ops());
  const Output fed = placeholder(graph, DType::kFloat);
  const Output sum = reduce_sum(fed);
  ConnectOptions options = within();
  options.shared_memory = false;
  const auto session = connect(cluster_.target("worker", 0), graph, options).value_or_throw();
  const auto run = [&](std::int64_t bytes) {
    return session->try_run({{fed, Tensor::of<float>({bytes / 4}, std::vector<float>(bytes / 4))}}, {sum}).status();
  };
  EXPECT_TRUE(run(kMiB).ok());
  const Status connection = run(5 * kMiB / 2);
  EXPECT_EQ(connection.code(), Code::kResourceExhausted);
  EXPECT_NE(connection.message().find("more than 2097152 (--max-connection-bytes)"), std::string::npos)
      << connection.to_string();
  EXPECT_EQ(run(4 * kMiB).code(), Code::kResourceExhausted) << "gRPC's own words";
  EXPECT_TRUE(run(kMiB).ok()) << "the session goes on";
}

TEST(ClusterLimits, AHostThatCallsTooOften) {
  ProcessCluster cluster(0, 1, {"--max-calls-per-second=20"});
  cluster.start_all();
  GrpcClient client{{}};
  const auto channel = client.channel(str_cat("127.0.0.1:", cluster.port("worker", 0)));
  constexpr int kCalls = 200;
  std::vector<std::future<Status>> answers;
  for (int i = 0; i < kCalls; ++i) {
    auto ended = std::make_shared<std::promise<Status>>();
    answers.push_back(ended->get_future());
    channel->call(methods::kGetStatus, {}, {.wait_for_ready = true},
                  [ended](Status status, const Payload&) { ended->set_value(std::move(status)); });
  }
  int refused = 0;
  for (auto& answer : answers) {
    const Status status = answer.get();
    if (status.ok()) continue;
    ++refused;
    EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
    EXPECT_NE(status.message().find("more than 20 calls a second (--max-calls-per-second)"), std::string::npos)
        << status.to_string();
  }
  EXPECT_GT(refused, 0) << "of calls at once";
  EXPECT_LE(refused, kCalls - 20) << "those of a second are served";
}

TEST(ClusterLimits, FlagsThatMakeNoSense) {
  for (const char* flag : {"--max-calls=0", "--max-message-bytes=0", "--max-step-bytes=-1", "--max-connection-bytes=x",
                           "--max-calls-per-second=-1", "--max-sessions=-1", "--handshake-limit=0", "--memory-limit=0",
                           "--message-limit=0"}) {
    ChildProcess server(server_command({"--cluster", R"({"local": ["127.0.0.1:0"]})", flag}), {"TF_CONFIG"});
    EXPECT_NE(server.wait(), 0) << flag;
    EXPECT_NE(server.output().find(std::string(flag).substr(0, std::string(flag).find('='))), std::string::npos)
        << server.output();
  }
}

tensorflow::NodeDef* add_constant(tensorflow::GraphDef& graph, const std::string& name,
                                  const std::vector<std::int64_t>& dims) {
  tensorflow::NodeDef* const node = graph.add_node();
  node->set_name(name);
  node->set_op("Const");
  (*node->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
  tensorflow::TensorProto& value = *(*node->mutable_attr())["value"].mutable_tensor();
  value.set_dtype(tensorflow::DT_FLOAT);
  for (const std::int64_t dim : dims) value.mutable_tensor_shape()->add_dim()->set_size(dim);
  value.add_float_val(1);
  return node;
}

TEST_F(ClusterAbuseTest, GraphsThatWantToBeHuge) {
  const std::int64_t before = resident_bytes();
  std::vector<std::pair<std::string, tensorflow::GraphDef>> bombs;
  const auto bomb = [&](const std::string& what) -> tensorflow::GraphDef& {
    return bombs.emplace_back(what, tensorflow::GraphDef()).second;
  };
  add_constant(bomb("2^30 elements of one value"), "c", {std::int64_t{1} << 30});
  add_constant(bomb("a shape that overflows"), "c", {std::int64_t{1} << 62, std::int64_t{1} << 62});
  add_constant(bomb("a negative dimension"), "c", {-5});
  tensorflow::GraphDef& many = bomb("many large constants");
  for (int i = 0; i < 100; ++i) add_constant(many, str_cat("c", i), {64 << 20});
  tensorflow::GraphDef& cycle = bomb("a cycle");
  for (const char* const name : {"a", "b"}) {
    tensorflow::NodeDef& node = *cycle.add_node();
    node.set_name(name);
    node.set_op("Identity");
    node.add_input(name == std::string("a") ? "b" : "a");
    (*node.mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  }
  for (const auto& [what, graph] : bombs) {
    const Status status = create_session(graph.SerializeAsString());
    EXPECT_FALSE(status.ok()) << what;
    EXPECT_TRUE(status.code() == Code::kInvalidArgument || status.code() == Code::kResourceExhausted ||
                status.code() == Code::kNotFound)
        << what << ": " << status.to_string();
    std::printf("%s: %s\n", what.c_str(), status.to_string().substr(0, 160).c_str());
  }
  expect_memory_back(before, 64 * kMiB);
}

TEST_F(ClusterAbuseTest, StepsThatWantToBeHuge) {
  const std::int64_t before = resident_bytes();
  Graph graph(builtin_ops());
  const Output dims = placeholder(graph, DType::kInt64, Shape{2}, "dims");
  const Output large = fill(dims, ones(graph, DType::kFloat, {}));
  const auto session = connect(cluster_.target("worker", 0), graph, within()).value_or_throw();
  for (const std::int64_t dim : {std::int64_t{1} << 20, std::int64_t{1} << 40, std::int64_t{-1}}) {
    const Status status = session->try_run({{dims, Tensor::of<std::int64_t>({2}, {dim, dim})}}, {large}).status();
    EXPECT_TRUE(status.code() == Code::kResourceExhausted || status.code() == Code::kInvalidArgument)
        << dim << ": " << status.to_string();
  }
  expect_memory_back(before, 64 * kMiB);
}

// The size of an image, in a form that shape inference does not see through but constant folding does.
Output hidden_size(Graph& graph, const std::string& height, const std::string& width) {
  return op1("StringToNumber", {constant(graph, Tensor::vector<std::string>({height, width}))},
             {{"out_type", DType::kInt32}});
}

TEST_F(ClusterAbuseTest, ImagesThatWantToBeHuge) {
  for (const char* const op : {"ResizeArea", "ResizeBilinear", "ResizeBicubic", "ScaleAndTranslate"}) {
    for (const bool folded : {true, false}) {
      SCOPED_TRACE(str_cat(op, folded ? " folded" : " fed"));
      Graph graph(builtin_ops());
      const Output size = folded ? hidden_size(graph, "2147483647", "1") : placeholder(graph, DType::kInt32, Shape{2});
      std::vector<Output> inputs{constant(graph, Tensor(DType::kFloat, Shape{1, 1, 1, 1})), size};
      if (op == std::string("ScaleAndTranslate")) {
        inputs.push_back(constant(graph, Tensor::vector<float>({1, 1})));
        inputs.push_back(constant(graph, Tensor::vector<float>({0, 0})));
      }
      const Output resized = op1(op, inputs);
      const auto session = connect(cluster_.target("worker", 0), graph, within()).value_or_throw();
      Feeds feeds;
      if (!folded) feeds.emplace_back(size, Tensor::vector<std::int32_t>({2147483647, 1}));
      const Status status = session->try_run(feeds, {resized}).status();
      EXPECT_TRUE(status.code() == Code::kResourceExhausted || status.code() == Code::kInvalidArgument)
          << status.to_string();
      expect_service();
    }
  }
}

// f0(x) = -x, and each of f1, f2... calls the one before ten times.
enum class Calls { kByName, kPartitioned, kWithOtherAttributes };
std::string function_bomb(int depth, Calls calls) {
  tensorflow::GraphDef graph;
  const auto set_float = [](tensorflow::NodeDef& node, const char* attr) {
    (*node.mutable_attr())[attr].set_type(tensorflow::DT_FLOAT);
  };
  for (int k = 0; k <= depth; ++k) {
    tensorflow::FunctionDef& function = *graph.mutable_library()->add_function();
    tensorflow::OpDef& signature = *function.mutable_signature();
    signature.set_name(str_cat("f", k));
    signature.add_input_arg()->set_name("x");
    signature.mutable_input_arg(0)->set_type(tensorflow::DT_FLOAT);
    signature.add_output_arg()->set_name("y");
    signature.mutable_output_arg(0)->set_type(tensorflow::DT_FLOAT);
    const auto attribute = [](int i) { return str_cat("a", i); };
    for (int i = 0; calls == Calls::kWithOtherAttributes && i < depth; ++i) {
      auto& attr = *signature.add_attr();
      attr.set_name(attribute(i));
      attr.set_type("int");
    }
    if (k == 0) {
      tensorflow::NodeDef& node = *function.add_node_def();
      node.set_name("neg");
      node.set_op("Neg");
      node.add_input("x");
      set_float(node, "T");
      (*function.mutable_ret())["y"] = "neg:y:0";
      continue;
    }
    std::string last = "x";
    for (int call = 0; call < 10; ++call) {
      tensorflow::NodeDef& node = *function.add_node_def();
      node.set_name(str_cat("call", call));
      node.add_input(last);
      auto& attrs = *node.mutable_attr();
      if (calls == Calls::kPartitioned) {
        node.set_op("PartitionedCall");
        for (const char* types : {"Tin", "Tout"}) attrs[types].mutable_list()->add_type(tensorflow::DT_FLOAT);
        attrs["f"].mutable_func()->set_name(str_cat("f", k - 1));
        last = str_cat("call", call, ":output:0");
        continue;
      }
      node.set_op(str_cat("f", k - 1));
      last = str_cat("call", call, ":y:0");
      // The attributes move on by one place, so that each way through the calls is another form of the function.
      for (int i = 0; calls == Calls::kWithOtherAttributes && i < depth; ++i) {
        if (i + 1 < depth) {
          attrs[attribute(i)].set_placeholder(attribute(i + 1));
        } else {
          attrs[attribute(i)].set_i(call);
        }
      }
    }
    (*function.mutable_ret())["y"] = last;
  }
  add_constant(graph, "x", {});
  tensorflow::NodeDef& bomb = *graph.add_node();
  bomb.set_name("bomb");
  bomb.set_op(str_cat("f", depth));
  bomb.add_input("x");
  for (int i = 0; calls == Calls::kWithOtherAttributes && i < depth; ++i) {
    (*bomb.mutable_attr())[str_cat("a", i)].set_i(0);
  }
  return graph.SerializeAsString();
}

// Seconds of processor time that a process has used.
double processor_seconds(pid_t process) {
  std::ifstream in(str_cat("/proc/", process, "/stat"));
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string skipped;
  for (int i = 3; i < 14; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

TEST_F(ClusterAbuseTest, FunctionsThatExplode) {
  const pid_t server = cluster_.child("worker", 0).id();
  // Waits until the server computes nothing any more; the seconds that took.
  const auto wait_idle = [server] {
    const auto begin = std::chrono::steady_clock::now();
    const auto seconds = [begin] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    for (double used = processor_seconds(server); seconds() < 60; used = processor_seconds(server)) {
      std::this_thread::sleep_for(200ms);
      if (processor_seconds(server) - used < 0.05) break;
    }
    return seconds();
  };
  for (const Calls calls : {Calls::kByName, Calls::kPartitioned, Calls::kWithOtherAttributes}) {
    SCOPED_TRACE(static_cast<int>(calls));
    const std::string bomb = function_bomb(12, calls);
    // More than there would be threads if each held one.
    std::vector<std::string> sessions(6);
    std::vector<std::future<Answer>> steps;
    for (std::string& session : sessions) {
      ASSERT_TRUE(create_session(bomb, &session).ok());
      RunStepRequest step;
      step.session_handle = session;
      step.fetches = {"bomb:0"};
      steps.push_back(std::async(std::launch::async, [this, message = encode(step).value_or_throw()] {
        return call(methods::kRunStep, message, 6s);
      }));
    }
    expect_service();
    for (auto& step : steps) {
      const Status status = step.get().status;
      EXPECT_TRUE(status.code() == Code::kDeadlineExceeded || status.code() == Code::kResourceExhausted)
          << status.to_string();
    }
    const double busy = wait_idle();
    std::printf("busy for %.1f s after the clients gave up, %ld MiB\n", busy,
                static_cast<long>(resident_bytes() / kMiB));
    // A deadline does not end compiling, the limits of a session do.
    EXPECT_LT(busy, 40);
    for (const std::string& session : sessions) {
      EXPECT_TRUE(call(methods::kCloseSession, encode(CloseSessionRequest{session}).value_or_throw()).status.ok());
    }
  }
}

TEST_F(ClusterAbuseTest, StopsWhileItCompiles) {
  std::string session;
  ASSERT_TRUE(create_session(function_bomb(12, Calls::kWithOtherAttributes), &session).ok());
  RunStepRequest step;
  step.session_handle = session;
  step.fetches = {"bomb:0"};
  auto answer = std::async(
      std::launch::async, [this, message = encode(step).value_or_throw()] { return call(methods::kRunStep, message); });
  ChildProcess& server = cluster_.child("worker", 0);
  const double before = processor_seconds(server.id());
  while (processor_seconds(server.id()) < before + 5 && answer.wait_for(10ms) == std::future_status::timeout) {
  }
  const auto begin = std::chrono::steady_clock::now();
  server.send(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.output();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  EXPECT_FALSE(answer.get().status.ok());
  cluster_.start("worker", 0);
}

TEST_F(ClusterAbuseTest, FilesThatAreNoneOrHuge) {
  const TempDirectory directory;
  const std::string pipe = directory.file("pipe"), sparse = directory.file("sparse");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_TRUE(write_file(local_file_system(), sparse, "").ok());
  ASSERT_EQ(::truncate(sparse.c_str(), std::int64_t{10} << 40), 0);
  for (const auto& [path, code] :
       {std::pair(pipe, Code::kFailedPrecondition), std::pair(std::string("/dev/zero"), Code::kFailedPrecondition),
        std::pair(sparse, Code::kResourceExhausted)}) {
    // One more than there are threads for files.
    for (int i = 0; i < 5; ++i) {
      Graph graph(builtin_ops());
      const Output read = op1("ReadFile", {constant(graph, Tensor::scalar(path))});
      const auto session = connect(cluster_.target("worker", 0), graph, within()).value_or_throw();
      EXPECT_EQ(session->try_run({}, {read}).status().code(), code) << path;
    }
  }
}

// What a process has held at most, as the system counts it.
std::int64_t peak_bytes(pid_t process) {
  std::ifstream in(str_cat("/proc/", process, "/status"));
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

class SmallMemoryTest : public ClusterAbuseTest {
 protected:
  static constexpr std::int64_t kLimit = 600 * kMiB;
  SmallMemoryTest() : ClusterAbuseTest({str_cat("--memory-limit=", kLimit)}) {}
  ~SmallMemoryTest() override {
    const std::int64_t peak = peak_bytes(cluster_.child("worker", 0).id());
    std::printf("at most %ld MiB\n", static_cast<long>(peak / kMiB));
    EXPECT_LT(peak, kLimit + 200 * kMiB) << "with what the limit does not see, as the program's code";
  }

  // The sizes of the attack, in a form that is folded, or one that is not.
  Output given(Graph& graph, const Tensor& value) const {
    const Output known = constant(graph, value);
    if (folded_) return known;
    return op1("PlaceholderWithDefault", {known}, {{"shape", PartialShape::unknown()}});
  }
  Output given(Graph& graph, const std::vector<std::int32_t>& values) const {
    return given(graph, Tensor::vector<std::int32_t>(values));
  }
  Output number(Graph& graph, std::int32_t value) const { return given(graph, Tensor::scalar(value)); }
  Output text(Graph& graph, std::size_t size) const { return given(graph, Tensor::scalar(std::string(size, 'x'))); }

  void expect_refused(const std::string& what, const std::function<Output(Graph&)>& build) {
    for (folded_ = 0; folded_ < 2; ++folded_) {
      SCOPED_TRACE(str_cat(what, folded_ ? " folded" : ""));
      Graph graph(builtin_ops());
      const Output attack = build(graph);
      const auto session = connect(cluster_.target("worker", 0), graph, within()).value_or_throw();
      const Status status = session->try_run({}, {attack}).status();
      EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
      EXPECT_NE(status.message().find("--memory-limit"), std::string::npos) << status.to_string();
      expect_service();
    }
  }

  int folded_ = 0;
};

TEST_F(SmallMemoryTest, OneOpThatWantsTooMuch) {
  expect_refused("Fill of strings", [&](Graph& g) { return op1("Fill", {given(g, {1'000'000}), text(g, 10'000)}); });
  expect_refused("Tile of strings", [&](Graph& g) {
    return op1("Tile", {op1("Reshape", {text(g, 100'000), given(g, {1})}), given(g, {1'000'000})});
  });
  expect_refused("LinSpace", [&](Graph& g) {
    return op1("LinSpace", {given(g, Tensor::scalar(0.0f)), given(g, Tensor::scalar(1.0f)), number(g, 2'000'000'000)});
  });
  expect_refused("Multinomial", [&](Graph& g) {
    return op1("Multinomial", {given(g, Tensor(DType::kFloat, Shape{1, 4})), number(g, 2'000'000'000)});
  });
  expect_refused("Bincount", [&](Graph& g) {
    return op1("Bincount", {given(g, {1, 2, 3}), number(g, 2'000'000'000), given(g, Tensor(DType::kFloat, Shape{0}))});
  });
  expect_refused("ResizeArea", [&](Graph& g) {
    return op1("ResizeArea", {given(g, Tensor(DType::kFloat, Shape{1, 1, 1, 1})), given(g, {2'147'483'647, 1})});
  });
  expect_refused("UnsortedSegmentMax", [&](Graph& g) {
    return op1("UnsortedSegmentMax",
               {given(g, Tensor(DType::kFloat, Shape{3})), given(g, {0, 1, 2}), number(g, 2'000'000'000)});
  });
  expect_refused("Gather of long strings", [&](Graph& g) {
    const Output rows = op1("Reshape", {text(g, 1'000'000), given(g, {1})});
    return op1("GatherV2", {rows, given(g, Tensor(DType::kInt32, Shape{100'000})), number(g, 0)},
               {{"Tparams", DType::kString}, {"Tindices", DType::kInt32}, {"Taxis", DType::kInt32}});
  });
}

TEST_F(SmallMemoryTest, ChainsOfOps) {
  expect_refused("strings joined with themselves", [&](Graph& g) {
    Output joined = text(g, 1000);
    for (int i = 0; i < 40; ++i) joined = op1("StringJoin", {joined, joined});
    return joined;
  });
  expect_refused("strings concatenated with themselves", [&](Graph& g) {
    Output rows = op1("Reshape", {text(g, 1000), given(g, {1})});
    for (int i = 0; i < 40; ++i) rows = op1("ConcatV2", {rows, rows, number(g, 0)});
    return rows;
  });
  expect_refused("many tensors at once", [&](Graph& g) {
    std::vector<Output> parts;
    for (int i = 0; i < 40; ++i) {
      parts.push_back(op1("Fill", {given(g, {8 << 20}), given(g, Tensor::scalar(static_cast<float>(i)))}));
    }
    return op1("Pack", parts);
  });
  expect_refused("strings that a pattern expands", [&](Graph& g) {
    Output grown = text(g, 1000);
    for (int i = 0; i < 10; ++i) {
      grown = op1("StaticRegexReplace", {grown}, {{"pattern", "x"}, {"rewrite", std::string(30, 'x')}});
    }
    return grown;
  });
}

TEST_F(SmallMemoryTest, VariablesOfManySessions) {
  Status status;
  int made = 0;
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<std::unique_ptr<Session>> sessions;
  for (; made < 40 && status.ok(); ++made) {
    graphs.push_back(std::make_unique<Graph>(builtin_ops()));
    Graph& graph = *graphs.back();
    const Output handle =
        add_op(graph, "VarHandleOp", {},
               {{"dtype", DType::kFloat}, {"shape", PartialShape::unknown()}, {"shared_name", str_cat("v", made)}})
            ->output();
    const Output value = fill(constant(graph, Tensor::vector<std::int32_t>({8 << 20})), ones(graph, DType::kFloat, {}));
    Node* const assign = add_op(graph, "AssignVariableOp", {handle, value}, {{"dtype", DType::kFloat}});
    sessions.push_back(connect(cluster_.target("worker", 0), graph, within()).value_or_throw());
    status = sessions.back()->try_run({}, {}, {assign}).status();
  }
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
  EXPECT_GT(made, 10) << "of 32 MiB each";
  expect_service();
  sessions.clear();
  ASSERT_TRUE(reset(cluster_.target("worker", 0)).ok());
}

TEST_F(ClusterAbuseTest, FeedsOfMoreThanTwoGigabytes) {
  const std::int64_t before = resident_bytes();
  Graph graph(builtin_ops());
  const Tensor part = Tensor::of<float>({16 << 20}, std::vector<float>(16 << 20));
  Feeds feeds;
  std::vector<Output> sums;
  for (int i = 0; i < 33; ++i) {
    const Output fed = placeholder(graph, DType::kFloat);
    feeds.emplace_back(fed, part);
    sums.push_back(reduce_sum(fed));
  }
  const Output sum = add_n(sums);
  ConnectOptions options = within();
  options.shared_memory = false;
  const auto session = connect(cluster_.target("worker", 0), graph, options).value_or_throw();
  const Status status = session->try_run(feeds, {sum}).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
  EXPECT_NE(status.message().find("bytes, more than 2147483647"), std::string::npos) << status.to_string();
  feeds.erase(feeds.begin() + 1, feeds.end());
  EXPECT_TRUE(session->try_run(feeds, {sums[0]}).ok()) << "the session goes on";
  expect_memory_back(before, 256 * kMiB);
}

TEST_F(ClusterAbuseTest, MessagesThatAreNone) {
  using namespace methods;  // NOLINT: all of them
  const std::int64_t before = resident_bytes();
  std::mt19937 random(11);
  const std::string_view all[] = {kCreateSession,
                                  kExtendSession,
                                  kPartialRunSetup,
                                  kRunStep,
                                  kCloseSession,
                                  kListDevices,
                                  kReset,
                                  kMakeCallable,
                                  kRunCallable,
                                  kReleaseCallable,
                                  kGetStatus,
                                  kCreateWorkerSession,
                                  kRegisterGraph,
                                  kDeleteWorkerSession,
                                  kDeregisterGraph,
                                  kRunGraph,
                                  kCleanupGraph,
                                  kCleanupAll,
                                  kRecvTensor,
                                  "/tutti.TaskService/Hello",
                                  "/tutti.TaskService/CreateLeasedSession",
                                  "/no.such/Call",
                                  "",
                                  "/tutti.TaskService/Lease"};
  for (const std::string_view method : all) {
    SCOPED_TRACE(method);
    // A length that goes over the end, in the first field of any message.
    const Status cut = call(method, Payload(std::string("\x0a\xff\xff\xff\xff\x07xyz"))).status;
    const bool takes_anything = method == kGetStatus;
    EXPECT_EQ(cut.ok(), takes_anything) << cut.to_string();
    for (int i = 0; i < 20; ++i) {
      std::string garbage(random() % 200, '\0');
      for (char& c : garbage) c = static_cast<char>(random());
      const Status status = call(method, Payload(garbage)).status;
      EXPECT_NE(status.code(), Code::kDeadlineExceeded) << "no answer";
      EXPECT_NE(status.code(), Code::kUnavailable) << status.to_string();
    }
  }
  expect_memory_back(before, 64 * kMiB);
}

}  // namespace tutti::cluster_abuse_test
