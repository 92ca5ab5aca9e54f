"""Wide and deep, with feature columns as people write them: Ftrl for the wide part, Adagrad for the deep part."""
import numpy as np
import tensorflow as tf

from model import Model, rng_for, tf1

BATCH, USERS, ITEMS, TAGS = 32, 1000, 300, 50


def sparse_ids(rng, rows, limit, most):
    """Ids of a bag for each row, some rows empty, as indices, values and shape."""
    counts = rng.integers(0, most + 1, rows)
    indices = [(row, at) for row in range(rows) for at in range(counts[row])]
    return (np.array(indices, np.int64).reshape(-1, 2), rng.integers(0, limit, len(indices)),
            np.array([rows, most], np.int64))


def wide_deep(batch=BATCH):
    columns = tf.feature_column
    rng = rng_for("wide_deep")
    tf1.set_random_seed(7)
    user = tf1.placeholder(tf.int64, [None, 1], "user")
    item = tf1.placeholder(tf.int64, [None, 1], "item")
    price = tf1.placeholder(tf.float32, [None, 3], "price")
    tags = [tf1.placeholder(dtype, shape, f"tags/{part}") for part, dtype, shape in (
        ("indices", tf.int64, [None, 2]), ("values", tf.int64, [None]), ("shape", tf.int64, [2]))]
    weights = tf1.placeholder(tf.float32, [None], "tags/weights")
    label = tf1.placeholder(tf.float32, [None, 1], "label")
    features = {"user": user, "item": item, "price": price, "tags": tf.SparseTensor(*tags),
                "weights": tf.SparseTensor(tags[0], weights, tags[2])}

    by_user = columns.categorical_column_with_identity("user", USERS)
    by_item = columns.categorical_column_with_identity("item", ITEMS, default_value=0)
    by_tag = columns.weighted_categorical_column(columns.categorical_column_with_identity("tags", TAGS), "weights")
    priced = columns.numeric_column("price", shape=(3,), normalizer_fn=lambda x: (x - 0.5) / 2)
    bands = columns.bucketized_column(columns.numeric_column("price", shape=(3,)), [0.2, 0.5, 0.8])
    crossed = columns.crossed_column([by_item, by_tag.categorical_column], 500)

    with tf1.variable_scope("wide"):
        wide = tf1.feature_column.linear_model(features, [by_user, by_item, by_tag, bands, crossed])
    with tf1.variable_scope("deep", partitioner=tf1.fixed_size_partitioner(2)):
        deep = tf1.feature_column.input_layer(features, [
            columns.embedding_column(by_user, 16), columns.embedding_column(by_item, 8, combiner="sqrtn"),
            columns.embedding_column(by_tag, 8, combiner="sum"), columns.indicator_column(by_tag.categorical_column),
            priced])
        for units in (32, 16):
            deep = tf1.layers.dense(deep, units, tf.nn.relu)
        deep = tf1.layers.dense(deep, 1)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=wide + deep))

    gradients, train = [], []
    for scope, optimiser in (("wide", tf1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001)),
                             ("deep", tf1.train.AdagradOptimizer(0.1))):
        pairs = optimiser.compute_gradients(loss, tf1.trainable_variables(scope))
        gradients += [gradient for gradient, _ in pairs if gradient is not None]
        train.append(optimiser.apply_gradients(pairs))
    indices, values, shape = sparse_ids(rng, batch, TAGS, 6)
    feeds = {user: rng.integers(0, USERS, (batch, 1)), item: rng.integers(0, ITEMS, (batch, 1)),
             price: rng.random((batch, 3), np.float32), tags[0]: indices, tags[1]: values, tags[2]: shape,
             weights: rng.random(len(values), np.float32) + 0.5,
             label: rng.integers(0, 2, (batch, 1)).astype(np.float32)}
    return Model("wide_deep", feeds=feeds, loss=loss, gradients=gradients, train=train)


MODELS = {"wide_deep": wide_deep}
