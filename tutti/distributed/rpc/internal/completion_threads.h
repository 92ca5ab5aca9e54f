// Threads that wait on a gRPC completion queue.
#pragma once

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "tutti/core/mutex.h"
#include "tutti/core/thread_pool.h"

namespace tutti::rpc_internal {

// What a completion queue hands back. Tags given to gRPC are CompletionTag pointers, made with `as_tag`.
class CompletionTag {
 public:
  virtual ~CompletionTag() = default;
  // Short, never blocks. True: work() is to be run next, once; else the tag may be gone when this has returned.
  virtual bool arrived(bool ok) = 0;
  // May take as long as a kernel.
  virtual void work() = 0;
  // Whether the work is to copy some megabytes at most. Asked before work().
  virtual bool brief() const { return false; }

  // To be called last before the tag goes to gRPC, for every operation.
  void* as_tag() {
    given_.store(true, std::memory_order_release);
    return this;
  }
  // Called first when it has come back.
  void returned() { static_cast<void>(given_.load(std::memory_order_acquire)); }

 private:
  // What was written before as_tag() is seen after returned(). gRPC's own queue orders that as well, in a way that a
  // sanitizer sees only where gRPC is built with it.
  std::atomic<bool> given_{false};
};

// One thread waits on the queue and runs what it finds, without handing anything over: with two of them, gRPC would
// wake the other each time that one leaves the queue, several times a call. What may take long must not keep the queue
// from being looked at. So another thread looks at the first one every millisecond while there is traffic, and takes
// its place when it is still at the same work. For a while after that, after several had to wait for a work, and when
// several works run at once, the place is given to another before each work. When there is no other, a spare thread
// gets the work; there are as many.
//
// gRPC lets any thread that waits on any queue of a process read from all of its sockets, and then wake the one whose
// queue it was. So what can share a queue does: a server and the clients beside it.
//
// Where cores are few, a thread that joins those who copy takes its core from them or from who is at the other end:
// there brief works do not make the place be given away.
//
// Who sends a large answer spends as much on waking its reader, for every 64 KB, as on the bytes. So while such an
// answer crosses, the threads at both queues do not sleep, unless nothing happens for a while or somebody else wants
// the core.
class CompletionThreads {
 public:
  // `queue` must outlive it. REQUIRES: threads >= 1.
  CompletionThreads(const std::string& name, int threads, grpc::CompletionQueue& queue);
  grpc::CompletionQueue& queue() { return queue_; }
  // Shuts the queue down, empties it and joins. REQUIRES: nothing starts an operation on the queue any more.
  ~CompletionThreads();

  // A large answer comes or goes from now on, until the last holder of what this gives lets go of it, which is before
  // this goes.
  std::shared_ptr<void> large_answer() TUTTI_EXCLUDES(mu_);
  // A piece of one has come, or was asked for.
  void large_answer_moved() TUTTI_EXCLUDES(mu_);

 private:
  using Time = std::chrono::steady_clock::time_point;

  void run();
  // Waits until the place at the queue is the caller's. 0: the queue is over.
  std::uint64_t follow();
  void lead(std::uint64_t place);
  // As Next(). `waited`: before, that the last work was short; then, whether it had to wait.
  bool next(void*& found, bool& ok, bool& waited);
  // Whether there is something, looking for it awake.
  bool look(void*& found, bool& ok) TUTTI_EXCLUDES(mu_);
  // Whether the caller does the work itself. `late`: it had to wait for the one before. `keeps`: does not give the
  // place away.
  bool begin_work(std::uint64_t place, bool late, bool keeps);
  // Whether the place is still, or again, the caller's.
  bool end_work(std::uint64_t place);
  bool take_from_busy(std::uint64_t seen) TUTTI_REQUIRES(mu_);

  grpc::CompletionQueue& queue_;
  const bool few_cores_;
  ThreadPool spare_;
  std::atomic<int> large_answers_{0};  // a hint, protects nothing

  Mutex mu_;
  CondVar changed_;
  bool over_ TUTTI_GUARDED_BY(mu_) = false;
  std::uint64_t places_ TUTTI_GUARDED_BY(mu_) = 0;  // given so far
  std::uint64_t leader_ TUTTI_GUARDED_BY(mu_) = 0;  // the place at the queue; 0: nobody's
  bool leader_works_ TUTTI_GUARDED_BY(mu_) = false;
  std::uint64_t works_ TUTTI_GUARDED_BY(mu_) = 0;  // begun so far
  int working_ TUTTI_GUARDED_BY(mu_) = 0;          // threads of ours that do
  int idle_ TUTTI_GUARDED_BY(mu_) = 0;             // those that follow
  bool watched_ TUTTI_GUARDED_BY(mu_) = false;     // one of those looks at the leader
  int lates_ TUTTI_GUARDED_BY(mu_) = 0;            // works in a row that waited for the one before
  Time crowded_until_ TUTTI_GUARDED_BY(mu_){};     // the place is given away before each work
  Time moved_ TUTTI_GUARDED_BY(mu_){};             // when a large answer did last
  Time rest_until_ TUTTI_GUARDED_BY(mu_){};        // nobody looks awake: the core is wanted by others

  ThreadPool threads_;  // last: joined before the spare ones
};

}  // namespace tutti::rpc_internal
