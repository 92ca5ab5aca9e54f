#include "tutti/graph/tensor_bytes.h"

#include <gtest/gtest.h>

#include "proto/tensor.pb.h"
#include "tests/support/variant_values.h"
#include "tutti/graph/tensor_codec.h"

namespace tutti::tensor_bytes_test {

using namespace testing;

std::string from_hex(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return out;
}

// What SerializeTensor of TensorFlow 2.15 gives.
TEST(TensorBytes, VariantsAsTensorFlowWritesThem) {
  const Tensor pair = list_of(DType::kFloat, {2}, {Tensor::vector<float>({1, 2}), Tensor::vector<float>({3, 4})});
  const Tensor unset =
      list_of(DType::kInt32, PartialShape(), {Tensor(), Tensor::vector<std::int32_t>({5, 6}), Tensor()});
  Tensor both(DType::kVariant, {2});
  both.data<Variant>()[0] = pair.scalar<Variant>();
  both.data<Variant>()[1] = unset.scalar<Variant>();
  const struct {
    Tensor tensor;
    std::string hex;
  } cases[] = {
      {pair,
       "081512002253520a1674656e736f72666c6f773a3a54656e736f724c69737412100001ffffffffffffffffff01120208021a12080112041"
       "2"
       "0208022a080000803f000000401a1208011204120208022a080000404000008040"},
      {unset,
       "081512002239380a1674656e736f72666c6f773a3a54656e736f724c697374121002000203ffffffffffffffffff0118011a0c080312041"
       "20208023a020506"},
      {list_of(DType::kString, {-1, 3}, {}, 7),
       "08151200222f2e0a1674656e736f72666c6f773a3a54656e736f724c6973741214000707120b08ffffffffffffffffff0112020803"},
      {list_of(DType::kVariant, PartialShape::scalar(), {pair, Tensor()}),
       "0815120022830181010a1674656e736f72666c6f773a3a54656e736f724c697374120d010115ffffffffffffffffff011a58081512007a"
       "520a1674656e736f72666c6f773a3a54656e736f724c69737412100001ffffffffffffffffff01120208021a1208011204120208022a08"
       "0000803f000000401a1208011204120208022a080000404000008040"},
      {optional_of({Tensor::scalar(1.5f), Tensor::vector<std::string>({"a", "b"})}),
       "08151200223c3b0a1a74656e736f72666c6f773a3a646174613a3a4f7074696f6e616c1201011a0a080112002a040000c03f1a0e080712"
       "0412020802420161420162"},
      {optional_of({}), "0815120022201f0a1a74656e736f72666c6f773a3a646174613a3a4f7074696f6e616c120100"},
      {both,
       "0815120412020802228c0152380a1674656e736f72666c6f773a3a54656e736f724c69737412100001ffffffffffffffffff01120208021"
       "a1208011204120208022a080000803f000000401a1208011204120208022a0800004040000080400a1674656e736f72666c6f773a3a5465"
       "6e736f724c697374121002000203ffffffffffffffffff0118011a0c08031204120208023a020506"},
  };
  for (const auto& [tensor, hex] : cases) {
    EXPECT_EQ(tensor_to_bytes(tensor, StringElements::kField).value_or_throw(), from_hex(hex)) << hex;
    EXPECT_EQ(whole_text(tensor_from_bytes(from_hex(hex)).value_or_throw()), whole_text(tensor)) << hex;
  }
}

TEST(TensorBytes, EveryKindOfVariantRoundTrips) {
  for (const Tensor& sample : variant_samples()) {
    const std::string bytes = tensor_to_bytes(sample, StringElements::kField).value_or_throw();
    EXPECT_EQ(whole_text(tensor_from_bytes(bytes).value_or_throw()), whole_text(sample));
    const std::vector<std::string> elements = variants_to_bytes(sample).value_or_throw();
    ASSERT_EQ(std::ssize(elements), sample.num_elements());
    Tensor back(DType::kVariant, sample.shape());
    const std::vector<std::string_view> views(elements.begin(), elements.end());
    ASSERT_TRUE(variants_from_bytes(views, back).ok());
    EXPECT_EQ(whole_text(back), whole_text(sample));
  }
}

TEST(TensorBytes, DamagedVariants) {
  Tensor out(DType::kVariant, {1});
  const std::string_view bad[] = {"\x0a\xff"};
  EXPECT_EQ(variants_from_bytes(bad, out), invalid_argument("element 0 is no variant"));
  // Every prefix, and every byte changed: an error or a value, and no more than that.
  const std::string bytes = tensor_to_bytes(variant_samples()[8], StringElements::kField).value_or_throw();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(tensor_from_bytes(std::string_view(bytes).substr(0, i)).ok() && i > 6) << i;
    for (int flip : {0x01, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      (void)tensor_from_bytes(changed);
    }
  }
}

// Packed elements in packed elements, which protobuf's own limit does not see.
std::string nested_bytes(int depth) {
  tensorflow::TensorProto tensor;
  tensor.set_dtype(tensorflow::DT_VARIANT);
  for (int i = 0; i < depth; ++i) {
    tensorflow::VariantTensorDataProto variant;
    variant.set_type_name("tensorflow::data::Optional");
    variant.set_metadata("\1");
    *variant.add_tensors() = tensor;
    const std::string bytes = variant.SerializeAsString();
    std::string content;
    for (std::size_t length = bytes.size(); length > 0; length >>= 7) {
      content.push_back(static_cast<char>((length & 0x7f) | (length > 0x7f ? 0x80 : 0)));
    }
    tensor.set_tensor_content(content + bytes);
  }
  return tensor.SerializeAsString();
}

TEST(TensorBytes, DepthIsLimited) {
  EXPECT_TRUE(tensor_from_bytes(nested_bytes(40)).ok());
  for (const int depth : {41, 1000}) {
    const Status status = tensor_from_bytes(nested_bytes(depth)).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find("deep in one another"), std::string::npos) << status.to_string();
  }
}

}  // namespace tutti::tensor_bytes_test
