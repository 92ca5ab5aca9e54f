// tutti server: one task of a cluster.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "tutti/tutti.h"

namespace tutti::tools {
namespace {

constexpr const char* kServerFooter =
    R"(The cluster comes from --ps_hosts and --worker_hosts, from --cluster, or from the environment variable TF_CONFIG.
The server prints a line "... listening on grpc://host:port" and runs until SIGTERM or SIGINT.

Example: a parameter server and two workers on this machine, each in a terminal of its own
  tutti server --ps_hosts=localhost:2222 --worker_hosts=localhost:2223,localhost:2224 --job_name=ps --task_index=0
  tutti server --ps_hosts=localhost:2222 --worker_hosts=localhost:2223,localhost:2224 --job_name=worker --task_index=0
  tutti server --ps_hosts=localhost:2222 --worker_hosts=localhost:2223,localhost:2224 --job_name=worker --task_index=1
Clients then use grpc://localhost:2223, also TensorFlow's: tf.compat.v1.Session("grpc://localhost:2223").

Off the loopback a server wants certificates (tutti certs) and a join token, or --insecure.)";

struct ServerFlags {
  std::string ps_hosts;
  std::string worker_hosts;
  std::string cluster;
  std::string job_name;
  int task_index = -1;
  std::string listen;
  int threads = 0;
  std::vector<std::string> data_directories;
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
  std::string token_file;
  bool insecure = false;
  bool no_shared_memory = false;
  std::size_t memory_limit_bytes = 0;
  int idle_limit_seconds = 3600;
  double lease_seconds = 0;
  int handshake_seconds = 10;
  int message_seconds = 60;
  ServerLimits limits;
  std::string log_level = "info";
};

void add_limit_flags(CLI::App& command, ServerFlags& flags) {
  ServerLimits& limits = flags.limits;
  const auto bytes = [&command](const char* name, std::size_t& limit, const char* help) {
    command.add_option(name, limit, help)->transform(CLI::AsSizeValue(false))->check(CLI::PositiveNumber);
  };
  bytes("--max-message-bytes", limits.message_bytes,
        "Of one message: 1000000, 512MB; a request over gRPC never has more than 2GB");
  bytes("--max-connection-bytes", limits.connection_bytes, "Of one connection's requests that are not yet answered");
  bytes("--max-step-bytes", limits.step_bytes, "Of one step's values that were sent and not yet received");
  bytes("--memory-limit", flags.memory_limit_bytes,
        "Of all that this process holds, 8GB: graphs that want more fail; when not given, 80 % of what the machine or "
        "the control group has");
  command.add_option("--max-calls", limits.calls_per_connection, "Calls of one connection at a time")
      ->check(CLI::Range(1, 1'000'000));
  command
      .add_option("--max-calls-per-second", limits.calls_per_second,
                  "Calls of one host over gRPC, after as many at once; 0: any number")
      ->check(CLI::Range(0, 1'000'000'000));
  command.add_option("--max-sessions", limits.sessions, "Sessions of this master at a time; 0: any number")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--handshake-limit", flags.handshake_seconds,
                  "Seconds that a peer may take from its first byte to being ready to call")
      ->check(CLI::Range(1, 86'400));
  command
      .add_option("--message-limit", flags.message_seconds,
                  "Seconds in which a message over gRPC that has begun must go on, by 4 KB for each of them")
      ->check(CLI::Range(1, 86'400));
}

void add_server_flags(CLI::App& command, ServerFlags& flags) {
  command.add_option("--ps_hosts,--ps-hosts", flags.ps_hosts, "Parameter servers: host:port,host:port");
  command.add_option("--worker_hosts,--worker-hosts", flags.worker_hosts, "Workers: host:port,host:port");
  command.add_option("--cluster", flags.cluster, R"(The cluster as JSON: {"ps": ["host:port"], "worker": [...]})");
  command.add_option("--job_name,--job-name", flags.job_name, "This task's job; may be left out when there is one");
  command
      .add_option("--task_index,--task-index", flags.task_index,
                  "This task's index in the job; may be left out when there is one")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--listen", flags.listen, "Where to listen (host:port) when not at the task's own address");
  command.add_option("--threads", flags.threads, "Threads that compute; 0: what TUTTI_THREADS says, else one a core")
      ->check(CLI::Range(0, 1024));
  command.add_option(
      "--data-dir", flags.data_directories,
      "A directory that graphs may read and write; may be given again. Else what TUTTI_DATA_DIRS says; else, "
      "on the loopback, every directory, and elsewhere none");
  command.add_option("--ca", flags.ca_file, "PEM file with the authority whose certificates are believed");
  command.add_option("--cert", flags.certificate_file, "PEM file with this task's certificate");
  command.add_option("--key", flags.key_file, "PEM file with its key");
  command.add_option("--join-token-file", flags.token_file,
                     "File with the cluster's secret; else the environment variable TUTTI_JOIN_TOKEN");
  command.add_flag("--insecure", flags.insecure,
                   "No encryption and no token: whoever reaches the port runs graphs here");
  command.add_flag("--no-shared-memory", flags.no_shared_memory, "Speak gRPC also with tasks of the same host");
  command
      .add_option(
          "--idle-limit", flags.idle_limit_seconds,
          "Seconds without a call after which a session of a TensorFlow client is closed, 3600 when not given; 0: "
          "never")
      ->check(CLI::Range(0, 1'000'000'000));
  command
      .add_option("--lease", flags.lease_seconds,
                  "Seconds that another task or a client may be silent before it is taken for dead; else what "
                  "TUTTI_LEASE says, else 30")
      ->check(CLI::Range(0.5, 1e6));
  add_limit_flags(command, flags);
  command
      .add_option("--log-level", flags.log_level,
                  "What is said: debug, info, warning, or error: only why the server ends")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
}

// Throws Error with what makes no sense in the flags.
void read_cluster(const ServerFlags& flags, ServerOptions& options) {
  const bool hosts = !flags.ps_hosts.empty() || !flags.worker_hosts.empty();
  if (hosts && !flags.cluster.empty()) {
    throw_error(invalid_argument("--cluster and --ps_hosts or --worker_hosts say the same thing: give one"));
  }
  options.job = flags.job_name;
  options.task = flags.task_index;
  if (hosts) {
    options.cluster = ClusterSpec::from_flags(flags.ps_hosts, flags.worker_hosts).value_or_throw();
    return;
  }
  if (!flags.cluster.empty()) {
    options.cluster = ClusterSpec::from_json(flags.cluster).value_or_throw();
    return;
  }
  const std::optional<TaskConfig> config = TaskConfig::from_env().value_or_throw();
  if (!config || config->cluster.empty()) {
    throw_error(invalid_argument("no cluster: give --ps_hosts and --worker_hosts, --cluster, or TF_CONFIG"));
  }
  options.cluster = config->cluster;
  if (options.job.empty()) {
    options.job = config->type;
    if (options.task < 0 && !config->type.empty()) options.task = config->index;
  }
}

std::string read_token(const ServerFlags& flags) {
  if (!flags.token_file.empty()) {
    const std::string text = read_file(local_file_system(), flags.token_file).value_or_throw();
    const std::string token(str_strip(text));
    if (token.empty()) throw_error(invalid_argument("--join-token-file: ", flags.token_file, " is empty"));
    return token;
  }
  return "";  // the server takes TUTTI_JOIN_TOKEN
}

LogLevel parse_level(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  return name == "warning" ? LogLevel::kWarning : LogLevel::kError;
}

ServerOptions server_options(const ServerFlags& flags) {
  ServerOptions options;
  read_cluster(flags, options);
  options.listen = flags.listen;
  const int threads = flags.threads > 0 ? flags.threads : threads_from_env().value_or_throw();
  options.runtime.intra_op_threads = threads;
  options.runtime.inter_op_threads = threads;
  options.security.ca_file = flags.ca_file;
  options.security.certificate_file = flags.certificate_file;
  options.security.key_file = flags.key_file;
  options.security.join_token = read_token(flags);
  options.security.insecure = flags.insecure;
  options.data_directories = flags.data_directories.empty() ? data_directories_from_env() : flags.data_directories;
  options.session_idle_limit = std::chrono::seconds(flags.idle_limit_seconds);
  options.lease = flags.lease_seconds > 0
                      ? std::chrono::milliseconds(static_cast<std::int64_t>(1000 * flags.lease_seconds))
                      : lease_from_env().value_or_throw();
  options.runtime.memory_limit_bytes = flags.memory_limit_bytes;
  options.limits = flags.limits;
  options.limits.handshake = std::chrono::seconds(flags.handshake_seconds);
  options.limits.message = std::chrono::seconds(flags.message_seconds);
  options.shared_memory = !flags.no_shared_memory;
  options.log = log_to_stderr(parse_level(flags.log_level));
  return options;
}

// The signals that end a server, taken by nobody but the waiting main thread: to be called before there are others.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    signal(SIGPIPE, SIG_IGN);
  }
  // After it, a second signal ends the program at once.
  void wait() {
    int number = 0;
    while (sigwait(&set_, &number) != 0) {
    }
    pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
  }

 private:
  sigset_t set_;
};

int run_server(const ServerFlags& flags) {
  EndSignals signals;
  try {
    auto started = Server::start(server_options(flags));
    const std::unique_ptr<Server> server = std::move(started).value_or_throw();
    std::printf("%s listening on %s\n", server->task().c_str(), server->target().c_str());
    std::fflush(stdout);
    signals.wait();
    // What was abandoned would still use what an ordinary end of the process destroys.
    if (!server->stop()) std::_Exit(0);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "tutti server: %s\n", error.status().message().c_str());
    return error.code() == Code::kInvalidArgument ? 2 : 1;
  }
}

}  // namespace

void add_server_command(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("server", "Runs one task of a cluster: a master and a worker");
  const auto flags = std::make_shared<ServerFlags>();
  add_server_flags(*command, *flags);
  command->footer(kServerFooter);
  command->callback([flags] { throw ExitCode{run_server(*flags)}; });
}

}  // namespace tutti::tools
