"""Between-graph replication: every worker has its own client process."""
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

from programs import check
from registry import program

# The chief's thread that waits for gradients never ends by itself; by default its session waits two minutes for it.
GRACE_SECONDS = 3


def linear(spec, worker):
    """A linear model on the ps, worked on by one worker; each has data of its own."""
    rng = np.random.default_rng(100 + worker)
    with tf.device(tf.train.replica_device_setter(worker_device=f"/job:worker/task:{worker}", cluster=spec)):
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
        b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
        x = tf.constant(rng.normal(size=(32, 3)).astype(np.float32))
        labels = tf.matmul(x, tf.constant([[1.0], [2.0], [-3.0]])) + 0.5
        return step, w, b, tf.reduce_mean(tf.square(tf.matmul(x, w) + b - labels))


def asynchronous_worker(cluster, worker, last_step, folder):
    step, w, b, loss = linear(cluster.spec, worker)
    with tf.device(tf.train.replica_device_setter(worker_device=f"/job:worker/task:{worker}", cluster=cluster.spec)):
        train = tf.train.AdamOptimizer(0.05).minimize(loss, global_step=step)
    steps, losses = [], []
    config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{worker}"])
    with tf.train.MonitoredTrainingSession(
            master=cluster.target("worker", worker), is_chief=worker == 0, checkpoint_dir=folder, config=config,
            hooks=[tf.train.StopAtStepHook(last_step=last_step)], save_checkpoint_steps=100,
            save_summaries_steps=50) as sess:
        while not sess.should_stop():
            _, value, at = sess.run([train, loss, step])
            steps.append(int(at))
            losses.append(float(value))
    return {"steps": steps, "losses": losses}


@program(jobs={"ps": 2, "worker": 2}, timeout=240)
def monitored_asynchronous(cluster):
    """MonitoredTrainingSession, a chief and a worker, asynchronous Adam: the loss falls, checkpoints lie there."""
    with tempfile.TemporaryDirectory() as folder:
        clients = [cluster.client(asynchronous_worker, i, 400, folder) for i in range(2)]
        try:
            results = [c.result(200) for c in clients]
        finally:
            for c in clients:
                c.kill()
        for i, r in enumerate(results):
            steps = r["steps"]
            check.that(len(steps) > 0 and steps == sorted(steps), f"steps of worker {i}: {steps[:10]}")
        check.that(max(max(r["steps"]) for r in results) >= 399, "the last step")
        check.that(results[0]["losses"][-1] < 0.1 * results[0]["losses"][0], f"losses {results[0]['losses'][::50]}")
        checkpoint = tf.train.latest_checkpoint(folder)
        check.that(tf.train.load_variable(checkpoint, "global_step") >= 400, f"the checkpoint {checkpoint}")
        check.close(tf.train.load_variable(checkpoint, "w").reshape(-1), [1, 2, -3], atol=0.5)


def synchronous_worker(cluster, worker, last_step):
    step, w, b, loss = linear(cluster.spec, worker)
    with tf.device(tf.train.replica_device_setter(worker_device=f"/job:worker/task:{worker}", cluster=cluster.spec)):
        optimiser = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), replicas_to_aggregate=2,
                                                   total_num_replicas=2)
        train = optimiser.minimize(loss, global_step=step)
        hook = optimiser.make_session_run_hook(worker == 0, num_tokens=0)
    with tf.train.MonitoredTrainingSession(master=cluster.target("worker", worker), is_chief=worker == 0,
                                           hooks=[hook, tf.train.StopAtStepHook(last_step=last_step)],
                                           stop_grace_period_secs=GRACE_SECONDS) as sess:
        seen = []
        while not sess.should_stop():
            _, at = sess.run([train, step])
            seen.append(int(at))
    return seen


def averaged_descent(steps):
    """The weights that gradient descent on both workers' data gives, computed by hand."""
    w, b = np.zeros((3, 1)), np.zeros(1)
    data = [np.random.default_rng(100 + i).normal(size=(32, 3)).astype(np.float32) for i in range(2)]
    for _ in range(steps):
        gradients = []
        for x in data:
            error = x @ w + b - (x @ np.array([[1.0], [2.0], [-3.0]]) + 0.5)
            gradients.append((2 * x.T @ error / len(x), 2 * error.mean(0)))
        w, b = w - 0.1 * (gradients[0][0] + gradients[1][0]) / 2, b - 0.1 * (gradients[0][1] + gradients[1][1]) / 2
    return w, b


@program(jobs={"ps": 2, "worker": 2}, timeout=240)
def sync_replicas(cluster):
    """SyncReplicasOptimizer with two worker processes: updates are means of two gradients, mostly one of each worker."""
    clients = [cluster.client(synchronous_worker, i, 20) for i in range(2)]
    try:
        results = [c.result(200) for c in clients]
    finally:
        for c in clients:
            c.kill()
    check.that(all(max(r) >= 19 for r in results), f"steps {results}")
    with tf.Graph().as_default():  # names as the workers have them
        step, w, b, _ = linear(cluster.spec, 0)
        with tf.Session(cluster.target()) as sess:
            steps, *got = sess.run([step, w, b])
    want = averaged_descent(steps)
    check.that(steps >= 20, f"{steps} steps")
    # Tokens belong to nobody: now and then one worker gives both gradients of an update, which moves the weights a
    # little. Sums in place of means, or the gradients of one worker alone, move them by more than this.
    check.close(got[0], want[0], "w", rtol=0, atol=0.04)
    check.close(got[1], want[1], "b", rtol=0, atol=0.04)


def dense(inputs, units, activation):
    """tf.layers.dense, where the client still has it."""
    try:
        return tf.layers.dense(inputs, units, activation=activation)
    except (AttributeError, ImportError):
        with tf.variable_scope(None, "dense"):
            w = tf.get_variable("kernel", [int(inputs.shape[1]), units])
            b = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        outputs = tf.matmul(inputs, w) + b
        return outputs if activation is None else activation(outputs)


def digits(rng, count):
    """Ten blurred patterns of 784 pixels, one a class."""
    patterns = np.random.default_rng(0).random((10, 784)) > 0.5
    classes = rng.integers(0, 10, count)
    images = 0.7 * patterns[classes] + 0.3 * rng.random((count, 784))
    return images.astype(np.float32), np.eye(10, dtype=np.int32)[classes]


def mnist_worker(cluster, worker, is_sync, last_step, folder):
    """The seed's worker. It returns the steps that it saw and the loss at each."""
    rng = np.random.default_rng(worker)
    with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % worker, cluster=cluster.spec)):
        images = tf.placeholder(tf.float32, [None, 784])
        labels = tf.placeholder(tf.int32, [None, 10])
        net = dense(images, 500, tf.nn.relu)
        net = dense(net, 500, tf.nn.relu)
        logits = dense(net, 10, None)
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(logits=logits, labels=labels))
        hooks = [tf.train.StopAtStepHook(last_step=last_step)]
        global_step = tf.train.get_or_create_global_step()
        optimizer = tf.train.AdamOptimizer(learning_rate=1e-04)
        if is_sync:
            optimizer = tf.train.SyncReplicasOptimizer(optimizer, replicas_to_aggregate=2, total_num_replicas=2)
            hooks.append(optimizer.make_session_run_hook(worker == 0))
        train_op = optimizer.minimize(loss, global_step=global_step, aggregation_method=tf.AggregationMethod.ADD_N)
    seen = []
    with tf.train.MonitoredTrainingSession(master=cluster.target("worker", worker), is_chief=worker == 0,
                                           checkpoint_dir=folder, hooks=hooks,
                                           stop_grace_period_secs=GRACE_SECONDS) as mon_sess:
        while not mon_sess.should_stop():
            img_batch, label_batch = digits(rng, 32)
            _, ls, step = mon_sess.run([train_op, loss, global_step],
                                       feed_dict={images: img_batch, labels: label_batch})
            seen.append((int(step), float(ls)))
    return seen


def train_mnist(cluster, is_sync, last_step):
    with tempfile.TemporaryDirectory() as folder:
        clients = [cluster.client(mnist_worker, i, is_sync, last_step, folder) for i in range(2)]
        try:
            results = [c.result(280) for c in clients]
        finally:
            for c in clients:
                c.kill()
        check.that(tf.train.load_variable(folder, "global_step") >= last_step, "the checkpoint")
    for seen in results:
        check.that(seen == sorted(seen, key=lambda s: s[0]), f"steps go back: {seen}")
    losses = [loss for _, loss in sorted(results[0] + results[1])]
    check.that(np.mean(losses[-10:]) < 0.5 * np.mean(losses[:3]), f"losses {losses[::20]}")
    return results


@program(jobs={"ps": 2, "worker": 2}, timeout=300, rows="C9 (short)")
def seed_mnist_asynchronous(cluster):
    """784-500-500-10, Adam, two ps and two workers: 200 asynchronous steps, the loss falls."""
    train_mnist(cluster, is_sync=False, last_step=200)


@program(jobs={"ps": 2, "worker": 2}, timeout=300, rows="C10 (short)")
def seed_mnist_synchronous(cluster):
    """The same with SyncReplicasOptimizer: 60 steps, both workers take part."""
    results = train_mnist(cluster, is_sync=True, last_step=60)
    check.that(all(results), "a worker made no step")


@program(jobs={"ps": 1, "worker": 1}, timeout=240)
def monitored_recovers(cluster):
    """MonitoredTrainingSession makes a new session and restores its checkpoint after the ps was restarted."""
    with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default():
        step, _, _, loss = linear(cluster.spec, 0)
        with tf.device("/job:ps/task:0"):
            train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        with tf.train.MonitoredTrainingSession(master=cluster.target(), checkpoint_dir=folder, save_checkpoint_steps=10,
                                               save_summaries_steps=None, save_summaries_secs=None) as sess:
            for _ in range(25):
                sess.run(train)
            cluster.task("ps", 0).restart()
            at = [int(sess.run([train, step])[1]) for _ in range(5)]
        check.that(10 <= at[0] <= 26, f"the steps after the restart: {at}")


@program(jobs={"ps": 1, "worker": 1}, timeout=120)
def supervisor(cluster):
    """tf.train.Supervisor, what came before MonitoredTrainingSession: initialises, trains, saves, restores."""
    with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default():
        step, _, _, loss = linear(cluster.spec, 0)
        with tf.device("/job:ps/task:0"):
            train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        manager = tf.train.Supervisor(is_chief=True, logdir=folder, global_step=step, save_model_secs=0,
                                      save_summaries_secs=0)
        with manager.managed_session(cluster.target()) as sess:
            losses = [sess.run([loss, train])[0] for _ in range(30)]
            manager.saver.save(sess, manager.save_path, global_step=step)
        check.that(losses[-1] < 0.2 * losses[0], f"losses {losses[::10]}")
        check.that(tf.train.load_variable(folder, "global_step") == 30, "the checkpoint")
