// kill -9 in the middle of saves, and files that may not grow.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <random>
#include <thread>

#include "tests/support/child_process.h"
#include "tests/train/saver_fixture.h"
#include "tutti/train/checkpoint_reader.h"

namespace tutti::saver_kill_test {

class SaverKill : public ::testing::TestWithParam<const char*> {
 protected:
  ChildProcess start(int megabytes) {
    return ChildProcess({SAVE_LOOP, directory_.file("m"), GetParam(), std::to_string(megabytes)});
  }
  // The last step that the program reported as saved; -1: none.
  static std::int64_t last_saved(const std::string& output) {
    const std::size_t at = output.rfind("saved ");
    // The last line may be cut off; the one before it is whole.
    if (at == std::string::npos) return -1;
    if (output.find('\n', at) == std::string::npos) return last_saved(output.substr(0, at));
    return std::stoll(output.substr(at + 6));
  }

  // What the newest checkpoint holds is whole: all variables are of its step.
  std::int64_t whole_step(int megabytes) {
    const auto reader = load_checkpoint(directory_.path());
    const std::int64_t step = reader->read("global_step").value_or_throw().scalar<std::int64_t>();
    for (int i = 0; i < megabytes; ++i) {
      const Tensor value = reader->read(str_cat("v", i)).value_or_throw();
      for (float element : value.flat<float>()) {
        if (element != static_cast<float>(step)) {
          ADD_FAILURE() << "v" << i << " has " << element << " at step " << step;
          break;
        }
      }
    }
    return step;
  }

  TempDirectory directory_;
};

TEST_P(SaverKill, AtAnyMoment) {
  constexpr int kMegabytes = 4;
  std::mt19937 random(7);
  std::int64_t reached = 0;
  // A short set, unless more is asked for.
  const int rounds = std::getenv("TUTTI_STRESS") != nullptr ? 50 : 6;
  for (int round = 0; round < rounds; ++round) {
    ChildProcess job = start(kMegabytes);
    const std::string first = job.wait_for_line("saved");
    ASSERT_FALSE(first.empty()) << job.output();
    // Some moment of a later save: no matter which, so that a slow machine only moves it.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
    job.send(SIGKILL);
    EXPECT_EQ(job.wait(), 128 + SIGKILL);
    const std::int64_t saved = last_saved(job.output());
    const std::int64_t found = whole_step(kMegabytes);
    EXPECT_GE(found, saved);
    EXPECT_GT(saved, reached);
    reached = saved;
  }
}

TEST_P(SaverKill, AFileThatMayNotGrow) {
  {
    ChildProcess job = start(1);
    ASSERT_FALSE(job.wait_for_line("saved").empty()) << job.output();
    job.send(SIGKILL);
    job.wait();
  }
  const std::int64_t before = whole_step(1);
  // The limit holds for the child from its start. A write beyond it fails, as on a full disk.
  ChildProcess job(
      {"/bin/sh", "-c",
       str_cat("trap '' XFSZ; ulimit -f 100; exec ", SAVE_LOOP, " ", directory_.file("m"), " ", GetParam(), " 1")});
  EXPECT_EQ(job.wait(), 1) << job.output();
  EXPECT_NE(job.output().find(directory_.file("m")), std::string::npos) << job.output();
  EXPECT_EQ(whole_step(1), before);
}

INSTANTIATE_TEST_SUITE_P(Ways, SaverKill, ::testing::Values("single", "sharded", "tasks", "background"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace tutti::saver_kill_test
