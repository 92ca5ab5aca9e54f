// Answers that are taken part by part, several parts at a time: a single large message is read by one thread, then
// copied by one, and gRPC knows none over 2 GiB.
//
//   1. Every call says that its caller can do so: metadata kPartsKey. TensorFlow's clients do not, its servers do not
//      mind.
//   2. A server keeps an answer of kPartsFrom bytes or more. Instead of it the caller gets its outline, the sizes of
//      its pieces, and in the trailing metadata kPartsKey a name for it that nobody can guess.
//   3. The caller asks for each part with kPartMethod and puts the bytes where they belong as they come.
//   4. The server lets go of it when the caller says that it has all parts or gave up, or with the first call of
//      anybody after nobody had asked for a part for kKeptFor. Until then a part may be asked for again.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/allocator.h"
#include "tutti/core/clock.h"
#include "tutti/core/mutex.h"
#include "tutti/core/payload.h"
#include "tutti/core/status.h"

namespace tutti::rpc_internal {

inline constexpr char kPartsKey[] = "tutti-parts";
inline constexpr char kPartMethod[] = "/tutti.Transport/Part";
inline constexpr std::size_t kPartsFrom = std::size_t{4} << 20;
inline constexpr std::size_t kPartBytes = std::size_t{2} << 20;
inline constexpr std::chrono::seconds kKeptFor{30};

// A request of kPartMethod, and the one that says that no part is wanted any more.
std::string part_request(std::string_view name, std::uint64_t part);
std::string drop_request(std::string_view name);

// What a server keeps. Thread-safe.
class KeptAnswers {
 public:
  // Up to `most_bytes` for one connection; one of more than `most_whole`, which cannot be sent otherwise, may be kept
  // alone.
  KeptAnswers(std::size_t most_bytes, std::size_t most_whole) : most_bytes_(most_bytes), most_whole_(most_whole) {}

  // For `task`, which asked over `connection`. Its name; empty: too much is kept for that already. `while_kept` is held
  // as long.
  std::string keep(const Payload& answer, const std::string& task, const std::string& connection, TimePoint now,
                   std::shared_ptr<void> while_kept = nullptr);
  // What the request asks for; nothing for a drop_request. kInvalidArgument for what neither function has made;
  // kUnavailable when the answer is not kept, no longer or for another task.
  Result<Payload> take(const Payload& request, const std::string& task, TimePoint now);
  void drop(std::string_view name);
  // Drops those that nobody has asked for in time.
  void forget_old(TimePoint now);
  bool empty();
  void clear();

 private:
  struct Kept {
    std::shared_ptr<const Payload> answer;
    std::string task;
    std::string connection;
    TimePoint touched;
    std::shared_ptr<void> while_kept;
  };
  using Map = std::map<std::string, Kept, std::less<>>;
  std::size_t bytes_for(const std::string& connection) const TUTTI_REQUIRES(mu_);
  // The values are to be dropped without the lock.
  Kept remove(Map::iterator at) TUTTI_REQUIRES(mu_);

  const std::size_t most_bytes_;
  const std::size_t most_whole_;
  Mutex mu_;
  Map kept_ TUTTI_GUARDED_BY(mu_);
};

// The sizes of an answer's pieces, neighbours that are small as one.
Payload outline_of(const Payload& answer);

// An answer that its caller puts together. Large pieces get memory of their own, aligned as a tensor's.
class GatheredAnswer {
 public:
  // kDataLoss for what outline_of did not make; kResourceExhausted for more than `most_bytes`, or than there are.
  static Result<GatheredAnswer> create(const Payload& outline, std::size_t most_bytes);

  std::uint64_t num_parts() const;
  // Different parts may be put at the same time. kDataLoss for a part of another size.
  Status put(std::uint64_t part, const Payload& bytes);
  // REQUIRES: all parts were put.
  Payload answer() const;

 private:
  std::vector<BufferPtr> pieces_;
  std::size_t bytes_ = 0;
};

}  // namespace tutti::rpc_internal
