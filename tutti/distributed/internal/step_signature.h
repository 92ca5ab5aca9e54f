// What a client's names ask for, brought into one order.
#pragma once

#include <string>
#include <vector>

#include "tutti/core/status.h"
#include "tutti/distributed/messages.h"
#include "tutti/graph/subgraph.h"

namespace tutti::internal {

// The same for every order and repetition in which a client may name things.
struct StepSignature {
  Signature names;           // sorted; tensors as "node:k"; each once
  std::vector<int> feeds;    // for each feed as asked, its index in names.feeds
  std::vector<int> fetches;  // likewise
};

// kInvalidArgument: nothing to fetch or run, a tensor fed twice, or fed and fetched.
Result<StepSignature> canonical(const Signature& asked);

// Tells signatures apart, whatever bytes their names hold.
std::string cache_key(const Signature& signature);
// The same of what a request asks for.
std::string cache_key(const RunStepRequest& request);

// "x" is "x:0".
std::string tensor_name(const std::string& name);

}  // namespace tutti::internal
