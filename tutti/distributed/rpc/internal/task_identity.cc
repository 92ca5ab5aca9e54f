#include "tutti/distributed/rpc/internal/task_identity.h"

#include <optional>

#include "tutti/core/device_name.h"

namespace tutti::rpc_internal {
namespace {

constexpr std::string_view kPrefix = "tutti://job/";
constexpr std::string_view kTask = "/task/";

std::string uri_of(const DeviceName& name) { return str_cat(kPrefix, *name.job, kTask, *name.task); }
std::string task_of(const DeviceName& name) { return str_cat("/job:", *name.job, "/replica:0/task:", *name.task); }

// Nothing when `uri` does not name a task in exactly the form that uri_of writes.
std::optional<DeviceName> parse_uri(std::string_view uri) {
  if (!uri.starts_with(kPrefix)) return {};
  const std::string_view rest = uri.substr(kPrefix.size());
  const std::size_t slash = rest.find(kTask);
  if (slash == std::string_view::npos) return {};
  const auto name =
      DeviceName::parse(str_cat("/job:", rest.substr(0, slash), "/task:", rest.substr(slash + kTask.size())));
  if (!name.ok() || !name->job || !name->task || uri_of(*name) != uri) return {};
  return *name;
}

}  // namespace

Result<std::string> task_to_uri(std::string_view task) {
  const auto name = DeviceName::parse(task);
  if (!name.ok() || !name->job || !name->task || name->replica.value_or(0) != 0 || name->type) {
    return invalid_argument("certificate: \"", printable(task), "\" is no task such as /job:ps/replica:0/task:1");
  }
  return uri_of(*name);
}

Result<std::string> task_of_uris(const std::vector<std::string>& uris) {
  std::string task;
  for (const std::string& uri : uris) {
    const auto name = parse_uri(uri);
    if (!name) continue;
    const std::string named = task_of(*name);
    if (!task.empty() && task != named) {
      return Status(Code::kUnauthenticated, str_cat("the certificate names two tasks, ", task, " and ", named));
    }
    task = named;
  }
  if (task.empty()) {
    return Status(Code::kUnauthenticated, "the certificate names no task (no subjectAltName tutti://job/NAME/task/N)");
  }
  return task;
}

}  // namespace tutti::rpc_internal
