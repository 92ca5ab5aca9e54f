// tutti run: a whole cluster as processes of this machine.
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "launch_plan.h"
#include "launcher.h"
#include "process.h"
#include "reserved_ports.h"

extern char** environ;

namespace tutti::tools {
namespace {

constexpr const char* kRunFooter =
    R"(tutti run [OPTIONS] PROGRAM [ARGUMENTS]

PROGRAM is started once for each task, with the rest of the words as its arguments. The environment variable
TF_CONFIG tells it the cluster and which task it is; what it does as a ps, chief, worker or evaluator is its own affair
(Server::start and join, for a ps). A name without a slash is looked for in PATH and beside tutti itself.

Every line of output says whose it is: "[worker 0] step 100". A task that fails is started again, under the same index
and address, --restarts times each; a task that has none left fails the job. When the chief and all workers have ended
with exit code 0 the other tasks are ended, and the job's exit code is 0; else it is that of the first task that failed
for good (128 and the number, when a signal ended it). A ps that ends before the workers, with exit code 0, is started
again too; without restarts the workers get --patience to end as well, before the job fails.

The tasks share a secret (TUTTI_JOIN_TOKEN), drawn for the job, without which no other user of the machine can use them.

Ctrl-C and SIGTERM end all tasks and what these have started; a second one kills them. Nothing is left behind, also when
tutti itself is killed.

Example: the asynchronous, then the synchronous training of examples/distributed_mnist.cc
  tutti run --ps 2 --workers 2 distributed_mnist
  tutti run --ps 2 --workers 2 --restarts 3 distributed_mnist --is_sync=true --checkpoint_dir=model
TensorFlow's program of that name, on its own servers
  tutti run --ps 2 --workers 2 --host-flags python3 distributed_mnist.py)";

struct RunFlags {
  LaunchOptions launch;
  int restarts = 0;
  double grace_seconds = 10;
  double patience_seconds = 60;
  bool insecure = false;
};

std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  return all;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

bool coloured() {
  const char* refused = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 && isatty(STDERR_FILENO) != 0 && (refused == nullptr || *refused == '\0');
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(1000 * seconds)));
}

// The join token that the user has set, else a random one.
std::string draw_join_token() {
  const char* const given = std::getenv("TUTTI_JOIN_TOKEN");
  if (given != nullptr && *given != '\0') return given;
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw_error(internal_error("no random numbers for the join token: ", std::strerror(errno)));
  }
  std::string token;
  for (const unsigned char byte : bytes) {
    token += "0123456789abcdef"[byte >> 4];
    token += "0123456789abcdef"[byte & 15];
  }
  return token;
}

// They travel in one variable, separated by colons.
void check_data_directories(const RunFlags& flags) {
  if (!flags.insecure && !flags.launch.data_directories.empty()) {
    throw_error(invalid_argument("--data-dir needs --insecure: with the job's secret nobody else runs graphs here"));
  }
  for (const std::string& directory : flags.launch.data_directories) {
    if (directory.empty() || directory.find(':') != directory.npos) {
      throw_error(invalid_argument("--data-dir=\"", printable(directory), "\": it must have a name without a colon"));
    }
  }
}

int run_job(RunFlags& flags) {
  try {
    std::error_code error;
    if (!flags.insecure) flags.launch.join_token = draw_join_token();
    check_data_directories(flags);
    if (flags.launch.data_directories.empty()) flags.launch.data_directories = {std::filesystem::current_path()};
    const LaunchPlace place = {.environment = environment(),
                               .tutti = std::filesystem::read_symlink("/proc/self/exe", error),
                               .cores = usable_cores()};
    const int ports = std::clamp(num_addresses(flags.launch), 0, 2001);
    const ReservedPorts reserved = ReservedPorts::reserve(ports).value_or_throw();
    const std::vector<TaskPlan> plans = plan_tasks(flags.launch, reserved.ports(), place).value_or_throw();
    LauncherOptions options;
    options.supervisor.restarts = flags.restarts;
    options.supervisor.grace = milliseconds_of(flags.grace_seconds);
    options.supervisor.patience = milliseconds_of(flags.patience_seconds);
    options.coloured = coloured();
    return launch(plans, options);
  } catch (const Error& error) {
    std::fprintf(stderr, "tutti run: %s\n", error.status().message().c_str());
    if (error.code() == Code::kNotFound) return 127;
    return error.code() == Code::kInvalidArgument ? 2 : 1;
  }
}

void add_run_flags(CLI::App& command, RunFlags& flags) {
  constexpr int kMost = 1000;
  LaunchOptions& launch = flags.launch;
  command.add_option("--ps", launch.ps, "Parameter servers")->check(CLI::Range(0, kMost))->capture_default_str();
  command.add_option("--workers", launch.workers, "Workers")->check(CLI::Range(0, kMost))->capture_default_str();
  command.add_flag("--chief", launch.chief, "A task of the job chief; without it worker 0 is the chief");
  command.add_flag("--evaluator", launch.evaluator, "A task of the job evaluator, ended when the workers are done");
  command.add_option("--restarts", flags.restarts, "How often each task may be started again")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command
      .add_option("--threads", launch.threads,
                  "What TUTTI_THREADS tells each task; 0: this machine's cores are shared out")
      ->check(CLI::Range(0, 1024));
  command
      .add_option(
          "--lease", launch.lease_seconds,
          "Seconds that a task may be silent (stopped, swapped out) before the others take it for dead, told by "
          "TUTTI_LEASE; 30 when not given")
      ->check(CLI::Range(0.5, 1e6));
  command.add_option("--grace", flags.grace_seconds, "Seconds between SIGTERM and SIGKILL")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command
      .add_option("--patience", flags.patience_seconds,
                  "Seconds that the workers get to end when a ps has ended by itself, for good; 0: no limit")
      ->check(CLI::Range(0.0, 1e7))
      ->capture_default_str();
  command.add_flag("--insecure", flags.insecure,
                   "No join token: any user of this machine can run graphs on the job's tasks. TensorFlow's clients "
                   "need this");
  command
      .add_option("--data-dir", launch.data_directories,
                  "With --insecure: a directory that graphs may read and write, the current one when not given; may be "
                  "given again")
      ->allow_extra_args(false);
  command.add_flag("--ps-server", launch.ps_server, "Parameter servers run `tutti server` instead of PROGRAM");
  command.add_flag("--host-flags", launch.host_flags,
                   "Adds --ps_hosts, --worker_hosts, --job_name and --task_index to PROGRAM's arguments");
}

}  // namespace

void add_run_command(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("run", "Runs a program as a cluster of processes on this machine");
  const auto flags = std::make_shared<RunFlags>();
  add_run_flags(*command, *flags);
  command->prefix_command();
  command->footer(kRunFooter);
  command->callback([command, flags] {
    flags->launch.command = command->remaining();
    const bool missing = flags->launch.command.empty();
    if (missing || flags->launch.command[0].starts_with("-")) {
      throw CLI::ParseError(missing ? "no PROGRAM" : "unknown option " + flags->launch.command[0],
                            CLI::ExitCodes::InvalidError);
    }
    throw ExitCode{run_guarded([&] { return run_job(*flags); })};
  });
}

}  // namespace tutti::tools
