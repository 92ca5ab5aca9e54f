#include "tutti/kernels/cpu/add_variants.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tutti/core/optional.h"
#include "tutti/core/tensor_list.h"
#include "tutti/kernels/cpu/elementwise.h"

namespace tutti::cpu {
namespace {

// The recursion is as deep as variants lie in one another, which has a limit. One object may lie in another many times,
// so each pair is added once.
class VariantAdder {
 public:
  explicit VariantAdder(KernelContext& context) : context_(context) {}

  Result<Variant> add(const Variant& a, const Variant& b) {
    if (!a.has_value()) return b;
    if (!b.has_value()) return a;
    const std::pair key(a.object().get(), b.object().get());
    if (auto known = sums_.find(key); known != sums_.end()) return known->second;
    Result<Variant> sum = add_objects(a, b);
    if (sum.ok()) sums_.emplace(key, *sum);
    return sum;
  }

 private:
  Result<Variant> add_objects(const Variant& a, const Variant& b) {
    if (const auto* first = a.get<TensorList>(), *second = b.get<TensorList>(); first != nullptr && second != nullptr) {
      return add_lists(*first, *second);
    }
    if (const auto* first = a.get<Optional>(), *second = b.get<Optional>(); first != nullptr && second != nullptr) {
      return add_optionals(*first, *second);
    }
    return invalid_argument("AddN adds tensor lists, or optionals; got a ", a.object()->type_name(), " and a ",
                            b.object()->type_name());
  }

  Result<Variant> add_lists(const TensorList& a, const TensorList& b) {
    if (a.dtype() != b.dtype() || a.size() != b.size()) {
      return invalid_argument("AddN of a list of ", a.size(), " ", dtype_name(a.dtype()), " and one of ", b.size(), " ",
                              dtype_name(b.dtype()));
    }
    TUTTI_ASSIGN_OR_RETURN(PartialShape shape, a.element_shape().merge(b.element_shape()));
    std::vector<Tensor> items = a.items();
    for (std::size_t i = 0; i < items.size(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(items[i], add_tensors(items[i], b.item(static_cast<std::int64_t>(i))));
    }
    return Variant(std::make_shared<const TensorList>(a.dtype(), std::move(shape), std::move(items)));
  }

  Result<Variant> add_optionals(const Optional& a, const Optional& b) {
    if (a.components().empty() != b.components().empty()) {
      return invalid_argument("Cannot add optionals because one has a value and the other doesn't.");
    }
    if (a.components().size() != b.components().size()) {
      return invalid_argument("AddN of an optional of ", a.components().size(), " components and one of ",
                              b.components().size());
    }
    std::vector<Tensor> components;
    for (std::size_t i = 0; i < a.components().size(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(Tensor sum, add_tensors(a.components()[i], b.components()[i]));
      components.push_back(std::move(sum));
    }
    return Variant(std::make_shared<const Optional>(std::move(components)));
  }

  Result<Tensor> add_tensors(const Tensor& a, const Tensor& b) {
    if (!a.has_value()) return b;
    if (!b.has_value()) return a;
    if (a.dtype() != b.dtype() || a.shape() != b.shape()) {
      return invalid_argument("AddN of variants that hold ", dtype_name(a.dtype()), " ", a.shape(), " and ",
                              dtype_name(b.dtype()), " ", b.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor sum, context_.allocate_temp(a.dtype(), a.shape()));
    if (a.dtype() == DType::kVariant) {
      for (std::int64_t i = 0; i < a.num_elements(); ++i) {
        TUTTI_ASSIGN_OR_RETURN(sum.data<Variant>()[i], add(a.data<Variant>()[i], b.data<Variant>()[i]));
      }
      return sum;
    }
    BinaryFunction function = BinaryFunction::find(BinaryOp::kAdd, a.dtype());
    if (!function) return unimplemented("AddN of variants that hold ", dtype_name(a.dtype()), " is not supported");
    run_elementwise(function, a, b, sum, context_.team());
    return sum;
  }

  KernelContext& context_;
  std::map<std::pair<const VariantObject*, const VariantObject*>, Variant> sums_;
};

Result<Variant> variant_in(const Tensor& tensor) {
  if (tensor.num_elements() == 1) {
    const Variant& variant = *tensor.data<Variant>();
    if (variant.get<TensorList>() != nullptr || variant.get<Optional>() != nullptr) return variant;
  }
  return invalid_argument("AddN adds one tensor list or optional of each input; got ", tensor);
}

}  // namespace

Status add_variants(KernelContext& context) {
  VariantAdder adder(context);
  TUTTI_ASSIGN_OR_RETURN(Variant sum, variant_in(context.input(0)));
  // What was added lives as long as the adder, which knows it by its address.
  std::vector<Variant> sums;
  for (int k = 1; k < context.num_inputs(); ++k) {
    TUTTI_ASSIGN_OR_RETURN(const Variant next, variant_in(context.input(k)));
    sums.push_back(sum);
    TUTTI_ASSIGN_OR_RETURN(sum, adder.add(sum, next));
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, Shape{}));
  out->data<Variant>()[0] = std::move(sum);
  return {};
}

}  // namespace tutti::cpu
