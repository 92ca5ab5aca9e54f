#include "tutti/core/device_name.h"

#include <gtest/gtest.h>

namespace tutti::device_name_test {

DeviceName name(std::string_view text) { return DeviceName::parse(text).value_or_throw(); }

TEST(DeviceName, ParsesAndPrints) {
  const struct {
    const char* text;
    const char* canonical;
  } cases[] = {
      {"", ""},
      {"/", ""},
      {"/job:worker/replica:0/task:1/device:CPU:0", "/job:worker/replica:0/task:1/device:CPU:0"},
      {"/device:GPU:3/task:2/job:a_1", "/job:a_1/task:2/device:GPU:3"},
      {"/cpu:0", "/device:CPU:0"},
      {"/CPU:1", "/device:CPU:1"},
      {"/gpu:2", "/device:GPU:2"},
      {"/GPU:*", "/device:GPU:*"},
      {"/device:GPU", "/device:GPU:*"},
      {"/device:GPU:*", "/device:GPU:*"},
      {"/device:cpu:0", "/device:cpu:0"},  // only the short forms are put in capitals
      {"/device:XLA_CPU:0", "/device:XLA_CPU:0"},
      {"/device:*:3", "/device:*:3"},
      {"/device:*", ""},
      {"/job:*/replica:*/task:*/device:*:*", ""},
      {"/job:ps/job:worker", "/job:worker"},
      {"/job:ps/job:*", ""},
      {"/gpu:1/device:CPU", "/device:CPU:*"},
      {"/task:2147483647", "/task:2147483647"},
  };
  for (const auto& c : cases) {
    const Result<DeviceName> parsed = DeviceName::parse(c.text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
    EXPECT_EQ(parsed->to_string(), c.canonical) << c.text;
    EXPECT_EQ(name(parsed->to_string()), *parsed) << c.text;
  }
}

TEST(DeviceName, RefusesWhatIsNoName) {
  for (const char* text : {"cpu:0",
                           "CPU:0",
                           "job:worker",
                           "//",
                           "/job:worker/",
                           "/job:",
                           "/job:1a",
                           "/job:a-b",
                           "/job:_a",
                           "/job:a:0",
                           "/replica:",
                           "/replica:a",
                           "/replica:-1",
                           "/task:1x",
                           "/task:2147483648",
                           "/task:99999999999999999999",
                           "/device:",
                           "/device:1",
                           "/device:CPU:",
                           "/device:CPU:x",
                           "/device:CPU:0x",
                           "/cpu",
                           "/cpu:",
                           "/Cpu:0",
                           "/tpu:0",
                           "/unknown:0",
                           " /cpu:0",
                           "/cpu:0 ",
                           "/job:a /task:0",
                           "/task:+1"}) {
    EXPECT_EQ(DeviceName::parse(text).status().code(), Code::kInvalidArgument) << text;
  }
  EXPECT_NE(DeviceName::parse("/job:\x01").status().message().find("\"/job:\\x01\""), std::string::npos);
  EXPECT_LT(DeviceName::parse(std::string(1 << 20, 'x')).status().message().size(), 400u);
}

TEST(DeviceName, LocalForm) {
  EXPECT_EQ(DeviceName::parse_local("CPU:0")->to_string(), "/device:CPU:0");
  for (const char* text : {"", "CPU", "CPU:", "CPU:*", "*:0", "/cpu:0", "CPU:0/", ":0", "CPU:x"}) {
    EXPECT_EQ(DeviceName::parse_local(text).status().code(), Code::kInvalidArgument) << text;
  }
}

TEST(DeviceName, EmptyAndComplete) {
  EXPECT_TRUE(name("").empty());
  EXPECT_FALSE(name("/task:0").empty());
  EXPECT_TRUE(name("/job:w/replica:0/task:0/cpu:0").complete());
  EXPECT_FALSE(name("/job:w/replica:0/task:0/device:CPU").complete());
}

TEST(DeviceName, Matches) {
  const DeviceName device = name("/job:w/replica:0/task:1/cpu:0");
  EXPECT_TRUE(name("").matches(device));
  EXPECT_TRUE(name("/job:w/cpu:*").matches(device));
  EXPECT_TRUE(device.matches(device));
  EXPECT_FALSE(name("/job:ps").matches(device));
  EXPECT_FALSE(name("/gpu:*").matches(device));
  EXPECT_FALSE(device.matches(name("/job:w")));  // asks for more than is given
}

TEST(DeviceName, CompatibleWithIsSymmetric) {
  EXPECT_TRUE(name("/job:w").compatible_with(name("/task:1")));
  EXPECT_TRUE(name("/job:w/task:1").compatible_with(name("/job:w/cpu:0")));
  EXPECT_FALSE(name("/job:w/task:1").compatible_with(name("/job:w/task:2")));
  EXPECT_FALSE(name("/job:w/task:2").compatible_with(name("/job:w/task:1")));
}

TEST(DeviceName, SameTaskNeedsAllOfIt) {
  EXPECT_TRUE(name("/job:w/replica:0/task:1/cpu:0").same_task(name("/job:w/replica:0/task:1/gpu:1")));
  EXPECT_FALSE(name("/job:w/replica:0/task:1").same_task(name("/job:w/replica:0/task:2")));
  EXPECT_FALSE(name("/job:w/task:1").same_task(name("/job:w/task:1")));
}

TEST(DeviceName, InnerScopesWinPartByPart) {
  DeviceName scope = name("/job:w/task:0/gpu:1");
  scope.override_with(name("/task:2"));
  EXPECT_EQ(scope.to_string(), "/job:w/task:2/device:GPU:1");
  scope.override_with(name("/cpu:0"));
  EXPECT_EQ(scope.to_string(), "/job:w/task:2/device:CPU:0");
  scope.override_with(name(""));
  EXPECT_EQ(scope.to_string(), "/job:w/task:2/device:CPU:0");
}

TEST(DeviceName, MergeJoinsWhatAgrees) {
  for (const bool soft : {false, true}) {
    DeviceName merged = name("/job:w/gpu:*");
    ASSERT_TRUE(merged.merge(name("/task:1/gpu:2"), soft).ok());
    EXPECT_EQ(merged.to_string(), "/job:w/task:1/device:GPU:2");
  }
}

TEST(DeviceName, MergeNeverMovesToAnotherTask) {
  for (const bool soft : {false, true}) {
    for (const char* other : {"/job:ps", "/replica:1", "/task:1"}) {
      DeviceName merged = name("/job:w/replica:0/task:0/cpu:0");
      EXPECT_EQ(merged.merge(name(other), soft).code(), Code::kInvalidArgument) << other;
      EXPECT_EQ(merged, name("/job:w/replica:0/task:0/cpu:0"));  // unchanged
    }
  }
}

TEST(DeviceName, SoftMergeOpensTheDevice) {
  DeviceName other_type = name("/job:w/cpu:0");
  EXPECT_FALSE(other_type.merge(name("/gpu:0"), false).ok());
  ASSERT_TRUE(other_type.merge(name("/task:3/gpu:0"), true).ok());
  EXPECT_EQ(other_type.to_string(), "/job:w/task:3");

  DeviceName other_id = name("/gpu:0");
  EXPECT_FALSE(other_id.merge(name("/gpu:1"), false).ok());
  EXPECT_EQ(other_id.to_string(), "/device:GPU:0");
  ASSERT_TRUE(other_id.merge(name("/gpu:1"), true).ok());
  EXPECT_EQ(other_id.to_string(), "/device:GPU:*");
}

}  // namespace tutti::device_name_test
