#include "tutti/runtime/internal/received_keys.h"

#include <gtest/gtest.h>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"

namespace tutti::internal::received_keys_test {

AttrMap edge(const std::string& name, const std::string& from) {
  return {{"tensor_name", name},
          {"send_device", "/job:" + from + "/replica:0/task:0/device:CPU:0"},
          {"send_device_incarnation", 1},
          {"recv_device", "/job:here/replica:0/task:0/device:CPU:0"}};
}

class ReceivedKeysTest : public ::testing::Test {
 protected:
  Output receive(const std::string& name, const std::string& from = "there") {
    AttrMap attrs = edge(name, from);
    attrs["tensor_type"] = DType::kFloat;
    Output received = add_op(graph_, "_Recv", {}, attrs, name)->output();
    graph_.set_output_shape(*received.node, 0, PartialShape{2, 2});
    return received;
  }
  void send(Output value) { add_op(graph_, "_Send", {value}, edge("out", "here")); }
  std::vector<bool> unhurried() {
    const ReceivedKeys received = received_by(graph_);
    EXPECT_EQ(received.keys.size(), received.unhurried.size());
    return received.unhurried;
  }

  Graph graph_{builtin_ops()};
};

TEST_F(ReceivedKeysTest, WhatIsOfUseOnlyTogetherIsInNoHurry) {
  Output a = receive("a");
  Output b = receive("b");
  send(add(a, b));
  EXPECT_EQ(unhurried(), (std::vector<bool>{true, true}));
}

TEST_F(ReceivedKeysTest, WhatLeavesWithoutTheOthersIsWaitedFor) {
  Output a = receive("a");
  Output b = receive("b");
  send(add(a, b));
  send(neg(a));
  EXPECT_EQ(unhurried(), (std::vector<bool>{false, true}));
}

TEST_F(ReceivedKeysTest, OtherSendersDoNotCount) {
  Output a = receive("a");
  Output b = receive("b", "elsewhere");
  send(neg(a));
  send(add(a, b));
  EXPECT_EQ(unhurried(), (std::vector<bool>{true, true}));
}

TEST_F(ReceivedKeysTest, LongWorkIsBegunEarly) {
  Output a = receive("a");
  Output b = receive("b");
  send(add(matmul(a, a), b));
  EXPECT_EQ(unhurried(), (std::vector<bool>{false, true}));
}

TEST_F(ReceivedKeysTest, ControlEdgesCount) {
  Output a = receive("a");
  Output b = receive("b");
  const auto after = graph_.control_dependencies({a.node});
  send(neg(b));
  EXPECT_EQ(unhurried(), (std::vector<bool>{true, true}));
}

}  // namespace tutti::internal::received_keys_test
