#include "tutti/runtime/executor.h"

#include <algorithm>
#include <utility>

#include "tutti/runtime/internal/node_table.h"

namespace tutti {
namespace {

// Segments die as a whole when a receive brings a dead value; a node that runs after dead ones all the same needs the
// executor that follows every token.
bool needs_frames(const internal::NodeTable& table) {
  auto any = [&table](Trait trait) {
    return std::any_of(table.items.begin(), table.items.end(),
                       [trait](const internal::NodeItem& item) { return item.node->op().has(trait); });
  };
  return table.has_control_flow || (any(kIgnoresDeadControl) && any(kTransfer));
}

}  // namespace

Result<std::unique_ptr<Executable>> compile(FunctionBody body, const CompileOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(internal::NodeTable table, internal::NodeTable::create(std::move(body), options));
  if (needs_frames(table)) return internal::compile_frames(std::move(table), options);
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
