// What saving costs.
//
//   Step/0          a training step of an MLP 784-500-500-10, batch 32, Adam (7.8 MB of state): nothing is saved
//   Step/50         the same with a save in the background every 50 steps: slowed_% is against steps without saves that
//                   were measured in the same minute, in turns (budget 2: met or MISSED). Each save has 50 steps after
//                   it in which its work in the background is measured
//   StepForeground  the same with saves that training waits for
//   Hold/MB         how long save() in the background keeps training waiting: holding so many megabytes fast
//   Save/MB         a whole save in the foreground, synced: bytes_per_second
//   Restore/MB      a restore of the same
//
// Files go to a directory of their own under TMPDIR (a disk or not: that decides about Save), which is removed. Every
// case checks that what it saved is a checkpoint that can be read.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tutti/ops/array.h"
#include "tutti/ops/math.h"
#include "tutti/ops/nn.h"
#include "tutti/ops/random.h"
#include "tutti/ops/state.h"
#include "tutti/optim/adam.h"
#include "tutti/runtime/local_session.h"
#include "tutti/train/checkpoint_reader.h"
#include "tutti/train/saver.h"

namespace tutti {
namespace {

using Seconds = std::chrono::duration<double>;

class Directory {
 public:
  Directory() : path_((std::filesystem::temp_directory_path() / "tutti_save_bench_XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw_error(internal_error("mkdtemp ", path_));
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string prefix() const { return path_ + "/model.ckpt"; }

 private:
  std::string path_;
};

class Mlp {
 public:
  explicit Mlp(bool background) {
    Output x = constant(graph_, Tensor(DType::kFloat, {32, 784}), "x");
    Output labels = constant(graph_, Tensor(DType::kInt32, {32}), "labels");
    Var step = variable(graph_, Tensor::scalar<std::int64_t>(0), "global_step", false);
    Output hidden = x;
    std::int64_t width = 784;
    for (const std::int64_t units : {500, 500, 10}) {
      // Drawn in the graph, as programs do: a constant would make the file .meta as large as the weights.
      Var w = variable(graph_, truncated_normal(graph_, {width, units}), str_cat("w", units, "_", width));
      Var b = variable(graph_, Tensor(DType::kFloat, {units}), str_cat("b", units, "_", width));
      hidden = nn::bias_add(matmul(hidden, w), b);
      if (units != 10) hidden = nn::relu(hidden);
      width = units;
    }
    Output loss = reduce_mean(nn::sparse_softmax_cross_entropy_with_logits(labels, hidden));
    train_ = Adam(1e-3).minimize(loss, {}, step);
    Node* init = global_variables_initializer(graph_);
    saver_ = std::make_unique<Saver>(graph_, SaverOptions{.max_to_keep = 2, .save_in_background = background});
    session_ = std::make_unique<LocalSession>(graph_);
    session_->run({init});
  }

  // Seconds a step, saving before every so many steps, the first included; 0: never. A save's work in the background
  // falls into the steps that follow it.
  double run(int steps, int save_every) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) {
      if (save_every > 0 && i % save_every == 0) last_ = saver_->save(*session_, directory_.prefix(), done_);
      session_->run({train_});
      ++done_;
    }
    return Seconds(std::chrono::steady_clock::now() - start).count() / steps;
  }

  bool check() {
    saver_->wait();
    if (last_.empty()) return true;
    const std::int64_t step = load_variable(last_, "global_step").scalar<std::int64_t>();
    return last_ == str_cat(directory_.prefix(), "-", step);
  }

 private:
  Directory directory_;
  Graph graph_{builtin_ops()};
  Node* train_ = nullptr;
  std::unique_ptr<Saver> saver_;
  std::unique_ptr<LocalSession> session_;
  std::int64_t done_ = 0;
  std::string last_;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// In turns with steps that save nothing, so that both see the same machine.
void measure_steps(benchmark::State& state, bool background, int save_every) {
  constexpr int kSteps = 100;
  constexpr int kBudgetPercent = 2;
  Mlp model(background);
  model.run(kSteps, 0);
  std::vector<double> plain, saving;
  for (auto _ : state) {
    plain.push_back(model.run(kSteps, 0));
    saving.push_back(model.run(kSteps, save_every));
    state.SetIterationTime(saving.back() * kSteps);
    // What is still being written belongs to the steps above, not to the plain ones.
    if (!model.check()) state.SkipWithError("the last save is not what it should be");
  }
  state.counters["step_us"] = median(saving) * 1e6;
  const double slowed = (median(saving) / median(plain) - 1) * 100;
  state.counters["slowed_%"] = slowed;
  if (background && save_every > 0) {
    state.SetLabel(str_cat("budget ", kBudgetPercent, " %: ", slowed <= kBudgetPercent ? "met" : "MISSED"));
  }
}

void Step(benchmark::State& state) { measure_steps(state, true, static_cast<int>(state.range(0))); }
void StepForeground(benchmark::State& state) { measure_steps(state, false, static_cast<int>(state.range(0))); }

// Variables of one megabyte each.
struct Megabytes {
  Megabytes(int count, bool background) {
    for (int i = 0; i < count; ++i) variable(graph, Tensor(DType::kFloat, {1 << 18}), str_cat("v", i));
    Node* init = global_variables_initializer(graph);
    saver = std::make_unique<Saver>(
        graph, SaverOptions{.max_to_keep = 1, .write_meta_graph = false, .save_in_background = background});
    session = std::make_unique<LocalSession>(graph);
    session->run({init});
  }
  Directory directory;
  Graph graph{builtin_ops()};
  std::unique_ptr<Saver> saver;
  std::unique_ptr<LocalSession> session;
};

void Hold(benchmark::State& state) {
  Megabytes model(static_cast<int>(state.range(0)), true);
  std::int64_t step = 0;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    model.saver->save(*model.session, model.directory.prefix(), ++step);
    state.SetIterationTime(Seconds(std::chrono::steady_clock::now() - start).count());
    model.saver->wait();
  }
}

void Save(benchmark::State& state) {
  Megabytes model(static_cast<int>(state.range(0)), false);
  std::int64_t step = 0;
  std::string path;
  for (auto _ : state) path = model.saver->save(*model.session, model.directory.prefix(), ++step);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * (state.range(0) << 20));
  if (list_variables(path).size() != static_cast<std::size_t>(state.range(0))) state.SkipWithError("bad checkpoint");
}

void Restore(benchmark::State& state) {
  Megabytes model(static_cast<int>(state.range(0)), false);
  const std::string path = model.saver->save(*model.session, model.directory.prefix(), 0);
  for (auto _ : state) model.saver->restore(*model.session, path);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * (state.range(0) << 20));
}

BENCHMARK(Step)->Arg(0)->Arg(50)->Iterations(15)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(StepForeground)->Arg(50)->Iterations(5)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(Hold)->Arg(1)->Arg(64)->Iterations(20)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(Save)->Arg(1)->Arg(64)->Arg(512)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(Restore)->Arg(1)->Arg(64)->Arg(512)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tutti
