// Drawn attacks on every op: sizes that are immense or negative, tensors without elements, shapes and lists that do not
// fit, values that are no numbers. Whatever an op is given, it ends soon, in a result or an error, within its memory.
//
// Each draw comes from the op's name and a number, so that a finding can be run again. Draws run in child processes,
// which may die; TUTTI_STRESS multiplies their number, TUTTI_ATTACK=Op:draw runs one in this process.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/kernel_runner.h"
#include "tutti/core/memory_budget.h"
#include "tutti/core/strings.h"
#include "tutti/graph/op_def.h"
#include "tutti/kernels/guard.h"
#include "tutti/ops/op_evaluator.h"
#include "tutti/ops/op_table.h"

namespace tutti::op_attack_test {

// What the kernels of a child may take, and all else that it has beside it.
constexpr std::size_t kMemory = 400u << 20;
constexpr std::size_t kBeside = 250u << 20;
// Processor time of one draw. The slowest take a second here, when they fill the memory that they may take.
constexpr int kSeconds = 20;

using Random = std::mt19937;

template <typename T>
T pick(Random& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}
bool one_in(Random& random, unsigned n) { return random() % n == 0; }

DType draw_type(Random& random, const DTypeSet& allowed) {
  const std::initializer_list<DType> usual{DType::kFloat,     DType::kInt32,   DType::kInt64,   DType::kString,
                                           DType::kBool,      DType::kDouble,  DType::kUint8,   DType::kHalf,
                                           DType::kComplex64, DType::kVariant, DType::kResource};
  for (int i = 0; i < 50; ++i) {
    const DType type = i < 6 ? usual.begin()[random() % 4] : pick(random, usual);
    if (allowed.contains(type)) return type;
  }
  return DType::kInt32;
}

std::int64_t draw_integer(Random& random) {
  if (!one_in(random, 4)) return pick<std::int64_t>(random, {0, 1, 1, 2, 2, 3, 5, -1});
  return pick<std::int64_t>(
      random, {-2, 1 << 16, 1'000'000'007, 2'147'483'646, 2'147'483'647, -2'147'483'648LL, 1LL << 40, (1LL << 62),
               std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()});
}

float draw_real(Random& random) {
  return pick<float>(random, {0, 1, 1, 2, 0.5f, -1, 3, 1e30f, -1e30f, 1e-38f, NAN, INFINITY, -INFINITY, 2147483648.0f});
}

std::string draw_text(Random& random) {
  switch (random() % 8) {
    case 0:
      return "";
    case 1:
      return std::to_string(draw_integer(random));
    case 2:
      return std::string(1000 + random() % 1000, 'x');
    case 3: {
      std::string bytes(random() % 40, '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      return bytes;
    }
    default:
      return pick<const char*>(random, {"a", "abc", "1.5", "(a+)+$", "a,b", "\xc3\xa9", "ij,jk->ik", "NHWC", "UTF-8"});
  }
}

Shape draw_shape(Random& random, int depth = 0) {
  std::vector<std::int64_t> dims;
  const int rank = pick(random, {0, 1, 1, 1, 2, 2, 3, 4, 5});
  for (int i = 0; i < rank; ++i) dims.push_back(pick<std::int64_t>(random, {1, 1, 2, 2, 3, 4, 7}));
  if (!dims.empty() && one_in(random, 8)) {
    dims[random() % dims.size()] = 0;
    if (one_in(random, 2)) dims[random() % dims.size()] = pick<std::int64_t>(random, {0, 1LL << 31, 1LL << 40});
  }
  const Result<Shape> shape = Shape::create(dims);
  const bool small = shape.ok() && shape->num_elements() <= 4096;
  return small ? *shape : depth < 3 ? draw_shape(random, depth + 1) : Shape{};
}

template <typename T, typename Draw>
Tensor filled(const Shape& shape, const Draw& draw) {
  Tensor tensor(dtype_of<T>(), shape);
  for (T& element : tensor.flat<T>()) element = static_cast<T>(draw());
  return tensor;
}

Tensor draw_tensor(Random& random, DType type, const Shape& shape) {
  const auto integer = [&] { return draw_integer(random); };
  const auto real = [&] { return draw_real(random); };
  switch (type) {
    case DType::kFloat:
      return filled<float>(shape, real);
    case DType::kDouble:
      return filled<double>(shape, real);
    case DType::kHalf:
      return filled<Half>(shape, real);
    case DType::kBfloat16:
      return filled<Bfloat16>(shape, real);
    case DType::kInt32:
      return filled<std::int32_t>(shape, integer);
    case DType::kInt64:
      return filled<std::int64_t>(shape, integer);
    case DType::kUint8:
      return filled<std::uint8_t>(shape, integer);
    case DType::kBool:
      return filled<bool>(shape, [&] { return one_in(random, 2); });
    case DType::kString:
      return filled<std::string>(shape, [&] { return draw_text(random); });
    default:
      return Tensor(type, shape);  // zeros, or objects that hold nothing
  }
}

AttrValue draw_attr(Random& random, const AttrDef& attr) {
  const std::string_view kind = attr.kind;
  const bool is_list = kind.starts_with("list(");
  const std::string_view element = is_list ? kind.substr(5, kind.size() - 6) : kind;
  const std::int64_t least = attr.minimum.value_or(0);
  const auto text = [&] {
    return attr.allowed_strings.empty() ? draw_text(random)
                                        : attr.allowed_strings[random() % attr.allowed_strings.size()];
  };
  const auto shape = [&] { return one_in(random, 3) ? PartialShape::unknown() : PartialShape(draw_shape(random)); };
  if (!is_list) {
    if (element == "type") return draw_type(random, attr.allowed_types);
    if (element == "int") return attr.minimum ? least + static_cast<std::int64_t>(random() % 3) : draw_integer(random);
    if (element == "float") return draw_real(random);
    if (element == "bool") return one_in(random, 2);
    if (element == "string") return text();
    if (element == "shape") return shape();
    if (element == "tensor") return draw_tensor(random, DType::kFloat, draw_shape(random));
    return FunctionRef{.name = "none", .attrs = nullptr};
  }
  const std::size_t count = static_cast<std::size_t>(least) + random() % 4;
  const auto list = [&]<typename T>(T, const auto& draw) -> AttrValue {
    std::vector<T> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(draw());
    return values;
  };
  if (element == "type") return list(DType{}, [&] { return draw_type(random, attr.allowed_types); });
  if (element == "int") return list(std::int64_t{}, [&] { return draw_integer(random); });
  if (element == "float") return list(float{}, [&] { return draw_real(random); });
  if (element == "bool") return list(bool{}, [&] { return one_in(random, 2); });
  if (element == "string") return list(std::string{}, text);
  if (element == "shape") return list(PartialShape{}, shape);
  return list(FunctionRef{}, [] { return FunctionRef{.name = "none", .attrs = nullptr}; });
}

// One call of an op.
struct Draw {
  AttrMap attrs;
  std::vector<Tensor> inputs;
};

// False: no inputs fit the attributes.
bool draw_call(const OpDef& op, unsigned number, Draw* call) {
  std::seed_seq seed(op.name.begin(), op.name.end());
  Random random(seed);
  random.discard(number * 1000ull);
  for (const AttrDef& attr : op.attrs) {
    if (attr.default_value && !one_in(random, 3)) continue;
    call->attrs[attr.name] = draw_attr(random, attr);
  }
  if (!complete_attrs(op, &call->attrs).ok()) return false;
  std::vector<EdgeType> inputs, outputs;
  if (!resolve_types(op, call->attrs, &inputs, &outputs).ok()) return false;
  const bool alike = one_in(random, 2);
  const Shape shape = draw_shape(random);
  for (const EdgeType& input : inputs) {
    if (input.is_ref) return false;
    const bool small = one_in(random, 3);
    call->inputs.push_back(draw_tensor(random, input.dtype, small ? Shape{} : alike ? shape : draw_shape(random)));
  }
  return true;
}

// Ops that touch the world outside: files and the terminal.
bool is_attacked(const OpDef& op) { return !op.name.starts_with("Print") && op.name != "Abort"; }

// Whether the op computed something; what else it says is of no interest.
bool attack(const OpDef& op, unsigned number, MemoryAccount& memory) {
  Draw call;
  if (!draw_call(op, number, &call)) return false;
  const auto resources = testing::make_test_store();
  return evaluate_op(*builtin_ops(), op.name, call.attrs, call.inputs,
                     {.resources = resources.get(), .memory = &memory})
      .ok();
}

// Where a child is; shared with it.
struct Progress {
  std::atomic<std::size_t> op;
  std::atomic<unsigned> number;
  std::atomic<std::size_t> computed;      // draws that ended in a result
  std::atomic<std::size_t> computed_ops;  // ops with such a draw
};

[[noreturn]] void run_child(const std::vector<const OpDef*>& ops, unsigned draws, Progress& progress) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Ends what the budget would not.
  const rlimit memory{std::size_t{4} << 30, std::size_t{4} << 30};
  setrlimit(RLIMIT_AS, &memory);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const auto account = std::make_shared<MemoryAccount>(std::make_shared<MemoryBudget>(kMemory));
  for (; progress.op < ops.size(); ++progress.op, progress.number = 0) {
    bool computed = false;
    for (; progress.number < draws; ++progress.number) {
      itimerval limit{};
      limit.it_value.tv_sec = kSeconds;
      setitimer(ITIMER_PROF, &limit, nullptr);
      if (attack(*ops[progress.op], progress.number, *account)) {
        ++progress.computed;
        if (!std::exchange(computed, true)) ++progress.computed_ops;
      }
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      if (static_cast<std::size_t>(usage.ru_maxrss) * 1024 > kMemory + kBeside) _exit(3);
    }
  }
  _exit(0);
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF) return str_cat("takes more than ", kSeconds, " s");
  if (WIFSIGNALED(status)) return str_cat("ends the process: ", strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status) == 3) return "takes more memory than it may";
  return str_cat("exits with ", WEXITSTATUS(status));
}

std::vector<const OpDef*> attacked_ops() {
  std::vector<const OpDef*> ops = builtin_ops()->registry()->all();
  std::erase_if(ops, [](const OpDef* op) { return !is_attacked(*op); });
  return ops;
}

TEST(OpAttack, NoOpEndsTheProcess) {
  if (!MemoryScope::kChecksNew) GTEST_SKIP() << "a sanitizer's allocator is in use";
  const std::vector<const OpDef*> ops = attacked_ops();
  const char* const stress = std::getenv("TUTTI_STRESS");
  const unsigned draws = 10 * static_cast<unsigned>(std::max(1, stress == nullptr ? 1 : std::atoi(stress)));
  void* const shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  Progress& progress = *new (shared) Progress{};
  while (progress.op < ops.size()) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) run_child(ops, draws, progress);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (progress.op >= ops.size()) break;
    ADD_FAILURE() << "TUTTI_ATTACK=" << ops[progress.op]->name << ":" << progress.number << " " << describe_end(status);
    ++progress.number;
  }
  std::printf("%zu of %zu draws computed something, of %zu of %zu ops\n", progress.computed.load(), draws * ops.size(),
              progress.computed_ops.load(), ops.size());
  EXPECT_GT(progress.computed_ops.load(), ops.size() / 3) << "else the draws are of no use";
  munmap(shared, sizeof(Progress));
}

TEST(OpAttack, One) {
  const char* const asked = std::getenv("TUTTI_ATTACK");
  if (asked == nullptr) GTEST_SKIP() << "TUTTI_ATTACK names none";
  const std::string_view text = asked;
  const std::size_t colon = text.find(':');
  ASSERT_NE(colon, std::string_view::npos) << "wanted: Op:draw";
  const OpDef* const op = builtin_ops()->registry()->find(text.substr(0, colon));
  ASSERT_NE(op, nullptr) << text;
  const auto number = static_cast<unsigned>(std::atoi(std::string(text.substr(colon + 1)).c_str()));
  Draw call;
  ASSERT_TRUE(draw_call(*op, number, &call));
  for (const auto& [name, value] : call.attrs) std::printf("%s = %s\n", name.c_str(), value.to_string().c_str());
  for (const Tensor& input : call.inputs) std::printf("%s\n", input.to_string(20).c_str());
  std::fflush(stdout);
  MemoryAccount memory(std::make_shared<MemoryBudget>(kMemory));
  std::printf("%s\n", attack(*op, number, memory) ? "computed" : "refused");
}

}  // namespace tutti::op_attack_test
