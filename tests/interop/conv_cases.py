"""Convolutions, pools and normalisations: values and gradients, over paddings, strides, dilations and formats; and
whole networks of them."""
import itertools

import numpy as np
import tensorflow as tf

from case import Case, rng_for, tolerance_for

tf1 = tf.compat.v1

STEPS = 2
PADDINGS = {"SAME": "SAME", "VALID": "VALID", "EXPLICIT": [[0, 0], [1, 2], [0, 1], [0, 0]]}


def four(pair, first):
    return [1, 1, *pair] if first else [1, *pair, 1]


def explicit(padding, first):
    """The paddings attribute in the order of the format."""
    if isinstance(padding, str):
        return padding
    return [padding[0], padding[3], padding[1], padding[2]] if first else padding


class Graph:
    """One case: many nodes over the same fed images, each with a random projection so that gradients differ."""

    def __init__(self, name, dtype, batch=2):
        self.name, self.dtype, self.batch = name, np.dtype(dtype), batch
        self.rng = rng_for(name)
        self.feeds, self.fetches = {}, []

    def fed(self, shape):
        x = tf1.placeholder(self.dtype, [None, *shape[1:]])
        self.feeds[x] = self.rng.standard_normal((STEPS, *shape)).astype(self.dtype)
        return x

    def constant(self, shape):
        return tf.constant(self.rng.standard_normal(shape).astype(self.dtype))

    def add(self, y, xs=()):
        """Fetches y and the gradients of a function of it; not of its squares, whose sum normalising keeps."""
        self.fetches.append(y)
        if not xs:
            return
        loss = tf.reduce_sum(y * y * y + 3 * y)
        self.fetches += [g for g in tf1.gradients(loss, list(xs)) if g is not None]

    def case(self, tolerance=None):
        wide = [tf.cast(t, tf.float32) if t.dtype in (tf.float16, tf.bfloat16) else t for t in self.fetches]
        return Case(self.name, tf1.get_default_graph(), feeds=self.feeds, each=[tf.identity(t) for t in wide],
                    tolerance=tolerance or tolerance_for(self.dtype), steps=STEPS)


def build(name, dtype, fill, batch=2, tolerance=None):
    with tf.Graph().as_default():
        graph = Graph(name, dtype, batch)
        fill(graph)
        return graph.case(tolerance)


def windows(first, dilations):
    for (kind, padding), strides, dilation in itertools.product(
            PADDINGS.items(), ((1, 1), (2, 1), (2, 3)), ((1, 1), (2, 1)) if dilations else ((1, 1),)):
        if dilation != (1, 1) and strides != (1, 1):
            continue
        yield kind, explicit(padding, first), four(strides, first), four(dilation, first)


def convolutions(first, gradients, dilations, groups=1):
    def fill(graph):
        shape = (graph.batch, 4 * groups, 9, 8) if first else (graph.batch, 9, 8, 4 * groups)
        x, filters = graph.fed(shape), graph.constant((3, 2, 4, 6 * groups))
        for kind, padding, strides, dilation in windows(first, dilations):
            y = tf.nn.conv2d(x, filters, strides, padding, "NCHW" if first else "NHWC", dilation)
            # TensorFlow's CPU kernels refuse the gradient of these.
            refused = kind == "EXPLICIT" and (first or max(dilation) > 1)
            graph.add(y, (x, filters) if gradients and not refused else ())
    return fill


def second_derivatives(graph):
    """Of convolutions: their gradients have gradients."""
    x, filters = graph.fed((graph.batch, 6, 6, 3)), graph.constant((3, 3, 3, 4))
    y = tf.nn.conv2d(x, filters, [1, 2, 2, 1], "SAME")
    dx, dw = tf1.gradients(tf.reduce_sum(y * y * y), [x, filters])
    graph.add(tf.concat([tf.reshape(dx, [-1]), tf.reshape(dw, [-1])], 0), (x, filters))
    pooled = tf.nn.avg_pool2d(x * x, 2, 2, "SAME")
    graph.add(tf1.gradients(tf.reduce_sum(pooled ** 3), [x])[0], (x,))
    largest = tf.nn.max_pool2d(x, 2, 2, "VALID")
    graph.add(tf1.gradients(tf.reduce_sum(largest ** 3), [x])[0], (x,))


def depthwise(graph):
    x, filters = graph.fed((graph.batch, 9, 8, 5)), graph.constant((3, 2, 5, 2))
    for kind, padding, strides, _ in windows(False, False):
        if strides[1] == strides[2] and kind != "EXPLICIT":
            # Of an empty batch TensorFlow leaves the filter's gradient unset.
            graph.add(tf.nn.depthwise_conv2d(x, filters, strides, padding), (x, filters) if graph.batch else (x,))


def transposed(graph):
    x, filters = graph.fed((graph.batch, 5, 4, 3)), graph.constant((3, 2, 6, 3))
    graph.add(tf.nn.conv2d_transpose(x, filters, [graph.batch, 10, 8, 6], [1, 2, 2, 1], "SAME"), (x, filters))
    graph.add(tf.nn.conv2d_transpose(x, filters, [graph.batch, 7, 5, 6], 1, "VALID"), (x, filters))


def pools(graph):
    """In NHWC only: TensorFlow's NCHW pools on the CPU disagree with its own NHWC ones; drawn/rewrites.py has those."""
    x = graph.fed((graph.batch, 9, 8, 5))
    tied = tf.cast(tf.round(x), x.dtype)  # whole numbers tie
    for padding, size, strides in itertools.product(("SAME", "VALID"), ((2, 2), (3, 2)), ((2, 2), (1, 3))):
        attrs = (four(size, False), four(strides, False), padding)
        graph.add(tf.nn.max_pool2d(x, *attrs), (x,))
        graph.add(tf.nn.max_pool2d(tied, *attrs), (tied,))
        graph.add(tf.nn.avg_pool2d(x, *attrs), (x,))
    graph.add(tf.nn.max_pool2d(x, 3, 2, [[0, 0], [1, 2], [0, 1], [0, 0]]), (x,))
    graph.add(tf1.nn.max_pool_v2(x, [1, 1, 1, 5], [1, 1, 1, 5], "VALID"))


def argmax_pools(graph):
    x = graph.fed((graph.batch, 7, 6, 3))
    for padding, with_batch in itertools.product(("SAME", "VALID"), (False, True)):
        y, places = tf.nn.max_pool_with_argmax(tf.round(2 * x), 2, 2, padding, include_batch_in_index=with_batch)
        graph.add(places)
        y, places = tf.nn.max_pool_with_argmax(x, 3, 2, padding, include_batch_in_index=with_batch)
        graph.add(places)
        graph.add(y, (x,))


def batch_norms(first):
    def fill(graph):
        x = graph.fed((graph.batch, 4, 5, 3) if first else (graph.batch, 5, 3, 4))
        scale, offset = (tf.constant(graph.rng.standard_normal(4).astype(np.float32)) for _ in range(2))
        mean = tf.constant(graph.rng.standard_normal(4).astype(np.float32))
        variance = tf.constant(graph.rng.random(4).astype(np.float32) + 0.2)
        form = "NCHW" if first else "NHWC"
        y, m, v = tf1.nn.fused_batch_norm(x, scale, offset, epsilon=0.01, data_format=form)
        graph.add(y, (x, scale, offset))
        graph.fetches += [m, v]
        y, m, v = tf1.nn.fused_batch_norm(x, scale, offset, mean, variance, 0.01, form, True,
                                          exponential_avg_factor=0.3)
        graph.add(y)
        graph.fetches += [m, v]
        y, m, v = tf1.nn.fused_batch_norm(x, scale, offset, mean, variance, 0.01, form, False)
        graph.add(y, (x, scale, offset))
        graph.fetches += [m, v]
    return fill


def lrn(graph):
    x = graph.fed((graph.batch, 3, 2, 9))
    graph.add(tf.nn.lrn(x, 2, 1.5, 0.3, 0.75), (x,))


def op_cases():
    yield build("conv_nhwc_float32", "float32", convolutions(False, True, False))
    yield build("conv_nhwc_float64", "float64", convolutions(False, True, False))
    yield build("conv_nhwc_float16", "float16", convolutions(False, True, False), tolerance=1e-2)
    yield build("conv_nhwc_dilated_float32", "float32", convolutions(False, True, True))
    yield build("conv_nhwc_dilated_float64", "float64", convolutions(False, False, True))
    yield build("conv_nhwc_grouped_float32", "float32", convolutions(False, False, True, groups=2))
    yield build("conv_nchw_float32", "float32", convolutions(True, True, True))
    yield build("conv_nhwc_empty_float64", "float64", convolutions(False, True, False), batch=0)
    for dtype in ("float32", "float64"):
        yield build(f"conv_second_derivatives_{dtype}", dtype, second_derivatives)
        yield build(f"conv_transposed_{dtype}", dtype, transposed)
        yield build(f"depthwise_{dtype}", dtype, depthwise)
        yield build(f"pool_argmax_{dtype}", dtype, argmax_pools)
        yield build(f"pool_nhwc_{dtype}", dtype, pools)
    yield build("depthwise_empty_float64", "float64", depthwise, batch=0)
    yield build("pool_nhwc_float16", "float16", pools, tolerance=1e-2)
    yield build("pool_nhwc_empty_float64", "float64", pools, batch=0)
    for first in (False, True):
        yield build(f"batch_norm_{'nchw' if first else 'nhwc'}_float32", "float32", batch_norms(first))
    yield build("batch_norm_nhwc_float16", "float16", batch_norms(False), tolerance=1e-2)
    yield build("lrn_float32", "float32", lrn)


BATCH, STEPS_OF_TRAINING = 8, 20


def lenet(x, resource, batch_norm):
    """Two convolutions with pools, two dense layers. Where there is batch normalisation, nothing has a kink: a value
    within rounding of it takes another way here than there, and the two networks part."""
    with tf1.variable_scope("net", use_resource=resource):
        # Normalising takes a bias out again: its gradient would be rounding alone.
        x = tf1.layers.conv2d(x, 6, 5, padding="same", use_bias=not batch_norm,
                              activation=None if batch_norm else tf.nn.relu)
        if batch_norm:
            x = tf.tanh(tf1.layers.batch_normalization(x, training=True, momentum=0.9))
        pool = tf1.layers.average_pooling2d if batch_norm else tf1.layers.max_pooling2d
        activation = tf.tanh if batch_norm else tf.nn.relu
        x = pool(x, 2, 2)
        x = pool(tf1.layers.conv2d(x, 16, 5, activation=activation), 2, 2)
        x = tf1.layers.dense(tf1.layers.flatten(x), 84, activation)
        return tf1.layers.dense(x, 10)


def network_cases():
    optimisers = {"sgd": lambda: tf1.train.GradientDescentOptimizer(0.01), "adam": lambda: tf1.train.AdamOptimizer(1e-3)}
    for (kind, make), resource, batch_norm in itertools.product(optimisers.items(), (False, True), (False, True)):
        name = f"lenet_{'norm_' if batch_norm else ''}{kind}_{'resource' if resource else 'ref'}"
        with tf.Graph().as_default():
            tf1.set_random_seed(11)
            rng = rng_for(name)
            x, y = tf1.placeholder(tf.float32, [None, 28, 28, 1]), tf1.placeholder(tf.int64, [None])
            loss = tf1.losses.sparse_softmax_cross_entropy(y, lenet(x, resource, batch_norm))
            with tf.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
                train = make().minimize(loss)
            feeds = {x: rng.random((STEPS_OF_TRAINING, BATCH, 28, 28, 1), np.float32),
                     y: rng.integers(0, 10, (STEPS_OF_TRAINING, BATCH))}
            final = [tf.identity(v) for v in tf1.global_variables()]
            yield Case(name, tf1.get_default_graph(), feeds=feeds, train=[train], each=[loss], final=final,
                       init=tf1.global_variables_initializer(), tolerance=1e-4, steps=STEPS_OF_TRAINING)


def cases():
    yield from op_cases()
    yield from network_cases()
