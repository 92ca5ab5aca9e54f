#include "tutti/optim/lamb.h"

#include "tests/optim/layer_reference.h"
#include "tests/optim/optimizer_fixture.h"
#include "tutti/ops/partitioned_variable.h"

namespace tutti::lamb_test {

using testing::Doubles;
using testing::norm;

const LAMBOptions kOptions = {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6};

// One layer, step by step in double.
class Reference {
 public:
  Reference(std::size_t size, double weight_decay, bool adapts)
      : m_(size), v_(size), weight_decay_(weight_decay), adapts_(adapts) {}

  void step(Doubles& w, const Doubles& g) {
    ++t_;
    Doubles r(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      m_[i] = 0.8 * m_[i] + 0.2 * g[i];
      v_[i] = 0.95 * v_[i] + 0.05 * g[i] * g[i];
      r[i] = m_[i] / (1 - std::pow(0.8, t_)) / (std::sqrt(v_[i] / (1 - std::pow(0.95, t_))) + 1e-6);
      r[i] += weight_decay_ * w[i];
    }
    const double ratio = adapts_ && norm(w) > 0 && norm(r) > 0 ? norm(w) / norm(r) : 1;
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.01 * ratio * r[i];
  }

 private:
  Doubles m_, v_;
  const double weight_decay_;
  const bool adapts_;
  int t_ = 0;
};

class LAMBTest : public testing::LayerFixture {
 protected:
  void expect_follows(Optimizer& optimizer, Doubles start, double weight_decay, bool adapts) {
    Reference reference(start.size(), weight_decay, adapts);
    expect_layer(optimizer, std::move(start), [&](Doubles& w, const Doubles& g) { reference.step(w, g); });
  }
};

TEST_F(LAMBTest, Dense) {
  LAMB optimizer(0.01, 0.1, kOptions);
  expect_follows(optimizer, {1, -2, 0.5, 3, 0.25, -1}, 0.1, true);
}

TEST_F(LAMBTest, WeightsOfZeroTakePlainSteps) {
  LAMB optimizer(0.01, 0.0, kOptions);
  expect_follows(optimizer, {0, 0, 0, 0, 0, 0}, 0, true);
}

TEST_F(LAMBTest, SomeNeitherDecayNorAdapt) {
  LAMBOptions options = kOptions;
  options.decays = options.adapts = [](const Var& variable) { return variable.name() != "w"; };
  LAMB optimizer(0.01, 0.1, options);
  expect_follows(optimizer, {1, -2, 0.5, 3, 0.25, -1}, 0, false);
}

TEST_F(LAMBTest, PartsStepAsTheWholeWould) {
  LAMB optimizer(0.01, 0.1, kOptions);
  Reference reference(6, 0.1, true);
  expect_parts(optimizer, {1, -2, 0.5, 3, 0.25, -1}, [&](Doubles& w, const Doubles& g) { reference.step(w, g); });
}

TEST_F(LAMBTest, RepeatedRowsAreSummed) {
  LAMB optimizer(0.01, 0.1, kOptions);
  Reference reference(8, 0.1, true);
  expect_rows(optimizer, [&](Doubles& w, const Doubles& g) { reference.step(w, g); });
}

}  // namespace tutti::lamb_test
