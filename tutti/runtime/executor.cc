#include "tutti/runtime/executor.h"

#include <utility>

#include "tutti/runtime/internal/node_table.h"

namespace tutti {

Result<std::unique_ptr<Executable>> compile(FunctionBody body, const CompileOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(internal::NodeTable table, internal::NodeTable::create(std::move(body), *options.kernels));
  if (table.has_control_flow) return internal::compile_frames(std::move(table), options);
  return internal::compile_segments(std::move(table), options);
}

void Executable::run(StepScope& step, std::vector<Tensor> args, Done done) const {
  if (static_cast<int>(args.size()) != num_args()) {
    return done(invalid_argument("called with ", args.size(), " arguments; there are ", num_args()), {});
  }
  start(step, std::move(args), std::move(done));
}

Status Executable::run_inline(StepScope& step, std::vector<Tensor> args, std::vector<Tensor>* results) const {
  TUTTI_CHECK(!may_block());
  Status status;
  bool called = false;
  run(step, std::move(args), [&](Status s, std::vector<Tensor> r) {
    status = std::move(s);
    *results = std::move(r);
    called = true;
  });
  TUTTI_CHECK(called, "a run that cannot block did not end inline");
  return status;
}

}  // namespace tutti
