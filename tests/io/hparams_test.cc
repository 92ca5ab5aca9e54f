#include "tutti/io/hparams.h"

#include <limits>

#include "proto/hparams.pb.h"
#include "proto/summary.pb.h"
#include "tests/io/io_support.h"

namespace tutti::hparams_test {

namespace messages = tensorboard::hparams;

messages::HParamsPluginData data_of(const std::string& bytes, const std::string& tag) {
  tensorflow::Summary summary;
  EXPECT_TRUE(summary.ParseFromString(bytes));
  EXPECT_EQ(summary.value_size(), 1);
  EXPECT_EQ(summary.value(0).tag(), tag);
  EXPECT_EQ(summary.value(0).metadata().plugin_data().plugin_name(), "hparams");
  EXPECT_TRUE(summary.value(0).has_tensor());
  messages::HParamsPluginData data;
  EXPECT_TRUE(data.ParseFromString(summary.value(0).metadata().plugin_data().content()));
  return data;
}

TEST(HParams, Trial) {
  const HParams values{{"bn", true}, {"lr", 0.01}, {"optimiser", std::string("ad\"am")}};
  const auto start =
      data_of(hparams_summary(values, 12.5).value_or_throw(), "_hparams_/session_start_info").session_start_info();
  EXPECT_EQ(start.start_time_secs(), 12.5);
  EXPECT_EQ(start.hparams().size(), 3u);
  EXPECT_EQ(start.hparams().at("bn").bool_value(), true);
  EXPECT_EQ(start.hparams().at("lr").number_value(), 0.01);
  EXPECT_EQ(start.hparams().at("optimiser").string_value(), "ad\"am");
  EXPECT_EQ(start.group_name(), "\"bn\":true,\"lr\":0.01,\"optimiser\":\"ad\\\"am\"");
  const auto named = data_of(hparams_summary(values, 1, "mine").value_or_throw(), "_hparams_/session_start_info");
  EXPECT_EQ(named.session_start_info().group_name(), "mine");
  const auto end = data_of(hparams_end_summary(TrialStatus::kFailure, 20), "_hparams_/session_end_info");
  EXPECT_EQ(end.session_end_info().status(), messages::STATUS_FAILURE);
  EXPECT_EQ(end.session_end_info().end_time_secs(), 20);
}

TEST(HParams, Experiment) {
  const std::vector<HParamDomain> hparams{{.name = "lr", .display_name = "rate", .interval = {{0.001, 0.1}}},
                                          {.name = "units", .values = {16.0, 32.0}},
                                          {.name = "opt", .values = {std::string("adam"), std::string("sgd")}},
                                          {.name = "any"}};
  const auto experiment =
      data_of(hparams_experiment_summary(hparams, {{.tag = "accuracy", .group = "eval"}}, 3).value_or_throw(),
              "_hparams_/experiment")
          .experiment();
  ASSERT_EQ(experiment.hparam_infos_size(), 4);
  EXPECT_EQ(experiment.hparam_infos(0).display_name(), "rate");
  EXPECT_EQ(experiment.hparam_infos(0).domain_interval().max_value(), 0.1);
  EXPECT_EQ(experiment.hparam_infos(1).type(), messages::DATA_TYPE_FLOAT64);
  EXPECT_EQ(experiment.hparam_infos(2).domain_discrete().values(1).string_value(), "sgd");
  EXPECT_EQ(experiment.hparam_infos(3).type(), messages::DATA_TYPE_UNSET);
  EXPECT_EQ(experiment.metric_infos(0).name().group(), "eval");
  EXPECT_EQ(experiment.metric_infos(0).name().tag(), "accuracy");
}

TEST(HParams, BadInput) {
  const auto code = [](const Result<std::string>& result) { return result.status().code(); };
  EXPECT_EQ(code(hparams_summary({{"\xff", true}}, 0)), Code::kInvalidArgument);
  EXPECT_EQ(code(hparams_summary({{"x", std::string("\xff")}}, 0)), Code::kInvalidArgument);
  EXPECT_EQ(code(hparams_summary({{"x", std::numeric_limits<double>::infinity()}}, 0)), Code::kInvalidArgument);
  EXPECT_EQ(code(hparams_summary({}, 0, "\xff")), Code::kInvalidArgument);
  EXPECT_EQ(code(hparams_experiment_summary({{.name = "x", .values = {true, 1.0}}}, {}, 0)), Code::kInvalidArgument);
  EXPECT_EQ(code(hparams_experiment_summary({{.name = "x", .interval = {{0, 1}}, .values = {1.0}}}, {}, 0)),
            Code::kInvalidArgument);
  EXPECT_EQ(code(hparams_experiment_summary({}, {{.tag = "\xff"}}, 0)), Code::kInvalidArgument);
}

}  // namespace tutti::hparams_test
