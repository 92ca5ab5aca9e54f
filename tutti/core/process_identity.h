// Names for processes by which another process of the same host can tell whether they still live.
#pragma once

#include <cstdint>
#include <string>

namespace tutti {

// This process: host, process number and start time, so that a later process with the same number is another one.
std::string process_identity();
// Another process of this host, by its number.
std::string process_identity(std::int64_t process);

enum class ProcessLife {
  kLives,
  kGone,
  kElsewhere,  // of another host or container, or not a process's identity: nothing can be told from here
};
ProcessLife process_life(const std::string& identity);

// "process 4242 on node7": this process, for people.
std::string describe_this_process();

}  // namespace tutti
