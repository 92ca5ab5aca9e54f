"""Rules of TensorFlow's runtime that its own tests assert: what a program may rely on beside the meaning of each op."""
import os
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

from programs import check
from registry import program


def reference(name, value):
    return tf.get_variable(name, initializer=value, use_resource=False)


def initialised(cluster):
    sess = tf.Session(cluster.target())
    sess.run(tf.global_variables_initializer())
    return sess


@program
def reference_in_loop(cluster):
    """A reference variable that a while_loop changes: every iteration reads what the one before it wrote."""
    v, w = reference("v", 10.0), reference("w", 2.0)
    one_in_turn = {"parallel_iterations": 1, "back_prop": False}

    def descend(i):
        with tf.control_dependencies([tf.assign_sub(v, 0.2 * v)]):
            return i + 1

    def square(i):
        with tf.control_dependencies([tf.assign(w, w * w)]):
            return i + 1

    with initialised(cluster) as sess:
        sess.run(tf.while_loop(lambda i: i < 5, descend, [0], **one_in_turn))
        check.close(sess.run(v), np.float32(10 * 0.8 ** 5))
        sess.run(tf.while_loop(lambda i: i < 4, square, [0], **one_in_turn))
        check.equal(sess.run(w), np.float32(65536))


@program
def reference_in_loop_scattered(cluster):
    """The same for rows that a loop gathers and scatters."""
    v = reference("v", np.full([3], 2.0, np.float32))

    def double(i):
        with tf.control_dependencies([tf.scatter_update(v, [1], 2 * tf.gather(v, [1]))]):
            return i + 1

    with initialised(cluster) as sess:
        sess.run(tf.while_loop(lambda i: i < 5, double, [0], parallel_iterations=1, back_prop=False))
        check.equal(sess.run(v), np.array([2, 64, 2], np.float32))


@program
def reference_in_cond(cluster):
    """A branch that assigns a reference variable and then uses it sees what it assigned."""
    v = reference("v", 2.0)

    def branch():
        with tf.control_dependencies([tf.assign_add(v, 3.0)]):
            return v + 0.0

    def read():
        with tf.control_dependencies([tf.assign_add(v, 1.0)]):
            return tf.identity(v)

    with initialised(cluster) as sess:
        check.equal(sess.run(tf.cond(tf.constant(True), branch, lambda: 0.0)), np.float32(5))
        check.equal(sess.run(tf.cond(tf.constant(True), read, lambda: 0.0)), np.float32(6))


@program
def file_urls(cluster):
    """file:///x is /x for every op that takes a path; other schemes are Unimplemented."""
    with tempfile.TemporaryDirectory() as folder, tf.device("/job:ps/task:0"):
        url = "file://" + folder
        path = tf.placeholder(tf.string, [])
        write, read = tf.io.write_file(path, "text"), tf.io.read_file(path)
        names = tf.io.matching_files(path)
        queue = tf.FIFOQueue(10, tf.string, shapes=[[]], shared_name="file_urls")
        record = tf.WholeFileReader().read(queue)
        v = tf.get_variable("v", initializer=[1.0, 2.0])
        saver, sharded = tf.train.Saver([v]), tf.train.Saver([v], sharded=True)
        with initialised(cluster) as sess:
            sess.run(write, {path: url + "/sub/a"})
            check.that(open(folder + "/sub/a").read() == "text", "the file")
            check.that(sess.run(read, {path: url + "/sub/a"}) == b"text", "what was read")
            check.that(sess.run(names, {path: url + "/s*/a"}).tolist() == [(url + "/sub/a").encode()], "names")
            sess.run(queue.enqueue(url + "/sub/a"))
            check.that(sess.run(record) == ((url + "/sub/a").encode(), b"text"), "the record")
            for one in (saver, sharded):
                prefix = one.save(sess, url + "/model")
                check.that(os.path.exists(folder + "/model.index"), "the checkpoint lies where it was meant")
                sess.run(tf.assign(v, [0.0, 0.0]))
                one.restore(sess, prefix)
                check.that(sess.run(v).tolist() == [1, 2], "what was restored")
                os.remove(folder + "/model.index")
            with check.raises(tf.errors.UnimplementedError, text="scheme 'foo' not implemented"):
                sess.run(read, {path: "foo://x/a"})
            with check.raises(tf.errors.UnimplementedError, text="scheme 'foo' not implemented"):
                sess.run(write, {path: "foo://x/a"})


@program
def op_nobody_needs(cluster):
    """A graph may hold ops that the servers do not run, as long as no step needs them."""
    with tf.device("/job:worker/task:0"):
        x = tf.placeholder(tf.float32, [2])
        rare = tf.quantization.quantize_and_dequantize(x, 0.0, 4.0, range_given=False)
        after_rare = rare + 1.0
        hardly = tf.raw_ops.Svd(input=tf.eye(2), compute_uv=True, full_matrices=False)
        y = tf.constant(3) + 4
        other = x * 2
    with tf.Session(cluster.target()) as sess:
        check.equal(sess.run(y), np.int32(7))
        later = y + 1 + tf.cast(hardly.s[0] * 0, tf.int32)
        more = y + 2
        check.equal(sess.run(more), np.int32(9))
        check.equal(sess.run(other, {x: [1, 2]}), np.array([2, 4], np.float32))
        check.equal(sess.run(after_rare, {rare: [1, 2]}), np.array([2, 3], np.float32))
        try:
            check.equal(sess.run(later), np.int32(8))
        except tf.errors.NotFoundError as e:
            check.that("Svd" in e.message, e.message)
        check.equal(sess.run(y), np.int32(7))


def in_two_sessions(cluster, put, size):
    """Sizes that two sessions see after the first has put something in."""
    with tf.Session(cluster.target()) as first, tf.Session(cluster.target()) as second:
        first.run(put)
        return first.run(size), second.run(size)


@program
def resources_of_a_session(cluster):
    """A queue, accumulator or table without shared_name belongs to its session; with one it is shared."""
    raw = tf.raw_ops
    with tf.device("/job:ps/task:0"):
        for shared in (None, "one_for_all"):
            want = (1, 1 if shared else 0)
            name = shared and shared + "_fifo"
            queue = tf.FIFOQueue(5, [tf.float32], [[]], shared_name=name)
            seen = in_two_sessions(cluster, queue.enqueue(1.0), queue.size())
            check.that(seen == want, f"queue {name}: {seen}")
            name = shared and shared + "_shuffle"
            queue = tf.RandomShuffleQueue(5, 0, [tf.float32], [[]], shared_name=name)
            seen = in_two_sessions(cluster, queue.enqueue(1.0), queue.size())
            check.that(seen == want, f"shuffling queue {name}: {seen}")
            name = shared and shared + "_sums"
            sums = tf.ConditionalAccumulator(tf.float32, shape=[], shared_name=name)
            seen = in_two_sessions(cluster, sums.apply_grad(1.0), sums.num_accumulated())
            check.that(seen == want, f"accumulator {name}: {seen}")
        for by_node_name in (False, True):
            table = raw.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.int64,
                                           use_node_name_sharing=by_node_name)
            put = raw.LookupTableInsertV2(table_handle=table, keys=np.int64([1]), values=np.int64([2]))
            seen = in_two_sessions(cluster, put, raw.LookupTableSizeV2(table_handle=table))
            check.that(seen == (1, 1 if by_node_name else 0), f"table: {seen}")


@program
def queue_of_another_capacity(cluster):
    """So a later session may make it anew, as another."""
    for capacity in (2, 3):
        with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
            queue = tf.FIFOQueue(capacity, [tf.float32], shapes=[[]], name="of_some_capacity")
            fill = queue.enqueue_many(np.zeros([capacity], np.float32))
            size = queue.size()
            with tf.Session(cluster.target()) as sess:
                sess.run(fill)
                check.equal(sess.run(size), np.int32(capacity))


@program
def barrier_small_batch(cluster):
    """A closed barrier gives what is complete to a take that allows fewer, and waits for nothing."""
    raw = tf.raw_ops
    with tf.device("/job:ps/task:0"):
        barrier = raw.Barrier(component_types=[tf.float32, tf.float32], shapes=[[], []])
        first = raw.BarrierInsertMany(handle=barrier, keys=["a", "b", "c", "d"], values=np.float32([1, 2, 3, 4]),
                                      component_index=0)
        second = raw.BarrierInsertMany(handle=barrier, keys=["a", "b"], values=np.float32([10, 20]),
                                       component_index=1)
        take = raw.BarrierTakeMany(handle=barrier, num_elements=3, component_types=[tf.float32, tf.float32],
                                   allow_small_batch=True)
        close = raw.BarrierClose(handle=barrier)
    with tf.Session(cluster.target()) as sess:
        for op in (first, second, close):
            sess.run(op)
        check.that(sorted(sess.run(take.keys).tolist()) == [b"a", b"b"], "what was complete")
        with check.raises(tf.errors.OutOfRangeError, text="is closed and has insufficient elements"):
            sess.run(take.keys)


@program
def effects_nobody_fetches(cluster):
    """A cond of functions in graph mode: what is fetched decides which of its effects happen."""
    tf.enable_control_flow_v2()
    for places in (("/job:ps/task:0", "/job:ps/task:0"), ("/job:ps/task:0", "/job:ps/task:1")):
        with tf.variable_scope(None, "variables"):
            variables = []
            for name, place in zip("ab", places):
                with tf.device(place):
                    variables.append(tf.get_variable(name, initializer=7.0, use_resource=True))
        a, b = variables
        which = tf.placeholder(tf.bool, [])
        both = tf.cond(which, lambda: [a.assign(1.0).read_value(), b.assign(2.0).read_value()],
                       lambda: [a.assign(3.0).read_value(), b.assign(4.0).read_value()])
        with initialised(cluster) as sess:
            check.equal(sess.run(both[1], {which: True}), np.float32(2))
            check.that(sess.run(variables) == [7, 2], "only one was assigned")
            check.that(sess.run(both, {which: False}) == [3, 4], "both")
            check.that(sess.run(variables) == [3, 4], "both were assigned")


@program
def tensor_array_marked_size(cluster):
    """The gradient of a TensorArray that was split, and written to later, has the size of what was split."""
    with tf.device("/job:worker/task:0"):
        x = tf.constant([1.0, 2.0, 3.0])
        array = tf.TensorArray(tf.float32, size=3, dynamic_size=True, infer_shape=False)
        array = array.split(x, [1, 1, 1]).write(3, tf.constant([4.0]))
        y = array.concat()
        slope = tf.gradients(y, x)[0]
    with tf.Session(cluster.target()) as sess:
        got, slope = sess.run([y, slope])
        check.equal(got, np.array([1, 2, 3, 4], np.float32))
        check.equal(slope, np.ones(3, np.float32))


def soft(cluster):
    return tf.Session(cluster.target(), config=tf.ConfigProto(allow_soft_placement=True))


@program
def soft_placement_grows(cluster):
    """Variables on a device that is not there may be used by nodes that are added after they ran."""
    for use_resource in (False, True):
        with tf.device("/device:GPU:0"):
            v = tf.get_variable(f"v_{use_resource}", initializer=3.0, use_resource=use_resource)
        with soft(cluster) as sess:
            sess.run(v.initializer)
            check.equal(sess.run(v + 1.0), np.float32(4))
            sess.run(tf.assign(v, 5.0))
            with tf.device("/device:GPU:0"):
                more = v * 2.0
            check.equal(sess.run(more), np.float32(10))


@program
def soft_placement_in_branches(cluster):
    """Soft placement reaches into the branches and bodies of functional control flow."""
    tf.enable_control_flow_v2()
    x = tf.placeholder(tf.float32, [])

    def there(device, f):
        with tf.device(device):
            return f()

    for device in ("/device:GPU:0", "/device:CPU:1"):
        y = tf.cond(x > 0, lambda: there(device, lambda: x * 2), lambda: there(device, lambda: x - 1))
        z = tf.while_loop(lambda i: i < 10.0, lambda i: there(device, lambda: i * 2), [x])
        with soft(cluster) as sess:
            check.equal(sess.run(y, {x: 3}), np.float32(6))
            check.equal(sess.run(y, {x: -3}), np.float32(-4))
            check.equal(sess.run(z, {x: 3}), np.float32(12))


@program
def function_nodes_nobody_needs(cluster):
    """What no result of a function needs does not run, though it would fail."""

    @tf.function
    def with_placeholder(x):
        tf.placeholder(tf.float32, [2], name="unfed")
        return x * 2

    @tf.function
    def with_failure(x):
        tf.reshape(x, tf.cast(tf.stack([x * 0 + 5, x * 0 + 5]), tf.int32))
        return x * 2

    x = tf.placeholder(tf.float32, [])
    with tf.device("/job:worker/task:0"):
        results = [with_placeholder(x), with_failure(x)]
    with tf.Session(cluster.target()) as sess:
        for result in results:
            check.equal(sess.run(result, {x: 3}), np.float32(6))


@program
def reference_forms(cluster):
    """RefIdentity and RefSelect hand on the variable itself; tuple makes the first for variables."""
    raw = tf.raw_ops
    a, b = reference("a", 1.0), reference("b", 2.0)
    which = tf.placeholder(tf.int32, [])
    with initialised(cluster) as sess:
        sess.run(raw.Assign(ref=raw.RefIdentity(input=a._ref()), value=5.0))
        sess.run(raw.AssignAdd(ref=raw.RefSelect(index=which, inputs=[a._ref(), b._ref()]), value=10.0), {which: 1})
        check.that(sess.run([a, b]) == [5, 12], "the variables")
        together = tf.tuple([a, b], control_inputs=[tf.assign(a, 6.0)])
        check.that(sess.run(together) == [6, 12], "after the assignment")
        with check.raises(tf.errors.InvalidArgumentError, text="Index must be in the range [0, 2) but got 2"):
            sess.run(raw.RefSelect(index=which, inputs=[a._ref(), b._ref()]), {which: 2})


@program
def refused_values(cluster):
    """Values that ops refuse, and some that they take."""
    raw = tf.raw_ops
    fed = {}

    def feed(value, dtype):
        place = tf.placeholder(dtype)
        fed[place] = np.array(value, dtype.as_numpy_dtype)
        return place

    with tf.device("/job:worker/task:0"):
        counts = raw.SparseBincount(
            indices=feed([[-1], [0]], tf.int64), values=feed([1, 2], tf.int32), dense_shape=feed([2], tf.int64), size=4,
            weights=feed([], tf.float32))
        crop = raw.CropAndResize(image=np.ones([1, 2, 2, 1], np.float32), boxes=feed([[0, 0, np.nan, 1]], tf.float32),
                                 box_ind=[0], crop_size=[2, 2])
        temporary = raw.Assign(ref=raw.TemporaryVariable(shape=[2], dtype=tf.float32, var_name="t"), value=[1.0, 2.0])
        other = raw.DestroyTemporaryVariable(ref=temporary, var_name="u")
        table = raw.HashTableV2(key_dtype=tf.int64, value_dtype=tf.int64)
        empty = raw.LookupTableImportV2(table_handle=table, keys=feed([], tf.int64), values=feed([], tf.int64))
        piece = raw.SparseSlice(
            indices=feed([[0, 0], [1, 1]], tf.int64), values=feed([1, 2], tf.float32), shape=feed([2, 2], tf.int64),
            start=feed([-1, 0], tf.int64), size=feed([2, 2], tf.int64))
        poisson = raw.RandomPoissonV2(shape=[2], rate=feed(np.zeros([0, 3]), tf.float32), dtype=tf.float32)
        audio = raw.AudioSummaryV2(tag="a", tensor=np.zeros([1, 4, 1], np.float32),
                                   sample_rate=feed(0.5, tf.float32), max_outputs=1)
        types = {"component_types": [tf.float32], "shared_name": "refused_values"}
        seeded = raw.QueueSizeV2(handle=raw.RandomShuffleQueueV2(seed=3, seed2=4, **types))
        unseeded = raw.QueueSizeV2(handle=raw.RandomShuffleQueueV2(seed=0, seed2=0, **types))
    with tf.Session(cluster.target()) as sess:
        with check.raises(tf.errors.InvalidArgumentError, text="is out of bounds"):
            sess.run(counts, fed)
        with check.raises(tf.errors.InvalidArgumentError, text="is not finite"):
            sess.run(crop, fed)
        with check.raises(tf.errors.NotFoundError, text="does not exist"):
            sess.run(other, fed)
        with check.raises(tf.errors.InvalidArgumentError, text="cannot be empty"):
            sess.run(empty, fed)
        indices, values, shape = sess.run(piece, fed)
        check.that((indices.tolist(), values.tolist(), shape.tolist()) == ([[1, 0]], [1], [2, 2]), "the slice")
        check.that(sess.run(poisson, fed).shape == (2, 0, 3), "no numbers")
        check.that(b"RIFF" in sess.run(audio, fed), "audio")
        check.equal(sess.run(seeded), np.int32(0))
        check.equal(sess.run(unseeded), np.int32(0))


@program
def lists_and_optionals(cluster):
    """Zeros and sums of lists of lists and of optionals, and lists joined that have items which were never set."""
    raw = tf.raw_ops
    unknown = tf.constant(-1, tf.int32)
    with tf.device("/job:worker/task:0"):
        optional = raw.OptionalFromValue(components=[tf.constant([1.0, 2.0])])

        def value(x):
            return raw.OptionalGetValue(optional=x, output_types=[tf.float32], output_shapes=[[2]])[0]

        zeros, both = value(raw.ZerosLike(x=optional)), value(raw.AddN(inputs=[optional, optional]))
        uneven = raw.OptionalHasValue(optional=raw.AddN(inputs=[optional, raw.OptionalNone()]))

        def reserve(dtype, count):
            return raw.TensorListReserve(element_shape=unknown, num_elements=count, element_dtype=dtype)

        def item(nest, index=0):
            inner = raw.TensorListGetItem(input_handle=nest, index=0, element_shape=tf.zeros([0], tf.int32),
                                          element_dtype=tf.variant)
            return raw.TensorListGetItem(input_handle=inner, index=index, element_shape=unknown,
                                         element_dtype=tf.float32)

        list_ = raw.TensorListSetItem(input_handle=reserve(tf.float32, 2), index=0, item=[[1.0, 2.0], [3.0, 4.0]])
        nest = raw.TensorListSetItem(input_handle=reserve(tf.variant, 1), index=0, item=list_)
        nested_zeros, nested_sum = item(raw.ZerosLike(x=nest)), item(raw.AddN(inputs=[nest, nest, nest]))
        joined = raw.TensorListConcatV2(input_handle=list_, element_dtype=tf.float32, element_shape=unknown,
                                        leading_dims=tf.zeros([0], tf.int64))
    with tf.Session(cluster.target()) as sess:
        check.equal(sess.run(zeros), np.zeros(2, np.float32))
        check.equal(sess.run(both), np.array([2, 4], np.float32))
        with check.raises(tf.errors.InvalidArgumentError, text="one has a value and the other doesn't"):
            sess.run(uneven)
        check.equal(sess.run(nested_zeros), np.zeros([2, 2], np.float32))
        check.equal(sess.run(nested_sum), np.array([[3, 6], [9, 12]], np.float32))
        tensor, lengths = sess.run(joined)
        check.equal(tensor, np.array([[1, 2], [3, 4], [0, 0], [0, 0]], np.float32))
        check.equal(lengths, np.array([2, 2], np.int64))
