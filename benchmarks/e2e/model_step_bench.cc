// A training step of a whole model for benchmarks/run: runs the graph that TensorFlow wrote (model_graphs.py).
//
//   model_step_bench MODEL FOLDER THREADS
//
// Speaks the protocol of peers.py (step_bench.h).
#include <cmath>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "step_bench.h"
#include "tests/interop/npy.h"
#include "tutti/core/file_system.h"
#include "tutti/graph/graph_def.h"
#include "tutti/ops/op_table.h"
#include "tutti/runtime/local_session.h"

using namespace tutti;

namespace {

std::string read(const std::string& path) { return read_file(local_file_system(), path).value_or_throw(); }

class Model {
 public:
  Model(const std::string& folder, int threads) {
    const nlohmann::json json = nlohmann::json::parse(read(folder + "/model.json"));
    throw_if_error(import_graph_def(read(folder + "/graph.pb"), graph_));
    SessionOptions options;
    options.threads = RuntimeOptions{.intra_op_threads = threads, .inter_op_threads = threads};
    session_ = std::make_unique<LocalSession>(graph_, options);
    std::vector<std::string> names;
    for (const auto& [name, file] : json.at("feeds").items()) {
      names.emplace_back(name);
      feeds_.push_back(interop::parse_npy(read(str_cat(folder, "/", file.get<std::string>()))).value_or_throw());
    }
    std::vector<NodeName> init;
    for (const std::string& name : json.at("init").get<std::vector<std::string>>()) init.emplace_back(name);
    session_->run({}, {}, init);
    step_ = session_->make_callable({names, {json.at("loss").get<std::string>()}, json.at("train")}).value_or_throw();
  }

  float step() { return session_->run_callable(step_, feeds_).value_or_throw()[0].scalar<float>(); }

 private:
  Graph graph_{builtin_ops()};
  std::unique_ptr<LocalSession> session_;
  Session::CallableId step_ = 0;
  std::vector<Tensor> feeds_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s MODEL FOLDER THREADS\n", argv[0]);
    return 2;
  }
  return bench::serve([&] {
    auto model = std::make_shared<Model>(str_cat(argv[2], "/", argv[1]), std::atoi(argv[3]));
    return [model] {
      const float loss = model->step();
      if (!std::isfinite(loss)) throw Error(internal_error("the loss is ", loss));
    };
  });
}
