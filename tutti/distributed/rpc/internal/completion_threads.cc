#include "tutti/distributed/rpc/internal/completion_threads.h"

#include <grpc/grpc.h>

namespace tutti::rpc_internal {
namespace {

// gRPC takes itself down with its last object, and waits up to 10 s for a poller of its own then. Held from its first
// use on, it never does.
void keep_grpc() {
  static const bool kept = [] {
    grpc_init();
    return true;
  }();
  static_cast<void>(kept);
}

}  // namespace

CompletionThreads::CompletionThreads(const std::string& name, int threads, grpc::CompletionQueue& queue)
    : queue_(queue), waiting_(threads), spare_(name + "-spare", threads), threads_(name, threads) {
  keep_grpc();
  for (int i = 0; i < threads; ++i) threads_.schedule([this] { run(); });
}

CompletionThreads::~CompletionThreads() { queue_.Shutdown(); }

void CompletionThreads::run() {
  void* found = nullptr;
  bool ok = false;
  while (queue_.Next(&found, &ok)) {
    // Of threads that leave the queue together, each sees a different count, and the last one sees 1.
    const bool others_wait = waiting_.fetch_sub(1) > 1;
    auto* tag = static_cast<CompletionTag*>(found);
    if (tag->arrived(ok)) {
      if (others_wait) {
        tag->work();
      } else {
        spare_.schedule([tag] { tag->work(); });
      }
    }
    waiting_.fetch_add(1);
  }
}

}  // namespace tutti::rpc_internal
