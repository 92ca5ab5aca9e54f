#include "tutti/distributed/internal/address.h"

#include <gtest/gtest.h>

namespace tutti::address_test {

TEST(AddressTest, ReadsHostsAndPorts) {
  for (const char* text :
       {"localhost:2222", "127.0.0.1:0", "worker-7.example.com:65535", "[::1]:2222", "[fe80::1]:1"}) {
    EXPECT_EQ(Address::parse(text).value_or_throw().to_string(), text);
  }
}

TEST(AddressTest, RefusesAllElseAndMentionsThePort) {
  for (const char* text :
       {"", ":", "localhost", "localhost:", ":2222", "localhost:port", "localhost:-1", "localhost:65536",
        "localhost:99999999999999999999", "::1:2222", "[::1]", "[x]:1", "a b:1", "a/b:1", "a:1:2", "localhost: 1"}) {
    const Status status = Address::parse(text).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << text;
    EXPECT_NE(status.message().find("port"), std::string::npos) << status.message();
  }
}

TEST(AddressTest, KnowsTheLoopback) {
  for (const char* text : {"localhost:1", "127.0.0.1:1", "127.3.2.1:1", "[::1]:1"}) {
    EXPECT_TRUE(Address::parse(text).value_or_throw().is_loopback()) << text;
  }
  for (const char* text : {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "example.com:1", "127.example.com:1"}) {
    EXPECT_FALSE(Address::parse(text).value_or_throw().is_loopback()) << text;
  }
}

TEST(TargetTest, IsGrpc) {
  EXPECT_EQ(*target_address("grpc://localhost:2222"), "localhost:2222");
  EXPECT_EQ(target_address("").status().code(), Code::kNotFound);
  EXPECT_EQ(target_address("http://localhost:2222").status().code(), Code::kNotFound);
  const Status status = target_address("grpc://localhost").status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("port"), std::string::npos);
}

}  // namespace tutti::address_test
