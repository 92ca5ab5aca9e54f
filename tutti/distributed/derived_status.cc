#include "tutti/distributed/derived_status.h"

namespace tutti {
namespace {

constexpr std::string_view kMark = "[_Derived_]";

}  // namespace

Status make_derived(const Status& status) {
  if (status.ok() || is_derived(status)) return status;
  return Status(status.code(), str_cat(kMark, status.message()));
}

bool is_derived(const Status& status) { return status.message().find(kMark) != std::string::npos; }

Status without_derived_mark(const Status& status) {
  std::string message = status.message();
  const std::size_t at = message.find(kMark);
  if (at == std::string::npos) return status;
  message.erase(at, kMark.size());
  return Status(status.code(), std::move(message));
}

Status derived_from(std::string_view task, const Status& status) {
  if (status.ok() || is_derived(status)) return status;
  return Status(status.code(), str_cat(kMark, "From ", task, ":\n", status.message()));
}

}  // namespace tutti
