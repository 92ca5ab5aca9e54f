"""Softmax regression and an MLP with every optimiser, with ref and resource variables, in float and double."""
import numpy as np
import tensorflow as tf

from case import Case, rng_for, tf1, tolerance_for

BATCH, INPUTS, CLASSES = 16, 20, 5

OPTIMISERS = {
    "sgd": lambda: tf1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf1.train.MomentumOptimizer(0.05, 0.9),
    "nesterov": lambda: tf1.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True),
    "adam": lambda: tf1.train.AdamOptimizer(0.01),
    "rmsprop": lambda: tf1.train.RMSPropOptimizer(0.005, decay=0.9, momentum=0.5, epsilon=1e-3),
    "rmsprop_centered": lambda: tf1.train.RMSPropOptimizer(0.005, momentum=0.5, epsilon=1e-2, centered=True),
    "adagrad": lambda: tf1.train.AdagradOptimizer(0.1),
    "ftrl": lambda: tf1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001, l2_regularization_strength=0.01),
    "adadelta": lambda: tf1.train.AdadeltaOptimizer(1.0, rho=0.9, epsilon=1e-3),
}


class Builder:
    """Makes variables with values that depend on the case's name."""

    def __init__(self, name, dtype, use_resource):
        self.rng = rng_for(name)
        self.dtype = np.dtype(dtype)
        self.use_resource = use_resource

    def variable(self, name, shape, scale=0.3):
        value = (self.rng.standard_normal(shape) * scale).astype(self.dtype)
        return tf1.get_variable(name, initializer=tf.constant(value), use_resource=self.use_resource)

    def batches(self, steps, *shape):
        return self.rng.standard_normal((steps, *shape)).astype(self.dtype)

    def labels(self, steps):
        return self.rng.integers(0, CLASSES, (steps, BATCH))


def softmax_regression(b, steps):
    x = tf1.placeholder(b.dtype, [None, INPUTS], "x")
    y = tf1.placeholder(b.dtype, [None, CLASSES], "y")
    logits = tf.matmul(x, b.variable("w", [INPUTS, CLASSES])) + b.variable("b", [CLASSES])
    loss = tf.reduce_mean(tf1.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=logits))
    return loss, {x: b.batches(steps, BATCH, INPUTS), y: np.eye(CLASSES, dtype=b.dtype)[b.labels(steps)]}


def mlp(b, steps):
    x = tf1.placeholder(b.dtype, [None, INPUTS], "x")
    y = tf1.placeholder(tf.int64, [None], "y")
    hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, b.variable("w1", [INPUTS, 16])), b.variable("b1", [16])))
    hidden = tf.nn.relu(tf.matmul(hidden, b.variable("w2", [16, 12])) + b.variable("b2", [12]))
    logits = tf.matmul(hidden, b.variable("w3", [12, CLASSES])) + b.variable("b3", [CLASSES])
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    return loss, {x: b.batches(steps, BATCH, INPUTS), y: b.labels(steps)}


def finish(name, loss, train, feeds, dtype, steps=50, variables=None):
    variables = variables if variables is not None else tf1.global_variables()
    # Reads that are made here, once: a ref variable's own output is a reference, which is not fetched.
    reads = [tf.identity(v, name=f"final_{i}") for i, v in enumerate(variables)]
    return Case(name, tf1.get_default_graph(), feeds=feeds, train=[train], each=[loss], final=reads,
                init=tf1.global_variables_initializer(), tolerance=tolerance_for(dtype), steps=steps)


def variants(name):
    for style in ("ref", "resource"):
        for dtype in ("float32", "float64"):
            yield f"{name}_{style}_{dtype}", np.dtype(dtype), style == "resource"


def optimiser_cases():
    for model in (softmax_regression, mlp):
        for optimiser, make in OPTIMISERS.items():
            for name, dtype, use_resource in variants(f"{model.__name__}_{optimiser}"):
                with tf.Graph().as_default():
                    loss, feeds = model(Builder(name, dtype, use_resource), 50)
                    yield finish(name, loss, make().minimize(loss), feeds, dtype)


def schedule_cases():
    """A global step, a decaying learning rate and gradients clipped by their global norm."""
    for name, dtype, use_resource in variants("mlp_clip_decay"):
        with tf.Graph().as_default():
            loss, feeds = mlp(Builder(name, dtype, use_resource), 50)
            step = tf1.get_variable("global_step", [], tf.int64, tf1.zeros_initializer(), trainable=False,
                                    use_resource=use_resource)
            rate = tf1.train.exponential_decay(0.2, step, decay_steps=10, decay_rate=0.7, staircase=True)
            optimiser = tf1.train.MomentumOptimizer(rate, 0.9)
            gradients, variables = zip(*optimiser.compute_gradients(loss))
            clipped, _ = tf.clip_by_global_norm(gradients, 0.5)
            train = optimiser.apply_gradients(zip(clipped, variables), global_step=step)
            yield finish(name, loss, train, feeds, dtype)


def embedding_cases():
    """Rows of a table: the gradient is IndexedSlices, with repeated rows."""
    for optimiser in ("sgd", "momentum", "adam", "adagrad"):
        for name, dtype, use_resource in variants(f"embedding_{optimiser}"):
            with tf.Graph().as_default():
                b = Builder(name, dtype, use_resource)
                ids = tf1.placeholder(tf.int32, [None, 4], "ids")
                y = tf1.placeholder(tf.int64, [None], "y")
                rows = tf.nn.embedding_lookup(b.variable("table", [30, 8]), ids)
                logits = tf.matmul(tf.reduce_mean(rows, 1), b.variable("w", [8, CLASSES]))
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
                feeds = {ids: b.rng.integers(0, 30, (50, BATCH, 4)).astype(np.int32), y: b.labels(50)}
                yield finish(name, loss, OPTIMISERS[optimiser]().minimize(loss), feeds, dtype)


def layer_cases():
    """As people write it: tf.layers with its own random initial weights, dropout, accuracy."""
    for name, dtype, use_resource in variants("layers_mlp_random"):
        with tf.Graph().as_default():
            tf1.set_random_seed(7)
            b = Builder(name, dtype, use_resource)
            x = tf1.placeholder(dtype, [None, INPUTS], "x")
            y = tf1.placeholder(tf.int64, [None], "y")
            with tf1.variable_scope("net", use_resource=use_resource):
                hidden = tf1.layers.dense(x, 16, tf.nn.relu)
                hidden = tf1.layers.dense(hidden, 16, tf.tanh)
                hidden = tf1.nn.dropout(hidden, rate=0.25)
                logits = tf1.layers.dense(hidden, CLASSES)
            loss = tf1.losses.sparse_softmax_cross_entropy(y, logits)
            train = tf1.train.AdamOptimizer(0.01).minimize(loss)
            yield finish(name, loss, train, {x: b.batches(50, BATCH, INPUTS), y: b.labels(50)}, dtype)


def cases():
    yield from optimiser_cases()
    yield from schedule_cases()
    yield from embedding_cases()
    yield from layer_cases()
