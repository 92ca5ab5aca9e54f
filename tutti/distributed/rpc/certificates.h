// Certificates for the tasks of a cluster.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "tutti/core/status.h"

namespace tutti {

// Makes an authority for this cluster alone and a certificate for each task, as files in `directory`, which is made
// when it is missing:
//   ca.pem, ca.key            the authority; its key is needed only to make more certificates: keep it elsewhere
//   ps-1.pem, ps-1.key        of /job:ps/replica:0/task:1
// Keys (P-256) can be read by their owner only. A certificate names its task by the URI tutti://job/ps/task/1, which
// Tutti's peers check, and `hosts` (names and IP addresses, may be empty), for other programs. They are valid for
// `days` from `from` on (seconds since 1970; 0: now).
//
// Errors: kInvalidArgument for what is no task or host, or days outside of 1 to 36500; kAlreadyExists when one of the
// files exists: nothing is ever replaced.
Status make_cluster_certificates(const std::string& directory, const std::vector<std::string>& tasks,
                                 const std::vector<std::string>& hosts, int days, std::time_t from = 0);

}  // namespace tutti
