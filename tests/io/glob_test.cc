#include "tutti/io/glob.h"

#include <filesystem>

#include "tests/io/io_support.h"

namespace tutti::glob_test {

using testing::spill;

TEST(Glob, Matches) {
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(glob_matches("a*b*c", "aXbYbZ"));
  EXPECT_TRUE(glob_matches("?[0-9a-c]?", "xbz"));
  EXPECT_FALSE(glob_matches("?[0-9a-c]?", "xdz"));
  EXPECT_TRUE(glob_matches("[!x]", "y"));
  EXPECT_FALSE(glob_matches("[^x]", "x"));
  EXPECT_TRUE(glob_matches("[]]", "]"));
  EXPECT_TRUE(glob_matches("f[[]1]", "f[1]"));
  EXPECT_TRUE(glob_matches("f\\[1\\]", "f[1]"));
  EXPECT_TRUE(glob_matches("[a\\]]", "]"));
  EXPECT_TRUE(glob_matches("[ab", "[ab"));  // never closed: literal
  EXPECT_TRUE(glob_matches("a\\", "a\\"));
  EXPECT_TRUE(glob_matches("*", ".hidden"));
  EXPECT_FALSE(glob_matches("a", "ab"));
}

TEST(Glob, NeverSlow) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "*a";
  EXPECT_FALSE(glob_matches(pattern + "b", std::string(250, 'a')));
}

TEST(Glob, Paths) {
  TempDirectory directory;
  FileSystem& fs = local_file_system();
  const std::string d = directory.path();
  spill(d + "/f[1].txt", "");
  spill(d + "/.hidden", "");
  ASSERT_OK(fs.make_directories(d + "/sub/deep"));
  spill(d + "/sub/f2.txt", "");
  using Paths = std::vector<std::string>;
  const auto paths = [&](const std::string& pattern) { return glob(fs, pattern).value_or_throw(); };
  EXPECT_EQ(paths(d + "/*"), (Paths{d + "/.hidden", d + "/f[1].txt", d + "/sub"}));
  EXPECT_EQ(paths(d + "/f\\[1\\].txt"), Paths{d + "/f[1].txt"});
  EXPECT_EQ(paths(d + "/*/f?.txt"), Paths{d + "/sub/f2.txt"});
  EXPECT_EQ(paths(d + "/s*/d*"), Paths{d + "/sub/deep"});
  EXPECT_EQ(paths(d + "/sub/f2.txt"), Paths{d + "/sub/f2.txt"});
  EXPECT_EQ(paths(d + "/sub/"), Paths{d + "/sub/"});
  EXPECT_EQ(paths(d + "/f*/x"), Paths{});
  EXPECT_EQ(paths(d + "/f*/*"), Paths{});
  EXPECT_EQ(paths(d + "/nothing"), Paths{});
  EXPECT_EQ(paths(d + "/nothing/*"), Paths{});
  EXPECT_EQ(paths(""), Paths{});
}

TEST(Glob, PathsWithASchemeKeepIt) {
  TempDirectory directory;
  FileSystem& fs = local_file_system();
  spill(directory.path() + "/a1", "");
  const std::string url = "file://" + directory.path();
  EXPECT_EQ(glob(fs, url + "/a*").value_or_throw(), std::vector<std::string>{url + "/a1"});
  EXPECT_EQ(glob(fs, url + "/a1").value_or_throw(), std::vector<std::string>{url + "/a1"});
  EXPECT_EQ(glob(fs, "gs://bucket/a*").status().code(), Code::kUnimplemented);
  EXPECT_EQ(glob(fs, "gs://bucket/a1").status().code(), Code::kUnimplemented);
}

// Links that lead nowhere are in nobody's way.
TEST(Glob, LinksThatGoRoundOrDangle) {
  TempDirectory directory;
  const std::string d = directory.path();
  ASSERT_OK(local_file_system().make_directories(d + "/real"));
  spill(d + "/real/f", "");
  std::filesystem::create_symlink("round", d + "/round");
  std::filesystem::create_symlink("nothing", d + "/dangling");
  std::filesystem::create_symlink("real", d + "/well");
  using Paths = std::vector<std::string>;
  const auto paths = [&](const std::string& pattern) { return glob(local_file_system(), pattern).value_or_throw(); };
  EXPECT_EQ(paths(d + "/*/*"), (Paths{d + "/real/f", d + "/well/f"}));
  EXPECT_EQ(paths(d + "/*/f"), (Paths{d + "/real/f", d + "/well/f"}));
  EXPECT_EQ(paths(d + "/round/*"), Paths{});
  EXPECT_EQ(paths(d + "/*"), (Paths{d + "/real", d + "/well"}));
}

// Answers for directories by itself.
class UnlistedFiles : public FaultyFileSystem {
 public:
  UnlistedFiles() : FaultyFileSystem(local_file_system(), [](FileOp, const std::string&) { return Status(); }) {}
  Result<std::vector<std::string>> list(const std::string& directory) override {
    TUTTI_RETURN_IF_ERROR(answer);
    return FaultyFileSystem::list(directory);
  }
  Status answer;
};

// What is not there, or not ours to see, is no match; a disk that fails is an error, and no short list.
TEST(Glob, DirectoriesThatCannotBeRead) {
  TempDirectory directory;
  const std::string d = directory.path();
  spill(d + "/a", "");
  UnlistedFiles fs;
  EXPECT_EQ(glob(fs, d + "/*").value_or_throw().size(), 1u);
  for (const Code code : {Code::kNotFound, Code::kPermissionDenied}) {
    fs.answer = Status(code, "nothing to see");
    EXPECT_TRUE(glob(fs, d + "/*").value_or_throw().empty());
  }
  fs.answer = Status(Code::kUnknown, "list: Input/output error");
  EXPECT_EQ(glob(fs, d + "/*").status(), fs.answer);
}

}  // namespace tutti::glob_test
