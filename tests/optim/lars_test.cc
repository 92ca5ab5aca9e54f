#include "tutti/optim/lars.h"

#include "tests/optim/layer_reference.h"
#include "tests/optim/optimizer_fixture.h"

namespace tutti::lars_test {

using testing::Doubles;
using testing::norm;

class LARSTest : public testing::LayerFixture {};

struct Reference {
  bool adapts = true;
  bool nesterov = false;
  double weight_decay = 0.02;
  Doubles momentum = {};

  void step(Doubles& w, const Doubles& g) {
    momentum.resize(w.size());
    const double size = norm(w), slope = norm(g);
    const bool scaled = adapts && size > 0 && slope > 0;
    const double rate = 0.5 * (scaled ? 0.1 * size / (slope + weight_decay * size + 1e-3) : 1);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double used = g[i] + (adapts ? weight_decay * w[i] : 0);
      momentum[i] = 0.9 * momentum[i] + used;
      w[i] -= rate * (nesterov ? used + 0.9 * momentum[i] : momentum[i]);
    }
  }
};

const LARSOptions kOptions = {.momentum = 0.9, .weight_decay = 0.02, .eeta = 0.1, .epsilon = 1e-3};

TEST_F(LARSTest, Dense) {
  LARS optimizer(0.5, kOptions);
  Reference reference;
  expect_layer(optimizer, {1, -2, 0.5, 3, 0.25, -1}, [&](Doubles& w, const Doubles& g) { reference.step(w, g); });
}

TEST_F(LARSTest, Nesterov) {
  LARSOptions options = kOptions;
  options.use_nesterov = true;
  LARS optimizer(0.5, options);
  Reference reference{.nesterov = true};
  expect_layer(optimizer, {1, -2, 0.5, 3, 0.25, -1}, [&](Doubles& w, const Doubles& g) { reference.step(w, g); });
}

TEST_F(LARSTest, WeightsOfZeroTakePlainSteps) {
  LARS optimizer(0.5, kOptions);
  Reference reference;
  expect_layer(optimizer, {0, 0, 0, 0, 0, 0}, [&](Doubles& w, const Doubles& g) { reference.step(w, g); });
}

TEST_F(LARSTest, SomeDoNotAdapt) {
  LARSOptions options = kOptions;
  options.adapts = [](const Var& variable) { return variable.name() != "w"; };
  LARS optimizer(0.5, options);
  Reference reference{.adapts = false};
  expect_layer(optimizer, {1, -2, 0.5, 3, 0.25, -1}, [&](Doubles& w, const Doubles& g) { reference.step(w, g); });
}

TEST_F(LARSTest, PartsStepAsTheWholeWould) {
  LARS optimizer(0.5, kOptions);
  Reference reference;
  expect_parts(optimizer, {1, -2, 0.5, 3, 0.25, -1}, [&](Doubles& w, const Doubles& g) { reference.step(w, g); });
}

TEST_F(LARSTest, RepeatedRowsAreSummed) {
  LARS optimizer(0.5, kOptions);
  Reference reference;
  expect_rows(optimizer, [&](Doubles& w, const Doubles& g) { reference.step(w, g); });
}

}  // namespace tutti::lars_test
