#include "tutti/graph/variant_data.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/variant_values.h"

namespace tutti::variant_data_test {

using namespace testing;

const std::string kList = "tensorflow::TensorList";
const std::string kMinusOne = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";

std::string bytes(std::initializer_list<int> values) { return {values.begin(), values.end()}; }

std::string read_text(VariantData data) {
  ExpansionBudget budget;
  const Result<Variant> variant = from_variant_data(std::move(data), budget);
  return variant.ok() ? whole_text(Tensor::scalar(*variant)) : variant.status().to_string();
}

Status read_error(VariantData data, ExpansionBudget budget = {}) {
  return from_variant_data(std::move(data), budget).status();
}

TEST(VariantData, RoundTrips) {
  for (const Tensor& sample : variant_samples()) {
    ASSERT_TRUE(check_writable(sample).ok());
    for (const Variant& variant : sample.flat<Variant>()) {
      EXPECT_EQ(read_text(to_variant_data(variant)), whole_text(Tensor::scalar(variant)));
    }
  }
}

// As TensorFlow 2.15 writes them.
TEST(VariantData, Fields) {
  const Tensor item = Tensor::vector<std::int32_t>({5, 6});
  const Tensor list = list_of(DType::kInt32, PartialShape(), {Tensor(), item, Tensor()});
  VariantData data = to_variant_data(list.scalar<Variant>());
  EXPECT_EQ(data.type_name, kList);
  EXPECT_EQ(data.metadata, bytes({2, 0, 2, 3}) + kMinusOne + "\x18\x01");
  ASSERT_EQ(data.tensors.size(), 1u);
  EXPECT_TRUE(bitwise_equal(data.tensors[0], item));
  data = to_variant_data(list_of(DType::kString, {-1, 3}, {}, 7).scalar<Variant>());
  EXPECT_EQ(data.metadata, bytes({0, 7, 7, 0x12, 11, 8}) + kMinusOne + "\x12\x02\x08\x03");
  data = to_variant_data(optional_of({}).scalar<Variant>());
  EXPECT_EQ(data.type_name, "tensorflow::data::Optional");
  EXPECT_EQ(data.metadata, bytes({0}));
  EXPECT_EQ(to_variant_data(optional_of({item}).scalar<Variant>()).metadata, bytes({1}));
}

class Thing : public VariantObject {
 public:
  std::string type_name() const override { return "my::Thing"; }
  std::string debug_string() const override { return "thing"; }
};

TEST(VariantData, WhatCannotBeWritten) {
  const Tensor thing = Tensor::scalar(Variant(std::make_shared<Thing>()));
  for (const Tensor& tensor : {thing, optional_of({thing}), list_of(DType::kVariant, PartialShape(), {thing})}) {
    EXPECT_EQ(check_writable(tensor), unimplemented("a variant of type my::Thing has no bytes"));
  }
  Tensor deep = optional_of({});
  for (int depth = 1; depth < kMaxWrittenVariantDepth; ++depth) deep = optional_of({deep});
  EXPECT_TRUE(check_writable(deep).ok());
  EXPECT_EQ(check_writable(optional_of({deep})).code(), Code::kInvalidArgument);
}

// Each holds the next one twice: few objects, and more bytes than there are.
TEST(VariantData, WhatIsHeldTwiceIsCountedTwiceAndSeenOnce) {
  Tensor value = optional_of({Tensor::scalar(1.f)});
  for (int depth = 1; depth < kMaxWrittenVariantDepth; ++depth) value = optional_of({value, value});
  EXPECT_NE(check_writable(value).message().find("bytes in a message"), std::string::npos);
  // Lists without items, and items that were never set, have bytes too.
  const Tensor empty = list_of(DType::kFloat, PartialShape(), {});
  Tensor many(DType::kVariant, {1 << 15});
  std::ranges::fill(many.flat<Variant>(), empty.scalar<Variant>());
  EXPECT_TRUE(check_writable(many).ok());
  EXPECT_NE(check_writable(optional_of(std::vector<Tensor>(1 << 9, many))).message().find("bytes in a message"),
            std::string::npos);
  const Tensor unset = list_of(DType::kFloat, PartialShape(), std::vector<Tensor>(1 << 18));
  EXPECT_TRUE(check_writable(unset).ok());
  EXPECT_FALSE(check_writable(list_of(DType::kVariant, PartialShape(), std::vector<Tensor>(1 << 13, unset))).ok());
}

// A byte of the metadata is an item.
TEST(VariantData, ItemsThatWereNeverSetCount) {
  constexpr std::int64_t kItems = 1000;
  const Tensor list = list_of(DType::kFloat, PartialShape(), std::vector<Tensor>(kItems));
  const VariantData data = to_variant_data(list.scalar<Variant>());
  EXPECT_TRUE(read_error(data, {.bytes_left = kItems * std::int64_t{sizeof(Tensor) + 8}}).ok());
  EXPECT_EQ(read_error(data, {.bytes_left = kItems * std::int64_t{sizeof(Tensor)} - 1}).code(),
            Code::kResourceExhausted);
  // 100 million of them, each the first: there is not even memory for their numbers.
  std::string metadata = "\x80\xc2\xd7\x2f";
  metadata.resize(metadata.size() + 100'000'000);
  EXPECT_EQ(read_error({kList, std::move(metadata), {}}).code(), Code::kResourceExhausted);
}

TEST(VariantData, WhatReadersWouldRefuseIsNotWritten) {
  const auto writable = [](const Tensor& variants, std::int64_t bytes) {
    return check_writable(variants, {.bytes_left = bytes}).ok();
  };
  const Tensor scalars = list_of(DType::kFloat, PartialShape(), std::vector<Tensor>(100, Tensor::scalar(1.f)));
  EXPECT_TRUE(writable(scalars, 30'000));
  EXPECT_FALSE(writable(scalars, 100 * 256));
  const Tensor unset = list_of(DType::kFloat, PartialShape(), std::vector<Tensor>(100));
  EXPECT_TRUE(writable(unset, 12'000));
  EXPECT_FALSE(writable(unset, 100 * std::int64_t{sizeof(Tensor)}));
  // Numbers lie in the message.
  EXPECT_TRUE(writable(list_of(DType::kFloat, PartialShape(), {Tensor(DType::kFloat, {1'000'000})}), 1000));
  const Status status = check_writable(scalars, {.bytes_left = 1600});
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("at most 1500"), std::string::npos) << status.to_string();
}

TEST(VariantData, MetadataOfListsCutShort) {
  const Tensor list = list_of(DType::kInt32, {-1, 300}, {Tensor(), Tensor(DType::kInt32, {1, 300}), Tensor()}, 1000);
  const VariantData data = to_variant_data(list.scalar<Variant>());
  EXPECT_EQ(read_text(data), whole_text(list));
  for (std::size_t size = 0; size < data.metadata.size(); ++size) {
    const Status status = read_error({data.type_name, data.metadata.substr(0, size), data.tensors});
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << size << " " << status.to_string();
  }
}

TEST(VariantData, MetadataOfListsThatDoesNotFit) {
  const Tensor item = Tensor::scalar<std::int32_t>(1);
  const auto refused = [&](const std::string& metadata, const std::string& text, std::vector<Tensor> tensors) {
    const Status status = read_error({kList, metadata, std::move(tensors)});
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << text;
    EXPECT_NE(status.message().find(text), std::string::npos) << status.to_string();
  };
  const std::string tail = "\x03" + kMinusOne;
  EXPECT_EQ(read_text({kList, bytes({1, 1}) + tail, {item}}),
            whole_text(list_of(DType::kInt32, PartialShape::scalar(), {item, Tensor()})));
  refused(bytes({1, 2}) + tail, "item 2 of 2", {item});                         // past the end
  refused(bytes({2, 2, 1}) + tail, "item 1 of 4", {item, item});                // not in order
  refused(bytes({2, 0, 0}) + tail, "item 0 of 3", {item});                      // twice
  refused(bytes({1}) + kMinusOne + tail, "18446744073709551615 of 2", {item});  // a huge one
  refused("\xff\xff\xff\xff\x0f" + tail, "never set", {item});                  // a huge number of them
  refused(bytes({0, 0}) + kMinusOne, "unknown type 0", {});
  refused(bytes({0, 101}) + kMinusOne, "unknown type 101", {});
  refused(bytes({0}) + kMinusOne + kMinusOne, "unknown type", {});
  refused(bytes({0}) + tail + "\x12\xff", "no shape", {});
  refused(bytes({0}) + tail + "\x12\x02\x08\x02", "has an item int32 []", {item});  // of another shape
  refused(bytes({0, 1}) + kMinusOne, "list of float [] has an item int32", {item});
}

TEST(VariantData, OtherThingsThatDoNotFit) {
  const std::string optional = "tensorflow::data::Optional";
  const Tensor item = Tensor::scalar(1.f);
  for (const VariantData& data :
       {VariantData{optional, "", {}}, VariantData{optional, bytes({0, 0}), {}}, VariantData{optional, bytes({1}), {}},
        VariantData{optional, bytes({0}), {item}}, VariantData{"tensorflow::Tensor", "", {}},
        VariantData{"tensorflow::Tensor", "", {item, item}}, VariantData{"", "x", {}}, VariantData{"", "", {item}}}) {
    EXPECT_EQ(read_error(data).code(), Code::kInvalidArgument) << data.type_name;
  }
  EXPECT_EQ(read_error({"tensorflow::DatasetVariantWrapper", "", {}}),
            unimplemented("variants of type \"tensorflow::DatasetVariantWrapper\" cannot be read"));
  EXPECT_LT(read_error({std::string(1 << 20, 'x'), "", {}}).message().size(), 300u);
}

}  // namespace tutti::variant_data_test
