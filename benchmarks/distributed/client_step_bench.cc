// Steps of Tutti's own client on a cluster, for session_bench.py.
//
//   client_step_bench empty|seed grpc://host:port
//
//   empty   a step without fetches on one task
//   seed    variables on a parameter server, a product on one worker, a second one on another
//
// Speaks the protocol of benchmarks/run (e2e/step_bench.h).
#include <memory>
#include <string>

#include "../e2e/step_bench.h"
#include "tutti/ops/builders.h"
#include "tutti/tutti.h"

using namespace tutti;

namespace {

class Steps {
 public:
  Steps(const std::string& kind, const std::string& target) {
    const Signature signature = kind == "seed" ? seed() : empty();
    Node* init = global_variables_initializer(graph_);
    session_ = connect(target, graph_).value_or_throw();
    session_->run({init});
    callable_ = session_->make_callable(signature).value_or_throw();
    fetches_ = !signature.fetches.empty();
  }

  void step() {
    const std::vector<Tensor> values = session_->run_callable(callable_, {}).value_or_throw();
    if (fetches_ && values[0].scalar<float>() != 7)
      throw Error(internal_error("the seed's graph gave ", values[0].to_string()));
  }

 private:
  Signature empty() {
    const auto scope = graph_.device_scope("/job:worker/task:0");
    return {{}, {}, {add_op(graph_, "NoOp", {}, {}, "nothing")->name()}};
  }

  Signature seed() {
    const auto ones_on_ps = [&](const char* name) {
      const auto scope = graph_.device_scope("/job:ps/task:0");
      return variable(graph_, ones(graph_, DType::kFloat, {2, 2}), name);
    };
    const Var x = ones_on_ps("x"), y = ones_on_ps("y");
    const auto product_on = [&](const char* task, Output a, Output b) {
      const auto scope = graph_.device_scope(task);
      return matmul(a, b) + x;
    };
    const Output first = product_on("/job:worker/task:0", x, y);
    return {{}, {product_on("/job:worker/task:1", first, x).name()}, {}};
  }

  Graph graph_{builtin_ops()};
  std::unique_ptr<Session> session_;
  Session::CallableId callable_ = 0;
  bool fetches_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: client_step_bench empty|seed grpc://host:port\n");
    return 2;
  }
  return bench::serve([&] {
    auto steps = std::make_shared<Steps>(argv[1], argv[2]);
    return [steps] { steps->step(); };
  });
}
