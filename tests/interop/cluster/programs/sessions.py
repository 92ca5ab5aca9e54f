"""What a session is: its graph grows, its state may be its own, others run beside it."""
import os
import tempfile
import threading

import numpy as np
import tensorflow.compat.v1 as tf

from programs import check
from registry import program


@program
def session_extend(cluster):
    """Nodes, devices and functions added between runs."""
    with tf.device("/job:ps/task:0"):
        x = tf.constant([1.0, 2.0])
    with tf.Session(cluster.target()) as sess:
        want = np.array([1, 2], np.float32)
        check.equal(sess.run(x), want)
        for i in range(6):
            with tf.device(f"/job:worker/task:{i % 3}"):
                x = x * 2
            want = want * 2
            check.equal(sess.run(x), want)
        v = tf.get_variable("late", initializer=[1.0, 1.0])
        sess.run(v.initializer)
        twice = tf.function(lambda t: t * 2)
        check.equal(sess.run(twice(x) + v), want * 2 + 1)
        thrice = tf.function(lambda t: t * 3)
        check.equal(sess.run(thrice(x)), want * 3)


@program(timeout=120)
def session_threads(cluster):
    """Sixteen threads run steps of one session at once."""
    with tf.device("/job:ps/task:0"):
        total = tf.get_variable("total", initializer=0, use_resource=True)
    with tf.device("/job:worker/task:1"):
        x = tf.placeholder(tf.int32, [])
        y = x * x
        add = total.assign_add(1, use_locking=True)
    failures = []
    with tf.Session(cluster.target()) as sess:
        sess.run(total.initializer)

        def work(start):
            try:
                for i in range(start, start + 40):
                    if sess.run([y, add.op], {x: i})[0] != i * i:
                        failures.append(i)
            except Exception as e:
                failures.append(e)

        threads = [threading.Thread(target=work, args=(100 * t,)) for t in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        check.that(not failures, f"{failures[:3]}")
        check.that(sess.run(total) == 640, f"total {sess.run(total)}")


@program(timeout=120)
def session_many(cluster):
    """Thirty sessions on all masters, open at once, each with its own graph; then closed in another order."""
    sessions = []
    for i in range(30):
        graph = tf.Graph()
        with graph.as_default(), tf.device(f"/job:worker/task:{i % 3}"):
            out = tf.constant(float(i)) + 1
        job, index = (("worker", 0), ("worker", 1), ("ps", 0), ("ps", 1))[i % 4]
        sessions.append((tf.Session(cluster.target(job, index), graph=graph), out, i))
    for _ in range(2):
        for sess, out, i in sessions:
            check.that(sess.run(out) == i + 1, f"session {i}")
    for sess, _, _ in sessions[::2] + sessions[1::2]:
        sess.close()


@program
def session_closed(cluster):
    """A closed session refuses to run; one that never ran closes; targets with no graph run nothing."""
    x = tf.constant(1.0)
    sess = tf.Session(cluster.target())
    sess.close()
    try:
        sess.run(x)
        raise AssertionError("a closed session ran")
    except RuntimeError as e:
        check.that("closed" in str(e), str(e))
    with tf.Session(cluster.target()) as sess:
        check.that(sess.run([]) == [] and sess.run(tf.no_op()) is None, "nothing to run")


@program(jobs={"ps": 1, "worker": 2})
def session_reset(cluster):
    """Session.reset: a named container only, then all; sessions that were open get Aborted."""
    def variable(container):
        with tf.device("/job:ps/task:0"), tf.container(container):
            return tf.get_variable(container or "default", initializer=1.0, use_resource=True)

    kept, dropped = variable(""), variable("box")
    sess = tf.Session(cluster.target())
    sess.run(tf.global_variables_initializer())
    tf.Session.reset(cluster.target(), ["box"])
    with check.raises(tf.errors.AbortedError):
        sess.run(kept)
    with tf.Session(cluster.target()) as sess:
        check.that(sess.run(kept) == 1.0, "the default container")
        with check.raises(tf.errors.FailedPreconditionError):
            sess.run(dropped)
    tf.Session.reset(cluster.target())
    with tf.Session(cluster.target()) as sess:
        with check.raises(tf.errors.FailedPreconditionError):
            sess.run(kept)
        sess.run(kept.initializer)
        check.that(sess.run(kept) == 1.0, "made anew")


@program
def session_isolated(cluster):
    """isolate_session_state: same names, other shapes, gone with their session."""
    config = tf.ConfigProto(isolate_session_state=True)

    def build(shape):
        with tf.device("/job:ps/task:1"):
            return tf.get_variable("mine", initializer=tf.ones(shape))

    graphs = [tf.Graph(), tf.Graph()]
    variables = []
    for graph, shape in zip(graphs, ([2], [3, 3])):
        with graph.as_default():
            variables.append(build(shape))
    one, two = (tf.Session(cluster.target(), graph=g, config=config) for g in graphs)
    one.run(variables[0].initializer)
    with check.raises(tf.errors.FailedPreconditionError):
        two.run(variables[1])
    two.run(variables[1].initializer)
    check.equal(one.run(variables[0]), np.ones(2, np.float32))
    check.equal(two.run(variables[1]), np.ones((3, 3), np.float32))
    one.close()
    two.close()
    with tf.Session(cluster.target(), graph=graphs[0], config=config) as sess:
        with check.raises(tf.errors.FailedPreconditionError):
            sess.run(variables[0])


@program(jobs={"ps": 1, "worker": 3})
def session_device_filters(cluster):
    """device_filters hide tasks: they may be down, are not listed, and cannot be used."""
    cluster.task("worker", 2).kill()
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:0"])
    with tf.device("/job:ps/task:0"):
        seen = tf.constant(1.0) + 1
    with tf.Session(cluster.target(), config=config) as sess:
        names = sorted(d.name for d in sess.list_devices() if d.device_type == "CPU")
        check.that(names == ["/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU:0"],
                   f"devices {names}")
        check.that(sess.run(seen) == 2.0, "a task that it sees")
        with tf.device("/job:worker/task:1"):
            hidden = tf.constant(1.0) + 2
        with check.raises(tf.errors.InvalidArgumentError):
            sess.run(hidden)


@program
def session_config(cluster):
    """Options that people set: log_device_placement, optimiser levels, threads, inter-op pools, run options."""
    config = tf.ConfigProto(log_device_placement=True, allow_soft_placement=True, inter_op_parallelism_threads=2,
                            intra_op_parallelism_threads=1)
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.gpu_options.allow_growth = True
    with tf.device("/job:ps/task:0"):
        x = tf.constant(2.0) * 3
    options = tf.RunOptions(inter_op_thread_pool=0, report_tensor_allocations_upon_oom=True)
    with tf.Session(cluster.target(), config=config) as sess:
        check.that(sess.run(x, options=options) == 6.0, "x")


@program
def session_control_dependencies(cluster):
    """Control edges between tasks keep their order: a read after a write elsewhere."""
    with tf.device("/job:ps/task:0"):
        a = tf.get_variable("a", initializer=1.0, use_resource=True)
    with tf.device("/job:worker/task:1"):
        x = tf.placeholder(tf.float32, [])
        write = tf.assign(a, x * 10)
        with tf.control_dependencies([write]):
            with tf.device("/job:worker/task:2"):
                gate = tf.no_op()
        with tf.control_dependencies([gate]):
            read = a.read_value()
    with tf.Session(cluster.target()) as sess:
        sess.run(a.initializer)
        for i in range(20):
            check.that(sess.run(read, {x: float(i)}) == 10.0 * i, f"round {i}")


@program(timeout=120)
def session_saver(cluster):
    """Saver through the cluster: one file and sharded; restored by another session and read by TensorFlow itself."""
    with tempfile.TemporaryDirectory() as folder:
        with tf.device(tf.train.replica_device_setter(cluster=cluster.spec, worker_device="/job:worker/task:0")):
            ref = tf.get_variable("ref", initializer=np.arange(6, dtype=np.float32).reshape(2, 3), use_resource=False)
            resource = tf.get_variable("resource", initializer=np.arange(5), use_resource=True)
            cut = tf.get_variable("cut", [8], tf.float64, tf.ones_initializer(),
                                  partitioner=tf.fixed_size_partitioner(2))
            reset = [tf.assign(ref, ref * 0), tf.assign(resource, resource * 0)] + [tf.assign(p, p * 0) for p in cut]
            savers = {"one": tf.train.Saver(), "sharded": tf.train.Saver(sharded=True)}
        wanted = {"ref": np.arange(6, dtype=np.float32).reshape(2, 3), "resource": np.arange(5),
                  "cut": np.ones(8)}
        for name, saver in savers.items():
            with tf.Session(cluster.target()) as sess:
                sess.run(tf.global_variables_initializer())
                path = saver.save(sess, os.path.join(folder, name), global_step=7)
                sess.run(reset)
            with tf.Session(cluster.target("worker", 1)) as sess:
                saver.restore(sess, tf.train.latest_checkpoint(folder))
                got = sess.run([ref, resource, tf.convert_to_tensor(cut)])
            for value, (key, want) in zip(got, wanted.items()):
                check.equal(value, want, f"{name} {key}")
            reader = tf.train.NewCheckpointReader(path)
            for key, want in wanted.items():
                check.equal(reader.get_tensor(f"session_saver/{key}"), want, f"{name} {key} by a reader")


@program(timeout=120)
def session_meta_graph(cluster):
    """A meta graph written by one client and imported by another graph: restored and run on the cluster."""
    with tempfile.TemporaryDirectory() as folder:
        with tf.device("/job:ps/task:0"):
            w = tf.get_variable("w", initializer=[[2.0]])
            x = tf.placeholder(tf.float32, [None, 1], name="x")
        with tf.device("/job:worker/task:1"):
            tf.matmul(x, w, name="y")
        saver = tf.train.Saver()
        with tf.Session(cluster.target()) as sess:
            sess.run(w.initializer)
            path = saver.save(sess, os.path.join(folder, "model"))
        with tf.Graph().as_default(), tf.Session(cluster.target("worker", 1)) as sess:
            tf.train.import_meta_graph(path + ".meta").restore(sess, path)
            got = sess.run("session_meta_graph/y:0", {"session_meta_graph/x:0": [[4.0]]})
            check.equal(got, np.array([[8]], np.float32))
