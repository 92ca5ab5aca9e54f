#include "tutti/train/init_from_checkpoint.h"

#include <gtest/gtest.h>

#include "tests/train/saver_fixture.h"
#include "tutti/io/bundle_writer.h"

namespace tutti::init_from_checkpoint_test {

class InitFromCheckpoint : public ::testing::Test {
 protected:
  InitFromCheckpoint() {
    auto writer = BundleWriter::create(local_file_system(), directory_.file("m")).value_or_throw();
    throw_if_error(writer->add("old/w", Tensor::vector<float>({7, 8})));
    throw_if_error(writer->add("old/b", Tensor::vector<float>({9, 10})));
    throw_if_error(writer->add("count", Tensor::scalar<std::int64_t>(5)));
    throw_if_error(writer->finish());
  }

  std::vector<Tensor> initialised() {
    LocalSession session(graph_);
    session.run({global_variables_initializer(graph_)});
    return session.run({}, {w_, b_, step_});
  }
  Code refused(const std::map<std::string, std::string>& assignment) {
    const int nodes = graph_.num_nodes();
    try {
      init_from_checkpoint(graph_, directory_.file("m"), assignment);
    } catch (const Error& error) {
      EXPECT_EQ(graph_.num_nodes(), nodes);
      return error.code();
    }
    return Code::kOk;
  }

  TempDirectory directory_;
  Graph graph_{builtin_ops()};
  Var w_ = variable(graph_, Tensor::vector<float>({1, 2}), "new/w");
  Var b_ = variable(graph_, Tensor::vector<float>({3, 4}), "new/b");
  Var step_ = variable(graph_, Tensor::scalar<std::int64_t>(0), "step", false);
};

TEST_F(InitFromCheckpoint, Names) {
  EXPECT_EQ(init_from_checkpoint(graph_, directory_.file("m"), {{"old/w", "new/w"}, {"count", "step"}}), 2);
  const std::vector<Tensor> values = initialised();
  EXPECT_TRUE(bitwise_equal(values[0], Tensor::vector<float>({7, 8})));
  EXPECT_TRUE(bitwise_equal(values[1], Tensor::vector<float>({3, 4})));
  EXPECT_EQ(values[2].scalar<std::int64_t>(), 5);
}

TEST_F(InitFromCheckpoint, Scopes) {
  EXPECT_EQ(init_from_checkpoint(graph_, directory_.file("m"), {{"old/", "new/"}}), 2);
  const std::vector<Tensor> values = initialised();
  EXPECT_TRUE(bitwise_equal(values[0], Tensor::vector<float>({7, 8})));
  EXPECT_TRUE(bitwise_equal(values[1], Tensor::vector<float>({9, 10})));
  EXPECT_EQ(values[2].scalar<std::int64_t>(), 0);
}

TEST_F(InitFromCheckpoint, Mistakes) {
  EXPECT_EQ(refused({{"old/v", "new/w"}}), Code::kNotFound);
  EXPECT_EQ(refused({{"old/w", "new/v"}}), Code::kInvalidArgument);
  EXPECT_EQ(refused({{"count", "new/w"}}), Code::kInvalidArgument);
  EXPECT_EQ(refused({{"old/", "new/w"}}), Code::kInvalidArgument);
  EXPECT_EQ(refused({{"older/", "new/"}}), Code::kInvalidArgument);
  EXPECT_EQ(refused({{"old/w", "new/w"}, {"old/v", "new/b"}}), Code::kNotFound);
}

}  // namespace tutti::init_from_checkpoint_test
