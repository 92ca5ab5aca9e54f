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

TEST(CollectiveOps, ALargerGroupIsRefusedWithAHint) {
  testing::KernelRunner runner;
  const AttrMap keys{{"group_size", 2},   {"group_key", 1},   {"instance_key", 1},
                     {"merge_op", "Add"}, {"final_op", "Id"}, {"subdiv_offsets", std::vector<std::int64_t>{0}}};
  const Status refused = runner.run("all", "CollectiveReduce", keys, {value_of(kValues)})->status();
  EXPECT_EQ(refused.code(), Code::kUnimplemented);
  EXPECT_NE(refused.message().find("a group of 2 members"), std::string::npos) << refused.to_string();
  EXPECT_NE(refused.message().find("SyncReplicasOptimizer"), std::string::npos) << refused.to_string();
  AttrMap none = keys;
  none["group_size"] = 0;
  EXPECT_EQ(runner.run("none", "CollectiveReduce", none, {value_of(kValues)})->status().code(), Code::kInvalidArgument);
}

}  // namespace tutti::collective_ops_test
