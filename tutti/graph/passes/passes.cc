#include "tutti/graph/passes/passes.h"

#include "tutti/graph/subgraph.h"

namespace tutti {

// Inlining shows more to the rest; effects that nobody needs go before anything is made of them; folding makes equal
// constants, which merging then finds; fusing comes last because nothing looks into what it makes.
Status run_passes(FunctionBody& body, const PassOptions& options, ConstantEvaluator& evaluator) {
  if (options.inline_functions) TUTTI_RETURN_IF_ERROR(inline_functions(body));
  prune(body);
  TUTTI_RETURN_IF_ERROR(lower_control_flow(body, Lowering::kUnneededEffects));
  prune(body);
  if (options.fold_constants) TUTTI_RETURN_IF_ERROR(fold_constants(body, evaluator, options.max_folded_bytes));
  if (options.merge_common_subexpressions) TUTTI_RETURN_IF_ERROR(merge_common_subexpressions(body));
  if (options.drop_unread) TUTTI_RETURN_IF_ERROR(drop_unread(body));
  if (options.hoist) TUTTI_RETURN_IF_ERROR(hoist(body));
  if (options.open_gates) TUTTI_RETURN_IF_ERROR(open_gates(body));
  if (options.fuse) TUTTI_RETURN_IF_ERROR(fuse(body));
  prune(body);
  return {};
}

}  // namespace tutti
