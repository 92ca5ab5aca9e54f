// Runs single ops on files in a directory of the test's own.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/core/temp_directory.h"
#include "tests/support/kernel_runner.h"
#include "tutti/core/file_system.h"

namespace tutti::testing {

class FileOpsFixture : public ::testing::Test {
 protected:
  FileOpsFixture() { use(local_file_system()); }
  void use(FileSystem& files) { runner_.step().services.files = &files; }

  // Every run is a node of its own.
  std::unique_ptr<KernelRun> run(const std::string& op, const std::vector<Tensor>& inputs, AttrMap attrs = {}) {
    std::vector<Value> values;
    for (const Tensor& tensor : inputs) values.push_back(value_of(tensor));
    return runner_.run(op + std::to_string(count_++), op, std::move(attrs), std::move(values));
  }
  Status status(const std::string& op, const std::vector<Tensor>& inputs, AttrMap attrs = {}) {
    return run(op, inputs, std::move(attrs))->status();
  }
  static Tensor text(const std::string& value) { return Tensor::scalar(value); }
  static Tensor texts(const std::vector<std::string>& values) { return Tensor::vector<std::string>(values); }

  TempDirectory directory_;
  KernelRunner runner_;
  int count_ = 0;
};

}  // namespace tutti::testing
