#include <gtest/gtest.h>

#include <vector>

#include "tests/core/temp_directory.h"
#include "tests/support/kernel_runner.h"
#include "tutti/core/file_system.h"

namespace tutti::table_ops_test {

using testing::KernelRunner;
using testing::value_of;

class TableOps : public ::testing::Test {
 protected:
  TableOps() { runner_.step().services.files = &local_file_system(); }
  std::unique_ptr<testing::KernelRun> start(const std::string& op, AttrMap attrs, std::vector<Value> inputs) {
    return runner_.run(op + std::to_string(count_++), op, std::move(attrs), std::move(inputs));
  }
  Value make(const std::string& op, DType key, DType value) {
    auto run = start(op, {{"key_dtype", key}, {"value_dtype", value}}, {});
    EXPECT_TRUE(run->status().ok()) << run->status().to_string();
    return run->output(0);
  }
  KernelRunner runner_;
  int count_ = 0;
};

TEST_F(TableOps, BothFormsOfHandles) {
  for (const std::string suffix : {"", "V2"}) {
    const Value table = make("MutableHashTable" + suffix, DType::kString, DType::kInt64);
    EXPECT_EQ(table.ref != nullptr, suffix.empty());
    const Value keys = value_of(Tensor::vector<std::string>({"x", "y"}));
    const Value values = value_of(Tensor::vector<std::int64_t>({1, 2}));
    ASSERT_TRUE(start("LookupTableInsert" + suffix, {}, {table, keys, values})->status().ok());
    auto found =
        start("LookupTableFind" + suffix, {},
              {table, value_of(Tensor::vector<std::string>({"y", "z"})), value_of(Tensor::scalar<std::int64_t>(7))});
    ASSERT_TRUE(found->status().ok()) << found->status().to_string();
    EXPECT_TRUE(bitwise_equal(found->tensor(), Tensor::vector<std::int64_t>({2, 7})));
    EXPECT_EQ(start("LookupTableSize" + suffix, {}, {table})->tensor().scalar<std::int64_t>(), 2);
    EXPECT_EQ(start("LookupTableFind" + suffix, {}, {table, values, keys})->status().code(), Code::kInvalidArgument);
  }
  const Value table = make("HashTableV2", DType::kString, DType::kInt64);
  EXPECT_EQ(start("LookupTableFindV2", {},
                  {table, value_of(Tensor::vector<std::int64_t>({1})), value_of(Tensor::scalar(std::string("a")))})
                ->status(),
            invalid_argument("Signature mismatch, have: resource, int64, string->string expected: resource, string, "
                             "int64->int64"));
}

TEST_F(TableOps, SharedNamesMustAgree) {
  const auto shared = [&](DType value) {
    return start("MutableHashTableV2", {{"key_dtype", DType::kInt64}, {"value_dtype", value}, {"shared_name", "t"}}, {})
        ->status();
  };
  EXPECT_TRUE(shared(DType::kFloat).ok());
  EXPECT_EQ(shared(DType::kInt64),
            invalid_argument("Conflicting key/value dtypes int64->int64 with int64-float for table t"));
}

TEST_F(TableOps, FilledFromAFile) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/vocabulary";
  ASSERT_TRUE(write_file(local_file_system(), path, "alpha\t10\r\nbeta\t20\ngamma\t30").ok());
  const std::string gap = directory.path() + "/gap";
  ASSERT_TRUE(write_file(local_file_system(), gap, "alpha\t10\r\nbeta\t20\n\ngamma\t30\n").ok());
  const auto fill = [&](const Value& table, const std::string& file, AttrMap attrs) {
    attrs.emplace("key_index", -2);
    attrs.emplace("value_index", -1);
    return start("InitializeTableFromTextFileV2", attrs, {table, value_of(Tensor::scalar(file))})->status();
  };
  const auto look = [&](const Value& table, const std::string& key) {
    auto run = start("LookupTableFindV2", {},
                     {table, value_of(Tensor::scalar(key)), value_of(Tensor::scalar<std::int64_t>(-5))});
    EXPECT_TRUE(run->status().ok()) << run->status().to_string();
    return run->status().ok() ? run->tensor().scalar<std::int64_t>() : -100;
  };
  const Value lines = make("HashTableV2", DType::kString, DType::kInt64);
  ASSERT_TRUE(fill(lines, path, {{"offset", 100}}).ok());
  EXPECT_EQ(look(lines, "beta\t20"), 101);
  EXPECT_EQ(look(lines, "gamma\t30"), 102);
  EXPECT_TRUE(fill(lines, path, {}).ok()) << "a second time";
  EXPECT_EQ(fill(lines, path, {{"vocab_size", 2}}).code(), Code::kFailedPrecondition);

  const Value columns = make("HashTableV2", DType::kString, DType::kInt64);
  EXPECT_EQ(fill(columns, gap, {}), invalid_argument("Invalid content in ", gap, ": empty line found at position 19."));
  EXPECT_EQ(
      fill(columns, path, {{"key_index", 0}, {"value_index", 2}}),
      invalid_argument("Invalid number of columns in ", path, " line 0 (alpha\\t10) : expected at least 3 got 2"));
  EXPECT_EQ(fill(columns, path, {{"vocab_size", 9}}),
            invalid_argument("Invalid vocab_size in ", path, ": expected 9 but got 3"));
  EXPECT_EQ(fill(columns, path, {{"key_index", 0}, {"value_index", 0}}),
            invalid_argument("Field alpha in line 0 is not a valid int64."));
  EXPECT_EQ(fill(columns, "", {}), invalid_argument("filename cannot be empty."));
  EXPECT_EQ(fill(columns, path + "2", {}).code(), Code::kNotFound);
  EXPECT_EQ(fill(columns, path, {{"delimiter", "::"}}), invalid_argument("delimiter should be only 1 char"));
  ASSERT_TRUE(fill(columns, path, {{"key_index", 0}, {"value_index", 1}, {"vocab_size", 2}}).ok());
  EXPECT_EQ(look(columns, "beta"), 20);
}

}  // namespace tutti::table_ops_test
