// Examples: serialised records of features into tensors.
#include <vector>

#include "tutti/graph/shape_inference.h"
#include "tutti/ops/host/host_ops.h"
#include "tutti/ops/host/internal/example_batch.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

using FeatureTypes = std::vector<DType>;

// The strings of an input that is a vector.
Result<std::span<const std::string>> key_vector(const Tensor& keys, std::string_view name) {
  if (keys.rank() != 1) return invalid_argument("Expected ", name, " to be a vector, got shape: ", keys.shape());
  return keys.flat<std::string>();
}

Status check_example_names(const Tensor& names, const Tensor& serialized) {
  if (names.num_elements() == 0 || names.shape() == serialized.shape()) return {};
  return invalid_argument("Expected names have the same shape as serialized: name.shape=", names.shape(),
                          ", serialized.shape=", serialized.shape());
}

// What the three ops have in common: types and shapes from attributes, keys from wherever they are.
class ParseKernel : public Kernel {
 public:
  ParseKernel(const KernelInit& init, std::string_view number_of_sparse)
      : num_sparse_(init.attr<std::int64_t>(number_of_sparse)),
        sparse_types_(init.attr<FeatureTypes>("sparse_types")),
        dense_types_(init.attr<FeatureTypes>("Tdense")),
        dense_shapes_(init.attr<std::vector<PartialShape>>("dense_shapes")) {}

 protected:
  Result<ExampleSpec> make_spec(std::span<const std::string> sparse, std::span<const std::string> dense) const {
    ExampleSpec spec;
    // The number and the types both say where outputs lie.
    if (sparse.size() != sparse_types_.size() || std::ssize(sparse_types_) != num_sparse_) {
      return invalid_argument(sparse.size(), " sparse keys, but ", sparse_types_.size(), " types for ", num_sparse_,
                              " features");
    }
    for (std::size_t i = 0; i < sparse.size(); ++i)
      spec.sparse.push_back({.key = sparse[i], .dtype = sparse_types_[i]});
    for (const std::string& key : dense) spec.dense.push_back({.key = key});
    TUTTI_RETURN_IF_ERROR(set_dense_shapes(dense_types_, dense_shapes_, &spec));
    return spec;
  }
  static Status set_defaults(KernelContext& ctx, int first, ExampleSpec* spec) {
    for (std::size_t i = 0; i < spec->dense.size(); ++i) {
      TUTTI_RETURN_IF_ERROR(set_dense_default(i, ctx.input(first + static_cast<int>(i)), spec));
    }
    return {};
  }
  static ExampleOutputs outputs_of(const ExampleSpec& spec) {
    const auto sparse = static_cast<int>(spec.sparse.size());
    ExampleOutputs at;
    at.sparse_values = sparse;
    at.sparse_shapes = 2 * sparse;
    at.dense_values = 3 * sparse;
    at.ragged_values = at.dense_values + static_cast<int>(spec.dense.size());
    at.ragged_splits = at.ragged_values + static_cast<int>(spec.ragged.size());
    return at;
  }

  const std::int64_t num_sparse_;
  const FeatureTypes sparse_types_;
  const FeatureTypes dense_types_;
  const std::vector<PartialShape> dense_shapes_;
};

// Keys are scalars, one input each.
class ParseExample : public ParseKernel {
 public:
  explicit ParseExample(const KernelInit& init)
      : ParseKernel(init, "Nsparse"),
        sparse_(static_cast<int>(num_sparse_)),
        dense_(static_cast<int>(init.attr<std::int64_t>("Ndense"))) {}

  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto serialized, key_vector(ctx.input(0), "serialized"));
    TUTTI_RETURN_IF_ERROR(check_example_names(ctx.input(1), ctx.input(0)));
    std::vector<std::string> sparse, dense;
    for (int i = 0; i < sparse_ + dense_; ++i) {
      const Tensor& key = ctx.input(2 + i);
      if (key.num_elements() != 1) {
        return invalid_argument("Expected ", i < sparse_ ? "sparse" : "dense", "_keys to be scalars, got shape ",
                                key.shape());
      }
      (i < sparse_ ? sparse : dense).push_back(key.scalar<std::string>());
    }
    TUTTI_ASSIGN_OR_RETURN(ExampleSpec spec, make_spec(sparse, dense));
    TUTTI_RETURN_IF_ERROR(set_defaults(ctx, 2 + sparse_ + dense_, &spec));
    return parse_examples(ctx, serialized, ctx.input(1).flat<std::string>(), false, spec, outputs_of(spec));
  }

 private:
  const int sparse_, dense_;
};

class ParseExampleV2 : public ParseKernel {
 public:
  explicit ParseExampleV2(const KernelInit& init)
      : ParseKernel(init, "num_sparse"),
        ragged_types_(init.attr<FeatureTypes>("ragged_value_types")),
        split_types_(init.attr<FeatureTypes>("ragged_split_types")) {}

  Status compute(KernelContext& ctx) override {
    const Tensor& serialized = ctx.input(0);
    if (serialized.rank() > 1) {
      return invalid_argument("Expected serialized to be a scalar or vector, got shape: ", serialized.shape());
    }
    TUTTI_RETURN_IF_ERROR(check_example_names(ctx.input(1), serialized));
    TUTTI_ASSIGN_OR_RETURN(const auto sparse, key_vector(ctx.input(2), "sparse_keys"));
    TUTTI_ASSIGN_OR_RETURN(const auto dense, key_vector(ctx.input(3), "dense_keys"));
    TUTTI_ASSIGN_OR_RETURN(const auto ragged, key_vector(ctx.input(4), "ragged_keys"));
    TUTTI_ASSIGN_OR_RETURN(ExampleSpec spec, make_spec(sparse, dense));
    if (ragged.size() != ragged_types_.size() || ragged.size() != split_types_.size()) {
      return invalid_argument(ragged.size(), " ragged keys, but ", ragged_types_.size(), " types of values and ",
                              split_types_.size(), " of splits");
    }
    for (std::size_t i = 0; i < ragged.size(); ++i)
      spec.ragged.push_back({ragged[i], ragged_types_[i], split_types_[i]});
    TUTTI_RETURN_IF_ERROR(set_defaults(ctx, 5, &spec));
    return parse_examples(ctx, serialized.flat<std::string>(), ctx.input(1).flat<std::string>(), serialized.rank() == 0,
                          spec, outputs_of(spec));
  }

 private:
  const FeatureTypes ragged_types_, split_types_;
};

class ParseSingleExample : public ParseKernel {
 public:
  explicit ParseSingleExample(const KernelInit& init)
      : ParseKernel(init, "num_sparse"),
        sparse_(init.attr<std::vector<std::string>>("sparse_keys")),
        dense_(init.attr<std::vector<std::string>>("dense_keys")) {}

  Status compute(KernelContext& ctx) override {
    const Tensor& serialized = ctx.input(0);
    if (serialized.rank() != 0) {
      return invalid_argument("Expected serialized to be a scalar, got shape: ", serialized.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(ExampleSpec spec, make_spec(sparse_, dense_));
    TUTTI_RETURN_IF_ERROR(set_defaults(ctx, 1, &spec));
    return parse_examples(ctx, serialized.flat<std::string>(), {}, true, spec, outputs_of(spec));
  }

 private:
  const std::vector<std::string> sparse_, dense_;
};

// --- Shapes. ---

std::int64_t list_size(ShapeContext& c, const char* attr) { return std::ssize(c.attr<FeatureTypes>(attr)); }

// Lists that belong together are given by attributes of their own.
Status check_lists(ShapeContext& c, std::int64_t sparse, bool has_ragged) {
  const auto shapes = std::ssize(c.attr<std::vector<PartialShape>>("dense_shapes"));
  if (list_size(c, "sparse_types") != sparse) {
    return invalid_argument("sparse_types has ", list_size(c, "sparse_types"), " types for ", sparse, " features");
  }
  if (list_size(c, "Tdense") != shapes) {
    return invalid_argument("Tdense has ", list_size(c, "Tdense"), " types for ", shapes, " dense_shapes");
  }
  if (has_ragged && list_size(c, "ragged_value_types") != list_size(c, "ragged_split_types")) {
    return invalid_argument("ragged_value_types has ", list_size(c, "ragged_value_types"),
                            " types, ragged_split_types ", list_size(c, "ragged_split_types"));
  }
  return {};
}

// `batch`: unknown, a scalar for one example, or a vector.
Status parsed_shapes(ShapeContext& c, const PartialShape& batch, std::int64_t sparse, bool has_ragged) {
  TUTTI_RETURN_IF_ERROR(check_lists(c, sparse, has_ragged));
  const bool known = batch.has_rank();
  const std::int64_t index_rank = known ? batch.rank() + 1 : kUnknownDim;
  int at = 0;
  for (std::int64_t i = 0; i < sparse; ++i) c.set_output(at++, {kUnknownDim, index_rank});
  for (std::int64_t i = 0; i < sparse; ++i) c.set_output(at++, {kUnknownDim});
  for (std::int64_t i = 0; i < sparse; ++i) c.set_output(at++, {index_rank});
  for (const PartialShape& shape : c.attr<std::vector<PartialShape>>("dense_shapes")) {
    if (known && shape.has_rank()) {
      std::vector<std::int64_t> dims(batch.dims().begin(), batch.dims().end());
      dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
      c.set_output(at, PartialShape(std::move(dims)));
    }
    ++at;
  }
  if (!has_ragged) return {};
  for (std::int64_t i = list_size(c, "ragged_value_types"); i > 0; --i) c.set_output(at++, {kUnknownDim});
  while (at < c.num_outputs()) {
    std::int64_t splits = kUnknownDim;
    if (known && batch.rank() == 0) splits = 0;
    if (known && batch.rank() == 1 && batch.dim(0) != kUnknownDim) splits = batch.dim(0) + 1;
    c.set_output(at++, {splits});
  }
  return {};
}

Status parse_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape batch, c.with_rank(0, 1));
  return parsed_shapes(c, batch, c.attr<std::int64_t>("Nsparse"), false);
}

Status parse_v2_shape(ShapeContext& c) {
  const PartialShape& batch = c.input(0);
  if (batch.rank() > 1) return invalid_argument("serialized of shape ", batch, ", not a scalar or vector");
  return parsed_shapes(c, batch, c.attr<std::int64_t>("num_sparse"), true);
}

Status parse_single_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 0).status());
  return parsed_shapes(c, PartialShape::scalar(), c.attr<std::int64_t>("num_sparse"), false);
}

OpRow parse_row(std::string name, std::string signature, std::string attrs, ShapeFn shape, KernelFactory kernel) {
  return {.name = std::move(name),
          .signature = std::move(signature),
          .attrs = std::move(attrs),
          .shape = std::move(shape),
          .no_gradient = true,
          .traits = kExpensive,
          .kernels = {TUTTI_CPU(std::move(kernel))}};
}

}  // namespace

void register_parse_example_ops(OpTable& ops) {
  const std::string kinds = "{float, int64, string}";
  const std::string lists =
      "sparse_types: list(" + kinds + ") >= 0; Tdense: list(" + kinds + ") >= 0; dense_shapes: list(shape) >= 0";
  ops.add(parse_row("ParseExample",
                    "serialized: string, names: string, sparse_keys: Nsparse * string, dense_keys: Ndense * string, "
                    "dense_defaults: Tdense -> sparse_indices: Nsparse * int64, sparse_values: sparse_types, "
                    "sparse_shapes: Nsparse * int64, dense_values: Tdense",
                    "Nsparse: int >= 0; Ndense: int >= 0; " + lists, parse_shape, kernel_of<ParseExample>()));
  ops.add(parse_row("ParseExampleV2",
                    "serialized: string, names: string, sparse_keys: string, dense_keys: string, ragged_keys: string, "
                    "dense_defaults: Tdense -> sparse_indices: num_sparse * int64, sparse_values: sparse_types, "
                    "sparse_shapes: num_sparse * int64, dense_values: Tdense, ragged_values: ragged_value_types, "
                    "ragged_row_splits: ragged_split_types",
                    "Tdense: list(" + kinds + ") >= 0; num_sparse: int >= 0; sparse_types: list(" + kinds +
                        ") >= 0; ragged_value_types: list(" + kinds +
                        ") >= 0; ragged_split_types: list({int32, int64}) >= 0; dense_shapes: list(shape) >= 0",
                    parse_v2_shape, kernel_of<ParseExampleV2>()));
  ops.add(parse_row("ParseSingleExample",
                    "serialized: string, dense_defaults: Tdense -> sparse_indices: num_sparse * int64, "
                    "sparse_values: sparse_types, sparse_shapes: num_sparse * int64, dense_values: Tdense",
                    "num_sparse: int >= 0; sparse_keys: list(string) >= 0; dense_keys: list(string) >= 0; " + lists,
                    parse_single_shape, kernel_of<ParseSingleExample>()));
}

}  // namespace tutti
