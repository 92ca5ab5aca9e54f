// A directory of a test's own, removed with all in it at the end.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace tutti {

class TempDirectory {
 public:
  TempDirectory() : path_(::testing::TempDir() + "tutti_core_XXXXXX") {
    if (!mkdtemp(path_.data())) ADD_FAILURE() << "mkdtemp " << path_;
  }
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace tutti
