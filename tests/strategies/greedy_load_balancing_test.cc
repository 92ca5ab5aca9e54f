#include "tutti/strategies/greedy_load_balancing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/strategies/strategy_ops.h"

namespace tutti::greedy_load_balancing_test {

NodeSpec variable_of(std::vector<std::int64_t> dims, DType dtype = DType::kFloat) {
  return {.op = "VariableV2", .name = "v", .attrs = {{"dtype", dtype}, {"shape", PartialShape(std::move(dims))}}};
}

TEST(GreedyLoadBalancing, TakesTheLeastLoadedTask) {
  PsStrategy strategy = greedy_load_balancing(2);
  std::vector<int> chosen;
  for (const std::int64_t size : {100, 60, 50, 10}) chosen.push_back(strategy(variable_of({size})));
  EXPECT_EQ(chosen, (std::vector<int>{0, 1, 1, 0}));
}

TEST(GreedyLoadBalancing, CountsBytes) {
  EXPECT_EQ(byte_size_load(variable_of({3, 5})), 60);
  EXPECT_EQ(byte_size_load(variable_of({3, 5}, DType::kDouble)), 120);
  EXPECT_EQ(byte_size_load(variable_of({})), 4);
  EXPECT_EQ(byte_size_load(variable_of({1 << 30, 1 << 30, 1 << 30})), 4.0 * (1 << 30) * (1 << 30) * (1 << 30));
  EXPECT_THROW((void)byte_size_load(variable_of({3, kUnknownDim})), Error);
  EXPECT_THROW((void)byte_size_load({.op = "NoOp", .name = "n"}), Error);
}

TEST(GreedyLoadBalancing, OtherLoadsMayBeCounted) {
  PsStrategy strategy = greedy_load_balancing(3, [](const NodeSpec&) { return 1.0; });
  std::vector<int> chosen;
  for (int i = 0; i < 4; ++i) chosen.push_back(strategy(variable_of({100})));
  EXPECT_EQ(chosen, (std::vector<int>{0, 1, 2, 0}));
}

// The largest load of a parameter server when a model's variables, large and small in turn, are spread by a strategy.
double largest_load(const PsStrategy& strategy) {
  Graph graph(testing::strategy_ops());
  ScopeGuard scope = graph.device_scope(replica_device_setter({.ps_tasks = 2, .ps_strategy = strategy}));
  std::map<std::string, double> loads;
  for (int layer = 0; layer < 4; ++layer) {
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{784, 100}, {100}}) {
      const PartialShape dims(shape);
      const AttrMap attrs{{"dtype", DType::kFloat}, {"shape", dims}};
      const Node* node = graph.add_node({.op = "VarHandleOp", .attrs = attrs}).value_or_throw();
      loads[node->requested_device()] += byte_size_load({.attrs = node->attrs()});
    }
  }
  double most = 0;
  for (const auto& [device, load] : loads) most = std::max(most, load);
  return most;
}

TEST(GreedyLoadBalancing, BalancesBytesBetterThanRoundRobin) {
  const double total = 4.0 * (784 * 100 + 100) * 4;
  EXPECT_LE(largest_load(greedy_load_balancing(2)), total / 2 + 4 * 100 * 4);
  EXPECT_EQ(largest_load(round_robin(2)), 4.0 * 784 * 100 * 4) << "all the large ones on one task";
}

}  // namespace tutti::greedy_load_balancing_test
