#include "tutti/graph/attr_codec.h"

#include <gtest/gtest.h>

#include "proto/attr_value.pb.h"

namespace tutti::attr_codec_test {

Result<AttrValue> decode(const tensorflow::AttrValue& proto) {
  ExpansionBudget budget;
  return decode_attr(proto, budget);
}

TEST(AttrCodec, RoundTrips) {
  auto attrs = std::make_shared<AttrMap>();
  (*attrs)["T"] = DType::kFloat;
  FunctionRef function{"f", attrs};
  const AttrValue values[] = {
      AttrValue(),
      AttrValue(std::string("\xff\0x", 3)),
      AttrValue(-7),
      AttrValue(2.5f),
      AttrValue(true),
      AttrValue(DType::kResource),
      AttrValue(PartialShape{1, -1}),
      AttrValue(PartialShape()),
      AttrValue(Tensor::vector<float>({1, 2})),
      AttrValue(function),
      AttrValue(AttrPlaceholder{"T"}),
      AttrValue(EmptyList{}),
      AttrValue(std::vector<std::string>{"a", ""}),
      AttrValue(std::vector<std::int64_t>{1, -2}),
      AttrValue(std::vector<float>{0.5f}),
      AttrValue(std::vector<bool>{true, false}),
      AttrValue(std::vector<DType>{DType::kInt32}),
      AttrValue(std::vector<PartialShape>{PartialShape(), {3}}),
      AttrValue(std::vector<Tensor>{Tensor::scalar(1)}),
      AttrValue(std::vector<FunctionRef>{function, {"g", nullptr}}),
  };
  for (const AttrValue& value : values) {
    tensorflow::AttrValue proto;
    encode_attr(value, &proto);
    tensorflow::AttrValue parsed;
    ASSERT_TRUE(parsed.ParseFromString(proto.SerializeAsString()));
    EXPECT_EQ(decode(parsed).value_or_throw(), value) << value.to_string();
    // Over something else.
    parsed.mutable_list()->add_i(3);
    encode_attr(value, &parsed);
    EXPECT_EQ(decode(parsed).value_or_throw(), value) << value.to_string();
  }
}

TEST(AttrCodec, RefusesWhatIsWrong) {
  tensorflow::AttrValue proto;
  proto.set_type(static_cast<tensorflow::DataType>(77));
  EXPECT_EQ(decode(proto).status().message(), "unknown type 77");
  proto.mutable_list()->add_i(1);
  proto.mutable_list()->add_f(1);
  EXPECT_EQ(decode(proto).status().message(), "a list with elements of 2 kinds");
  proto.mutable_shape()->add_dim()->set_size(-2);
  EXPECT_FALSE(decode(proto).ok());
  (*proto.mutable_func()->mutable_attr())["x"].set_type(static_cast<tensorflow::DataType>(77));
  EXPECT_EQ(decode(proto).status().message(), "attribute x: unknown type 77");
}

}  // namespace tutti::attr_codec_test
