"""Scripts for what cannot be compared op by op: queues, accumulators, tables, and every optimiser update."""
import contextlib
import os

import numpy as np
import tensorflow as tf

from script import Script, tf1

R = tf.raw_ops
INVALID, OUT_OF_RANGE, CANCELLED, FAILED, UNIMPLEMENTED, ABORTED = 3, 11, 1, 9, 12, 10


@contextlib.contextmanager
def script(name, tolerance=0.0):
    with tf.Graph().as_default():
        yield Script(name, tolerance)


def open_value(dtype=tf.float32):
    return tf1.placeholder(dtype, shape=None)


class Queue:
    def __init__(self, kind, v2, types, **attrs):
        self.v = "V2" if v2 else ""
        self.types = ([tf.int64] if kind == "PriorityQueue" else []) + types
        self.handle = getattr(R, kind + self.v)(component_types=types, shared_name="q", **attrs)
        self.inputs = [open_value(t) for t in self.types]
        self.n = open_value(tf.int32)
        op = lambda name, **kw: getattr(R, name + self.v)(handle=self.handle, **kw)
        self.enqueue = op("QueueEnqueue", components=self.inputs)
        self.enqueue_many = op("QueueEnqueueMany", components=self.inputs)
        self.dequeue = list(op("QueueDequeue", component_types=self.types))
        self.many = list(op("QueueDequeueMany", n=self.n, component_types=self.types))
        self.up_to = list(op("QueueDequeueUpTo", n=self.n, component_types=self.types))
        self.size, self.is_closed = op("QueueSize"), op("QueueIsClosed")
        self.close = op("QueueClose")
        self.abort = op("QueueClose", cancel_pending_enqueues=True)

    def feed(self, *values):
        return dict(zip(self.inputs, values))


def row_of(q, i):
    """A tuple whose parts depend on i: [priority,] a pair, a word."""
    tail = (np.array([i, -i], np.float32), f"item {i}")
    return q.feed(*((np.int64(7 * i % 5), *tail) if len(q.types) == 3 else tail))


def queue_scripts():
    kinds = {"FIFOQueue": {}, "RandomShuffleQueue": dict(seed=11, seed2=5, min_after_dequeue=2), "PaddingFIFOQueue": {},
             "PriorityQueue": {}}
    for kind, attrs in kinds.items():
        for v2 in (False, True):
            with script(f"queue_{kind}_{'v2' if v2 else 'v1'}") as s:
                q = Queue(kind, v2, [tf.float32, tf.string], shapes=[[2], []], capacity=8, **attrs)
                for i in range(5):
                    s.run(q.enqueue, row_of(q, i))
                s.run([q.size, q.is_closed])
                s.run(q.dequeue)
                s.run(q.many, {q.n: 2})
                batch = [np.arange(6, dtype=np.float32).reshape(3, 2), np.array(["x", "y", "z"])]
                s.run(q.enqueue_many, q.feed(*(([np.array([8, -3, 4])] if len(q.types) == 3 else []) + batch)))
                s.run(q.many, {q.n: -1}, expect=INVALID)
                s.run(q.many, {q.n: 0})
                s.run(q.enqueue, {**row_of(q, 1), q.inputs[-2]: np.zeros(3, np.float32)}, expect=INVALID)
                s.start("waiter", q.many, {q.n: 8})
                s.run(q.close)
                # How much of it the waiter had taken already shows in TensorFlow's text.
                s.wait("waiter", message=False, expect=OUT_OF_RANGE)
                s.run(q.enqueue, row_of(q, 9), expect=CANCELLED, message=kind != "PaddingFIFOQueue")
                s.run(q.is_closed)
                # Putting back what a waiter took changes the order of one; TensorFlow loses it in the other.
                if kind in ("FIFOQueue", "PaddingFIFOQueue"):
                    s.run(q.up_to, {q.n: 4})
                    s.run(q.up_to, {q.n: 4})
                    s.run(q.up_to, {q.n: 4}, expect=OUT_OF_RANGE)
                    s.run(q.dequeue, expect=OUT_OF_RANGE, message=kind != "PaddingFIFOQueue")
                yield s
    with script("queue_waiters") as s:
        q = Queue("FIFOQueue", True, [tf.float32], shapes=[[]], capacity=1)
        s.start("first", q.dequeue)
        s.start("second", q.dequeue)
        s.run(q.enqueue, q.feed(1.0))
        s.wait("first")
        s.run(q.enqueue, q.feed(2.0))
        s.wait("second")
        s.run(q.enqueue, q.feed(3.0))
        s.start("full", q.enqueue, q.feed(4.0))
        s.start("close", q.close)
        s.run(q.dequeue)
        s.wait("full")
        s.wait("close")
        s.run(q.dequeue)
        s.run(q.dequeue, expect=OUT_OF_RANGE)
        yield s
    with script("queue_cancel_pending") as s:
        q = Queue("FIFOQueue", True, [tf.float32], shapes=[[]], capacity=1)
        s.run(q.enqueue, q.feed(3.0))
        s.start("full", q.enqueue, q.feed(4.0))
        s.run(q.abort)
        s.wait("full", expect=CANCELLED)
        s.run(q.dequeue)
        yield s
    with script("queue_padding") as s:
        q = Queue("PaddingFIFOQueue", True, [tf.float32, tf.string], shapes=[[None, 2], [None]])
        for n in (1, 3, 0):
            s.run(q.enqueue, q.feed(np.ones([n, 2], np.float32) * n, np.array(["w"] * (n + 1))))
        s.run(q.many, {q.n: 3})
        s.run(q.many, {q.n: 0})
        s.run(q.enqueue, q.feed(np.ones([1, 3], np.float32), np.array(["w"])), expect=INVALID)
        s.run(q.enqueue_many, q.feed(np.ones([4, 1, 3], np.float32), np.array([["w"]] * 4)), expect=INVALID)
        yield s
    with script("queue_attributes") as s:
        base = dict(component_types=[tf.float32, tf.int32], shapes=[[2], []], capacity=3, shared_name="q")
        size = lambda kind, **other: R.QueueSizeV2(handle=getattr(R, kind)(**{**base, **other}))
        s.run(size("FIFOQueueV2"))
        s.run(size("FIFOQueueV2", component_types=[tf.float32, tf.float32]), expect=INVALID)
        s.run(size("FIFOQueueV2", shapes=[[2], [1]]), expect=INVALID)
        s.run(size("FIFOQueueV2", capacity=4), expect=INVALID)
        s.run(size("RandomShuffleQueueV2"), expect=INVALID)
        s.run(size("RandomShuffleQueueV2", shared_name="r", seed=1))
        s.run(size("RandomShuffleQueueV2", shared_name="r", seed=2), expect=INVALID)
        s.run(size("RandomShuffleQueueV2", shared_name="r", seed=1, min_after_dequeue=1), expect=INVALID)
        s.run(size("RandomShuffleQueueV2", shared_name="t", min_after_dequeue=3), expect=INVALID)
        s.run(size("RandomShuffleQueueV2", shared_name="t", min_after_dequeue=-1), expect=INVALID)
        s.run(size("FIFOQueueV2", shared_name="u", shapes=[[2]]), expect=INVALID)
        s.run(size("FIFOQueueV2", shared_name="u", shapes=[[2], [None]]), expect=INVALID)
        s.run(size("PaddingFIFOQueueV2", shared_name="u", shapes=[]), expect=INVALID)
        s.run(size("PaddingFIFOQueueV2", shared_name="u", shapes=[[2], None]), expect=INVALID)
        q = R.FIFOQueueV2(**base)
        s.run(R.QueueDequeueV2(handle=q, component_types=[tf.int32]), expect=INVALID)
        s.run(R.QueueEnqueueV2(handle=q, components=[1.0]), expect=INVALID)
        s.run(tf.identity(R.FIFOQueue(component_types=[tf.float32], shared_name="old")))
        yield s


def accumulator_scripts():
    for resource in (False, True):
        for dtype in (tf.float32, tf.float64, tf.float16):
            for reduction in ("MEAN", "SUM"):
                prefix = "Resource" if resource else ""
                name = f"accumulator_{'resource' if resource else 'ref'}_{dtype.name}_{reduction.lower()}"
                with script(name, 1e-3 if dtype == tf.float16 else 1e-6) as s:
                    h = getattr(R, prefix + "ConditionalAccumulator")(dtype=dtype, shape=[3], reduction_type=reduction)
                    g, step, n = open_value(dtype), open_value(tf.int64), open_value(tf.int32)
                    op = lambda name, **kw: getattr(R, prefix + name)(handle=h, **kw)
                    apply = op("AccumulatorApplyGradient", local_step=step, gradient=g)
                    take = op("AccumulatorTakeGradient", num_required=n, dtype=dtype)
                    count = op("AccumulatorNumAccumulated")
                    new_step = op("AccumulatorSetGlobalStep", new_global_step=step)
                    value = lambda k: np.array([k, 0.1 * k, -k], dtype.as_numpy_dtype)
                    for k in range(1, 4):
                        s.run(apply, {g: value(k), step: k - 1})
                    s.run(count)
                    s.run(take, {n: 2})
                    s.run(apply, {g: value(5), step: 0})  # stale
                    s.run(apply, {g: np.zeros([7], dtype.as_numpy_dtype), step: 0})  # stale, whatever its shape
                    s.run(apply, {g: np.zeros([7], dtype.as_numpy_dtype), step: 1}, expect=INVALID)
                    s.run(count)
                    s.run(take, {n: 0}, expect=INVALID)
                    s.start("two", take, {n: 2})
                    s.start("one", take, {n: 1})
                    s.run(apply, {g: value(1), step: 1})
                    s.run(apply, {g: value(2), step: 1})
                    s.wait("two")
                    s.run(apply, {g: value(3), step: 1})  # stale again
                    s.run(apply, {g: value(4), step: 2})
                    s.wait("one")
                    s.run(new_step, {step: 10})
                    s.run(apply, {g: value(4), step: 9})
                    s.run(count)
                    s.run(new_step, {step: 3})
                    s.run(apply, {g: value(4), step: 9})
                    s.run(take, {n: 1})
                    yield s
    for shape, known, reduction in (([5, 2], True, "MEAN"), (None, False, "MEAN"), ([None, 2], True, "SUM"),
                                    ([5, 2], False, "SUM")):
        for dtype in (tf.float32, tf.float64):
            label = f"{'unknown' if shape is None else 'x'.join(map(str, shape))}_{known}_{reduction.lower()}"
            with script(f"accumulator_sparse_{label}_{dtype.name}", 1e-6) as s:
                h = R.SparseConditionalAccumulator(dtype=dtype, shape=shape, reduction_type=reduction)
                i, v, dense = open_value(tf.int64), open_value(dtype), open_value(tf.int64)
                step, n = open_value(tf.int64), open_value(tf.int32)
                apply = R.SparseAccumulatorApplyGradient(handle=h, local_step=step, gradient_indices=i,
                                                         gradient_values=v, gradient_shape=dense, has_known_shape=known)
                take = list(R.SparseAccumulatorTakeGradient(handle=h, num_required=n, dtype=dtype))
                count = R.AccumulatorNumAccumulated(handle=h)

                def put(rows, values, dense_shape=(5, 2), at=100, **kw):
                    s.run(apply, {i: np.array(rows, np.int64), v: np.array(values, dtype.as_numpy_dtype),
                                  dense: np.array(dense_shape, np.int64), step: at}, **kw)

                put([0, 3], [[1, 2], [3, 4]])
                put([3, 4], [[10, 20], [30, 40]])
                put([0, 1, 3], [[1, 1], [2, 2], [3, 3]])
                s.run(count)
                s.run(take, {n: 2})
                put([3, 1, 1], [[1, 2], [3, 4], [5, 6]])
                put([1, 2], [[10, 20], [30, 40]])
                s.run(take, {n: 2})
                put([0], [[1, 2]], at=1)  # stale
                put([], np.zeros([0, 2]))
                s.run(take, {n: 1})
                bad = INVALID if shape is not None else None
                if shape is not None:
                    put([0], [[1, 2, 3]], expect=bad)
                    put([0], [1], expect=bad)
                    if shape[0] is not None:
                        put([9], [[1, 2]], expect=bad)
                    if known:
                        put([0], [[1, 2]], dense_shape=(5,), expect=bad)
                        put([0], [[1, 2]], dense_shape=(5, 3), expect=bad)
                put([0], [[1, 2]])
                put([0], [[1, 2, 3]], expect=INVALID)
                put([0], [[[1, 2]]], expect=INVALID)
                put([0, 1], [[1, 2]], expect=INVALID)
                s.start("more", take, {n: 2})
                put([2], [[1, 2]])
                s.wait("more")
                yield s


class Table:
    def __init__(self, s, handle, key, value, v2=True):
        self.s, self.k, self.d = s, open_value(key), open_value(value)
        op = lambda name, **kw: getattr(R, name + ("V2" if v2 else ""))(table_handle=handle, **kw)
        self.ops = {"find": op("LookupTableFind", keys=self.k, default_value=self.d),
                    "insert": op("LookupTableInsert", keys=self.k, values=self.d),
                    "import": op("LookupTableImport", keys=self.k, values=self.d),
                    "export": list(op("LookupTableExport", Tkeys=key, Tvalues=value)),
                    "size": op("LookupTableSize"), "init": op("InitializeTable", keys=self.k, values=self.d)}
        if v2:
            self.ops["remove"] = R.LookupTableRemoveV2(table_handle=handle, keys=self.k)

    def __call__(self, op, keys=None, values=None, expect=None, message=True):
        as_array = lambda v, t: np.asarray(v, dtype=object if t.dtype == tf.string else t.dtype.as_numpy_dtype)
        feeds = {}
        if keys is not None:
            feeds[self.k] = as_array(keys, self.k)
        if values is not None:
            feeds[self.d] = as_array(values, self.d)
        self.s.run(self.ops[op], feeds, unordered=op == "export", expect=expect, message=message)


def table_scripts():
    for v2 in (False, True):
        v = "V2" if v2 else ""
        with script(f"table_hash_{'v2' if v2 else 'v1'}") as s:
            t = Table(s, getattr(R, "HashTable" + v)(key_dtype=tf.string, value_dtype=tf.int64), tf.string, tf.int64, v2)
            t("size")
            t("find", ["a"], -1, expect=FAILED)
            t("export", expect=ABORTED)
            t("insert", ["a"], [1], expect=UNIMPLEMENTED)
            if v2:
                t("remove", ["a"], expect=UNIMPLEMENTED)
            t("init", ["a", "b"], [1], expect=INVALID)
            t("init", [["a", "b"]], [[1, 2]], expect=INVALID)
            t("init", ["a", "b"], 1, expect=INVALID)
            t("init", [], [], expect=INVALID)
            t("init", ["a", "b", "a"], [1, 2, 3], expect=FAILED)
            t("find", ["a"], -1, expect=FAILED)
            t("init", ["a", "b", "c"], [1, 2, 3])
            t("size")
            t("find", [["a", "b"], ["z", "a"]], -1)
            t("find", "c", -1)
            t("find", [], -1)
            t("find", ["a"], [-1, 2], expect=INVALID)
            t("export")
            t("init", ["a", "b", "c"], [1, 2, 3])
            t("init", ["a", "d"], [1, 2], expect=FAILED)
            t("size")
            yield s
        with script(f"table_mutable_{'v2' if v2 else 'v1'}") as s:
            handle = getattr(R, "MutableHashTable" + v)(key_dtype=tf.int64, value_dtype=tf.float32)
            t = Table(s, handle, tf.int64, tf.float32, v2)
            t("find", [1, 2], -1)
            t("insert", [1, 2], [10, 20])
            t("insert", [2], [25])
            t("find", [[1, 2], [3, 1]], -1)
            t("find", [1, 2, 3], [7, 8, 9])
            t("find", [1, 2, 3], [7], expect=INVALID)
            t("export")
            if v2:
                t("remove", [1, 9])
            t("size")
            t("import", [5, 6], [50, 60])
            t("export")
            t("insert", [1, 2], [1], expect=INVALID)
            t("insert", [[1, 2]], [[3, 4]])
            t("insert", 5, 2)
            t("size")
            t("export")
            t("init", [1], [2], expect=INVALID, message=False)
            yield s
        with script(f"table_tensors_{'v2' if v2 else 'v1'}") as s:
            handle = getattr(R, "MutableHashTableOfTensors" + v)(key_dtype=tf.string, value_dtype=tf.float32,
                                                                 value_shape=[2])
            t = Table(s, handle, tf.string, tf.float32, v2)
            t("insert", ["p", "q"], [[1, 2], [3, 4]])
            t("find", ["p", "r"], [-1, -2])
            t("find", [["p"], ["r"]], [-1, -2])
            t("find", ["p", "r"], [[-1, -2], [-3, -4]])
            t("find", ["p"], 0, expect=INVALID)
            t("insert", ["p"], [1, 2], expect=INVALID)
            t("insert", ["p"], [[1, 2, 3]], expect=INVALID)
            t("export")
            t("import", ["n"], [[8, 9]])
            t("export")
            yield s
    dense_cases = {
        "scalar": (tf.int64, 0, -1, [11, 12, 13], [14, 15], [11, 99]),
        "vector": (tf.int64, [0, 0], [-1, -1], [[1, 2], [3, 4], [-1, 5]], [[7, 7], [1, 2]], [[3, 4], [9, 9]]),
        "string": (tf.string, "", "$", ["apple", "banana", "a much longer key of text"], ["x", "apple"], ["x", "none"]),
    }
    for name, (dtype, empty, deleted, first, second, wanted) in dense_cases.items():
        with script(f"table_dense_{name}") as s:
            t = Table(s, R.MutableDenseHashTableV2(empty_key=tf.constant(empty, dtype), value_dtype=tf.float32,
                                                   deleted_key=tf.constant(deleted, dtype), initial_num_buckets=4),
                      dtype, tf.float32)
            t("size")
            t("insert", first, [1, 2, 3])
            t("export")
            t("insert", second, [4, 5])
            t("export")
            t("remove", [first[1]])
            t("size")
            t("export")
            t("find", wanted, -1)
            t("insert", [first[1]], [9])
            t("export")
            t("find", [empty], -1, expect=INVALID)
            t("insert", [deleted], [1], expect=INVALID)
            t("remove", [empty], expect=INVALID)
            t("insert", second, [1], expect=INVALID)
            yield s
    with script("table_attributes") as s:
        c = lambda v: tf.constant(v, tf.int64)
        size = lambda h: R.LookupTableSizeV2(table_handle=h)
        dense = lambda **kw: size(R.MutableDenseHashTableV2(**{**dict(empty_key=c(0), deleted_key=c(1),
                                                                      value_dtype=tf.float32), **kw}))
        s.run(dense(initial_num_buckets=5), expect=INVALID)
        s.run(dense(deleted_key=c(0)), expect=INVALID)
        s.run(dense(deleted_key=c([0])), expect=INVALID)
        s.run(dense(value_shape=[2, 2]), expect=INVALID)
        tensors = lambda shape: size(R.MutableHashTableOfTensorsV2(key_dtype=tf.int64, value_dtype=tf.float32,
                                                                   value_shape=shape))
        s.run(tensors([]), expect=INVALID)
        s.run(tensors([2, 2]), expect=INVALID)
        shared = lambda value: size(R.MutableHashTableV2(key_dtype=tf.int64, value_dtype=value, shared_name="t"))
        s.run(shared(tf.float32))
        s.run(shared(tf.int64), expect=INVALID)
        table = R.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
        s.run(R.LookupTableFindV2(table_handle=table, keys=c([1]), default_value="a"), expect=INVALID)
        s.run(R.InitializeTableV2(table_handle=table, keys=c([1]), values=["a"]), expect=INVALID)
        yield s


def table_file_scripts(root):
    os.makedirs(root, exist_ok=True)

    def file(name, text):
        path = os.path.abspath(os.path.join(root, name))
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return path

    good = file("vocabulary.txt", "alpha\t10\r\nbeta\t20\ngamma\t30")
    gap = file("gap.txt", "alpha\t10\r\nbeta\t20\n\ngamma\t30")
    rows = file("rows.txt", "alpha\t10\nbeta\t20\ngamma\t30\n")
    bad = file("bad.txt", "alpha\t10\nbeta\nalpha\t30\n")
    S, I, F = tf.string, tf.int64, tf.float32
    with script("table_files") as s:
        def fill(path, key, value, expect=None, message=True, **attrs):
            h = R.HashTableV2(key_dtype=key, value_dtype=value)
            op = R.InitializeTableFromTextFileV2(table_handle=h, filename=path,
                                                 **{**dict(key_index=-2, value_index=-1), **attrs})
            s.run(op, expect=expect, message=message)
            if expect is None:
                s.run(op)
                s.run(list(R.LookupTableExportV2(table_handle=h, Tkeys=key, Tvalues=value)), unordered=True)

        fill(good, S, I)
        fill(gap, S, I, expect=INVALID)
        fill(rows, S, I, key_index=0, value_index=1)
        fill(rows, I, S, key_index=-1, value_index=0)
        fill(rows, I, S, key_index=-1, value_index=-2, vocab_size=2)
        fill(rows, I, S, key_index=-1, value_index=-2, vocab_size=5, expect=INVALID)
        fill(rows, S, F, key_index=0, value_index=1)
        fill(rows, S, I, key_index=0, value_index=0, expect=INVALID)
        fill(rows, S, I, key_index=0, value_index=2, expect=INVALID, message=False)
        fill(rows, S, I, offset=1)
        fill(rows, S, I, delimiter=",", key_index=0)
        fill(rows, S, I, delimiter="::", key_index=0, expect=INVALID)
        fill(rows, S, S, key_index=-1, value_index=-2, expect=INVALID)
        fill(bad, S, I, key_index=0, value_index=1, expect=INVALID, message=False)
        fill(bad, S, I, key_index=0, expect=FAILED)
        fill(os.path.join(root, "no such file"), S, I, expect=5, message=False)
        fill("", S, I, expect=INVALID)
        yield s


# Scalars by the names of the ops' inputs; what a name starts from where it is not a small random number.
SCALARS = {"alpha": 0.1, "lr": 0.05, "momentum": 0.9, "beta1_power": 0.729, "beta2_power": 0.997, "beta1": 0.9,
           "beta2": 0.999, "epsilon": 0.01, "rho": 0.9, "l1": 0.02, "l2": 0.03, "l2_shrinkage": 0.01, "lr_power": -0.5,
           "beta": 0.9, "sign_decay": 0.7, "logbase": 0.8}
POSITIVE = {"accum", "v", "vhat", "ms", "accum_update", "gradient_squared_accumulator"}
DENSE = ["GradientDescent", "ProximalGradientDescent", "Momentum", "Adam", "AdaMax", "RMSProp", "CenteredRMSProp",
         "Adagrad", "AdagradV2", "AdagradDA", "ProximalAdagrad", "Adadelta", "Ftrl", "FtrlV2", "AddSign", "PowerSign"]
RESOURCE_ONLY = ["KerasMomentum", "AdamWithAmsgrad"]
SPARSE = ["ProximalGradientDescent", "Momentum", "RMSProp", "CenteredRMSProp", "Adagrad", "AdagradV2",
          "AdagradDA", "ProximalAdagrad", "Adadelta", "Ftrl", "FtrlV2"]
FLAGS = {"use_nesterov": True, "update_slots": False, "multiply_linear_by_lr": True}


def update_op_names():
    for name in DENSE:
        yield from (f"Apply{name}", f"ResourceApply{name}")
    for name in RESOURCE_ONLY:
        yield f"ResourceApply{name}"
    yield "ResourceSparseApplyKerasMomentum"
    for name in SPARSE:
        yield from (f"SparseApply{name}", f"ResourceSparseApply{name}")


def update_scripts():
    from tensorflow.python.framework import op_def_registry
    tolerances = {"float32": 1e-5, "float64": 1e-9, "float16": 1e-2}
    for op_name in update_op_names():
        definition = op_def_registry.get(op_name)
        flags = [f for f in FLAGS if any(a.name == f for a in definition.attr)]
        for dtype in ("float32", "float64", "float16"):
            if dtype == "float16" and ("Proximal" in op_name or "AdagradDA" in op_name):  # TensorFlow has no kernel
                continue
            for flag in [None] + flags:
                label = f"update_{op_name}_{dtype}{'_' + flag if flag else ''}"
                with script(label, tolerances[dtype]) as s:
                    yield update_script(s, definition, np.dtype(dtype), {flag: FLAGS[flag]} if flag else {})


def update_script(s, definition, dtype, attrs):
    rng = np.random.default_rng(len(s.name) * 7 + 1)
    shape = [6, 5]
    states, feeds, inputs = [], {}, {}
    gradient = indices = None
    for arg in definition.input_arg:
        is_state = arg.is_ref or arg.type == tf.resource.as_datatype_enum
        if is_state:
            low = 0.5 if arg.name in POSITIVE else -1
            value = rng.uniform(low, 1.5, shape) * (0.2 if arg.name == "mg" else 1)
            variable = tf1.get_variable(arg.name, initializer=tf.constant(value.astype(dtype)),
                                        use_resource=not arg.is_ref)
            states.append(variable)
            inputs[arg.name] = variable._ref() if arg.is_ref else variable.handle
        elif arg.name in ("grad", "delta"):
            gradient = inputs[arg.name] = open_value(dtype)
        elif arg.name == "indices":
            indices = inputs[arg.name] = open_value(tf.int32)
        elif arg.name == "global_step":
            inputs[arg.name] = tf.constant(3, tf.int64)
        else:
            inputs[arg.name] = tf.constant(np.asarray(SCALARS[arg.name], dtype))
    update = getattr(R, definition.name)(**inputs, **attrs)
    update = update.op if isinstance(update, tf.Tensor) else update
    reads = [tf.identity(v) for v in states]
    s.run(tf1.global_variables_initializer())
    for step in range(3):
        rows = [[4, 0, 2], [1, 4, 4], []][step] if indices is not None else None
        size = shape if rows is None else [len(rows), shape[1]]
        feeds = {gradient: rng.uniform(-1, 1, size).astype(dtype)}
        if rows is not None:
            feeds[indices] = np.array(rows, np.int32)
        s.run(update, feeds)
        s.run(reads)
    if indices is not None:
        s.run(update, {gradient: np.ones([2, shape[1]], dtype), indices: np.array([0, 6], np.int32)}, expect=INVALID)
        s.run(update, {gradient: np.ones([2, shape[1]], dtype), indices: np.array([-1, 0], np.int32)}, expect=INVALID)
        s.run(update, {gradient: np.ones([1, shape[1]], dtype), indices: np.array([0, 1], np.int32)}, expect=INVALID,
              message=False)
    else:
        s.run(update, {gradient: np.ones([2], dtype)}, expect=INVALID, message=False)
    return s


def scatter_scripts():
    for resource in (False, True):
        for name in ("Update", "Add", "Sub") + (("Min", "Max") if resource else ()):
            with script(f"scatter_nd_{name.lower()}_{'resource' if resource else 'ref'}", 1e-6) as s:
                value = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
                variable = tf1.get_variable("v", initializer=tf.constant(value), use_resource=resource)
                i, u = open_value(tf.int32), open_value()
                handle = variable.handle if resource else variable._ref()
                op = getattr(R, ("Resource" if resource else "") + "ScatterNd" + name)(ref=handle, indices=i, updates=u)
                op = op.op if isinstance(op, tf.Tensor) else op
                read = tf.identity(variable)
                s.run(tf1.global_variables_initializer())
                s.run(op, {i: [[1], [3]], u: np.full([2, 3, 2], 10, np.float32)})
                s.run(op, {i: [[0, 1, 1]] if name == "Update" else [[0, 1, 1], [0, 1, 1]],
                           u: np.array([5.0] if name == "Update" else [5.0, 6.0], np.float32)})
                s.run(op, {i: np.zeros([0, 2], np.int32), u: np.zeros([0, 2], np.float32)})
                s.run(read)
                s.run(op, {i: [[0, 3]], u: np.ones([1, 2], np.float32)}, expect=INVALID, message=False)
                s.run(op, {i: [[0, 1]], u: np.ones([1, 3], np.float32)}, expect=INVALID, message=False)
                yield s


def scripts(root):
    yield from queue_scripts()
    yield from accumulator_scripts()
    yield from table_scripts()
    yield from table_file_scripts(os.path.join(os.path.dirname(os.path.abspath(root)), "script_files"))
    yield from update_scripts()
    yield from scatter_scripts()
