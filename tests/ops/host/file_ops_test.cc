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
  // A device that never ends is read as far as it says it is large: not at all.
  EXPECT_EQ(run("ReadFile", {text("/dev/zero")})->tensor().scalar<std::string>(), "");
  FaultyFileSystem full(local_file_system(), [](FileOp op, const std::string& path) {
    return op == FileOp::kAppend ? resource_exhausted(path, ": full") : Status();
  });
  use(full);
  EXPECT_EQ(status("WriteFile", {text(directory_.file("x")), text("x")}),
            resource_exhausted(directory_.file("x"), ": full"));
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
