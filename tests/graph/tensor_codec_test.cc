#include "tutti/graph/tensor_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "proto/tensor.pb.h"
#include "tests/support/variant_budgets.h"
#include "tests/support/variant_values.h"

namespace tutti::tensor_codec_test {

using tensorflow::TensorProto;

TensorProto proto_of(tensorflow::DataType dtype, std::initializer_list<std::int64_t> dims) {
  TensorProto proto;
  proto.set_dtype(dtype);
  for (std::int64_t dim : dims) proto.mutable_tensor_shape()->add_dim()->set_size(dim);
  return proto;
}

Tensor decode(const TensorProto& proto) { return decode_tensor(proto).value_or_throw(); }

void expect_round_trip(const Tensor& tensor) {
  TensorProto proto;
  ASSERT_TRUE(encode_tensor(tensor, &proto).ok());
  TensorProto parsed;
  ASSERT_TRUE(parsed.ParseFromString(proto.SerializeAsString()));
  EXPECT_TRUE(bitwise_equal(decode(parsed), tensor)) << tensor.to_string();
}

TEST(TensorCodec, RoundTrips) {
  expect_round_trip(Tensor::scalar(1.5f));
  expect_round_trip(Tensor::vector<double>({1, -0.0, std::numeric_limits<double>::quiet_NaN()}));
  expect_round_trip(Tensor::of<std::int64_t>({2, 2}, {1, -2, 3, 4}));
  expect_round_trip(Tensor::vector<bool>({true, false}));
  expect_round_trip(Tensor::vector<std::string>({"", "a", std::string("\0\xff", 2)}));
  expect_round_trip(Tensor::vector<std::complex<float>>({{1, 2}}));
  expect_round_trip(Tensor::vector<Half>({Half(0.5f)}));
  expect_round_trip(Tensor(DType::kFloat, Shape{0, 3}));
  expect_round_trip(Tensor(DType::kString, Shape{0}));
  expect_round_trip(Tensor(DType::kQint8, Shape{3}));
}

TEST(TensorCodec, EncodesHandlesByName) {
  Tensor tensor(DType::kResource, Shape{});
  tensor.data<ResourceHandle>()[0] = ResourceHandle("/device:CPU:0", "box", "v");
  TensorProto proto;
  ASSERT_TRUE(encode_tensor(tensor, &proto).ok());
  Tensor back = decode(proto);
  EXPECT_EQ(back.scalar<ResourceHandle>().name(), "v");
  EXPECT_EQ(back.scalar<ResourceHandle>().container(), "box");
  EXPECT_EQ(back.scalar<ResourceHandle>().device(), "/device:CPU:0");
}

TEST(TensorCodec, TypedValuesRepeatTheLast) {
  TensorProto proto = proto_of(tensorflow::DT_FLOAT, {4});
  EXPECT_TRUE(bitwise_equal(decode(proto), Tensor::vector<float>({0, 0, 0, 0})));
  proto.add_float_val(1);
  proto.add_float_val(2);
  EXPECT_TRUE(bitwise_equal(decode(proto), Tensor::vector<float>({1, 2, 2, 2})));
  for (int i = 0; i < 5; ++i) proto.add_float_val(9);
  EXPECT_TRUE(bitwise_equal(decode(proto), Tensor::vector<float>({1, 2, 9, 9})));
}

TEST(TensorCodec, TypedValuesOfEveryKind) {
  TensorProto proto = proto_of(tensorflow::DT_INT8, {2});
  proto.add_int_val(-3);
  EXPECT_TRUE(bitwise_equal(decode(proto), Tensor::vector<std::int8_t>({-3, -3})));
  proto = proto_of(tensorflow::DT_HALF, {2});
  proto.add_half_val(0x3c00);
  EXPECT_TRUE(bitwise_equal(decode(proto), Tensor::vector<Half>({Half(1.0f), Half(1.0f)})));
  proto = proto_of(tensorflow::DT_COMPLEX128, {2});
  proto.add_dcomplex_val(1);
  proto.add_dcomplex_val(2);
  EXPECT_TRUE(bitwise_equal(decode(proto), Tensor::vector<std::complex<double>>({{1, 2}, {1, 2}})));
  proto = proto_of(tensorflow::DT_BOOL, {2});
  proto.add_bool_val(true);
  EXPECT_TRUE(bitwise_equal(decode(proto), Tensor::vector<bool>({true, true})));
  proto = proto_of(tensorflow::DT_UINT64, {1});
  proto.add_uint64_val(~0ull);
  EXPECT_EQ(decode(proto).data<std::uint64_t>()[0], ~0ull);
  proto = proto_of(tensorflow::DT_STRING, {2});
  proto.add_string_val("x");
  EXPECT_TRUE(bitwise_equal(decode(proto), Tensor::vector<std::string>({"x", "x"})));
}

TEST(TensorCodec, StringsFromContent) {
  TensorProto proto = proto_of(tensorflow::DT_STRING, {3});
  proto.set_tensor_content(
      std::string("\x01\x00\x02"
                  "abc",
                  6));
  EXPECT_TRUE(bitwise_equal(decode(proto), Tensor::vector<std::string>({"a", "", "bc"})));
  proto.set_tensor_content("\x01");
  EXPECT_NE(decode_tensor(proto).status().message().find("too few"), std::string::npos);
  proto.set_tensor_content(
      std::string("\x01\x00\x02"
                  "abcd",
                  7));
  EXPECT_NE(decode_tensor(proto).status().message().find("add up to 3"), std::string::npos);
  proto.set_tensor_content("\xff\xff\xff\xff\xff\xff\xff\xff");
  EXPECT_EQ(decode_tensor(proto).status().code(), Code::kInvalidArgument);
}

TEST(TensorCodec, BoolBytesBecomeBools) {
  TensorProto proto = proto_of(tensorflow::DT_BOOL, {3});
  proto.set_tensor_content(std::string("\x00\x07\xff", 3));
  EXPECT_TRUE(bitwise_equal(decode(proto), Tensor::vector<bool>({false, true, true})));
}

TEST(TensorCodec, RefusesWhatIsWrong) {
  TensorProto proto = proto_of(tensorflow::DT_FLOAT, {2});
  proto.set_tensor_content("1234567");
  EXPECT_NE(decode_tensor(proto).status().message().find("7 bytes"), std::string::npos);
  EXPECT_FALSE(decode_tensor(proto_of(tensorflow::DT_INVALID, {1})).ok());
  EXPECT_FALSE(decode_tensor(proto_of(tensorflow::DT_FLOAT_REF, {1})).ok());
  EXPECT_FALSE(decode_tensor(proto_of(static_cast<tensorflow::DataType>(77), {1})).ok());
  EXPECT_FALSE(decode_tensor(proto_of(tensorflow::DT_FLOAT, {-1})).ok());
  EXPECT_FALSE(decode_tensor(proto_of(tensorflow::DT_FLOAT, {-5})).ok());
  EXPECT_FALSE(decode_tensor(proto_of(tensorflow::DT_FLOAT, {1ll << 62, 4})).ok());
  proto = proto_of(tensorflow::DT_FLOAT, {});
  proto.mutable_tensor_shape()->set_unknown_rank(true);
  EXPECT_FALSE(decode_tensor(proto).ok());
}

TEST(TensorCodec, DoesNotMakeMuchOfNothing) {
  for (tensorflow::DataType dtype : {tensorflow::DT_FLOAT, tensorflow::DT_STRING, tensorflow::DT_RESOURCE}) {
    Status status = decode_tensor(proto_of(dtype, {1ll << 40})).status();
    EXPECT_EQ(status.code(), Code::kResourceExhausted);
    EXPECT_NE(status.message().find("[1099511627776]"), std::string::npos) << status.message();
  }
  ExpansionBudget budget{.bytes_left = 10'000};
  TensorProto proto = proto_of(tensorflow::DT_FLOAT, {1500});
  EXPECT_TRUE(decode_tensor(proto, budget).ok());
  EXPECT_FALSE(decode_tensor(proto, budget).ok());
  EXPECT_TRUE(decode_tensor(proto_of(tensorflow::DT_FLOAT, {0, 1ll << 40})).ok());
}

TEST(TensorCodec, VariantsRoundTrip) {
  for (const Tensor& sample : testing::variant_samples()) {
    TensorProto proto;
    ASSERT_TRUE(encode_tensor(sample, &proto).ok());
    EXPECT_EQ(testing::whole_text(decode(proto)), testing::whole_text(sample));
  }
}

TEST(TensorCodec, TheLastVariantRepeats) {
  EXPECT_FALSE(decode(proto_of(tensorflow::DT_VARIANT, {2})).flat<Variant>()[1].has_value());
  TensorProto proto;
  ASSERT_TRUE(encode_tensor(testing::optional_of({Tensor::scalar(1.f)}), &proto).ok());
  proto.mutable_tensor_shape()->add_dim()->set_size(3);
  const Tensor three = decode(proto);
  for (const Variant& element : three.flat<Variant>()) {
    EXPECT_EQ(element.object(), three.flat<Variant>()[0].object());
    EXPECT_NE(element.get<Optional>(), nullptr);
  }
}

TEST(TensorCodec, UnknownVariants) {
  TensorProto proto = proto_of(tensorflow::DT_VARIANT, {});
  proto.add_variant_val()->set_type_name("list");
  EXPECT_EQ(decode_tensor(proto).status(), unimplemented("variants of type \"list\" cannot be read"));
}

// A few bytes of a message are a tensor there.
TEST(TensorCodec, TensorsInVariantsCount) {
  TensorProto proto = proto_of(tensorflow::DT_VARIANT, {});
  auto* variant = proto.add_variant_val();
  variant->set_type_name("tensorflow::data::Optional");
  variant->set_metadata("\1");
  for (int i = 0; i < 100; ++i) *variant->add_tensors() = proto_of(tensorflow::DT_FLOAT, {200});
  ExpansionBudget enough{.bytes_left = 100 * (256 + 800) + 100};
  EXPECT_TRUE(decode_tensor(proto, enough).ok());
  EXPECT_EQ(enough.variants_around, 0);
  ExpansionBudget few{.bytes_left = 99 * (256 + 800)};
  EXPECT_EQ(decode_tensor(proto, few).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(few.variants_around, 0);
}

// Only what a message declares without having it counts.
TEST(TensorCodec, NumbersThatAMessageHasDoNotCount) {
  TensorProto proto = proto_of(tensorflow::DT_VARIANT, {});
  auto* variant = proto.add_variant_val();
  variant->set_type_name("tensorflow::Tensor");
  TensorProto* held = variant->add_tensors();
  *held = proto_of(tensorflow::DT_FLOAT, {10'000});
  for (int i = 0; i < 9'900; ++i) held->add_float_val(1);
  const auto read = [&](std::int64_t bytes) {
    ExpansionBudget budget{.bytes_left = bytes};
    return decode_tensor(proto, budget).status();
  };
  EXPECT_TRUE(read(16 + 256 + 400).ok());
  EXPECT_EQ(read(256 + 399).code(), Code::kResourceExhausted);
  // A list of another type is none of its own.
  held->set_dtype(tensorflow::DT_DOUBLE);
  EXPECT_EQ(read(79'999).code(), Code::kResourceExhausted);
  // The length of the last string counts where it repeats.
  *held = proto_of(tensorflow::DT_STRING, {100});
  for (int i = 0; i < 99; ++i) held->add_string_val("");
  held->add_string_val(std::string(10'000, 'x'));
  EXPECT_TRUE(read(10'000).ok());
  held->mutable_string_val()->SwapElements(49, 99);
  held->mutable_string_val()->DeleteSubrange(50, 50);
  EXPECT_EQ(read(400'000).code(), Code::kResourceExhausted);
  EXPECT_TRUE(read(600'000).ok());
}

// Lengths in tensor_content are a byte each.
TEST(TensorCodec, PackedStringsInVariantsCount) {
  TensorProto strings = proto_of(tensorflow::DT_STRING, {1000});
  strings.set_tensor_content(std::string(1000, '\0'));
  ExpansionBudget little{.bytes_left = 10'000};
  EXPECT_TRUE(decode_tensor(strings, little).ok());
  TensorProto proto = proto_of(tensorflow::DT_VARIANT, {});
  proto.add_variant_val()->set_type_name("tensorflow::Tensor");
  *proto.mutable_variant_val(0)->add_tensors() = strings;
  EXPECT_EQ(decode_tensor(proto, little).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(decode_tensor(proto).ok());
}

TEST(TensorCodec, VariantsThatMayBeWrittenCanBeRead) {
  for (const Tensor& sample : testing::variants_to_count()) {
    const std::int64_t bytes = testing::smallest_budget(sample);
    TensorProto packed;
    ASSERT_TRUE(encode_tensor(sample, &packed).ok());
    TensorProto typed = packed;
    typed.clear_variant_val();
    for (const Variant& element : sample.flat<Variant>()) {
      encode_variant(element, NestedElements::kTyped, typed.add_variant_val());
    }
    for (const TensorProto& proto : {packed, typed}) {
      ExpansionBudget budget{.bytes_left = bytes};
      const Result<Tensor> back = decode_tensor(proto, budget);
      ASSERT_TRUE(back.ok()) << back.status().to_string();
      EXPECT_EQ(testing::whole_text(*back), testing::whole_text(sample));
      // And hardly more could be: an eighth and small tensors of variants are what readers do not count.
      EXPECT_LE(budget.bytes_left, bytes / 8 + 1024);
    }
  }
}

TEST(ShapeCodec, RoundTrips) {
  for (const PartialShape& shape : {PartialShape(), PartialShape::scalar(), PartialShape{0, -1, 7}}) {
    tensorflow::TensorShapeProto proto;
    proto.add_dim()->set_size(3);  // what was there before goes
    encode_shape(shape, &proto);
    EXPECT_EQ(decode_shape(proto).value_or_throw(), shape);
  }
  tensorflow::TensorShapeProto proto;
  proto.set_unknown_rank(true);
  proto.add_dim()->set_size(1);
  EXPECT_FALSE(decode_shape(proto).ok());
  proto.Clear();
  for (int i = 0; i < 300; ++i) proto.add_dim()->set_size(1);
  EXPECT_FALSE(decode_shape(proto).ok());
}

}  // namespace tutti::tensor_codec_test
