#include "tutti/io/hparams.h"

#include <cmath>
#include <utility>

#include "proto/hparams.pb.h"
#include "tutti/core/tensor.h"
#include "tutti/io/internal/utf8.h"
#include "tutti/io/summary.h"

namespace tutti {
namespace {

namespace messages = tensorboard::hparams;

Status check_hparam_text(std::string_view text, std::string_view what) {
  if (is_utf8(text)) return {};
  return invalid_argument("hparams: the ", what, " \"", printable(text), "\" is not UTF-8");
}

Status check_value(const std::string& name, const HParamValue& value) {
  if (const auto* number = std::get_if<double>(&value); number && !std::isfinite(*number)) {
    return invalid_argument("hparams: \"", printable(name), "\" is ", *number, ", which the plugin cannot show");
  }
  if (const auto* text = std::get_if<std::string>(&value)) return check_hparam_text(*text, str_cat("value of ", name));
  return {};
}

void set_value(const HParamValue& value, google::protobuf::Value* out) {
  if (const auto* flag = std::get_if<bool>(&value)) out->set_bool_value(*flag);
  if (const auto* number = std::get_if<double>(&value)) out->set_number_value(*number);
  if (const auto* text = std::get_if<std::string>(&value)) out->set_string_value(*text);
}

// The plugin reads its data from the metadata; the tensor is there because a value needs one.
std::string plugin_summary(const std::string& tag, const messages::HParamsPluginData& data) {
  SummaryBuilder summary;
  const std::string metadata = summary_metadata({.plugin_name = "hparams", .plugin_content = data.SerializeAsString()});
  const Status status = summary.add_tensor(tag, Tensor(DType::kFloat, Shape{0}), metadata);
  TUTTI_CHECK(status.ok(), status.to_string());
  return summary.bytes();
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// Text that two trials share exactly when their values are the same.
std::string name_of_values(const HParams& hparams) {
  std::string name;
  for (const auto& [key, value] : hparams) {
    name += str_cat(name.empty() ? "" : ",", in_quotes(key), ":");
    if (const auto* flag = std::get_if<bool>(&value)) name += *flag ? "true" : "false";
    if (const auto* number = std::get_if<double>(&value)) name += str_cat(*number);
    if (const auto* text = std::get_if<std::string>(&value)) name += in_quotes(*text);
  }
  return name;
}

messages::DataType type_of(const HParamValue& value) {
  if (std::holds_alternative<bool>(value)) return messages::DATA_TYPE_BOOL;
  if (std::holds_alternative<double>(value)) return messages::DATA_TYPE_FLOAT64;
  return messages::DATA_TYPE_STRING;
}

Status fill_domain(const HParamDomain& hparam, messages::HParamInfo* info) {
  if (hparam.interval && !hparam.values.empty()) {
    return invalid_argument("hparams: \"", printable(hparam.name), "\" has both an interval and values");
  }
  if (hparam.interval) {
    TUTTI_RETURN_IF_ERROR(check_value(hparam.name, hparam.interval->first));
    TUTTI_RETURN_IF_ERROR(check_value(hparam.name, hparam.interval->second));
    info->set_type(messages::DATA_TYPE_FLOAT64);
    info->mutable_domain_interval()->set_min_value(hparam.interval->first);
    info->mutable_domain_interval()->set_max_value(hparam.interval->second);
  }
  for (const HParamValue& value : hparam.values) {
    TUTTI_RETURN_IF_ERROR(check_value(hparam.name, value));
    if (value.index() != hparam.values[0].index()) {
      return invalid_argument("hparams: values of several types for \"", printable(hparam.name), "\"");
    }
    info->set_type(type_of(value));
    set_value(value, info->mutable_domain_discrete()->add_values());
  }
  return {};
}

Status fill_hparam(const HParamDomain& hparam, messages::HParamInfo* info) {
  TUTTI_RETURN_IF_ERROR(check_hparam_text(hparam.name, "name"));
  TUTTI_RETURN_IF_ERROR(check_hparam_text(hparam.display_name, "display name"));
  TUTTI_RETURN_IF_ERROR(check_hparam_text(hparam.description, "description"));
  info->set_name(hparam.name);
  info->set_display_name(hparam.display_name);
  info->set_description(hparam.description);
  return fill_domain(hparam, info);
}

Status fill_metric(const HParamMetric& metric, messages::MetricInfo* info) {
  TUTTI_RETURN_IF_ERROR(check_hparam_text(metric.tag, "tag of a metric"));
  TUTTI_RETURN_IF_ERROR(check_hparam_text(metric.group, "group of a metric"));
  TUTTI_RETURN_IF_ERROR(check_hparam_text(metric.display_name, "display name of a metric"));
  TUTTI_RETURN_IF_ERROR(check_hparam_text(metric.description, "description of a metric"));
  info->mutable_name()->set_tag(metric.tag);
  info->mutable_name()->set_group(metric.group);
  info->set_display_name(metric.display_name);
  info->set_description(metric.description);
  return {};
}

}  // namespace

Result<std::string> hparams_summary(const HParams& hparams, double start_seconds, const std::string& trial_id) {
  TUTTI_RETURN_IF_ERROR(check_hparam_text(trial_id, "trial"));
  messages::HParamsPluginData data;
  auto* start = data.mutable_session_start_info();
  start->set_start_time_secs(start_seconds);
  start->set_group_name(trial_id.empty() ? name_of_values(hparams) : trial_id);
  for (const auto& [name, value] : hparams) {
    TUTTI_RETURN_IF_ERROR(check_hparam_text(name, "name"));
    TUTTI_RETURN_IF_ERROR(check_value(name, value));
    set_value(value, &(*start->mutable_hparams())[name]);
  }
  return plugin_summary("_hparams_/session_start_info", data);
}

std::string hparams_end_summary(TrialStatus status, double end_seconds) {
  messages::HParamsPluginData data;
  data.mutable_session_end_info()->set_status(static_cast<messages::Status>(status));
  data.mutable_session_end_info()->set_end_time_secs(end_seconds);
  return plugin_summary("_hparams_/session_end_info", data);
}

Result<std::string> hparams_experiment_summary(const std::vector<HParamDomain>& hparams,
                                               const std::vector<HParamMetric>& metrics, double created_seconds) {
  messages::HParamsPluginData data;
  auto* experiment = data.mutable_experiment();
  experiment->set_time_created_secs(created_seconds);
  for (const HParamDomain& hparam : hparams) TUTTI_RETURN_IF_ERROR(fill_hparam(hparam, experiment->add_hparam_infos()));
  for (const HParamMetric& metric : metrics) TUTTI_RETURN_IF_ERROR(fill_metric(metric, experiment->add_metric_infos()));
  return plugin_summary("_hparams_/experiment", data);
}

}  // namespace tutti
