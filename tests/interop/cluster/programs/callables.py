"""Steps prepared once: make_callable, callables from options, partial runs."""
import numpy as np
import tensorflow.compat.v1 as tf

from programs import check
from registry import program


def scaled():
    with tf.device("/job:ps/task:0"):
        x, y = tf.placeholder(tf.float32, [None], name="x"), tf.placeholder(tf.float32, [], name="y")
    with tf.device("/job:worker/task:1"):
        return x, y, tf.multiply(x, y, name="z")


@program
def callable_plain(cluster):
    """Session.make_callable with feeds, nested fetches, an op, and options."""
    x, y, z = scaled()
    with tf.device("/job:ps/task:1"):
        n = tf.get_variable("n", initializer=0)
        count = tf.assign_add(n, 1)
    with tf.Session(cluster.target()) as sess:
        sess.run(n.initializer)
        f = sess.make_callable({"z": z, "both": [x, y]}, [x, y])
        for i in range(5):
            got = f([1.0, 2.0], float(i))
            check.equal(got["z"], np.array([i, 2 * i], np.float32))
            check.that(got["both"][1] == i, "a fetched feed")
        g = sess.make_callable(count.op, accept_options=True)
        for _ in range(3):
            g(options=tf.RunOptions(timeout_in_ms=20000), run_metadata=tf.RunMetadata())
        check.that(sess.run(n) == 3, "the counter")
        with check.raises(tf.errors.DeadlineExceededError):
            queue = tf.FIFOQueue(1, tf.float32)
            sess.make_callable(queue.dequeue(), accept_options=True)(options=tf.RunOptions(timeout_in_ms=200))


@program
def callable_from_options(cluster):
    """_make_callable_from_options: the master's own callables, with feeds, targets and a tensor that feeds another."""
    from tensorflow.core.protobuf import config_pb2
    x, y, z = scaled()
    with tf.device("/job:worker/task:0"):
        source = tf.constant(5.0, name="source")
        total = tf.reduce_sum(z, name="total")
        n = tf.get_variable("n", initializer=0)
        count = tf.assign_add(n, 1, name="count")
    options = config_pb2.CallableOptions()
    options.feed.extend([x.name, y.name])
    options.fetch.extend([total.name, z.name])
    options.target.append(count.op.name)
    connected = config_pb2.CallableOptions(feed=[x.name], fetch=[z.name])
    connection = connected.tensor_connection.add()
    connection.from_tensor, connection.to_tensor = source.name, y.name
    with tf.Session(cluster.target()) as sess:
        sess.run(n.initializer)
        f = sess._make_callable_from_options(options)
        for i in range(5):
            got = f(np.array([1, 2], np.float32), np.float32(i))
            check.that(got[0] == 3 * i, f"total {got}")
            check.equal(got[1], np.array([i, 2 * i], np.float32))
        check.that(sess.run(n) == 5, "the counter")
        g = sess._make_callable_from_options(connected)
        check.equal(g(np.array([1, 2], np.float32))[0], np.array([5, 10], np.float32))
        del f, g
        check.that(sess.run(n) == 5, "after the callables were released")


@program
def callable_error(cluster):
    """A callable that fails raises the right class, and can be called again."""
    a = tf.placeholder(tf.float32, [None, None])
    with tf.device("/job:ps/task:1"):
        product = tf.matmul(a, tf.ones([2, 2]), name="product")
    with tf.Session(cluster.target()) as sess:
        f = sess.make_callable(product, [a])
        with check.raises(tf.errors.InvalidArgumentError):
            f(np.ones((2, 3)))
        check.equal(f(np.ones((1, 2))), np.full((1, 2), 2, np.float32))


@program
def partial_run(cluster):
    """partial_run: feeds come while the step runs, what a later part fetches uses what an earlier one fed."""
    with tf.device("/job:ps/task:0"):
        a, b, c = (tf.placeholder(tf.float32, []) for _ in range(3))
        r1 = a + b
    with tf.device("/job:worker/task:1"):
        r2 = r1 * c
    with tf.Session(cluster.target()) as sess:
        for i in range(3):
            handle = sess.partial_run_setup([r1, r2], [a, b, c])
            first = sess.partial_run(handle, r1, {a: 1.0, b: 2.0 + i})
            check.that(first == 3.0 + i, f"r1 {first}")
            check.that(sess.partial_run(handle, r2, {c: first * 17}) == first * first * 17, "r2")


@program
def partial_run_two_at_once(cluster):
    """Two partial runs interleave and do not mix."""
    with tf.device("/job:ps/task:0"):
        a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        half = a * 2
    with tf.device("/job:worker/task:2"):
        whole = half + b
    with tf.Session(cluster.target()) as sess:
        one, two = (sess.partial_run_setup([half, whole], [a, b]) for _ in range(2))
        check.that(sess.partial_run(one, half, {a: 1.0}) == 2.0, "one")
        check.that(sess.partial_run(two, half, {a: 10.0}) == 20.0, "two")
        check.that(sess.partial_run(two, whole, {b: 1.0}) == 21.0, "two, end")
        check.that(sess.partial_run(one, whole, {b: 1.0}) == 3.0, "one, end")
        with check.raises(tf.errors.InvalidArgumentError):
            sess.partial_run(one, whole, {b: 1.0})
