#include "tutti/optim/moving_averages.h"

#include "tests/optim/optimizer_fixture.h"
#include "tutti/ops/partitioned_variable.h"

namespace tutti::moving_averages_test {

using testing::Doubles;

// Decays that floats have exactly.
class MovingAveragesTest : public testing::OptimizerFixture {};

TEST_F(MovingAveragesTest, FollowsItsVariable) {
  Var w = make_variable(Tensor::vector<double>({1, 2}));
  ExponentialMovingAverage averages(0.75);
  EXPECT_EQ(averages.average_name(w), "w/ExponentialMovingAverage");
  EXPECT_FALSE(averages.average(w));
  Output input = placeholder(graph_, DType::kDouble, PartialShape{2});
  Node* assign = w.assign(input);
  Node* apply = averages.apply({w});
  const Var average = *averages.average(w);
  EXPECT_EQ(average.name(), "w/ExponentialMovingAverage");
  EXPECT_FALSE(average.trainable());
  EXPECT_EQ(average.handle().node->attr<std::vector<std::string>>("_class"), std::vector<std::string>{"loc:@w"});
  initialize();
  expect_near(value_of(average), {1, 2});
  double expected = 1;
  for (double value : {3.0, -1.0, 0.5}) {
    evaluator_.run_target(assign, {{input, Tensor::vector<double>({value, 2 * value})}});
    evaluator_.run_target(apply);
    expected = 0.75 * expected + 0.25 * value;
    expect_near(value_of(average), {expected, 2 * expected});
  }
}

TEST_F(MovingAveragesTest, StartsFromWhatTheVariableIs) {
  Var w = make_variable(Tensor::scalar(1.0));
  ExponentialMovingAverage averages(0.5);
  averages.apply({w});
  evaluator_.run_target(w.initializer());
  evaluator_.run_target(w.assign(constant(graph_, Tensor::scalar(8.0))));
  evaluator_.run_target(averages.average(w)->initializer());
  EXPECT_EQ(value_of(*averages.average(w)), Doubles{8});
}

TEST_F(MovingAveragesTest, BehindTheTrainStep) {
  Var w = make_variable(Tensor::scalar(1.0));
  Node* train = w.assign(constant(graph_, Tensor::scalar(3.0)));
  ExponentialMovingAverage averages(0.5);
  Output x = placeholder(graph_, DType::kDouble, PartialShape::scalar(), "x");
  Node* apply = nullptr;
  {
    ScopeGuard wait = graph_.control_dependencies({train, x.node});
    apply = averages.apply({w});
    averages.apply_to_values({x});
  }
  initialize();  // waits for neither
  EXPECT_EQ(value_of(*averages.average(w)), Doubles{1});
  EXPECT_EQ(value_of(*averages.average(x)), Doubles{0});
  evaluator_.run_target(apply, {{x, Tensor::scalar(0.0)}});
  EXPECT_EQ(value_of(*averages.average(w)), Doubles{2});
}

TEST_F(MovingAveragesTest, UpdatesHurryInTheBeginning) {
  Var w = make_variable(Tensor::scalar(0.0));
  Output count = placeholder(graph_, DType::kInt64, PartialShape::scalar());
  ExponentialMovingAverage averages(0.75, {.num_updates = count});
  Node* apply = averages.apply({w});
  initialize();
  evaluator_.run_target(w.assign(constant(graph_, Tensor::scalar(1.0))));
  double expected = 0;
  for (std::int64_t n : {0, 2, 6, 100}) {
    evaluator_.run_target(apply, {{count, Tensor::scalar(n)}});
    const double decay = std::min(0.75, (1.0 + static_cast<double>(n)) / (10.0 + static_cast<double>(n)));
    expected = decay * expected + (1 - decay);
    EXPECT_NEAR(value_of(*averages.average(w))[0], expected, 1e-7) << n;
  }
}

TEST_F(MovingAveragesTest, ValuesWithAndWithoutBias) {
  Output x = placeholder(graph_, DType::kDouble, PartialShape{2}, "x");
  ExponentialMovingAverage plain(0.5), unbiased(0.5, {.zero_debias = true}, "Unbiased");
  Node* apply_plain = plain.apply_to_values({x});
  Node* apply_unbiased = unbiased.apply_to_values({x});
  EXPECT_EQ(plain.average(x)->name(), "x/ExponentialMovingAverage");
  EXPECT_NE(graph_.find("x/Unbiased/biased"), nullptr);
  EXPECT_NE(graph_.find("x/Unbiased/local_step"), nullptr);
  initialize();
  double sum = 0;
  int step = 0;
  for (double value : {4.0, 2.0, -1.0}) {
    const Tensor fed = Tensor::vector<double>({value, -value});
    evaluator_.run_target(apply_plain, {{x, fed}});
    evaluator_.run_target(apply_unbiased, {{x, fed}});
    sum = 0.5 * sum + 0.5 * value;
    const double corrected = sum / (1 - std::pow(0.5, ++step));
    expect_near(value_of(*plain.average(x)), {sum, -sum});
    expect_near(value_of(*unbiased.average(x)), {corrected, -corrected});
  }
}

TEST_F(MovingAveragesTest, VariablesToRestore) {
  Var w = make_variable(Tensor::scalar(1.0));
  make_variable(Tensor::scalar(1.0), "b");
  Var frozen = variable(graph_, Tensor::scalar(1.0), "frozen", false);
  variable(graph_, Tensor::scalar(std::int64_t{0}), "global_step", false);
  ExponentialMovingAverage averages(0.5);
  averages.apply({w, frozen});
  std::map<std::string, std::string> found;
  for (const auto& [name, variable] : averages.variables_to_restore(graph_)) found[name] = variable.name();
  const std::map<std::string, std::string> expected = {{"w/ExponentialMovingAverage", "w"},
                                                       {"b/ExponentialMovingAverage", "b"},
                                                       {"frozen/ExponentialMovingAverage", "frozen"},
                                                       {"global_step", "global_step"}};
  EXPECT_EQ(found, expected);
}

TEST_F(MovingAveragesTest, PartsOfAPartitionedVariable) {
  PartitionedVar w = partitioned_variable(graph_, Tensor::vector<double>({1, 2, 3}), "w", fixed_size_partitioner(2));
  ExponentialMovingAverage averages(0.5);
  averages.apply(w.parts());
  const std::optional<SliceInfo> info = slice_info(*averages.average(w.parts()[1]));
  ASSERT_TRUE(info);
  EXPECT_EQ(info->full_name, "w/ExponentialMovingAverage");
  EXPECT_EQ(info->spec(), "3 2,1");
  partitioned_variable(graph_, Tensor::vector<double>({1, 2}), "frozen", fixed_size_partitioner(2), false);
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& [name, variable] : averages.variables_to_restore(graph_)) found.push_back({name, variable.name()});
  const std::vector<std::pair<std::string, std::string>> expected = {{"frozen", "frozen/part_0"},
                                                                     {"frozen", "frozen/part_1"},
                                                                     {"w/ExponentialMovingAverage", "w/part_0"},
                                                                     {"w/ExponentialMovingAverage", "w/part_1"}};
  EXPECT_EQ(found, expected);
}

TEST_F(MovingAveragesTest, Refusals) {
  ExponentialMovingAverage averages(0.5);
  Var count = make_variable(Tensor::scalar(std::int64_t{1}), "count");
  EXPECT_THROW(averages.apply({count}), Error);
  EXPECT_THROW(averages.apply({}), Error);
  EXPECT_THROW(averages.apply_to_values({placeholder(graph_, DType::kDouble)}), Error);
}

}  // namespace tutti::moving_averages_test
