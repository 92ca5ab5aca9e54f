#include "tutti/graph/meta_graph.h"

#include <gtest/gtest.h>

#include "tests/graph/test_ops.h"

namespace tutti::meta_graph_test {

using testing::add;
using testing::test_ops;

TEST(MetaGraph, ComesBack) {
  Graph graph(test_ops());
  add(graph, "NoOp", {}, {}, "a");
  const MetaGraph about{.saver = {.filename_tensor = "save/Const:0",
                                  .save_tensor = "save/Identity:0",
                                  .restore_op = "save/restore_all",
                                  .max_to_keep = 3,
                                  .sharded = true,
                                  .keep_checkpoint_every_n_hours = 0.5},
                        .variables = {{"variables",
                                       {{.variable = "w/part_0:0",
                                         .initializer = "w/part_0/Assign",
                                         .snapshot = "w/part_0/Read/ReadVariableOp:0",
                                         .initial_value = "w/part_0/initial_value:0",
                                         .trainable = false,
                                         .full_name = "w",
                                         .full_shape = {4, 2},
                                         .offset = {0, 0},
                                         .shape = {2, 2}},
                                        {.variable = "b:0", .resource = false}}}},
                        .nodes = {{"train_op", {"a"}}}};
  const std::string bytes = export_meta_graph(graph, about);
  Graph again(test_ops());
  const MetaGraph read = import_meta_graph(bytes, again).value_or_throw();
  EXPECT_NE(again.find("a"), nullptr);
  EXPECT_EQ(read.saver, about.saver);
  EXPECT_EQ(read.variables, about.variables);
  EXPECT_EQ(read.nodes, about.nodes);
}

TEST(MetaGraph, BadBytesAddNothing) {
  Graph graph(test_ops());
  add(graph, "NoOp", {}, {}, "a");
  const std::string bytes = export_meta_graph(graph, {.saver = {.filename_tensor = "save/Const:0"}});
  for (std::size_t length = 1; length < bytes.size(); ++length) {
    Graph other(test_ops());
    // Cut between two fields, it is another message: then it counts.
    const bool imported = import_meta_graph(bytes.substr(0, length), other).ok();
    EXPECT_TRUE(imported || other.num_nodes() == 0) << length;
  }
  Graph other(test_ops());
  EXPECT_EQ(import_meta_graph("\xff\xff", other).status().code(), Code::kInvalidArgument);
}

}  // namespace tutti::meta_graph_test
