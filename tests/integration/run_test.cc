// `tutti run` with real processes: exit codes, output, restarts, and that nothing is ever left behind.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "tests/core/temp_directory.h"
#include "tests/integration/process_cluster.h"
#include "tutti/core/strings.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/op_table.h"

namespace tutti::run_test {

constexpr std::chrono::seconds kLimit(60);

// Waits until `condition` holds; false when it did not within the limit.
template <typename Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // polls other processes
  }
  return true;
}

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

int count_lines_with(const std::string& text, const std::string& what) {
  int count = 0;
  for (const auto& line : lines_of(text)) count += line.find(what) != line.npos ? 1 : 0;
  return count;
}

bool port_is_open(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool open = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return open;
}

class RunTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return processes().empty(); })) << "processes are left";
  }

  // `tutti run` with these flags, on a shell that runs `script`. $DIR is the test's directory. What belongs to the test
  // is known by a variable in its environment.
  ChildProcess run(std::vector<std::string> flags, const std::string& script) {
    flags.insert(flags.end(), {"sh", "-c", kRoles + script});
    return start(flags);
  }
  ChildProcess start(const std::vector<std::string>& flags) {
    return ChildProcess(tutti_command("run", flags), {"TF_CONFIG", "NO_COLOR", mark(), "DIR=" + directory_.path()});
  }

  std::string mark() const { return "TUTTI_RUN_TEST=" + directory_.path(); }
  // Processes of the test that live.
  std::set<pid_t> processes() const {
    std::set<pid_t> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != name.npos) continue;
      // Every entry of an environment ends with a zero byte; zombies have none.
      if (contents(entry.path() / "environ").find(mark() + '\0') != std::string::npos) found.insert(std::stoi(name));
    }
    return found;
  }
  bool told(const std::string& file) const { return std::filesystem::exists(directory_.file(file)); }
  void tell(const std::string& file) const { std::ofstream(directory_.file(file)) << "x"; }
  std::string read(const std::string& file) const { return contents(directory_.file(file)); }

  // $ROLE is "worker", "ps"... and $INDEX the number; `forever` waits to be ended.
  const std::string kRoles = R"sh(
    ROLE=$(echo "$TF_CONFIG" | sed 's/.*"type": "\([a-z]*\)".*/\1/')
    INDEX=$(echo "$TF_CONFIG" | sed 's/.*"index": \([0-9]*\).*/\1/')
    forever() { while :; do sleep 0.05; done; }
    until_told() { while [ ! -e "$DIR/$1" ]; do sleep 0.01; done; }
  )sh";
  TempDirectory directory_;
};

TEST_F(RunTest, EndsServersWhenTheWorkersAreDone) {
  ChildProcess job = run({"--ps", "2", "--workers", "2", "--chief", "--evaluator"},
                         "[ $ROLE = ps -o $ROLE = evaluator ] && forever; echo done as $ROLE $INDEX");
  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_EQ(count_lines_with(job.output(), "[worker 0] done as worker 0"), 1) << job.output();
  EXPECT_EQ(count_lines_with(job.output(), "[worker 1] done as worker 1"), 1) << job.output();
  EXPECT_EQ(count_lines_with(job.output(), "[chief 0] done as chief 0"), 1) << job.output();
}

TEST_F(RunTest, TheFirstFailureIsTheExitCode) {
  ChildProcess job =
      run({"--ps", "1", "--workers", "2"}, "[ $ROLE$INDEX = worker1 ] && exit 7; trap 'exit 9' TERM; forever");
  EXPECT_EQ(job.wait(), 7) << job.output();
  EXPECT_EQ(count_lines_with(job.output(), "[tutti] worker 1 ended with exit code 7; ending the job"), 1)
      << job.output();
}

// A graph that writes `text` to `path` where it runs.
Status write_on(const std::string& target, const std::string& path, const std::string& text) {
  Graph graph(builtin_ops());
  Node* const write =
      add_op(graph, "WriteFile", {constant(graph, Tensor::scalar(path)), constant(graph, Tensor::scalar(text))});
  auto session = connect(target, graph, {.device_filters = {"/job:ps"}, .operation_timeout = std::chrono::seconds(30)});
  return session.ok() ? (*session)->try_run({}, {}, {write}).status() : session.status();
}

TEST_F(RunTest, DataDirectoriesThatWouldNotHoldAreRefused) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"--data-dir", "models"}, "--data-dir needs --insecure"},
      {{"--insecure", "--data-dir", ""}, "without a colon"},
      {{"--insecure", "--data-dir", "a:b"}, "--data-dir=\"a:b\""}};
  for (const auto& [flags, words] : mistakes) {
    ChildProcess job = run(flags, "echo started");
    EXPECT_EQ(job.wait(), 2) << job.output();
    EXPECT_NE(job.output().find(words), std::string::npos) << job.output();
    EXPECT_EQ(job.output().find("started"), std::string::npos) << job.output();
  }
}

// Any user of the machine reaches the ports of a job, which runs as its owner.
TEST_F(RunTest, OnlyAJobsOwnTasksMayUseItsPorts) {
  for (const bool insecure : {false, true}) {
    SCOPED_TRACE(insecure ? "--insecure" : "with the job's secret");
    std::vector<std::string> flags = {"--ps", "1", "--workers", "1", "--ps-server"};
    if (insecure) flags.insert(flags.end(), {"--insecure", "--data-dir", directory_.path()});
    ChildProcess job = run(flags, "echo \"config $TF_CONFIG\"; forever");
    const std::string config = job.wait_for_line("config {");
    std::smatch port;
    ASSERT_TRUE(std::regex_search(config, port, std::regex(R"re("ps": ?\["127.0.0.1:(\d+)")re"))) << config;
    if (job.output().find("listening on") == std::string::npos) {
      ASSERT_NE(job.wait_for_line("listening on"), "") << job.output();
    }
    const std::string target = "grpc://127.0.0.1:" + port[1].str();

    const Status inside = write_on(target, directory_.file("inside"), "x");
    const TempDirectory elsewhere;
    const Status outside = write_on(target, elsewhere.file("outside"), "x");
    EXPECT_FALSE(std::filesystem::exists(elsewhere.file("outside")));
    if (insecure) {
      EXPECT_TRUE(inside.ok()) << inside.to_string();
      EXPECT_EQ(outside.code(), Code::kPermissionDenied) << outside.to_string();
    } else {
      for (const Status& status : {inside, outside}) {
        EXPECT_EQ(status.code(), Code::kUnauthenticated) << status.to_string();
        EXPECT_NE(status.message().find("join token"), std::string::npos) << status.message();
      }
      EXPECT_FALSE(std::filesystem::exists(directory_.file("inside")));
    }
    job.send(SIGTERM);
    EXPECT_EQ(job.wait(), 143);
  }
}

// A full disk of its own, which the test's process makes in a mount namespace of the shell's.
TEST_F(RunTest, AFullDiskUnderTheLogDoesNotEndTheJob) {
  if (geteuid() != 0) GTEST_SKIP() << "mounting a small disk takes root";
  const std::string script = R"(
    set -e
    mkdir "$DIR/disk"; mount -t tmpfs -o size=64k tmpfs "$DIR/disk"
    "$@" >"$DIR/disk/log" 2>&1 & job=$!
    while ! grep -q 'full now' "$DIR/full" 2>/dev/null; do sleep 0.01; done
    rm "$DIR/disk/ballast"; touch "$DIR/emptied"
    wait $job; echo "rc $?"; cat "$DIR/disk/log"; umount "$DIR/disk")";
  std::vector<std::string> command = {"/usr/bin/unshare", "--mount", "sh", "-c", script, "sh"};
  const std::vector<std::string> run = tutti_command(
      "run",
      {"--workers", "1", "sh", "-c",
       "echo first; sleep 0.2; dd if=/dev/zero of=\"$DIR/disk/ballast\" bs=1k 2>/dev/null; "
       "i=0; while [ $i -lt 200 ]; do echo \"line $i of a log that grows beyond the page it has\"; i=$((i+1)); done; "
       "sleep 0.2; echo 'full now' >\"$DIR/full\"; while [ ! -e \"$DIR/emptied\" ]; do sleep 0.01; done; echo last"});
  command.insert(command.end(), run.begin(), run.end());
  ChildProcess job(command, {"TF_CONFIG", mark(), "DIR=" + directory_.path()});
  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_EQ(count_lines_with(job.output(), "rc 0"), 1) << job.output();
  EXPECT_EQ(count_lines_with(job.output(), "[worker 0] last"), 1) << job.output();
  EXPECT_EQ(count_lines_with(job.output(), "lines of output were lost: No space left on device"), 1) << job.output();
}

TEST_F(RunTest, ASignalIsAnExitCodeToo) {
  ChildProcess job = run({"--workers", "2"}, "[ $INDEX = 0 ] && kill -9 $$; forever");
  EXPECT_EQ(job.wait(), 137) << job.output();
  EXPECT_EQ(count_lines_with(job.output(), "worker 0 ended with signal 9 (Killed)"), 1) << job.output();
}

TEST_F(RunTest, LinesOfTasksDoNotMix) {
  ChildProcess job = run({"--workers", "4"}, R"(
    i=0; while [ $i -lt 300 ]; do printf "$ROLE $INDEX "; printf "says " >&2; printf "$i\n"; i=$((i+1)); done; echo >&2
    printf 'and no newline')");
  EXPECT_EQ(job.wait(), 0) << job.output();
  const std::regex line(R"(\[worker (\d)\] worker (\d) (\d+))");
  std::map<std::string, int> next;
  int ends = 0;
  for (const auto& text : lines_of(job.output())) {
    std::smatch match;
    if (std::regex_match(text, match, line)) {
      EXPECT_EQ(match[1], match[2]) << text;
      EXPECT_EQ(std::stoi(match[3]), next[match[1]]++) << text;
    } else if (text.find("and no newline") != text.npos) {
      ++ends;
    } else {
      EXPECT_NE(text.find("] says says says "), text.npos) << text;
    }
  }
  EXPECT_EQ(ends, 4);
  ASSERT_EQ(next.size(), 4u);
  for (const auto& [worker, count] : next) EXPECT_EQ(count, 300) << worker;
}

TEST_F(RunTest, AKilledTaskComesBackUnderTheSameAddress) {
  ChildProcess job = run({"--ps", "1", "--workers", "1", "--restarts", "2"}, R"(
    if [ $ROLE = ps ]; then echo "$TF_CONFIG" >>$DIR/ps; echo $$ >$DIR/pid.tmp; mv $DIR/pid.tmp $DIR/pid; forever; fi
    until_told end)");
  ASSERT_TRUE(eventually([&] { return told("pid"); }));
  const pid_t first = std::stoi(read("pid"));
  kill(first, SIGKILL);
  ASSERT_TRUE(eventually([&] { return std::stoi(read("pid")) != first; }));
  tell("end");
  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_EQ(count_lines_with(job.output(), "[tutti] ps 0 ended with signal 9 (Killed); starting it again in"), 1)
      << job.output();
  const std::vector<std::string> configs = lines_of(read("ps"));
  ASSERT_EQ(configs.size(), 2u);
  EXPECT_EQ(configs[0], configs[1]);
}

TEST_F(RunTest, RestartsAreCounted) {
  ChildProcess job = run({"--workers", "2", "--restarts", "2"}, "[ $INDEX = 1 ] && forever; echo try; exit 5");
  EXPECT_EQ(job.wait(), 5) << job.output();
  EXPECT_EQ(count_lines_with(job.output(), "[worker 0] try"), 3) << job.output();
  EXPECT_EQ(count_lines_with(job.output(), "has used up its 2 restarts; ending the job"), 1) << job.output();
}

// Every task has a child, and one that has left for a session of its own.
const char* const kStubborn = R"(
  trap '' TERM INT
  setsid sh -c 'trap "" TERM INT HUP; while :; do sleep 0.05; done' &
  (while :; do sleep 0.05; done) &
  touch $DIR/ready.$ROLE$INDEX; forever)";

TEST_F(RunTest, CtrlCLeavesNothing) {
  ChildProcess job = run({"--ps", "1", "--workers", "2", "--grace", "0.1"}, kStubborn);
  ASSERT_TRUE(eventually([&] { return told("ready.ps0") && told("ready.worker0") && told("ready.worker1"); }));
  job.send(SIGINT);
  EXPECT_EQ(job.wait(), 130) << job.output();
  EXPECT_TRUE(processes().empty());
  EXPECT_EQ(count_lines_with(job.output(), "[tutti] SIGINT: ending 3 tasks"), 1) << job.output();
}

TEST_F(RunTest, ASecondSignalKillsAtOnce) {
  ChildProcess job = run({"--workers", "2", "--grace", "80000"}, kStubborn);
  ASSERT_TRUE(eventually([&] { return told("ready.worker0") && told("ready.worker1"); }));
  job.send(SIGTERM);
  EXPECT_NE(job.wait_for_line("SIGTERM: ending"), "");
  EXPECT_FALSE(processes().empty());
  // At first it is taken for an echo of the first one.
  ASSERT_TRUE(eventually([&] {
    job.send(SIGTERM);
    return processes().size() <= 1;  // the launcher itself, which waits to be waited for
  }));
  EXPECT_EQ(job.wait(), 143) << job.output();
  EXPECT_TRUE(processes().empty());
}

TEST_F(RunTest, AKilledLauncherLeavesNothing) {
  ChildProcess job = run({"--ps", "1", "--workers", "2", "--restarts", "9"}, kStubborn);
  ASSERT_TRUE(eventually([&] { return told("ready.ps0") && told("ready.worker0") && told("ready.worker1"); }));
  job.send(SIGKILL);
  EXPECT_EQ(job.wait(), 137);
  EXPECT_TRUE(eventually([&] { return processes().empty(); }));
}

TEST_F(RunTest, TheLaunchersChildMayBeKilledToo) {
  ChildProcess job = run({"--ps", "1", "--workers", "2", "--restarts", "9"}, kStubborn);
  ASSERT_TRUE(eventually([&] { return told("ready.ps0") && told("ready.worker0") && told("ready.worker1"); }));
  const std::string children = contents(str_cat("/proc/", job.id(), "/task/", job.id(), "/children"));
  if (children.empty()) GTEST_SKIP() << "this kernel does not list children";
  kill(std::stoi(children), SIGKILL);
  EXPECT_EQ(job.wait(), 137) << job.output();
  EXPECT_TRUE(processes().empty());
}

TEST_F(RunTest, AStoppedTaskIsEnded) {
  ChildProcess job = run({"--workers", "1", "--grace", "80000"}, "touch $DIR/ready; kill -STOP $$; forever");
  ASSERT_TRUE(eventually([&] { return told("ready"); }));
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 143) << job.output();
}

TEST_F(RunTest, NobodyReadsButCtrlCWorks) {
  ChildProcess job = run({"--workers", "2", "--grace", "80000"}, "touch $DIR/ready.$INDEX; yes");
  ASSERT_TRUE(eventually([&] { return told("ready.0") && told("ready.1"); }));
  job.send(SIGINT);
  EXPECT_EQ(job.wait(), 130);
}

TEST_F(RunTest, ServersOfTuttiComeAndGo) {
  ChildProcess job =
      run({"--ps", "2", "--workers", "1", "--ps-server", "--restarts", "1"}, "echo \"$TF_CONFIG\"; until_told end");
  const std::string line = job.wait_for_line("cluster");
  const TaskConfig config = TaskConfig::from_json(line.substr(line.find('{'))).value_or_throw();
  std::vector<int> ports;
  for (const auto& address : config.cluster.job_tasks("ps").value_or_throw()) {
    ports.push_back(std::stoi(address->substr(address->rfind(':') + 1)));
  }
  for (const int port : ports) EXPECT_TRUE(eventually([&] { return port_is_open(port); })) << port;
  // They say so a moment after they listen.
  while (count_lines_with(job.output(), "listening on") < 2) ASSERT_FALSE(job.wait_for_line("listening on").empty());
  tell("end");
  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_EQ(count_lines_with(job.output(), "listening on"), 2) << job.output();
  for (const int port : ports) EXPECT_FALSE(port_is_open(port)) << port;
}

TEST_F(RunTest, WhatCannotBeRunIsSaid) {
  ChildProcess missing = start({"--workers", "2", "no-such-program"});
  EXPECT_EQ(missing.wait(), 127);
  EXPECT_NE(missing.output().find("no-such-program"), std::string::npos) << missing.output();
  tell("text");
  std::filesystem::permissions(directory_.file("text"), std::filesystem::perms::owner_all);
  std::ofstream(directory_.file("text")) << "#!/no/such/interpreter\n";
  ChildProcess broken = start({"--workers", "2", "--restarts", "3", directory_.file("text")});
  EXPECT_EQ(broken.wait(), 127) << broken.output();
  EXPECT_EQ(count_lines_with(broken.output(), "cannot be started"), 1) << broken.output();
}

// The output of a task that has ended stays open in a process that has left its group and writes on and on.
TEST_F(RunTest, ATasksOrphanThatWritesForEverIsEndedToo) {
  ChildProcess job = run({"--workers", "1"}, "setsid yes & echo done as $ROLE $INDEX; until_told yes");
  ASSERT_FALSE(job.wait_for_line("[worker 0] y").empty());
  tell("yes");
  EXPECT_EQ(job.wait(), 0);
}

TEST_F(RunTest, FlagsAreChecked) {
  ChildProcess unknown = start({"--wrokers", "2", "sh"});
  EXPECT_EQ(unknown.wait(), 2);
  EXPECT_NE(unknown.output().find("--wrokers"), std::string::npos) << unknown.output();
  ChildProcess none = start({"--workers", "2"});
  EXPECT_EQ(none.wait(), 2) << none.output();
  ChildProcess no_worker = start({"--workers", "0", "--ps", "1", "sh"});
  EXPECT_EQ(no_worker.wait(), 2) << no_worker.output();
  ChildProcess help = start({"--help"});
  EXPECT_EQ(help.wait(), 0);
  EXPECT_NE(help.output().find("TF_CONFIG"), std::string::npos);
}

TEST_F(RunTest, ArgumentsAreTheProgramsOwn) {
  ChildProcess job = start({"--workers", "1", "printf", "<%s>", "--ps=", "--workers", "-x", "a b", ""});
  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_EQ(job.output(), "[worker 0] <--ps=><--workers><-x><a b><>\n");
}

}  // namespace tutti::run_test
