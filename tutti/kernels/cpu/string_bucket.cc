// Strings to numbers of buckets.
#include <vector>

#include "tutti/kernels/cpu/string_hash.h"
#include "tutti/kernels/cpu/strings.h"

namespace tutti::cpu {
namespace {

template <typename Hash>
Status fill_buckets(KernelContext& ctx, std::int64_t buckets, Hash&& hash) {
  const Tensor& in = ctx.input(0);
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, in.shape()));
  for (std::int64_t i = 0; i < in.num_elements(); ++i) {
    const std::uint64_t value = hash(in.data<std::string>()[i]);
    out->data<std::int64_t>()[i] = static_cast<std::int64_t>(value % static_cast<std::uint64_t>(buckets));
  }
  return {};
}

template <std::uint64_t (*kHash)(std::string_view)>
class HashBucket : public Kernel {
 public:
  explicit HashBucket(const KernelInit& init) : buckets_(init.attr<std::int64_t>("num_buckets")) {}
  Status compute(KernelContext& ctx) override { return fill_buckets(ctx, buckets_, kHash); }

 private:
  const std::int64_t buckets_;  // >= 1: the op says so
};

class HashBucketStrong : public Kernel {
 public:
  HashBucketStrong(std::int64_t buckets, std::int64_t key0, std::int64_t key1)
      : buckets_(buckets), key0_(static_cast<std::uint64_t>(key0)), key1_(static_cast<std::uint64_t>(key1)) {}
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    const auto& key = init.attr<std::vector<std::int64_t>>("key");
    if (key.size() != 2) return invalid_argument("Key must have 2 elements, got ", key.size());
    return std::unique_ptr<Kernel>(
        std::make_unique<HashBucketStrong>(init.attr<std::int64_t>("num_buckets"), key[0], key[1]));
  }
  Status compute(KernelContext& ctx) override {
    return fill_buckets(ctx, buckets_, [this](std::string_view text) { return sip_hash(key0_, key1_, text); });
  }

 private:
  const std::int64_t buckets_;
  const std::uint64_t key0_;
  const std::uint64_t key1_;
};

}  // namespace

KernelFactory hash_bucket_fast_kernel() { return kernel_of<HashBucket<fingerprint64>>(); }
KernelFactory hash_bucket_strong_kernel() { return kernel_of<HashBucketStrong>(); }
KernelFactory hash_bucket_kernel() { return kernel_of<HashBucket<murmur_hash64>>(); }

}  // namespace tutti::cpu
