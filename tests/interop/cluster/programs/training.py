"""Training on a cluster gives what it gives in one process."""
import numpy as np
import tensorflow.compat.v1 as tf

from programs import check
from registry import program

OPTIMISERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(1.0),
    "adam": lambda: tf.train.AdamOptimizer(0.01),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.01, momentum=0.5),
    "centred_rmsprop": lambda: tf.train.RMSPropOptimizer(0.01, centered=True),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.01),
    "proximal_sgd": lambda: tf.train.ProximalGradientDescentOptimizer(0.1, 0.01, 0.01),
    "proximal_adagrad": lambda: tf.train.ProximalAdagradOptimizer(0.1, l1_regularization_strength=0.01),
}
STEPS = 5


def train(target, optimiser, use_resource, devices):
    """The loss of each step and the weights after the last; the model has a dense part and an embedding."""
    rng = np.random.default_rng(11)
    at = (lambda name: tf.device(name)) if devices else (lambda name: tf.device(None))

    def variable(name, *shape):
        value = rng.normal(0, 0.5, shape).astype(np.float32)
        return tf.get_variable(name, initializer=value, use_resource=use_resource)

    with at("/job:ps/task:0"):
        embedding, w1 = variable("embedding", 6, 4), variable("w1", 4, 5)
    with at("/job:ps/task:1"):
        b1, w2 = variable("b1", 5), variable("w2", 5, 3)
    with at("/job:worker/task:1"):
        words = tf.placeholder(tf.int32, [None])
        labels = tf.placeholder(tf.int32, [None])
        hidden = tf.nn.relu(tf.matmul(tf.nn.embedding_lookup(embedding, words), w1) + b1)
        logits = tf.matmul(hidden, w2)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels))
        step = OPTIMISERS[optimiser]().minimize(loss)
    losses = []
    with tf.Session(target) as sess:
        sess.run(tf.global_variables_initializer())
        for i in range(STEPS):
            feeds = {words: (np.arange(8) * 3 + i) % 5, labels: (np.arange(8) + i) % 3}
            losses.append(sess.run([loss, step], feeds)[0])
        return losses, sess.run([embedding, w1, b1, w2])


def compare(cluster, use_resource):
    for optimiser in OPTIMISERS:
        results = []
        for target in (cluster.target(), ""):
            with tf.Graph().as_default(), tf.variable_scope(f"{optimiser}_{'resource' if use_resource else 'ref'}"):
                results.append(train(target, optimiser, use_resource, devices=bool(target)))
        (losses, weights), (local_losses, local_weights) = results
        check.close(losses, local_losses, f"{optimiser} losses")
        for got, want in zip(weights, local_weights):
            check.close(got, want, f"{optimiser} weights")


@program(timeout=180)
def training_ref_variables(cluster):
    """Eleven optimisers, reference variables on two ps, gradients (dense and sparse) on a worker: as in one process."""
    compare(cluster, use_resource=False)


@program(timeout=180)
def training_resource_variables(cluster):
    """The same with resource variables."""
    compare(cluster, use_resource=True)


@program(timeout=120)
def training_convolution(cluster):
    """A small convolutional net with batch statistics and dropout off, Adam: as in one process."""
    def build(target, devices):
        rng = np.random.default_rng(12)
        setter = tf.train.replica_device_setter(cluster=cluster.spec, worker_device="/job:worker/task:2")
        with tf.device(setter if devices else None):
            images = tf.placeholder(tf.float32, [None, 8, 8, 1])
            kernel = tf.get_variable("kernel", initializer=rng.normal(0, 0.3, (3, 3, 1, 4)).astype(np.float32))
            scale = tf.get_variable("scale", initializer=np.ones(4, np.float32))
            offset = tf.get_variable("offset", initializer=np.zeros(4, np.float32))
            dense = tf.get_variable("dense", initializer=rng.normal(0, 0.3, (64, 2)).astype(np.float32))
            x = tf.nn.conv2d(images, kernel, strides=1, padding="SAME")
            x, _, _ = tf.nn.fused_batch_norm(x, scale, offset)
            x = tf.nn.max_pool2d(tf.nn.relu(x), 2, 2, "VALID")
            logits = tf.matmul(tf.reshape(x, [-1, 64]), dense)
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(
                logits=logits, labels=tf.one_hot([0, 1, 1, 0], 2)))
            step = tf.train.AdamOptimizer(0.01).minimize(loss)
        data = np.random.default_rng(13).random((4, 8, 8, 1), np.float32)
        with tf.Session(target) as sess:
            sess.run(tf.global_variables_initializer())
            return [sess.run([loss, step], {images: data})[0] for _ in range(STEPS)]

    got = build(cluster.target(), True)
    with tf.Graph().as_default():
        want = build("", False)
    check.close(got, want, "losses", rtol=1e-4)


@program
def training_two_towers(cluster):
    """In-graph replication: two workers' gradients are averaged and applied on the ps."""
    with tf.device("/job:ps/task:0"):
        w = tf.get_variable("w", initializer=[1.0, 2.0])
        step = tf.train.get_or_create_global_step()
        optimiser = tf.train.GradientDescentOptimizer(0.5)
    towers = []
    for i, factor in enumerate((1.0, 3.0)):
        with tf.device(f"/job:worker/task:{i}"):
            towers.append(tf.gradients(tf.reduce_sum(factor * w * w), w)[0])
    with tf.device("/job:ps/task:0"):
        mean = tf.add_n(towers) / 2
        train_op = optimiser.apply_gradients([(mean, w)], global_step=step)
    want = np.array([1.0, 2.0], np.float32)
    with tf.Session(cluster.target()) as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            sess.run(train_op)
            want = want - 0.5 * 4 * want
        check.close(sess.run(w), want)
        check.that(sess.run(step) == 4, "the global step")


@program
def training_partitioned_variable(cluster):
    """A variable cut over two ps, looked up and trained."""
    with tf.device(tf.train.replica_device_setter(cluster=cluster.spec, worker_device="/job:worker/task:0")):
        table = tf.get_variable("table", [10, 4], initializer=tf.ones_initializer(),
                                partitioner=tf.fixed_size_partitioner(2))
        rows = tf.nn.embedding_lookup(table, [0, 5, 9, 5], partition_strategy="div")
        loss = tf.reduce_sum(rows)
        step = tf.train.GradientDescentOptimizer(0.25).minimize(loss)
    want = np.ones((10, 4), np.float32)
    want[[0, 9]], want[5] = 0.75, 0.5
    with tf.Session(cluster.target()) as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(step)
        check.equal(sess.run(tf.convert_to_tensor(table)), want)


@program
def training_random_init(cluster):
    """Seeded initialisers give the numbers of one process; unseeded ones differ."""
    def build(target, devices):
        with tf.device("/job:ps/task:1" if devices else None):
            tf.set_random_seed(42)
            tensors = [tf.random.normal([50], seed=1), tf.random.uniform([50], seed=2),
                       tf.random.truncated_normal([50], seed=3),
                       tf.random.uniform([50], 0, 1000, tf.int32, seed=4), tf.random.shuffle(tf.range(50), seed=5)]
        with tf.Session(target) as sess:
            return [sess.run(tensors) for _ in range(2)]

    got = build(cluster.target(), True)
    with tf.Graph().as_default():
        want = build("", False)
    for a, b in zip(sum(got, []), sum(want, [])):
        check.close(a, b)
    with tf.device("/job:ps/task:0"):
        free = tf.raw_ops.RandomUniform(shape=[4], dtype=tf.float32)
    with tf.Session(cluster.target()) as one, tf.Session(cluster.target()) as two:
        check.that(not np.array_equal(one.run(free), two.run(free)), "unseeded numbers repeat")
