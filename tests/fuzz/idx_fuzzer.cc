// libFuzzer target: bytes are an IDX file, compressed or not. Anything may fail, with kInvalidArgument or kDataLoss;
// what is read has no more elements than there are bytes, and is the same when the file comes compressed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tests/data/gzip_support.h"
#include "tutti/data/gzip.h"
#include "tutti/data/idx.h"

extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=256:detect_leaks=0"; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  const auto need = [](bool holds) {
    if (!holds) std::abort();
  };
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const Result<Tensor> plain = parse_idx(file);
  need(plain.ok() || plain.status().code() == Code::kInvalidArgument || plain.status().code() == Code::kDataLoss);
  if (is_gzip(file)) return 0;
  if (plain.ok()) need(plain->bytes() <= size);
  const Result<Tensor> compressed = parse_idx(testing::gzip(file));
  need(compressed.status().code() == plain.status().code());
  if (plain.ok()) need(bitwise_equal(*plain, *compressed));
  return 0;
}
