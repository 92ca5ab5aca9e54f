#include "tutti/kernels/resources/lookup_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>
#include <vector>

namespace tutti::lookup_table_test {

Tensor ints(std::initializer_list<std::int64_t> values) { return Tensor::vector<std::int64_t>(values); }
Tensor floats(std::initializer_list<float> values) { return Tensor::vector<float>(values); }
Tensor words(std::initializer_list<std::string> values) { return Tensor::vector<std::string>(values); }

Tensor found(const LookupTable& table, const Tensor& keys, const Tensor& otherwise) {
  return table.find(keys, otherwise).value_or_throw();
}

TEST(HashTable, IsFilledOnce) {
  auto table =
      make_hash_table({.name = "t", .key_dtype = DType::kString, .value_dtype = DType::kInt64}).value_or_throw();
  const Tensor none = Tensor::scalar(std::int64_t{-1});
  EXPECT_EQ(table->find(words({"a"}), none).status(), failed_precondition("Table not initialized."));
  EXPECT_EQ(table->export_all().status(), aborted("HashTable is not initialized."));
  EXPECT_EQ(table->insert(words({"a"}), ints({1})).code(), Code::kUnimplemented);
  EXPECT_EQ(table->remove(words({"a"})).code(), Code::kUnimplemented);
  EXPECT_EQ(table->initialise(words({"a", "b", "a"}), ints({1, 2, 3})),
            failed_precondition("HashTable has different value for same key. Key a has 1 and trying to add value 3"));
  EXPECT_EQ(table->size(), 0) << "a refused initialisation leaves nothing";
  EXPECT_EQ(table->import_all(words({}), ints({})), invalid_argument("keys and values cannot be empty tensors."));
  ASSERT_TRUE(table->initialise(words({"a", "b"}), ints({1, 2})).ok());
  EXPECT_TRUE(table->initialise(words({"a", "b"}), ints({1, 2})).ok()) << "the same again";
  EXPECT_EQ(table->initialise(words({"c"}), ints({3})),
            failed_precondition("Table was already initialized with different data."));
  EXPECT_TRUE(bitwise_equal(found(*table, Tensor::of<std::string>({2, 2}, {"a", "b", "z", "a"}), none),
                            Tensor::of<std::int64_t>({2, 2}, {1, 2, -1, 1})));
  EXPECT_EQ(table->find(words({"a"}), ints({1, 2})).status(),
            invalid_argument("Expected shape [] or [1] for default value, got [2]"));
  EXPECT_EQ(table->find(ints({1}), none).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(found(*table, Tensor(DType::kString, {0}), none).shape(), (Shape{0}));
}

TEST(HashTable, RepeatedKeysMayAgree) {
  auto table = make_hash_table({.value_dtype = DType::kString}).value_or_throw();
  ASSERT_TRUE(table->initialise(ints({1, 1}), words({"x", "x"})).ok());
  EXPECT_EQ(table->size(), 1);
  EXPECT_FALSE(make_hash_table({.key_dtype = DType::kFloat}).ok());
}

TEST(MutableHashTable, AgainstAMap) {
  for (const DType key_dtype : {DType::kInt32, DType::kInt64, DType::kString}) {
    auto table = make_mutable_hash_table({.key_dtype = key_dtype, .value_shape = Shape{2}}).value_or_throw();
    std::map<std::int64_t, float> expected;
    std::mt19937 engine(1);
    const auto key_of = [&](std::int64_t number) {
      if (key_dtype == DType::kInt32) return Tensor::vector<std::int32_t>({static_cast<std::int32_t>(number)});
      return key_dtype == DType::kInt64 ? ints({number}) : words({str_cat("key ", number)});
    };
    for (int i = 0; i < 2000; ++i) {
      const std::int64_t number = static_cast<std::int64_t>(engine() % 97) - 40;
      if (engine() % 3 == 0) {
        ASSERT_TRUE(table->remove(key_of(number)).ok());
        expected.erase(number);
      } else {
        const auto value = static_cast<float>(i);
        ASSERT_TRUE(table->insert(key_of(number), Tensor::of<float>({1, 2}, {value, -value})).ok());
        expected[number] = value;
      }
    }
    EXPECT_EQ(table->size(), static_cast<std::int64_t>(expected.size()));
    for (std::int64_t number = -45; number < 60; ++number) {
      const Tensor got = found(*table, key_of(number), floats({0.5, 0.25}));
      const auto it = expected.find(number);
      const float want = it == expected.end() ? 0.5f : it->second;
      EXPECT_EQ(got.data<float>()[0], want);
      EXPECT_EQ(got.data<float>()[1], it == expected.end() ? 0.25f : -want);
    }
    const auto [keys, values] = table->export_all().value_or_throw();
    EXPECT_EQ(values.shape(), (Shape{table->size(), 2}));
    ASSERT_TRUE(table->import_all(keys.slice(0, 3), values.slice(0, 3)).ok());
    EXPECT_EQ(table->size(), 3);
    EXPECT_TRUE(bitwise_equal(found(*table, keys.slice(0, 3), floats({0, 0})), values.slice(0, 3)));
  }
}

TEST(MutableHashTable, ShapesMustFit) {
  auto table = make_mutable_hash_table({.value_shape = Shape{2}}).value_or_throw();
  EXPECT_EQ(table->insert(ints({1}), floats({1, 2})), invalid_argument("Expected shape [1,2] for value, got [2]"));
  EXPECT_EQ(table->find(ints({1}), Tensor::scalar(0.0f)).status(),
            invalid_argument("Expected shape [2] or [1,2] for default value, got []"));
  EXPECT_EQ(table->initialise(ints({1}), floats({1})).code(), Code::kInvalidArgument);
  const Tensor each = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_TRUE(bitwise_equal(found(*table, ints({5, 6}), each), each)) << "a default for each key";
}

std::shared_ptr<LookupTable> dense(std::int64_t buckets = 4) {
  return make_dense_hash_table({}, {.empty_key = Tensor::scalar(std::int64_t{0}),
                                    .deleted_key = Tensor::scalar(std::int64_t{-1}),
                                    .initial_num_buckets = buckets})
      .value_or_throw();
}

TEST(DenseHashTable, BucketsAreTensorFlows) {
  auto table = dense();
  ASSERT_TRUE(table->insert(ints({11, 12, 13}), floats({1, 2, 3})).ok());
  auto contents = table->export_all().value_or_throw();
  EXPECT_TRUE(bitwise_equal(contents.first, Tensor::of<std::int64_t>({4, 1}, {12, 13, 0, 11})));
  EXPECT_TRUE(bitwise_equal(contents.second, Tensor::of<float>({4, 1}, {2, 3, 0, 1})));
  ASSERT_TRUE(table->insert(ints({14, 15}), floats({4, 5})).ok());
  ASSERT_TRUE(table->remove(ints({12})).ok());
  contents = table->export_all().value_or_throw();
  EXPECT_TRUE(bitwise_equal(contents.first, Tensor::of<std::int64_t>({8, 1}, {0, 0, 0, 11, -1, 13, 14, 15})));
  EXPECT_EQ(table->size(), 4);
  auto other = dense(16);
  ASSERT_TRUE(other->import_all(contents.first, contents.second).ok());
  EXPECT_EQ(other->size(), 4);
  EXPECT_TRUE(bitwise_equal(found(*other, ints({15, 12}), Tensor::scalar(-1.0f)), floats({5, -1})));

  auto text = make_dense_hash_table({.key_dtype = DType::kString}, {.empty_key = Tensor::scalar(std::string()),
                                                                    .deleted_key = Tensor::scalar(std::string("$")),
                                                                    .initial_num_buckets = 8})
                  .value_or_throw();
  ASSERT_TRUE(text->insert(words({"apple", "banana", "a much longer key of text"}), floats({1, 2, 3})).ok());
  EXPECT_TRUE(
      bitwise_equal(text->export_all().value_or_throw().second, Tensor::of<float>({8, 1}, {0, 2, 1, 0, 0, 0, 3, 0})));
}

TEST(DenseHashTable, KeyBehindARemovedOneIsFoundAndNotDoubled) {
  auto table = dense(8);
  ASSERT_TRUE(table->insert(ints({1, 9, 17}), floats({1, 9, 17})).ok());  // all hash to bucket 1
  ASSERT_TRUE(table->remove(ints({1})).ok());
  ASSERT_TRUE(table->insert(ints({17}), floats({170})).ok());
  EXPECT_EQ(table->size(), 2);
  ASSERT_TRUE(table->remove(ints({17})).ok());
  EXPECT_TRUE(bitwise_equal(found(*table, ints({1, 9, 17}), Tensor::scalar(-1.0f)), floats({-1, 9, -1})));
  for (std::int64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(table->insert(ints({100 + i}), floats({1})).ok());
    ASSERT_TRUE(table->remove(ints({100 + i})).ok());
  }
  EXPECT_EQ(table->size(), 1) << "nothing but removed buckets left, and it still ends";
}

TEST(DenseHashTable, Refusals) {
  auto table = dense();
  EXPECT_EQ(table->insert(ints({0}), floats({1})),
            invalid_argument("Using the empty_key as a table key is not allowed"));
  EXPECT_EQ(table->remove(ints({-1})), invalid_argument("Using the deleted_key as a table key is not allowed"));
  EXPECT_EQ(table->import_all(ints({1, 2}), floats({1, 2})).code(), Code::kInvalidArgument);
  const auto refused = [](TableOptions options, DenseTableOptions dense) {
    return make_dense_hash_table(std::move(options), std::move(dense)).status();
  };
  const Tensor zero = Tensor::scalar(std::int64_t{0}), one = Tensor::scalar(std::int64_t{1});
  EXPECT_EQ(refused({}, {.empty_key = zero, .deleted_key = one, .initial_num_buckets = 5}),
            invalid_argument("Number of buckets must be at least 4 and a power of 2, got: 5"));
  EXPECT_EQ(refused({}, {.empty_key = zero, .deleted_key = zero}),
            invalid_argument("Empty and deleted keys cannot be equal"));
  EXPECT_EQ(refused({.value_shape = Shape{2, 2}}, {.empty_key = zero, .deleted_key = one}),
            invalid_argument("Empty value must be a scalar or a vector, got shape [2,2]"));
  EXPECT_EQ(refused({}, {.empty_key = ints({1}), .deleted_key = one}),
            invalid_argument("Empty and deleted keys must have same shape, got shapes: [1] and []"));
  EXPECT_FALSE(refused({}, {.empty_key = zero, .deleted_key = one, .max_load_factor = 1}).ok());
  auto tiny = make_dense_hash_table({}, {.empty_key = zero, .deleted_key = one, .max_load_factor = 1e-30F});
  ASSERT_TRUE(tiny.ok());
  EXPECT_EQ((*tiny)->insert(ints({5}), floats({1})).code(), Code::kResourceExhausted);
}

TEST(MutableHashTable, ThreadsShareIt) {
  auto table = make_mutable_hash_table({}).value_or_throw();
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t i = 0; i < 300; ++i) {
        EXPECT_TRUE(table->insert(ints({t * 1000 + i}), floats({static_cast<float>(t)})).ok());
        EXPECT_EQ(found(*table, ints({t * 1000 + i}), Tensor::scalar(-1.0f)).scalar<float>(), static_cast<float>(t));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(table->size(), 900);
}

}  // namespace tutti::lookup_table_test
