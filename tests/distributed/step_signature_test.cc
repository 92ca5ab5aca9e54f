#include "tutti/distributed/internal/step_signature.h"

#include <gtest/gtest.h>

namespace tutti::internal::step_signature_test {

TEST(StepSignatureTest, OrderAndRepetitionDoNotMatter) {
  Result<StepSignature> one = canonical({{"y", "x:0"}, {"b:1", "a", "a:0"}, {"t", "s", "t"}});
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->names.feeds, (std::vector<std::string>{"x:0", "y:0"}));
  EXPECT_EQ(one->names.fetches, (std::vector<std::string>{"a:0", "b:1"}));
  EXPECT_EQ(one->names.targets, (std::vector<std::string>{"s", "t"}));
  EXPECT_EQ(one->feeds, (std::vector<int>{1, 0}));
  EXPECT_EQ(one->fetches, (std::vector<int>{1, 0, 0}));
  Result<StepSignature> other = canonical({{"x", "y:0"}, {"a:0", "b:1"}, {"s", "t"}});
  EXPECT_EQ(cache_key(one->names), cache_key(other->names));
}

TEST(StepSignatureTest, RefusesWhatMakesNoStep) {
  auto error = [](const Signature& signature) { return canonical(signature).status(); };
  EXPECT_EQ(error({{"x"}, {}, {}}).code(), Code::kInvalidArgument);
  EXPECT_EQ(error({{"x", "x:0"}, {"y"}, {}}).message(), "Tensor x:0 is fed more than once.");
  EXPECT_EQ(error({{"x"}, {"x:0"}, {}}).message(), "Tensor x:0 is both fed and fetched.");
  EXPECT_TRUE(error({{"x:0"}, {"x:1"}, {}}).ok());
}

TEST(StepSignatureTest, KeysTellNamesApart) {
  EXPECT_NE(cache_key(Signature{{"a"}, {"b"}, {}}), cache_key(Signature{{"a", "b"}, {}, {}}));
  EXPECT_NE(cache_key(Signature{{"ab"}, {}, {}}), cache_key(Signature{{"a", "b"}, {}, {}}));
  EXPECT_NE(cache_key(Signature{{}, {"a"}, {}}), cache_key(Signature{{}, {}, {"a"}}));
  EXPECT_NE(cache_key(Signature{{"a", "b"}, {}, {}}), cache_key(Signature{{}, {}, {}, {{"a", "b"}}}));
  RunStepRequest request;
  request.feeds = {{"f", Tensor::scalar(1.0f)}};
  request.fetches = {"a", "b"};
  request.targets = {"t"};
  EXPECT_EQ(cache_key(request), cache_key(Signature{{"f"}, {"a", "b"}, {"t"}}));
}

}  // namespace tutti::internal::step_signature_test
