#include "tutti/train/saver.h"

#include <gtest/gtest.h>

#include "tests/train/saver_fixture.h"
#include "tutti/io/bundle_reader.h"
#include "tutti/io/bundle_writer.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/partitioned_variable.h"
#include "tutti/train/checkpoint_reader.h"

namespace tutti::saver_test {

// The status of what `call` throws.
template <typename Call>
Status thrown(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

void expect_mentions(const Status& status, const std::vector<std::string>& texts) {
  EXPECT_FALSE(status.ok());
  for (const std::string& text : texts) {
    EXPECT_NE(status.message().find(text), std::string::npos) << text << " is not in: " << status.message();
  }
}

TEST(Saver, TrainingGoesOnWhereItWas) {
  TempDirectory directory;
  std::vector<Tensor> saved, later;
  std::string path;
  {
    SmallModel model;
    Saver saver(model.graph);
    LocalSession session(model.graph);
    session.run({model.init});
    for (int i = 0; i < 3; ++i) session.run({model.train});
    path = saver.save(session, directory.file("model.ckpt"), 3);
    EXPECT_EQ(path, directory.file("model.ckpt-3"));
    saved = model.values(session);
    session.run({model.train});
    later = model.values(session);
  }
  SmallModel model;
  Saver saver(model.graph);
  LocalSession session(model.graph);
  EXPECT_EQ(latest_checkpoint(local_file_system(), directory.path()).value_or_throw(), path);
  saver.restore(session, path);
  EXPECT_TRUE(same(model.values(session), saved));
  session.run({model.train});
  EXPECT_TRUE(same(model.values(session), later));
  EXPECT_EQ(files_in(directory.path()), (std::vector<std::string>{"checkpoint", "model.ckpt-3.data-00000-of-00001",
                                                                  "model.ckpt-3.index", "model.ckpt-3.meta"}));
}

TEST(Saver, NamesAreTensorFlows) {
  SmallModel model;
  Saver saver(model.graph);
  EXPECT_EQ(saver.saver_def().filename_tensor, "save/Const:0");
  EXPECT_EQ(saver.saver_def().save_tensor, "save/control_dependency:0");
  EXPECT_EQ(saver.saver_def().restore_op, "save/restore_all");
  Saver second(model.graph);
  EXPECT_EQ(second.saver_def().restore_op, "save_1/restore_all");
  SmallModel other;
  Saver sharded(other.graph, {.sharded = true});
  EXPECT_TRUE(sharded.saver_def().sharded);
  EXPECT_NE(other.graph.find("save/MergeV2Checkpoints"), nullptr);
  EXPECT_NE(other.graph.find("save/restore_shard"), nullptr);
}

TEST(Saver, OldOnesGo) {
  TempDirectory directory;
  SmallModel model;
  Saver saver(model.graph, {.max_to_keep = 2});
  LocalSession session(model.graph);
  session.run({model.init});
  const std::string prefix = directory.file("m");
  for (int step = 1; step <= 4; ++step) saver.save(session, prefix, step);
  EXPECT_EQ(saver.last_checkpoints(), (std::vector<std::string>{prefix + "-3", prefix + "-4"}));
  const CheckpointState state = *read_checkpoint_state(local_file_system(), directory.path()).value_or_throw();
  EXPECT_EQ(state.model_checkpoint_path, prefix + "-4");
  EXPECT_EQ(state.all_model_checkpoint_paths, saver.last_checkpoints());
  EXPECT_FALSE(local_file_system().exists(prefix + "-2.index"));
  EXPECT_FALSE(local_file_system().exists(prefix + "-2.meta"));
  EXPECT_FALSE(local_file_system().exists(prefix + "-2.data-00000-of-00001"));
  EXPECT_TRUE(local_file_system().exists(prefix + "-3.index"));
  // A saver of the next run takes over.
  Saver next(model.graph, {.max_to_keep = 2});
  next.recover_last_checkpoints({prefix + "-1", prefix + "-3", prefix + "-4"});
  EXPECT_EQ(next.last_checkpoints(), saver.last_checkpoints());
  next.save(session, prefix, 5);
  EXPECT_FALSE(local_file_system().exists(prefix + "-3.index"));
}

TEST(Saver, OneThatIsSavedAgainIsNotDeletedUnderAnotherSpelling) {
  TempDirectory directory;
  SmallModel model;
  LocalSession session(model.graph);
  session.run({model.init});
  const std::string path = Saver(model.graph, {.max_to_keep = 1}).save(session, directory.file("m"), 1);
  Saver next(model.graph, {.max_to_keep = 1});
  next.recover_last_checkpoints({directory.file("./m-1")});
  ASSERT_EQ(next.last_checkpoints().size(), 1u);
  next.save(session, directory.file("m"), 1);
  EXPECT_TRUE(local_file_system().exists(path + ".index"));
  next.restore(session, path);
}

TEST(Saver, OneInSoManyHoursStays) {
  TempDirectory directory;
  ManualClock clock;
  SmallModel model;
  Saver saver(model.graph, {.max_to_keep = 1, .keep_checkpoint_every_n_hours = 2, .clock = &clock});
  LocalSession session(model.graph);
  session.run({model.init});
  for (int hour = 0; hour < 6; ++hour) {
    saver.save(session, directory.file("m"), hour);
    clock.advance(std::chrono::hours(1));
  }
  std::vector<int> there;
  for (int hour = 0; hour < 6; ++hour) {
    if (local_file_system().exists(directory.file(str_cat("m-", hour, ".index")))) there.push_back(hour);
  }
  // Those newer than 2 and 4 hours after the start were kept, when their time to go came, and the last.
  EXPECT_EQ(there, (std::vector<int>{3, 5}));
}

TEST(Saver, EverythingIsKeptWithoutALimit) {
  TempDirectory directory;
  SmallModel model;
  Saver saver(model.graph, {.max_to_keep = 0, .pad_step_number = true, .write_meta_graph = false});
  LocalSession session(model.graph);
  session.run({model.init});
  for (int step = 0; step < 7; ++step) saver.save(session, directory.file("m"), step);
  EXPECT_TRUE(local_file_system().exists(directory.file("m-00000000.index")));
  EXPECT_FALSE(local_file_system().exists(directory.file("m-00000006.meta")));
  const CheckpointState state = *read_checkpoint_state(local_file_system(), directory.path()).value_or_throw();
  EXPECT_EQ(state.all_model_checkpoint_paths, (std::vector<std::string>{directory.file("m-00000006")}));
}

TEST(Saver, TheSamePathAgain) {
  TempDirectory directory;
  SmallModel model;
  Saver saver(model.graph);
  LocalSession session(model.graph);
  session.run({model.init});
  const std::string prefix = directory.file("m");
  for (int i = 0; i < 3; ++i) {
    session.run({model.train});
    EXPECT_EQ(saver.save(session, prefix), prefix);
    const std::vector<Tensor> saved = model.values(session);
    session.run({model.train});
    saver.restore(session, prefix);
    EXPECT_TRUE(same(model.values(session), saved)) << i;
  }
  EXPECT_EQ(files_in(directory.path()),
            (std::vector<std::string>{"checkpoint", "m.data-00000-of-00001", "m.index", "m.meta"}));
  EXPECT_EQ(latest_checkpoint(local_file_system(), directory.path()).value_or_throw(), prefix);
}

TEST(Saver, SomeVariablesUnderOtherNames) {
  TempDirectory directory;
  SmallModel model;
  Saver saver(model.graph, {.variables = {{"weights", model.w}, {"bias", model.b}}});
  LocalSession session(model.graph);
  session.run({model.init});
  saver.save(session, directory.file("m"));
  const auto reader = BundleReader::open(local_file_system(), directory.file("m")).value_or_throw();
  EXPECT_EQ(reader->names(), (std::vector<std::string>{"bias", "weights"}));
  const std::vector<Tensor> saved = model.values(session);
  session.run({model.train});
  const Tensor step = session.run({}, {model.global_step})[0];
  saver.restore(session, directory.file("m"));
  EXPECT_TRUE(bitwise_equal(session.run({}, {model.w})[0], saved[0]));
  EXPECT_TRUE(bitwise_equal(session.run({}, {model.global_step})[0], step));
}

TEST(Saver, BadVariables) {
  SmallModel model;
  EXPECT_EQ(thrown([&] {
              Saver(model.graph, {.variables = {{"w", model.w}, {"w", model.b}}});
            }).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(thrown([&] { Saver(model.graph, {.variables = {{"", model.w}}}); }).code(), Code::kInvalidArgument);
  EXPECT_EQ(thrown([&] { Saver(model.graph, {.nodes = {{"t", model.train}}}); }).code(), Code::kInvalidArgument);
  Graph empty(builtin_ops());
  expect_mentions(thrown([&] { Saver saver(empty); }), {"no variables to save"});
  Saver saver(empty, {.allow_empty = true});
  LocalSession session(empty);
  EXPECT_EQ(saver.save(session, "/nowhere/at/all"), "");
  saver.restore(session, "/nowhere/at/all");
}

TEST(Saver, BadPaths) {
  TempDirectory directory;
  SmallModel model;
  Saver saver(model.graph);
  LocalSession session(model.graph);
  session.run({model.init});
  const Status save = saver.try_save(session, directory.file("missing/m")).status();
  EXPECT_EQ(save.code(), Code::kInvalidArgument);
  expect_mentions(save, {"Parent directory", directory.file("missing")});
  const Status restore = saver.try_restore(session, directory.file("m"));
  EXPECT_EQ(restore.code(), Code::kInvalidArgument);
  expect_mentions(restore, {"not a valid checkpoint", directory.file("m")});
  EXPECT_EQ(saver.try_restore(session, "").code(), Code::kInvalidArgument);
  EXPECT_TRUE(files_in(directory.path()).empty());
}

// Writes a checkpoint of the model's variables, changed by `change`, and restores it: everything must stay.
class SaverMismatch : public ::testing::Test {
 protected:
  Status restore_changed(const std::string& changed, const std::optional<Tensor>& value) {
    LocalSession session(model_.graph);
    session.run({model_.init});
    session.run({model_.train});
    auto writer = BundleWriter::create(local_file_system(), directory_.file("m")).value_or_throw();
    for (const Var& variable : global_variables(model_.graph)) {
      if (variable.name() == changed && !value) continue;
      throw_if_error(writer->add(variable.name(), variable.name() == changed
                                                      ? *value
                                                      : Tensor(variable.dtype(), *variable.shape().as_shape())));
    }
    throw_if_error(writer->finish());
    const std::vector<Tensor> before = model_.values(session);
    const Status status = saver_.try_restore(session, directory_.file("m"));
    EXPECT_TRUE(same(model_.values(session), before));
    return status;
  }

  TempDirectory directory_;
  SmallModel model_;
  Saver saver_{model_.graph, {.write_meta_graph = false}};
};

TEST_F(SaverMismatch, MissingVariable) {
  const Status status = restore_changed("w", {});
  EXPECT_EQ(status.code(), Code::kNotFound);
  expect_mentions(status, {"\"w\"", directory_.file("m"), "b/Adam", "global_step"});
}

TEST_F(SaverMismatch, OtherShape) {
  const Status status = restore_changed("w", Tensor(DType::kFloat, {2, 3}));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  expect_mentions(status, {"\"w\"", directory_.file("m"), "[3,2]", "[2,3]"});
}

TEST_F(SaverMismatch, OtherType) {
  const Status status = restore_changed("global_step", Tensor::scalar<std::int32_t>(1));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  expect_mentions(status, {"\"global_step\"", directory_.file("m"), "int32", "int64"});
}

TEST_F(SaverMismatch, ReshapeTakesAnyShapeOfThatSize) {
  LocalSession session(model_.graph);
  session.run({model_.init});
  auto writer = BundleWriter::create(local_file_system(), directory_.file("m")).value_or_throw();
  throw_if_error(writer->add("w", Tensor::vector<float>({1, 2, 3, 4, 5, 6})));
  throw_if_error(writer->add("b", Tensor::vector<float>({1, 2, 3})));
  throw_if_error(writer->finish());
  Saver fits(model_.graph, {.variables = {{"w", model_.w}}, .reshape = true});
  fits.restore(session, directory_.file("m"));
  EXPECT_TRUE(bitwise_equal(session.run({}, {model_.w})[0], Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6})));
  Saver does_not(model_.graph, {.variables = {{"b", model_.b}}, .reshape = true});
  expect_mentions(does_not.try_restore(session, directory_.file("m")), {"[2]", "[3]"});
}

TEST(Saver, ReferenceVariables) {
  TempDirectory directory;
  Graph graph(builtin_ops());
  Node* w = add_op(graph, "VariableV2", {}, {{"dtype", DType::kFloat}, {"shape", PartialShape(Shape{2})}}, "w");
  const auto assign = [&](float a, float b) {
    return add_op(graph, "Assign", {w->output(), constant(graph, Tensor::vector<float>({a, b}))});
  };
  Node* first = assign(1, 2);
  Node* second = assign(3, 4);
  for (const bool background : {false, true}) {
    Saver saver(graph, {.nodes = {{"w", w}}, .save_in_background = background});
    LocalSession session(graph);
    session.run({first});
    saver.save(session, directory.file("m"));
    session.run({second});
    saver.restore(session, directory.file("m"));
    EXPECT_TRUE(bitwise_equal(session.run({}, {w->output()})[0], Tensor::vector<float>({1, 2}))) << background;
  }
}

// --- Partitioned variables ---

// "w" [5,2] in so many parts.
struct Partitioned {
  explicit Partitioned(int count) : graph(builtin_ops()) {
    Tensor value(DType::kFloat, {5, 2});
    for (std::size_t i = 0; i < 10; ++i) value.flat<float>()[i] = static_cast<float>(i + 1);
    if (count == 1) {
      parts.push_back(variable(graph, value, "w"));
    } else {
      parts = partitioned_variable(graph, value, "w", fixed_size_partitioner(count)).parts();
    }
    init = global_variables_initializer(graph);
  }
  Tensor whole(Session& session) {
    Tensor result(DType::kFloat, {5, 2});
    float* out = result.data<float>();
    for (const Var& part : parts) {
      const Tensor value = session.run({}, {part})[0];
      out = std::copy(value.flat<float>().begin(), value.flat<float>().end(), out);
    }
    return result;
  }

  Graph graph;
  std::vector<Var> parts;
  Node* init;
};

TEST(Saver, AnotherNumberOfParts) {
  for (const int from : {1, 2, 3, 5}) {
    TempDirectory directory;
    Tensor saved;
    {
      Partitioned model(from);
      LocalSession session(model.graph);
      session.run({model.init});
      Saver(model.graph, {.sharded = true}).save(session, directory.file("m"));
      saved = model.whole(session);
    }
    EXPECT_EQ(load_checkpoint(directory.path())->variables().size(), 1u);
    EXPECT_TRUE(bitwise_equal(load_variable(directory.file("m"), "w"), saved));
    for (const int to : {1, 2, 3, 5}) {
      Partitioned model(to);
      LocalSession session(model.graph);
      session.run({model.init});
      for (const Var& part : model.parts) session.run({part.assign(zeros_like(part))});
      Saver(model.graph).restore(session, directory.file("m"));
      EXPECT_TRUE(bitwise_equal(model.whole(session), saved)) << from << " to " << to;
    }
  }
}

TEST(Saver, PartsOfAnotherWhole) {
  TempDirectory directory;
  Partitioned model(2);
  LocalSession session(model.graph);
  session.run({model.init});
  auto writer = BundleWriter::create(local_file_system(), directory.file("m")).value_or_throw();
  throw_if_error(writer->add("w", Tensor(DType::kFloat, {4, 2})));
  throw_if_error(writer->finish());
  expect_mentions(Saver(model.graph).try_restore(session, directory.file("m")),
                  {"w/part_0", directory.file("m"), "[5,2]", "[4,2]"});
}

}  // namespace tutti::saver_test
