"""Embedding bags and feature columns, as TensorFlow's own functions build them, trained."""
import numpy as np
import tensorflow as tf

from case import rng_for, tf1
from training_cases import finish

IDS, WIDTH, ROWS, LONGEST, ENTRIES, STEPS = 40, 6, 8, 5, 17, 20


class Features:
    """Sparse features with the same number of entries in every step, at other places."""

    def __init__(self, name):
        self.rng = rng_for(name)
        self.feeds = {}

    def _feed(self, dtype, arrays, shape):
        tensor = tf1.placeholder(dtype, shape)
        self.feeds[tensor] = np.stack(arrays)
        return tensor

    def places(self):
        total = ROWS * LONGEST
        flat = [np.sort(self.rng.permutation(total)[:ENTRIES]) for _ in range(STEPS)]
        return self._feed(tf.int64, [np.stack(np.unravel_index(f, (ROWS, LONGEST)), -1) for f in flat], [ENTRIES, 2])

    def sparse(self, places, dtype, make):
        values = self._feed(dtype, [make((ENTRIES,)) for _ in range(STEPS)], [ENTRIES])
        return tf.SparseTensor(places, values, [ROWS, LONGEST])

    def ids(self, places, low=0):
        return self.sparse(places, tf.int64, lambda shape: self.rng.integers(low, IDS, shape))

    def weights(self, places):
        return self.sparse(places, tf.float32, lambda shape: self.rng.integers(-2, 9, shape).astype(np.float32) / 4)

    def dense(self, dtype, *shape):
        return self._feed(dtype, list(self.rng.standard_normal((STEPS, ROWS, *shape)).astype(np.float32)),
                          [ROWS, *shape])


def _table(features, parts, use_resource):
    values = features.rng.standard_normal((IDS, WIDTH)).astype(np.float32)

    def initializer(shape, dtype=None, partition_info=None):
        first = partition_info.var_offset[0] if partition_info is not None else 0
        return tf.constant(values[first:first + shape[0]])
    return tf1.get_variable("table", [IDS, WIDTH], tf.float32, initializer=initializer, use_resource=use_resource,
                            partitioner=tf1.fixed_size_partitioner(parts) if parts > 1 else None)


def bags(name, combiner, weighted, parts, use_resource, max_norm):
    with tf.Graph().as_default():
        features = Features(name)
        table = _table(features, parts, use_resource)
        places = features.places()
        ids = features.ids(places, low=-3)
        weights = features.weights(places) if weighted else None
        rows = tf1.nn.safe_embedding_lookup_sparse(table, ids, weights, combiner=combiner, max_norm=max_norm)
        loss = tf.reduce_sum(tf.square(rows - features.dense(tf.float32, WIDTH))) / ROWS
        train = tf1.train.AdagradOptimizer(0.1).minimize(loss)
        return finish(name, loss, train, features.feeds, np.float32, STEPS)


def columns(name):
    with tf.Graph().as_default():
        tf1.set_random_seed(7)
        column, features = tf.feature_column, Features(name)
        numbers = column.numeric_column("numbers", shape=2)
        buckets = column.bucketized_column(numbers, [-1.0, 0.0, 1.0])
        known = column.categorical_column_with_identity("known", IDS)
        hashed = column.categorical_column_with_hash_bucket("hashed", 11, dtype=tf.int64)
        crossed = column.crossed_column([buckets, "known", "hashed"], 50)
        weighted = column.weighted_categorical_column(known, "weights")
        places = features.places()
        inputs = {"numbers": features.dense(tf.float32, 2), "known": features.ids(places),
                  "hashed": features.ids(features.places()), "weights": features.weights(places)}
        deep = [numbers, column.embedding_column(hashed, WIDTH, combiner="sqrtn"), column.indicator_column(known),
                column.indicator_column(crossed), column.embedding_column(weighted, 3)]
        hidden = tf1.feature_column.input_layer(inputs, deep)
        width = int(hidden.shape[1])
        kernel = tf.constant(features.rng.standard_normal((width, 1)).astype(np.float32) * 0.1)
        logits = tf.matmul(hidden, tf1.get_variable("kernel", initializer=kernel))
        logits += tf1.feature_column.linear_model(inputs, [numbers, buckets, hashed, crossed, weighted])
        loss = tf.reduce_mean(tf.square(logits - features.dense(tf.float32, 1)))
        train = tf1.train.FtrlOptimizer(0.1).minimize(loss)
        return finish(name, loss, train, features.feeds, np.float32, STEPS)


def cases():
    for combiner in ("sum", "mean", "sqrtn"):
        for weighted in (False, True):
            for parts in (1, 3):
                kind = f"{combiner}_{'weighted' if weighted else 'plain'}_{parts}"
                yield bags(f"embedding_{kind}", combiner, weighted, parts, use_resource=parts == 1,
                           max_norm=2.0 if combiner == "mean" else None)
    yield columns("embedding_columns")
