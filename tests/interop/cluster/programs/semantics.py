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
