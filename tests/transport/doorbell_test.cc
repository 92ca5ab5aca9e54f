#include "tutti/transport/shm/internal/doorbell.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace tutti::shm::doorbell_test {

TEST(DoorbellTest, EachRingEndsAWait) {
  const UniqueFd bell = make_doorbell().value_or_throw();
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {}};
  ASSERT_EQ(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, bell.get(), &event), 0);
  EXPECT_EQ(::epoll_wait(epoll.get(), &event, 1, 0), 0);
  for (int i = 0; i < 3; ++i) {
    ring_doorbell(bell.get());
    EXPECT_EQ(::epoll_wait(epoll.get(), &event, 1, 0), 1);
    EXPECT_EQ(::epoll_wait(epoll.get(), &event, 1, 0), 0);
  }
}

TEST(DoorbellTest, OnlyDoorbellsAreTaken) {
  const UniqueFd bell = make_doorbell().value_or_throw();
  EXPECT_TRUE(check_doorbell(bell.get()).ok());
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const UniqueFd read(ends[0]);
  const UniqueFd write(ends[1]);
  const Status pipe = check_doorbell(write.get());
  EXPECT_EQ(pipe.code(), Code::kDataLoss);
  EXPECT_NE(pipe.message().find("pipe:"), std::string::npos) << pipe.message();
  EXPECT_EQ(check_doorbell(-1).code(), Code::kUnavailable) << "nothing is known of it";
}

// Who rings must not wait, should the counter be full.
TEST(DoorbellTest, ThoseThatMayBlockAreNotTaken) {
  const UniqueFd bell = make_doorbell().value_or_throw();
  ASSERT_EQ(::fcntl(bell.get(), F_SETFL, ::fcntl(bell.get(), F_GETFL) & ~O_NONBLOCK), 0);
  EXPECT_EQ(check_doorbell(bell.get()).code(), Code::kDataLoss);
}

TEST(DoorbellTest, AFullOneIsNotWaitedFor) {
  const UniqueFd bell = make_doorbell().value_or_throw();
  const std::uint64_t most = ~std::uint64_t{0} - 1;
  ASSERT_EQ(::write(bell.get(), &most, sizeof most), static_cast<ssize_t>(sizeof most));
  ring_doorbell(bell.get());
}

}  // namespace tutti::shm::doorbell_test
