// Runs the cases that generate.py wrote (see script.py) and compares:
//   drawn_runner FOLDER [OP [CASE]]
// Every case runs with the passes and without; where there are gradients, both TensorFlow's own gradient nodes and
// those that tutti::gradients makes are compared with TensorFlow's values.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <complex>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "proto/tensor.pb.h"
#include "tutti/core/file_system.h"
#include "tutti/graph/gradients.h"
#include "tutti/graph/graph_def.h"
#include "tutti/graph/tensor_codec.h"
#include "tutti/ops/op_table.h"
#include "tutti/runtime/local_session.h"

namespace tutti::interop {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kStepTimeout{20};

// --- Cases. ---

struct Step {
  std::vector<NodeName> run;
  std::vector<TensorName> fetch;
  std::vector<Tensor> expect;
  std::vector<PartialShape> shapes;  // that TensorFlow knew before the run
  Code error = Code::kOk;
  std::string message;  // TensorFlow's, of the error
};

struct Derivative {
  std::vector<std::string> ys, xs, grad_ys;
  std::vector<std::optional<Tensor>> expect;
};

struct Case {
  std::string op;
  std::string kind;
  int number = 0;
  bool exact = false;      // all bits of the results are equal
  bool rewritten = false;  // the graph is another than TensorFlow's
  std::string graph;
  Feeds feeds;
  std::vector<Step> steps;
  std::optional<Derivative> derivative;
};

Tensor parse_tensor(std::string_view bytes) {
  tensorflow::TensorProto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) throw_error(data_loss("a tensor"));
  return decode_tensor(proto).value_or_throw();
}

PartialShape parse_shape(const json& j) {
  return j.is_null() ? PartialShape::unknown() : PartialShape(j.get<std::vector<std::int64_t>>());
}

// Takes one case off the front of `bytes`.
Case parse_case(std::string_view& bytes) {
  const std::size_t line = bytes.find('\n');
  const json j = json::parse(bytes.substr(0, line));
  bytes.remove_prefix(line + 1);
  std::vector<std::string_view> blobs;
  for (const std::size_t size : j.at("blobs")) {
    blobs.push_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  const auto tensor = [&](const json& index) { return parse_tensor(blobs.at(index.get<std::size_t>())); };

  Case c{.op = j.at("op"),
         .kind = j.at("kind"),
         .number = j.at("case"),
         .exact = j.at("exact"),
         .rewritten = j.at("rewritten"),
         .graph = std::string(blobs.at(j.at("graph")))};
  for (const auto& [name, index] : j.at("feeds").items()) c.feeds.emplace_back(name, tensor(index));
  for (const json& step : j.at("steps")) {
    Step& s = c.steps.emplace_back();
    for (const std::string name : step.at("run")) s.run.emplace_back(name);
    for (const std::string name : step.at("fetch")) s.fetch.emplace_back(name);
    if (step.contains("error")) {
      s.error = static_cast<Code>(step.at("error").get<int>());
      s.message = step.at("message");
    } else {
      for (const json& index : step.at("expect")) s.expect.push_back(tensor(index));
      for (const json& shape : step.at("shapes")) s.shapes.push_back(parse_shape(shape));
    }
  }
  if (j.contains("derivative")) {
    const json& d = j.at("derivative");
    c.derivative = Derivative{.ys = d.at("ys"), .xs = d.at("xs"), .grad_ys = d.at("grad_ys")};
    for (const json& index : d.at("expect")) {
      c.derivative->expect.push_back(index.is_null() ? std::nullopt : std::optional<Tensor>(tensor(index)));
    }
  }
  return c;
}

// --- Comparison. ---

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::kHalf:
    case DType::kBfloat16:
      return 1e-2;
    case DType::kFloat:
    case DType::kComplex64:
      return 1e-5;
    default:
      return 1e-9;
  }
}

// Distance of the finite values over the norm of the expected ones; infinite when a value that is not finite differs.
class Distance {
 public:
  void add(double got, double expected) {
    if (std::isfinite(expected) && std::isfinite(got)) {
      difference_ += (got - expected) * (got - expected);
      norm_ += expected * expected;
    } else if (!(std::isnan(got) && std::isnan(expected)) && got != expected) {
      difference_ = INFINITY;
    }
  }
  double relative() const { return difference_ == 0 ? 0 : std::sqrt(difference_ / (norm_ > 0 ? norm_ : 1)); }

 private:
  double difference_ = 0;
  double norm_ = 0;
};

template <typename T>
bool is_finite(const std::complex<T>& x) {
  return std::isfinite(x.real()) && std::isfinite(x.imag());
}

template <typename T>
double distance(const Tensor& got, const Tensor& expected) {
  Distance d;
  for (std::int64_t i = 0; i < got.num_elements(); ++i) {
    if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
      const T ours = got.data<T>()[i], theirs = expected.data<T>()[i];
      // Which parts of a number at a pole are infinite and which NaN differs in TensorFlow from one place of a tensor
      // to the next, by whether its vectors reach there.
      if (!is_finite(ours) && !is_finite(theirs)) continue;
      d.add(ours.real(), theirs.real());
      d.add(ours.imag(), theirs.imag());
    } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
      d.add(static_cast<float>(got.data<T>()[i]), static_cast<float>(expected.data<T>()[i]));
    } else {
      d.add(got.data<T>()[i], expected.data<T>()[i]);
    }
  }
  return d.relative();
}

double distance(const Tensor& got, const Tensor& expected) {
  switch (expected.dtype()) {
    case DType::kHalf:
      return distance<Half>(got, expected);
    case DType::kBfloat16:
      return distance<Bfloat16>(got, expected);
    case DType::kFloat:
      return distance<float>(got, expected);
    case DType::kDouble:
      return distance<double>(got, expected);
    case DType::kComplex64:
      return distance<std::complex<float>>(got, expected);
    case DType::kComplex128:
      return distance<std::complex<double>>(got, expected);
    default:
      return bitwise_equal(got, expected) ? 0 : INFINITY;
  }
}

Status compare(const std::string& name, const Tensor& got, const Tensor& expected, bool exact = false) {
  if (got.dtype() != expected.dtype() || got.shape() != expected.shape()) {
    return internal_error(name, " is ", dtype_name(got.dtype()), " ", got.shape(), ", expected ",
                          dtype_name(expected.dtype()), " ", expected.shape());
  }
  const double d = distance(got, expected);
  if (exact ? bitwise_equal(got, expected) : d <= tolerance(expected.dtype())) return {};
  return internal_error(name, " is ", got.to_string(24), ", expected ", expected.to_string(24), ", distance ", d);
}

// Ops of whose results TensorFlow knows more before the run.
constexpr std::pair<std::string_view, const char*> kOpenShapes[] = {
    {"DynamicStitch", "it looks at constant indices"},
    {"ParallelDynamicStitch", "it looks at constant indices"},
    {"LookupTableFindV2", "its handles know the table's types"},
    {"TensorArrayReadV3", "its handles know the shape of elements"},
    {"TensorListElementShape", "its handles know the shape of elements"},
    {"TensorListPopBack", "its handles know the shape of elements"},
    {"ParseSequenceExample", "it puts the attributes' shapes together"},
    {"ParseSequenceExampleV2", "it puts the attributes' shapes together"},
    {"ParseSingleSequenceExample", "it puts the attributes' shapes together"},
    {"RaggedRange", "it broadcasts its arguments"},
    {"RaggedTensorToTensor", "it looks at the shape that is asked for"},
    {"SparseReduceMax", "it looks at constant shapes and axes"},
    {"SparseReduceSum", "it looks at constant shapes and axes"},
    {"FusedBatchNorm", "it knows how many dimensions there must be"},
    {"FusedBatchNormV2", "it knows how many dimensions there must be"},
    {"FusedBatchNormV3", "it knows how many dimensions there must be"},
    {"FusedBatchNormGrad", "it knows how many dimensions there must be"},
    {"FusedBatchNormGradV2", "it knows how many dimensions there must be"},
    {"FusedBatchNormGradV3", "it knows how many dimensions there must be"},
    {"GRUBlockCellGrad", "it knows how many dimensions there must be"},
    {"LSTMBlockCellGrad", "it knows how many dimensions there must be"},
    {"SplitV", "it works the size of -1 out"},
};

bool may_be_open(const Output& output) {
  return std::ranges::any_of(kOpenShapes, [&](const auto& open) { return open.first == output.node->op_name(); });
}

// A shape that was worked out before the run must allow for what came out, and say as much as TensorFlow's does.
Status check_inferred_shape(const Graph& graph, const TensorName& name, const Tensor& got, const PartialShape& theirs) {
  TUTTI_ASSIGN_OR_RETURN(const Output output, graph.find_output(name.str()));
  const PartialShape& ours = output.shape();
  if (!ours.compatible_with(got.shape())) {
    return internal_error(name.str(), " was inferred to be ", ours, " and is ", got.shape());
  }
  TUTTI_ASSIGN_OR_RETURN(const PartialShape both, ours.merge(theirs));
  if (both == ours || may_be_open(output)) return {};
  return internal_error(name.str(), " was inferred to be ", ours, ", by TensorFlow to be ", theirs);
}

// --- Running. ---

Status expect_error(const Status& got, const Step& step) {
  if (got.code() == step.error) return {};
  return internal_error("got ", got.to_string(), ", expected the error ", code_name(step.error), ": ", step.message);
}

Status run_steps(const Case& c, Graph& graph, Session& session) {
  for (const Step& step : c.steps) {
    Result<std::vector<Tensor>> got = session.try_run(c.feeds, step.fetch, step.run, {.timeout = kStepTimeout});
    if (step.error != Code::kOk) return expect_error(got.status(), step);
    TUTTI_RETURN_IF_ERROR(got.status());
    for (std::size_t i = 0; i < step.expect.size(); ++i) {
      TUTTI_RETURN_IF_ERROR(compare(step.fetch[i].str(), (*got)[i], step.expect[i], c.exact));
      TUTTI_RETURN_IF_ERROR(check_inferred_shape(graph, step.fetch[i], (*got)[i],
                                                 c.rewritten ? PartialShape::unknown() : step.shapes[i]));
    }
  }
  return {};
}

bool is_zero(const Tensor& tensor) { return distance(Tensor(tensor.dtype(), tensor.shape()), tensor) == 0; }

std::vector<Output> outputs_of(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<Output> outputs;
  for (const std::string& name : names) outputs.push_back(graph.find_output(name).value_or_throw());
  return outputs;
}

// Differentiates the graph here, and compares with what TensorFlow's gradients gave.
Status run_derivative(const Case& c, Graph& graph, Session& session) {
  const Derivative& d = *c.derivative;
  const std::vector<Gradient> grads =
      gradients(outputs_of(graph, d.ys), outputs_of(graph, d.xs), {.grad_ys = outputs_of(graph, d.grad_ys)});
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const std::string name = str_cat("our gradient of ", d.xs[i]);
    if (!grads[i] && d.expect[i] && is_zero(*d.expect[i])) continue;  // nothing and zeros are the same
    if (static_cast<bool>(grads[i]) != d.expect[i].has_value()) {
      return internal_error(name, grads[i] ? " exists, TensorFlow has none" : " is missing, TensorFlow has one");
    }
    if (!grads[i]) continue;
    TUTTI_ASSIGN_OR_RETURN(const std::vector<Tensor> got,
                           session.try_run(c.feeds, {grads[i].dense()}, {}, {.timeout = kStepTimeout}));
    TUTTI_RETURN_IF_ERROR(compare(name, got[0], *d.expect[i]));
  }
  return {};
}

constexpr PassOptions kNoPasses{.fold_constants = false,
                                .merge_common_subexpressions = false,
                                .drop_unread = false,
                                .hoist = false,
                                .open_gates = false,
                                .fuse = false,
                                .inline_functions = false};

// As it stands, on one thread; and as users run it, on threads that share out even the smallest loops.
SessionOptions plain_options() {
  return {.threads = {.intra_op_threads = 1, .inter_op_threads = 1}, .passes = kNoPasses};
}
SessionOptions threaded_options() {
  return {.threads = {.intra_op_threads = 3, .loop_cut = LoopCut::kWhereverPossible, .inter_op_threads = 1}};
}

Status run_with(const Case& c, const SessionOptions& options) try {
  Graph graph(builtin_ops());
  const Status imported = import_graph_def(c.graph, graph);
  if (!imported.ok()) {  // as good as an error when the last step runs
    return c.steps.back().error != Code::kOk ? expect_error(imported, c.steps.back()) : imported;
  }
  LocalSession session(graph, options);
  TUTTI_RETURN_IF_ERROR(run_steps(c, graph, session));
  return c.derivative ? run_derivative(c, graph, session) : Status();
} catch (const Error& error) {
  return error.status();
}

std::string describe_feeds(const Case& c) {
  std::string text;
  for (const auto& [name, value] : c.feeds) text += str_cat("\n       ", name.str(), " = ", value.to_string(16));
  return text;
}

struct Totals {
  int ops = 0, cases = 0, errors = 0, gradients = 0, failed = 0;
};

void check_case(const Case& c, Totals& totals) {
  ++totals.cases;
  totals.errors += c.kind == "error";
  totals.gradients += c.kind == "gradient";
  Status status = run_with(c, plain_options());
  const char* how = "without passes, on one thread";
  if (status.ok()) {
    status = run_with(c, threaded_options());
    how = "with passes, on three threads";
  }
  if (status.ok()) return;
  ++totals.failed;
  std::printf("FAIL %s case %d (%s%s) %s: %s%s\n", c.op.c_str(), c.number, c.kind.c_str(),
              c.rewritten ? ", rewritten for Tutti" : "", how, printable(status.message(), 900).c_str(),
              describe_feeds(c).c_str());
}

int run_all(const std::string& folder, const std::string& op, int number) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".cases" && (op.empty() || entry.path().stem() == op))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  Totals totals;
  for (const auto& file : files) {
    const std::string content = read_file(local_file_system(), file.string()).value_or_throw();
    std::string_view rest = content;
    totals.ops += !rest.empty();
    while (!rest.empty()) {
      const Case c = parse_case(rest);
      if (number < 0 || c.number == number) check_case(c, totals);
    }
    std::fflush(stdout);
  }
  std::printf("drawn: %d ops, %d cases (%d with gradients, %d refused by TensorFlow), %d failures\n", totals.ops,
              totals.cases, totals.gradients, totals.errors, totals.failed);
  std::printf("%d passed, %d failed\n", totals.cases - totals.failed, totals.failed);
  return totals.failed == 0 && totals.cases > 0 ? 0 : 1;
}

}  // namespace
}  // namespace tutti::interop

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: drawn_runner FOLDER_OF_CASES [OP [CASE]]\n");
    return 2;
  }
  try {
    return tutti::interop::run_all(argv[1], argc > 2 ? argv[2] : "", argc > 3 ? std::atoi(argv[3]) : -1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "drawn_runner: %s\n", error.what());
    return 1;
  }
}
