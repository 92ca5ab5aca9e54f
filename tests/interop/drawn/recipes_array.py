"""Recipes of ops on shapes: slices, gathers, concatenation, padding."""
import numpy as np

from drawing import INTEGERS, NUMPY, tf_type
from recipes import arguments
from script import Arguments, Skip


def index_array(values, dtype):
    return np.array(values, dtype=NUMPY[dtype])


@arguments("Identity", "StopGradient", "Snapshot", "PreventGradient", "DeepCopy", "DebugGradientIdentity")
def identity(draw, op, types):
    attrs = {"message": "stop"} if op == "PreventGradient" else {}
    argument = {"DeepCopy": "x"}.get(op, "input")
    return Arguments(attrs, **{argument: draw.values(types["T"], draw.shape())})


@arguments("PlaceholderWithDefault")
def placeholder_with_default(draw, op, types):
    shape = draw.shape()
    return Arguments({"shape": draw.choice([shape, None])}, input=draw.values(types["dtype"], shape), spoilable=False)


@arguments("IdentityN")
def identity_n(draw, op, types):
    kinds = [draw.choice(["float", "int32", "string", "double"]) for _ in range(draw.integer(1, 4))]
    return Arguments(input=[draw.values(k, draw.shape()) for k in kinds])


@arguments("EnsureShape")
def ensure_shape(draw, op, types):
    shape = draw.shape()
    asked = [None if draw.chance(0.3) else d for d in shape]
    return Arguments({"shape": asked}, input=draw.values(types["T"], shape))


@arguments("CheckNumerics", "CheckNumericsV2")
def check_numerics(draw, op, types):
    x = draw.values(types["T"], draw.shape())
    if draw.chance(0.3):
        return Arguments({"message": "bad"}, tensor=draw.with_specials(x, types["T"]), differentiable=False)
    return Arguments({"message": "bad"}, tensor=x)


@arguments("Shape", "Size")
def shape_of(draw, op, types):
    return Arguments({"out_type": tf_type(types["out_type"])}, input=draw.values(types["T"], draw.shape()))


@arguments("ShapeN")
def shape_n(draw, op, types):
    return Arguments({"out_type": tf_type(types["out_type"])},
                     input=[draw.values(types["T"], draw.shape()) for _ in range(draw.integer(1, 4))])


@arguments("Rank", "ToBool")
def one_input(draw, op, types):
    return Arguments(input=draw.values(types["T"], draw.shape()))


@arguments("Reshape")
def reshape(draw, op, types):
    x = draw.values(types["T"], draw.shape())
    target = [int(d) for d in draw.rng.permutation(np.array(x.shape, int))]
    if len(target) > 1 and draw.chance(0.4):
        target[0:2] = [target[0] * target[1]]
    if target and draw.chance(0.3):
        target.insert(draw.integer(0, len(target)), 1)
    if target and draw.chance(0.5):
        target[draw.integer(0, len(target) - 1)] = -1
    return Arguments(tensor=x, shape=index_array(target, types["Tshape"]), fixed=["shape"])


@arguments("ExpandDims")
def expand_dims(draw, op, types):
    x = draw.values(types["T"], draw.shape())
    dim = index_array(draw.integer(-x.ndim - 1, x.ndim), types["Tdim"])
    return Arguments(input=x, dim=dim.reshape((1,)) if draw.chance(0.2) else dim, fixed=["dim"])


@arguments("Squeeze")
def squeeze(draw, op, types):
    shape = list(draw.shape())
    for _ in range(draw.integer(0, 2)):
        shape.insert(draw.integer(0, len(shape)), 1)
    ones = [i for i, d in enumerate(shape) if d == 1 and draw.chance(0.5)]
    dims = [i - len(shape) if draw.chance(0.3) else i for i in ones]
    if shape and draw.chance(0.1):
        dims = [draw.integer(-len(shape) - 1, len(shape))]
    return Arguments({"squeeze_dims": dims}, input=draw.values(types["T"], shape))


@arguments("Transpose", "ConjugateTranspose")
def transpose(draw, op, types):
    x = draw.values(types["T"], draw.shape(max_rank=5))
    return Arguments(x=x, perm=index_array(draw.rng.permutation(x.ndim), types["Tperm"]), fixed=["perm"])


@arguments("InvertPermutation")
def invert_permutation(draw, op, types):
    return Arguments(x=index_array(draw.rng.permutation(draw.integer(0, 7)), types["T"]), fixed=["x"])


def _pieces(draw, dtype, count):
    """Tensors that differ along one axis, and that axis."""
    shape = list(draw.shape(min_rank=1))
    axis = draw.axis(len(shape))
    pieces = []
    for _ in range(count):
        shape[axis] = draw.integer(0, 3)
        pieces.append(draw.values(dtype, shape))
    return pieces, axis


@arguments("ConcatV2")
def concat_v2(draw, op, types):
    pieces, axis = _pieces(draw, types["T"], draw.integer(2, 4))
    return Arguments(values=pieces, axis=index_array(axis, types["Tidx"]), fixed=["axis"])


@arguments("Concat")
def concat(draw, op, types):
    pieces, axis = _pieces(draw, types["T"], draw.integer(2, 4))
    return Arguments(concat_dim=index_array(axis, "int32"), values=pieces, fixed=["concat_dim"])


@arguments("ConcatOffset")
def concat_offset(draw, op, types):
    pieces, axis = _pieces(draw, "float", draw.integer(2, 4))
    shapes = [index_array(p.shape, types.get("shape_type", "int32")) for p in pieces]
    return Arguments(concat_dim=index_array(axis, "int32"), shape=shapes, fixed=["concat_dim", "shape"])


@arguments("Pack")
def pack(draw, op, types):
    shape = draw.shape(max_rank=3)
    return Arguments({"axis": draw.integer(-len(shape) - 1, len(shape))},
                     values=[draw.values(types["T"], shape) for _ in range(draw.integer(1, 4))])


@arguments("Unpack")
def unpack(draw, op, types):
    x = draw.values(types["T"], draw.shape(min_rank=1))
    axis = draw.axis(x.ndim)
    return Arguments({"axis": axis, "num": x.shape[axis]}, value=x)


@arguments("Split")
def split(draw, op, types):
    shape = list(draw.shape(min_rank=1))
    axis, count = draw.axis(len(shape)), draw.integer(1, 3)
    shape[axis] *= count
    return Arguments({"num_split": count}, split_dim=index_array(axis, "int32"), value=draw.values(types["T"], shape),
                     fixed=["split_dim"])


@arguments("SplitV")
def split_v(draw, op, types):
    if types["Tlen"] == "int8":
        raise Skip("TensorFlow aborts")
    shape = list(draw.shape(min_rank=1))
    axis = draw.axis(len(shape))
    sizes = [draw.integer(0, 3) for _ in range(draw.integer(1, 4))]
    shape[axis] = sum(sizes)
    if draw.chance(0.4):
        sizes[draw.integer(0, len(sizes) - 1)] = -1
    return Arguments({"num_split": len(sizes)}, value=draw.values(types["T"], shape),
                     size_splits=index_array(sizes, types["Tlen"]), split_dim=index_array(axis, "int32"),
                     fixed=["size_splits", "split_dim"])


@arguments("Slice")
def slice_(draw, op, types):
    x = draw.values(types["T"], draw.shape())
    begin = [draw.integer(0, d) for d in x.shape]
    size = [-1 if draw.chance(0.3) else draw.integer(0, d - b) for d, b in zip(x.shape, begin)]
    return Arguments(input=x, begin=index_array(begin, types["Index"]), size=index_array(size, types["Index"]),
                     fixed=["begin", "size"])


def _strided(draw, shape, index):
    """begin, end, strides and masks of a slice; now and then one that is out of range."""
    count = draw.integer(0, len(shape))
    begin, end, strides = [], [], []
    for d in shape[:count]:
        stride = draw.choice([1, 1, 1, 2, 3, -1, -2])
        begin.append(draw.integer(-d - 1, d + 1))
        end.append(draw.integer(-d - 2, d + 2))
        strides.append(stride)
    masks = {name: draw.integer(0, 2 ** count - 1) if draw.chance(0.4) else 0 for name in ("begin_mask", "end_mask")}
    masks["ellipsis_mask"] = masks["new_axis_mask"] = masks["shrink_axis_mask"] = 0
    if count and draw.chance(0.3):
        masks["ellipsis_mask"] = 2 ** draw.integer(0, count - 1)
    if count and draw.chance(0.2):
        masks["new_axis_mask"] = draw.integer(0, 2 ** count - 1)
    if count and draw.chance(0.4):
        shrink = draw.integer(0, 2 ** count - 1)
        masks["shrink_axis_mask"] = shrink
        for i in range(count):
            if shrink >> i & 1:
                strides[i] = 1
                begin[i] = draw.integer(-shape[i], max(shape[i] - 1, 0))
    return [index_array(v, index) for v in (begin, end, strides)], masks


@arguments("StridedSlice")
def strided_slice(draw, op, types):
    x = draw.values(types["T"], draw.shape())
    (begin, end, strides), masks = _strided(draw, x.shape, types["Index"])
    return Arguments(masks, input=x, begin=begin, end=end, strides=strides, fixed=["begin", "end", "strides"])


def slice_within(draw, shape, index):
    """begin, end, strides and masks of a slice that lies inside, and its shape."""
    begin = [draw.integer(0, d - 1) for d in shape]
    end = [draw.integer(b, d) for b, d in zip(begin, shape)]
    strides = [draw.integer(1, 2) for _ in shape]
    masks = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}
    inner = [max(0, -(-(e - b) // s)) for b, e, s in zip(begin, end, strides)]
    if shape and draw.chance(0.4):
        axis = draw.integer(0, len(shape) - 1)
        masks["shrink_axis_mask"] = 2 ** axis
        strides[axis] = 1
        inner.pop(axis)
    where = {"begin": index_array(begin, index), "end": index_array(end, index), "strides": index_array(strides, index)}
    return where, masks, tuple(inner)


@arguments("StridedSliceGrad")
def strided_slice_grad(draw, op, types):
    shape = draw.shape(empty=False)
    where, masks, inner = slice_within(draw, shape, types["Index"])
    return Arguments(masks, shape=index_array(shape, types["Index"]), **where, dy=draw.values(types["T"], inner),
                     fixed=["shape", *where])


@arguments("TensorStridedSliceUpdate")
def strided_slice_update(draw, op, types):
    x = draw.values(types["T"], draw.shape(empty=False))
    where, masks, inner = slice_within(draw, x.shape, types["Index"])
    return Arguments(masks, input=x, **where, value=draw.values(types["T"], shape_into(draw, inner)), fixed=[*where])


def shape_into(draw, shape):
    """One whose values may be put where `shape` is: smaller, or with ones before it."""
    shape = draw.smaller_shape(shape) if draw.chance(0.4) else shape
    return (1,) + shape if draw.chance(0.2) else shape


@arguments("Tile")
def tile(draw, op, types):
    x = draw.values(types["T"], draw.shape())
    return Arguments(input=x, multiples=draw.integers(0, 3, (x.ndim,), types["Tmultiples"]), fixed=["multiples"])


@arguments("Fill")
def fill(draw, op, types):
    return Arguments(dims=index_array(draw.shape(), types["index_type"]), value=draw.values(types["T"], ()),
                     fixed=["dims"])


@arguments("BroadcastTo")
def broadcast_to(draw, op, types):
    shape = draw.shape()
    return Arguments(input=draw.values(types["T"], draw.smaller_shape(shape)),
                     shape=index_array(shape, types["Tidx"]), fixed=["shape"])


@arguments("BroadcastArgs", "BroadcastGradientArgs")
def broadcast_args(draw, op, types):
    a, b = draw.broadcasting_shapes()
    return Arguments(s0=index_array(a, types["T"]), s1=index_array(b, types["T"]), fixed=["s0", "s1"])


@arguments("Gather")
def gather(draw, op, types):
    params = draw.values(types["Tparams"], draw.shape(min_rank=1, empty=False))
    indices = draw.integers(0, params.shape[0] - 1, draw.shape(max_rank=2), types["Tindices"])
    return Arguments({"validate_indices": True}, params=params, indices=indices, fixed=["indices"])


@arguments("GatherV2")
def gather_v2(draw, op, types):
    params = draw.values(types["Tparams"], draw.shape(min_rank=1, empty=False))
    batch = draw.integer(0, params.ndim - 1) if draw.chance(0.4) else 0
    axis = draw.integer(batch, params.ndim - 1)
    shape = params.shape[:batch] + draw.shape(max_rank=2)
    indices = draw.integers(0, params.shape[axis] - 1, shape, types["Tindices"])
    axis = axis - params.ndim if draw.chance(0.3) else axis
    return Arguments({"batch_dims": batch}, params=params, indices=indices, axis=index_array(axis, types["Taxis"]),
                     fixed=["indices", "axis"])


def _coordinates(draw, shape, dtype):
    """Indices [..., depth] into `shape`, and the shape of what they name."""
    depth = draw.integer(0 if draw.chance(0.1) else min(1, len(shape)), len(shape))
    outer = draw.shape(min_rank=1, max_rank=2)
    columns = [draw.integers(0, max(d - 1, 0), outer, dtype) for d in shape[:depth]]
    indices = np.stack(columns, -1) if columns else np.zeros(outer + (0,), NUMPY[dtype])
    return indices, outer + tuple(shape[depth:])


@arguments("GatherNd")
def gather_nd(draw, op, types):
    params = draw.values(types["Tparams"], draw.shape(min_rank=1, empty=False))
    indices, _ = _coordinates(draw, params.shape, types["Tindices"])
    return Arguments(params=params, indices=indices, fixed=["indices"])


@arguments("ScatterNd")
def scatter_nd(draw, op, types):
    shape = draw.shape(min_rank=1, empty=False)
    indices, inner = _coordinates(draw, shape, types["Tindices"])
    return Arguments(indices=indices, updates=draw.values(types["T"], inner),
                     shape=index_array(shape, types["Tindices"]), fixed=["indices", "shape"])


@arguments("SparseToDense")
def sparse_to_dense(draw, op, types):
    shape = draw.shape(min_rank=1, max_rank=3, empty=False)
    total = int(np.prod(shape))
    places = np.sort(draw.rng.permutation(total)[:draw.integer(0, total)])
    indices = np.stack(np.unravel_index(places, shape), -1) if len(places) else np.zeros((0, len(shape)))
    values = draw.values(types["T"], draw.choice([(len(places),), ()]))
    return Arguments({"validate_indices": True}, sparse_indices=index_array(indices, types["Tindices"]),
                     output_shape=index_array(shape, types["Tindices"]), sparse_values=values,
                     default_value=draw.values(types["T"], ()), fixed=["sparse_indices", "output_shape"],
                     differentiable=False)


@arguments("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMin", "TensorScatterMax")
def tensor_scatter(draw, op, types):
    shape = draw.shape(min_rank=1, empty=False)
    indices, inner = _coordinates(draw, shape, types["Tindices"])
    return Arguments(tensor=draw.values(types["T"], shape), indices=indices, updates=draw.values(types["T"], inner),
                     fixed=["indices"], differentiable=op != "TensorScatterUpdate" or _are_unique(indices))


def _are_unique(indices):
    rows = indices.reshape((-1, indices.shape[-1])) if indices.size else indices.reshape((0, 1))
    return len(np.unique(rows, axis=0)) == len(rows)


@arguments("Where")
def where(draw, op, types):
    return Arguments(input=draw.values(types["T"], draw.shape(min_rank=1), -1, 1))


@arguments("Unique", "UniqueWithCounts")
def unique(draw, op, types):
    return Arguments({"out_idx": tf_type(types["out_idx"])}, x=draw.values(types["T"], (draw.integer(0, 12),), -2, 2))


@arguments("UniqueV2", "UniqueWithCountsV2")
def unique_v2(draw, op, types):
    x = draw.values(types["T"], draw.shape(min_rank=1), 0, 1)
    return Arguments({"out_idx": tf_type(types["out_idx"])}, x=x, axis=index_array([draw.integer(0, x.ndim - 1)],
                     types["Taxis"]), fixed=["axis"])


@arguments("OneHot")
def one_hot(draw, op, types):
    indices = draw.values(types["TI"], draw.shape(max_rank=3), 0, 3)
    return Arguments({"axis": draw.integer(-1, indices.ndim)}, indices=indices, depth=draw.integers(0, 6),
                     on_value=draw.values(types["T"], ()), off_value=draw.values(types["T"], ()),
                     fixed=["indices", "depth"])


@arguments("Range")
def range_(draw, op, types):
    dtype = types["Tidx"]
    start, delta = draw.values(dtype, (), 0, 2), draw.nonzero(dtype, (), 0.5, 2)
    limit = start + delta * np.array(draw.integer(0, 6), NUMPY[dtype])
    if dtype not in INTEGERS or dtype.startswith("int"):
        start, limit, delta = (v * draw.choice([1, 1, -1]) for v in (start, limit, delta))
    start, limit, delta = (np.asarray(v, NUMPY[dtype]) for v in (start, limit, delta))
    return Arguments(start=start, limit=limit, delta=delta, fixed=["start", "limit", "delta"])


@arguments("LinSpace")
def lin_space(draw, op, types):
    return Arguments(start=draw.values(types["T"], ()), stop=draw.values(types["T"], ()),
                     num=draw.integers(1, 7, (), types["Tidx"]), fixed=["num"], differentiable=False)


@arguments("DynamicPartition")
def dynamic_partition(draw, op, types):
    data = draw.values(types["T"], draw.shape())
    count = draw.integer(1, 4)
    partitions = draw.integers(0, count - 1, data.shape[:draw.integer(0, data.ndim)])
    return Arguments({"num_partitions": count}, data=data, partitions=partitions, fixed=["partitions"])


@arguments("DynamicStitch", "ParallelDynamicStitch")
def dynamic_stitch(draw, op, types):
    inner = draw.shape(max_rank=2)
    shapes = [draw.shape(max_rank=2, max_dim=3) for _ in range(draw.integer(1, 3))]
    total = sum(int(np.prod(s)) for s in shapes)
    order = list(draw.rng.permutation(total))  # every row is written: others would have no defined value
    indices = []
    for shape in shapes:
        count = int(np.prod(shape))
        indices.append(index_array(order[:count], "int32").reshape(shape))
        order = order[count:]
    return Arguments(indices=indices, data=[draw.values(types["T"], s + inner) for s in shapes], fixed=["indices"],
                     spoilable=False)


def _paddings(draw, rank, dtype, limit=2):
    return draw.integers(0, limit, (rank, 2), dtype)


@arguments("Pad", "PadV2")
def pad(draw, op, types):
    x = draw.values(types["T"], draw.shape())
    inputs = {"input": x, "paddings": _paddings(draw, x.ndim, types["Tpaddings"])}
    if op == "PadV2":
        inputs["constant_values"] = draw.values(types["T"], ())
    return Arguments(fixed=["paddings"], **inputs)


@arguments("MirrorPad")
def mirror_pad(draw, op, types):
    x = draw.values(types["T"], draw.shape(empty=False))
    mode = draw.choice(["REFLECT", "SYMMETRIC"])
    limits = [d - 1 if mode == "REFLECT" else d for d in x.shape]
    paddings = index_array([[draw.integer(0, limit), draw.integer(0, limit)] for limit in limits], types["Tpaddings"])
    return Arguments({"mode": mode}, input=x, paddings=paddings.reshape((x.ndim, 2)), fixed=["paddings"])


@arguments("ReverseV2")
def reverse(draw, op, types):
    x = draw.values(types["T"], draw.shape())
    return Arguments(tensor=x, axis=index_array(draw.axes(x.ndim), types["Tidx"]), fixed=["axis"])


def _sides(draw, sizes, blocks):
    """Paddings before and after each dimension, so that blocks fit."""
    sides = []
    for size, block in zip(sizes, blocks):
        before = draw.integer(0, 2)
        sides.append([before, -(size + before) % block + block * draw.integer(0, 1)])
    return sides


def _cuts(draw, sizes):
    """Crops before and after each dimension, which leave something or nothing."""
    befores = [draw.integer(0, min(size, 2)) for size in sizes]
    return [[before, draw.integer(0, min(size - before, 2))] for size, before in zip(sizes, befores)]


@arguments("SpaceToBatchND", "SpaceToBatch")
def space_to_batch(draw, op, types):
    square = op == "SpaceToBatch"
    count = 2 if square else draw.integer(1, 3)
    blocks = [draw.integer(2, 3)] * 2 if square else [draw.integer(1, 3) for _ in range(count)]
    shape = draw.shape(4, 4) if square else draw.shape(count + 1, count + 2)
    inputs = {"input": draw.values(types["T"], shape),
              "paddings": index_array(_sides(draw, shape[1:], blocks), types["Tpaddings"])}
    if square:
        return Arguments({"block_size": blocks[0]}, fixed=["paddings"], **inputs)
    return Arguments(block_shape=index_array(blocks, types["Tblock_shape"]), fixed=["block_shape", "paddings"],
                     **inputs)


@arguments("BatchToSpaceND", "BatchToSpace")
def batch_to_space(draw, op, types):
    square = op == "BatchToSpace"
    count = 2 if square else draw.integer(1, 3)
    blocks = [draw.integer(2, 3)] * 2 if square else [draw.integer(1, 3) for _ in range(count)]
    shape = draw.shape(4, 4, max_dim=3) if square else draw.shape(count + 1, count + 2, max_dim=3)
    shape = (shape[0] * int(np.prod(blocks)),) + shape[1:]
    cuts = _cuts(draw, [size * block for size, block in zip(shape[1:], blocks)])
    inputs = {"input": draw.values(types["T"], shape),
              "crops": index_array(cuts, types["Tidx" if square else "Tcrops"])}
    if square:
        return Arguments({"block_size": blocks[0]}, fixed=["crops"], **inputs)
    return Arguments(block_shape=index_array(blocks, types["Tblock_shape"]), fixed=["block_shape", "crops"], **inputs)


@arguments("SpaceToDepth", "DepthToSpace")
def space_to_depth(draw, op, types):
    block = draw.integer(2, 3)
    b, h, w, c = draw.shape(4, 4, max_dim=3)
    shape = (b, h * block, w * block, c) if op == "SpaceToDepth" else (b, h, w, c * block * block)
    return Arguments({"block_size": block, "data_format": "NHWC"}, input=draw.values(types["T"], shape))


@arguments("MatrixBandPart")
def matrix_band_part(draw, op, types):
    x = draw.values(types["T"], draw.shape(min_rank=2))
    return Arguments(input=x, num_lower=index_array(draw.integer(-1, min(2, x.shape[-2])), types["Tindex"]),
                     num_upper=index_array(draw.integer(-1, min(2, x.shape[-1])), types["Tindex"]),
                     fixed=["num_lower", "num_upper"])
