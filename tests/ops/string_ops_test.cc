// What the comparison with TensorFlow (tests/interop/check_text.py) leaves out: shapes, limits, state.
#include <gtest/gtest.h>

#include "tests/support/kernel_runner.h"
#include "tutti/core/file_system.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/op_evaluator.h"

namespace tutti::string_ops_test {

using Strings = std::vector<std::string>;

Result<std::vector<Tensor>> try_op(const std::string& op, const AttrMap& attrs, const std::vector<Tensor>& inputs) {
  return evaluate_op(*builtin_ops(), op, attrs, inputs);
}
Tensor run_op(const std::string& op, const AttrMap& attrs, const std::vector<Tensor>& inputs) {
  return std::move(try_op(op, attrs, inputs)).value_or_throw()[0];
}
Strings strings_of(const Tensor& tensor) {
  return {tensor.flat<std::string>().begin(), tensor.flat<std::string>().end()};
}
Tensor text(std::string value) { return Tensor::scalar(std::move(value)); }
Tensor texts(Strings values) { return Tensor::vector<std::string>(values); }

TEST(StringOps, Join) {
  EXPECT_EQ(strings_of(run_op("StringJoin", {{"separator", "-"}}, {text("a"), texts({"b", "c"})})),
            (Strings{"a-b", "a-c"}));
  EXPECT_EQ(run_op("StringJoin", {{"N", 0}}, {}).scalar<std::string>(), "");
  EXPECT_EQ(try_op("StringJoin", {}, {texts({"a"}), texts({"b", "c"})}).status(),
            invalid_argument("Input shapes do not match: [1] vs. [2]"));
}

TEST(StringOps, RegexKeepsUpWithItsPattern) {
  testing::KernelRunner runner;
  const auto match = [&](std::string pattern) {
    return runner.run("m", "RegexFullMatch", {}, {testing::value_of(text("abc")), testing::value_of(text(pattern))});
  };
  EXPECT_TRUE(match("a.*")->tensor().scalar<bool>());
  EXPECT_FALSE(match("b.*")->tensor().scalar<bool>());
  EXPECT_TRUE(match("a.*")->tensor().scalar<bool>());
  EXPECT_EQ(match("a(")->status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(match("a.*")->tensor().scalar<bool>());
}

// Backtracking engines take longer than the universe for this one.
TEST(StringOps, RegexIsLinear) {
  const std::string many(2000, 'a');
  EXPECT_FALSE(run_op("StaticRegexFullMatch", {{"pattern", "(a*)*b"}}, {text(many)}).scalar<bool>());
  EXPECT_EQ(try_op("StaticRegexFullMatch", {{"pattern", "((a{1000}){1000}){1000}"}}, {text(many)}).status().code(),
            Code::kInvalidArgument);
}

TEST(StringOps, RewriteWithABadEscapeDropsNothingElse) {
  const Tensor out = run_op("RegexReplace", {}, {text("xabc"), text("a"), text("\\9")});
  EXPECT_EQ(out.scalar<std::string>(), "xabc");
}

TEST(StringOps, SubstrNamesTheStringAndTheIndex) {
  const Status status =
      try_op("Substr", {}, {texts({"abcd", "e"}), Tensor::scalar(std::int32_t{2}), Tensor::scalar(std::int32_t{1})})
          .status();
  EXPECT_EQ(status, invalid_argument("pos 2 out of range for string b'e' at index 1"));
  const std::int64_t least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
  for (const char* unit : {"BYTE", "UTF8_CHAR"}) {
    const AttrMap attrs{{"unit", unit}};
    EXPECT_FALSE(try_op("Substr", attrs, {text("abc"), Tensor::scalar(least), Tensor::scalar(most)}).ok());
    EXPECT_FALSE(try_op("Substr", attrs, {text("abc"), Tensor::scalar(most), Tensor::scalar(most)}).ok());
    EXPECT_EQ(run_op("Substr", attrs, {text("abc"), Tensor::scalar(std::int64_t{1}), Tensor::scalar(most)})
                  .scalar<std::string>(),
              "bc");
  }
}

TEST(StringOps, AsStringRefusesHugeWidths) {
  const Tensor one = Tensor::scalar(1.0f);
  EXPECT_EQ(run_op("AsString", {{"width", 300}}, {one}).scalar<std::string>().size(), 300u);
  for (const char* attr : {"width", "precision"}) {
    EXPECT_EQ(try_op("AsString", {{attr, std::int64_t{1} << 40}}, {one}).status().code(), Code::kInvalidArgument);
  }
}

TEST(StringOps, StringToNumberTakesLongNumbers) {
  const Tensor in = texts({"0." + std::string(400, '0') + "1", "-1" + std::string(400, '0'), "1e-99999", "1e99999",
                           "0.3333333333333333333333333333333333333333"});
  const Tensor out = run_op("StringToNumber", {{"out_type", DType::kDouble}}, {in});
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> expected = {0, -inf, 0, inf, 1.0 / 3};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(out.data<double>()[i], expected[i]) << i;
}

TEST(StringOps, FormatCountsItsPlaceholders) {
  EXPECT_EQ(try_op("StringFormat", {{"template", "a {} b {} c"}, {"placeholder", "{}"}}, {text("x")}).status(),
            invalid_argument("num placeholders in template and num inputs must match: 2 vs. 1"));
  EXPECT_EQ(run_op("StringFormat", {{"T", std::vector<DType>{}}, {"template", "%"}, {"placeholder", ""}}, {})
                .scalar<std::string>(),
            "%");
}

TEST(StringOps, Shapes) {
  Graph graph(builtin_ops());
  const auto input = [&](DType dtype, PartialShape shape) {
    return add_op(graph, "Placeholder", {}, {{"dtype", dtype}, {"shape", shape}})->output();
  };
  const Output vector = input(DType::kString, {-1}), scalar = input(DType::kString, PartialShape::scalar());
  const Output matrix = input(DType::kString, {2, 3});
  EXPECT_EQ(op1("StringJoin", {scalar, matrix}).shape(), (PartialShape{2, 3}));
  EXPECT_FALSE(op1("StringJoin", {scalar, input(DType::kString, {})}).shape().has_rank());
  EXPECT_THROW(op1("StringJoin", {matrix, vector}), Error);
  Node* split = add_op(graph, "StringSplitV2", {vector, scalar});
  EXPECT_EQ(split->output(0).shape(), (PartialShape{-1, 2}));
  EXPECT_EQ(split->output(2).shape(), (PartialShape{2}));
  EXPECT_THROW(add_op(graph, "StringSplitV2", {matrix, scalar}), Error);
  EXPECT_THROW(add_op(graph, "RegexFullMatch", {matrix, vector}), Error);
  const Output one = input(DType::kInt32, {3}), other = input(DType::kInt32, {2});
  EXPECT_EQ(op1("Substr", {matrix, one, one}).shape(), (PartialShape{2, 3}));
  EXPECT_THROW(op1("Substr", {matrix, one, other}), Error);
  EXPECT_EQ(op1("DecodeRaw", {matrix}, {{"out_type", DType::kInt32}}).shape(), (PartialShape{2, 3, -1}));
  EXPECT_EQ(op1("ReduceJoin", {matrix, constant(graph, 0, DType::kInt32)}).shape(), (PartialShape{3}));
}

TEST(PrintOps, PrintsTheFirstN) {
  testing::KernelRunner runner;
  const Tensor x = Tensor::vector<std::int32_t>({1, 2, 3, 4});
  const AttrMap attrs{{"message", "x: "}, {"first_n", 2}, {"summarize", 2}};
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    const auto run =
        runner.run("p", "Print", attrs, {testing::value_of(x), testing::value_of(x), testing::value_of(x)});
    EXPECT_EQ(run->tensor().raw(), x.raw());
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "x: [1 2...][1 2...]\nx: [1 2...][1 2...]\n");
}

TEST(PrintOps, PrintV2ToItsStream) {
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  EXPECT_TRUE(try_op("PrintV2", {}, {text("one")}).ok());
  EXPECT_TRUE(try_op("PrintV2", {{"output_stream", "stdout"}, {"end", "!"}}, {text("two")}).ok());
  EXPECT_TRUE(try_op("PrintV2", {{"output_stream", "log(info)"}}, {text("three")}).ok());
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "two!");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "one\nthree\n");
  EXPECT_EQ(try_op("PrintV2", {{"output_stream", "nowhere"}}, {text("x")}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(try_op("PrintV2", {}, {texts({"x"})}).status(),
            invalid_argument("Input is expected to be scalar, but got [1]"));
}

TEST(PrintOps, PrintV2AppendsToFilesOfTheTask) {
  const std::string path = ::testing::TempDir() + "print_v2.txt";
  (void)local_file_system().remove(path);  // of a run before
  const AttrMap attrs{{"output_stream", "file://" + path}};
  Services services;
  EXPECT_EQ(evaluate_op(*builtin_ops(), "PrintV2", attrs, {text("x")}, services).status().code(),
            Code::kFailedPrecondition);
  services.files = &local_file_system();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(evaluate_op(*builtin_ops(), "PrintV2", attrs, {text("line")}, services).ok());
  }
  EXPECT_EQ(*read_file(local_file_system(), path), "line\nline\n");
  EXPECT_TRUE(local_file_system().remove(path).ok());
}

}  // namespace tutti::string_ops_test
