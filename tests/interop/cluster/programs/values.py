"""Values of every kind go to a task, to another, and back."""
import ml_dtypes
import numpy as np
import tensorflow.compat.v1 as tf

from programs import check
from registry import program

NUMBERS = (tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16,
           tf.uint32, tf.uint64, tf.bool, tf.complex64, tf.complex128)
# Types with fewer than eight bits, or of eight that are floats: clients know them and compute little with them.
SMALL = tuple(tf.as_dtype(name) for name in ("float8_e5m2", "float8_e4m3fn", "int4", "uint4"))
QUANTISED = (tf.qint8, tf.quint8, tf.qint16, tf.quint16, tf.qint32)
SHAPES = ((), (0,), (1,), (7,), (2, 3), (2, 0, 3), (1, 1, 1, 1, 1, 1), (3, 5, 4))


def draw(dtype, shape, rng):
    size = int(np.prod(shape))
    if dtype in (tf.bool,):
        return rng.integers(0, 2, size).astype(bool).reshape(shape)
    if dtype in QUANTISED:
        return rng.integers(0, 100, size).astype(dtype.as_numpy_dtype).reshape(shape)
    if dtype.is_complex:
        return (rng.normal(size=size) + 1j * rng.normal(size=size)).astype(dtype.as_numpy_dtype).reshape(shape)
    if dtype.is_floating:
        values = rng.normal(0, 100, size)
        values[:3] = (np.inf, -0.0, np.nan)[:size]
        return values.astype(dtype.as_numpy_dtype).reshape(shape)
    info = ml_dtypes.iinfo(dtype.as_numpy_dtype)
    wide = np.int8 if dtype in SMALL else dtype.as_numpy_dtype
    values = rng.integers(info.min, info.max, size, dtype=wide, endpoint=True).astype(dtype.as_numpy_dtype)
    values[:2] = (info.min, info.max)[:size]
    return values.reshape(shape)


def across(dtype, shape=None):
    """A placeholder on a worker whose value is passed on by a parameter server and another worker."""
    with tf.device("/job:worker/task:0"):
        fed = tf.placeholder(dtype, shape)
    with tf.device("/job:ps/task:1"):
        there = tf.identity(fed)
    with tf.device("/job:worker/task:1"):
        back = tf.identity(there)
    return fed, there, back


def there_and_back(cluster, dtypes):
    rng = np.random.default_rng(5)
    paths = {dtype: across(dtype) for dtype in dtypes}
    with tf.Session(cluster.target()) as sess:
        for dtype, (fed, there, back) in paths.items():
            for shape in SHAPES:
                value = draw(dtype, shape, rng)
                # The client feeds quantised values as records of one field and fetches the field.
                want = value[value.dtype.names[0]] if value.dtype.names else value
                for got in sess.run([there, back], {fed: value}):
                    check.equal(got, want, f"{dtype.name} {shape}")


@program
def values_numbers(cluster):
    """Feeds and fetches of every number type: scalars, empty ones, several ranks, infinities, extremes."""
    there_and_back(cluster, NUMBERS)


@program
def values_small(cluster):
    """Feeds and fetches of floats of eight bits and integers of four."""
    there_and_back(cluster, SMALL)


@program
def values_quantised(cluster):
    """Feeds and fetches of the quantised types."""
    there_and_back(cluster, QUANTISED)


@program
def values_many_types_in_one_step(cluster):
    """One step feeds and fetches all types at once, twice in one fetch list and nested."""
    rng = np.random.default_rng(6)
    paths = [across(dtype) for dtype in NUMBERS]
    values = [draw(dtype, (3, 2), rng) for dtype in NUMBERS]
    feeds = {fed: value for (fed, _, _), value in zip(paths, values)}
    with tf.Session(cluster.target()) as sess:
        got = sess.run({"there": [p[1] for p in paths], "back": ([p[2] for p in paths], [p[1] for p in paths])}, feeds)
    for part in (got["there"], *got["back"]):
        for value, want, dtype in zip(part, values, NUMBERS):
            check.equal(value, want, dtype.name)


@program
def values_constants(cluster):
    """Constants of every type in the graph, also compressed ones (all elements equal)."""
    rng = np.random.default_rng(7)
    wanted, fetched = [], []
    with tf.device("/job:ps/task:0"):
        for dtype in NUMBERS:
            values = [draw(dtype, shape, rng) for shape in SHAPES] + [np.ones((40, 5), dtype.as_numpy_dtype)]
            wanted += values
            fetched += [tf.constant(value, dtype) for value in values]
        wanted += [np.array([b"a", b"b\0c", b""], object)]
        fetched += [tf.constant([b"a", b"b\0c", b""])]
    with tf.device("/job:worker/task:2"):
        moved = [tf.identity(t) for t in fetched]
    with tf.Session(cluster.target()) as sess:
        for got, want, tensor in zip(sess.run(moved), wanted, fetched):
            check.equal(got, want, str(tensor))


@program
def values_strings(cluster):
    """String tensors with NUL, empty, long and many, through three tasks."""
    fed, there, back = across(tf.string)
    cases = [np.array(b"one", object), np.array([], object).reshape(0),
             np.array([[b"", b"\0"], [b"a\0b", b"\xff\xfe"]], object),
             np.array(["grüße".encode(), b"x" * (1 << 20)], object),
             np.array([str(i).encode() * (i % 50) for i in range(20000)], object)]
    with tf.device("/job:worker/task:2"):
        joined = tf.strings.join([fed, back], separator="-")
        lengths = tf.strings.length(back)
    with tf.Session(cluster.target()) as sess:
        for value in cases:
            got, moved, both, sizes = sess.run([there, back, joined, lengths], {fed: value})
            flat = [s for s in value.reshape(-1)]
            check.that(np.asarray(got, object).reshape(-1).tolist() == flat, "strings on the way")
            check.that(np.asarray(moved, object).reshape(-1).tolist() == flat, "strings back")
            check.that(np.asarray(both, object).reshape(-1).tolist() == [s + b"-" + s for s in flat], "joined")
            check.equal(sizes, np.array([len(s) for s in flat], np.int32).reshape(value.shape))


@program
def values_variants(cluster):
    """Tensor lists, lists in a list and optionals made on one task and used on others."""
    raw = tf.raw_ops
    rng = np.random.default_rng(9)
    rows = rng.normal(size=(5, 20_000)).astype(np.float32)
    any_shape = -1
    with tf.device("/job:ps/task:0"):
        fed = tf.placeholder(tf.float32, [5, 20_000])
        made = raw.TensorListFromTensor(tensor=fed, element_shape=[20_000])
        some = raw.TensorListSetItem(
            input_handle=raw.TensorListReserve(element_shape=[2], num_elements=3, element_dtype=tf.int64), index=1,
            item=tf.constant([5, -6], tf.int64))
        words = raw.OptionalFromValue(components=[tf.constant(["a", "", "c\0c"]), made])
        none = raw.OptionalNone()
    with tf.device("/job:worker/task:1"):
        pushed = raw.TensorListPushBack(input_handle=made, tensor=tf.ones([20_000]))
        lists = raw.TensorListSetItem(
            input_handle=raw.TensorListReserve(element_shape=any_shape, num_elements=2, element_dtype=tf.variant),
            index=1, item=pushed)
        set_ones = raw.TensorListStack(input_handle=some, element_shape=[2], element_dtype=tf.int64)
        has = [raw.OptionalHasValue(optional=words), raw.OptionalHasValue(optional=none)]
    with tf.device("/job:worker/task:0"):
        text, there = raw.OptionalGetValue(optional=words, output_types=[tf.string, tf.variant],
                                           output_shapes=[[3], []])
        length = raw.TensorListLength(input_handle=there)
    with tf.device("/job:ps/task:1"):
        inner = raw.TensorListGetItem(input_handle=lists, index=1, element_shape=any_shape, element_dtype=tf.variant)
        stacked = raw.TensorListStack(input_handle=inner, element_shape=[20_000], element_dtype=tf.float32)
    with tf.Session(cluster.target()) as sess:
        for _ in range(3):
            got = sess.run([stacked, set_ones, has, text, length], {fed: rows})
            check.equal(got[0], np.concatenate([rows, np.ones((1, 20_000), np.float32)]), "the list in a list")
            check.equal(got[1], np.array([[0, 0], [5, -6], [0, 0]]), "items that were never set")
            check.equal(np.array(got[2]), np.array([True, False]), "optionals")
            check.equal(got[3], np.array([b"a", b"", b"c\0c"], object), "words of an optional")
            check.equal(got[4], np.int32(5), "the list of an optional")


@program(timeout=120)
def values_large(cluster):
    """10 MB and 100 MB fed, moved between tasks and fetched."""
    fed, _, back = across(tf.float32)
    with tf.Session(cluster.target()) as sess:
        for megabytes in (10, 100):
            value = np.random.default_rng(8).random(megabytes << 18, np.float32)
            check.equal(sess.run(back, {fed: value}), value, f"{megabytes} MB")


@program(timeout=120)
def values_large_constant(cluster):
    """A graph with a 64 MB constant."""
    value = np.random.default_rng(8).random(64 << 18, np.float32)
    with tf.device("/job:ps/task:0"):
        constant = tf.constant(value)
    with tf.device("/job:worker/task:1"):
        total = tf.reduce_max(constant)
    with tf.Session(cluster.target()) as sess:
        check.equal(sess.run(total), value.max())


@program
def values_many_small(cluster):
    """500 tensors between each two of three tasks in one step."""
    with tf.device("/job:ps/task:0"):
        sources = [tf.constant(float(i)) for i in range(500)]
    with tf.device("/job:worker/task:0"):
        doubled = [2 * s for s in sources]
    with tf.device("/job:ps/task:1"):
        more = [d + 1 for d in doubled]
    with tf.device("/job:worker/task:1"):
        total = tf.add_n(more)
    with tf.Session(cluster.target()) as sess:
        for _ in range(5):
            check.equal(sess.run(total), np.float32(500 * 499 + 500))


@program
def values_feed_inner(cluster):
    """Feeding a tensor in the middle of the graph and a variable's read; the nodes above it do not run."""
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("v", initializer=tf.ones([2]), use_resource=True)
        broken = tf.check_numerics(tf.constant([np.nan, 1.0]), "not to be run")
    with tf.device("/job:worker/task:1"):
        out = broken * 2 + v
    with tf.Session(cluster.target()) as sess:
        sess.run(v.initializer)
        check.equal(sess.run(out, {broken: [1.0, 2.0]}), np.array([3, 5], np.float32))


@program
def values_sparse(cluster):
    """Sparse tensors fed and fetched, sparse products on another task."""
    with tf.device("/job:worker/task:0"):
        fed = tf.sparse_placeholder(tf.float32, [3, 4])
    with tf.device("/job:ps/task:0"):
        product = tf.sparse_tensor_dense_matmul(fed, tf.ones([4, 2]))
        doubled = tf.SparseTensor(fed.indices, fed.values * 2, fed.dense_shape)
        dense = tf.sparse.to_dense(doubled)
    value = tf.SparseTensorValue(np.array([[0, 1], [2, 3]], np.int64), np.array([5, 7], np.float32),
                                 np.array([3, 4], np.int64))
    with tf.Session(cluster.target()) as sess:
        got = sess.run([product, doubled, dense], {fed: value})
    check.equal(got[0], np.array([[5, 5], [0, 0], [7, 7]], np.float32))
    check.equal(got[1].indices, value.indices)
    check.equal(got[1].values, value.values * 2)
    check.equal(got[2][[0, 2], [1, 3]], value.values * 2)
