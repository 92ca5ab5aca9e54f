#include "tutti/io/tensor_slice.h"

#include "proto/tensor_slice.pb.h"
#include "tests/io/io_support.h"
#include "tutti/io/internal/slice_assembly.h"
#include "tutti/io/internal/slice_codec.h"
#include "tutti/io/internal/slice_copy.h"

namespace tutti::tensor_slice_test {

using testing::from_hex;
using testing::patterned;

TensorSlice slice(std::string_view text) { return TensorSlice::parse(text).value_or_throw(); }

TEST(TensorSlice, ParseAndPrint) {
  for (const char* text : {"-", "0,2", "-:-", "1,2:-:0,7", ""}) EXPECT_EQ(slice(text).to_string(), text);
  EXPECT_EQ(slice("").rank(), 0);
  EXPECT_TRUE(slice("-:0,3").covers({2, 3}));
  EXPECT_FALSE(slice("-:0,2").covers({2, 3}));
  EXPECT_EQ(*slice("1,2:-").shape_in({4, 3}), Shape({2, 3}));
}

// The texts are TensorFlow's.
TEST(TensorSlice, Refused) {
  const auto message = [](std::string_view text) { return parse_shape_and_slice(text).status(); };
  EXPECT_EQ(message("3 1"), invalid_argument("Expected a pair of numbers or '-' but got '1': string = 1"));
  EXPECT_EQ(message("2 0,3"), internal_error("Extent in dimension 0 out of bounds: shape = [2], slice = 0,3"));
  EXPECT_EQ(message("2 -1,1"),
            invalid_argument(
                "Expected non-negative start and positive length but got start = -1, length = 1: string = -1,1"));
  EXPECT_EQ(message("2 0,0").code(), Code::kInvalidArgument);
  EXPECT_EQ(message("2"), invalid_argument("Need least two elements in shape_and_slice specification: 2"));
  EXPECT_EQ(message(""), invalid_argument("Need least two elements in shape_and_slice specification: "));
  EXPECT_EQ(message("2 2 -"), internal_error("Mismatching ranks: shape = [2,2], slice = -"));
  EXPECT_EQ(message("a -"), invalid_argument("Non numerical dimension in shape_and_slice: a -"));
  EXPECT_EQ(message("-2 -").code(), Code::kInvalidArgument);
  EXPECT_EQ(message("9223372036854775807 9223372036854775807 -:-").code(), Code::kInvalidArgument);
  EXPECT_EQ(message("5 4,9223372036854775807").code(), Code::kInternal);
  EXPECT_EQ(message("5 1,99999999999999999999").code(), Code::kInvalidArgument);
  std::string long_slice = "-";
  for (int i = 0; i < 1000; ++i) long_slice += ":-";
  EXPECT_FALSE(TensorSlice::parse(long_slice).ok());
}

TEST(TensorSlice, ShapeAndSlice) {
  const ShapeAndSlice both = parse_shape_and_slice("4 3 0,2:-").value_or_throw();
  EXPECT_EQ(both.full_shape, Shape({4, 3}));
  EXPECT_EQ(both.slice, slice("0,2:-"));
  EXPECT_EQ(both.slice_shape, Shape({2, 3}));
}

// Bytes worked out from the rules of OrderedCode, not by this code.
TEST(TensorSlice, Keys) {
  const auto tail = [](std::int64_t start, std::int64_t length) {
    return slice_key("w", TensorSlice({{start, length}})).substr(6);
  };
  EXPECT_EQ(slice_key("w", slice("0,2:-")), from_hex("00770001010280828"
                                                     "07f"));
  EXPECT_EQ(slice_key("", TensorSlice()), from_hex("00"
                                                   "0001"
                                                   "00"));
  EXPECT_EQ(slice_key(std::string("a\0\xff", 3), TensorSlice()), from_hex("00"
                                                                          "6100ffff00"
                                                                          "0001"
                                                                          "00"));
  EXPECT_EQ(tail(0, 1), from_hex("8081"));
  EXPECT_EQ(tail(63, 64), from_hex("bfc040"));
  EXPECT_EQ(tail(100, 8191), from_hex("c064dfff"));
  EXPECT_EQ(tail(8192, 1000000), from_hex("e02000ef4240"));
  EXPECT_EQ(tail(-64, -65), from_hex("403fbf"));
  EXPECT_EQ(tail(INT64_MAX, INT64_MIN), from_hex("ffc07fffffffffffffff"
                                                 "003f8000000000000000"));
}

TEST(TensorSlice, Messages) {
  for (const char* text : {"-", "0,2", "1,2:-:0,7", ""}) {
    tensorflow::TensorSliceProto proto;
    encode_slice(slice(text), &proto);
    EXPECT_EQ(decode_slice(proto).value_or_throw(), slice(text));
  }
  tensorflow::TensorSliceProto bad;
  bad.add_extent()->set_length(-2);
  EXPECT_EQ(decode_slice(bad).status().code(), Code::kDataLoss);
  bad.Clear();
  bad.add_extent()->set_length(1);
  bad.mutable_extent(0)->set_start(-1);
  EXPECT_EQ(decode_slice(bad).status().code(), Code::kDataLoss);
  bad.Clear();
  for (int i = 0; i < 1000; ++i) bad.add_extent();
  EXPECT_EQ(decode_slice(bad).status().code(), Code::kDataLoss);
}

// Element by element.
Tensor slow_cut(const Tensor& whole, const TensorSlice& part) {
  const Box box = box_of(part, whole.shape());
  Tensor result(whole.dtype(), *part.shape_in(whole.shape()));
  std::int64_t out = 0;
  for (std::int64_t i = 0; i < whole.num_elements(); ++i) {
    std::int64_t rest = i;
    bool inside = true;
    for (int d = whole.rank() - 1; d >= 0; --d) {
      const std::int64_t at = rest % whole.dim(d);
      rest /= whole.dim(d);
      inside &= at >= box.start[d] && at < box.start[d] + box.length[d];
    }
    if (inside) copy_elements(whole, i, result, out++, 1);
  }
  return result;
}

TEST(TensorSlice, Cut) {
  const Tensor whole = patterned(DType::kInt32, {4, 3, 5});
  for (const char* text : {"-:-:-", "1,2:-:-", "-:1,1:-", "-:-:2,3", "3,1:0,2:4,1", "0,4:2,1:0,5"}) {
    EXPECT_TRUE(bitwise_equal(cut(whole, slice(text), heap_allocator()).value_or_throw(), slow_cut(whole, slice(text))))
        << text;
  }
  EXPECT_TRUE(
      bitwise_equal(cut(Tensor::scalar(3.f), slice(""), heap_allocator()).value_or_throw(), Tensor::scalar(3.f)));
}

class Assembly : public ::testing::Test {
 protected:
  Result<Tensor> get(const std::vector<const char*>& stored, const char* wanted, std::uint64_t bytes = 1 << 20) {
    StoredParts parts{.name = "w", .dtype = whole_.dtype(), .full_shape = whole_.shape(), .slices = {}};
    for (const char* text : stored) parts.slices.push_back(slice(text));
    return assemble(
        parts, slice(wanted), bytes, [&](const TensorSlice& part) -> Result<Tensor> { return slow_cut(whole_, part); },
        heap_allocator());
  }
  Tensor whole_ = patterned(DType::kString, {4, 6});
};

TEST_F(Assembly, AnyPart) {
  const std::vector<const char*> quarters{"0,2:0,3", "0,2:3,3", "2,2:0,3", "2,2:3,3"};
  const std::vector<const char*> rows{"0,1:-", "1,2:0,6", "3,1:-"};
  for (const char* wanted : {"-:-", "0,4:0,6", "1,2:2,2", "0,2:0,3", "3,1:5,1", "1,2:-", "-:1,4"}) {
    for (const auto& stored : {quarters, rows}) {
      Result<Tensor> part = get(stored, wanted);
      ASSERT_TRUE(part.ok()) << part.status().to_string();
      EXPECT_TRUE(bitwise_equal(*part, slow_cut(whole_, slice(wanted)))) << wanted;
    }
  }
}

TEST_F(Assembly, HolesAndOverlaps) {
  EXPECT_EQ(get({"0,2:-"}, "-:-").status(),
            invalid_argument("Does not have sufficient slices for partitioned tensor w to restore in slice_spec: -:-"));
  EXPECT_TRUE(get({"0,2:-"}, "1,1:-").ok());
  EXPECT_EQ(get({"0,2:-", "1,3:-"}, "-:-").status().code(), Code::kInternal);
  // As many elements as there should be, but some twice and others not at all.
  EXPECT_EQ(get({"0,2:-", "1,2:-"}, "-:-").status().code(), Code::kInternal);
  EXPECT_EQ(get({"0,9:-"}, "-:-").status().code(), Code::kDataLoss);
  EXPECT_EQ(get({"-"}, "-:-").status().code(), Code::kDataLoss);
}

TEST_F(Assembly, AllocatesNoMoreThanIsStored) {
  whole_ = Tensor(DType::kFloat, {0, 5});
  EXPECT_EQ(get({}, "-:-")->shape(), Shape({0, 5}));
  StoredParts parts{.name = "w", .dtype = DType::kFloat, .full_shape = Shape({1'000'000'000, 1000}), .slices = {}};
  parts.slices = {slice("0,500000000:-"), slice("500000000,500000000:-")};
  const Result<Tensor> huge = assemble(
      parts, TensorSlice::whole(2), 1 << 20, [](const TensorSlice&) -> Result<Tensor> { return Tensor::scalar(1.f); },
      heap_allocator());
  EXPECT_EQ(huge.status().code(), Code::kDataLoss);
}

}  // namespace tutti::tensor_slice_test
