// libFuzzer target: the first byte says which message the rest is, the second where it is cut into pieces; it is
// decoded, and when that works encoded and decoded again, which must give the same bytes. Anything may be refused, with
// a status; nothing may crash, read out of bounds, or take memory that the bytes do not account for.
#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

#include "tests/distributed/message_samples.h"
#include "tutti/distributed/codec.h"

// What one message may make of nothing is a gigabyte: refused here, so that the fuzzer does not die of it.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=256:detect_leaks=0";
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);  // it would say what is wrong with every input
  int kinds = 0;
  tutti::testing::each_sample([&](const auto&) { ++kinds; });
  if (kinds > 256) std::abort();  // more than the first byte can say
  return 0;
}

namespace tutti {
namespace {

Payload in_pieces(std::string_view bytes, std::size_t piece) {
  Payload payload;
  for (; bytes.size() > piece; bytes.remove_prefix(piece)) payload.append(std::string(bytes.substr(0, piece)));
  payload.append(std::string(bytes));
  return payload;
}

template <typename Message>
void check(std::string_view bytes, std::size_t piece) {
  Message message;
  if (!decode(in_pieces(bytes, piece), message).ok()) return;
  const Result<Payload> first = encode(message);
  if (!first.ok()) return;
  if (!decode(*first, message).ok()) std::abort();
  const Result<Payload> second = encode(message);
  if (!second.ok() || first->flatten() != second->flatten()) std::abort();
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t pieces[] = {1, 2, 7, 64, 300, 1000, 4096, size};
  const std::size_t piece = pieces[data[1] % std::size(pieces)];
  int kind = 0;
  tutti::testing::each_sample([&]<typename Message>(const Message&) {
    if (kind++ == data[0]) tutti::check<Message>(bytes, piece);
  });
  return 0;
}
