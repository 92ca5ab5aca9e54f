// Rows of the optimiser updates: each op on reference variables, on resources, and where there is one, on rows.

#include <string>
#include <vector>

#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/training.h"
#include "tutti/ops/internal/row_parts.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

using cpu::UpdateRule;

// One input of an op: its name and its letter (see cpu::apply_kernel).
struct Input {
  const char* name;
  char letter;
};

struct Optimiser {
  std::string name;  // without "Apply" and what comes before
  UpdateRule rule;
  std::vector<Input> inputs;
  std::string attrs;  // further than T and use_locking
};

std::string letters_of(const std::vector<Input>& inputs) {
  std::string letters;
  for (const Input& input : inputs) letters += input.letter;
  return letters;
}

std::string signature_of(const std::vector<Input>& inputs, bool resource) {
  std::string text;
  for (const Input& input : inputs) {
    const char* type = input.letter == 'v'   ? (resource ? "resource" : "Ref(T)")
                       : input.letter == 'i' ? "Tindices"
                       : input.letter == 'n' ? "int64"
                                             : "T";
    text += str_cat(text.empty() ? "" : ", ", input.name, ": ", type);
  }
  return str_cat(text, resource ? " -> " : " -> out: Ref(T)");
}

// Slots and, for dense updates, the gradient have the variable's shape.
ShapeFn update_shape(std::string letters, bool resource) {
  return [letters = std::move(letters), resource](ShapeContext& c) -> Status {
    const bool sparse = letters.find('i') != std::string::npos;
    PartialShape var = resource ? c.resource_shape(0) : c.input(0);
    for (int i = 0; i < c.num_inputs(); ++i) {
      const char letter = letters[static_cast<std::size_t>(i)];
      if (letter == 's' || letter == 'n') TUTTI_RETURN_IF_ERROR(c.with_rank(i, 0).status());
      if (letter != 'v' && !(letter == 'g' && !sparse)) continue;
      Result<PartialShape> merged = var.merge(letter == 'v' && resource ? c.resource_shape(i) : c.input(i));
      if (!merged.ok())
        return invalid_argument("input ", i, " does not have the variable's shape: ", merged.status().message());
      var = *std::move(merged);
    }
    if (!resource) c.set_output(0, std::move(var));
    return {};
  };
}

void add_row(OpTable& ops, const Optimiser& optimiser, const std::string& prefix, bool resource) {
  const std::string letters = letters_of(optimiser.inputs);
  std::string attrs = "T: type; use_locking: bool = false";
  if (letters.find('i') != std::string::npos) attrs += "; Tindices: {int32, int64}";
  if (!optimiser.attrs.empty()) attrs += "; " + optimiser.attrs;
  const bool of_complex = cpu::find_update(optimiser.rule, DType::kComplex128, false) != nullptr;
  const DTypeSet types = of_complex ? kFloats | kComplexes : kFloats;
  ops.add({.name = prefix + optimiser.name,
           .signature = signature_of(optimiser.inputs, resource),
           .attrs = attrs,
           .types = kNumbers | internal::kQuantised,
           .shape = update_shape(letters, resource),
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::apply_kernel(optimiser.rule, letters), types)}});
}

std::vector<Optimiser> dense_optimisers() {
  const std::string nesterov = "use_nesterov: bool = false";
  const std::string slots = "update_slots: bool = true";
  const std::string linear = "multiply_linear_by_lr: bool = false";
  return {
      {"GradientDescent", UpdateRule::kGradientDescent, {{"var", 'v'}, {"alpha", 's'}, {"delta", 'g'}}, ""},
      {"ProximalGradientDescent",
       UpdateRule::kProximalDescent,
       {{"var", 'v'}, {"alpha", 's'}, {"l1", 's'}, {"l2", 's'}, {"delta", 'g'}},
       ""},
      {"Momentum",
       UpdateRule::kMomentum,
       {{"var", 'v'}, {"accum", 'v'}, {"lr", 's'}, {"grad", 'g'}, {"momentum", 's'}},
       nesterov},
      {"Adam",
       UpdateRule::kAdam,
       {{"var", 'v'},
        {"m", 'v'},
        {"v", 'v'},
        {"beta1_power", 's'},
        {"beta2_power", 's'},
        {"lr", 's'},
        {"beta1", 's'},
        {"beta2", 's'},
        {"epsilon", 's'},
        {"grad", 'g'}},
       nesterov},
      {"AdaMax",
       UpdateRule::kAdaMax,
       {{"var", 'v'},
        {"m", 'v'},
        {"v", 'v'},
        {"beta1_power", 's'},
        {"lr", 's'},
        {"beta1", 's'},
        {"beta2", 's'},
        {"epsilon", 's'},
        {"grad", 'g'}},
       ""},
      {"RMSProp",
       UpdateRule::kRmsProp,
       {{"var", 'v'},
        {"ms", 'v'},
        {"mom", 'v'},
        {"lr", 's'},
        {"rho", 's'},
        {"momentum", 's'},
        {"epsilon", 's'},
        {"grad", 'g'}},
       ""},
      {"CenteredRMSProp",
       UpdateRule::kCenteredRmsProp,
       {{"var", 'v'},
        {"mg", 'v'},
        {"ms", 'v'},
        {"mom", 'v'},
        {"lr", 's'},
        {"rho", 's'},
        {"momentum", 's'},
        {"epsilon", 's'},
        {"grad", 'g'}},
       ""},
      {"Adagrad", UpdateRule::kAdagrad, {{"var", 'v'}, {"accum", 'v'}, {"lr", 's'}, {"grad", 'g'}}, slots},
      {"AdagradV2",
       UpdateRule::kAdagrad,
       {{"var", 'v'}, {"accum", 'v'}, {"lr", 's'}, {"epsilon", 's'}, {"grad", 'g'}},
       slots},
      {"ProximalAdagrad",
       UpdateRule::kProximalAdagrad,
       {{"var", 'v'}, {"accum", 'v'}, {"lr", 's'}, {"l1", 's'}, {"l2", 's'}, {"grad", 'g'}},
       ""},
      {"Adadelta",
       UpdateRule::kAdadelta,
       {{"var", 'v'},
        {"accum", 'v'},
        {"accum_update", 'v'},
        {"lr", 's'},
        {"rho", 's'},
        {"epsilon", 's'},
        {"grad", 'g'}},
       ""},
      {"Ftrl",
       UpdateRule::kFtrl,
       {{"var", 'v'},
        {"accum", 'v'},
        {"linear", 'v'},
        {"grad", 'g'},
        {"lr", 's'},
        {"l1", 's'},
        {"l2", 's'},
        {"lr_power", 's'}},
       linear},
      {"FtrlV2",
       UpdateRule::kFtrl,
       {{"var", 'v'},
        {"accum", 'v'},
        {"linear", 'v'},
        {"grad", 'g'},
        {"lr", 's'},
        {"l1", 's'},
        {"l2", 's'},
        {"l2_shrinkage", 's'},
        {"lr_power", 's'}},
       linear},
      {"AdagradDA",
       UpdateRule::kAdagradDa,
       {{"var", 'v'},
        {"gradient_accumulator", 'v'},
        {"gradient_squared_accumulator", 'v'},
        {"grad", 'g'},
        {"lr", 's'},
        {"l1", 's'},
        {"l2", 's'},
        {"global_step", 'n'}},
       ""},
      {"AddSign",
       UpdateRule::kAddSign,
       {{"var", 'v'}, {"m", 'v'}, {"lr", 's'}, {"alpha", 's'}, {"sign_decay", 's'}, {"beta", 's'}, {"grad", 'g'}},
       ""},
      {"PowerSign",
       UpdateRule::kPowerSign,
       {{"var", 'v'}, {"m", 'v'}, {"lr", 's'}, {"logbase", 's'}, {"sign_decay", 's'}, {"beta", 's'}, {"grad", 'g'}},
       ""},
  };
}

// With the indices behind the gradient, where the sparse form of an op has them (RMSProp: at the end too, since there
// the gradient is last). It is called grad there, always.
Optimiser sparse(Optimiser dense) {
  for (std::size_t i = 0; i < dense.inputs.size(); ++i) {
    if (dense.inputs[i].letter != 'g') continue;
    dense.inputs[i].name = "grad";
    dense.inputs.insert(dense.inputs.begin() + static_cast<std::ptrdiff_t>(i) + 1, Input{"indices", 'i'});
    break;
  }
  return dense;
}

}  // namespace

void register_training_ops(OpTable& ops) {
  for (const Optimiser& optimiser : dense_optimisers()) {
    add_row(ops, optimiser, "Apply", false);
    add_row(ops, optimiser, "ResourceApply", true);
    // Plain descent on rows is a scatter, and some have no form for rows.
    const std::string& name = optimiser.name;
    if (name == "GradientDescent" || name == "Adam" || name == "AdaMax" || name.ends_with("Sign")) continue;
    add_row(ops, sparse(optimiser), "SparseApply", false);
    add_row(ops, sparse(optimiser), "ResourceSparseApply", true);
  }
  const Optimiser keras{"KerasMomentum",
                        UpdateRule::kKerasMomentum,
                        {{"var", 'v'}, {"accum", 'v'}, {"lr", 's'}, {"grad", 'g'}, {"momentum", 's'}},
                        "use_nesterov: bool = false"};
  const Optimiser amsgrad{"AdamWithAmsgrad",
                          UpdateRule::kAdamAmsgrad,
                          {{"var", 'v'},
                           {"m", 'v'},
                           {"v", 'v'},
                           {"vhat", 'v'},
                           {"beta1_power", 's'},
                           {"beta2_power", 's'},
                           {"lr", 's'},
                           {"beta1", 's'},
                           {"beta2", 's'},
                           {"epsilon", 's'},
                           {"grad", 'g'}},
                          ""};
  add_row(ops, amsgrad, "ResourceApply", true);
  add_row(ops, keras, "ResourceApply", true);
  add_row(ops, sparse(keras), "ResourceSparseApply", true);
}

}  // namespace tutti
