// libFuzzer target: short texts that decide where a value goes and who somebody is. The first byte says which: the key
// of a rendezvous, the names in a certificate, the proof of a call, what is asked of an answer in parts and the outline
// of one. What is understood says itself the same way again, and no proof is good that was not made with the token.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/rendezvous_key.h"
#include "tutti/distributed/rpc/internal/answer_parts.h"
#include "tutti/distributed/rpc/internal/call_token.h"
#include "tutti/distributed/rpc/internal/task_identity.h"

namespace tutti {
namespace {

void need(bool holds) {
  if (!holds) std::abort();
}

void check_key(std::string_view text) {
  const Result<RendezvousKey> key = RendezvousKey::parse(text);
  if (!key.ok()) return;
  const Result<RendezvousKey> again = RendezvousKey::parse(key->to_string());
  need(again.ok() && again->to_string() == key->to_string() && again->prefix() == key->prefix());
  need(again->send_device == key->send_device && again->recv_device == key->recv_device && again->name == key->name);
  need(again->send_incarnation == key->send_incarnation && again->frame == key->frame);
  need(again->iteration == key->iteration && key->to_string().starts_with(key->prefix()));
  (void)task_of(key->send_device);
}

// One to a line.
void check_names(std::string_view text) {
  std::vector<std::string> uris;
  for (std::size_t end = 0; end != text.npos; text.remove_prefix(end == text.npos ? 0 : end + 1)) {
    end = text.find('\n');
    uris.emplace_back(text.substr(0, end));
  }
  const Result<std::string> task = rpc_internal::task_of_uris(uris);
  if (!task.ok()) return;
  const Result<std::string> uri = rpc_internal::task_to_uri(*task);
  need(uri.ok());
  const Result<std::string> again = rpc_internal::task_of_uris({*uri});
  need(again.ok() && *again == *task);
}

void check_proof(std::string_view text) {
  constexpr char kToken[] = "a token that no input knows";
  for (const bool encrypted : {false, true}) {
    rpc_internal::TokenVerifier verifier(kToken, encrypted);
    rpc_internal::TokenSigner signer(kToken, encrypted);
    need(!verifier.check("/s/M", text).status.ok());
    signer.set_challenge(text);
    (void)signer.sign("/s/M");
    // The caller who knows it is let in, whatever came before.
    signer.set_challenge(verifier.check("/s/M", "").challenge);
    need(verifier.check("/s/M", signer.sign("/s/M")).status.ok());
    // A proof that was made for one call, and changed at the place that the first byte says.
    std::string changed = signer.sign("/s/M");
    if (text.empty()) continue;
    char& changed_at = changed[static_cast<unsigned char>(text.front()) % changed.size()];
    if (changed_at == text.back()) continue;
    changed_at = text.back();
    (void)verifier.check("/s/M", changed);
  }
}

void check_parts(std::string_view text) {
  rpc_internal::KeptAnswers kept(1 << 20, 1 << 20);
  const Payload answer(std::string(1000, 'a'));
  const std::string name = kept.keep(answer, "/job:ps", "connection", TimePoint());
  const Payload asked{std::string(text)};
  const Code code = kept.take(asked, "/job:ps", TimePoint()).status().code();
  need(code == Code::kInvalidArgument || code == Code::kUnavailable);  // nobody can guess the name
  const Result<Payload> part = kept.take(Payload(rpc_internal::part_request(name, 0)), "/job:ps", TimePoint());
  need(part.ok() && part->flatten() == answer.flatten());

  constexpr std::size_t kMostBytes = 5 << 20;
  Result<rpc_internal::GatheredAnswer> gathered = rpc_internal::GatheredAnswer::create(asked, kMostBytes);
  if (!gathered.ok()) return;
  std::size_t bytes = 0;  // as the outline says
  for (std::size_t at = 0; at < text.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t piece = 0;
    std::memcpy(&piece, text.data() + at, sizeof piece);
    bytes += piece;
  }
  need(bytes <= kMostBytes && !gathered->put(gathered->num_parts(), asked).ok());
  std::string whole(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) whole[i] = static_cast<char>(i % 251);
  for (std::uint64_t part = gathered->num_parts(); part-- > 0;) {
    const std::string its = whole.substr(part * rpc_internal::kPartBytes, rpc_internal::kPartBytes);
    need(!gathered->put(part, Payload(its + "x")).ok() && gathered->put(part, Payload(its)).ok());
  }
  need(gathered->answer().flatten() == whole);
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr void (*kChecks[])(std::string_view) = {tutti::check_key, tutti::check_names, tutti::check_proof,
                                                   tutti::check_parts};
  kChecks[data[0] % 4](text);
  return 0;
}
