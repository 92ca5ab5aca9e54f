#include "process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

namespace tutti::tools {
namespace {

static_assert(kParentGone == SIGUSR1);

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const auto& text : texts)
    list.push_back(const_cast<char*>(text.c_str()));  // exec's interface is older than const
  list.push_back(nullptr);
  return list;
}

class Pipe {
 public:
  explicit Pipe(int flags) { ok_ = pipe2(ends_, flags) == 0; }
  ~Pipe() {
    for (const int end : ends_) {
      if (end >= 0) close(end);
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  bool ok() const { return ok_; }
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  int take_reader() { return std::exchange(ends_[0], -1); }
  void close_writer() { close(std::exchange(ends_[1], -1)); }

 private:
  int ends_[2] = {-1, -1};
  bool ok_ = false;
};

// In the child, between fork and exec. Does not return.
[[noreturn]] void become(char* const* argv, char* const* envp, pid_t parent, int output, int errors, int failure) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(126);  // it died before the line above
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGPIPE, SIGTTOU}) signal(number, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  execve(argv[0], argv, envp);
  const int error = errno;
  if (write(failure, &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

Status exec_error(const std::string& program, int error) {
  const std::string text = str_cat(program, ": ", std::strerror(error));
  if (error == ENOENT) return not_found(text);
  if (error == EACCES) return permission_denied(text);
  if (error == EAGAIN || error == ENOMEM) return resource_exhausted(text);
  return Status(Code::kUnknown, text);
}

bool is_number(const char* text) { return *text != '\0' && std::strspn(text, "0123456789") == std::strlen(text); }

// From "pid (any name) state ppid ...".
pid_t parent_of(const char* process) {
  std::ifstream in(str_cat("/proc/", process, "/stat"));
  std::string line;
  std::getline(in, line);
  const std::size_t after = line.rfind(')');
  if (after == line.npos || after + 4 > line.size()) return -1;
  return std::atoi(line.c_str() + after + 4);
}

void send_to_children(int number) {
  DIR* const all = opendir("/proc");
  if (all == nullptr) return;
  const pid_t self = getpid();
  while (const dirent* entry = readdir(all)) {
    if (is_number(entry->d_name) && parent_of(entry->d_name) == self) kill(std::atoi(entry->d_name), number);
  }
  closedir(all);
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// The signals that are passed on: not those that whoever started us wanted ignored, as nohup does.
sigset_t guarded_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(number)) sigaddset(&set, number);
  }
  sigaddset(&set, SIGCHLD);
  return set;
}

// The child's exit code.
int wait_for(pid_t child, const sigset_t& signals) {
  while (true) {
    for (int status = 0; true;) {
      const pid_t ended = waitpid(-1, &status, WNOHANG);
      if (ended == child) return code_of(status);
      if (ended <= 0) break;
    }
    int number = 0;
    if (sigwait(&signals, &number) == 0 && number != SIGCHLD) kill(child, number);
  }
}

}  // namespace

Result<Process> start_process(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  Pipe output(O_CLOEXEC);
  Pipe errors(O_CLOEXEC);
  Pipe failure(O_CLOEXEC);  // closed by a successful exec, else it says why not
  if (!output.ok() || !errors.ok() || !failure.ok()) return resource_exhausted("no pipe: ", std::strerror(errno));
  const std::vector<char*> argv = pointers(command);
  const std::vector<char*> envp = pointers(environment);
  const pid_t self = getpid();
  const pid_t id = fork();
  if (id < 0) return resource_exhausted("fork: ", std::strerror(errno));
  if (id == 0) become(argv.data(), envp.data(), self, output.writer(), errors.writer(), failure.writer());
  setpgid(id, id);  // here too: whoever is first, the group is there when this returns
  failure.close_writer();
  int error = 0;
  ssize_t count = 0;
  do {
    count = read(failure.reader(), &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  if (count == sizeof(error)) {
    waitpid(id, nullptr, 0);
    return exec_error(command[0], error);
  }
  for (const int fd : {output.reader(), errors.reader()}) fcntl(fd, F_SETFL, O_NONBLOCK);
  return Process{id, output.take_reader(), errors.take_reader()};
}

bool is_ignored(int number) {
  struct sigaction now = {};
  return sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

bool kill_children(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    pid_t ended = 0;
    do {
      ended = waitpid(-1, nullptr, WNOHANG);
    } while (ended > 0);
    if (ended < 0) return true;  // ECHILD
    if (std::chrono::steady_clock::now() >= deadline) return false;
    send_to_children(SIGKILL);                                  // again: the killed ones' children are ours now
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // polls: what was killed may take a moment to die
  }
}

int run_guarded(const std::function<int()>& body) {
  constexpr std::chrono::seconds kKillLimit(10);
  const sigset_t signals = guarded_signals();
  sigset_t blocked = signals;
  sigaddset(&blocked, kParentGone);
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t guard = getpid();
  const pid_t child = fork();
  if (child < 0) {
    std::fprintf(stderr, "tutti run: fork: %s\n", std::strerror(errno));
    return 1;
  }
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, kParentGone);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (getppid() != guard) _exit(1);
    signal(SIGTTOU, SIG_IGN);  // writes to its terminal from the background
    const int code = body();
    std::fflush(nullptr);
    _exit(code);
  }
  const int code = wait_for(child, signals);
  if (!kill_children(kKillLimit)) std::fprintf(stderr, "tutti run: some processes could not be killed\n");
  return code;
}

}  // namespace tutti::tools
