// Starting programs so that none is ever left behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::tools {

// A program that was started, in a process group of its own, whose number is `id`.
struct Process {
  pid_t id = -1;
  int output = -1;  // its standard output and error, to be read without waiting and closed by the caller
  int errors = -1;
};

// Starts command[0] (a path) with nothing to read. The process is killed by the system when this thread ends, however
// it ends. kNotFound, kPermissionDenied or kUnknown when it cannot be run, kResourceExhausted when the system has no
// room for it now.
Result<Process> start_process(const std::vector<std::string>& command, const std::vector<std::string>& environment);

// Kills all children of this process, and what they leave behind as long as this process is a subreaper. False when
// some were still there after `limit`.
bool kill_children(std::chrono::milliseconds limit);

// Whether whoever started this program wanted the signal ignored, as nohup does with SIGHUP.
bool is_ignored(int number);

// Runs `body` in a child process and gives its exit code. The two look after each other, so that whichever is killed,
// by kill -9 too, nothing stays:
//
//   1. This process passes SIGINT, SIGTERM and SIGHUP on to the child (which has a process group of its own, so that a
//      terminal's Ctrl-C comes once) and waits for it.
//   2. When this process dies, the child gets kParentGone and ends everything.
//   3. When the child dies, what it had started comes to this process, a subreaper, and is killed here.
//   4. When both are killed at once, the system kills what start_process had started.
//
// To be called while the program has one thread. In the child the four signals are blocked.
int run_guarded(const std::function<int()>& body);
inline constexpr int kParentGone = 10;  // SIGUSR1

}  // namespace tutti::tools
