#include "tutti/distributed/task_environment.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "tutti/core/strings.h"

namespace tutti {

Result<int> threads_from_env() {
  constexpr std::int64_t kMost = 1024;
  const char* text = std::getenv("TUTTI_THREADS");
  if (text == nullptr || *text == '\0') return 0;
  std::int64_t threads = 0;
  if (!parse_int64(text, &threads) || threads < 0 || threads > kMost) {
    return invalid_argument("TUTTI_THREADS: \"", printable(text), "\" is no number from 0 to ", kMost);
  }
  return static_cast<int>(threads);
}

Result<std::chrono::milliseconds> lease_from_env() {
  constexpr double kLongest = std::chrono::duration<double>(kLongestLease).count();
  constexpr double kShortest = std::chrono::duration<double>(kShortestLease).count();
  const char* variable = std::getenv("TUTTI_LEASE");
  if (variable == nullptr || *variable == '\0') return kDefaultLease;
  const std::string_view text = variable;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !(seconds >= kShortest && seconds <= kLongest)) {
    return invalid_argument("TUTTI_LEASE: \"", printable(text), "\" is not a number of seconds from ", kShortest,
                            " to ", kLongest);
  }
  return std::chrono::milliseconds(std::llround(1000 * seconds));
}

Result<std::chrono::milliseconds> lease_of(const ConnectOptions& options) {
  if (options.lease) return *options.lease;
  return lease_from_env();
}

SecurityOptions with_token_from_env(SecurityOptions security) {
  const char* const token = std::getenv("TUTTI_JOIN_TOKEN");
  if (security.join_token.empty() && !security.insecure && token != nullptr) security.join_token = token;
  return security;
}

std::vector<std::string> data_directories_from_env() {
  const char* const variable = std::getenv("TUTTI_DATA_DIRS");
  std::vector<std::string> directories;
  for (const std::string_view directory : str_split(variable == nullptr ? "" : variable, ':')) {
    if (!directory.empty()) directories.emplace_back(directory);
  }
  return directories;
}

Result<std::optional<ServerOptions>> server_options_from_env() {
  TUTTI_ASSIGN_OR_RETURN(const std::optional<TaskConfig> config, TaskConfig::from_env());
  if (!config || config->cluster.empty()) return std::optional<ServerOptions>();
  TUTTI_ASSIGN_OR_RETURN(const int threads, threads_from_env());
  ServerOptions options;
  TUTTI_ASSIGN_OR_RETURN(options.lease, lease_from_env());
  options.security = with_token_from_env({});
  options.data_directories = data_directories_from_env();
  options.cluster = config->cluster;
  options.job = config->type;
  if (!config->type.empty()) options.task = config->index;
  options.runtime.intra_op_threads = threads;
  options.runtime.inter_op_threads = threads;
  return std::optional<ServerOptions>(std::move(options));
}

}  // namespace tutti
