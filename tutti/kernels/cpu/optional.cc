#include "tutti/kernels/cpu/optional.h"

#include <memory>
#include <utility>
#include <vector>

#include "tutti/core/optional.h"
#include "tutti/core/variant.h"

namespace tutti::cpu {
namespace {

Status set_optional(KernelContext& ctx, std::vector<Tensor> components) {
  auto optional = std::make_shared<const Optional>(std::move(components));
  if (optional->depth() > kMaxVariantDepth) {
    return invalid_argument("optionals cannot lie more than ", kMaxVariantDepth, " deep in one another");
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
  *out->data<Variant>() = Variant(std::move(optional));
  return {};
}

Result<const Optional*> input_optional(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  if (input.rank() != 0) return invalid_argument("an optional must be a scalar, got ", input.shape());
  const Variant& variant = *input.data<Variant>();
  if (const Optional* optional = variant.get<Optional>()) return optional;
  return invalid_argument("an optional is needed, got ",
                          variant.has_value() ? variant.object()->type_name() : "nothing");
}

class GetValue : public Kernel {
 public:
  explicit GetValue(const KernelInit& init) : shapes_(init.attr<std::vector<PartialShape>>("output_shapes")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const Optional* optional, input_optional(ctx));
    const std::vector<Tensor>& components = optional->components();
    if (components.empty()) return invalid_argument("The given optional does not have a value.");
    if (static_cast<int>(components.size()) != ctx.num_outputs()) {
      return invalid_argument("the optional has ", components.size(), " components, not ", ctx.num_outputs());
    }
    for (int i = 0; i < ctx.num_outputs(); ++i) TUTTI_RETURN_IF_ERROR(take(ctx, i, components[i]));
    return {};
  }

 private:
  Status take(KernelContext& ctx, int i, const Tensor& component) {
    const auto index = static_cast<std::size_t>(i);
    if (component.dtype() != ctx.output_type(i) ||
        (index < shapes_.size() && !shapes_[index].compatible_with(component.shape()))) {
      return invalid_argument("component ", i, " is ", dtype_name(component.dtype()), " ", component.shape(), ", not ",
                              dtype_name(ctx.output_type(i)), " ",
                              index < shapes_.size() ? shapes_[index] : PartialShape());
    }
    ctx.set_output(i, component);
    return {};
  }

  const std::vector<PartialShape> shapes_;
};

}  // namespace

Status optional_none(KernelContext& ctx) { return set_optional(ctx, {}); }

Status optional_from_value(KernelContext& ctx) {
  std::vector<Tensor> components;
  for (int i = 0; i < ctx.num_inputs(); ++i) components.push_back(ctx.input(i));
  return set_optional(ctx, std::move(components));
}

Status optional_has_value(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const Optional* optional, input_optional(ctx));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
  *out->data<bool>() = !optional->components().empty();
  return {};
}

KernelFactory optional_get_value_kernel() { return kernel_of<GetValue>(); }

}  // namespace tutti::cpu
