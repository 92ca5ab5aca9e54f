// Gradients of the ops that call functions. Each rewrites the forward node in place, so that it also returns
// what the backward functions need, and adds a node of the same kind that calls those.
#pragma once

#include "tutti/graph/gradients.h"

namespace tutti::internal {

void if_grad(GradContext& context);
void case_grad(GradContext& context);
// PartitionedCall and its stateful sibling, and functions called by their own name.
void call_grad(GradContext& context);
void while_grad(GradContext& context);

}  // namespace tutti::internal
