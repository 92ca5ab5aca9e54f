// Runs the models that models/generate.py wrote (see models/model.py) in a LocalSession and compares:
//   model_runner ROOT [PART_OF_A_NAME] [STEPS]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npy.h"
#include "run_folders.h"
#include "tutti/core/file_system.h"
#include "tutti/graph/graph_def.h"
#include "tutti/ops/op_table.h"
#include "tutti/runtime/local_session.h"

namespace tutti::interop {
namespace {

constexpr std::chrono::seconds kStepTimeout{120};
// Relative to TensorFlow's loss.
constexpr double kLossLimit = 1e-4;
// What rounding alone makes of gradients, where TensorFlow with and without oneDNN happens to take the same way.
constexpr double kGradientFloor = 1e-5;
constexpr int kAveraged = 5;  // losses at either end of the training

struct Model {
  std::vector<NodeName> init;
  std::vector<NodeName> train;
  Feeds feeds;
  TensorName loss;
  std::vector<TensorName> gradients;
  std::vector<std::string> gradient_files;        // TensorFlow's with oneDNN
  std::vector<std::string> other_gradient_files;  // and without
  std::vector<double> losses;                     // TensorFlow's, before the first steps
  double own_difference = 0;                      // between TensorFlow's gradients with and without oneDNN
  double fall = 1;
};

std::string read(const std::string& path) { return read_file(local_file_system(), path).value_or_throw(); }

template <typename Name>
std::vector<Name> names(const nlohmann::json& list) {
  std::vector<Name> result;
  for (const auto& name : list) result.emplace_back(name.get<std::string>());
  return result;
}

std::vector<std::string> paths(const std::string& folder, const nlohmann::json& files) {
  std::vector<std::string> result;
  for (const auto& file : files) result.push_back(str_cat(folder, "/", file.get<std::string>()));
  return result;
}

Model load_model(const std::string& folder) {
  const nlohmann::json json = nlohmann::json::parse(read(folder + "/model.json"));
  Model m{.init = names<NodeName>(json.at("init")),
          .train = names<NodeName>(json.at("train")),
          .loss = TensorName(json.at("loss").get<std::string>()),
          .gradients = names<TensorName>(json.at("gradients")),
          .losses = json.at("losses"),
          .own_difference = json.at("own_difference"),
          .fall = json.at("fall")};
  m.gradient_files = paths(folder, json.at("gradient_files"));
  m.other_gradient_files = paths(folder, json.at("other_gradient_files"));
  for (const auto& [name, file] : json.at("feeds").items()) {
    m.feeds.emplace_back(name, parse_npy(read(str_cat(folder, "/", file.get<std::string>()))).value_or_throw());
  }
  return m;
}

// Of all gradients together, relative to the norm of those in `files`.
double distance_to(const std::vector<std::string>& files, const Model& m, const std::vector<Tensor>& got) {
  double difference = 0, expected = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Tensor want = parse_npy(read(files.at(i))).value_or_throw();
    if (got[i].dtype() != DType::kFloat || want.dtype() != DType::kFloat || got[i].shape() != want.shape()) {
      throw_error(internal_error(m.gradients.at(i).str(), ": ", got[i].shape(), ", expected ", want.shape()));
    }
    for (std::int64_t k = 0; k < want.num_elements(); ++k) {
      const double w = want.data<float>()[k], d = got[i].data<float>()[k] - w;
      difference += d * d;
      expected += w * w;
    }
  }
  return std::sqrt(difference / expected);
}

// From the nearer of TensorFlow's two results.
double gradient_distance(const Model& m, const std::vector<Tensor>& got) {
  return std::min(distance_to(m.gradient_files, m, got), distance_to(m.other_gradient_files, m, got));
}

double mean_of(const std::vector<double>& values, std::size_t from, std::size_t count) {
  double sum = 0;
  for (std::size_t i = from; i < from + count; ++i) sum += values[i];
  return sum / static_cast<double>(count);
}

struct Seen {
  double loss = 0;  // largest relative distance
  double gradients = 0;
  std::vector<double> losses;  // of every step
};

Seen run_model(const Model& m, const std::string& graph_def, const PassOptions& passes, int steps) {
  Graph graph(builtin_ops());
  throw_if_error(import_graph_def(graph_def, graph));
  LocalSession session(graph, {.passes = passes});
  const RunOptions options{.timeout = kStepTimeout};
  session.run({}, {}, m.init, options);
  Seen seen;
  seen.gradients = gradient_distance(m, session.run(m.feeds, m.gradients, {}, options));
  for (int step = 0; step < steps; ++step) {
    seen.losses.push_back(session.run(m.feeds, {m.loss}, m.train, options).at(0).scalar<float>());
  }
  for (std::size_t i = 0; i < std::min(m.losses.size(), seen.losses.size()); ++i) {
    const double relative = std::abs(seen.losses[i] - m.losses[i]) / std::abs(m.losses[i]);
    if (!(relative <= seen.loss)) seen.loss = relative;  // also when it is no number
  }
  return seen;
}

bool agrees(const Model& m, const Seen& seen) {
  return seen.loss <= kLossLimit && seen.gradients <= std::max(m.own_difference, kGradientFloor);
}

constexpr PassOptions kNoPasses{.fold_constants = false,
                                .merge_common_subexpressions = false,
                                .drop_unread = false,
                                .hoist = false,
                                .open_gates = false,
                                .fuse = false,
                                .inline_functions = false};

// Runs the model as it is, for the first losses, and as the passes make it, for `steps`.
bool check(const std::filesystem::path& folder, int steps) {
  const std::string name = folder.filename();
  std::string stage = "load";
  try {
    const Model m = load_model(folder);
    const std::string graph_def = read(folder / "graph.pb");
    stage = "without passes";
    const Seen plain = run_model(m, graph_def, kNoPasses, static_cast<int>(m.losses.size()));
    stage = "with passes";
    const Seen seen = run_model(m, graph_def, {}, steps);
    const double first = mean_of(seen.losses, 0, kAveraged);
    const double last = mean_of(seen.losses, seen.losses.size() - kAveraged, kAveraged);
    const bool good = agrees(m, plain) && agrees(m, seen) && last < m.fall * first;
    std::printf(
        "%s %-20s loss %.1e, with passes %.1e; gradients %.1e, with passes %.1e (TensorFlow's own %.1e); %d steps "
        "%.3f -> %.3f\n",
        good ? "ok  " : "FAIL", name.c_str(), plain.loss, seen.loss, plain.gradients, seen.gradients, m.own_difference,
        steps, first, last);
    return good;
  } catch (const std::exception& error) {
    std::printf("FAIL %-20s %s: %s\n", name.c_str(), stage.c_str(), printable(error.what(), 500).c_str());
    return false;
  }
}

}  // namespace
}  // namespace tutti::interop

int main(int argc, char** argv) {
  const int steps = argc > 3 ? std::max(2 * tutti::interop::kAveraged, std::atoi(argv[3])) : 50;
  return tutti::interop::run_folders(argc, argv, "models: ", [steps](const std::filesystem::path& folder) {
    return tutti::interop::check(folder, steps);
  });
}
