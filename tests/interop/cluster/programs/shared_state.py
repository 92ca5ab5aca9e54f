"""State that tasks keep and clients share: queues, accumulators, tables, variables."""
import threading

import numpy as np
import tensorflow.compat.v1 as tf

from programs import check
from registry import program


def jobs_queue():
    with tf.device("/job:ps/task:0"):
        return tf.FIFOQueue(3, [tf.int32, tf.string], shapes=[[], []], shared_name="jobs")


def produce(cluster, count):
    """The producer's process: a capacity of 3 makes it wait for the consumer."""
    queue = jobs_queue()
    number = tf.placeholder(tf.int32, [])
    enqueue = queue.enqueue([number, tf.strings.join(["job ", tf.strings.as_string(number)])])
    close = queue.close()
    with tf.Session(cluster.target("worker", 1)) as sess:
        for i in range(count):
            sess.run(enqueue, {number: i})
        sess.run(close)
    return count


@program(timeout=120)
def queue_two_clients(cluster):
    """A queue on a ps between two client processes on two masters; closing it ends the consumer with OutOfRange."""
    queue = jobs_queue()
    with tf.device("/job:worker/task:0"):
        item = queue.dequeue()
    producer = cluster.client(produce, 20)
    try:
        with tf.Session(cluster.target("worker", 0)) as sess:
            for i in range(20):
                number, text = sess.run(item)
                check.that((number, text) == (i, b"job %d" % i), f"item {i}: {number} {text}")
            with check.raises(tf.errors.OutOfRangeError, text="closed"):
                sess.run(item)
        check.that(producer.result() == 20, "the producer")
    finally:
        producer.kill()


def read_counter(cluster, scope):
    with tf.device("/job:ps/task:1"), tf.variable_scope(scope):
        v = tf.get_variable("counter", initializer=0, use_resource=True)
    with tf.Session(cluster.target("worker", 2)) as sess:
        return int(sess.run(v))


@program(timeout=120)
def variable_two_clients(cluster):
    """Another client process reads the variable that this one made; it outlives the session that made it."""
    with tf.device("/job:ps/task:1"):
        v = tf.get_variable("counter", initializer=0, use_resource=True)
        add = v.assign_add(1)
    with tf.Session(cluster.target()) as sess:
        sess.run(v.initializer)
        for _ in range(5):
            sess.run(add)
    other = cluster.client(read_counter, "variable_two_clients")
    check.that(other.result() == 5, "what the other client read")
    with tf.Session(cluster.target("worker", 1)) as sess:
        check.that(sess.run(v) == 5, "what a later session read")


@program
def queue_kinds(cluster):
    """Shuffling, padding and priority queues; dequeue_many and up_to, size."""
    with tf.device("/job:ps/task:0"):
        fifo = tf.FIFOQueue(20, tf.float32, shapes=[[2]])
        shuffle = tf.RandomShuffleQueue(20, 2, tf.int32, shapes=[[]], seed=1)
        padding = tf.PaddingFIFOQueue(20, tf.int32, shapes=[[None]])
        priority = tf.PriorityQueue(20, tf.string, shapes=[[]])
    fill = [fifo.enqueue_many([np.arange(12, dtype=np.float32).reshape(6, 2)]), shuffle.enqueue_many([np.arange(10)])]
    fill += [priority.enqueue_many([np.array([3, 1, 2], np.int64), [b"three", b"one", b"two"]])]
    pad = [padding.enqueue([[i] * i]) for i in (1, 3, 2)]
    with tf.device("/job:worker/task:0"):
        four, rest = fifo.dequeue_many(4), fifo.dequeue_up_to(10)
        shuffled = shuffle.dequeue_many(8)
        padded = padding.dequeue_many(3)
        first = priority.dequeue()
    with tf.Session(cluster.target()) as sess:
        sess.run(fill)
        for p in pad:
            sess.run(p)
        check.that(sess.run(fifo.size()) == 6, "size")
        check.equal(sess.run(four), np.arange(8, dtype=np.float32).reshape(4, 2))
        sess.run(fifo.close())
        check.equal(sess.run(rest), np.arange(8, 12, dtype=np.float32).reshape(2, 2))
        got = sess.run(shuffled)
        check.that(len(set(got)) == 8 and set(got) <= set(range(10)), f"shuffled {got}")
        check.equal(sess.run(padded), np.array([[1, 0, 0], [3, 3, 3], [2, 2, 0]], np.int32))
        check.that([sess.run(first)[1] for _ in range(3)] == [b"one", b"two", b"three"], "by priority")


@program
def queue_blocks_across_threads(cluster):
    """A dequeue waits on the server until another thread of the same session enqueues."""
    with tf.device("/job:ps/task:1"):
        queue = tf.FIFOQueue(1, tf.float32)
    with tf.device("/job:worker/task:0"):
        item = queue.dequeue() * 2
    with tf.Session(cluster.target()) as sess:
        got = []
        thread = threading.Thread(target=lambda: got.append(sess.run(item)))
        thread.start()
        sess.run(queue.enqueue([21.0]))
        thread.join(30)
        check.that(got == [42.0], f"got {got}")


@program
def queue_runners(cluster):
    """An input pipeline of queues: string_input_producer, batch, Coordinator, two epochs, OutOfRange at the end."""
    with tf.device("/job:worker/task:0"):
        names = tf.train.string_input_producer([f"file{i}" for i in range(5)], num_epochs=2, shuffle=False)
        batch = tf.train.batch([names.dequeue()], batch_size=2)
    with tf.Session(cluster.target()) as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coordinator)
        seen = []
        with check.raises(tf.errors.OutOfRangeError):
            while True:
                seen += sess.run(batch).tolist()
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=20)
    check.that(seen == [b"file%d" % i for i in range(5)] * 2, f"saw {seen}")


@program
def accumulators(cluster):
    """Conditional accumulators, dense and sparse, on a ps: averages, stale gradients dropped, a take that waits."""
    with tf.device("/job:ps/task:0"):
        dense = tf.ConditionalAccumulator(tf.float32, shape=[2], shared_name="dense_gradients")
        sparse = tf.SparseConditionalAccumulator(tf.float32, shape=[None, 2], shared_name="sparse_gradients")
    value, step = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.int64, [])
    with tf.device("/job:worker/task:0"):
        push = dense.apply_grad(value, step)
    with tf.device("/job:worker/task:1"):
        push_sparse = sparse.apply_indexed_slices_grad(
            tf.IndexedSlices(tf.ones([2, 2]), tf.constant([0, 3], tf.int64)), local_step=step)
    take, take_sparse = dense.take_grad(2), sparse.take_indexed_slices_grad(2)
    with tf.Session(cluster.target()) as sess:
        got = []
        thread = threading.Thread(target=lambda: got.append(sess.run(take)))
        thread.start()
        sess.run(push, {value: [1, 2], step: 0})
        sess.run(push, {value: [3, 6], step: 0})
        thread.join(30)
        check.equal(got[0], np.array([2, 4], np.float32))
        sess.run(dense.set_global_step(5))
        sess.run(push, {value: [100, 100], step: 4})
        check.that(sess.run(dense.num_accumulated()) == 0, "a stale gradient counts")
        for _ in range(2):
            sess.run(push_sparse, {step: 0})
        mean = sess.run(take_sparse)
        check.equal(mean.indices, np.array([0, 3], np.int64))
        check.equal(mean.values, np.ones((2, 2), np.float32))


@program
def tables(cluster):
    """Lookup tables on a ps: static, and one that two sessions fill and read."""
    with tf.device("/job:ps/task:0"):
        pairs = tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2], value_dtype=tf.int64)
        static = tf.lookup.StaticHashTable(pairs, -1)
        mutable = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, 0.0, name="shared_table")
    with tf.device("/job:worker/task:1"):
        keys = tf.constant(["b", "z", "a"])
        found, held = static.lookup(keys), mutable.lookup(keys)
    insert = mutable.insert(tf.constant(["z"]), tf.constant([2.5]))
    with tf.Session(cluster.target()) as one:
        one.run(tf.tables_initializer())
        check.equal(one.run(found), np.array([2, -1, 1], np.int64))
        one.run(insert)
        check.equal(one.run(held), np.array([0, 2.5, 0], np.float32))
        check.that(one.run(mutable.size()) == 1, "size")


@program
def containers(cluster):
    """The same name in two containers is two variables; shared_name joins sessions."""
    def variable(container, value):
        with tf.device("/job:ps/task:0"), tf.container(container):
            return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], container=container, shared_name="same"), value

    one, two = variable("box one", 1.0), variable("box two", 2.0)
    writes = [tf.raw_ops.AssignVariableOp(resource=h, value=tf.constant(v)) for h, v in (one, two)]
    reads = [tf.raw_ops.ReadVariableOp(resource=h, dtype=tf.float32) for h, _ in (one, two)]
    with tf.Session(cluster.target()) as sess:
        sess.run(writes)
    with tf.Session(cluster.target("worker", 1)) as sess:
        check.that(sess.run(reads) == [1.0, 2.0], "values")


@program
def variable_ops(cluster):
    """assign, assign_add, scatter updates, strings and counters in variables of both kinds, from another task."""
    for resource in (False, True):
        with tf.device("/job:ps/task:0"), tf.variable_scope("resource" if resource else "ref"):
            v = tf.get_variable("v", initializer=np.zeros((4, 2), np.float32), use_resource=resource)
            s = tf.get_variable("s", initializer=["a", "b"], use_resource=resource)
        with tf.device("/job:worker/task:1"):
            delta = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        scatter = tf.scatter_add(v, [0, 2], delta)
        write = tf.assign(s, tf.strings.join([s, s]))
        with tf.Session(cluster.target()) as sess:
            sess.run([v.initializer, s.initializer])
            sess.run([scatter, write])
            sess.run(tf.assign_sub(v, tf.ones([4, 2])))
            got, text = sess.run([v, s])
            check.equal(got, np.array([[0, 1], [-1, -1], [2, 3], [-1, -1]], np.float32))
            check.that(text.tolist() == [b"aa", b"bb"], f"{text}")
            check.that(sess.run(tf.report_uninitialized_variables([v, s])).size == 0, "uninitialised")


@program
def staging(cluster):
    """A staging area and a barrier between steps."""
    from tensorflow.python.ops import data_flow_ops
    with tf.device("/job:worker/task:1"):
        area = data_flow_ops.StagingArea([tf.float32], shapes=[[2]], shared_name="stage")
        put, get = area.put([tf.constant([1.0, 2.0])]), area.get()
    with tf.device("/job:ps/task:0"):
        barrier = data_flow_ops.Barrier((tf.float32, tf.float32), shapes=((), ()))
        insert = [barrier.insert_many(0, ["a", "b"], [1.0, 2.0]), barrier.insert_many(1, ["b", "a"], [20.0, 10.0])]
        take = barrier.take_many(2)
    with tf.Session(cluster.target()) as sess:
        sess.run(put)
        check.equal(sess.run(get)[0], np.array([1, 2], np.float32))
        for i in insert:
            sess.run(i)
        _, keys, (ones, tens) = sess.run(take)
        check.that(sorted(zip(keys, ones, tens)) == [(b"a", 1.0, 10.0), (b"b", 2.0, 20.0)], "the barrier's rows")


@program
def variable_ref_alias(cluster):
    """A reference variable's read shows an update that its user waits for, though the read itself does not wait:
    SyncReplicasOptimizer fills its tokens with the global step in this way."""
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("v", initializer=np.int64(0), use_resource=False)
        with tf.control_dependencies([tf.assign_add(v, 1)]):
            tokens = tf.fill([2], v)
    with tf.Session(cluster.target()) as sess:
        sess.run(v.initializer)
        for i in range(1, 50):
            check.equal(sess.run(tokens), np.full(2, i, np.int64), f"step {i}")
