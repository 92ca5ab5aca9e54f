#include "tutti/core/rendezvous_key.h"

#include <gtest/gtest.h>

namespace tutti::rendezvous_key_test {

constexpr const char* kText =
    "/job:ps/replica:0/task:0/device:CPU:0;01a2b3c4d5e6f708;/job:worker/replica:0/task:1/device:CPU:0;edge_12_w/"
    "read;7:3";

TEST(RendezvousKeyTest, ReadsAndWritesWhatTensorFlowSends) {
  const RendezvousKey key = RendezvousKey::parse(kText).value_or_throw();
  EXPECT_EQ(key.send_device, "/job:ps/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(key.send_incarnation, 0x01a2b3c4d5e6f708u);
  EXPECT_EQ(key.recv_device, "/job:worker/replica:0/task:1/device:CPU:0");
  EXPECT_EQ(key.name, "edge_12_w/read");
  EXPECT_EQ(key.frame, 7u);
  EXPECT_EQ(key.iteration, 3);
  EXPECT_EQ(key.to_string(), kText);
  EXPECT_EQ(key.prefix() + loop_position(7, 3), kText);
}

TEST(RendezvousKeyTest, IncarnationsAreWrittenInFullAndReadInAnyLengthAndCase) {
  RendezvousKey key = RendezvousKey::parse(kText).value_or_throw();
  key.send_incarnation = 0xAB;
  EXPECT_NE(key.to_string().find(";00000000000000ab;"), std::string::npos);
  const RendezvousKey shorter =
      RendezvousKey::parse("/job:a/replica:0/task:0/device:CPU:0;AB;/job:a/replica:0/task:0/device:CPU:0;x:0;0:0")
          .value_or_throw();
  EXPECT_EQ(shorter.send_incarnation, 0xABu);
  EXPECT_EQ(shorter.name, "x:0");
}

TEST(RendezvousKeyTest, RefusesWhatIsNoKey) {
  const std::string device = "/job:a/replica:0/task:0/device:CPU:0";
  for (const std::string& text :
       {std::string(), std::string(";;;;"), device, device + ";1;" + device + ";x", device + ";1;" + device + ";;0:0",
        device + ";1;" + device + ";x;0", device + ";1;" + device + ";x;0:0;more", device + ";1;" + device + ";x;0:0:0",
        device + ";zz;" + device + ";x;0:0", device + ";;" + device + ";x;0:0",
        device + ";11112222333344445;" + device + ";x;0:0", "/job:a/task:0;1;" + device + ";x;0:0",
        device + ";1;nowhere;x;0:0", device + ";1;" + device + ";x;99999999999999999999:0"}) {
    EXPECT_EQ(RendezvousKey::parse(text).status().code(), Code::kInvalidArgument) << text;
  }
  EXPECT_NE(RendezvousKey::parse("what is this").status().message().find("what is this"), std::string::npos);
}

TEST(RendezvousKeyTest, KnowsTheTaskOfADevice) {
  EXPECT_EQ(task_of("/job:ps/replica:0/task:1/device:CPU:0"), "/job:ps/replica:0/task:1");
  EXPECT_EQ(task_of("/job:ps/replica:0/task:1"), "/job:ps/replica:0/task:1");
  EXPECT_EQ(task_of("/device:CPU:0"), "");
  EXPECT_EQ(task_of(""), "");
}

}  // namespace tutti::rendezvous_key_test
