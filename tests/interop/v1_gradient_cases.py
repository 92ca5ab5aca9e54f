"""v1 conditionals and loops of which TensorFlow writes the forward graph only: Tutti differentiates it."""
import numpy as np
import tensorflow as tf

from case import Case, tf1, tolerance_for
from control_flow_cases import control_flow
from training_cases import Builder

STEPS = 12
DTYPE = np.dtype(np.float64)


def counts(b, low, high):
    return b.rng.integers(low, high, STEPS).astype(np.int32)


def cond(x, k, w, v):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.square(tf.matmul(x, w) - 1), lambda: tf.matmul(tf.tanh(x), v))


def cond_one_side(x, k, w, v):
    y = tf.cond(k > 2, lambda: tf.reduce_sum(tf.matmul(x, w)), lambda: tf.constant(3.0, DTYPE))
    return y * tf.reduce_sum(x * v[0])


def cond_nested(x, k, w, v):
    inner = lambda: tf.cond(tf.reduce_sum(x) > 0, lambda: tf.reduce_sum(tf.matmul(x, w)), lambda: tf.reduce_sum(w * w))
    return tf.cond(k > 2, inner, lambda: tf.reduce_sum(tf.sigmoid(w - v) * x[0]))


def case(x, k, w, v):
    return tf1.case([(k < 1, lambda: tf.matmul(x, w)), (k < 3, lambda: tf.sin(tf.matmul(x, v)))],
                    default=lambda: tf.matmul(x, w * v))


def assertion(x, k, w, v):
    with tf.control_dependencies([tf1.assert_less(k, 100), tf1.assert_greater(k, -1)]):
        return tf.matmul(tf.identity(x), w + v)


def loop(x, k, w, v):
    return tf1.while_loop(lambda i, h: i < k, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w) + x * v[1])),
                          [tf.constant(0), x], parallel_iterations=3)[1]


def loop_maximum(x, k, w, v):
    return tf1.while_loop(lambda h, s: tf.reduce_sum(h * h) < 100, lambda h, s: [h * 1.5 + s, s * w[0]], [x, x * v[0]],
                          maximum_iterations=4)[0]


def loop_nested(x, k, w, v):
    def body(i, h):
        inner = tf1.while_loop(lambda j, g: j < i + 1, lambda j, g: (j + 1, tf.sin(tf.matmul(g, w)) + h),
                               [tf.constant(0), h * v[0]])
        return i + 1, inner[1] * 0.5

    return tf1.while_loop(lambda i, h: i < k, body, [tf.constant(0), x])[1]


def loop_of_cond(x, k, w, v):
    def body(i, h):
        nested = lambda: tf.cond(tf.equal(i % 3, 2), lambda: tf.sin(h) * v[0], lambda: h + x)
        return i + 1, tf.cond(tf.equal(i % 3, 0), lambda: tf.matmul(h, w), nested)

    return tf1.while_loop(lambda i, h: i < k, body, [tf.constant(0), x])[1]


def cond_of_loop(x, k, w, v):
    run = lambda: tf1.while_loop(lambda i, h: i < k, lambda i, h: (i + 1, tf.sin(tf.matmul(h, w))), [tf.constant(0), x])
    return tf.cond(tf.reduce_sum(x) > 0, lambda: run()[1], lambda: x * v[1])


def loop_of_cond_of_loop(x, k, w, v):
    def body(i, h):
        inner = lambda: tf1.while_loop(lambda j, g: j < i, lambda j, g: (j + 1, tf.tanh(tf.matmul(g, w))),
                                       [tf.constant(0), h])[1]
        return i + 1, tf.cond(tf.equal(i % 2, 1), inner, lambda: h * v[0] + x)

    return tf1.while_loop(lambda i, h: i < k, body, [tf.constant(0), x])[1]


def growing(x, k, w, v):
    h = tf1.while_loop(lambda i, h: i < k, lambda i, h: (i + 1, tf.concat([h * v[0], tf.matmul(x, w)], 0)),
                       [tf.constant(0), x], [tf.TensorShape([]), tf.TensorShape([None, 4])])[1]
    return tf.reduce_sum(tf.sin(h))


def array(x, k, w, v):
    rows = tf.TensorArray(DTYPE, 5, clear_after_read=False).unstack(x)
    out = tf.TensorArray(DTYPE, k, element_shape=[4])
    out = tf1.while_loop(lambda i, h, a: i < k,
                         lambda i, h, a: (i + 1, tf.sin(h * v[0] + rows.read(i % 5)), a.write(i, h)),
                         [tf.constant(0), w[0], out])[2].stack()
    return tf.reduce_sum(out * tf.exp(out))


def mapped(x, k, w, v):
    return tf1.map_fn(lambda row: tf.sin(row * w[1]) * tf.reduce_sum(row * v[1]), x)


def scanned(x, k, w, v):
    return tf1.scan(lambda a, row: tf.tanh(a * w[0] + row), x, initializer=v[1])


def mapped_scans(x, k, w, v):
    return tf1.map_fn(lambda row: tf1.foldl(lambda a, e: tf.sin(a * e) + w[2], row, initializer=v[0]), x)


def rows_of_table(x, k, w, v):
    """Once at least: TensorFlow loses the table's shape otherwise."""
    return tf1.while_loop(lambda i, h: i <= k, lambda i, h: (i + 1, h * tf.gather(w, i % 4) + tf.gather(v, [i % 2, 1])),
                          [tf.constant(0), x[:2]])[1]


def lstm(x, k, w, v):
    sequence = tf.reshape(tf.concat([x, tf.matmul(x, w), tf.matmul(x, v)], 0), [3, 5, 4])
    cell = tf1.nn.rnn_cell.LSTMCell(3, initializer=tf1.random_uniform_initializer(-0.5, 0.5, seed=5, dtype=DTYPE),
                                    dtype=DTYPE)
    outputs, state = tf1.nn.dynamic_rnn(cell, sequence, tf.minimum([k, 5, 2], 5), dtype=DTYPE)
    return tf.reduce_sum(outputs * outputs) + tf.reduce_sum(state.c * state.h)


MODELS = (cond, cond_one_side, cond_nested, case, assertion, loop, loop_maximum, loop_nested, loop_of_cond, cond_of_loop,
          loop_of_cond_of_loop, growing, array, mapped, scanned, mapped_scans, rows_of_table, lstm)


def cases():
    for model in MODELS:
        for style in ("ref", "resource"):
            name = f"v1_gradient_{model.__name__}_{style}"
            with control_flow(1):
                b = Builder(name, DTYPE, style == "resource")
                x = tf1.placeholder(DTYPE, [5, 4], "x")
                k = tf1.placeholder(tf.int32, [], "k")
                w, v = b.variable("w", [4, 4]), b.variable("v", [4, 4])
                y = model(x, k, w, v)
                variables = [w, v] if style == "resource" else [w._ref(), v._ref()]
                yield Case(name, tf1.get_default_graph(), feeds={x: b.batches(STEPS, 5, 4), k: counts(b, 0, 6)},
                           each=[y], gradients=([y], [x, *variables]), init=tf1.global_variables_initializer(),
                           tolerance=tolerance_for(DTYPE), steps=STEPS)
