// Threads that wait on a gRPC completion queue.
#pragma once

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <string>

#include "tutti/core/thread_pool.h"

namespace tutti::rpc_internal {

// What a completion queue hands back. Tags given to gRPC are CompletionTag pointers, made with `as_tag`.
class CompletionTag {
 public:
  // Short, never blocks. True: work() is to be run next, once; else the tag may be gone when this has returned.
  virtual bool arrived(bool ok) = 0;
  // May take as long as a kernel.
  virtual void work() = 0;
  void* as_tag() { return this; }

 protected:
  ~CompletionTag() = default;
};

// A thread runs the work of what it found itself, without handing it over, as long as another thread is left waiting
// on the queue; the last one gives work to a spare thread. So long work never keeps the queue from being looked at.
class CompletionThreads {
 public:
  // `queue` must outlive it. REQUIRES: threads >= 1.
  CompletionThreads(const std::string& name, int threads, grpc::CompletionQueue& queue);
  // Shuts the queue down, empties it and joins. REQUIRES: nothing starts an operation on the queue any more.
  ~CompletionThreads();

 private:
  void run();

  grpc::CompletionQueue& queue_;
  // Threads that wait on the queue or will before they do any work. Only the count itself matters: no other memory is
  // published by it.
  std::atomic<int> waiting_;
  ThreadPool spare_;
  ThreadPool threads_;  // last: joined before the spare ones
};

}  // namespace tutti::rpc_internal
