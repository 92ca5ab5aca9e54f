// SequenceExamples: a context, and lists of features with a step each.
#include <algorithm>
#include <vector>

#include "tutti/graph/shape_inference.h"
#include "tutti/ops/host/host_ops.h"
#include "tutti/ops/host/internal/sequence_batch.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

using DTypes = std::vector<DType>;
using Words = std::vector<std::string>;

// The keys of one run, wherever the op has them.
struct SequenceKeys {
  Words context_sparse, context_dense, context_ragged;
  Words list_sparse, list_dense, list_ragged;
  std::vector<bool> may_be_missing;  // of list_dense
  int first_default = 0;             // input
};

// What the three ops have in common: types and shapes from attributes.
class ParseSequenceKernel : public Kernel {
 public:
  ParseSequenceKernel(const KernelInit& init, bool ragged, bool lengths)
      : context_sparse_(init.attr<DTypes>("context_sparse_types")),
        context_dense_(init.attr<DTypes>("Tcontext_dense")),
        list_sparse_(init.attr<DTypes>("feature_list_sparse_types")),
        list_dense_(init.attr<DTypes>("feature_list_dense_types")),
        context_shapes_(init.attr<std::vector<PartialShape>>("context_dense_shapes")),
        list_shapes_(init.attr<std::vector<PartialShape>>("feature_list_dense_shapes")),
        lengths_(lengths) {
    if (!ragged) return;
    context_ragged_ = init.attr<DTypes>("context_ragged_value_types");
    context_splits_ = init.attr<DTypes>("context_ragged_split_types");
    list_ragged_ = init.attr<DTypes>("feature_list_ragged_value_types");
    list_splits_ = init.attr<DTypes>("feature_list_ragged_split_types");
  }

 protected:
  Status parse(KernelContext& ctx, const SequenceKeys& keys, std::span<const std::string> names) const {
    TUTTI_RETURN_IF_ERROR(check_counts(keys));
    const Tensor& serialized = ctx.input(0);
    const bool single = serialized.rank() == 0;
    ExampleSpec context;
    for (std::size_t i = 0; i < keys.context_sparse.size(); ++i) {
      context.sparse.push_back({.key = keys.context_sparse[i], .dtype = context_sparse_[i]});
    }
    for (const std::string& key : keys.context_dense) context.dense.push_back({.key = key});
    for (std::size_t i = 0; i < keys.context_ragged.size(); ++i) {
      context.ragged.push_back({keys.context_ragged[i], context_ragged_[i], context_splits_[i]});
    }
    TUTTI_RETURN_IF_ERROR(check_shapes(context_shapes_));
    TUTTI_RETURN_IF_ERROR(set_dense_shapes(context_dense_, context_shapes_, &context));
    for (std::size_t i = 0; i < context.dense.size(); ++i) {
      TUTTI_RETURN_IF_ERROR(set_dense_default(i, ctx.input(keys.first_default + static_cast<int>(i)), &context));
    }
    ExampleOutputs at;
    int next = 0;
    const auto take = [&next](std::size_t count) {
      const int first = next;
      next += static_cast<int>(count);
      return first;
    };
    at.sparse_indices = take(context.sparse.size());
    at.sparse_values = take(context.sparse.size());
    at.sparse_shapes = take(context.sparse.size());
    at.dense_values = take(context.dense.size());
    at.ragged_values = take(context.ragged.size());
    at.ragged_splits = take(context.ragged.size());
    TUTTI_RETURN_IF_ERROR(parse_examples(ctx, serialized.flat<std::string>(), names, single, context, at));
    TUTTI_ASSIGN_OR_RETURN(const SequenceSpec lists, list_spec(keys));
    SequenceOutputs out;
    out.sparse_indices = take(lists.sparse.size());
    out.sparse_values = take(lists.sparse.size());
    out.sparse_shapes = take(lists.sparse.size());
    out.dense_values = take(lists.dense.size());
    if (lengths_) out.dense_lengths = take(lists.dense.size());
    out.ragged_values = take(lists.ragged.size());
    out.outer_splits = take(lists.ragged.size());
    out.inner_splits = take(lists.ragged.size());
    return parse_feature_lists(ctx, serialized.flat<std::string>(), names, single, lists, out);
  }

 private:
  static Status check_shapes(const std::vector<PartialShape>& shapes) {
    for (const PartialShape& shape : shapes) {
      if (!shape.fully_known()) return invalid_argument("Shape ", shape, " is not fully defined");
    }
    return {};
  }

  Status check_counts(const SequenceKeys& keys) const {
    const bool same =
        keys.context_sparse.size() == context_sparse_.size() && keys.context_dense.size() == context_dense_.size() &&
        context_shapes_.size() == context_dense_.size() && keys.context_ragged.size() == context_ragged_.size() &&
        context_splits_.size() == context_ragged_.size() && keys.list_sparse.size() == list_sparse_.size() &&
        keys.list_dense.size() == list_dense_.size() && list_shapes_.size() == list_dense_.size() &&
        keys.may_be_missing.size() == list_dense_.size() && keys.list_ragged.size() == list_ragged_.size() &&
        list_splits_.size() == list_ragged_.size();
    return same ? Status() : invalid_argument("the numbers of keys, types and shapes of features differ");
  }

  Result<SequenceSpec> list_spec(const SequenceKeys& keys) const {
    TUTTI_RETURN_IF_ERROR(check_shapes(list_shapes_));
    SequenceSpec spec;
    for (std::size_t i = 0; i < keys.list_sparse.size(); ++i) {
      spec.sparse.push_back({.key = keys.list_sparse[i], .dtype = list_sparse_[i]});
    }
    for (std::size_t i = 0; i < keys.list_dense.size(); ++i) {
      const std::optional<Shape> shape = list_shapes_[i].as_shape();
      if (!shape) return invalid_argument("Shape ", list_shapes_[i], " is too large");
      spec.dense.push_back({keys.list_dense[i], list_dense_[i], *shape, keys.may_be_missing[i]});
    }
    for (std::size_t i = 0; i < keys.list_ragged.size(); ++i) {
      spec.ragged.push_back({keys.list_ragged[i], list_ragged_[i], list_splits_[i]});
    }
    return spec;
  }

  const DTypes context_sparse_, context_dense_, list_sparse_, list_dense_;
  const std::vector<PartialShape> context_shapes_, list_shapes_;
  const bool lengths_;
  DTypes context_ragged_, context_splits_, list_ragged_, list_splits_;
};

std::vector<bool> missing_among(const Words& dense, std::span<const std::string> allowed) {
  std::vector<bool> may;
  for (const std::string& key : dense) may.push_back(std::find(allowed.begin(), allowed.end(), key) != allowed.end());
  return may;
}

Result<std::span<const std::string>> names_for(const Tensor& names, const Tensor& serialized) {
  if (serialized.rank() > 1) {
    return invalid_argument("Expected serialized to be a scalar or vector, got shape: ", serialized.shape());
  }
  if (names.num_elements() != 0 && names.shape() != serialized.shape()) {
    return invalid_argument("Expected debug_name to have the same shape as serialized: ", names.shape(), " and ",
                            serialized.shape());
  }
  return names.flat<std::string>();
}

class ParseSequenceExample : public ParseSequenceKernel {
 public:
  explicit ParseSequenceExample(const KernelInit& init) : ParseSequenceKernel(init, false, true) {
    keys_.context_sparse = init.attr<Words>("context_sparse_keys");
    keys_.context_dense = init.attr<Words>("context_dense_keys");
    keys_.list_sparse = init.attr<Words>("feature_list_sparse_keys");
    keys_.list_dense = init.attr<Words>("feature_list_dense_keys");
    keys_.may_be_missing =
        missing_among(keys_.list_dense, init.attr<Words>("feature_list_dense_missing_assumed_empty"));
    keys_.first_default = 2;
  }
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto names, names_for(ctx.input(1), ctx.input(0)));
    return parse(ctx, keys_, names);
  }

 private:
  SequenceKeys keys_;
};

class ParseSequenceExampleV2 : public ParseSequenceKernel {
 public:
  explicit ParseSequenceExampleV2(const KernelInit& init) : ParseSequenceKernel(init, true, true) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto names, names_for(ctx.input(1), ctx.input(0)));
    SequenceKeys keys;
    Words* const lists[] = {&keys.context_sparse, &keys.context_dense, &keys.context_ragged,
                            &keys.list_sparse,    &keys.list_dense,    &keys.list_ragged};
    for (int i = 0; i < 6; ++i) {
      const auto words = ctx.input(2 + i).flat<std::string>();
      lists[i]->assign(words.begin(), words.end());
    }
    const auto missing = ctx.input(8).flat<bool>();
    keys.may_be_missing.assign(missing.begin(), missing.end());
    keys.first_default = 9;
    return parse(ctx, keys, names);
  }
};

// Keys are scalars, one input each.
class ParseSingleSequenceExample : public ParseSequenceKernel {
 public:
  explicit ParseSingleSequenceExample(const KernelInit& init) : ParseSequenceKernel(init, false, false) {
    const char* const names[] = {"Ncontext_sparse", "Ncontext_dense", "Nfeature_list_sparse", "Nfeature_list_dense"};
    for (int i = 0; i < 4; ++i) counts_[i] = static_cast<int>(init.attr<std::int64_t>(names[i]));
  }
  Status compute(KernelContext& ctx) override {
    const Tensor& serialized = ctx.input(0);
    if (serialized.rank() != 0) {
      return invalid_argument("Expected serialized to be a scalar, got shape: ", serialized.shape());
    }
    SequenceKeys keys;
    Words* const lists[] = {&keys.context_sparse, &keys.context_dense, &keys.list_sparse, &keys.list_dense};
    int next = 2;
    for (int i = 0; i < 4; ++i) {
      for (int k = 0; k < counts_[i]; ++k, ++next) {
        const Tensor& key = ctx.input(next);
        if (key.num_elements() != 1) return invalid_argument("Expected keys to be scalars, got shape: ", key.shape());
        lists[i]->push_back(key.scalar<std::string>());
      }
    }
    keys.first_default = next;
    keys.may_be_missing = missing_among(keys.list_dense, ctx.input(1).flat<std::string>());
    const Tensor& name = ctx.input(ctx.num_inputs() - 1);
    if (name.rank() != 0) return invalid_argument("Expected debug_name to be a scalar, got shape: ", name.shape());
    return parse(ctx, keys, name.flat<std::string>());
  }

 private:
  int counts_[4];
};

OpRow sequence_row(std::string name, std::string signature, std::string attrs, KernelFactory kernel) {
  return {.name = std::move(name),
          .signature = std::move(signature),
          .attrs = std::move(attrs),
          .shape = shape::none,
          .no_gradient = true,
          .traits = kExpensive,
          .kernels = {TUTTI_CPU(std::move(kernel))}};
}

std::string count_attr(const char* name) { return str_cat(name, ": int >= 0 = 0; "); }
std::string types_attr(const char* name) { return str_cat(name, ": list({float, int64, string}) >= 0 = []; "); }
std::string splits_attr(const char* name) { return str_cat(name, ": list({int32, int64}) >= 0 = []; "); }
std::string shapes_attr(const char* name) { return str_cat(name, ": list(shape) >= 0 = []; "); }

}  // namespace

void register_parse_sequence_ops(OpTable& ops) {
  const std::string context =
      "context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: context_sparse_types, "
      "context_sparse_shapes: Ncontext_sparse * int64, context_dense_values: Tcontext_dense";
  const std::string lists =
      "feature_list_sparse_indices: Nfeature_list_sparse * int64, feature_list_sparse_values: "
      "feature_list_sparse_types, feature_list_sparse_shapes: Nfeature_list_sparse * int64, "
      "feature_list_dense_values: feature_list_dense_types";
  const std::string lengths = ", feature_list_dense_lengths: Nfeature_list_dense * int64";
  const std::string counts = count_attr("Ncontext_sparse") + count_attr("Ncontext_dense") +
                             count_attr("Nfeature_list_sparse") + count_attr("Nfeature_list_dense");
  const std::string types = types_attr("context_sparse_types") + types_attr("Tcontext_dense") +
                            types_attr("feature_list_dense_types") + shapes_attr("context_dense_shapes") +
                            types_attr("feature_list_sparse_types") + shapes_attr("feature_list_dense_shapes");
  ops.add(sequence_row(
      "ParseSequenceExample",
      "serialized: string, debug_name: string, context_dense_defaults: Tcontext_dense -> " + context + ", " + lists +
          lengths,
      "feature_list_dense_missing_assumed_empty: list(string) >= 0; context_sparse_keys: list(string) >= 0; "
      "context_dense_keys: list(string) >= 0; feature_list_sparse_keys: list(string) >= 0; "
      "feature_list_dense_keys: list(string) >= 0; " +
          counts + types,
      kernel_of<ParseSequenceExample>()));
  ops.add(sequence_row(
      "ParseSequenceExampleV2",
      "serialized: string, debug_name: string, context_sparse_keys: string, context_dense_keys: string, "
      "context_ragged_keys: string, feature_list_sparse_keys: string, feature_list_dense_keys: string, "
      "feature_list_ragged_keys: string, feature_list_dense_missing_assumed_empty: bool, "
      "context_dense_defaults: Tcontext_dense -> " +
          context +
          ", context_ragged_values: context_ragged_value_types, context_ragged_row_splits: "
          "context_ragged_split_types, " +
          lists + lengths +
          ", feature_list_ragged_values: feature_list_ragged_value_types, feature_list_ragged_outer_splits: "
          "feature_list_ragged_split_types, feature_list_ragged_inner_splits: feature_list_ragged_split_types",
      count_attr("Ncontext_sparse") + types_attr("Tcontext_dense") + types_attr("context_sparse_types") +
          types_attr("context_ragged_value_types") + splits_attr("context_ragged_split_types") +
          shapes_attr("context_dense_shapes") + count_attr("Nfeature_list_sparse") + count_attr("Nfeature_list_dense") +
          types_attr("feature_list_dense_types") + types_attr("feature_list_sparse_types") +
          types_attr("feature_list_ragged_value_types") + splits_attr("feature_list_ragged_split_types") +
          shapes_attr("feature_list_dense_shapes"),
      kernel_of<ParseSequenceExampleV2>()));
  ops.add(sequence_row("ParseSingleSequenceExample",
                       "serialized: string, feature_list_dense_missing_assumed_empty: string, context_sparse_keys: "
                       "Ncontext_sparse * string, context_dense_keys: Ncontext_dense * string, "
                       "feature_list_sparse_keys: Nfeature_list_sparse * string, feature_list_dense_keys: "
                       "Nfeature_list_dense * string, context_dense_defaults: Tcontext_dense, debug_name: string -> " +
                           context + ", " + lists,
                       counts + types, kernel_of<ParseSingleSequenceExample>()));
}

}  // namespace tutti
