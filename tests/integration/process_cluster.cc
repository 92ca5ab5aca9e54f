#include "tests/integration/process_cluster.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>

#include "tutti/core/strings.h"

namespace tutti {
namespace {

// Of a directory that may go meanwhile, with its entries.
void for_each_entry(const std::string& directory, const std::function<void(const std::filesystem::path&)>& use) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    use(at->path());
  }
}

int count_entries(const std::string& directory) {
  int count = 0;
  for_each_entry(directory, [&](const std::filesystem::path&) { ++count; });
  return count;
}

int count_lines(const std::string& file) {
  std::ifstream in(file);
  return static_cast<int>(std::count(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>(), '\n'));
}

// "socket:[123]" of each open file.
std::set<std::string> socket_numbers(pid_t process) {
  std::set<std::string> numbers;
  std::error_code error;
  for (std::filesystem::directory_iterator at(str_cat("/proc/", process, "/fd"), error), end; !error && at != end;
       at.increment(error)) {
    std::error_code gone;
    const std::string to = std::filesystem::read_symlink(at->path(), gone).string();
    if (!gone && to.starts_with("socket:[")) numbers.insert(to.substr(8, to.size() - 9));
  }
  return numbers;
}

// Names in the abstract namespace, of the sockets with these numbers or of all.
std::set<std::string> abstract_sockets_of(const std::optional<std::set<std::string>>& numbers) {
  std::set<std::string> names;
  std::ifstream in("/proc/net/unix");
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::vector<std::string> field;
    for (std::string one; fields >> one;) field.push_back(one);
    if (field.size() < 8 || !field[7].starts_with("@")) continue;
    if (!numbers || numbers->contains(field[6])) names.insert(field[7]);
  }
  return names;
}

}  // namespace

std::vector<std::string> tutti_command(const std::string& command, const std::vector<std::string>& flags) {
  std::vector<std::string> words = {TUTTI_PROGRAM, command};
  words.insert(words.end(), flags.begin(), flags.end());
  return words;
}

std::vector<std::string> server_command(const std::vector<std::string>& flags) {
  return tutti_command("server", flags);
}

ProcessCluster::ProcessCluster(int ps, int workers, std::vector<std::string> flags)
    : ports_(ps + workers), flags_(std::move(flags)) {
  for (int i = 0; i < ps + workers; ++i) {
    const bool is_ps = i < ps;
    spec_.set(is_ps ? "ps" : "worker", is_ps ? i : i - ps, str_cat("127.0.0.1:", ports_[i]));
  }
}

void ProcessCluster::start(const std::string& job, int index, const std::vector<std::string>& flags) {
  const auto key = std::pair(job, index);
  children_.erase(key);
  std::vector<std::string> all = task_flags(job, index);
  all.insert(all.end(), flags.begin(), flags.end());
  ChildProcess child(server_command(all), {"TF_CONFIG"});
  ASSERT_NE(child.wait_for_line("listening on"), "") << child.output();
  children_.emplace(key, std::move(child));
}

void ProcessCluster::start_all() {
  for (const auto& [job, tasks] : spec_.tasks()) {
    for (const auto& [index, address] : tasks) start(job, index);
  }
}

std::string ProcessCluster::target(const std::string& job, int index) const {
  return "grpc://" + spec_.task_address(job, index).value_or_throw();
}

int ProcessCluster::port(const std::string& job, int index) const {
  const std::string target = this->target(job, index);
  return std::atoi(target.substr(target.rfind(':') + 1).c_str());
}

std::vector<std::string> ProcessCluster::task_flags(const std::string& job, int index) const {
  std::vector<std::string> flags = {"--ps_hosts=" + hosts("ps"), "--worker_hosts=" + hosts("worker"),
                                    "--job_name=" + job, str_cat("--task_index=", index)};
  flags.insert(flags.end(), flags_.begin(), flags_.end());
  return flags;
}

std::string ProcessCluster::hosts(const std::string& job) const {
  std::vector<std::string> list;
  if (const auto tasks = spec_.job_tasks(job); tasks.ok()) {
    for (const auto& address : *tasks) list.push_back(*address);
  }
  return str_join(list, ",");
}

ConnectOptions within(std::chrono::milliseconds limit) {
  ConnectOptions options;
  options.operation_timeout = limit;
  return options;
}

std::string ProcessCounts::to_string() const {
  std::string names;
  for (const auto& [name, count] : threads_by_name) names += str_cat(names.empty() ? "" : ", ", count, " ", name);
  return str_cat(threads, " threads (", names, "), ", files, " files, ", mappings, " mappings, ", resident_bytes >> 20,
                 " MiB");
}

ProcessCounts process_counts(pid_t process) {
  const std::string directory = str_cat("/proc/", process, "/");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  std::ifstream(directory + "statm") >> total >> resident;
  ProcessCounts counts{.files = count_entries(directory + "fd"),
                       .mappings = count_lines(directory + "maps"),
                       .resident_bytes = resident * sysconf(_SC_PAGESIZE)};
  for_each_entry(directory + "task", [&](const std::filesystem::path& thread) {
    std::string name;
    std::ifstream in(thread / "comm");
    std::getline(in, name);
    ++counts.threads;
    ++counts.threads_by_name[name];
  });
  return counts;
}

std::set<std::string> abstract_sockets(pid_t process) { return abstract_sockets_of(socket_numbers(process)); }

std::set<std::string> abstract_sockets() { return abstract_sockets_of(std::nullopt); }

int stress_factor() {
  const char* text = std::getenv("TUTTI_STRESS");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

}  // namespace tutti
