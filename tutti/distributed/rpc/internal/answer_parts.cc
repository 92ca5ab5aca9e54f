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

std::size_t parts_of(std::size_t bytes) { return (bytes + kPartBytes - 1) / kPartBytes; }

}  // namespace

std::string part_request(std::string_view name, std::uint64_t part) { return str_cat(name, " ", part); }

std::string KeptAnswers::keep(const Payload& answer, const std::string& task, TimePoint now) {
  std::vector<Kept> dropped;  // without the lock
  MutexLock lock(mu_);
  forget_old(now, dropped);
  if (answer.size() > most_bytes_ - bytes_) return {};
  std::string name = random_hex();
  const std::size_t parts = parts_of(answer.size());
  kept_.emplace(name, Kept{answer, task, std::vector<bool>(parts), parts, now});
  bytes_ += answer.size();
  return name;
}

Result<Payload> KeptAnswers::take(std::string_view request, const std::string& task, TimePoint now) {
  const std::size_t space = request.find(' ');
  std::int64_t part = -1;
  if (space == request.npos || !parse_int64(request.substr(space + 1), &part)) {
    return invalid_argument("a request for part of an answer that has no part: '", printable(request, 100), "'");
  }
  std::vector<Kept> dropped;
  MutexLock lock(mu_);
  forget_old(now, dropped);
  const auto found = kept_.find(request.substr(0, space));
  if (found == kept_.end() || found->second.task != task) {
    return unavailable("the answer is not kept any more: it was taken, or nobody has asked for it in time");
  }
  Kept& kept = found->second;
  if (part < 0 || static_cast<std::size_t>(part) >= kept.taken.size() || kept.taken[part]) {
    return invalid_argument("part ", part, " of an answer of ", kept.taken.size(), " parts, or taken before");
  }
  const std::size_t begin = static_cast<std::size_t>(part) * kPartBytes;
  Payload bytes = kept.answer.slice(begin, std::min(begin + kPartBytes, kept.answer.size()));
  kept.taken[part] = true;
  kept.touched = now;
  if (--kept.left == 0) {
    bytes_ -= kept.answer.size();
    dropped.push_back(std::move(kept));
    kept_.erase(found);
  }
  return bytes;
}

bool KeptAnswers::empty(TimePoint now) {
  std::vector<Kept> dropped;
  MutexLock lock(mu_);
  forget_old(now, dropped);
  return kept_.empty();
}

void KeptAnswers::forget_old(TimePoint now, std::vector<Kept>& dropped) {
  for (auto it = kept_.begin(); it != kept_.end();) {
    if (now < it->second.touched + kKeptFor) {
      ++it;
      continue;
    }
    bytes_ -= it->second.answer.size();
    dropped.push_back(std::move(it->second));
    it = kept_.erase(it);
  }
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
  const std::string raw = outline.flatten();
  std::vector<std::uint64_t> sizes(raw.size() / sizeof(std::uint64_t));
  if (sizes.empty() || raw.size() % sizeof(std::uint64_t) != 0) {
    return invalid_argument("an outline of an answer with ", raw.size(), " bytes");
  }
  std::memcpy(sizes.data(), raw.data(), raw.size());
  GatheredAnswer gathered;
  for (const std::uint64_t bytes : sizes) {
    if (bytes == 0 || bytes > SIZE_MAX - gathered.bytes_) return invalid_argument("an outline with a piece of ", bytes);
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

Status GatheredAnswer::put(std::uint64_t part, const Payload& bytes) {
  std::size_t to = part * kPartBytes;  // in the answer
  if (part >= num_parts() || bytes.size() != std::min(kPartBytes, bytes_ - to)) {
    return invalid_argument("part ", part, " of an answer of ", bytes_, " bytes came with ", bytes.size());
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
