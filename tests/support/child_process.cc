#include "tests/support/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>
#include <utility>

extern char** environ;

namespace tutti {
namespace {

using SteadyClock = std::chrono::steady_clock;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (auto& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> merged_environment(const std::vector<std::string>& changes) {
  std::vector<std::string> all;
  const auto name_of = [](const std::string& entry) { return entry.substr(0, entry.find('=')); };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool replaced = std::any_of(changes.begin(), changes.end(),
                                      [&](const std::string& change) { return name_of(change) == name_of(*entry); });
    if (!replaced) all.emplace_back(*entry);
  }
  for (const auto& change : changes) {
    if (change.find('=') != change.npos) all.push_back(change);
  }
  return all;
}

int milliseconds_until(SteadyClock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

}  // namespace

ChildProcess::ChildProcess(std::vector<std::string> command, std::vector<std::string> environment) {
  start(std::move(command), merged_environment(environment));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : id_(std::exchange(other.id_, -1)),
      status_(other.status_),
      output_fd_(std::exchange(other.output_fd_, -1)),
      output_(std::move(other.output_)),
      scanned_(other.scanned_) {}

void ChildProcess::start(std::vector<std::string> command, std::vector<std::string> environment) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    ADD_FAILURE() << "pipe2";
    return;
  }
  const std::vector<char*> argv = pointers(command);
  const std::vector<char*> envp = pointers(environment);
  const pid_t parent = getpid();
  id_ = fork();
  if (id_ == 0) {
    // Only what may be called between fork and exec in a program with threads.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(ends[1]);
  output_fd_ = ends[0];
  if (id_ < 0) ADD_FAILURE() << "fork";
}

ChildProcess::~ChildProcess() {
  if (id_ > 0) {
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  if (output_fd_ >= 0) close(output_fd_);
}

bool ChildProcess::read_more(SteadyClock::time_point deadline) {
  pollfd wanted{output_fd_, POLLIN, 0};
  if (output_fd_ < 0) return false;
  int ready = 0;
  while (ready == 0 && SteadyClock::now() < deadline) ready = poll(&wanted, 1, milliseconds_until(deadline));
  if (ready <= 0) return false;
  char buffer[4096];
  const ssize_t count = read(output_fd_, buffer, sizeof(buffer));
  if (count <= 0) return false;
  output_.append(buffer, static_cast<std::size_t>(count));
  return true;
}

std::string ChildProcess::wait_for_line(const std::string& text, std::chrono::seconds limit) {
  const auto deadline = SteadyClock::now() + limit;
  while (true) {
    for (auto end = output_.find('\n', scanned_); end != output_.npos; end = output_.find('\n', scanned_)) {
      const std::string line = output_.substr(scanned_, end - scanned_);
      scanned_ = end + 1;
      if (line.find(text) != line.npos) return line;
    }
    if (!read_more(deadline)) return {};
  }
}

void ChildProcess::send(int signal) {
  if (id_ > 0) kill(id_, signal);
}

int ChildProcess::wait(std::chrono::seconds limit) {
  const auto deadline = SteadyClock::now() + limit;
  while (read_more(deadline)) {
  }
  while (id_ > 0) {
    int status = 0;
    const pid_t ended = waitpid(id_, &status, WNOHANG);
    if (ended == id_) {
      id_ = -1;
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    } else if (SteadyClock::now() >= deadline) {
      return -1;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // polls: waitpid has no time limit
    }
  }
  return status_;
}

}  // namespace tutti
