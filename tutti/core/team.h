// Threads that help with the pieces of one loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "tutti/core/mutex.h"

namespace tutti {

// Which loops a team's callers cut into pieces.
enum class LoopCut {
  kWhereItPays,       // long ones
  kWhereverPossible,  // short ones, too: how tests reach what threads do without large inputs
};

// A loop cut into pieces is run by its caller, and by the team's helpers as far as they are free. A piece is taken
// only by a thread that is ready to run it: a helper that the system does not schedule, on cores shared with other
// processes, costs nothing. Thread-safe: several callers share the helpers. A piece may call run itself.
class Team {
 public:
  // Up to `size` threads work on a loop, the caller among them; the helpers start with the first loop that has a use
  // for them. REQUIRES: size >= 1.
  explicit Team(int size, LoopCut cut = LoopCut::kWhereItPays);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // A team of the caller alone.
  static Team& alone();

  int size() const { return size_; }

  // The least work of a piece, of which `paying` is worth a thread.
  std::int64_t grain(std::int64_t paying) const { return cut_ == LoopCut::kWhereverPossible ? 1 : paying; }

  // Calls piece(i) once for each i in [0, pieces) and returns when all have ended. `piece` must neither throw nor wait
  // for another piece.
  template <typename Piece>
  void run(int pieces, const Piece& piece) {
    if (pieces <= 1 || size_ == 1) {
      for (int i = 0; i < pieces; ++i) piece(i);
      return;
    }
    run_shared(
        pieces, [](const void* p, int i) { (*static_cast<const Piece*>(p))(i); }, &piece);
  }

 private:
  struct Loop;
  struct Patience;
  void run_shared(int pieces, void (*call)(const void*, int), const void* piece);
  void start_helpers() TUTTI_REQUIRES(mu_);
  void work_on(Loop& loop);
  void leave(Loop& loop);
  void help();
  Loop* wait_for_loop(Patience& patience);
  // A loop with pieces left, whose helpers now count one more, or null.
  Loop* enter_loop() TUTTI_REQUIRES(mu_);

  const int size_;
  const LoopCut cut_;
  Mutex mu_;
  CondVar loop_added_;
  CondVar helpers_left_;
  std::vector<Loop*> loops_ TUTTI_GUARDED_BY(mu_);  // oldest first
  std::vector<std::thread> helpers_ TUTTI_GUARDED_BY(mu_);
  int sleeping_ TUTTI_GUARDED_BY(mu_) = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> open_loops_{0};  // those with pieces left: what spinning helpers watch
};

}  // namespace tutti
