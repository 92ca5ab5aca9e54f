// Every row that has a slow reference is compared with it, in each dtype that it has a kernel for, over scalars, empty
// tensors, broadcast operands, sizes around vector lengths, and shapes that do not fit.

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <random>
#include <set>

#include "tests/ops/window_cases.h"
#include "tests/support/simd_targets.h"
#include "tutti/kernels/ref/numbers.h"
#include "tutti/kernels/ref/reference.h"
#include "tutti/ops/op_evaluator.h"
#include "tutti/ops/op_table.h"

namespace tutti::op_agreement_test {

using Shapes = std::vector<Shape>;

struct Case {
  std::vector<Tensor> inputs;
  AttrMap attrs;
};

// What values an op makes sense on.
enum class Domain { kAny, kPositive, kAboveMinusOne, kNonZero };

Domain domain_of(const std::string& op, int input) {
  static const std::set<std::string> positive = {"Sqrt", "Rsqrt", "Log", "SqrtGrad", "RsqrtGrad"};
  static const std::set<std::string> divisions = {"Div", "RealDiv",     "FloorDiv",   "FloorMod",
                                                  "Mod", "TruncateDiv", "TruncateMod"};
  static const std::set<std::string> inverses = {"Reciprocal", "Inv", "ReciprocalGrad", "InvGrad"};
  if (op == "Log1p") return Domain::kAboveMinusOne;
  if (positive.contains(op)) return Domain::kPositive;
  if (op == "Pow") return Domain::kPositive;
  if (op == "Xlogy" && input == 1) return Domain::kPositive;
  if (op == "Xdivy" && input == 1) return Domain::kNonZero;
  if (divisions.contains(op) && input == 1) return Domain::kNonZero;
  if (inverses.contains(op)) return Domain::kNonZero;
  return Domain::kAny;
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }

  Tensor tensor(DType dtype, const Shape& shape, Domain domain = Domain::kAny) {
    if (dtype == DType::kBool) return integers(dtype, shape, 0, 1);
    if (is_integer(dtype))
      return integers(dtype, shape, is_unsigned(dtype) || domain == Domain::kPositive ? 0 : -5, 9,
                      domain == Domain::kNonZero);
    if (is_complex(dtype)) {
      std::vector<ref::Complex> values;
      for (std::int64_t i = 0; i < shape.num_elements(); ++i) values.emplace_back(real(domain), real(Domain::kAny));
      return ref::store(dtype, shape, values);
    }
    std::vector<double> values;
    for (std::int64_t i = 0; i < shape.num_elements(); ++i) values.push_back(real(domain));
    return ref::store(dtype, shape, values);
  }

  Tensor integers(DType dtype, const Shape& shape, std::int64_t low, std::int64_t high, bool no_zero = false) {
    std::vector<ref::Integer> values;
    for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
      const std::int64_t value = integer(low, high);
      values.push_back(no_zero && value == 0 ? 3 : value);
    }
    return ref::store(dtype, shape, values);
  }

  Shape shape() {
    static const std::vector<Shape> shapes = {{},
                                              {1},
                                              {0},
                                              {7},
                                              {16},
                                              {17},
                                              {131},
                                              {2, 3},
                                              {3, 1, 5},
                                              {2, 0, 3},
                                              {33, 65},
                                              {1, 1},
                                              {4, 3, 2, 5},
                                              {1000},
                                              {9, 1},
                                              {2, 3, 4},
                                              {2, 1, 3, 1, 2, 2},
                                              {5, 64}};
    return shapes[static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(shapes.size()) - 1))];
  }

 private:
  static bool is_unsigned(DType dtype) {
    return dtype == DType::kUint8 || dtype == DType::kUint16 || dtype == DType::kUint32 || dtype == DType::kUint64;
  }
  double real(Domain domain) {
    switch (domain) {
      case Domain::kPositive:
        return std::uniform_real_distribution<double>(0.25, 3)(engine_);
      case Domain::kAboveMinusOne:
        return std::uniform_real_distribution<double>(-0.75, 3)(engine_);
      case Domain::kNonZero: {
        const double x = std::uniform_real_distribution<double>(0.5, 3)(engine_);
        return integer(0, 1) == 0 ? x : -x;
      }
      default:
        return std::uniform_real_distribution<double>(-3, 3)(engine_);
    }
  }
  std::mt19937 engine_;
};

// Pairs that broadcast, and some that do not.
const std::vector<std::pair<Shape, Shape>>& broadcast_pairs() {
  static const std::vector<std::pair<Shape, Shape>> pairs = {{{}, {}},
                                                             {{3}, {3}},
                                                             {{65}, {}},
                                                             {{}, {65}},
                                                             {{2, 3}, {3}},
                                                             {{3}, {2, 3}},
                                                             {{5, 1}, {1, 7}},
                                                             {{4, 1, 3}, {1}},
                                                             {{0}, {1}},
                                                             {{2, 0, 3}, {1, 3}},
                                                             {{1}, {0}},
                                                             {{33, 17}, {17}},
                                                             {{33, 17}, {33, 1}},
                                                             {{2, 3, 4, 5}, {3, 1, 5}},
                                                             {{2, 1, 3, 1, 2, 1, 2}, {2, 1, 4, 1, 3, 1}},
                                                             {{1, 1}, {1}},
                                                             {{128, 9}, {128, 9}},
                                                             {{2, 3}, {4, 3}},
                                                             {{2}, {3}},
                                                             {{1, 2}, {3, 1, 1}}};
  return pairs;
}

Tensor axes_for(Random& random, const Shape& shape, bool wide_index) {
  std::vector<ref::Integer> axes;
  for (int d = 0; d < shape.rank(); ++d) {
    if (random.integer(0, 1) == 1) axes.push_back(random.integer(0, 1) == 1 ? d : d - shape.rank());
  }
  const DType dtype = wide_index ? DType::kInt64 : DType::kInt32;
  if (axes.size() == 1 && random.integer(0, 1) == 1) return ref::store(dtype, Shape{}, axes);
  return ref::store(dtype, Shape{static_cast<std::int64_t>(axes.size())}, axes);
}

// Cases of ops whose inputs depend on each other in ways of their own.
std::optional<Case> special_case(const std::string& op, DType dtype, int round, Random& random) {
  const bool flip = round % 2 == 1;
  const cases::Draw draw{[&](DType d, const Shape& s) { return random.tensor(d, s); },
                         [&](std::int64_t low, std::int64_t high) { return random.integer(low, high); }};
  if (std::optional<cases::WindowCase> window = cases::window_case(op, dtype, round, draw)) {
    return Case{std::move(window->inputs), std::move(window->attrs)};
  }
  if (op == "MatMul" || op == "_FusedMatMul" || op == "_MatMulAdd") {
    const std::int64_t sizes[][3] = {{1, 1, 1}, {2, 3, 4}, {7, 9, 17}, {33, 65, 20}, {1, 40, 70},   {40, 1, 5},
                                     {0, 3, 2}, {3, 0, 2}, {3, 2, 0},  {6, 16, 257}, {100, 25, 60}, {19, 600, 3}};
    const auto& [m, n, k] = sizes[static_cast<std::size_t>(round) % std::size(sizes)];
    const bool ta = random.integer(0, 1), tb = random.integer(0, 1);
    Case c{{random.tensor(dtype, ta ? Shape{k, m} : Shape{m, k}), random.tensor(dtype, tb ? Shape{n, k} : Shape{k, n})},
           {{"transpose_a", ta}, {"transpose_b", tb}}};
    if (op == "_FusedMatMul") {
      static const char* activations[] = {"", "Relu", "Relu6", "Tanh", "Sigmoid"};
      c.inputs.push_back(random.tensor(dtype, {n}));
      c.attrs["activation"] = activations[round % 5];
    }
    if (op == "_MatMulAdd") {
      // The fifth goes with the largest product, which is added where the sum lies.
      const Shape shapes[] = {{m, n}, {n}, {m, 1}, {2, 1, n}, {m, n}, {}};
      c.inputs.push_back(random.tensor(dtype, shapes[round % 6]));
    }
    return c;
  }
  if (op == "BatchMatMul" || op == "BatchMatMulV2") {
    const std::vector<std::pair<Shape, Shape>> pairs = {{{2, 3, 4}, {2, 4, 5}},    {{4, 6}, {6, 2}},
                                                        {{3, 1, 2, 3}, {2, 3, 2}}, {{2, 3, 4}, {1, 4, 5}},
                                                        {{0, 2, 3}, {0, 3, 2}},    {{2, 3, 4}, {3, 4, 5}}};
    const auto& [a, b] = pairs[static_cast<std::size_t>(round) % pairs.size()];
    if (!flip) return Case{{random.tensor(dtype, a), random.tensor(dtype, b)}, {}};
    const auto swapped = [](Shape s) {
      const std::int64_t last = s.dim(s.rank() - 1);
      s.set_dim(s.rank() - 1, s.dim(s.rank() - 2));
      s.set_dim(s.rank() - 2, last);
      return s;
    };
    return Case{{random.tensor(dtype, swapped(a)), random.tensor(dtype, swapped(b))},
                {{"adj_x", true}, {"adj_y", true}}};
  }
  if (op == "BiasAdd" || op == "BiasAddV1") {
    const Shape value = round % 3 == 0 ? Shape{5, 7} : round % 3 == 1 ? Shape{2, 3, 4, 5} : Shape{2, 3, 0};
    const bool first = flip && op == "BiasAdd";
    Case c{{random.tensor(dtype, value), random.tensor(dtype, {value.dim(first ? 1 : value.rank() - 1)})}, {}};
    if (first) c.attrs["data_format"] = "NCHW";
    return c;
  }
  if (op == "BiasAddGrad") {
    const std::vector<Shape> shapes = {{32, 50}, {2, 3, 4, 5}, {1, 1}, {0, 3}, {700, 3}, {3, 2, 70}};
    Case c{{random.tensor(dtype, shapes[static_cast<std::size_t>(round) % shapes.size()])}, {}};
    if (flip) c.attrs["data_format"] = "NCHW";
    return c;
  }
  if (op == "SoftmaxCrossEntropyWithLogits") {
    const std::vector<std::pair<Shape, Shape>> pairs = {{{4, 10}, {4, 10}}, {{3, 17}, {1, 17}}, {{1, 5}, {3, 5}},
                                                        {{5}, {2, 5}},      {{3, 1}, {3, 6}},   {{0, 4}, {0, 4}},
                                                        {{2, 70}, {2, 70}}, {{2, 3}, {3, 2}}};
    const auto& [x, p] = pairs[static_cast<std::size_t>(round) % pairs.size()];
    return Case{{random.tensor(dtype, x), random.tensor(dtype, p, Domain::kPositive)}, {}};
  }
  if (op == "SparseSoftmaxCrossEntropyWithLogits" || op == "InTopK" || op == "InTopKV2") {
    const std::int64_t rows = random.integer(0, 6), columns = random.integer(1, 40);
    const DType index = flip ? DType::kInt32 : DType::kInt64;
    const bool top_k = op != "SparseSoftmaxCrossEntropyWithLogits";
    // Sometimes one label too many: both must refuse, or for InTopK answer false.
    Case c{{random.tensor(top_k ? DType::kFloat : dtype, {rows, columns}),
            random.integers(index, {rows}, 0, round % 5 == 4 ? columns : columns - 1)},
           {}};
    if (op == "InTopK") c.attrs["k"] = random.integer(1, 5);
    if (op == "InTopKV2") c.inputs.push_back(random.integers(index, {}, 1, 5));
    return c;
  }
  if (op == "ArgMax" || op == "ArgMin") {
    const Shape shape = random.shape();
    Case c{{random.tensor(dtype, shape),
            random.integers(DType::kInt32, {}, shape.rank() == 0 ? 0 : -shape.rank(), std::max(0, shape.rank() - 1))},
           {}};
    if (flip) c.attrs["output_type"] = DType::kInt32;
    return c;
  }
  if (op == "AddN") {
    const Shape shape = random.shape();
    Case c;
    for (int i = 0; i <= round % 4; ++i) c.inputs.push_back(random.tensor(dtype, shape));
    if (round % 7 == 6) c.inputs.push_back(random.tensor(dtype, {2, 2, 2}));
    return c;
  }
  if (op == "Select" || op == "SelectV2") {
    const Shape shape = random.shape();
    const std::vector<Shape> conditions = {shape, {}, shape.rank() > 0 ? Shape{shape.dim(0)} : Shape{}};
    return Case{{random.tensor(DType::kBool, conditions[static_cast<std::size_t>(round) % 3]),
                 random.tensor(dtype, shape), random.tensor(dtype, op == "SelectV2" && flip ? Shape{} : shape)},
                {}};
  }
  if (op == "ClipByValue") {
    const Shape shape = random.shape();
    return Case{{random.tensor(dtype, shape), random.tensor(dtype, flip ? shape : Shape{}), random.tensor(dtype, {})},
                {}};
  }
  if (op == "_ProdGrad") {
    Shape shape = random.shape();
    if (shape.num_elements() > 200) shape = {3, 4};
    Case c{{random.tensor(dtype, shape), axes_for(random, shape, flip)}, {}};
    Shape kept = shape;
    for (ref::Integer axis : ref::load<ref::Integer>(c.inputs[1])) {
      kept.set_dim(static_cast<int>(axis < 0 ? axis + shape.rank() : axis), 1);
    }
    c.inputs.push_back(random.tensor(dtype, kept));
    return c;
  }
  return std::nullopt;
}

Case make_case(const OpDef& op, DType dtype, int round, Random& random) {
  if (std::optional<Case> special = special_case(op.name, dtype, round, random)) return *special;
  Case c;
  if (op.inputs.size() == 2 && op.inputs[1].name == "reduction_indices") {
    Shape shape = random.shape();
    // Products of many elements leave the range of small types.
    if (op.name == "Prod" && shape.num_elements() > 24) shape = {3, 4};
    c.inputs = {random.tensor(op.inputs[0].type_attr.empty() ? DType::kBool : dtype, shape),
                axes_for(random, shape, round % 2 == 1)};
    c.attrs["keep_dims"] = round % 3 == 0;
    return c;
  }
  if (op.inputs.size() == 2) {
    const auto& pairs = broadcast_pairs();
    const auto& [a, b] = pairs[static_cast<std::size_t>(round) % pairs.size()];
    c.inputs = {random.tensor(dtype, a, domain_of(op.name, 0)), random.tensor(dtype, b, domain_of(op.name, 1))};
    if (op.find_attr("incompatible_shape_error") != nullptr) c.attrs["incompatible_shape_error"] = round < 20;
    return c;
  }
  c.inputs = {random.tensor(dtype, random.shape(), domain_of(op.name, 0))};
  return c;
}

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::kHalf:
    case DType::kBfloat16:
      return 1e-2;
    case DType::kFloat:
    case DType::kComplex64:
      return 1e-5;
    case DType::kDouble:
    case DType::kComplex128:
      return 1e-12;
    default:
      return 0;
  }
}

// Relative to the norm: an element near zero may be off by the rounding of its neighbours.
void expect_close(const Tensor& got, const Tensor& want, const std::string& what) {
  ASSERT_EQ(got.dtype(), want.dtype()) << what;
  ASSERT_EQ(got.shape(), want.shape()) << what;
  if (tolerance(want.dtype()) == 0) {
    EXPECT_TRUE(bitwise_equal(got, want)) << what << "\n got " << got.to_string(20) << "\nwant " << want.to_string(20);
    return;
  }
  const std::vector<ref::Complex> a = ref::load<ref::Complex>(got), b = ref::load<ref::Complex>(want);
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool both_special =
        !std::isfinite(b[i].real()) && (a[i] == b[i] || (std::isnan(a[i].real()) && std::isnan(b[i].real())));
    if (both_special) continue;
    error += std::norm(a[i] - b[i]);
    norm += std::norm(b[i]);
  }
  EXPECT_LE(std::sqrt(error), tolerance(want.dtype()) * std::max(std::sqrt(norm), 1e-3))
      << what << "\n got " << got.to_string(20) << "\nwant " << want.to_string(20);
}

std::string describe(const OpDef& op, DType dtype, const Case& c) {
  std::string text = str_cat(op.name, " of ", dtype_name(dtype));
  for (const Tensor& t : c.inputs) text += str_cat(" ", t.shape());
  for (const auto& [name, value] : c.attrs) text += str_cat(" ", name, "=", value);
  return text;
}

void check_case(const OpTable& table, const OpDef& op, DType dtype, const Case& c) {
  const std::string what = describe(op, dtype, c);
  Result<std::vector<Tensor>> want = (*find_reference(op.name))(c.attrs, c.inputs);
  Result<std::vector<Tensor>> got = evaluate_op(table, op.name, c.attrs, c.inputs);
  if (!want.ok()) {
    EXPECT_FALSE(got.ok()) << what << " should be refused: " << want.status().to_string();
    if (!got.ok()) {
      EXPECT_EQ(got.status().code(), Code::kInvalidArgument) << what;
    }
    return;
  }
  ASSERT_TRUE(got.ok()) << what << ": " << got.status().to_string();
  ASSERT_EQ(got->size(), want->size()) << what;
  for (std::size_t i = 0; i < want->size(); ++i) expect_close((*got)[i], (*want)[i], what);
}

// The dtypes to test a row in: those of attribute T that it has a kernel for.
std::vector<DType> dtypes_of(const OpTable& table, const OpDef& op) {
  const AttrDef* t = op.find_attr("T");
  if (t == nullptr || op.name.starts_with("InTopK")) return {DType::kBool};
  std::vector<DType> dtypes;
  for (int i = 1; i <= kMaxDType; ++i) {
    const DType dtype = static_cast<DType>(i);
    if (!kPlain.contains(dtype) || !t->allowed_types.contains(dtype)) continue;
    if (table.find_kernel(op.name, {{"T", dtype}}, kCpu) != nullptr) dtypes.push_back(dtype);
  }
  return dtypes;
}

class OpAgreement : public ::testing::TestWithParam<std::string> {};

void check_dtypes(const OpTable& table, const OpDef& op, const std::vector<DType>& dtypes) {
  for (DType dtype : dtypes) {
    Random random(static_cast<unsigned>(dtype) * 1000 +
                  static_cast<unsigned>(std::hash<std::string>()(op.name) % 1000));
    for (int round = 0; round < 24; ++round) {
      check_case(table, op, dtype, make_case(op, dtype, round, random));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST_P(OpAgreement, WithReference) {
  std::shared_ptr<const OpTable> table = builtin_ops();
  const OpDef* op = table->registry()->find(GetParam());
  ASSERT_NE(op, nullptr);
  const std::vector<DType> dtypes = dtypes_of(*table, *op);
  ASSERT_FALSE(dtypes.empty());
  testing::for_each_simd_target([&] { check_dtypes(*table, *op, dtypes); });
}

std::vector<std::string> ops_with_reference() {
  std::vector<std::string> names;
  for (const OpDef* op : builtin_ops()->registry()->all()) {
    if (find_reference(op->name) != nullptr && op->name != "Cast") names.push_back(op->name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Table, OpAgreement, ::testing::ValuesIn(ops_with_reference()),
                         [](const auto& info) { return info.param; });

TEST(OpAgreementCast, EveryPairOfTypes) {
  std::shared_ptr<const OpTable> table = builtin_ops();
  const OpDef* op = table->registry()->find("Cast");
  Random random(7);
  for (int from = 1; from <= kMaxDType; ++from) {
    for (int to = 1; to <= kMaxDType; ++to) {
      if (!kPlain.contains(static_cast<DType>(from)) || !kPlain.contains(static_cast<DType>(to))) continue;
      // Negative values of unsigned targets are left to each implementation.
      Case c{{random.tensor(static_cast<DType>(from), {37}, Domain::kPositive)}, {{"DstT", static_cast<DType>(to)}}};
      check_case(*table, *op, static_cast<DType>(from), c);
    }
  }
}

}  // namespace tutti::op_agreement_test
