#include "tutti/distributed/rpc/internal/answer_parts.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tutti/core/strings.h"
#include "tutti/distributed/rpc/internal/call_token.h"

namespace tutti::rpc_internal {
namespace {

// Smaller pieces are the fields around tensors, or small tensors.
constexpr std::size_t kOwnPieceFrom = std::size_t{64} << 10;

constexpr std::string_view kDrop = " drop";
constexpr std::size_t kMostRequestBytes = 100;

std::size_t parts_of(std::size_t bytes) { return (bytes + kPartBytes - 1) / kPartBytes; }

}  // namespace

std::string part_request(std::string_view name, std::uint64_t part) { return str_cat(name, " ", part); }
std::string drop_request(std::string_view name) { return str_cat(name, kDrop); }

std::size_t KeptAnswers::bytes_for(const std::string& connection) const {
  std::size_t bytes = 0;
  for (const auto& [name, kept] : kept_) {
    if (kept.connection == connection) bytes += kept.answer->size();
  }
  return bytes;
}

std::string KeptAnswers::keep(const Payload& answer, const std::string& task, const std::string& connection,
                              TimePoint now, std::shared_ptr<void> while_kept) {
  forget_old(now);
  MutexLock lock(mu_);
  const std::size_t before = bytes_for(connection);
  const bool may_be_alone = before == 0 && answer.size() > most_whole_;
  if (before + answer.size() > most_bytes_ && !may_be_alone) return {};
  std::string name = random_hex();
  kept_.emplace(name, Kept{std::make_shared<const Payload>(answer), task, connection, now, std::move(while_kept)});
  return name;
}

Result<Payload> KeptAnswers::take(const Payload& asked, const std::string& task, TimePoint now) {
  // What is longer is not even copied.
  const std::string request = asked.size() <= kMostRequestBytes ? asked.flatten() : "";
  const std::size_t space = request.find(' ');
  const bool drops = space != request.npos && request.substr(space) == kDrop;
  std::int64_t part = 0;
  if (space == request.npos || (!drops && !parse_int64(request.substr(space + 1), &part))) {
    return invalid_argument("a request of ", asked.size(), " bytes for no part of an answer: '", printable(request),
                            "'");
  }
  std::shared_ptr<const Payload> answer;
  Kept dropped;  // without the lock
  {
    MutexLock lock(mu_);
    const auto found = kept_.find(request.substr(0, space));
    if (found == kept_.end() || found->second.task != task) {
      return unavailable("the answer is not kept: the server was restarted, or nobody has asked for it in time");
    }
    answer = found->second.answer;
    found->second.touched = now;
    if (drops) dropped = remove(found);
  }
  if (drops) return Payload();
  const std::size_t parts = parts_of(answer->size());
  if (part < 0 || static_cast<std::size_t>(part) >= parts) {
    return invalid_argument("part ", part, " of an answer of ", parts, " parts");
  }
  const std::size_t begin = static_cast<std::size_t>(part) * kPartBytes;
  return answer->slice(begin, std::min(begin + kPartBytes, answer->size()));
}

void KeptAnswers::drop(std::string_view name) {
  Kept dropped;
  MutexLock lock(mu_);
  if (const auto found = kept_.find(name); found != kept_.end()) dropped = remove(found);
}

void KeptAnswers::forget_old(TimePoint now) {
  std::vector<Kept> dropped;
  MutexLock lock(mu_);
  for (auto it = kept_.begin(); it != kept_.end();) {
    const auto at = it++;
    if (now >= at->second.touched + kKeptFor) dropped.push_back(remove(at));
  }
}

bool KeptAnswers::empty() {
  MutexLock lock(mu_);
  return kept_.empty();
}

void KeptAnswers::clear() {
  Map dropped;
  MutexLock lock(mu_);
  dropped.swap(kept_);
}

KeptAnswers::Kept KeptAnswers::remove(Map::iterator at) {
  Kept removed = std::move(at->second);
  kept_.erase(at);
  return removed;
}

Payload outline_of(const Payload& answer) {
  std::vector<std::uint64_t> sizes;
  bool joins = false;  // the last one is small
  for (const Payload::Piece& piece : answer.pieces()) {
    const bool small = piece.bytes.size() < kOwnPieceFrom;
    if (joins && small) {
      sizes.back() += piece.bytes.size();
    } else {
      sizes.push_back(piece.bytes.size());
    }
    joins = small;
  }
  return Payload(std::string(reinterpret_cast<const char*>(sizes.data()), sizes.size() * sizeof(sizes[0])));
}

Result<GatheredAnswer> GatheredAnswer::create(const Payload& outline, std::size_t most_bytes) {
  // Every second piece is not small.
  const std::size_t most_pieces = 2 * (most_bytes / kOwnPieceFrom) + 1;
  std::vector<std::uint64_t> sizes(std::min(outline.size() / sizeof(std::uint64_t), most_pieces));
  if (sizes.empty() || outline.size() != sizes.size() * sizeof(std::uint64_t)) {
    return data_loss("an outline, of ", outline.size(), " bytes, of an answer of at most ", most_bytes);
  }
  std::memcpy(sizes.data(), outline.flatten().data(), outline.size());
  GatheredAnswer gathered;
  bool small = false;  // the piece before
  for (const std::uint64_t bytes : sizes) {
    const bool joins = std::exchange(small, bytes < kOwnPieceFrom) && small;
    if (bytes == 0 || joins || bytes > SIZE_MAX - gathered.bytes_) {
      return data_loss("an outline of an answer with a piece of ", bytes, " bytes");
    }
    gathered.bytes_ += bytes;
  }
  if (gathered.bytes_ > most_bytes) {
    return resource_exhausted("an answer of ", gathered.bytes_, " bytes; at most ", most_bytes,
                              " are taken (of a server: --max-message-bytes)");
  }
  for (const std::uint64_t bytes : sizes) {
    BufferPtr buffer = message_allocator().allocate(bytes);
    if (!buffer) return resource_exhausted("no memory for ", bytes, " of ", gathered.bytes_, " bytes of an answer");
    gathered.pieces_.push_back(std::move(buffer));
  }
  return gathered;
}

std::uint64_t GatheredAnswer::num_parts() const { return parts_of(bytes_); }

Status GatheredAnswer::put(std::uint64_t part, const Payload& bytes) {
  std::size_t to = part * kPartBytes;  // in the answer
  if (part >= num_parts() || bytes.size() != std::min(kPartBytes, bytes_ - to)) {
    return data_loss("part ", part, " of an answer of ", bytes_, " bytes came with ", bytes.size());
  }
  auto piece = pieces_.begin();
  while (to >= (*piece)->bytes()) to -= (*piece++)->bytes();
  for (const Payload::Piece& from : bytes.pieces()) {
    for (std::span<const std::byte> left = from.bytes; !left.empty();) {
      while (to == (*piece)->bytes()) {
        ++piece;
        to = 0;
      }
      const std::size_t now = std::min(left.size(), (*piece)->bytes() - to);
      std::memcpy(static_cast<std::byte*>((*piece)->data()) + to, left.data(), now);
      left = left.subspan(now);
      to += now;
    }
  }
  return {};
}

Payload GatheredAnswer::answer() const {
  Payload payload;
  for (const BufferPtr& piece : pieces_) {
    payload.append({static_cast<const std::byte*>(piece->data()), piece->bytes()}, piece);
  }
  return payload;
}

}  // namespace tutti::rpc_internal
