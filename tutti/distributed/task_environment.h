// What the environment tells a task of a cluster.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tutti/distributed/server.h"

namespace tutti {

// TUTTI_THREADS: threads that the task computes with. 0, one a core, when it is not set; kInvalidArgument for what is
// no number from 0 to 1024.
Result<int> threads_from_env();

// TUTTI_LEASE: ServerOptions::lease in seconds. kDefaultLease when it is not set; kInvalidArgument for anything but a
// number from 0.5 to a million.
Result<std::chrono::milliseconds> lease_from_env();

// `options.lease`, else lease_from_env().
Result<std::chrono::milliseconds> lease_of(const ConnectOptions& options);

// `security` with the join token that TUTTI_JOIN_TOKEN says, where it has none of its own and is not insecure.
SecurityOptions with_token_from_env(SecurityOptions security);

// TUTTI_DATA_DIRS: ServerOptions::data_directories, separated by colons. None when it is not set.
std::vector<std::string> data_directories_from_env();

// Cluster, job and task as TF_CONFIG names them, threads as TUTTI_THREADS, the lease as TUTTI_LEASE, the join token as
// TUTTI_JOIN_TOKEN, data directories as TUTTI_DATA_DIRS; what `tutti run`
// tells the programs that it starts. Empty when TF_CONFIG is not set or names no cluster. An evaluator is outside of
// the cluster: its options have no place in it, and no server can be started with them.
Result<std::optional<ServerOptions>> server_options_from_env();

}  // namespace tutti
