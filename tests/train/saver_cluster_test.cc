// Parameter servers that write their own shards.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <thread>

#include "tests/train/saver_fixture.h"
#include "tutti/distributed/in_process_cluster.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/partitioned_variable.h"
#include "tutti/strategies/replica_device_setter.h"
#include "tutti/train/checkpoint_reader.h"

namespace tutti::saver_cluster_test {

std::unique_ptr<InProcessCluster> start(int ps, FileSystem* files = nullptr) {
  InProcessClusterOptions options{.workers = 1, .ps = ps};
  options.server.runtime.files = files;
  options.server.log = [](const std::string&) {};
  return InProcessCluster::start(std::move(options)).value_or_throw();
}

// Four variables round the parameter servers, a step that adds one to each, and the step itself.
struct SpreadModel {
  explicit SpreadModel(int ps) : graph(builtin_ops()) {
    ScopeGuard devices = graph.device_scope(replica_device_setter({.ps_tasks = ps}));
    Var step = variable(graph, Tensor::scalar<std::int64_t>(0), "global_step", false);
    std::vector<Node*> updates;
    for (int i = 0; i < 4; ++i) {
      variables.push_back(variable(graph, Tensor(DType::kFloat, {i + 1, 100}), str_cat("v", i)));
      updates.push_back(variables.back().assign_add(ones(graph, DType::kFloat, {i + 1, 100})));
    }
    {
      ScopeGuard wait = graph.control_dependencies(updates);
      train = step.assign_add(constant(graph, 1, DType::kInt64));
    }
    variables.push_back(step);
    init = global_variables_initializer(graph);
  }
  std::vector<Tensor> values(Session& session) {
    std::vector<TensorName> reads;
    for (const Var& variable : variables) reads.emplace_back(variable.read());
    return session.run({}, reads);
  }

  Graph graph;
  std::vector<Var> variables;
  Node* train;
  Node* init;
};

std::unique_ptr<Session> session_on(InProcessCluster& cluster, SpreadModel& model) {
  return connect(cluster.target(), model.graph).value_or_throw();
}

TEST(SaverCluster, AnotherNumberOfParameterServers) {
  TempDirectory directory;
  std::vector<Tensor> saved;
  {
    auto cluster = start(2);
    SpreadModel model(2);
    Saver saver(model.graph, {.sharded = true});
    auto session = session_on(*cluster, model);
    session->run({model.init});
    for (int i = 0; i < 3; ++i) session->run({model.train});
    saver.save(*session, directory.file("m"), 3);
    saved = model.values(*session);
    EXPECT_EQ(files_in(directory.path()),
              (std::vector<std::string>{"checkpoint", "m-3.data-00000-of-00002", "m-3.data-00001-of-00002", "m-3.index",
                                        "m-3.meta"}));
    session->run({model.train});
    saver.restore(*session, directory.file("m-3"));
    EXPECT_TRUE(same(model.values(*session), saved));
  }
  for (int ps : {1, 3}) {
    auto cluster = start(ps);
    SpreadModel model(ps);
    Saver saver(model.graph, {.sharded = true});
    auto session = session_on(*cluster, model);
    saver.restore(*session, directory.path());
    EXPECT_TRUE(same(model.values(*session), saved)) << ps;
  }
}

// A table in parts round the parameter servers, trained with Adam.
struct TableModel {
  TableModel(int ps, int parts) : graph(builtin_ops()) {
    ScopeGuard devices = graph.device_scope(replica_device_setter({.ps_tasks = ps}));
    PartitionedVar table =
        partitioned_variable(graph, Tensor(DType::kFloat, {7, 3}), "table", fixed_size_partitioner(parts));
    Var step = variable(graph, Tensor::scalar<std::int64_t>(0), "global_step", false);
    Output ids = constant(graph, Tensor::vector<std::int32_t>({0, 3, 6, 3}));
    Output loss = reduce_sum(square(table.gather(ids) - ones(graph, DType::kFloat, {4, 3})));
    train = Adam(0.1).minimize(loss, {}, step);
    init = global_variables_initializer(graph);
  }

  Graph graph;
  Node* train;
  Node* init;
};

std::map<std::string, Tensor> contents(const std::string& path) {
  const auto reader = load_checkpoint(path);
  std::map<std::string, Tensor> values;
  for (const auto& variable : reader->variables()) values[variable.name] = reader->read(variable.name).value_or_throw();
  return values;
}

void expect_same_contents(const std::string& a, const std::string& b) {
  const std::map<std::string, Tensor> first = contents(a), second = contents(b);
  EXPECT_EQ(first.size(), second.size());
  for (const auto& [name, value] : first) {
    ASSERT_TRUE(second.contains(name)) << name;
    EXPECT_TRUE(bitwise_equal(value, second.at(name))) << name;
  }
}

TEST(SaverCluster, PartsAndSlotsGoToOtherServers) {
  TempDirectory directory;
  const std::string first = directory.file("first"), later = directory.file("later");
  {
    auto cluster = start(2);
    TableModel model(2, 3);
    Saver saver(model.graph, {.sharded = true, .save_in_background = true});
    auto session = connect(cluster->target(), model.graph).value_or_throw();
    session->run({model.init});
    for (int i = 0; i < 3; ++i) session->run({model.train});
    saver.save(*session, first);
    session->run({model.train});
    saver.save(*session, later);
    saver.close();
  }
  const std::map<std::string, Tensor> saved = contents(first);
  EXPECT_EQ(saved.at("table").shape(), (Shape{7, 3}));
  EXPECT_EQ(saved.at("table/Adam_1").shape(), (Shape{7, 3}));
  for (const auto& [ps, parts] : {std::pair(1, 2), std::pair(3, 3), std::pair(2, 7)}) {
    auto cluster = start(ps);
    TableModel model(ps, parts);
    Saver saver(model.graph, {.sharded = ps != 1});
    auto session = connect(cluster->target(), model.graph).value_or_throw();
    saver.restore(*session, first);
    expect_same_contents(saver.save(*session, directory.file("copy")), first);
    session->run({model.train});
    expect_same_contents(saver.save(*session, directory.file("next")), later);
  }
}

TEST(SaverCluster, InTheBackgroundOfOtherWorkersTraining) {
  TempDirectory directory;
  auto cluster = start(2);
  SpreadModel model(2), other(2);
  Saver saver(model.graph, {.max_to_keep = 0, .sharded = true, .save_in_background = true});
  auto session = session_on(*cluster, model);
  session->run({model.init});
  auto other_session = session_on(*cluster, other);
  std::atomic<bool> stop = false;
  std::thread worker([&] {
    while (!stop) other_session->run({other.train});
  });
  for (int i = 0; i < 5; ++i) {
    session->run({model.train});
    saver.save(*session, directory.file("m"), i);
  }
  saver.close();
  stop = true;
  worker.join();
  for (int i = 0; i < 5; ++i) {
    const auto reader = load_checkpoint(directory.file(str_cat("m-", i)));
    const auto step = static_cast<float>(reader->read("global_step").value_or_throw().scalar<std::int64_t>());
    for (int v = 0; v < 4; ++v) {
      const Tensor value = reader->read(str_cat("v", v)).value_or_throw();
      // Never half of an update, and everything that the step counts.
      for (float element : value.flat<float>()) ASSERT_EQ(element, value.flat<float>()[0]);
      EXPECT_GE(value.flat<float>()[0], step);
    }
  }
}

// A session in which something else happens before its second step.
class InterruptedSession : public Session {
 public:
  InterruptedSession(std::unique_ptr<Session> session, std::function<void()> meanwhile)
      : session_(std::move(session)), meanwhile_(std::move(meanwhile)) {}
  Result<CallableId> make_callable(const Signature& signature) override { return session_->make_callable(signature); }
  void run_callable_async(CallableId callable, std::vector<Tensor> feeds, const RunOptions& options,
                          Done done) override {
    if (++steps_ == 2) meanwhile_();
    session_->run_callable_async(callable, std::move(feeds), options, std::move(done));
  }
  Status release_callable(CallableId callable) override { return session_->release_callable(callable); }
  Result<std::string> partial_run_setup(const Signature& signature, const RunOptions& options) override {
    return session_->partial_run_setup(signature, options);
  }
  Result<std::vector<Tensor>> partial_run(const std::string& handle, const Feeds& feeds,
                                          const std::vector<TensorName>& fetches) override {
    return session_->partial_run(handle, feeds, fetches);
  }
  Status extend(std::string_view graph_def) override { return session_->extend(graph_def); }
  std::vector<std::string> list_devices() override { return session_->list_devices(); }
  Status close() override { return session_->close(); }

 private:
  const std::unique_ptr<Session> session_;
  const std::function<void()> meanwhile_;
  int steps_ = 0;
};

// One client's save holds its values and has not begun to write them when another's, of the same graph, comes and goes.
TEST(SaverCluster, TwoClientsSaveAtTheSameTime) {
  for (const bool sharded : {false, true}) {
    TempDirectory directory, others_directory;
    auto cluster = start(2);
    SpreadModel model(2), other(2);
    Saver saver(model.graph, {.sharded = sharded, .save_in_background = true});
    Saver others(other.graph, {.sharded = sharded, .save_in_background = true});
    auto other_session = session_on(*cluster, other);
    other_session->run({other.init});
    std::string theirs;
    InterruptedSession session(session_on(*cluster, model), [&] {
      other_session->run({other.train});
      theirs = others.save(*other_session, others_directory.file("m"), 1);
      others.wait();
    });
    const std::string path = saver.save(session, directory.file("m"), 0);
    saver.wait();
    for (const auto& [saved, step] : {std::pair(path, 0), std::pair(theirs, 1)}) {
      const auto reader = load_checkpoint(saved);
      EXPECT_EQ(reader->read("global_step").value_or_throw().scalar<std::int64_t>(), step);
      for (int v = 0; v < 4; ++v) {
        const Tensor value = reader->read(str_cat("v", v)).value_or_throw();
        for (float element : value.flat<float>()) ASSERT_EQ(element, static_cast<float>(step)) << saved << " v" << v;
      }
    }
  }
}

// As a chief that was killed while it saved, and started again.
TEST(SaverCluster, WhoComesAfterAHolderThatDiedLetsGoOfWhatItHeld) {
  TempDirectory directory;
  auto cluster = start(2);
  {
    SpreadModel model(2);
    Saver saver(model.graph, {.sharded = true, .save_in_background = true, .holder = "chief"});
    auto session = session_on(*cluster, model);
    session->run({model.init});
    session->run({model.graph.find("save/held/hold")});
  }
  SpreadModel model(2);
  Saver saver(model.graph, {.sharded = true, .save_in_background = true, .holder = "chief"});
  Node* held = model.graph.find("save/held/v0");
  ScopeGuard beside = model.graph.colocate_with(*held);
  const Output value = op1("ReadVariableOp", {held->output()}, {{"dtype", DType::kFloat}});
  auto session = session_on(*cluster, model);
  ASSERT_TRUE(session->try_run({}, {value}).ok());
  saver.save(*session, directory.file("m"), 0);
  saver.wait();
  EXPECT_EQ(session->try_run({}, {value}).status().code(), Code::kFailedPrecondition);
}

TEST(SaverCluster, ADamagedShardChangesNothing) {
  TempDirectory directory;
  auto cluster = start(2);
  SpreadModel model(2);
  Saver saver(model.graph, {.sharded = true});
  auto session = session_on(*cluster, model);
  session->run({model.init});
  const std::string path = saver.save(*session, directory.file("m"), 0);
  session->run({model.train});
  const std::vector<Tensor> before = model.values(*session);
  for (const char* shard : {".data-00000-of-00002", ".data-00001-of-00002"}) {
    const std::string good = read_file(local_file_system(), path + shard).value_or_throw();
    std::string bad = good;
    bad.back() ^= 1;
    throw_if_error(write_file(local_file_system(), path + shard, bad));
    const Status status = saver.try_restore(*session, path);
    EXPECT_EQ(status.code(), Code::kDataLoss) << status.message();
    EXPECT_TRUE(same(model.values(*session), before));
    throw_if_error(write_file(local_file_system(), path + shard, good));
  }
  saver.restore(*session, path);
  EXPECT_FALSE(same(model.values(*session), before));
}

TEST(SaverCluster, AFullDiskOfOneServer) {
  TempDirectory directory;
  std::atomic<bool> full = false;
  FaultyFileSystem files(local_file_system(), [&](FileOp op, const std::string& path) {
    return full && op == FileOp::kAppend && path.find("part-00001") != std::string::npos
               ? resource_exhausted(path, ": no space left on device")
               : Status();
  });
  auto cluster = start(2, &files);
  SpreadModel model(2);
  Saver saver(model.graph, {.sharded = true});
  auto session = session_on(*cluster, model);
  session->run({model.init});
  const std::string first = saver.save(*session, directory.file("m"), 1);
  full = true;
  const Status status = saver.try_save(*session, directory.file("m"), 2).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.message().find("ps"), std::string::npos) << status.message();
  EXPECT_EQ(latest_checkpoint(local_file_system(), directory.path()).value_or_throw(), first);
  full = false;
  saver.save(*session, directory.file("m"), 3);
  for (const std::string& name : files_in(directory.path())) EXPECT_EQ(name.find("temp"), std::string::npos) << name;
}

}  // namespace tutti::saver_cluster_test
