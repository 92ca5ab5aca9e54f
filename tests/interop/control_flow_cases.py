"""tf.cond, tf.while_loop and tf.function, in both generations of control flow, with their gradients."""
import contextlib

import numpy as np
import tensorflow as tf

from case import tf1
from training_cases import Builder, finish

STEPS = 50


@contextlib.contextmanager
def control_flow(version):
    """1: Switch, Merge, Enter, ...; 2: If, While, Case."""
    (tf1.enable_control_flow_v2 if version == 2 else tf1.disable_control_flow_v2)()
    try:
        with tf.Graph().as_default():
            yield
    finally:
        tf1.disable_control_flow_v2()


def variants(name):
    for version in (1, 2):
        for style in ("ref", "resource") if version == 1 else ("resource",):
            for dtype in (np.float32, np.float64):
                full = f"{name}_v{version}_{style}_{np.dtype(dtype).name}"
                with control_flow(version):
                    yield full, np.dtype(dtype), Builder(full, dtype, style == "resource")


def sgd(loss, rate=0.1):
    """A step whose update waits for the loss: TensorFlow reads reference variables where they lie, so an update
    that comes first would show in the loss, or not, as the threads go."""
    optimiser = tf1.train.GradientDescentOptimizer(rate)
    gradients = optimiser.compute_gradients(loss)
    with tf.control_dependencies([loss]):
        return optimiser.apply_gradients(gradients)


def cond_cases():
    for name, dtype, b in variants("cond"):
        x = tf1.placeholder(dtype, [8, 4], "x")
        w, v = b.variable("w", [4, 3]), b.variable("v", [4, 3])
        loss = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.reduce_mean(tf.square(tf.matmul(x, w) - 1)),
                       lambda: tf.reduce_mean(tf.abs(tf.matmul(x, v) * tf.reduce_sum(w))))
        yield finish(name, loss, sgd(loss), {x: b.batches(STEPS, 8, 4)}, dtype)


def nested_cond_cases():
    for name, dtype, b in variants("cond_nested"):
        x = tf1.placeholder(dtype, [6], "x")
        k = tf1.placeholder(tf.int32, [], "k")
        w = b.variable("w", [6])
        inner = lambda: tf.cond(tf.reduce_sum(x) > 0, lambda: tf.reduce_sum(x * w), lambda: tf.reduce_sum(w * w))
        loss = tf.cond(k > 1, inner, lambda: tf.reduce_sum(tf.sigmoid(w - x)))
        feeds = {x: b.batches(STEPS, 6), k: b.rng.integers(0, 4, STEPS).astype(np.int32)}
        yield finish(name, loss, sgd(loss, 0.05), feeds, dtype)


def while_cases():
    """A recurrence whose length is fed, differently each step."""
    for name, dtype, b in variants("while"):
        x = tf1.placeholder(dtype, [4, 5], "x")
        n = tf1.placeholder(tf.int32, [], "n")
        w, u = b.variable("w", [5, 5], 0.5), b.variable("u", [5])
        _, h = tf1.while_loop(lambda i, h: i < n, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w) + x * u)),
                              [tf.constant(0), tf.zeros_like(x)])
        loss = tf.reduce_mean(tf.square(h - 0.5))
        feeds = {x: b.batches(STEPS, 4, 5), n: b.rng.integers(0, 7, STEPS).astype(np.int32)}
        yield finish(name, loss, sgd(loss), feeds, dtype)


def nested_while_cases():
    for name, dtype, b in variants("while_nested"):
        x = tf1.placeholder(dtype, [3], "x")
        n = tf1.placeholder(tf.int32, [], "n")
        w = b.variable("w", [3])

        def outer(i, h):
            _, h = tf1.while_loop(lambda j, _: j < i, lambda j, h: (j + 1, tf.sin(h * w) + x), [tf.constant(0), h])
            return i + 1, h

        _, h = tf1.while_loop(lambda i, _: i < n, outer, [tf.constant(0), x])
        loss = tf.reduce_sum(tf.square(h))
        feeds = {x: b.batches(STEPS, 3), n: b.rng.integers(0, 5, STEPS).astype(np.int32)}
        yield finish(name, loss, sgd(loss, 0.01), feeds, dtype)


def cond_in_while_cases():
    for name, dtype, b in variants("while_cond"):
        x = tf1.placeholder(dtype, [4], "x")
        w = b.variable("w", [4])

        def body(i, h):
            h = tf.cond(tf.equal(i % 2, 0), lambda: h * w, lambda: tf.tanh(h) + x)
            return i + 1, h

        _, h = tf1.while_loop(lambda i, _: i < 5, body, [tf.constant(0), tf.ones_like(x)])
        loss = tf.reduce_mean(tf.square(h - 1))
        yield finish(name, loss, sgd(loss, 0.05), {x: b.batches(STEPS, 4)}, dtype)


def switch_case_cases():
    for dtype in (np.float32, np.float64):
        name = f"switch_case_{np.dtype(dtype).name}"
        with control_flow(2):
            b = Builder(name, dtype, True)
            x = tf1.placeholder(dtype, [4], "x")
            k = tf1.placeholder(tf.int32, [], "k")
            w = b.variable("w", [4])
            loss = tf.switch_case(k, [lambda: tf.reduce_sum(x * w), lambda: tf.reduce_sum(tf.exp(-w * w)),
                                      lambda: tf.reduce_sum(tf.square(w - x))])
            # 3 and -1 are out of range and mean the last branch.
            feeds = {x: b.batches(STEPS, 4), k: b.rng.integers(-1, 4, STEPS).astype(np.int32)}
            yield finish(name, loss, sgd(loss, 0.05), feeds, dtype)


def function_cases():
    for dtype in (np.float32, np.float64):
        name = f"function_pure_{np.dtype(dtype).name}"
        with control_flow(2):
            b = Builder(name, dtype, True)
            x = tf1.placeholder(dtype, [8, 4], "x")
            w, v = b.variable("w", [4, 4]), b.variable("v", [4, 4])

            @tf.function
            def layer(h, w):
                return tf.tanh(tf.matmul(h, w)), tf.reduce_sum(w * w)

            h, penalty = layer(x, w)
            h, other = layer(h, v)
            loss = tf.reduce_mean(tf.square(h - 0.2)) + 0.01 * (penalty + other)
            yield finish(name, loss, sgd(loss), {x: b.batches(STEPS, 8, 4)}, dtype)

        name = f"function_captures_{np.dtype(dtype).name}"
        with control_flow(2):
            b = Builder(name, dtype, True)
            x = tf1.placeholder(dtype, [8, 4], "x")
            w, calls = b.variable("w", [4, 4]), tf1.get_variable("calls", [], dtype, tf1.zeros_initializer(),
                                                                  trainable=False, use_resource=True)

            @tf.function
            def loss_of(x):
                calls.assign_add(1.0)
                h = x
                for _ in tf.range(3):
                    h = tf.tanh(tf.matmul(h, w))
                if tf.reduce_mean(h) > 0:
                    h = h * 2
                return tf.reduce_mean(tf.square(h - 0.2))

            loss = loss_of(x)
            yield finish(name, loss, sgd(loss), {x: b.batches(STEPS, 8, 4)}, dtype)


def cases():
    yield from cond_cases()
    yield from nested_cond_cases()
    yield from while_cases()
    yield from nested_while_cases()
    yield from cond_in_while_cases()
    yield from switch_case_cases()
    yield from function_cases()
