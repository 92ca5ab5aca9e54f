#include "tutti/core/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "tutti/core/borrowed_buffer.h"

namespace tutti::tensor_test {

// Gives no memory.
class EmptyAllocator : public Allocator {
 public:
  BufferPtr allocate(std::size_t) override { return nullptr; }
  AllocatorStats stats() const override { return {}; }
};

class Number : public VariantObject {
 public:
  explicit Number(int value) : value_(value) {}
  std::string type_name() const override { return "Number"; }
  std::string debug_string() const override { return str_cat("Number ", value_); }
  int value() const { return value_; }

 private:
  const int value_;
};

TEST(Tensor, DefaultHoldsNothing) {
  const Tensor tensor;
  EXPECT_FALSE(tensor.has_value());
  EXPECT_EQ(tensor.dtype(), DType::kInvalid);
  EXPECT_EQ(tensor.bytes(), 0u);
  EXPECT_EQ(tensor.raw(), nullptr);
  EXPECT_FALSE(tensor.unique());
  EXPECT_EQ(tensor.to_string(), "<no tensor>");
  EXPECT_FALSE(tensor.clone()->has_value());
}

TEST(Tensor, ZeroedForUsers) {
  const Tensor tensor(DType::kDouble, Shape{3, 5});
  EXPECT_EQ(tensor.bytes(), 15 * sizeof(double));
  for (const double value : tensor.flat<double>()) EXPECT_EQ(value, 0);
  const Tensor strings(DType::kString, Shape{2});
  for (const std::string& value : strings.flat<std::string>()) EXPECT_EQ(value, "");
}

TEST(Tensor, EveryDTypeCanBeMadeClonedAndPrinted) {
  for (int number = 1; number <= kMaxDType; ++number) {
    const auto dtype = static_cast<DType>(number);
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{0, 4}}) {
      const Tensor tensor(dtype, shape);
      EXPECT_EQ(tensor.dtype(), dtype);
      EXPECT_EQ(tensor.bytes(), element_stride(dtype) * static_cast<std::size_t>(shape.num_elements()));
      const std::size_t alignment = is_object(dtype) ? alignof(std::string) : kTensorAlignment;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.raw()) % alignment, 0u);
      const Tensor copy = tensor.clone().value_or_throw();
      EXPECT_TRUE(bitwise_equal(tensor, copy));
      EXPECT_NE(tensor.buffer(), copy.buffer());
      EXPECT_TRUE(tensor.to_string().starts_with(str_cat(dtype_name(dtype), " ", shape, " {"))) << tensor.to_string();
    }
  }
}

TEST(Tensor, Builders) {
  EXPECT_EQ(Tensor::scalar(2.5f).to_string(), "float [] {2.5}");
  EXPECT_EQ(Tensor::scalar(2.5f).scalar<float>(), 2.5f);
  EXPECT_EQ(Tensor::scalar<std::string>("hi").scalar<std::string>(), "hi");
  EXPECT_EQ(Tensor::vector<std::int64_t>({1, 2, 3}).shape(), Shape{3});
  const Tensor matrix = Tensor::of<int>(Shape{2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(matrix.rank(), 2);
  EXPECT_EQ(matrix.dim(1), 2);
  EXPECT_EQ(matrix.data<int>()[3], 4);
}

TEST(Tensor, Printing) {
  EXPECT_EQ((Tensor::of<float>(Shape{2, 2}, {1, 2, 3, 4})).to_string(3), "float [2,2] {1, 2, 3, ...}");
  EXPECT_EQ((Tensor::of<float>(Shape{2, 2}, {1, 2, 3, 4})).to_string(4), "float [2,2] {1, 2, 3, 4}");
  EXPECT_EQ(Tensor(DType::kFloat, Shape{0}).to_string(), "float [0] {}");
  EXPECT_EQ((Tensor::vector<bool>({true, false})).to_string(), "bool [2] {true, false}");
  EXPECT_EQ((Tensor::vector<std::uint8_t>({65, 200})).to_string(), "uint8 [2] {65, 200}");
  EXPECT_EQ((Tensor::vector<std::int8_t>({-1})).to_string(), "int8 [1] {-1}");
  EXPECT_EQ((Tensor::vector<Half>({Half(0.5f)})).to_string(), "half [1] {0.5}");
  EXPECT_EQ((Tensor::vector<Bfloat16>({Bfloat16(-2.0f)})).to_string(), "bfloat16 [1] {-2}");
  EXPECT_EQ((Tensor::vector<std::complex<float>>({{1, -2}})).to_string(), "complex64 [1] {(1,-2)}");
  EXPECT_EQ((Tensor::vector<std::string>({"a\n", "b"})).to_string(), "string [2] {\"a\\n\", \"b\"}");
  EXPECT_EQ(Tensor::scalar(ResourceHandle("/cpu:0", "c", "w")).to_string(), "resource [] {\"w\"}");
  EXPECT_EQ(Tensor::scalar(Variant(std::make_shared<Number>(7))).to_string(), "variant [] {Number 7}");
  EXPECT_EQ(Tensor::scalar(Variant()).to_string(), "variant [] {<empty>}");
  EXPECT_EQ(Tensor::scalar(0.1f).to_string(), "float [] {0.1}");
}

TEST(Tensor, CopiesShareMemory) {
  Tensor tensor = Tensor::vector<float>({1, 2});
  EXPECT_TRUE(tensor.unique());
  {
    const Tensor copy = tensor;
    EXPECT_EQ(copy.raw(), tensor.raw());
    EXPECT_FALSE(tensor.unique());
  }
  EXPECT_TRUE(tensor.unique());
}

TEST(Tensor, BorrowedMemoryIsNeverUnique) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  const std::weak_ptr<std::vector<float>> alive = owner;
  const auto bytes = std::as_bytes(std::span(*owner));
  Tensor tensor(DType::kFloat, Shape{3}, std::make_shared<BorrowedBuffer>(bytes, std::move(owner)));
  EXPECT_EQ(tensor.raw(), bytes.data());
  EXPECT_EQ(tensor.buffer().use_count(), 1);
  EXPECT_FALSE(tensor.unique());
  EXPECT_FALSE(alive.expired());
  tensor.reset();
  EXPECT_TRUE(alive.expired());
}

TEST(Tensor, SlicesShareMemory) {
  const Tensor tensor = Tensor::of<int>(Shape{3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor rows = tensor.slice(1, 3);
  EXPECT_EQ(rows.to_string(), "int32 [2,2] {3, 4, 5, 6}");
  EXPECT_EQ(rows.buffer(), tensor.buffer());
  EXPECT_EQ(rows.slice(1, 2).to_string(), "int32 [1,2] {5, 6}");
  EXPECT_EQ(tensor.slice(3, 3).num_elements(), 0);
  EXPECT_EQ(Tensor(DType::kFloat, Shape{0, 2}).slice(0, 0).shape(), (Shape{0, 2}));
  EXPECT_EQ(Tensor(DType::kFloat, Shape{4, 0}).slice(1, 3).shape(), (Shape{2, 0}));
  const Tensor strings = Tensor::vector<std::string>({"a", "b", "c"});
  EXPECT_EQ(strings.slice(1, 2).scalar<std::string>(), "b");
  const Tensor copy = rows.clone().value_or_throw();
  EXPECT_TRUE(bitwise_equal(copy, rows));
  EXPECT_TRUE(copy.unique());
}

TEST(Tensor, ReshapedSharesMemory) {
  const Tensor tensor = Tensor::of<int>(Shape{3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor flat = tensor.slice(1, 3).reshaped(Shape{4});
  EXPECT_EQ(flat.to_string(), "int32 [4] {3, 4, 5, 6}");
  EXPECT_EQ(flat.buffer(), tensor.buffer());
}

TEST(Tensor, ClonesObjectsDeeply) {
  Tensor strings = Tensor::vector<std::string>({"a", std::string(1000, 'x')});
  const Tensor copy = strings.clone().value_or_throw();
  strings.data<std::string>()[0] = "changed";
  EXPECT_EQ(copy.data<std::string>()[0], "a");
  EXPECT_EQ(copy.data<std::string>()[1].size(), 1000u);

  const auto number = std::make_shared<Number>(7);
  const Tensor variants = Tensor::scalar(Variant(number));
  const Tensor variants_copy = variants.clone().value_or_throw();
  EXPECT_EQ(variants_copy.scalar<Variant>().get<Number>(), number.get());
}

TEST(Tensor, CreateUsesTheAllocator) {
  const std::unique_ptr<Allocator> pool = make_pool_allocator();
  const Result<Tensor> tensor = Tensor::create(DType::kFloat, Shape{100}, *pool);
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(pool->stats().allocations, 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor->raw()) % kTensorAlignment, 0u);
}

TEST(Tensor, CreateSaysWhatItCouldNotAllocate) {
  EmptyAllocator none;
  EXPECT_EQ(Tensor::create(DType::kFloat, Shape{2, 3}, none).status(),
            resource_exhausted("allocating float [2,3]: 24 bytes are not available"));
  EXPECT_EQ(Tensor::create(DType::kInvalid, Shape{2}, none).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Tensor(DType::kFloat, Shape{2}).clone(none).status().code(), Code::kResourceExhausted);
}

TEST(Tensor, CreateRefusesSizesThatOverflow) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const DType dtype : {DType::kInt8, DType::kFloat, DType::kComplex128, DType::kString, DType::kResource}) {
    for (const Shape& shape : {Shape{kMost}, Shape{std::int64_t{1} << 60}, Shape{1 << 30, 1 << 30}}) {
      const Status status = Tensor::create(dtype, shape, heap_allocator()).status();
      EXPECT_EQ(status.code(), Code::kResourceExhausted);
      EXPECT_TRUE(status.message().starts_with(str_cat("allocating ", dtype_name(dtype), " ", shape, ": ")))
          << status.to_string();
    }
  }
  EXPECT_THROW(Tensor(DType::kFloat, Shape{kMost}), Error);
}

TEST(Tensor, BitwiseEqual) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(bitwise_equal(Tensor(), Tensor()));
  EXPECT_TRUE(bitwise_equal(Tensor::scalar(kNan), Tensor::scalar(kNan)));
  EXPECT_FALSE(bitwise_equal(Tensor::scalar(0.0f), Tensor::scalar(-0.0f)));
  EXPECT_FALSE(bitwise_equal(Tensor::scalar(1), Tensor::scalar(1u)));
  EXPECT_FALSE(bitwise_equal(Tensor(DType::kInt32, Shape{2}), Tensor(DType::kInt32, Shape{2, 1})));
  EXPECT_FALSE(bitwise_equal(Tensor(), Tensor(DType::kInt32, Shape{})));
  EXPECT_TRUE(bitwise_equal(Tensor(DType::kInt32, Shape{0}), Tensor(DType::kInt32, Shape{0})));
  EXPECT_TRUE(bitwise_equal(Tensor::vector<std::string>({"a"}), Tensor::vector<std::string>({"a"})));
  EXPECT_FALSE(bitwise_equal(Tensor::vector<std::string>({"a"}), Tensor::vector<std::string>({"b"})));
  const ResourceHandle handle("/cpu:0", "c", "w");
  EXPECT_TRUE(bitwise_equal(Tensor::scalar(handle), Tensor::scalar(handle)));
  EXPECT_FALSE(bitwise_equal(Tensor::scalar(handle), Tensor::scalar(ResourceHandle("/cpu:0", "c", "v"))));
  const Variant variant(std::make_shared<Number>(1));
  EXPECT_TRUE(bitwise_equal(Tensor::scalar(variant), Tensor::scalar(variant)));
  EXPECT_FALSE(bitwise_equal(Tensor::scalar(variant), Tensor::scalar(Variant(std::make_shared<Number>(1)))));
}

// The thread sanitizer checks that unique() orders the reads of the former holder before the writes.
TEST(Tensor, WritingInPlaceOnceUnique) {
  for (int i = 0; i < 100; ++i) {
    Tensor tensor = Tensor::vector<int>({i, i});
    std::thread reader([i, copy = tensor]() mutable {
      EXPECT_EQ(copy.data<int>()[1], i);
      copy = Tensor();
    });
    while (!tensor.unique()) std::this_thread::yield();
    tensor.data<int>()[1] = -1;
    reader.join();
  }
}

// A user's mistake is an exception, not the end of the process.
TEST(Tensor, MistakesThrow) {
  const auto expect_thrown = [](const auto& mistake, const std::string& words) {
    try {
      mistake();
      ADD_FAILURE() << "no error: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  const Tensor tensor(DType::kFloat, Shape{2, 3});
  expect_thrown([&] { (void)tensor.data<int>(); }, "float [2,3] read as int32");
  expect_thrown([&] { (void)tensor.scalar<double>(); }, "float [2,3] read as double");
  expect_thrown([&] { (void)Tensor(DType::kFloat, Shape{0}).scalar<float>(); }, "shape [0] has no element");
  expect_thrown([&] { (void)Tensor().flat<float>(); }, "read as float");
  expect_thrown(
      [&] {
        (void)Tensor::of<float>({3, 2}, {1, 2, 3});
      },
      "Tensor::of: 3 values for shape [3,2], which has 6 elements");
  for (const auto& rows : {std::pair{1, 3}, {-1, 1}, {2, 1}}) {
    expect_thrown([&] { (void)tensor.slice(rows.first, rows.second); },
                  str_cat("rows [", rows.first, ",", rows.second, ") of shape [2,3]"));
  }
  expect_thrown([&] { (void)Tensor::scalar(1.0f).slice(0, 0); }, "of shape []");
  expect_thrown([&] { (void)tensor.reshaped(Shape{5}); }, "[2,3] as [5]: 6 elements are not 5");
}

}  // namespace tutti::tensor_test
