// Replays the scripts that generate_scripts.py wrote (see script.py) in a LocalSession and compares the answers:
//   script_runner build/interop/scripts [part of a name]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "run_folders.h"
#include "tutti/core/file_system.h"
#include "tutti/graph/graph_def.h"
#include "tutti/ops/op_table.h"
#include "tutti/runtime/local_session.h"

namespace tutti::interop {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kTimeout{30};

template <typename T, typename Stored = T>
Tensor numbers(const Shape& shape, const json& data) {
  std::vector<T> values;
  for (const auto& item : data) values.push_back(T(item.get<Stored>()));
  return Tensor::of<T>(shape, values);
}

Tensor boolean(const Shape& shape, const json& data) {
  Tensor tensor(DType::kBool, shape);
  for (std::size_t i = 0; i < data.size(); ++i) tensor.data<bool>()[i] = data[i].get<bool>();
  return tensor;
}

// Strings are Latin-1: one byte for each character up to 255.
std::string bytes_of(const std::string& utf8) {
  std::string bytes;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto c = static_cast<unsigned char>(utf8[i]);
    if (c < 0x80 || i + 1 == utf8.size()) {
      bytes += utf8[i];
    } else {
      bytes += static_cast<char>(((c & 0x03) << 6) | (static_cast<unsigned char>(utf8[++i]) & 0x3f));
    }
  }
  return bytes;
}

Tensor decode(const json& value) {
  const std::vector<std::int64_t> dims = value.at("shape");
  const Shape shape = Shape::create(dims).value_or_throw();
  const json& data = value.at("data");
  switch (dtype_from_name(value.at("dtype").get<std::string>())) {
    case DType::kFloat:
      return numbers<float>(shape, data);
    case DType::kDouble:
      return numbers<double>(shape, data);
    case DType::kHalf:
      return numbers<Half, float>(shape, data);
    case DType::kInt32:
      return numbers<std::int32_t>(shape, data);
    case DType::kInt64:
      return numbers<std::int64_t>(shape, data);
    case DType::kBool:
      return boolean(shape, data);
    case DType::kString: {
      std::vector<std::string> values;
      for (const auto& item : data) values.push_back(bytes_of(item.get<std::string>()));
      return Tensor::of<std::string>(shape, values);
    }
    default:
      throw_error(invalid_argument("a script with values of ", value.at("dtype").get<std::string>()));
  }
}

struct Answer {
  Status status;
  std::vector<Tensor> values;
};

// A run that must wait has reached its wait when this returns.
std::future<Answer> start(Session& session, const json& action) {
  Feeds feeds;
  for (const auto& [name, value] : action.at("feeds").items()) feeds.emplace_back(name, decode(value));
  std::vector<TensorName> fetches;
  for (const auto& name : action.at("fetches")) fetches.emplace_back(name.get<std::string>());
  std::vector<NodeName> targets;
  for (const auto& name : action.at("targets")) targets.emplace_back(name.get<std::string>());
  auto answer = std::make_shared<std::promise<Answer>>();
  session.run_async(feeds, fetches, targets, {.timeout = kTimeout},
                    [answer](Status status, std::vector<Tensor> values) {
                      answer->set_value({std::move(status), std::move(values)});
                    });
  return answer->get_future();
}

std::vector<double> as_doubles(const Tensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (tensor.dtype() == DType::kHalf) {
      values.push_back(static_cast<double>(static_cast<float>(tensor.data<Half>()[i])));
    } else {
      values.push_back(tensor.dtype() == DType::kFloat ? static_cast<double>(tensor.data<float>()[i])
                                                       : tensor.data<double>()[i]);
    }
  }
  return values;
}

// Empty when they agree.
std::string difference(const Tensor& got, const Tensor& expected, double tolerance) {
  const std::string both = str_cat("got ", got.to_string(40), ", expected ", expected.to_string(40));
  if (got.dtype() != expected.dtype() || got.shape() != expected.shape()) return both;
  if (tolerance == 0 || !is_floating(got.dtype())) return bitwise_equal(got, expected) ? "" : both;
  const std::vector<double> a = as_doubles(got), b = as_doubles(expected);
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return error <= tolerance * tolerance * std::max(norm, 1e-30) ? "" : both;
}

// Rows of all tensors side by side, sorted.
std::vector<std::string> sorted_rows(const std::vector<Tensor>& tensors) {
  std::vector<std::string> rows;
  for (std::int64_t i = 0; i < tensors.at(0).dim(0); ++i) {
    std::string row;
    for (const Tensor& tensor : tensors) row += tensor.slice(i, i + 1).to_string(100) + " ";
    rows.push_back(row);
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

std::string compare(const Answer& got, const json& action, double tolerance) {
  const json& want = action.at("answer");
  if (want.contains("code")) {
    if (static_cast<int>(got.status.code()) != want.at("code").get<int>()) {
      return str_cat("answered ", got.status, ", TensorFlow has code ", want.at("code").get<int>(), " ",
                     want.at("message").dump());
    }
    if (want.at("message").is_null()) return "";
    const std::string message = want.at("message");
    if (got.status.message().find(message) != std::string::npos) return "";
    return str_cat("says \"", got.status.message(), "\", TensorFlow \"", message, "\"");
  }
  if (!got.status.ok()) return str_cat("failed: ", got.status);
  std::vector<Tensor> expected;
  for (const auto& value : want.at("values")) expected.push_back(decode(value));
  if (got.values.size() != expected.size()) return "another number of fetches";
  if (action.at("unordered").get<bool>()) {
    if (got.values[0].dim(0) == expected[0].dim(0) && sorted_rows(got.values) == sorted_rows(expected)) return "";
    return str_cat("got ", got.values[0].to_string(40), got.values[1].to_string(40), ", expected ",
                   expected[0].to_string(40), expected[1].to_string(40));
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::string text = difference(got.values[i], expected[i], tolerance);
    if (!text.empty()) return str_cat("fetch ", i, ": ", text);
  }
  return "";
}

// Empty when every answer agrees.
std::string replay(const json& script, Session& session) {
  std::map<std::string, std::future<Answer>> started;
  const double tolerance = script.at("tolerance");
  int number = 0;
  for (const json& action : script.at("actions")) {
    const std::string what = action.at("do");
    if (what == "start") {
      started[action.at("id")] = start(session, action);
    } else {
      const Answer answer = what == "wait" ? started.at(action.at("id")).get() : start(session, action).get();
      const std::string text = compare(answer, action, tolerance);
      if (!text.empty()) return str_cat("action ", number, ": ", text);
    }
    ++number;
  }
  return "";
}

bool check(const std::filesystem::path& folder) {
  const std::string name = folder.filename();
  try {
    FileSystem& files = local_file_system();
    const json script = json::parse(read_file(files, folder / "script.json").value_or_throw());
    Graph graph(builtin_ops());
    throw_if_error(import_graph_def(read_file(files, folder / "graph.pb").value_or_throw(), graph));
    LocalSession session(graph);
    const std::string text = replay(script, session);
    if (text.empty()) return true;
    std::printf("FAIL %s: %s\n", name.c_str(), printable(text, 900).c_str());
  } catch (const std::exception& error) {
    std::printf("FAIL %s: %s\n", name.c_str(), printable(error.what(), 900).c_str());
  }
  return false;
}

}  // namespace
}  // namespace tutti::interop

int main(int argc, char** argv) { return tutti::interop::run_folders(argc, argv, "scripts: ", tutti::interop::check); }
