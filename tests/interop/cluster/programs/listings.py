"""The seeds' own listings."""
import numpy as np
import tensorflow.compat.v1 as tf

from programs import check
from registry import program


def three_tasks(target):
    with tf.device("/job:ps/task:0"):
        x = tf.Variable(tf.ones([2, 2]))
        y = tf.Variable(tf.ones([2, 2]))

    with tf.device("/job:worker/task:0"):
        z = tf.matmul(x, y) + x
        first = z

    with tf.device("/job:worker/task:1"):
        z = tf.matmul(z, x) + x

    with tf.Session(target) as sess:
        sess.run(tf.global_variables_initializer())
        val = sess.run(z)
        print(val)
        check.equal(val, np.full((2, 2), 7, np.float32), "z")
        check.equal(sess.run(first), np.full((2, 2), 3, np.float32), "the first z")


@program(rows="A1, C2, C6")
def seed_three_tasks(cluster):
    """The client of three tasks: prints 7s."""
    three_tasks(cluster.target("worker", 0))


@program(rows="C6")
def seed_other_master(cluster):
    """The same through the masters of a parameter server and of a worker that the graph does not use."""
    three_tasks(cluster.target("ps", 1))
    with tf.Graph().as_default(), tf.variable_scope("seed_other_master_2"):
        three_tasks(cluster.target("worker", 2))


@program(rows="C6")
def seed_localhost(cluster):
    """The same with the master named as the listing does: grpc://localhost:PORT."""
    three_tasks(cluster.target("worker", 0).replace("127.0.0.1", "localhost"))


@program(jobs={"ps": 1, "worker": 2}, how="hosts", rows="C5")
def seed_flags(cluster):
    """Servers started by --ps_hosts, --worker_hosts, --job_name and --task_index."""
    three_tasks(cluster.target("worker", 0))


@program(jobs={"ps": 1, "worker": 2}, how="tf_config", rows="D1")
def seed_tf_config(cluster):
    """Servers started with TF_CONFIG in the environment."""
    three_tasks(cluster.target("worker", 1))


@program(rows="C1")
def seed_list_devices(cluster):
    """list_devices names every task's CPU, from any master; incarnations differ."""
    want = {f"/job:{job}/replica:0/task:{i}/device:CPU:0"
            for job, tasks in cluster.spec.items() for i in range(len(tasks))}
    for job in cluster.spec:
        with tf.Session(cluster.target(job, 0)) as sess:
            devices = sess.list_devices()
            cpus = {d.name: d for d in devices if d.device_type == "CPU"}
            check.that(set(cpus) == want, f"devices {sorted(d.name for d in devices)}")
            incarnations = {d.incarnation for d in cpus.values()}
            check.that(len(incarnations) == len(want) and 0 not in incarnations, f"incarnations {incarnations}")
            check.that(all(d.memory_limit_bytes > 0 for d in cpus.values()), "memory limits")


@program(timeout=180, rows="C3, C4")
def seed_two_ps_training(cluster):
    """Variables on two parameter servers, layers on a worker, 10,000 train steps on a grpc target."""
    rng = np.random.default_rng(3)
    with tf.device("/job:ps/task:0"):
        weights_1 = tf.Variable(rng.normal(0, 0.3, (4, 8)).astype(np.float32))
        biases_1 = tf.Variable(tf.zeros([8]))
    with tf.device("/job:ps/task:1"):
        weights_2 = tf.Variable(rng.normal(0, 0.3, (8, 1)).astype(np.float32))
        biases_2 = tf.Variable(tf.zeros([1]))
    with tf.device("/job:worker/task:2"):
        inputs = tf.constant(rng.normal(size=(16, 4)).astype(np.float32))
        labels = tf.reduce_sum(inputs, 1, keepdims=True)
        layer_1 = tf.nn.tanh(tf.matmul(inputs, weights_1) + biases_1)
        logits = tf.matmul(layer_1, weights_2) + biases_2
        loss = tf.reduce_mean(tf.square(logits - labels))
        train_op = tf.train.GradientDescentOptimizer(0.02).minimize(loss)
    with tf.Session(cluster.target("worker", 2)) as sess:
        sess.run(tf.global_variables_initializer())
        first = sess.run(loss)
        for _ in range(10000):
            sess.run(train_op)
        last = sess.run(loss)
    check.that(last < 0.02 * first, f"the loss went from {first} to {last}")


@program(rows="C7")
def seed_replica_device_setter(cluster):
    """replica_device_setter puts v1, v2, v3 on ps 0, 1, 0 and the work on the own worker; the run follows it."""
    with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:1", cluster=cluster.spec)):
        v1 = tf.Variable(tf.ones([2]), name="v1")
        v2 = tf.Variable(tf.fill([2], 2.0), name="v2")
        v3 = tf.Variable(tf.fill([2], 3.0), name="v3")
        total = tf.add_n([v1, v2, v3], name="total")
    check.that([v.device for v in (v1, v2, v3)] == ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0"], "devices")
    metadata = tf.RunMetadata()
    with tf.Session(cluster.target("worker", 1)) as sess:
        sess.run(tf.global_variables_initializer())
        check.equal(sess.run(total, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata),
                    np.full(2, 6, np.float32))
    ran = {node.node_name: device.device for device in metadata.step_stats.dev_stats for node in device.node_stats}
    where = [device for name, device in ran.items() if name.endswith("/total")]
    check.that(where and all(d.startswith("/job:worker/replica:0/task:1/") for d in where), f"total ran on {where}")


@program(rows="C8")
def seed_greedy_load_balancing(cluster):
    """A greedy strategy by bytes in replica_device_setter; the variables are made and read where it says."""
    loads = [0] * len(cluster.spec["ps"])

    def least_loaded(op):
        task = loads.index(min(loads))
        loads[task] += op.outputs[0].shape.num_elements() * op.outputs[0].dtype.size
        return task

    sizes = [1000, 10, 10, 980, 500, 500]
    with tf.device(tf.train.replica_device_setter(cluster=cluster.spec, ps_strategy=least_loaded)):
        variables = [tf.Variable(tf.fill([n], float(n)), use_resource=False) for n in sizes]
    check.that(max(loads) - min(loads) <= 40, f"loads {loads}")
    with tf.Session(cluster.target()) as sess:
        sess.run(tf.global_variables_initializer())
        for n, value in zip(sizes, sess.run(variables)):
            check.equal(value, np.full(n, n, np.float32))
