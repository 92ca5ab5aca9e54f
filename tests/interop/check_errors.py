"""Bad indices, shapes that overflow, sparse tensors that do not fit: the same error class as TensorFlow's; and ops on
types that the random cases rarely meet. check_errors.py GRAPH_RUNNER FOLDER"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from graph_cases import GraphCase, check, close  # noqa: E402

r = tf.raw_ops
BIG = 2**62
MAX32 = 2**31 - 1


def const(values, dtype=None):
    """A constant that shape rules do not see, so that kernels find the error."""
    return tf.compat.v1.placeholder_with_default(tf.constant(values, dtype), None)


def index_cases():
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    for bad in (-1, 4, MAX32, -MAX32 - 1):
        for dtype in (tf.int32, tf.int64):
            i = lambda b=bad, d=dtype: const([0, b], d)
            at = lambda b=bad, d=dtype: const([[0, 0], [b, 1]], d)
            name = f"{bad} {dtype.name}"
            yield GraphCase(f"gather {name}", lambda i=i: r.Gather(params=const(x), indices=i()), message="is not in [0, 4)")
            yield GraphCase(f"gather_v2 {name}", lambda i=i: r.GatherV2(params=const(x), indices=i(), axis=const(0)),
                            message="is not in [0, 4)")
            yield GraphCase(f"gather_v2 axis 1 {name}", lambda i=i: r.GatherV2(params=const(x), indices=i(), axis=1))
            yield GraphCase(f"gather_nd {name}", lambda i=at: r.GatherNd(params=const(x), indices=i()))
            yield GraphCase(f"scatter_nd {name}", lambda i=at, d=dtype: r.ScatterNd(
                indices=i(), updates=const([1.0, 2.0]), shape=const([4, 3], d)))
            if bad >= 0:
                yield GraphCase(f"unsorted_segment_sum {name}", lambda i=i: r.UnsortedSegmentSum(
                    data=const(x[:2]), segment_ids=i(), num_segments=const(4)))
            yield GraphCase(f"sparse_to_dense {name}", lambda i=at, d=dtype: r.SparseToDense(
                sparse_indices=i(), output_shape=const([4, 3], d), sparse_values=const([1.0, 2.0]),
                default_value=const(0.0)), message="out of bounds")
            yield GraphCase(f"invert_permutation {name}", lambda i=i: r.InvertPermutation(x=i()))
    for axis in (2, -3, MAX32):
        yield GraphCase(f"gather_v2 axis {axis}", lambda a=axis: r.GatherV2(params=const(x), indices=const([0]), axis=const(a)))
        yield GraphCase(f"concat {axis}", lambda a=axis: r.ConcatV2(values=[const(x), const(x)], axis=const(a)))
        yield GraphCase(f"split {axis}", lambda a=axis: r.Split(axis=const(a), value=const(x), num_split=2))
        yield GraphCase(f"argmax {axis}", lambda a=axis: r.ArgMax(input=const(x), dimension=const(a)))
        yield GraphCase(f"cumsum {axis}", lambda a=axis: r.Cumsum(x=const(x), axis=const(a)))
        yield GraphCase(f"sum {axis}", lambda a=axis: r.Sum(input=const(x), axis=const([a])))
        yield GraphCase(f"reverse {axis}", lambda a=axis: r.ReverseV2(tensor=const(x), axis=const([a])))
    for begin, size in (([0, 0], [5, 1]), ([-1, 0], [1, 1]), ([4, 0], [1, 1]), ([0, 0], [-2, 1]), ([0, MAX32], [1, -1]),
                        ([1, 1], [MAX32, MAX32])):
        yield GraphCase(f"slice {begin} {size}", lambda b=begin, s=size: r.Slice(input=const(x), begin=const(b), size=const(s)))
    for begin, shrink in ((4, 1), (-5, 1), (MAX32, 1), (-MAX32 - 1, 1), (4, 0), (MAX32, 0)):
        yield GraphCase(f"strided_slice {begin} {shrink}", lambda b=begin, s=shrink: r.StridedSlice(
            input=const(x), begin=const([b]), end=const([MAX32]), strides=const([1]), shrink_axis_mask=s))
    yield GraphCase("strided_slice stride 0", lambda: r.StridedSlice(input=const(x), begin=const([0]), end=const([2]),
                                                                      strides=const([0])))
    yield GraphCase("strided_slice lengths", lambda: r.StridedSlice(input=const(x), begin=const([0]), end=const([2, 2]),
                                                                     strides=const([1])))
    yield GraphCase("segment_sum order", lambda: r.SegmentSum(data=const(x), segment_ids=const([0, 1, 0, 2])))
    yield GraphCase("segment_sum length", lambda: r.SegmentSum(data=const(x), segment_ids=const([0, 1])))
    yield GraphCase("dynamic_partition", lambda: list(r.DynamicPartition(data=const(x), partitions=const([0, 1, 2, 0]),
                                                                         num_partitions=2)))
    yield GraphCase("dynamic_stitch", lambda: r.DynamicStitch(indices=[const([0, -1])], data=[const([1.0, 2.0])]))
    yield GraphCase("transpose", lambda: r.Transpose(x=const(x), perm=const([0, 2])))
    yield GraphCase("transpose twice", lambda: r.Transpose(x=const(x), perm=const([0, 0])))


def overflow_cases():
    one = np.ones([1], np.float32)
    for dtype in (tf.int32, tf.int64):
        huge = [MAX32] * 3 if dtype == tf.int32 else [BIG, 4]
        shape = lambda h=huge, d=dtype: const(h, d)
        yield GraphCase(f"reshape {dtype.name}", lambda s=shape: r.Reshape(tensor=const(one), shape=s()))
        yield GraphCase(f"fill {dtype.name}", lambda s=shape: r.Fill(dims=s(), value=const(1.0)))
        yield GraphCase(f"broadcast_to {dtype.name}", lambda s=shape: r.BroadcastTo(input=const(one), shape=s()))
        yield GraphCase(f"tile {dtype.name}", lambda s=shape, n=len(huge): r.Tile(input=const(np.ones([2] * n, np.float32)),
                                                                                  multiples=s()))
        yield GraphCase(f"scatter_nd shape {dtype.name}", lambda s=shape, d=dtype: r.ScatterNd(
            indices=const([[0]], d), updates=const(np.ones([1], np.float32)), shape=s()))
        yield GraphCase(f"fill negative {dtype.name}", lambda d=dtype: r.Fill(dims=const([2, -1], d), value=const(1.0)))
        yield GraphCase(f"reshape two holes {dtype.name}", lambda d=dtype: r.Reshape(tensor=const(one), shape=const([-1, -1], d)))
        yield GraphCase(f"reshape -2 {dtype.name}", lambda d=dtype: r.Reshape(tensor=const(one), shape=const([-2], d)))
        yield GraphCase(f"tile negative {dtype.name}", lambda d=dtype: r.Tile(input=const(one), multiples=const([-1], d)))
        yield GraphCase(f"broadcast_to smaller {dtype.name}", lambda d=dtype: r.BroadcastTo(
            input=const(np.ones([2], np.float32)), shape=const([3], d)))
    yield GraphCase("range 0", lambda: r.Range(start=const(0), limit=const(5), delta=const(0)))
    yield GraphCase("range wrong way", lambda: r.Range(start=const(0), limit=const(5), delta=const(-1)))
    yield GraphCase("range float", lambda: r.Range(start=const(0.0), limit=const(1e38), delta=const(1e-30)))
    yield GraphCase("reshape count", lambda: r.Reshape(tensor=const(np.ones([6], np.float32)), shape=const([4])),
                    message="Input to reshape is a tensor with 6 values, but the requested shape has 4")
    yield GraphCase("one_hot depth", lambda: r.OneHot(indices=const([0]), depth=const(-1), on_value=const(1.0),
                                                      off_value=const(0.0)))


def sparse_cases():
    def dense(indices, shape, values, default=0.0, **k):
        return lambda: r.SparseToDense(sparse_indices=const(indices), output_shape=const(shape, tf.int32),
                                       sparse_values=const(values), default_value=const(default), **k)

    yield GraphCase("sparse", dense([[0, 1], [1, 0]], [2, 3], [1.0, 2.0], -1.0))
    yield GraphCase("sparse vector", dense([1, 3], [5], [1.0, 2.0]))
    yield GraphCase("sparse scalar", dense(2, [5], 7.0))
    yield GraphCase("sparse one value", dense([[0, 1], [1, 0]], [2, 3], 5.0))
    yield GraphCase("sparse strings", dense([1, 3], [5], ["a", "b"], "-"))
    yield GraphCase("sparse none", dense(np.zeros([0, 2], np.int32), [2, 2], np.zeros([0], np.float32), 4.0))
    yield GraphCase("sparse order", dense([3, 1], [5], [1.0, 2.0]), message="out of order")
    yield GraphCase("sparse repeated", dense([1, 1], [5], [1.0, 2.0]), message="is repeated")
    yield GraphCase("sparse unchecked", dense([3, 1, 3], [5], [1.0, 2.0, 4.0], validate_indices=False))
    yield GraphCase("sparse unchecked bounds", dense([3, 5], [5], [1.0, 2.0], validate_indices=False))
    yield GraphCase("sparse depth", dense([[0, 1]], [2, 3, 4], [1.0]), message="output_shape has incorrect number of elements")
    yield GraphCase("sparse values", dense([1, 3], [5], [1.0]), message="sparse_values has incorrect shape")
    yield GraphCase("sparse cube", dense([[[1]]], [5], [1.0]), message="sparse_indices should be a scalar, vector, or matrix")
    yield GraphCase("sparse default", dense([1], [5], [1.0], [1.0, 2.0]), message="default_value should be a scalar")
    yield GraphCase("sparse shape", dense([1], [[5]], [1.0]))
    yield GraphCase("sparse negative shape", dense([1], [-5], [1.0]))


def type_cases():
    yield GraphCase("add strings", lambda: r.Add(x=const([["a"], ["b"]]), y=const(["x", "y", "z"])))
    yield GraphCase("scatter_nd strings", lambda: r.ScatterNd(indices=const([[1], [3], [1]]), updates=const(["a", "b", "c"]),
                                                              shape=const([4])))
    yield GraphCase("scatter_nd bools", lambda: r.ScatterNd(indices=const([[1], [3], [1]]),
                                                            updates=const([True, False, False]), shape=const([4])))
    for dtype in (np.complex64, np.complex128):
        z = (np.arange(12).reshape(3, 4) * (1 + 0.5j) - 3).astype(dtype)
        yield GraphCase(f"norm {dtype.__name__}", lambda z=z: r.EuclideanNorm(input=const(z), axis=const([1])),
                        compare=close(1e-6))
    for dtype in (tf.qint8, tf.quint8, tf.qint16, tf.quint16, tf.qint32):
        for op in (r.Equal, r.NotEqual):
            cast = lambda v, d=dtype: r.Bitcast(input=const(v, {tf.qint8: tf.int8, tf.quint8: tf.uint8, tf.qint16: tf.int16,
                                                               tf.quint16: tf.uint16, tf.qint32: tf.int32}[d]), type=d)
            yield GraphCase(f"{op.__name__} {dtype.name}", lambda o=op, c=cast: o(x=c([1, 2, 3]), y=c([1, 5, 3])))
    for dtype in ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
                  "uint32", "uint64", "complex64", "complex128"):
        x = np.array([[1, 2, 3], [4, 5, 6], [2, 1, 2]]).astype(tf.as_dtype(dtype).as_numpy_dtype)
        for exclusive in (False, True):
            for reverse in (False, True):
                yield GraphCase(f"cumprod {dtype} {exclusive} {reverse}", lambda v=x, e=exclusive, b=reverse: r.Cumprod(
                    x=const(v), axis=const(0), exclusive=e, reverse=b), compare=close(1e-6))
        if "complex" not in dtype:
            yield GraphCase(f"list_diff {dtype}", lambda v=x: list(r.ListDiff(x=const(v.ravel()), y=const(v[2]))))
    yield GraphCase("cumprod empty", lambda: r.Cumprod(x=const(np.zeros([0, 2], np.float32)), axis=const(0)))
    yield GraphCase("list_diff strings", lambda: list(r.ListDiff(x=const(["a", "b", "a", "c"]), y=const(["b"]),
                                                                 out_idx=tf.int64)))
    yield GraphCase("list_diff empty", lambda: list(r.ListDiff(x=const([1, 2]), y=const(np.zeros([0], np.int32)))))
    yield GraphCase("list_diff matrix", lambda: list(r.ListDiff(x=const([[1]]), y=const([1]))))
    yield GraphCase("list_diff nan", lambda: list(r.ListDiff(x=const([float("nan"), 0.0]), y=const([float("nan"), -0.0]))))
    for value in (np.arange(6.0).reshape(2, 3), 1, True):
        yield GraphCase(f"deep_copy {np.shape(value)}", lambda v=value: r.DeepCopy(x=const(v)))


def cases():
    for family in (index_cases, overflow_cases, sparse_cases, type_cases):
        yield from family()


if __name__ == "__main__":
    tf.get_logger().setLevel("ERROR")
    tf.compat.v1.disable_v2_behavior()
    sys.exit(check(list(cases()), sys.argv[1], sys.argv[2], "errors and rare types"))
