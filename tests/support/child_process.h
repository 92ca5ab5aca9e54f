// Programs that a test starts, watches and ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace tutti {

// Ended, by its id, at the latest with this object; also when the test itself dies. One thread at a time.
class ChildProcess {
 public:
  // `environment`: "NAME=value", added to the test's own; "NAME" removes one. Its standard output and error are read
  // together.
  explicit ChildProcess(std::vector<std::string> command, std::vector<std::string> environment = {});
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t id() const { return id_; }
  // Waits for a line with `text` in it and gives it; empty when the output ended or `limit` passed first.
  std::string wait_for_line(const std::string& text, std::chrono::seconds limit = std::chrono::seconds(60));
  void send(int signal);
  // Waits for its end: the exit status, or 128 and the signal's number. -1 when `limit` passed.
  int wait(std::chrono::seconds limit = std::chrono::seconds(60));
  // All that it said and that was read so far. After wait: everything.
  const std::string& output() const { return output_; }

 private:
  // Reads what is there, waiting until `deadline` for something; false at the end of the output or then.
  bool read_more(std::chrono::steady_clock::time_point deadline);
  void start(std::vector<std::string> command, std::vector<std::string> environment);

  pid_t id_ = -1;  // -1: reaped
  int status_ = -1;
  int output_fd_ = -1;
  std::string output_;
  std::size_t scanned_ = 0;  // lines before this were given by wait_for_line
};

}  // namespace tutti
