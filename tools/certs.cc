// tutti certs: certificates for the tasks of a cluster.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "tutti/tutti.h"

namespace tutti::tools {
namespace {

constexpr const char* kCertsFooter =
    R"(Writes ca.pem and, for each task, ps-0.pem and ps-0.key. Give each task ca.pem and its own two files;
keep ca.key away from them.

Example:
  tutti certs --cluster '{"ps": ["ps0:2222"], "worker": ["w0:2222", "w1:2222"]}' --out certs
  tutti server ... --job_name=ps --task_index=0 --ca certs/ca.pem --cert certs/ps-0.pem --key certs/ps-0.key)";

struct CertsFlags {
  std::string cluster;
  std::string ps_hosts;
  std::string worker_hosts;
  std::vector<std::string> hosts;
  std::string out;
  int days = 365;
};

int make_certificates(const CertsFlags& flags) {
  try {
    const ClusterSpec cluster = flags.cluster.empty()
                                    ? ClusterSpec::from_flags(flags.ps_hosts, flags.worker_hosts).value_or_throw()
                                    : ClusterSpec::from_json(flags.cluster).value_or_throw();
    std::vector<std::string> tasks;
    for (const auto& [task, address] : task_addresses(cluster)) tasks.push_back(task);
    if (tasks.empty()) throw_error(invalid_argument("no cluster: give --cluster, or --ps_hosts and --worker_hosts"));
    throw_if_error(make_cluster_certificates(flags.out, tasks, flags.hosts, flags.days));
    std::printf("%zu certificates in %s\n", tasks.size(), flags.out.c_str());
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "tutti certs: %s\n", error.status().message().c_str());
    return error.code() == Code::kInvalidArgument ? 2 : 1;
  }
}

}  // namespace

void add_certs_command(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("certs", "Makes certificates for the tasks of a cluster");
  const auto flags = std::make_shared<CertsFlags>();
  command->add_option("--cluster", flags->cluster, R"(The cluster as JSON: {"ps": ["host:port"], "worker": [...]})");
  command->add_option("--ps_hosts,--ps-hosts", flags->ps_hosts, "Parameter servers: host:port,host:port");
  command->add_option("--worker_hosts,--worker-hosts", flags->worker_hosts, "Workers: host:port,host:port");
  command->add_option("--host", flags->hosts, "A name or address that other programs may know the tasks by");
  command->add_option("--out", flags->out, "The directory for the files")->required();
  command->add_option("--days", flags->days, "How long they are valid")->check(CLI::Range(1, 36500));
  command->footer(kCertsFooter);
  command->callback([flags] { throw ExitCode{make_certificates(*flags)}; });
}

}  // namespace tutti::tools
