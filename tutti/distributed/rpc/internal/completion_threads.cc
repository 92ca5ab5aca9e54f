#include "tutti/distributed/rpc/internal/completion_threads.h"

namespace tutti::rpc_internal {

CompletionThreads::CompletionThreads(const std::string& name, int threads, grpc::CompletionQueue& queue)
    : queue_(queue), waiting_(threads), spare_(name + "-spare", threads), threads_(name, threads) {
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
