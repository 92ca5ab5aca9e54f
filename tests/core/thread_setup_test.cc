#include "tutti/core/thread_setup.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <thread>

namespace tutti::thread_setup_test {

class ThreadSetup : public ::testing::Test {
 protected:
  // Of the program, which began with what its caller has.
  void SetUp() override { set_policy(getpid(), SCHED_OTHER); }
  void TearDown() override { set_policy(getpid(), before_); }

  static void set_policy(pid_t thread, int policy) {
    const sched_param none{};
    ASSERT_EQ(sched_setscheduler(thread, policy, &none), 0);
  }
  static std::string name_here() {
    char name[kMaxThreadName + 1];
    pthread_getname_np(pthread_self(), name, sizeof name);
    return name;
  }

 private:
  const int before_ = sched_getscheduler(getpid());
};

TEST_F(ThreadSetup, NamesAreCut) {
  std::thread([] {
    begin_thread("a_name_that_is_too_long");
    EXPECT_EQ(name_here(), "a_name_that_is_");
  }).join();
}

TEST_F(ThreadSetup, AThreadThatComputesTakesTheCoreFromNobody) {
  std::thread([] {
    begin_thread("computes", ThreadWork::kComputes);
    EXPECT_EQ(name_here(), "computes");
    EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
  }).join();
}

TEST_F(ThreadSetup, OneThatServesDoesWhoeverMadeIt) {
  std::thread([] {
    begin_thread("computes", ThreadWork::kComputes);
    std::thread([] {
      EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
      begin_thread("serves");
      EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
    }).join();
  }).join();
}

TEST_F(ThreadSetup, WhatTheOperatorChoseStays) {
  std::thread([] {
    set_policy(0, SCHED_IDLE);
    begin_thread("idles", ThreadWork::kComputes);
    EXPECT_EQ(sched_getscheduler(0), SCHED_IDLE);
  }).join();
  set_policy(getpid(), SCHED_BATCH);
  std::thread([] {
    begin_thread("serves");
    EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
  }).join();
}

}  // namespace tutti::thread_setup_test
