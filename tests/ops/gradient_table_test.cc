// For every row of the op table that has a gradient: the gradient against central differences, in double, of a
// random projection of the outputs. A row with a gradient and no sample fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "tests/ops/op_samples.h"
#include "tests/support/graph_eval.h"
#include "tutti/graph/gradients.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/op_table.h"

namespace tutti::testing::gradient_table_test {

// Their gradients need functions of a library: tests/ops/function_ops_test.cc.
const std::set<std::string> kNeedFunctions = {"If",
                                              "StatelessIf",
                                              "Case",
                                              "StatelessCase",
                                              "While",
                                              "StatelessWhile",
                                              "PartitionedCall",
                                              "StatefulPartitionedCall"};

// A number that is refused and drawn again jumps with the law's parameter, so differences of samples say nothing:
// tests/ops/random_law_ops_test.cc.
const std::set<std::string> kDrawn = {"RandomGamma", "StatelessRandomGammaV2", "StatelessRandomGammaV3"};

// Refuses to be differentiated, which is what its row's function is for.
const std::string kRefuses = "PreventGradient";

// Takes variables only, which samples cannot be.
const std::string kTakesReferences = "RefIdentity";

enum class Shapes { kKnown, kUnknown };

// One sample as a graph.
class Trial {
 public:
  Trial(const OpSample& sample, Shapes shapes) : sample_(sample), graph_(builtin_ops()) {
    for (const SampleInput& input : sample.inputs) add_input(input, shapes);
    if (sample.build) {
      outputs_ = sample.build(graph_, inputs_);
    } else {
      Node* node = add_op(graph_, sample.op, inputs_, sample.attrs);
      for (int i = 0; i < node->num_outputs(); ++i) {
        const bool chosen = std::find(sample.outputs.begin(), sample.outputs.end(), i) != sample.outputs.end();
        if (sample.outputs.empty() ? node->output(i).dtype() == DType::kDouble : chosen) {
          outputs_.push_back(node->output(i));
        }
      }
    }
    choose_projection();
  }

  void check() {
    std::vector<Output> xs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (sample_.inputs[i].kind != SampleInput::kFixed) xs.push_back(inputs_[i]);
    }
    GradientOptions options;
    options.grad_ys = projection_;
    std::vector<Gradient> symbolic = gradients(outputs_, xs, options);
    for (std::size_t i = 0, k = 0; i < inputs_.size(); ++i) {
      if (sample_.inputs[i].kind == SampleInput::kFixed) continue;
      check_input(i, symbolic[k++]);
    }
  }

 private:
  void add_input(const SampleInput& input, Shapes shapes) {
    const DType dtype = input.value.dtype();
    if (input.kind == SampleInput::kVariable) {
      const std::string name = "v" + std::to_string(inputs_.size());
      inputs_.push_back(add_op(graph_, "VarHandleOp", {},
                               {{"dtype", dtype}, {"shape", PartialShape(input.value.shape())}, {"shared_name", name}})
                            ->output());
    } else if (input.kind == SampleInput::kFixed && (shapes == Shapes::kKnown || sample_.needs_constants)) {
      inputs_.push_back(add_op(graph_, "Const", {}, {{"dtype", dtype}, {"value", input.value}})->output());
      return;
    } else {
      const PartialShape shape = shapes == Shapes::kKnown ? PartialShape(input.value.shape()) : PartialShape();
      inputs_.push_back(add_op(graph_, "Placeholder", {}, {{"dtype", dtype}, {"shape", shape}})->output());
    }
    values_.push_back({inputs_.back(), input.value});
  }

  std::vector<Tensor> run(const std::vector<Output>& fetches, const GraphEvaluator::Feeds& values) {
    GraphEvaluator::Feeds feeds;
    for (const auto& [to, value] : values) {
      if (to.dtype() == DType::kResource) {
        assign(to, value);
      } else {
        feeds.push_back({to, value});
      }
    }
    return evaluator_.run(graph_, feeds, fetches);
  }

  void assign(Output handle, const Tensor& value) {
    auto [it, is_new] = assignments_.try_emplace(handle.node);
    if (is_new) {
      it->second.first =
          add_op(graph_, "Placeholder", {}, {{"dtype", value.dtype()}, {"shape", PartialShape()}})->output();
      it->second.second = add_op(graph_, "AssignVariableOp", {handle, it->second.first});
    }
    evaluator_.run_target(it->second.second, {{it->second.first, value}});
  }

  void choose_projection() {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> uniform(0.5, 1.5);
    for (const Tensor& output : run(outputs_, values_)) {
      Tensor weights(DType::kDouble, output.shape());
      for (double& weight : weights.flat<double>()) weight = uniform(random) * (random() % 2 ? 1 : -1);
      weights_.push_back(weights);
      projection_.push_back(add_op(graph_, "Const", {}, {{"dtype", DType::kDouble}, {"value", weights}})->output());
    }
  }

  double projected(const GraphEvaluator::Feeds& values) {
    double sum = 0;
    std::vector<Tensor> outputs = run(outputs_, values);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      for (std::int64_t i = 0; i < outputs[k].num_elements(); ++i) {
        sum += outputs[k].data<double>()[i] * weights_[k].data<double>()[i];
      }
    }
    return sum;
  }

  double difference(Output x, std::int64_t element) {
    double sides[2];
    for (int side = 0; side < 2; ++side) {
      GraphEvaluator::Feeds moved = values_;
      for (auto& [to, value] : moved) {
        if (!(to == x)) continue;
        value = value.clone().value_or_throw();
        value.data<double>()[element] += side == 0 ? sample_.step : -sample_.step;
      }
      sides[side] = projected(moved);
    }
    return (sides[0] - sides[1]) / (2 * sample_.step);
  }

  void check_input(std::size_t i, const Gradient& gradient) {
    const Tensor& x = sample_.inputs[i].value;
    Tensor got(DType::kDouble, x.shape());
    if (gradient) got = run({gradient.dense()}, values_)[0];
    ASSERT_EQ(got.shape(), x.shape()) << "input " << i;
    for (std::int64_t e = 0; e < x.num_elements(); ++e) {
      const double expected = difference(inputs_[i], e);
      ASSERT_NEAR(got.data<double>()[e], expected, sample_.tolerance * std::max(1.0, std::abs(expected)))
          << "input " << i << " element " << e << (gradient ? "" : " (no gradient)");
    }
  }

  const OpSample& sample_;
  Graph graph_;
  GraphEvaluator evaluator_;
  std::vector<Output> inputs_;
  GraphEvaluator::Feeds values_;  // of the inputs that can be given
  std::vector<Output> outputs_;
  std::vector<Tensor> weights_;
  std::vector<Output> projection_;
  std::map<Node*, std::pair<Output, Node*>> assignments_;
};

void check_sample(const OpSample& sample, std::size_t number) {
  for (Shapes shapes : {Shapes::kKnown, Shapes::kUnknown}) {
    SCOPED_TRACE(str_cat(sample.op, ", sample ", number, shapes == Shapes::kKnown ? "" : ", shapes unknown"));
    try {
      Trial(sample, shapes).check();
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(GradientTable, EveryRowAgainstDifferences) {
  const std::vector<OpSample> samples = gradient_samples();
  for (std::size_t i = 0; i < samples.size(); ++i) check_sample(samples[i], i);
}

TEST(GradientTable, EveryRowHasASample) {
  std::set<std::string> sampled;
  for (const OpSample& sample : gradient_samples()) sampled.insert(sample.op);
  for (const OpDef* op : builtin_ops()->registry()->all()) {
    if (!op->grad || kNeedFunctions.contains(op->name) || kDrawn.contains(op->name)) continue;
    if (op->name == kRefuses || op->name == kTakesReferences) continue;
    EXPECT_TRUE(sampled.contains(op->name)) << op->name << " has a gradient but no sample in op_samples.cc";
  }
}

// As TensorFlow, which gives None.
TEST(GradientTable, OpsThatGradientsStopAt) {
  Graph graph(builtin_ops());
  const auto one = [&](const Tensor& value) {
    return add_op(graph, "Const", {}, {{"dtype", value.dtype()}, {"value", value}})->output();
  };
  Output x = one(Tensor::scalar(1.0)), count = one(Tensor::scalar(std::int32_t{3}));
  EXPECT_FALSE(gradients({op1("LinSpace", {x, x, count})}, {x})[0]);
  Output row = one(Tensor::vector<double>({1, 2}));
  EXPECT_FALSE(gradients({op1("RandomShuffle", {row})}, {row})[0]);
}

TEST(GradientTable, PreventGradientRefuses) {
  Graph graph(builtin_ops());
  Output x = add_op(graph, "Const", {}, {{"dtype", DType::kDouble}, {"value", Tensor::scalar(1.0)}})->output();
  Output y = op1(kRefuses, {x}, {{"message", "not this way"}}, "wall");
  try {
    gradients({y}, {x});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("not this way"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("wall"), std::string::npos) << error.what();
  }
}

TEST(GradientTable, ReferencesHandTheirGradientOn) {
  Graph graph(builtin_ops());
  Output v = add_op(graph, "VariableV2", {}, {{"dtype", DType::kDouble}, {"shape", PartialShape::scalar()}})->output();
  const Gradient slope = gradients({op1("Neg", {op1(kTakesReferences, {v})})}, {v})[0];
  ASSERT_TRUE(slope);
  EXPECT_EQ(GraphEvaluator().run(graph, {}, {slope.dense()})[0].scalar<double>(), -1);
}

TEST(GradientTable, SamplesAreOfRowsWithGradients) {
  for (const OpSample& sample : gradient_samples()) {
    const OpDef* op = builtin_ops()->registry()->find(sample.op);
    ASSERT_NE(op, nullptr) << sample.op;
    EXPECT_TRUE(bool(op->grad)) << sample.op;
  }
}

}  // namespace tutti::testing::gradient_table_test
