#include <gtest/gtest.h>

#include "tests/support/kernel_runner.h"

namespace tutti::collective_ops_test {

using testing::value_of;

const Tensor kValues = Tensor::vector<float>({1, 2});

TEST(CollectiveOps, AGroupOfOneGivesWhatItGot) {
  testing::KernelRunner runner;
  const AttrMap keys{
      {"group_size", 1}, {"group_key", 1}, {"instance_key", 1}, {"shape", PartialShape{2}}, {"T", DType::kFloat}};
  EXPECT_TRUE(bitwise_equal(runner.run("g", "CollectiveGather", keys, {value_of(kValues)})->tensor(), kValues));
  EXPECT_EQ(runner.run("r", "CollectiveBcastRecv", keys)->status().code(), Code::kInternal);
  const Value one = value_of(Tensor::scalar(std::int32_t{1}));
  for (const char* op : {"CollectiveReduceScatterV2", "CollectiveAllToAllV2"}) {
    AttrMap attrs{{"Nordering_token", 0}};
    if (op[10] == 'R') attrs.insert({{"merge_op", "Add"}, {"final_op", "Div"}});
    auto run = runner.run(op, op, attrs, {value_of(kValues), one, one, one});
    ASSERT_TRUE(run->status().ok()) << run->status().to_string();
    EXPECT_TRUE(bitwise_equal(run->tensor(), kValues));
  }
  auto reduced = runner.run("n", "NcclAllReduce", {{"reduction", "sum"}, {"num_devices", 1}, {"shared_name", "x"}},
                            {value_of(kValues)});
  EXPECT_TRUE(bitwise_equal(reduced->tensor(), kValues));
}

// Of all that an op of the family may have, what this one has.
AttrMap attrs_of_two(const OpDef& op) {
  const AttrMap all{{"T", DType::kFloat},       {"group_size", 2},
                    {"group_key", 1},           {"instance_key", 1},
                    {"merge_op", "Add"},        {"final_op", "Id"},
                    {"shape", PartialShape{2}}, {"subdiv_offsets", std::vector<std::int64_t>{0}},
                    {"num_devices", 2},         {"shared_name", "shared"},
                    {"Nordering_token", 0}};
  AttrMap attrs;
  for (const AttrDef& attr : op.attrs) {
    if (const auto it = all.find(attr.name); it != all.end()) attrs[attr.name] = it->second;
    if (attr.name == "reduction") attrs[attr.name] = attr.allowed_strings.back();
  }
  return attrs;
}

std::vector<Value> inputs_of_two(const OpDef& op) {
  std::vector<Value> inputs;
  for (const ArgDef& input : op.inputs) {
    if (input.name == "ordering_token") continue;
    const int count = input.number_attr == "num_devices" ? 2 : 1;
    for (int i = 0; i < count; ++i) {
      if (input.dtype == DType::kResource) {
        inputs.push_back(value_of(Tensor::scalar(ResourceHandle("", "localhost", "communicator"))));
      } else if (input.dtype == DType::kInt32) {
        inputs.push_back(value_of(Tensor::scalar(std::int32_t{2})));
      } else if (input.name == "shape") {
        inputs.push_back(value_of(Tensor::vector<std::int32_t>({2})));
      } else {
        inputs.push_back(value_of(kValues));
      }
    }
  }
  return inputs;
}

TEST(CollectiveOps, ALargerGroupIsRefusedWithAHint) {
  testing::KernelRunner runner;
  int refused = 0;
  for (const OpDef* op : builtin_ops()->registry()->all()) {
    // A broadcast of Nccl does not say how many there are.
    const bool of_family = op->name.starts_with("Collective") || op->name.starts_with("Nccl");
    if (!of_family || op->name == "NcclBroadcast") continue;
    const Status status = runner.run(op->name, op->name, attrs_of_two(*op), inputs_of_two(*op))->status();
    EXPECT_EQ(status.code(), Code::kUnimplemented) << op->name << ": " << status.to_string();
    for (const std::string& word : {op->name, std::string("SyncReplicasOptimizer")}) {
      EXPECT_NE(status.message().find(word), std::string::npos) << status.to_string();
    }
    ++refused;
  }
  EXPECT_GE(refused, 17);
}

TEST(CollectiveOps, TheSizeOfAGroup) {
  testing::KernelRunner runner;
  AttrMap keys{{"group_size", 2},   {"group_key", 1},   {"instance_key", 1},
               {"merge_op", "Add"}, {"final_op", "Id"}, {"subdiv_offsets", std::vector<std::int64_t>{0}}};
  const Status two = runner.run("all", "CollectiveReduce", keys, {value_of(kValues)})->status();
  EXPECT_NE(two.message().find("a group of 2 members"), std::string::npos) << two.to_string();
  keys["group_size"] = 0;
  EXPECT_EQ(runner.run("none", "CollectiveReduce", keys, {value_of(kValues)})->status().code(), Code::kInvalidArgument);
}

}  // namespace tutti::collective_ops_test
