"""Recipes of sparse tensors, embedding bags, crossed features and bins."""
import numpy as np
import tensorflow as tf

from drawing import NUMPY, tf_type
from recipes import arguments, scripts
from script import Arguments, raw, tensors_of


def sparse_indices(draw, shape, fraction=None):
    """Distinct places of a tensor of this shape, in order, as a matrix."""
    total = int(np.prod(shape))
    count = draw.integer(0, total) if fraction is None else int(total * fraction)
    places = np.sort(draw.rng.permutation(total)[:count])
    if not len(places):
        return np.zeros((0, len(shape)), np.int64)
    return np.stack(np.unravel_index(places, shape), -1).astype(np.int64)


def shape_vector(shape):
    return np.array(shape, np.int64)


# --- Embedding bags. ---


def _sorted_ids(draw, count, dtype, step=2):
    return np.asarray(np.cumsum(draw.rng.integers(0, step + 1, count)), NUMPY[dtype])


SCALES = ("Sum", "Mean", "SqrtN")


def _bag(draw, types, rows, least=0):
    count = draw.integer(least, 9)
    indices = draw.integers(0, rows - 1, (count,), types["Tidx"])
    return indices, _sorted_ids(draw, count, types["Tsegmentids"])


@arguments(*(f"SparseSegment{s}" for s in SCALES), *(f"SparseSegment{s}WithNumSegments" for s in SCALES))
def sparse_segment(draw, op, types):
    shape = draw.shape(min_rank=1, max_rank=3, max_dim=draw.choice([5, 40]), empty=False)
    indices, ids = _bag(draw, types, shape[0])
    inputs = dict(data=draw.values(types["T"], shape), indices=indices, segment_ids=ids)
    fixed = ["indices", "segment_ids"]
    if op.endswith("WithNumSegments"):
        least = int(ids[-1]) + 1 if len(ids) else 0
        inputs["num_segments"] = np.asarray(least + draw.integer(0, 3), NUMPY[types["Tnumsegments"]])
        fixed.append("num_segments")
    # Of no indices at all TensorFlow leaves the gradient as its memory was.
    return Arguments({"sparse_gradient": draw.chance(0.4)}, **inputs, fixed=fixed, differentiable=len(indices) > 0)


@arguments(*(f"SparseSegment{s}Grad" for s in SCALES))
def sparse_segment_grad(draw, op, types):
    return _sparse_segment_grad(draw, types, "output_dim0")


@arguments(*(f"SparseSegment{s}GradV2" for s in SCALES))
def sparse_segment_grad_v2(draw, op, types):
    return _sparse_segment_grad(draw, types, "dense_output_dim0")


def _sparse_segment_grad(draw, types, rows_name):
    rows = draw.choice([3, 7, 3000])
    indices, ids = _bag(draw, types, rows, least=1)  # of none TensorFlow leaves what was in memory
    grad = draw.values(types["T"], (int(ids[-1]) + 1,) + draw.shape(max_rank=2, max_dim=20))
    return Arguments(grad=grad, indices=indices, segment_ids=ids, fixed=["indices", "segment_ids", rows_name],
                     **{rows_name: np.int32(rows)})


# --- Structure of sparse tensors. ---


def _sparse(draw, dtype, min_rank=1, max_rank=3, low=-4, high=4):
    shape = draw.shape(min_rank=min_rank, max_rank=max_rank, empty=False)
    indices = sparse_indices(draw, shape)
    return shape, indices, draw.values(dtype, (len(indices),), low, high)


@arguments("SparseFillEmptyRows")
def sparse_fill_empty_rows(draw, op, types):
    shape, indices, values = _sparse(draw, types["T"])
    keep = draw.rng.permutation(len(indices)) if draw.chance(0.3) else np.arange(len(indices))
    return Arguments(indices=indices[keep], values=values, dense_shape=shape_vector(shape),
                     default_value=draw.values(types["T"], ()), fixed=["indices", "dense_shape"])


@arguments("SparseFillEmptyRowsGrad")
def sparse_fill_empty_rows_grad(draw, op, types):
    full = draw.integer(1, 8)
    places = draw.rng.permutation(full)[:draw.integer(0, full)].astype(np.int64)
    return Arguments(reverse_index_map=places, grad_values=draw.values(types["T"], (full,)),
                     fixed=["reverse_index_map"])


@arguments("SparseReshape")
def sparse_reshape(draw, op, types):
    shape = draw.shape(min_rank=1, max_rank=3, empty=False)
    total = int(np.prod(shape))
    divisor = draw.choice([d for d in range(1, total + 1) if total % d == 0])
    target = [[divisor, total // divisor], [total], [divisor, 1, total // divisor], list(shape)][draw.integer(0, 3)]
    if draw.chance(0.5):
        target[draw.integer(0, len(target) - 1)] = -1
    return Arguments(input_indices=sparse_indices(draw, shape), input_shape=shape_vector(shape),
                     new_shape=shape_vector(target), fixed=["input_indices", "input_shape", "new_shape"])


@arguments("SparseReorder")
def sparse_reorder(draw, op, types):
    shape, indices, values = _sparse(draw, types["T"])
    return Arguments(input_indices=indices[draw.rng.permutation(len(indices))], input_values=values,
                     input_shape=shape_vector(shape), fixed=["input_indices", "input_shape"],
                     spoilable=False)  # TensorFlow takes negative sizes


@arguments("SparseSlice")
def sparse_slice(draw, op, types):
    shape, indices, values = _sparse(draw, types["T"])
    start = [draw.integer(0, d) for d in shape]
    size = [draw.integer(0, d + 1) for d in shape]
    return Arguments(indices=indices, values=values, shape=shape_vector(shape), start=shape_vector(start),
                     size=shape_vector(size), fixed=["indices", "shape", "start", "size"])


@arguments("SparseSliceGrad")
def sparse_slice_grad(draw, op, types):
    shape = draw.shape(min_rank=1, max_rank=3, empty=False)
    indices = sparse_indices(draw, shape)
    start = np.array([draw.integer(0, d - 1) for d in shape], np.int64)
    inside = (indices >= start).all(axis=1) if len(indices) else np.zeros(0, bool)
    kept = indices[inside] - start
    return Arguments(backprop_val_grad=draw.values(types["T"], (len(kept),)), input_indices=indices, input_start=start,
                     output_indices=kept, fixed=["input_indices", "input_start", "output_indices"], spoilable=False)


@arguments("SparseConcat")
def sparse_concat(draw, op, types):
    rank = draw.integer(1, 3)
    axis = draw.integer(0, rank - 1)
    shape = [draw.integer(1, 4) for _ in range(rank)]
    indices, values, shapes = [], [], []
    for _ in range(draw.integer(2, 4)):
        part = list(shape)
        part[axis] = draw.integer(1, 3)
        places = sparse_indices(draw, part)
        indices.append(places)
        values.append(draw.values(types["T"], (len(places),)))
        shapes.append(shape_vector(part))
    return Arguments({"concat_dim": axis - (rank if draw.chance(0.3) else 0)}, indices=indices, values=values,
                     shapes=shapes, fixed=["indices", "shapes"],
                     spoilable=False)  # TensorFlow takes any number of values


@arguments("SparseSplit")
def sparse_split(draw, op, types):
    shape, indices, values = _sparse(draw, types["T"])
    axis = draw.integer(0, len(shape) - 1)
    return Arguments({"num_split": draw.integer(1, shape[axis])}, split_dim=np.int64(axis), indices=indices,
                     values=values, shape=shape_vector(shape), fixed=["split_dim", "indices", "shape"])


# --- Arithmetic. ---


@arguments("SparseAdd")
def sparse_add(draw, op, types):
    dtype = types["T"]
    real = {"complex64": "float", "complex128": "double"}.get(dtype, dtype)
    shape = draw.shape(min_rank=1, max_rank=3, empty=False)
    a, b = sparse_indices(draw, shape), sparse_indices(draw, shape)
    thresh = draw.choice([0, 0, 1])
    return Arguments(a_indices=a, a_values=draw.values(dtype, (len(a),)), a_shape=shape_vector(shape), b_indices=b,
                     b_values=draw.values(dtype, (len(b),)), b_shape=shape_vector(shape),
                     thresh=np.asarray(thresh, NUMPY[real]),
                     fixed=["a_indices", "a_shape", "b_indices", "b_shape", "thresh"], spoilable=False)


@arguments("SparseSparseMaximum", "SparseSparseMinimum")
def sparse_sparse(draw, op, types):
    dtype = types["T"]
    shape = draw.shape(min_rank=1, max_rank=3, empty=False)
    a, b = sparse_indices(draw, shape), sparse_indices(draw, shape)
    return Arguments(a_indices=a, a_values=draw.values(dtype, (len(a),)), a_shape=shape_vector(shape), b_indices=b,
                     b_values=draw.values(dtype, (len(b),)), b_shape=shape_vector(shape),
                     fixed=["a_indices", "a_shape", "b_indices", "b_shape"], spoilable=False, differentiable=False)


@arguments("SparseAddGrad")
def sparse_add_grad(draw, op, types):
    shape = draw.shape(min_rank=1, max_rank=3, empty=False)
    a, b = sparse_indices(draw, shape), sparse_indices(draw, shape)
    total = np.unique(np.concatenate([a, b]), axis=0)
    return Arguments(backprop_val_grad=draw.values(types["T"], (len(total),)), a_indices=a, b_indices=b,
                     sum_indices=total.reshape(-1, len(shape)), fixed=["a_indices", "b_indices", "sum_indices"],
                     spoilable=False)


@arguments("SparseTensorDenseAdd")
def sparse_tensor_dense_add(draw, op, types):
    shape, indices, values = _sparse(draw, types["T"])
    index = NUMPY[types["Tindices"]]
    return Arguments(a_indices=indices.astype(index), a_values=values, a_shape=np.array(shape, index),
                     b=draw.values(types["T"], shape), fixed=["a_indices", "a_shape"])


@arguments("SparseDenseCwiseMul", "SparseDenseCwiseDiv", "SparseDenseCwiseAdd")
def sparse_dense_cwise(draw, op, types):
    shape, indices, values = _sparse(draw, types["T"])
    dense = draw.smaller_shape(shape)
    make = draw.nonzero if op.endswith("Div") else draw.values
    return Arguments(sp_indices=indices, sp_values=values, sp_shape=shape_vector(shape), dense=make(types["T"], dense),
                     fixed=["sp_indices", "sp_shape"])


@arguments("SparseSoftmax")
def sparse_softmax(draw, op, types):
    shape, indices, values = _sparse(draw, types["T"], min_rank=2)
    # Rows that are out of order, or lie outside, TensorFlow groups as it comes upon them.
    return Arguments(sp_indices=indices, sp_values=values, sp_shape=shape_vector(shape),
                     fixed=["sp_indices", "sp_shape"], spoilable=False)


@arguments("SparseReduceSum", "SparseReduceMax", "SparseReduceSumSparse", "SparseReduceMaxSparse")
def sparse_reduce(draw, op, types):
    shape, indices, values = _sparse(draw, types["T"])
    axes = draw.axes(len(shape))
    axes = np.array(axes[0] if len(axes) == 1 and draw.chance(0.5) else axes, np.int32)
    return Arguments({"keep_dims": draw.chance(0.5)}, input_indices=indices, input_values=values,
                     input_shape=shape_vector(shape), reduction_axes=axes,
                     fixed=["input_indices", "input_shape", "reduction_axes"])


# --- Crossed features. ---


def _cross_inputs(draw, dtypes):
    batch = draw.integer(1, 4)
    indices, values, shapes, dense = [], [], [], []
    for dtype in dtypes:
        shape = (batch, draw.integer(1, 3))
        places = sparse_indices(draw, shape)
        indices.append(places)
        values.append(draw.values(dtype, (len(places),)))
        shapes.append(shape_vector(shape))
    for _ in range(draw.integer(0 if dtypes else 1, 2)):
        dense.append(draw.values(draw.choice(["int64", "string"]), (batch, draw.integer(1, 3))))
    return dict(indices=indices, values=values, shapes=shapes, dense_inputs=dense)


@arguments("SparseCross")
def sparse_cross(draw, op, types):
    inputs = _cross_inputs(draw, [draw.choice(["int64", "string"]) for _ in range(draw.integer(1, 3))])
    hashed = types["out_type"] == "int64"
    numbers = any(a.dtype != object for a in inputs["values"] + inputs["dense_inputs"])
    internal = "int64" if hashed or numbers else draw.choice(["int64", "string"])
    attrs = {"hashed_output": hashed, "num_buckets": draw.choice([0, 7, 1000]), "hash_key": draw.integer(0, 1 << 40),
             "out_type": tf_type(types["out_type"]), "internal_type": tf_type(internal)}
    return Arguments(attrs, **inputs, fixed=["indices", "shapes"], spoilable=False)


@arguments("SparseCrossV2")
def sparse_cross_v2(draw, op, types):
    inputs = _cross_inputs(draw, [draw.choice(["int64", "string"]) for _ in range(draw.integer(1, 3))])
    return Arguments(**inputs, sep=np.array(draw.choice([b"_X_", b"", b"-"]), object),
                     fixed=["indices", "shapes"], spoilable=False)


@arguments("SparseCrossHashed")
def sparse_cross_hashed(draw, op, types):
    inputs = _cross_inputs(draw, [draw.choice(["int64", "string"]) for _ in range(draw.integer(1, 3))])
    return Arguments(**inputs, num_buckets=np.int64(draw.choice([0, 7, 1000])),
                     strong_hash=np.bool_(draw.chance(0.5)), salt=draw.integers(0, 1 << 40, (2,), "int64"),
                     fixed=["indices", "shapes"], spoilable=False)


# --- Bins. ---


@arguments("Bucketize")
def bucketize(draw, op, types):
    boundaries = sorted(float(v) for v in draw.values("float", (draw.integer(0, 6),)))
    return Arguments({"boundaries": boundaries}, input=draw.values(types["T"], draw.shape()), differentiable=False)


def _weights(draw, dtype, shape):
    return draw.values(dtype, shape if draw.chance(0.6) else (0,))


@arguments("Bincount")
def bincount(draw, op, types):
    values = draw.integers(0, 9, draw.shape(max_rank=3))
    return Arguments(arr=values, size=np.int32(draw.integer(0, 12)), weights=_weights(draw, types["T"], values.shape),
                     differentiable=False, spoilable=False)


@arguments("DenseBincount")
def dense_bincount(draw, op, types):
    values = draw.integers(0, 9, draw.shape(min_rank=1, max_rank=2), types["Tidx"])
    return Arguments({"binary_output": draw.chance(0.4)}, input=values,
                     size=np.asarray(draw.integer(0, 12), NUMPY[types["Tidx"]]),
                     weights=_weights(draw, types["T"], values.shape), differentiable=False, spoilable=False)


@arguments("SparseBincount")
def sparse_bincount(draw, op, types):
    shape = draw.shape(min_rank=1, max_rank=2, empty=False)
    indices = sparse_indices(draw, shape)
    values = draw.integers(0, 9, (len(indices),), types["Tidx"])
    return Arguments({"binary_output": draw.chance(0.4)}, indices=indices, values=values,
                     dense_shape=shape_vector(shape), size=np.asarray(draw.integer(1, 12), NUMPY[types["Tidx"]]),
                     weights=_weights(draw, types["T"], values.shape), differentiable=False, spoilable=False)


def row_splits(draw, rows, longest=4, dtype="int64"):
    """Where rows of drawn lengths begin and the last one ends."""
    return np.concatenate([[0], np.cumsum(draw.rng.integers(0, longest + 1, rows))]).astype(NUMPY[dtype])


@arguments("RaggedBincount")
def ragged_bincount(draw, op, types):
    splits = row_splits(draw, draw.integer(1, 5))
    values = draw.integers(0, 9, (int(splits[-1]),), types["Tidx"])
    return Arguments({"binary_output": draw.chance(0.4)}, splits=splits, values=values,
                     size=np.asarray(draw.integer(1, 12), NUMPY[types["Tidx"]]),
                     weights=_weights(draw, types["T"], values.shape), differentiable=False, spoilable=False)


# --- Ragged tensors, and sparse ones as strings. ---


@arguments("RaggedRange")
def ragged_range(draw, op, types):
    rows = draw.integer(1, 4)

    def numbers(low, high, make=draw.values):
        return make(types["T"], (rows,) if draw.chance(0.7) else (), low, high)
    return Arguments({"Tsplits": tf_type(types["Tsplits"])}, starts=numbers(-3, 3), limits=numbers(-3, 3),
                     deltas=numbers(-2, 2, draw.nonzero), differentiable=False)


def _nested(draw, depth, dtype):
    """Splits of every ragged dimension, outermost first, and how many values there are."""
    nested, rows = [], draw.integer(1, 4)
    for _ in range(depth):
        nested.append(row_splits(draw, rows, 3, dtype))
        rows = int(nested[-1][-1])
    return nested, rows


@arguments("RaggedTensorToSparse")
def ragged_to_sparse(draw, op, types):
    nested, count = _nested(draw, draw.integer(1, 3), types["Tsplits"])
    # Splits that are no vectors pass in TensorFlow, with a shape that is not the result's.
    return Arguments(rt_nested_splits=nested, rt_dense_values=draw.values(types["T"], (count,) + draw.shape(max_rank=2)),
                     fixed=["rt_nested_splits"], spoilable=False)


@arguments("RaggedGather")
def ragged_gather(draw, op, types):
    depth = draw.integer(1, 3)
    nested, count = _nested(draw, depth, types["Tsplits"])
    indices = draw.integers(0, len(nested[0]) - 2, draw.shape(min_rank=1, max_rank=2), types["Tindices"])
    return Arguments({"OUTPUT_RAGGED_RANK": depth + indices.ndim - 1}, params_nested_splits=nested,
                     params_dense_values=draw.values(types["Tvalues"], (count,) + draw.shape(max_rank=1, empty=False)),
                     indices=indices, fixed=["params_nested_splits", "indices"])


@arguments("RaggedTensorToTensor")
def ragged_to_tensor(draw, op, types):
    depth, index = draw.integer(1, 3), types["Tindex"]
    nested, count = _nested(draw, depth, index)
    values = draw.values(types["T"], (count,) + draw.shape(max_rank=2, empty=False))
    kinds = [b"ROW_SPLITS"] * depth
    partitions = list(nested)
    if draw.chance(0.5):  # the same as row numbers
        kinds = [b"FIRST_DIM_SIZE"] + [b"VALUE_ROWIDS"] * depth
        partitions = [np.asarray(len(nested[0]) - 1, NUMPY[index])]
        partitions += [np.repeat(np.arange(len(s) - 1), np.diff(s)).astype(NUMPY[index]) for s in nested]
    shape = [draw.choice([-1, -1, draw.integer(0, 4)]) for _ in range(depth + 1)] + list(values.shape[1:])
    shape = np.array(-1 if draw.chance(0.3) else shape, NUMPY[types["Tshape"]])
    fill = draw.values(types["T"], draw.smaller_shape(values.shape[1:]))
    return Arguments({"row_partition_types": kinds}, shape=shape, values=values, default_value=fill,
                     row_partition_tensors=partitions, fixed=["shape", "row_partition_tensors"], spoilable=False)


@arguments("SerializeSparse")
def serialize_sparse(draw, op, types):
    shape, indices, values = _sparse(draw, types["T"])
    return Arguments(sparse_indices=indices, sparse_values=values, sparse_shape=shape_vector(shape),
                     fixed=["sparse_indices", "sparse_shape"], differentiable=False)


@arguments("SerializeManySparse")
def serialize_many_sparse(draw, op, types):
    shape, indices, values = _sparse(draw, types["T"], min_rank=2)
    return Arguments(sparse_indices=indices, sparse_values=values, sparse_shape=shape_vector(shape),
                     fixed=["sparse_indices", "sparse_shape"], differentiable=False)


@scripts("DeserializeSparse", "DeserializeManySparse")
def deserialize_sparse(script, op, types):
    """Several of one rank, serialized by TensorFlow's own op, which is compared above."""
    draw = script.draw
    dtype, rank = types["dtype"], draw.integer(1, 3)
    as_variant = types.get("Tserialized") == "variant"
    rows = []
    for _ in range(draw.integer(1, 3)):
        shape = draw.shape(min_rank=rank, max_rank=rank, empty=False)
        indices = sparse_indices(draw, shape)
        rows.append(raw("SerializeSparse", sparse_indices=script.feed(indices, fixed=True),
                        sparse_values=script.feed(draw.values(dtype, (len(indices),))),
                        sparse_shape=script.feed(shape_vector(shape), fixed=True),
                        out_type=tf.variant if as_variant else tf.string))
    serialized = tf.stack(rows)
    if op == "DeserializeSparse" and draw.chance(0.3):
        serialized = rows[0] if draw.chance(0.5) else serialized[tf.newaxis]
    wanted = tf_type("int64" if script.spoiled and dtype != "int64" else dtype)
    script.step(fetch=tensors_of(raw(op, name="op", serialized_sparse=serialized, dtype=wanted)))
