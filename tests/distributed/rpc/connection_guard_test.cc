#include "tutti/distributed/rpc/internal/connection_guard.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti::rpc_internal::connection_guard_test {

TEST(ConnectionGuard, KnowsPeersByGrpcsNames) {
  EXPECT_EQ(peer_key("ipv4:10.0.0.1:40312"), "10.0.0.1 40312");
  EXPECT_EQ(peer_key("ipv6:%5B::1%5D:40312"), "::1 40312");
  EXPECT_EQ(peer_key("ipv6:[::1]:40312"), "::1 40312");
  EXPECT_EQ(peer_key("ipv6:%5Bfe80::1%252%5D:40312"), "fe80::1 40312") << "a zone is local";
  EXPECT_EQ(peer_key("ipv6:[fe80::1%2]:40312"), "fe80::1 40312");
  EXPECT_EQ(peer_key("unix"), "unix");
}

}  // namespace tutti::rpc_internal::connection_guard_test
