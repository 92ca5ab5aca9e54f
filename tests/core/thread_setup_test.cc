#include "tutti/core/thread_setup.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <thread>

namespace tutti::thread_setup_test {

std::string name_here() {
  char name[kMaxThreadName + 1];
  pthread_getname_np(pthread_self(), name, sizeof name);
  return name;
}

int policy_here() {
  int policy = -1;
  sched_param parameters{};
  EXPECT_EQ(pthread_getschedparam(pthread_self(), &policy, &parameters), 0);
  return policy;
}

// Threads of this test have the policy of the program, which its caller chose.
void set_policy(int policy) {
  const sched_param none{};
  ASSERT_EQ(pthread_setschedparam(pthread_self(), policy, &none), 0);
}

TEST(ThreadSetup, NamesAreCut) {
  std::thread([] {
    name_thread("a_name_that_is_too_long");
    EXPECT_EQ(name_here(), "a_name_that_is_");
  }).join();
}

TEST(ThreadSetup, AThreadThatComputesTakesTheCoreFromNobody) {
  std::thread([] {
    set_policy(SCHED_OTHER);
    begin_computing_thread("computes");
    EXPECT_EQ(name_here(), "computes");
    EXPECT_EQ(policy_here(), SCHED_BATCH);
  }).join();
}

TEST(ThreadSetup, WhatTheOperatorChoseStays) {
  std::thread([] {
    set_policy(SCHED_IDLE);
    begin_computing_thread("idles");
    EXPECT_EQ(policy_here(), SCHED_IDLE);
  }).join();
}

}  // namespace tutti::thread_setup_test
