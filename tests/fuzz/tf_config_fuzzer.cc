// libFuzzer target: bytes are the text of TF_CONFIG, and of a cluster. Anything may fail, with a status; what is read
// must survive being written and read again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tutti/distributed/cluster_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto check = [](const ClusterSpec& spec) {
    const auto again = ClusterSpec::from_json(spec.to_json());
    TUTTI_CHECK(again.ok() && *again == spec, spec.to_string());
    for (const auto& job : spec.jobs()) TUTTI_CHECK(spec.job_tasks(job).ok(), job);
  };
  if (const auto config = TaskConfig::from_json(text); config.ok()) check(config->cluster);
  if (const auto spec = ClusterSpec::from_json(text); spec.ok()) check(*spec);
  return 0;
}
