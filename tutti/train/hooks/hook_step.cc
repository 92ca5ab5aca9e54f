#include "tutti/train/hooks/hook_step.h"

#include "tutti/train/global_step.h"

namespace tutti {

void HookStep::find(Graph& graph, const char* hook) {
  step_ = get_global_step(graph);
  if (!step_) throw_error(failed_precondition("Global step should be created to use ", hook, "."));
}

std::int64_t HookStep::read(Session& session) const { return read_global_step(session, *step_); }

}  // namespace tutti
