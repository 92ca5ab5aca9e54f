#include "tutti/core/process_identity.h"

#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <vector>

#include "tutti/core/strings.h"

namespace tutti {
namespace {

std::string read_all(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// This boot of this host, and the namespace in which process numbers mean something.
std::string host_identity() {
  std::array<char, 64> name{};
  const ssize_t length = readlink("/proc/self/ns/pid", name.data(), name.size());
  const std::string space = length > 0 ? std::string(name.data(), static_cast<std::size_t>(length)) : "";
  return str_cat(str_strip(read_all("/proc/sys/kernel/random/boot_id")), "/", space);
}

// In clock ticks since the boot: field 22 of /proc/PID/stat, counted from behind the name, which may have spaces.
// Empty: no such process.
std::string start_time(std::int64_t process) {
  const std::string stat = read_all(str_cat("/proc/", process, "/stat"));
  const std::size_t name_end = stat.rfind(')');
  if (name_end == stat.npos) return "";
  const std::vector<std::string_view> fields = str_split(std::string_view(stat).substr(name_end + 1), ' ');
  constexpr std::size_t kStartTime = 20;  // the first field is the blank before the state
  return fields.size() > kStartTime ? std::string(fields[kStartTime]) : "";
}

}  // namespace

std::string process_identity(std::int64_t process) {
  return str_cat(host_identity(), " ", process, " ", start_time(process));
}

std::string process_identity() { return process_identity(getpid()); }

ProcessLife process_life(const std::string& identity) {
  const std::vector<std::string_view> parts = str_split(identity, ' ');
  std::int64_t process = 0;
  if (parts.size() != 3 || parts[0] != host_identity() || !parse_int64(parts[1], &process) || process < 1) {
    return ProcessLife::kElsewhere;
  }
  const std::string stat = read_all(str_cat("/proc/", process, "/stat"));
  const std::size_t name_end = stat.rfind(')');
  if (name_end == stat.npos) {
    // There is none, or the system hides other users' processes.
    const bool none = kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
    return none ? ProcessLife::kGone : ProcessLife::kElsewhere;
  }
  const bool zombie = stat.compare(name_end, 3, ") Z") == 0;  // which has a start time, too
  return !zombie && start_time(process) == parts[2] ? ProcessLife::kLives : ProcessLife::kGone;
}

std::string describe_this_process() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  gethostname(host.data(), host.size() - 1);
  return str_cat("process ", getpid(), " on ", host.data());
}

}  // namespace tutti
