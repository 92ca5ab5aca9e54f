#include "tutti/core/file_system.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <vector>

#include "tests/core/temp_directory.h"

namespace tutti::file_system_test {

class FileSystemTest : public ::testing::Test {
 protected:
  std::string read(const std::string& path) { return read_file(fs_, path).value_or_throw(); }
  std::unique_ptr<WritableFile> create(const std::string& path) { return fs_.open_for_write(path).value_or_throw(); }

  TempDirectory directory_;
  FileSystem& fs_ = local_file_system();
};

TEST_F(FileSystemTest, WritesAndReads) {
  const std::string path = directory_.file("a");
  const std::string contents = std::string("zero \0 byte", 11) + std::string(200'000, 'x');
  ASSERT_TRUE(write_file(fs_, path, contents).ok());
  EXPECT_EQ(read(path), contents);
  ASSERT_TRUE(write_file(fs_, path, "").ok());
  EXPECT_EQ(read(path), "");
}

TEST_F(FileSystemTest, ReadsFilesThatTellNoSize) {
  EXPECT_NE(read("/proc/self/status").find("Threads"), std::string::npos);
}

TEST_F(FileSystemTest, ReadsAtAnyOffset) {
  const std::string path = directory_.file("a");
  ASSERT_TRUE(write_file(fs_, path, "0123456789").ok());
  const std::unique_ptr<RandomAccessFile> file = fs_.open_for_read(path).value_or_throw();
  char buffer[4];
  EXPECT_EQ(*file->read(3, buffer), 4u);
  EXPECT_EQ(std::string_view(buffer, 4), "3456");
  EXPECT_EQ(*file->read(8, buffer), 2u);
  EXPECT_EQ(std::string_view(buffer, 2), "89");
  EXPECT_EQ(*file->read(10, buffer), 0u);
  EXPECT_EQ(*file->read(1000, buffer), 0u);
  EXPECT_EQ(*file->read(UINT64_MAX, buffer), 0u);
  EXPECT_EQ(*file->read(0, {}), 0u);
}

TEST_F(FileSystemTest, AppendsSmallAndLargePiecesInOrder) {
  const std::string path = directory_.file("a");
  std::string expected;
  const std::unique_ptr<WritableFile> file = create(path);
  for (const std::size_t size : {1u, 1000u, 70'000u, 10u, 65'535u, 1u, 65'536u, 0u, 40'000u, 40'000u}) {
    const std::string piece(size, static_cast<char>('a' + expected.size() % 26));
    ASSERT_TRUE(file->append(piece).ok());
    expected += piece;
  }
  ASSERT_TRUE(file->flush().ok());
  EXPECT_EQ(read(path), expected);
  ASSERT_TRUE(file->append("end").ok());
  ASSERT_TRUE(file->sync().ok());
  EXPECT_EQ(read(path), expected + "end");
  ASSERT_TRUE(file->close().ok());
}

// The same files as any other, wherever pieces end in relation to blocks and buffers.
TEST_F(FileSystemTest, LargeWritesOfAnySize) {
  constexpr std::size_t kBuffer = 1 << 20;
  const std::string in_memory = str_cat("/dev/shm/tutti_core_", getpid());
  std::string contents(3 * kBuffer + 5000, '\0');
  for (std::size_t i = 0; i < contents.size(); ++i) contents[i] = static_cast<char>(i * 2654435761u >> 13);
  for (const std::string& path : {directory_.file("a"), in_memory}) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4095}, std::size_t{4096},
                                   std::size_t{4097}, kBuffer - 1, kBuffer, kBuffer + 1, contents.size()}) {
      for (const std::size_t piece : {std::size_t{1000}, std::size_t{4096}, kBuffer + 3, contents.size()}) {
        SCOPED_TRACE(str_cat(path, " ", size, " ", piece));
        const std::unique_ptr<WritableFile> file = fs_.open_for_large_write(path).value_or_throw();
        std::string_view left = std::string_view(contents).substr(0, size);
        for (; !left.empty(); left.remove_prefix(std::min(piece, left.size()))) {
          ASSERT_TRUE(file->append(left.substr(0, piece)).ok());
        }
        ASSERT_TRUE(file->sync().ok());
        ASSERT_TRUE(read(path) == contents.substr(0, size));
        ASSERT_TRUE(file->append("more").ok());
        ASSERT_TRUE(file->flush().ok());
        ASSERT_TRUE(file->append("and more").ok());
        ASSERT_TRUE(file->close().ok());
        ASSERT_TRUE(read(path) == contents.substr(0, size) + "moreand more");
      }
    }
    ASSERT_TRUE(fs_.remove(path).ok());
  }
}

// Of a file that is all in memory, the pages that are.
std::size_t cached_bytes(const std::string& path, std::size_t size) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  constexpr std::size_t kPage = 4096;
  std::vector<unsigned char> pages((size + kPage - 1) / kPage);
  EXPECT_EQ(::mincore(mapped, size, pages.data()), 0);
  ::munmap(mapped, size);
  return kPage * static_cast<std::size_t>(std::ranges::count_if(pages, [](unsigned char page) { return page & 1; }));
}

// Whether the system itself leaves nothing there: a file system in memory takes O_DIRECT, too, and nothing else.
bool has_uncached_files(const std::string& path) {
  constexpr std::size_t kBlock = 4096;
  alignas(kBlock) static const char block[kBlock] = {};
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_DIRECT, 0666);
  const bool written = fd >= 0 && ::write(fd, block, kBlock) == static_cast<ssize_t>(kBlock);
  ::close(fd);
  return written && cached_bytes(path, kBlock) == 0;
}

TEST_F(FileSystemTest, LargeWritesLeaveTheCacheAlone) {
  const std::string contents((8 << 20) + 100, 'x'), path = directory_.file("a");
  if (!has_uncached_files(path)) GTEST_SKIP() << "the file system of " << path << " writes through its cache only";
  const std::unique_ptr<WritableFile> file = fs_.open_for_large_write(path).value_or_throw();
  ASSERT_TRUE(file->append(contents).ok());
  ASSERT_TRUE(file->sync().ok());
  ASSERT_TRUE(file->close().ok());
  EXPECT_LE(cached_bytes(path, contents.size()), 64u << 10);
  ASSERT_TRUE(write_file(fs_, path, contents).ok());
  EXPECT_GT(cached_bytes(path, contents.size()), 4u << 20) << "what other files leave there";
}

TEST_F(FileSystemTest, LargeWritesFailAsOthersDo) {
  EXPECT_EQ(fs_.open_for_large_write(directory_.file("none/a")).status().code(), Code::kNotFound);
  EXPECT_EQ(fs_.open_for_large_write(directory_.path()).status().code(), Code::kFailedPrecondition);
  const std::unique_ptr<WritableFile> full = fs_.open_for_large_write("/dev/full").value_or_throw();
  const std::string contents(3 << 20, 'x');
  EXPECT_EQ(full->append(contents).code(), Code::kResourceExhausted);
  EXPECT_EQ(full->close().code(), Code::kResourceExhausted);
}

TEST_F(FileSystemTest, OpenForWriteTruncatesAndOpenForAppendDoesNot) {
  const std::string path = directory_.file("a");
  ASSERT_TRUE(write_file(fs_, path, "old").ok());
  {
    const std::unique_ptr<WritableFile> file = fs_.open_for_append(path).value_or_throw();
    ASSERT_TRUE(file->append(" new").ok());
  }  // the destructor closes
  EXPECT_EQ(read(path), "old new");
  ASSERT_TRUE(create(path)->close().ok());
  EXPECT_EQ(read(path), "");
  ASSERT_TRUE(fs_.open_for_append(directory_.file("b")).ok());
  EXPECT_TRUE(fs_.exists(directory_.file("b")));
}

TEST_F(FileSystemTest, AClosedFileTakesNothing) {
  const std::unique_ptr<WritableFile> file = create(directory_.file("a"));
  ASSERT_TRUE(file->close().ok());
  EXPECT_TRUE(file->close().ok());
  EXPECT_EQ(file->append("x").code(), Code::kFailedPrecondition);
  EXPECT_EQ(file->flush().code(), Code::kFailedPrecondition);
  EXPECT_EQ(file->sync().code(), Code::kFailedPrecondition);
}

TEST_F(FileSystemTest, AFullDiskShowsAtALargeAppend) {
  const std::unique_ptr<WritableFile> file = fs_.open_for_append("/dev/full").value_or_throw();
  const Status status = file->append(std::string(100'000, 'x'));
  EXPECT_EQ(status, resource_exhausted("write \"/dev/full\": No space left on device"));
  EXPECT_EQ(file->append("x"), status);  // the first error stays
  EXPECT_EQ(file->close(), status);
  EXPECT_EQ(file->close(), status);
}

TEST_F(FileSystemTest, AFullDiskShowsAtTheLatestWhenFlushedOrClosed) {
  const auto open = [this] { return fs_.open_for_append("/dev/full").value_or_throw(); };
  std::unique_ptr<WritableFile> file = open();
  ASSERT_TRUE(file->append("x").ok());
  EXPECT_EQ(file->flush().code(), Code::kResourceExhausted);
  EXPECT_EQ(file->sync().code(), Code::kResourceExhausted);
  file = open();
  ASSERT_TRUE(file->append("x").ok());
  EXPECT_EQ(file->close().code(), Code::kResourceExhausted);
  EXPECT_EQ(write_file(fs_, "/dev/full", "x").code(), Code::kResourceExhausted);
}

TEST_F(FileSystemTest, MissingFilesAreNotFound) {
  const std::string path = directory_.file("missing/file");
  EXPECT_EQ(fs_.open_for_read(path).status(), not_found("open \"", path, "\" for reading: No such file or directory"));
  EXPECT_EQ(fs_.open_for_write(path).status(), not_found("open \"", path, "\" for writing: No such file or directory"));
  EXPECT_EQ(fs_.open_for_append(path).status().code(), Code::kNotFound);
  EXPECT_EQ(fs_.info(path).status().code(), Code::kNotFound);
  EXPECT_EQ(fs_.list(path).status().code(), Code::kNotFound);
  EXPECT_EQ(fs_.remove(path).code(), Code::kNotFound);
  EXPECT_EQ(fs_.rename(path, directory_.file("b")).code(), Code::kNotFound);
  EXPECT_EQ(fs_.sync_directory(path).code(), Code::kNotFound);
  EXPECT_EQ(read_file(fs_, path).status().code(), Code::kNotFound);
  EXPECT_EQ(fs_.make_directories("").code(), Code::kNotFound);
  EXPECT_FALSE(fs_.exists(path));
}

TEST_F(FileSystemTest, FilesAndDirectoriesAreNotTheSame) {
  const std::string file = directory_.file("file");
  ASSERT_TRUE(write_file(fs_, file, "x").ok());
  EXPECT_EQ(fs_.open_for_read(directory_.path()).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(fs_.open_for_write(directory_.path()).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(fs_.open_for_read(file + "/below").status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(fs_.list(file).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(fs_.make_directories(file).code(), Code::kFailedPrecondition);
  EXPECT_EQ(fs_.make_directories(file + "/below").code(), Code::kFailedPrecondition);
  EXPECT_EQ(fs_.sync_directory(file).code(), Code::kFailedPrecondition);
  EXPECT_EQ(fs_.rename(file, directory_.path()).code(), Code::kFailedPrecondition);
  const std::string round = directory_.file("round");
  ASSERT_EQ(symlink("round", round.c_str()), 0);
  EXPECT_EQ(fs_.list(round).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(fs_.open_for_read(round).status().code(), Code::kFailedPrecondition);
}

TEST_F(FileSystemTest, PermissionsAreKept) {
  if (geteuid() == 0) GTEST_SKIP() << "root may do all";
  const std::string path = directory_.file("secret");
  ASSERT_TRUE(write_file(fs_, path, "x").ok());
  std::filesystem::permissions(path, std::filesystem::perms::none);
  EXPECT_EQ(fs_.open_for_read(path).status().code(), Code::kPermissionDenied);
  EXPECT_EQ(fs_.open_for_write(path).status().code(), Code::kPermissionDenied);
}

TEST_F(FileSystemTest, PathsWithAZeroByteAreRefused) {
  ASSERT_TRUE(write_file(fs_, directory_.file("a"), "x").ok());
  const std::string path = directory_.file(std::string("a\0b", 3));
  EXPECT_EQ(fs_.open_for_read(path).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(fs_.open_for_write(path).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(fs_.info(path).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(fs_.list(path).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(fs_.remove(path).code(), Code::kInvalidArgument);
  EXPECT_EQ(fs_.rename(path, directory_.file("b")).code(), Code::kInvalidArgument);
  EXPECT_EQ(fs_.rename(directory_.file("a"), path).code(), Code::kInvalidArgument);
  EXPECT_EQ(fs_.make_directories(path).code(), Code::kInvalidArgument);
  EXPECT_EQ(read(directory_.file("a")), "x");
}

TEST_F(FileSystemTest, AFileUrlIsItsPath) {
  const std::string url = "file://" + directory_.path();
  ASSERT_TRUE(fs_.make_directories(url + "/sub").ok());
  ASSERT_TRUE(write_file(fs_, url + "/sub/a", "x").ok());
  EXPECT_EQ(read(directory_.file("sub/a")), "x");
  EXPECT_EQ(read(url + "/sub/a"), "x");
  EXPECT_EQ(fs_.info(url + "/sub/a").value_or_throw().bytes, 1u);
  EXPECT_TRUE(fs_.rename(url + "/sub/a", url + "/b").ok());
  EXPECT_EQ(fs_.list(url).value_or_throw(), (std::vector<std::string>{"b", "sub"}));
  EXPECT_TRUE(fs_.open_for_large_write(url + "/b").ok());
  EXPECT_TRUE(fs_.open_for_append(url + "/b").ok());
  EXPECT_TRUE(fs_.sync_directory(url).ok());
  EXPECT_TRUE(fs_.remove(url + "/sub").ok());
  EXPECT_FALSE(fs_.exists(directory_.file("sub")));
}

TEST_F(FileSystemTest, OtherSchemesAreRefusedByName) {
  for (const std::string scheme : {"gs", "s3", "hdfs", "viewfs2.x"}) {
    const std::string path = scheme + "://bucket/model";
    const Status expected = unimplemented("File system scheme '", scheme, "' not implemented (file: '", path, "')");
    EXPECT_EQ(fs_.open_for_read(path).status(), expected);
    EXPECT_EQ(fs_.open_for_write(path).status(), expected);
    EXPECT_EQ(fs_.open_for_large_write(path).status(), expected);
    EXPECT_EQ(fs_.open_for_append(path).status(), expected);
    EXPECT_EQ(fs_.info(path).status(), expected);
    EXPECT_EQ(fs_.list(path).status(), expected);
    EXPECT_EQ(fs_.make_directories(path), expected);
    EXPECT_EQ(fs_.remove(path), expected);
    EXPECT_EQ(fs_.rename(path, directory_.file("a")), expected);
    EXPECT_EQ(fs_.sync_directory(path), expected);
  }
}

TEST(LocalPath, TakesTheSchemeAway) {
  EXPECT_EQ(local_path("file:///tmp/x").value_or_throw(), "/tmp/x");
  EXPECT_EQ(local_path("file://").value_or_throw(), "/");
  EXPECT_EQ(local_path("file:///").value_or_throw(), "/");
  EXPECT_EQ(local_path("file://host/x").status().code(), Code::kInvalidArgument);
  // None of these has a scheme.
  for (const std::string path : {"/tmp/x", "x", "", "file:/x", "file:x", "a/gs://x", "://x", "1a://x", "C:\\x"}) {
    EXPECT_EQ(local_path(path).value_or_throw(), path);
    EXPECT_FALSE(has_scheme(path)) << path;
  }
  EXPECT_TRUE(has_scheme("gs://x"));
}

TEST_F(FileSystemTest, Info) {
  const std::string path = directory_.file("a");
  ASSERT_TRUE(write_file(fs_, path, "12345").ok());
  const FileInfo file = fs_.info(path).value_or_throw();
  EXPECT_EQ(file.bytes, 5u);
  EXPECT_FALSE(file.is_directory);
  const std::int64_t year_2020 = 1'577'836'800'000'000;
  EXPECT_GT(file.modified_micros, year_2020);
  EXPECT_TRUE(fs_.info(directory_.path())->is_directory);
}

TEST_F(FileSystemTest, DirectoriesAndLists) {
  ASSERT_TRUE(fs_.make_directories(directory_.file("x/y/z")).ok());
  EXPECT_TRUE(fs_.make_directories(directory_.file("x/y/z")).ok());
  EXPECT_TRUE(fs_.make_directories(directory_.file("x//y/w/")).ok());
  EXPECT_TRUE(fs_.make_directories("/").ok());
  ASSERT_TRUE(write_file(fs_, directory_.file("x/y/a"), "").ok());
  EXPECT_EQ(*fs_.list(directory_.file("x/y")), (std::vector<std::string>{"a", "w", "z"}));
  EXPECT_TRUE(fs_.list(directory_.file("x/y/z"))->empty());
  EXPECT_TRUE(fs_.sync_directory(directory_.file("x/y")).ok());
}

TEST_F(FileSystemTest, Remove) {
  ASSERT_TRUE(fs_.make_directories(directory_.file("d")).ok());
  ASSERT_TRUE(write_file(fs_, directory_.file("d/a"), "").ok());
  EXPECT_EQ(fs_.remove(directory_.file("d")).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(fs_.remove(directory_.file("d/a")).ok());
  EXPECT_TRUE(fs_.remove(directory_.file("d")).ok());
  EXPECT_FALSE(fs_.exists(directory_.file("d")));
}

TEST_F(FileSystemTest, RenameReplaces) {
  ASSERT_TRUE(write_file(fs_, directory_.file("new"), "new").ok());
  ASSERT_TRUE(write_file(fs_, directory_.file("old"), "old").ok());
  ASSERT_TRUE(fs_.rename(directory_.file("new"), directory_.file("old")).ok());
  EXPECT_EQ(read(directory_.file("old")), "new");
  EXPECT_FALSE(fs_.exists(directory_.file("new")));
}

TEST_F(FileSystemTest, ManyThreadsMakeTheSameDirectories) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int j = 0; j < 50; ++j) {
        EXPECT_TRUE(fs_.make_directories(directory_.file(str_cat("deep/", j, "/a/b"))).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(FileSystemTest, ManyThreadsReadOneFile) {
  const std::string path = directory_.file("a");
  std::string contents;
  for (int i = 0; i < 256 * 64; ++i) contents += static_cast<char>(i / 64);
  ASSERT_TRUE(write_file(fs_, path, contents).ok());
  const std::unique_ptr<RandomAccessFile> file = fs_.open_for_read(path).value_or_throw();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      char buffer[64];
      for (std::size_t block = 0; block < 256; ++block) {
        EXPECT_EQ(*file->read(block * 64, buffer), 64u);
        EXPECT_EQ(std::string_view(buffer, 64), contents.substr(block * 64, 64));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tutti::file_system_test
