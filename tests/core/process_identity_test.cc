#include "tutti/core/process_identity.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tutti::process_identity_test {

TEST(ProcessIdentity, ThisProcessLives) {
  EXPECT_EQ(process_identity(), process_identity());
  EXPECT_EQ(process_life(process_identity()), ProcessLife::kLives);
  EXPECT_NE(describe_this_process().find(std::to_string(getpid())), std::string::npos);
}

TEST(ProcessIdentity, AKilledProcessIsGoneAlsoBeforeItIsReaped) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pause();
    _exit(0);
  }
  const std::string identity = process_identity(child);
  EXPECT_NE(identity, process_identity());
  EXPECT_EQ(process_life(identity), ProcessLife::kLives);
  kill(child, SIGSTOP);
  EXPECT_EQ(process_life(identity), ProcessLife::kLives) << "stopped, not dead";
  kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(process_life(identity), ProcessLife::kGone) << "a zombie";
  waitpid(child, nullptr, 0);
  EXPECT_EQ(process_life(identity), ProcessLife::kGone);
}

TEST(ProcessIdentity, ALaterProcessWithTheSameNumberIsAnother) {
  std::string other = process_identity();
  other.back() = other.back() == '1' ? '2' : '1';  // another start time
  EXPECT_EQ(process_life(other), ProcessLife::kGone);
}

TEST(ProcessIdentity, NothingIsKnownOfOtherHosts) {
  const std::string here = process_identity();
  EXPECT_EQ(process_life("x" + here), ProcessLife::kElsewhere);
  for (const char* text : {"", "a", "a b c", "a 1 2 3"}) EXPECT_EQ(process_life(text), ProcessLife::kElsewhere) << text;
}

}  // namespace tutti::process_identity_test
