// Examples, lines and tensors that are damaged: kInvalidArgument, never a crash.
#include <random>
#include <string>
#include <vector>

#include "tests/ops/host/file_ops_fixture.h"
#include "tutti/graph/tensor_bytes.h"

namespace tutti::parse_ops_test {

std::string field(int number, const std::string& bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  EXPECT_LT(bytes.size(), 128u);
  out.push_back(static_cast<char>(bytes.size()));
  return out + bytes;
}
std::string entry(const std::string& key, const std::string& feature) {
  return field(1, field(1, key) + field(2, feature));
}
std::string packed_ints(const std::string& packed) { return field(3, field(1, packed)); }
std::string words(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += field(1, value);
  return field(1, list);
}

class ParseOps : public testing::FileOpsFixture {
 protected:
  std::unique_ptr<testing::KernelRun> parse(const std::string& example) {
    return run("ParseExampleV2",
               {texts({example}), texts({}), texts({"words"}), texts({"numbers"}), texts({}),
                Tensor::vector<std::int64_t>({7, 8})},
               {{"Tdense", std::vector<DType>{DType::kInt64}},
                {"num_sparse", 1},
                {"sparse_types", std::vector<DType>{DType::kString}},
                {"ragged_value_types", std::vector<DType>{}},
                {"ragged_split_types", std::vector<DType>{}},
                {"dense_shapes", std::vector<PartialShape>{PartialShape{2}}}});
  }
  const std::string good_ = field(1, entry("numbers", packed_ints("\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")) +
                                         entry("words", words({"a", "bc"})));
};

TEST_F(ParseOps, FeaturesAreFound) {
  auto parsed = parse(good_);
  ASSERT_TRUE(parsed->status().ok()) << parsed->status().to_string();
  EXPECT_TRUE(bitwise_equal(parsed->tensor(0), Tensor::of<std::int64_t>({2, 2}, {0, 0, 0, 1})));
  EXPECT_TRUE(bitwise_equal(parsed->tensor(1), texts({"a", "bc"})));
  EXPECT_TRUE(bitwise_equal(parsed->tensor(2), Tensor::vector<std::int64_t>({1, 2})));
  EXPECT_TRUE(bitwise_equal(parsed->tensor(3), Tensor::of<std::int64_t>({1, 2}, {5, -1})));
  EXPECT_TRUE(bitwise_equal(parse("")->tensor(3), Tensor::of<std::int64_t>({1, 2}, {7, 8})));
  // Numbers may stand alone, too, and the last of equal keys counts.
  auto again =
      parse(field(1, entry("numbers", packed_ints("\x01\x02")) + entry("numbers", field(3, "\x08\x03\x08\x04"))));
  EXPECT_TRUE(bitwise_equal(again->tensor(3), Tensor::of<std::int64_t>({1, 2}, {3, 4})));
}

TEST_F(ParseOps, DamageIsAnErrorOrAnExample) {
  for (std::size_t cut = 1; cut < good_.size(); ++cut) {
    EXPECT_EQ(parse(good_.substr(0, cut))->status().code(), Code::kInvalidArgument) << cut;
  }
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {
    std::string changed = good_;
    changed[random() % changed.size()] = static_cast<char>(random());
    const Status status = parse(changed)->status();
    EXPECT_TRUE(status.ok() || status.code() == Code::kInvalidArgument) << status.to_string();
  }
}

TEST_F(ParseOps, WrongNumbersAndTypesAreNamed) {
  const Status count = parse(field(1, entry("numbers", packed_ints("\x01"))))->status();
  EXPECT_EQ(count, invalid_argument("Name: <unknown>, Key: numbers, Index: 0.  Number of int64 values != expected.  "
                                    "Values size: 1 but output shape: [2]"));
  EXPECT_EQ(parse(field(1, entry("numbers", words({"a"}))))->status().code(), Code::kInvalidArgument);
}

TEST_F(ParseOps, Lines) {
  const AttrMap attrs{{"OUT_TYPE", std::vector<DType>{DType::kInt32, DType::kString}}};
  const std::vector<Tensor> defaults{Tensor::vector<std::int32_t>({3}), texts({"none"})};
  auto good = run("DecodeCSV", {texts({"1,\"a \"\"b\"\",\"", ",", " 2 ,x"}), defaults[0], defaults[1]}, attrs);
  ASSERT_TRUE(good->status().ok()) << good->status().to_string();
  EXPECT_TRUE(bitwise_equal(good->tensor(0), Tensor::vector<std::int32_t>({1, 3, 2})));
  EXPECT_TRUE(bitwise_equal(good->tensor(1), texts({"a \"b\",", "none", "x"})));
  for (const char* bad : {"", "1", "1,2,3", "x,y", "1,\"", "1,\"a\"b", "1,a\"", "1,a\n", "99999999999,a"}) {
    EXPECT_EQ(run("DecodeCSV", {texts({bad}), defaults[0], defaults[1]}, attrs)->status().code(),
              Code::kInvalidArgument)
        << bad;
  }
  // What comes after the last column that is wanted may be anything.
  auto first = run("DecodeCSV", {texts({"1,a\nb,\"c"}), defaults[0]},
                   {{"OUT_TYPE", std::vector<DType>{DType::kInt32}}, {"select_cols", std::vector<std::int64_t>{0}}});
  ASSERT_TRUE(first->status().ok()) << first->status().to_string();
  EXPECT_TRUE(bitwise_equal(first->tensor(0), Tensor::vector<std::int32_t>({1})));
}

TEST_F(ParseOps, TensorsThereAndBack) {
  const Tensor value = Tensor::of<float>({2, 1}, {1, 2});
  auto bytes = run("SerializeTensor", {value});
  auto back = run("ParseTensor", {bytes->tensor()}, {{"out_type", DType::kFloat}});
  EXPECT_TRUE(bitwise_equal(back->tensor(), value));
  EXPECT_EQ(run("ParseTensor", {bytes->tensor()}, {{"out_type", DType::kInt32}})->status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(run("ParseTensor", {text("\xff")}, {{"out_type", DType::kInt32}})->status().code(), Code::kInvalidArgument);
}

TEST_F(ParseOps, Sequences) {
  const std::string steps = field(1, packed_ints("\x01\x02")) + field(1, packed_ints("\x03"));
  const std::string sequence =
      field(1, entry("c", packed_ints("\x07"))) + field(2, field(1, field(1, "s") + field(2, steps)));
  const AttrMap attrs{{"Ncontext_sparse", 1},
                      {"context_sparse_types", std::vector<DType>{DType::kInt64}},
                      {"feature_list_ragged_value_types", std::vector<DType>{DType::kInt64}},
                      {"feature_list_ragged_split_types", std::vector<DType>{DType::kInt64}}};
  const auto parse_sequence = [&](const std::string& bytes) {
    return run("ParseSequenceExampleV2",
               {texts({bytes, ""}), texts({}), texts({"c"}), texts({}), texts({}), texts({}), texts({}), texts({"s"}),
                Tensor(DType::kBool, Shape{0})},
               attrs);
  };
  auto parsed = parse_sequence(sequence);
  ASSERT_TRUE(parsed->status().ok()) << parsed->status().to_string();
  EXPECT_TRUE(bitwise_equal(parsed->tensor(1), Tensor::vector<std::int64_t>({7})));
  EXPECT_TRUE(bitwise_equal(parsed->tensor(3), Tensor::vector<std::int64_t>({1, 2, 3})));
  EXPECT_TRUE(bitwise_equal(parsed->tensor(4), Tensor::vector<std::int64_t>({0, 2, 2})));
  EXPECT_TRUE(bitwise_equal(parsed->tensor(5), Tensor::vector<std::int64_t>({0, 2, 3})));
  for (std::size_t cut = 1; cut < sequence.size(); ++cut) {
    const Status status = parse_sequence(sequence.substr(0, cut))->status();
    EXPECT_TRUE(status.ok() || status.code() == Code::kInvalidArgument) << cut << status.to_string();
  }
}

TEST_F(ParseOps, Sounds) {
  const std::string sound(
      "RIFF\x28\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x08\0\0\0\x10\0\0\0\x02\0\x10\0data\x04\0\0\0\0\x40\0\x80", 48);
  auto decoded = run("DecodeWav", {text(sound)}, {{"desired_channels", 2}, {"desired_samples", 3}});
  ASSERT_TRUE(decoded->status().ok()) << decoded->status().to_string();
  EXPECT_TRUE(bitwise_equal(decoded->tensor(0), Tensor::of<float>({3, 2}, {0.5f, 0.5f, -1, -1, 0, 0})));
  EXPECT_EQ(decoded->tensor(1).scalar<std::int32_t>(), 8);
  for (std::size_t cut = 0; cut < sound.size(); ++cut) {
    EXPECT_EQ(run("DecodeWav", {text(sound.substr(0, cut))})->status().code(), Code::kInvalidArgument) << cut;
  }
}

}  // namespace tutti::parse_ops_test
