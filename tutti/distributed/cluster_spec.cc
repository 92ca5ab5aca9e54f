#include "tutti/distributed/cluster_spec.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "tutti/core/device_name.h"
#include "tutti/core/strings.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

// Nothing that we read lies deeper than cluster, job, tasks.
constexpr int kMaxDepth = 16;
// A sparse job is listed with its gaps, so an index costs memory.
constexpr int kMaxTaskIndex = 1'000'000;
constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;

// Watches a parse for what the library would let pass: keys that come twice, of which the last would win silently, and
// depth without bound.
class ParseWatch {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& value) {
    if (depth > kMaxDepth) {
      error_.update(invalid_argument("JSON: nested deeper than ", kMaxDepth, " levels"));
      return false;
    }
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys_.empty()) keys_.pop_back();
    if (event == Json::parse_event_t::key && !keys_.empty()) {
      const auto& name = value.get_ref<const std::string&>();
      if (!keys_.back().insert(name).second) {
        error_.update(invalid_argument("JSON: the key \"", printable(name), "\" stands twice in one object"));
      }
    }
    return true;
  }
  const Status& error() const { return error_; }

 private:
  std::vector<std::set<std::string>> keys_;
  Status error_;
};

// The library's words without its tag: "[json.exception.parse_error.101] parse error at line 1, column 2: ...".
std::string parse_message(const std::exception& error) {
  std::string_view text = error.what();
  if (const auto end = text.find("] "); text.starts_with('[') && end != text.npos) text.remove_prefix(end + 2);
  return printable(text, 300);
}

Result<Json> parse_json(std::string_view text) {
  if (text.size() > kMaxTextBytes) return invalid_argument("JSON: ", text.size(), " bytes are too many");
  ParseWatch watch;
  try {
    Json json = Json::parse(
        text, [&](int depth, Json::parse_event_t event, Json& value) { return watch(depth, event, value); });
    TUTTI_RETURN_IF_ERROR(watch.error());
    return json;
  } catch (const Json::exception& error) {
    TUTTI_RETURN_IF_ERROR(watch.error());
    return invalid_argument("not JSON: ", parse_message(error));
  }
}

// A value as it stood in the text, for errors.
std::string quoted(const Json& value) {
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), 60);
}

std::string child(const std::string& where, const std::string& key) {
  return where.empty() ? printable(key, 60) : str_cat(where, ".", printable(key, 60));
}

Status check_job(const std::string& job, const std::string& where) {
  const auto parsed = DeviceName::parse(str_cat("/job:", job));
  if (parsed.ok() && parsed->job == job) return {};
  return invalid_argument(where, ": \"", printable(job, 60),
                          "\" is not a job's name (letters, digits and underscores, a letter first)");
}

Result<std::string> read_address(const Json& value, const std::string& where) {
  if (!value.is_string()) return invalid_argument(where, ": an address must be a string, not ", quoted(value));
  const auto& address = value.get_ref<const std::string&>();
  if (str_strip(address).empty()) return invalid_argument(where, ": an address must not be empty");
  if (printable(address, address.size()) != address) {
    return invalid_argument(where, ": not an address: \"", printable(address, 60), "\"");
  }
  return address;
}

Result<int> read_index(std::string_view text, const std::string& where) {
  std::int64_t index = 0;
  if (!parse_int64(text, &index) || index < 0 || index > kMaxTaskIndex) {
    return invalid_argument(where, ": \"", printable(text, 60), "\" is not a task index (0 to ", kMaxTaskIndex, ")");
  }
  return static_cast<int>(index);
}

Result<ClusterSpec::Tasks> read_tasks(const Json& value, const std::string& where) {
  ClusterSpec::Tasks tasks;
  if (value.is_array()) {
    if (value.size() > kMaxTaskIndex) return invalid_argument(where, ": ", value.size(), " tasks are too many");
    for (std::size_t i = 0; i < value.size(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(tasks[static_cast<int>(i)], read_address(value[i], str_cat(where, "[", i, "]")));
    }
    return tasks;
  }
  if (!value.is_object()) {
    return invalid_argument(where, ": tasks must be a list of addresses or an object from index to address, not ",
                            quoted(value));
  }
  for (const auto& [key, address] : value.items()) {
    const std::string place = child(where, key);
    TUTTI_ASSIGN_OR_RETURN(const int index, read_index(key, place));
    if (tasks.contains(index)) return invalid_argument(place, ": task ", index, " is given twice");
    TUTTI_ASSIGN_OR_RETURN(tasks[index], read_address(address, place));
  }
  return tasks;
}

// `where`: what the value is called in errors; empty at the top of the text.
Result<ClusterSpec> read_cluster(const Json& value, const std::string& where) {
  if (!value.is_object()) {
    return invalid_argument(where.empty() ? "cluster" : where, ": must be an object from job to tasks, not ",
                            quoted(value));
  }
  std::map<std::string, ClusterSpec::Tasks> jobs;
  for (const auto& [job, tasks] : value.items()) {
    const std::string place = child(where, job);
    TUTTI_RETURN_IF_ERROR(check_job(job, place));
    TUTTI_ASSIGN_OR_RETURN(jobs[job], read_tasks(tasks, place));
  }
  return ClusterSpec(std::move(jobs));
}

Status read_hosts(std::string_view list, const std::string& flag, const std::string& job, ClusterSpec& spec) {
  if (str_strip(list).empty()) return {};
  int index = 0;
  for (const std::string_view piece : str_split(list, ',')) {
    const std::string_view host = str_strip(piece);
    if (host.empty()) {
      return invalid_argument(flag, ": task ", index, " has no address in \"", printable(list), "\"");
    }
    if (index > kMaxTaskIndex) return invalid_argument(flag, ": more than ", kMaxTaskIndex, " tasks");
    spec.set(job, index++, std::string(host));
  }
  return {};
}

bool is_dense(const ClusterSpec::Tasks& tasks) {
  return !tasks.empty() && tasks.begin()->first == 0 && tasks.rbegin()->first == static_cast<int>(tasks.size()) - 1;
}

// 'text', as Python writes it.
std::string python_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string python_tasks(const ClusterSpec::Tasks& tasks) {
  const bool dense = is_dense(tasks);
  std::vector<std::string> parts;
  for (const auto& [index, address] : tasks) {
    parts.push_back(dense ? python_quoted(address) : str_cat(index, ": ", python_quoted(address)));
  }
  return str_cat(dense ? "[" : "{", str_join(parts, ", "), dense ? "]" : "}");
}

Result<std::string> read_text(const Json& object, const char* key) {
  if (!object.contains(key) || object[key].is_null()) return std::string();
  if (!object[key].is_string()) return invalid_argument(key, ": must be a string, not ", quoted(object[key]));
  return object[key].get<std::string>();
}

// The number may be written as one or as a string, as in TensorFlow.
Result<std::optional<int>> read_task_index(const Json& task) {
  if (!task.contains("index") || task["index"].is_null()) return std::optional<int>();
  const Json& value = task["index"];
  if (!value.is_number_integer() && !value.is_string()) {
    return invalid_argument("task.index: must be a whole number, not ", quoted(value));
  }
  TUTTI_ASSIGN_OR_RETURN(const int index,
                         read_index(value.is_string() ? value.get<std::string>() : value.dump(), "task.index"));
  return std::optional<int>(index);
}

Status check_known_type(const std::string& type) {
  for (const char* known : {"chief", "worker", "ps", "evaluator"}) {
    if (type == known) return {};
  }
  return invalid_argument("task.type: \"", printable(type, 60),
                          "\" is neither a job of the cluster nor one of chief, worker, ps, evaluator");
}

Status check_single(const ClusterSpec& cluster, const std::string& job) {
  const auto found = cluster.tasks().find(job);
  if (found == cluster.tasks().end() || found->second.size() <= 1) return {};
  return invalid_argument("cluster.", job, ": ", found->second.size(), " tasks, but a cluster has at most one ", job);
}

Result<int> only_index(const ClusterSpec& cluster, const std::string& type) {
  const auto found = cluster.tasks().find(type);
  if (found == cluster.tasks().end()) return 0;
  if (found->second.size() == 1) return found->second.begin()->first;
  return invalid_argument("task.index: missing, and the job \"", type, "\" has ", found->second.size(), " tasks");
}

// A task that the cluster lacks: only an evaluator may stand outside of it, and anybody when there is none.
Status check_task(const TaskConfig& config) {
  const auto job = config.cluster.tasks().find(config.type);
  if (job != config.cluster.tasks().end()) {
    if (job->second.contains(config.index)) return {};
    return invalid_argument("task.index: ", config.index, ", but the job \"", config.type, "\" of the cluster has ",
                            job->second.empty() ? "no tasks" : str_cat("tasks ", python_tasks(job->second)));
  }
  TUTTI_RETURN_IF_ERROR(check_known_type(config.type));
  if (config.type == "evaluator" && config.index != 0) {
    return invalid_argument("task.index: ", config.index, ", but there is at most one evaluator");
  }
  if (config.cluster.empty() || config.type == "evaluator") return {};
  return invalid_argument("task.type: \"", config.type, "\", but the cluster has the jobs ",
                          str_join(config.cluster.jobs(), ", "), " only");
}

Status read_task(const Json& value, TaskConfig& config) {
  if (value.is_null()) return {};
  if (!value.is_object()) return invalid_argument("task: must be an object, not ", quoted(value));
  auto type = read_text(value, "type");
  if (!type.ok()) return type.status().with_context("task");
  config.type = *std::move(type);
  TUTTI_ASSIGN_OR_RETURN(const std::optional<int> index, read_task_index(value));
  if (config.type.empty()) {
    return index ? invalid_argument("task.type: missing, but task.index is ", *index) : Status();
  }
  if (index) {
    config.index = *index;
  } else {
    TUTTI_ASSIGN_OR_RETURN(config.index, only_index(config.cluster, config.type));
  }
  return check_task(config);
}

}  // namespace

ClusterSpec::ClusterSpec(std::map<std::string, std::vector<std::string>> jobs) {
  for (auto& [job, addresses] : jobs) {
    Tasks& tasks = jobs_[job];
    for (auto& address : addresses) tasks.emplace(static_cast<int>(tasks.size()), std::move(address));
  }
}

ClusterSpec::ClusterSpec(std::map<std::string, Tasks> jobs) : jobs_(std::move(jobs)) {}

Result<ClusterSpec> ClusterSpec::from_json(std::string_view text) {
  auto json = parse_json(text);
  if (!json.ok()) return json.status().with_context("cluster");
  return read_cluster(*json, "");
}

Result<ClusterSpec> ClusterSpec::from_flags(std::string_view ps_hosts, std::string_view worker_hosts) {
  ClusterSpec spec;
  TUTTI_RETURN_IF_ERROR(read_hosts(ps_hosts, "ps_hosts", "ps", spec));
  TUTTI_RETURN_IF_ERROR(read_hosts(worker_hosts, "worker_hosts", "worker", spec));
  return spec;
}

std::vector<std::string> ClusterSpec::jobs() const {
  std::vector<std::string> names;
  for (const auto& [job, tasks] : jobs_) names.push_back(job);
  return names;
}

Result<const ClusterSpec::Tasks*> ClusterSpec::find(std::string_view job) const {
  const auto found = jobs_.find(std::string(job));
  if (found != jobs_.end()) return &found->second;
  return invalid_argument("no such job in the cluster: \"", printable(job, 60),
                          "\" (it has: ", jobs_.empty() ? "none" : str_join(jobs(), ", "), ")");
}

Result<int> ClusterSpec::num_tasks(std::string_view job) const {
  TUTTI_ASSIGN_OR_RETURN(const Tasks* tasks, find(job));
  return static_cast<int>(tasks->size());
}

Result<std::vector<int>> ClusterSpec::task_indices(std::string_view job) const {
  TUTTI_ASSIGN_OR_RETURN(const Tasks* tasks, find(job));
  std::vector<int> indices;
  for (const auto& [index, address] : *tasks) indices.push_back(index);
  return indices;
}

Result<std::string> ClusterSpec::task_address(std::string_view job, int index) const {
  TUTTI_ASSIGN_OR_RETURN(const Tasks* tasks, find(job));
  const auto found = tasks->find(index);
  if (found != tasks->end()) return found->second;
  return invalid_argument("no task with index ", index, " in the job \"", job, "\"");
}

Result<std::vector<std::optional<std::string>>> ClusterSpec::job_tasks(std::string_view job) const {
  TUTTI_ASSIGN_OR_RETURN(const Tasks* tasks, find(job));
  std::vector<std::optional<std::string>> list;
  if (tasks->empty()) return list;
  if (tasks->begin()->first < 0 || tasks->rbegin()->first > kMaxTaskIndex) {
    return invalid_argument("the job \"", job, "\" has task indices outside of 0 to ", kMaxTaskIndex);
  }
  list.resize(static_cast<std::size_t>(tasks->rbegin()->first) + 1);
  for (const auto& [index, address] : *tasks) list[static_cast<std::size_t>(index)] = address;
  return list;
}

std::string ClusterSpec::to_json() const {
  Json json = Json::object();
  for (const auto& [job, tasks] : jobs_) {
    Json& value = json[job] = is_dense(tasks) ? Json::array() : Json::object();
    for (const auto& [index, address] : tasks) {
      if (value.is_array()) {
        value.push_back(address);
      } else {
        value[std::to_string(index)] = address;
      }
    }
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string ClusterSpec::to_string() const {
  std::vector<std::string> parts;
  for (const auto& [job, tasks] : jobs_) parts.push_back(str_cat(python_quoted(job), ": ", python_tasks(tasks)));
  return str_cat("ClusterSpec({", str_join(parts, ", "), "})");
}

std::string task_name(std::string_view job, int index) { return str_cat("/job:", job, "/replica:0/task:", index); }

std::map<std::string, std::string> task_addresses(const ClusterSpec& cluster) {
  std::map<std::string, std::string> addresses;
  for (const auto& [job, tasks] : cluster.tasks()) {
    for (const auto& [index, address] : tasks) addresses[task_name(job, index)] = address;
  }
  return addresses;
}

Result<TaskConfig> TaskConfig::from_json(std::string_view text) {
  TUTTI_ASSIGN_OR_RETURN(const Json json, parse_json(text));
  if (!json.is_object()) return invalid_argument("must be a JSON object, not ", quoted(json));
  TaskConfig config;
  if (json.contains("cluster") && !json["cluster"].is_null()) {
    TUTTI_ASSIGN_OR_RETURN(config.cluster, read_cluster(json["cluster"], "cluster"));
  }
  TUTTI_RETURN_IF_ERROR(check_single(config.cluster, "chief"));
  TUTTI_RETURN_IF_ERROR(check_single(config.cluster, "evaluator"));
  TUTTI_ASSIGN_OR_RETURN(config.environment, read_text(json, "environment"));
  if (json.contains("task")) TUTTI_RETURN_IF_ERROR(read_task(json["task"], config));
  return config;
}

Result<std::optional<TaskConfig>> TaskConfig::from_env() {
  const char* text = std::getenv("TF_CONFIG");
  if (text == nullptr || str_strip(text).empty()) return std::optional<TaskConfig>();
  auto config = from_json(text);
  if (!config.ok()) return config.status().with_context("TF_CONFIG");
  return std::optional<TaskConfig>(*std::move(config));
}

}  // namespace tutti
