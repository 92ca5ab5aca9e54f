"""An error of a server reaches Python as the right class, with the op that failed."""
import os
import tempfile
import threading

import numpy as np
import tensorflow.compat.v1 as tf

from programs import check
from registry import program


@program
def error_invalid_argument(cluster):
    """Shapes that do not fit, on a task that is not the master's; the session works on afterwards."""
    with tf.device("/job:ps/task:1"):
        a, b = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.float32, [None, None])
        product = tf.matmul(a, b, name="product")
    with tf.device("/job:worker/task:1"):
        user = product + 1
    with tf.Session(cluster.target()) as sess:
        for _ in range(2):
            with check.raises(tf.errors.InvalidArgumentError, op="product"):
                sess.run(user, {a: np.ones((2, 3)), b: np.ones((2, 3))})
            check.equal(sess.run(user, {a: np.ones((2, 3)), b: np.ones((3, 1))}), np.full((2, 1), 4, np.float32))


@program
def error_assert(cluster):
    """Assert and check_numerics give InvalidArgument with their text."""
    x = tf.placeholder(tf.float32, [])
    with tf.device("/job:ps/task:0"):
        asserted = tf.Assert(x > 0, ["x must be positive, is", x], name="guard")
        with tf.control_dependencies([asserted]):
            y = tf.identity(x)
        finite = tf.check_numerics(x, "a bad x", name="finite")
    with tf.Session(cluster.target()) as sess:
        check.that(sess.run(y, {x: 1.0}) == 1.0, "y")
        with check.raises(tf.errors.InvalidArgumentError, text="x must be positive"):
            sess.run(y, {x: -1.0})
        with check.raises(tf.errors.InvalidArgumentError, op="finite", text="a bad x"):
            sess.run(finite, {x: np.nan})


@program
def error_not_found(cluster):
    """A missing file and a missing checkpoint."""
    with tf.device("/job:worker/task:1"):
        text = tf.io.read_file("/nowhere/at/all", name="reader")
        value = tf.raw_ops.RestoreV2(prefix="/nowhere/model", tensor_names=["w"], shape_and_slices=[""],
                                     dtypes=[tf.float32], name="restorer")
    with tf.Session(cluster.target()) as sess:
        with check.raises(tf.errors.NotFoundError, op="reader"):
            sess.run(text)
        with check.raises(tf.errors.NotFoundError, op="restorer"):
            sess.run(value)


@program
def error_out_of_range(cluster):
    """Dequeue of a closed, empty queue; the queue is on another task than its reader."""
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(2, tf.float32)
        item = queue.dequeue(name="item")
    with tf.device("/job:worker/task:0"):
        user = item * 2
    with tf.Session(cluster.target()) as sess:
        sess.run(queue.close())
        with check.raises(tf.errors.OutOfRangeError, op="item"):
            sess.run(user)
        with check.raises(tf.errors.CancelledError, text="closed"):
            sess.run(queue.enqueue([1.0]))


@program
def error_failed_precondition(cluster):
    """Variables that were never initialised, of both kinds."""
    with tf.device("/job:ps/task:0"):
        ref = tf.get_variable("ref", initializer=0.0, use_resource=False)
        resource = tf.get_variable("resource", initializer=0.0, use_resource=True)
    with tf.device("/job:worker/task:0"):
        reads = [ref + 1, resource + 1]
    with tf.Session(cluster.target()) as sess:
        with check.raises(tf.errors.FailedPreconditionError, text="uninitialized value"):
            sess.run(reads[0])
        with check.raises(tf.errors.FailedPreconditionError, text="resource"):
            sess.run(reads[1])
        check.that(len(sess.run(tf.report_uninitialized_variables())) == 2, "the report")


@program
def error_unimplemented(cluster):
    """A cast that no kernel does."""
    with tf.device("/job:worker/task:1"):
        number = tf.cast(tf.placeholder_with_default(tf.constant(["1"]), [1]), tf.int32, name="caster")
    with tf.Session(cluster.target()) as sess:
        with check.raises(tf.errors.UnimplementedError, op="caster"):
            sess.run(number)


@program
def error_resource_exhausted(cluster):
    """More memory than a machine has; the server lives on."""
    with tf.device("/job:ps/task:1"):
        count = tf.placeholder(tf.int64, [1])
        big = tf.reduce_sum(tf.fill(count, 1.0, name="filler"))
    with tf.Session(cluster.target()) as sess:
        with check.raises(tf.errors.ResourceExhaustedError, op="filler"):
            sess.run(big, {count: [1 << 43]})
        check.that(sess.run(big, {count: [10]}) == 10.0, "after it")


@program
def error_data_loss(cluster):
    """A checkpoint with a flipped byte."""
    with tempfile.TemporaryDirectory() as folder:
        with tf.device("/job:ps/task:0"):
            v = tf.get_variable("v", initializer=np.arange(1000, dtype=np.float32))
            saver = tf.train.Saver([v])
        with tf.Session(cluster.target("ps", 0)) as sess:
            sess.run(v.initializer)
            path = saver.save(sess, os.path.join(folder, "model"))
            data = path + ".data-00000-of-00001"
            with open(data, "r+b") as f:
                f.seek(100)
                byte = f.read(1)
                f.seek(100)
                f.write(bytes([byte[0] ^ 1]))
            with check.raises(tf.errors.DataLossError):
                saver.restore(sess, path)


@program
def error_run_timeout(cluster):
    """RunOptions.timeout_in_ms on a step that waits on another task; the session works on."""
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(1, tf.float32)
    with tf.device("/job:worker/task:1"):
        item = queue.dequeue() + 1
    with tf.Session(cluster.target()) as sess:
        with check.raises(tf.errors.DeadlineExceededError):
            sess.run(item, options=tf.RunOptions(timeout_in_ms=300))
        sess.run(queue.enqueue([1.0]))
        check.that(sess.run(item, options=tf.RunOptions(timeout_in_ms=20000)) == 2.0, "after it")


@program
def error_operation_timeout(cluster):
    """operation_timeout_in_ms: a step that waits, and a master that is not there."""
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(1, tf.float32)
        item = queue.dequeue()
    config = tf.ConfigProto(operation_timeout_in_ms=1500)
    with tf.Session(cluster.target(), config=config) as sess:
        with check.raises(tf.errors.DeadlineExceededError):
            sess.run(item)
    from harness import free_ports
    with check.raises(tf.errors.DeadlineExceededError):
        tf.Session(f"grpc://127.0.0.1:{free_ports(1)[0]}", config=config).run(tf.constant(1))


@program
def error_cancelled_by_close(cluster):
    """Closing a session ends a step that waits in a dequeue with Cancelled; the queue stays usable for others."""
    with tf.device("/job:ps/task:1"):
        queue = tf.FIFOQueue(1, tf.float32, shared_name="stays")
    with tf.device("/job:worker/task:0"):
        item = queue.dequeue(name="item")
        first = tf.constant(1.0)
    sess = tf.Session(cluster.target())
    sess.run(first)
    ended = []

    def wait():
        try:
            sess.run(item)
        except Exception as e:
            ended.append(e)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(0.5)  # the step should be on the servers; when it is not yet, the close finds nothing to cancel
    check.that(thread.is_alive(), f"the dequeue did not wait: {ended}")
    sess.close()
    thread.join(30)
    check.that(not thread.is_alive(), "the step still waits")
    check.that(isinstance(ended[0], tf.errors.CancelledError), f"got {ended[0]!r}")
    with tf.Session(cluster.target()) as other:
        other.run(queue.enqueue([5.0]))
        check.that(other.run(item) == 5.0, "the queue afterwards")


@program
def error_bad_device(cluster):
    """A device that no task has: InvalidArgument that names it; soft placement runs it elsewhere."""
    with tf.Graph().as_default(), tf.device("/job:ps/task:77"):
        lost = tf.constant(1.0) + 1
        with tf.Session(cluster.target()) as sess, check.raises(tf.errors.InvalidArgumentError, text="task:77"):
            sess.run(lost)
    with tf.device("/job:worker/task:0/device:GPU:0"):
        soft = tf.constant(2.0) + 1
    with tf.Session(cluster.target()) as sess, check.raises(tf.errors.InvalidArgumentError):
        sess.run(soft)
    with tf.Session(cluster.target(), config=tf.ConfigProto(allow_soft_placement=True)) as sess:
        check.that(sess.run(soft) == 3.0, "soft placement")


@program
def error_unknown_op(cluster):
    """A function of the client's process cannot run on a server: the error says so and the session lives on."""
    with tf.device("/job:ps/task:0"):
        called = tf.py_func(lambda: np.float32(1), [], tf.float32)
        fine = tf.constant(3.0) * 2
    with tf.Session(cluster.target()) as sess:
        try:
            sess.run(called)
            raise AssertionError("py_func ran")
        except tf.errors.OpError:
            pass
        check.that(sess.run(fine) == 6.0, "after it")


@program
def error_first_of_many(cluster):
    """Several tasks fail in one step: one error, of the op that failed and not of those that it cancelled."""
    outs = []
    for i, device in enumerate(("/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:1")):
        with tf.device(device):
            x = tf.placeholder_with_default(tf.constant([np.nan]), [1])
            outs.append(tf.check_numerics(x, f"bad {i}"))
    with tf.device("/job:worker/task:2"):
        queue = tf.FIFOQueue(1, tf.float32)
        waits = queue.dequeue()
        total = tf.add_n(outs)
    with tf.Session(cluster.target()) as sess:
        with check.raises(tf.errors.InvalidArgumentError, text="bad"):
            sess.run([total, waits])
