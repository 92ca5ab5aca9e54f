#include "tutti/transport/shm/internal/message_sender.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tutti/transport/shm/internal/doorbell.h"
#include "tutti/transport/shm/internal/event_loop.h"
#include "tutti/transport/shm/internal/loans.h"

namespace tutti::shm::message_sender_test {

// To a peer that reads nothing, through a small ring and without segments.
class MessageSenderTest : public ::testing::Test {
 protected:
  MessageSenderTest() {
    int fds[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds) != 0) ADD_FAILURE() << "socketpair";
    socket_ = std::make_shared<const UniqueFd>(fds[0]);
    peer_.reset(fds[1]);
    loans_ = std::make_shared<Loans>(socket_, pool_, std::weak_ptr<EventLoop>());
    const Ring ring = Ring::at(static_cast<std::byte*>(memory_->data()), kMinRingBytes, 0);
    sender_ = std::make_unique<MessageSender>(RingWriter(ring), socket_->get(), bell_.get(), *pool_, *loans_);
  }
  Status reply(std::uint64_t id, const Payload& payload) {
    return sender_->send(MessageKind::kReply, id, {}, {}, payload);
  }
  // Many times the same memory.
  static Payload of_size(std::size_t bytes) {
    constexpr std::size_t kPiece = std::size_t{16} << 20;
    const auto store = std::make_shared<const std::string>(kPiece, 'x');
    Payload payload;
    for (std::size_t size = 0; size < bytes; size += kPiece) {
      payload.append(std::as_bytes(std::span(*store)), store);
    }
    return payload;
  }

  const BufferPtr memory_ = [] {
    BufferPtr memory = heap_allocator().allocate(ring_file_bytes(kMinRingBytes));
    std::fill_n(static_cast<char*>(memory->data()), memory->bytes(), '\0');
    return memory;
  }();
  std::shared_ptr<SegmentPool> pool_ = std::make_shared<SegmentPool>(0);
  SharedSocket socket_;
  UniqueFd peer_;
  UniqueFd bell_ = make_doorbell().value_or_throw();
  std::shared_ptr<Loans> loans_;
  std::unique_ptr<MessageSender> sender_;
};

constexpr std::size_t kGiB = std::size_t{1} << 30;

TEST_F(MessageSenderTest, TheQueueIsBounded) {
  EXPECT_TRUE(reply(1, of_size(kGiB / 2)).ok());
  EXPECT_TRUE(reply(2, of_size(kGiB / 2)).ok());
  EXPECT_TRUE(reply(3, of_size(kGiB / 2)).ok());
  EXPECT_EQ(reply(4, of_size(kGiB / 2)).code(), Code::kResourceExhausted);
  EXPECT_TRUE(sender_->send(MessageKind::kRelease, 5).ok());
}

// Else the answer to a heartbeat would be refused, and the connection given up in the middle of a large value.
TEST_F(MessageSenderTest, OneThatIsLargerThanTheQueueKeepsNothingElseOut) {
  EXPECT_TRUE(reply(1, of_size(3 * kGiB)).ok());
  EXPECT_TRUE(reply(2, Payload(std::string("small"))).ok());
  EXPECT_TRUE(sender_->send(MessageKind::kRelease, 3).ok());
  EXPECT_EQ(reply(4, of_size(2 * kGiB)).code(), Code::kResourceExhausted);
}

}  // namespace tutti::shm::message_sender_test
