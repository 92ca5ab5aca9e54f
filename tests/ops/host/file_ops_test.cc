#include <sys/stat.h>

#include <new>

#include "tests/ops/host/file_ops_fixture.h"
#include "tutti/graph/graph.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"

namespace tutti::file_ops_test {

class FileOps : public testing::FileOpsFixture {};

TEST_F(FileOps, WriteAndRead) {
  const std::string path = directory_.file("new/folder/file");
  const std::string contents("any\0bytes\xff", 10);
  ASSERT_TRUE(status("WriteFile", {text(path), text(contents)}).ok());
  EXPECT_EQ(run("ReadFile", {text(path)})->tensor().scalar<std::string>(), contents);
  ASSERT_TRUE(status("WriteFile", {text(path), text("")}).ok());
  EXPECT_EQ(run("ReadFile", {text(path)})->tensor().scalar<std::string>(), "");
}

TEST_F(FileOps, Errors) {
  EXPECT_EQ(status("ReadFile", {text(directory_.file("none"))}).code(), Code::kNotFound);
  EXPECT_EQ(status("ReadFile", {text(directory_.path())}).code(), Code::kFailedPrecondition);
  EXPECT_EQ(status("WriteFile", {text(directory_.path()), text("x")}).code(), Code::kFailedPrecondition);
  EXPECT_EQ(status("ReadFile", {texts({"a", "b"})}),
            invalid_argument("Input filename tensor must be scalar, but had shape: [2]"));
  EXPECT_EQ(status("WriteFile", {text("a"), texts({"b"})}).code(), Code::kInvalidArgument);
  EXPECT_EQ(status("ReadFile", {text(std::string("a\0b", 3))}).code(), Code::kInvalidArgument);
  FaultyFileSystem full(local_file_system(), [](FileOp op, const std::string& path) {
    return op == FileOp::kAppend ? resource_exhausted(path, ": full") : Status();
  });
  use(full);
  EXPECT_EQ(status("WriteFile", {text(directory_.file("x")), text("x")}),
            resource_exhausted(directory_.file("x"), ": full"));
}

// A pipe would keep the thread waiting for its other end, and a device may have no end.
TEST_F(FileOps, OnlyRegularFilesAreRead) {
  const std::string pipe = directory_.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero")}) {
    const Status refused = failed_precondition("open \"", path, "\" for reading: not a regular file");
    EXPECT_EQ(status("ReadFile", {text(path)}), refused);
  }
  EXPECT_FALSE(status("WriteFile", {text(pipe), text("x")}).ok());
  EXPECT_TRUE(status("WriteFile", {text("/dev/null"), text("x")}).ok());
}

TEST_F(FileOps, AFileThatDoesNotFitIntoMemory) {
  FaultyFileSystem large(local_file_system(), [](FileOp, const std::string&) -> Status { throw std::bad_alloc(); });
  use(large);
  EXPECT_EQ(status("ReadFile", {text(directory_.file("x"))}), resource_exhausted("out of memory"));
}

TEST_F(FileOps, Cancelled) {
  runner_.step().cancellation->cancel(cancelled("enough"));
  EXPECT_EQ(status("WriteFile", {text(directory_.file("x")), text("x")}), cancelled("enough"));
  EXPECT_FALSE(local_file_system().exists(directory_.file("x")));
}

TEST_F(FileOps, NoFiles) {
  runner_.step().services.files = nullptr;
  EXPECT_EQ(status("ReadFile", {text("x")}).code(), Code::kFailedPrecondition);
}

TEST_F(FileOps, MatchingFiles) {
  for (const char* name : {"b2", "a1", "b1"}) {
    ASSERT_TRUE(status("WriteFile", {text(directory_.file(name)), text("")}).ok());
  }
  const std::string d = directory_.path() + "/";
  EXPECT_TRUE(bitwise_equal(run("MatchingFiles", {text(d + "b*")})->tensor(), texts({d + "b1", d + "b2"})));
  EXPECT_TRUE(bitwise_equal(run("MatchingFiles", {texts({d + "b?", d + "?1"})})->tensor(),
                            texts({d + "a1", d + "b1", d + "b1", d + "b2"})));
  EXPECT_EQ(run("MatchingFiles", {text(d + "c*")})->tensor().shape(), Shape({0}));
  EXPECT_EQ(run("MatchingFiles", {Tensor(DType::kString, {0})})->tensor().shape(), Shape({0}));
  EXPECT_EQ(status("MatchingFiles", {Tensor(DType::kString, {1, 1})}).code(), Code::kInvalidArgument);
}

TEST(FileOpShapes, Rules) {
  Graph graph(builtin_ops());
  const Output name = constant(graph, Tensor::scalar(std::string("x")));
  const Output names = constant(graph, Tensor::vector<std::string>({"x", "y"}));
  EXPECT_EQ(add_op(graph, "ReadFile", {name})->output_shape(0), PartialShape::scalar());
  EXPECT_EQ(add_op(graph, "MatchingFiles", {names})->output_shape(0), PartialShape({kUnknownDim}));
  EXPECT_THROW(add_op(graph, "ReadFile", {names}), Error);
  EXPECT_THROW(add_op(graph, "WriteFile", {name, names}), Error);
}

}  // namespace tutti::file_ops_test
