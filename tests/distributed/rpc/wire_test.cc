#include "tutti/distributed/rpc/internal/wire.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tutti/distributed/rpc/internal/call_failure.h"

namespace tutti::rpc_internal::wire_test {

TEST(Wire, LargePiecesAreNotCopied) {
  auto text = std::make_shared<std::string>(10'000, 'x');
  std::weak_ptr<std::string> watch = text;
  Payload payload;
  payload.append(std::string("head"));
  payload.append(std::as_bytes(std::span(*text)), text);
  const auto* where = reinterpret_cast<const std::byte*>(text->data());
  text.reset();

  grpc::ByteBuffer buffer = to_byte_buffer(payload);
  payload = {};
  ASSERT_FALSE(watch.expired()) << "the buffer holds the owner";
  Payload back = to_payload(buffer);
  buffer.Clear();
  ASSERT_EQ(back.pieces().size(), 2u);
  EXPECT_EQ(back.pieces()[0].view(), "head");
  EXPECT_EQ(back.pieces()[1].bytes.data(), where);
  EXPECT_FALSE(watch.expired());
  back = {};
  EXPECT_TRUE(watch.expired());
}

TEST(Wire, EmptyPayload) {
  const grpc::ByteBuffer buffer = to_byte_buffer({});
  EXPECT_TRUE(buffer.Valid());
  EXPECT_EQ(buffer.Length(), 0u);
  EXPECT_TRUE(to_payload(buffer).empty());
}

TEST(Wire, CodesAreTheSameNumbers) {
  for (int code = 1; code <= static_cast<int>(Code::kUnauthenticated); ++code) {
    const Status status(static_cast<Code>(code), "text");
    EXPECT_EQ(to_grpc_status(status).error_code(), code);
    EXPECT_EQ(from_grpc_status(to_grpc_status(status)), status);
  }
  EXPECT_TRUE(to_grpc_status({}).ok());
}

TEST(Wire, LongMessagesAreCut) {
  const std::string longest(3072, 'a');
  EXPECT_EQ(to_grpc_status(internal_error(longest)).error_message(), longest);
  EXPECT_EQ(to_grpc_status(internal_error(longest + "b")).error_message(), longest + " ... [truncated]");
}

TEST(Wire, MessagesAreCutBetweenCharacters) {
  std::string text;
  while (text.size() < 10'000) text += "\xe2\x82\xac";  // the euro sign
  const std::string cut = to_grpc_status(internal_error(text)).error_message();
  const std::string ending = " ... [truncated]";
  ASSERT_GT(cut.size(), 1500u);
  ASSERT_LT(cut.size(), 2100u) << "each byte takes three in a header";
  ASSERT_TRUE(cut.ends_with(ending));
  EXPECT_EQ((cut.size() - ending.size()) % 3, 0u);
  EXPECT_EQ(to_grpc_status(internal_error(std::string(10'000, '\x80'))).error_message().size(), 2048 + ending.size());
}

TEST(Wire, FailuresOfConnectionsNamePeerAndStep) {
  const auto explain = [](const std::string& text) {
    return explain_failure(unavailable(text), "grpc://h:1 (/job:ps/replica:0/task:1)", "/s/M").message();
  };
  EXPECT_EQ(explain("DNS resolution failed for h:1: timeout"),
            "grpc://h:1 (/job:ps/replica:0/task:1): name lookup failed; the call was not sent (/s/M): "
            "DNS resolution failed for h:1: timeout");
  EXPECT_NE(explain("failed to connect to all addresses; last error: Connection refused").find("cannot connect"),
            std::string::npos);
  EXPECT_NE(explain("failed to connect to all addresses; last error: Handshake failed").find("handshake failed"),
            std::string::npos);
  EXPECT_NE(explain("Socket closed").find("connection lost"), std::string::npos);
  EXPECT_EQ(explain("worker:1 has left"), "worker:1 has left") << "a peer's own words";
  const std::string quoted = "From /job:worker/replica:0/task:1:\nfailed to connect to all addresses";
  EXPECT_EQ(explain(quoted), quoted);
  EXPECT_EQ(explain_failure(Status(Code::kUnknown, "Stream removed"), "c", "m").code(), Code::kUnavailable);
  EXPECT_EQ(explain_failure(cancelled("CANCELLED"), "c", "m"), unavailable("c: the server ended the call (m)"));
  EXPECT_EQ(explain_failure(cancelled("by a step"), "c", "m"), cancelled("by a step"));
}

}  // namespace tutti::rpc_internal::wire_test
