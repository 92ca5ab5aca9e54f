// Runs the cases that generate_cases.py wrote (see case.py) in a LocalSession and compares:
//   interop_runner build/interop/cases [part of a name]
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npy.h"
#include "run_folders.h"
#include "tutti/core/file_system.h"
#include "tutti/graph/gradients.h"
#include "tutti/graph/graph_def.h"
#include "tutti/ops/op_table.h"
#include "tutti/runtime/local_session.h"

namespace tutti::interop {
namespace {

constexpr std::chrono::seconds kStepTimeout{60};

using Arrays = std::map<std::string, Tensor>;  // by tensor name

struct Case {
  int steps = 0;
  double tolerance = 0;
  std::vector<NodeName> init;
  std::vector<NodeName> train;
  Arrays feeds;
  Arrays each;
  Arrays final;
  std::vector<std::string> ys;
  Arrays gradients;  // by x
};

std::string read(const std::string& path) { return read_file(local_file_system(), path).value_or_throw(); }

Arrays load_arrays(const std::string& folder, const nlohmann::json& files) {
  Arrays arrays;
  for (const auto& [name, file] : files.items()) {
    arrays[name] = parse_npy(read(str_cat(folder, "/", file.get<std::string>()))).value_or_throw();
  }
  return arrays;
}

std::vector<NodeName> node_names(const nlohmann::json& list) {
  std::vector<NodeName> names;
  for (const auto& name : list) names.emplace_back(name.get<std::string>());
  return names;
}

Case load_case(const std::string& folder) {
  const nlohmann::json json = nlohmann::json::parse(read(folder + "/case.json"));
  Case c;
  c.steps = json.at("steps");
  c.tolerance = json.at("tolerance");
  c.init = node_names(json.at("init"));
  c.train = node_names(json.at("train"));
  c.feeds = load_arrays(folder, json.at("feeds"));
  c.each = load_arrays(folder, json.at("each"));
  c.final = load_arrays(folder, json.at("final"));
  c.ys = json.at("gradients").at("ys");
  c.gradients = load_arrays(folder, json.at("gradients").at("xs"));
  return c;
}

// Row t of an array with a leading dimension, without it.
Tensor row(const Tensor& array, int t) { return array.slice(t, t + 1).reshaped(array.shape().without_dim(0)); }

// How far one tensor was from what was expected of it: in its worst step, in times its usual size over all of them. (A
// value that crosses zero is small in a step, and its rounding is not.)
class Distance {
 public:
  void add(const Tensor& got, const Tensor& expected, bool exact) {
    if (got.dtype() != expected.dtype() || got.shape() != expected.shape()) {
      throw_error(internal_error("got ", dtype_name(got.dtype()), " ", got.shape(), ", expected ",
                                 dtype_name(expected.dtype()), " ", expected.shape()));
    }
    if (exact || !is_floating(got.dtype())) {
      if (!bitwise_equal(got, expected)) {
        throw_error(internal_error("got ", got.to_string(), ", expected the bits of ", expected.to_string()));
      }
      return;
    }
    if (got.dtype() == DType::kFloat) return add_step<float>(got, expected);
    if (got.dtype() == DType::kDouble) return add_step<double>(got, expected);
    throw_error(unimplemented("comparing ", dtype_name(got.dtype())));
  }
  double relative() const {
    if (worst_ == 0) return 0;
    return std::sqrt(worst_ / (expected_ > 0 ? expected_ / steps_ : 1));
  }

 private:
  template <typename T>
  void add_step(const Tensor& got, const Tensor& expected) {
    double difference = 0;
    for (std::int64_t i = 0; i < got.num_elements(); ++i) {
      const double want = static_cast<double>(expected.data<T>()[i]);
      const double d = static_cast<double>(got.data<T>()[i]) - want;
      difference += d * d;
      expected_ += want * want;
    }
    worst_ = std::isnan(worst_) ? worst_ : std::max(difference, worst_);  // NaN stays
    ++steps_;
  }
  double worst_ = 0;     // squares of the differences of one step, summed
  double expected_ = 0;  // squares of the values of all steps, summed
  int steps_ = 0;
};

std::vector<TensorName> names_of(const Arrays& arrays) {
  std::vector<TensorName> names;
  for (const auto& [name, array] : arrays) names.emplace_back(name);
  return names;
}

// The largest relative distance; throws Error on a failure to run or a value of another kind.
double run_case(const Case& c, Session& session) {
  const RunOptions options{.timeout = kStepTimeout};
  if (!c.init.empty()) session.run({}, {}, c.init, options);
  std::map<std::string, Distance> distances;
  const auto compare = [&](const Arrays& expected, const std::vector<Tensor>& got, int step) {
    std::size_t i = 0;
    for (const auto& [name, array] : expected) {
      try {
        distances[name].add(got.at(i++), step < 0 ? array : row(array, step), c.tolerance == 0);
      } catch (const Error& error) {
        throw_error(error.status().with_context(str_cat(name, step < 0 ? " at the end" : str_cat(" at step ", step))));
      }
    }
  };
  for (int step = 0; step < c.steps; ++step) {
    Feeds feeds;
    for (const auto& [name, array] : c.feeds) feeds.emplace_back(name, row(array, step));
    compare(c.each, session.run(feeds, names_of(c.each), c.train, options), step);
  }
  if (!c.final.empty()) compare(c.final, session.run({}, names_of(c.final), {}, options), -1);
  double worst = 0;
  for (const auto& [name, distance] : distances) {
    if (std::isnan(distance.relative())) return distance.relative();
    worst = std::max(worst, distance.relative());
  }
  return worst;
}

constexpr PassOptions kNoPasses{.fold_constants = false,
                                .merge_common_subexpressions = false,
                                .drop_unread = false,
                                .hoist = false,
                                .open_gates = false,
                                .fuse = false,
                                .inline_functions = false};

// Differentiates, and expects of the gradients what the case does of those by x.
void add_gradients(Graph& graph, Case& c) {
  if (c.gradients.empty()) return;
  std::vector<Output> ys;
  std::vector<Output> xs;
  for (const std::string& y : c.ys) ys.push_back(graph.find_output(y).value_or_throw());
  for (const auto& [x, array] : c.gradients) xs.push_back(graph.find_output(x).value_or_throw());
  const std::vector<Gradient> found = gradients(ys, xs);
  std::size_t i = 0;
  for (const auto& [x, array] : c.gradients) {
    if (!found[i]) throw_error(internal_error("no gradient with respect to ", x));
    c.each[found[i++].dense().name()] = array;
  }
}

double run_with(Case c, const std::string& graph_def, const PassOptions& passes) {
  Graph graph(builtin_ops());
  throw_if_error(import_graph_def(graph_def, graph));
  add_gradients(graph, c);
  LocalSession session(graph, {.passes = passes});
  return run_case(c, session);
}

// Runs the case as it is and as the passes make it.
bool check(const std::filesystem::path& folder) {
  const std::string name = folder.filename();
  std::string stage = "load";
  try {
    const Case c = load_case(folder);
    const std::string graph_def = read(folder / "graph.pb");
    stage = "without passes";
    const double plain = run_with(c, graph_def, kNoPasses);
    stage = "with passes";
    const double optimised = run_with(c, graph_def, {});
    const bool good = plain <= c.tolerance && optimised <= c.tolerance;
    std::printf("%s %-44s %.1e, with passes %.1e (limit %.0e)\n", good ? "ok  " : "FAIL", name.c_str(), plain,
                optimised, c.tolerance);
    return good;
  } catch (const std::exception& error) {
    std::printf("FAIL %-44s %s: %s\n", name.c_str(), stage.c_str(), printable(error.what(), 500).c_str());
    return false;
  }
}

}  // namespace
}  // namespace tutti::interop

int main(int argc, char** argv) { return tutti::interop::run_folders(argc, argv, "", tutti::interop::check); }
