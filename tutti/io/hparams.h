// Hyperparameters of trials, as the table that TensorBoard makes of many runs. Each function gives a Summary's bytes,
// for EventWriter::add_summary; each run writes its own start and end, one file above the runs the experiment.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tutti/core/status.h"

namespace tutti {

using HParamValue = std::variant<bool, double, std::string>;
using HParams = std::map<std::string, HParamValue>;

// A trial begins. Trials with the same `trial_id` are one row of the table; empty: those with the same values are.
// Times are seconds since 1970. kInvalidArgument for text that is not UTF-8 and numbers that are not finite.
Result<std::string> hparams_summary(const HParams& hparams, double start_seconds, const std::string& trial_id = "");

enum class TrialStatus { kUnknown = 0, kSuccess = 1, kFailure = 2, kRunning = 3 };
// A trial ended.
std::string hparams_end_summary(TrialStatus status, double end_seconds);

struct HParamDomain {
  std::string name;
  std::string display_name = "";
  std::string description = "";
  // Either an interval or the values it takes, all of one type; neither: any.
  std::optional<std::pair<double, double>> interval = {};
  std::vector<HParamValue> values = {};
};
struct HParamMetric {
  std::string tag;         // of a scalar
  std::string group = "";  // directory of its files below the trial's
  std::string display_name = "";
  std::string description = "";
};
// What an experiment varies and measures. Without one TensorBoard finds out from the trials. kInvalidArgument for text
// that is not UTF-8, numbers that are not finite, values of several types, or both an interval and values.
Result<std::string> hparams_experiment_summary(const std::vector<HParamDomain>& hparams,
                                               const std::vector<HParamMetric>& metrics, double created_seconds);

}  // namespace tutti
