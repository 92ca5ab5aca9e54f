"""Tasks that die, stop and come back. Each program has a cluster of its own."""
import contextlib
import signal
import threading
import time

import numpy as np
import tensorflow.compat.v1 as tf

from harness import wait_until
from programs import check
from registry import program

JOBS = {"ps": 2, "worker": 2}


def model():
    with tf.device("/job:ps/task:0"):
        a = tf.get_variable("a", initializer=[1.0, 2.0])
    with tf.device("/job:ps/task:1"):
        b = tf.get_variable("b", initializer=[3.0, 4.0])
    with tf.device("/job:worker/task:1"):
        return a, b, a + b


@contextlib.contextmanager
def session(cluster):
    """A session that is closed whatever happened to its servers: to close one on a dead master would wait for ever."""
    sess = tf.Session(cluster.target())

    def close():
        with contextlib.suppress(tf.errors.OpError):
            sess.close()

    try:
        yield sess
    finally:
        closer = threading.Thread(target=close, daemon=True)
        closer.start()
        closer.join(10)


def check_lost(run):
    """The step fails as one does whose task is gone."""
    try:
        value = run()
    except (tf.errors.UnavailableError, tf.errors.AbortedError):
        return
    raise AssertionError(f"the step gave {value}")


@program(jobs=JOBS, timeout=180)
def killed_between_steps(cluster):
    """A ps is killed: the next step is Unavailable (or Aborted); what does not need it, runs in a new session."""
    _, _, total = model()
    with session(cluster) as sess:
        sess.run(tf.global_variables_initializer())
        check.equal(sess.run(total), np.array([4, 6], np.float32))
        cluster.task("ps", 1).kill()
        check_lost(lambda: sess.run(total))
    config = tf.ConfigProto(device_filters=["/job:worker"])
    with tf.Graph().as_default(), tf.device("/job:worker/task:1"):
        alone = tf.constant(1.0) + 1
        with tf.Session(cluster.target(), config=config) as other:
            check.that(other.run(alone) == 2.0, "without the ps")


@program(jobs=JOBS, timeout=180)
def killed_during_step(cluster):
    """A ps is killed while a step waits on it: Unavailable or Aborted, and soon."""
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(1, tf.float32)
        ready = tf.constant(0.0)
    with tf.device("/job:worker/task:1"):
        item = queue.dequeue() + 1
    ended = []

    def step():
        try:
            check_lost(lambda: sess.run(item))
            ended.append(None)
        except Exception as e:
            ended.append(e)

    with session(cluster) as sess:
        sess.run(ready)
        thread = threading.Thread(target=step)
        thread.start()
        thread.join(1)
        check.that(thread.is_alive(), f"the step did not wait: {ended}")
        cluster.task("ps", 0).kill()
        thread.join(60)
        check.that(not thread.is_alive(), "the step still waits for a task that is gone")
        check.that(ended == [None], f"{ended[0]!r}")


@program(jobs=JOBS, timeout=240)
def restarted_ps(cluster):
    """After a ps' restart the old session gets Aborted or Unavailable; a new one finds its variables gone."""
    a, b, total = model()
    with session(cluster) as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(total)
        cluster.task("ps", 1).restart()
        for _ in range(2):
            check_lost(lambda: sess.run(total))
    with tf.Session(cluster.target()) as fresh:
        check.equal(fresh.run(a), np.array([1, 2], np.float32))
        with check.raises(tf.errors.FailedPreconditionError):
            fresh.run(total)
        fresh.run(b.initializer)
        check.equal(fresh.run(total), np.array([4, 6], np.float32))


@program(jobs=JOBS, timeout=240)
def restarted_master(cluster):
    """After the master's restart its sessions are unknown: Aborted; the ps kept the variables for a new session."""
    _, _, total = model()
    with session(cluster) as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(total)
        cluster.task("worker", 0).restart()
        with check.raises(tf.errors.AbortedError):
            sess.run(total)
    with tf.Session(cluster.target()) as fresh:
        check.equal(fresh.run(total), np.array([4, 6], np.float32))


@program(jobs=JOBS, timeout=240)
def late_start(cluster):
    """A session made while a ps is down waits for it, and then works."""
    _, _, total = model()
    ps = cluster.task("ps", 1)
    ps.kill()
    got = []

    def work():
        with tf.Session(cluster.target(), graph=total.graph) as sess:
            with total.graph.as_default():
                sess.run([v.initializer for v in tf.global_variables()])
            got.append(sess.run(total))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(1)
    check.that(thread.is_alive(), f"the session did not wait: {got}")
    ps.restart()
    thread.join(90)
    check.that(bool(got), "the session still waits")
    check.equal(got[0], np.array([4, 6], np.float32))


@program(jobs=JOBS, timeout=120)
def stopped_and_continued(cluster):
    """A ps is stopped in a step and continued: the step ends well, or as if its task were gone; new sessions work."""
    _, _, total = model()
    ended = []

    def step():
        try:
            ended.append(sess.run(total).tolist())
        except Exception as e:
            ended.append(e)

    with session(cluster) as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(total)
        ps = cluster.task("ps", 1)
        ps.signal(signal.SIGSTOP)
        try:
            thread = threading.Thread(target=step)
            thread.start()
            thread.join(3)
        finally:
            ps.signal(signal.SIGCONT)
        thread.join(60)
    lost = isinstance(ended[0], (tf.errors.UnavailableError, tf.errors.AbortedError))
    check.that(lost or ended == [[4.0, 6.0]], f"{ended}")
    with tf.Session(cluster.target()) as fresh:
        check.equal(fresh.run(total), np.array([4, 6], np.float32))


def wait_in_dequeue(cluster):
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(1, tf.float32, shared_name="orphan")
    with tf.Session(cluster.target()) as sess:
        sess.run(queue.enqueue([1.0]))
        sess.run(tf.group(queue.dequeue(), queue.dequeue()))


@program(jobs=JOBS, timeout=120)
def killed_client(cluster):
    """A client is killed in the middle of a step: the servers serve the next one, and its step takes no more items."""
    client = cluster.client(wait_in_dequeue)
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(1, tf.float32, shared_name="orphan")
        size, item, put = queue.size(), queue.dequeue(), queue.enqueue([5.0])
    with tf.Session(cluster.target()) as sess:
        try:
            sess.run(size)
            check.that(client.process.poll() is None, "the client ended")
        finally:
            client.kill()
    with tf.Session(cluster.target("worker", 1)) as sess:
        deadline = time.monotonic() + 60
        while True:  # an orphan's dequeue may still take items until its step is cancelled
            sess.run(put)
            try:
                check.that(sess.run(item, options=tf.RunOptions(timeout_in_ms=3000)) in (1.0, 5.0), "the item")
                return
            except tf.errors.DeadlineExceededError:
                check.that(time.monotonic() < deadline, "the dead client's step still takes items")


def hold_session(cluster):
    with tf.device("/job:worker/task:0"):
        queue = tf.FIFOQueue(1, tf.float32, shared_name="there")
    sess = tf.Session(cluster.target())
    sess.run(queue.enqueue([1.0]))
    signal.pause()


@program(jobs={"worker": 1}, timeout=120, tutti_flags="--idle-limit=3")
def vanished_client(cluster):
    """A client vanishes between steps: Tutti's server closes its session after --idle-limit, which TensorFlow's keeps."""
    client = cluster.client(hold_session)
    with tf.device("/job:worker/task:0"):
        item = tf.FIFOQueue(1, tf.float32, shared_name="there").dequeue()
    try:
        with tf.Session(cluster.target()) as sess:
            check.equal(sess.run(item), np.float32(1))
    finally:
        client.kill()
    task = cluster.task("worker")
    if task.kind == "tutti":
        wait_until(lambda: "was not used for 3 s and is closed" in task.log(), 60, "the session's end")
    with tf.Session(cluster.target()) as sess:
        check.equal(sess.run(tf.constant(2.0)), np.float32(2))
