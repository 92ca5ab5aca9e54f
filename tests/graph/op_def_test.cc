#include "tutti/graph/op_def.h"

#include <gtest/gtest.h>

namespace tutti::op_def_test {

OpDef parse(std::string_view signature, std::string_view attrs) {
  return parse_op_def("Op", signature, attrs).value_or_throw();
}

std::string error_of(std::string_view signature, std::string_view attrs) {
  Result<OpDef> op = parse_op_def("Op", signature, attrs);
  if (op.ok()) return "no error";
  EXPECT_EQ(op.status().code(), Code::kInternal);
  return op.status().message();
}

TEST(ParseOpDef, ReadsArguments) {
  OpDef op = parse("a: T, b: N * T, c: int32, r: Ref(T), l: Tin, s: Ref(N * T) -> x: float, y: Tout",
                   "T: type; N: int >= 1; Tin: list(type) >= 2; Tout: list(type)");
  ASSERT_EQ(op.inputs.size(), 6u);
  EXPECT_EQ(op.inputs[0].name, "a");
  EXPECT_EQ(op.inputs[0].type_attr, "T");
  EXPECT_EQ(op.inputs[1].number_attr, "N");
  EXPECT_EQ(op.inputs[2].dtype, DType::kInt32);
  EXPECT_TRUE(op.inputs[3].is_ref);
  EXPECT_EQ(op.inputs[4].type_list_attr, "Tin");
  EXPECT_TRUE(op.inputs[5].is_ref);
  EXPECT_EQ(op.inputs[5].number_attr, "N");
  ASSERT_EQ(op.outputs.size(), 2u);
  EXPECT_EQ(op.outputs[1].type_list_attr, "Tout");
  EXPECT_EQ(op.find_attr("Tin")->minimum, 2);
  EXPECT_EQ(op.find_attr("nothing"), nullptr);
}

TEST(ParseOpDef, ReadsNoArguments) {
  EXPECT_TRUE(parse("->", "").inputs.empty());
  EXPECT_TRUE(parse("-> ", "").outputs.empty());
  EXPECT_EQ(parse("-> x: float", "").outputs.size(), 1u);
  EXPECT_EQ(parse("x: float ->", "").inputs.size(), 1u);
}

TEST(ParseOpDef, ReadsDefaults) {
  OpDef op = parse("->",
                   "b: bool = true; i: int >= -1 = -1; f: float = 1e-4; s: string = 'NHWC'; t: type = int64;"
                   "u: shape = unknown; v: shape = [2, -1]; li: list(int) = [1, 1, 2, 1]; lf: list(float) = [0.5];"
                   "ls: list(string) = ['a;b', '']; lt: list(type) = [float]; e: list(shape) = []; n: int;"
                   "lx: list(tensor) = []");
  EXPECT_EQ(*op.find_attr("b")->default_value, AttrValue(true));
  EXPECT_EQ(*op.find_attr("i")->default_value, AttrValue(-1));
  EXPECT_EQ(*op.find_attr("i")->minimum, -1);
  EXPECT_EQ(*op.find_attr("f")->default_value, AttrValue(1e-4f));
  EXPECT_EQ(*op.find_attr("s")->default_value, AttrValue("NHWC"));
  EXPECT_EQ(*op.find_attr("t")->default_value, AttrValue(DType::kInt64));
  EXPECT_EQ(*op.find_attr("u")->default_value, AttrValue(PartialShape::unknown()));
  EXPECT_EQ(*op.find_attr("v")->default_value, AttrValue(PartialShape{2, -1}));
  EXPECT_EQ(*op.find_attr("li")->default_value, AttrValue(std::vector<std::int64_t>{1, 1, 2, 1}));
  EXPECT_EQ(*op.find_attr("lf")->default_value, AttrValue(std::vector<float>{0.5f}));
  EXPECT_EQ(*op.find_attr("ls")->default_value, AttrValue(std::vector<std::string>{"a;b", ""}));
  EXPECT_EQ(*op.find_attr("lt")->default_value, AttrValue(std::vector<DType>{DType::kFloat}));
  EXPECT_EQ(op.find_attr("e")->default_value->kind(), "list(shape)");
  EXPECT_FALSE(op.find_attr("n")->default_value);
}

TEST(ParseOpDef, ReadsSets) {
  OpDef op = parse("->",
                   "T: {floats}; U: {int32, int64} = int32; V: {reals, bool}; p: {'SAME', 'VALID'} = 'SAME';"
                   "L: list({indices}) >= 1; W: {plain}; X: {numbers}");
  EXPECT_EQ(op.find_attr("T")->kind, "type");
  EXPECT_EQ(op.find_attr("T")->allowed_types, kFloats);
  EXPECT_EQ(op.find_attr("U")->allowed_types, kIndexTypes);
  EXPECT_TRUE(op.find_attr("V")->allowed_types.contains(DType::kBool));
  EXPECT_TRUE(op.find_attr("V")->allowed_types.contains(DType::kUint8));
  EXPECT_FALSE(op.find_attr("V")->allowed_types.contains(DType::kComplex64));
  EXPECT_EQ(op.find_attr("p")->kind, "string");
  EXPECT_EQ(op.find_attr("p")->allowed_strings, (std::vector<std::string>{"SAME", "VALID"}));
  EXPECT_EQ(op.find_attr("L")->kind, "list(type)");
  EXPECT_EQ(op.find_attr("L")->allowed_types, kIndexTypes);
  EXPECT_EQ(op.find_attr("W")->allowed_types, kPlain);
  EXPECT_EQ(op.find_attr("X")->allowed_types, kNumbers);
}

TEST(ParseOpDef, NamesTheOpInErrors) {
  EXPECT_NE(error_of("x: U -> y: T", "T: type").find("op Op: inputs: x: \"U\" is no type"), std::string::npos);
  EXPECT_NE(error_of("x: float", "").find("expected"), std::string::npos);
  EXPECT_NE(error_of("->", "T: typo").find("unknown kind \"typo\""), std::string::npos);
  EXPECT_NE(error_of("->", "T: {floats} = int32").find("default"), std::string::npos);
  EXPECT_NE(error_of("->", "n: int = x").find("is no integer"), std::string::npos);
  EXPECT_NE(error_of("->", "s: string = 'open").find("quoted"), std::string::npos);
  EXPECT_NE(error_of("->", "f: {'a', float}").find("one set"), std::string::npos);
  EXPECT_NE(error_of("x: n -> ", "n: int").find("used as a type"), std::string::npos);
  EXPECT_NE(error_of("->", "a: int b: int").find("';'"), std::string::npos);
}

TEST(OpRegistry, FindsAndRefusesTakenNames) {
  OpRegistry ops;
  ASSERT_TRUE(ops.add(parse("->", "")).ok());
  EXPECT_EQ(ops.add(parse("->", "")).code(), Code::kAlreadyExists);
  EXPECT_NE(ops.find("Op"), nullptr);
  EXPECT_EQ(ops.find("Other"), nullptr);
  EXPECT_EQ(ops.all().size(), 1u);
}

class CompleteAttrs : public ::testing::Test {
 protected:
  std::string error(AttrMap attrs) {
    Status status = complete_attrs(op_, &attrs);
    return status.ok() ? "no error" : status.message();
  }
  OpDef op_ = parse("x: T -> y: T", "T: {floats}; n: int >= 2 = 3; p: {'A', 'B'} = 'A'; l: list(int) >= 1 = [7]");
};

TEST_F(CompleteAttrs, FillsDefaultsAndKeepsAnnotations) {
  AttrMap attrs{{"T", DType::kFloat}, {"_class", std::vector<std::string>{"loc:@a"}}, {"newer", 1}};
  ASSERT_TRUE(complete_attrs(op_, &attrs).ok());
  EXPECT_EQ(attrs.size(), 5u);
  EXPECT_EQ(attrs["n"], AttrValue(3));
  EXPECT_EQ(attrs["p"], AttrValue("A"));
  EXPECT_TRUE(attrs.contains("_class"));
  EXPECT_FALSE(attrs.contains("newer"));
}

TEST_F(CompleteAttrs, ReportsWhatIsWrong) {
  EXPECT_EQ(error({}), "attribute T of kind type is missing");
  EXPECT_EQ(error({{"T", 3}}), "attribute T must be of kind type, got int 3");
  EXPECT_EQ(error({{"T", AttrPlaceholder{"U"}}}), "attribute T must be of kind type, got placeholder $U");
  EXPECT_NE(error({{"T", DType::kInt32}}).find("attribute T is int32, must be one of {float, double"),
            std::string::npos);
  EXPECT_EQ(error({{"T", DType::kFloat}, {"n", 1}}), "attribute n is 1, must be at least 2");
  EXPECT_EQ(error({{"T", DType::kFloat}, {"p", "C"}}), "attribute p is 'C', must be one of {A, B}");
  EXPECT_EQ(error({{"T", DType::kFloat}, {"l", EmptyList{}}}), "attribute l has 0 elements, must have at least 1");
  EXPECT_EQ(error({{"T", AttrValue()}}), "attribute T must be of kind type, got nothing ");
}

TEST(ResolveTypes, FlattensLists) {
  OpDef op = parse("a: N * T, b: Tin -> r: Ref(T), c: Tout", "N: int; T: type; Tin: list(type); Tout: list(type)");
  AttrMap attrs{
      {"N", 2}, {"T", DType::kFloat}, {"Tin", std::vector<DType>{DType::kInt32, DType::kBool}}, {"Tout", EmptyList{}}};
  std::vector<EdgeType> in, out;
  ASSERT_TRUE(resolve_types(op, attrs, &in, &out).ok());
  ASSERT_EQ(in.size(), 4u);
  EXPECT_EQ(in[1].dtype, DType::kFloat);
  EXPECT_EQ(in[3].dtype, DType::kBool);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_TRUE(out[0].is_ref);
}

TEST(ResolveTypes, RefusesHugeNumbers) {
  OpDef op = parse("-> c: N * float", "N: int");
  std::vector<EdgeType> in, out;
  for (std::int64_t n : {std::int64_t{-1}, std::int64_t{1} << 40}) {
    Status status = resolve_types(op, {{"N", n}}, &in, &out);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find("attribute N is "), std::string::npos);
  }
}

TEST(InferAttrs, TakesTypesAndLengthsFromInputs) {
  OpDef concat = parse("values: N * T, axis: Tidx -> output: T", "N: int >= 2; T: type; Tidx: {indices} = int32");
  AttrMap attrs;
  std::vector<EdgeType> inputs{{DType::kFloat}, {DType::kFloat}, {DType::kFloat}, {DType::kInt64}};
  ASSERT_TRUE(infer_attrs(concat, inputs, &attrs).ok());
  EXPECT_EQ(attrs["N"], AttrValue(3));
  EXPECT_EQ(attrs["T"], AttrValue(DType::kFloat));
  EXPECT_EQ(attrs["Tidx"], AttrValue(DType::kInt64));

  OpDef call = parse("cond: bool, args: Tin -> ", "Tin: list(type)");
  attrs.clear();
  inputs = {{DType::kBool}, {DType::kInt32}, {DType::kFloat, true}};
  ASSERT_TRUE(infer_attrs(call, inputs, &attrs).ok());
  EXPECT_EQ(attrs["Tin"], AttrValue(std::vector<DType>{DType::kInt32, DType::kFloat}));

  OpDef pairs = parse("a: N * int32, b: N * T -> ", "N: int; T: type");
  attrs.clear();
  inputs = {{DType::kInt32}, {DType::kInt32}, {DType::kBool}, {DType::kBool}};
  ASSERT_TRUE(infer_attrs(pairs, inputs, &attrs).ok());
  EXPECT_EQ(attrs["N"], AttrValue(2));
}

TEST(InferAttrs, ReportsWrongArity) {
  OpDef op = parse("a: T, b: T -> ", "T: type");
  AttrMap attrs;
  EXPECT_EQ(infer_attrs(op, {{DType::kFloat}}, &attrs).message(), "takes 2 inputs, got 1");
  EXPECT_EQ(infer_attrs(op, std::vector<EdgeType>(3, {DType::kFloat}), &attrs).message(), "takes 2 inputs, got 3");
  OpDef pairs = parse("a: N * int32, b: N * T, c: T -> ", "N: int; T: type");
  EXPECT_EQ(infer_attrs(pairs, {}, &attrs).message(), "takes at least 1 inputs, got 0");
  EXPECT_NE(infer_attrs(pairs, std::vector<EdgeType>(4, {DType::kInt32}), &attrs).message().find("cannot share 3"),
            std::string::npos);
}

}  // namespace tutti::op_def_test
