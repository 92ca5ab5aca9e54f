"""A small transformer, its attention once through Einsum (Keras's own layer) and once through batched products."""
import numpy as np
import tensorflow as tf

from model import minimised, rng_for, tf1

VOCABULARY, WIDTH, HEADS, DEPTH, LAYERS = 200, 32, 4, 8, 2


def by_products(x, mask):
    """Scores by MatMul on [batch, heads, length, depth]."""
    batch, length = tf.shape(x)[0], x.shape[1]
    projected = tf1.layers.dense(x, 3 * HEADS * DEPTH, use_bias=False)
    parts = tf.split(tf.reshape(projected, [batch, length, HEADS, 3 * DEPTH]), 3, axis=-1)
    query, key, value = (tf.transpose(part, [0, 2, 1, 3]) for part in parts)
    scores = tf.matmul(query, key, transpose_b=True) / np.sqrt(DEPTH).astype("float32")
    scores = tf1.where_v2(mask[:, None], scores, -1e9)
    mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
    return tf1.layers.dense(tf.reshape(mixed, [batch, length, HEADS * DEPTH]), WIDTH)


def by_einsum(x, mask):
    layer = tf.keras.layers.MultiHeadAttention(HEADS, DEPTH)
    return layer(x, x, attention_mask=mask)


def transformer(name, attention, batch=8, length=12):
    """Says the next word of a sequence: causal, with words of padding left out."""
    rng = rng_for(name)
    tf1.set_random_seed(7)
    tf.keras.backend.set_learning_phase(1)
    words = tf1.placeholder(tf.int32, [batch, length + 1], "words")
    inputs, targets = words[:, :-1], words[:, 1:]
    table = tf1.get_variable("embedding", [VOCABULARY, WIDTH])
    places = tf1.get_variable("places", [length, WIDTH])
    x = tf.nn.embedding_lookup(table, inputs) * np.sqrt(WIDTH).astype("float32") + places
    present = tf.not_equal(inputs, 0)
    causal = tf.cast(tf.linalg.band_part(tf.ones([length, length]), -1, 0), tf.bool)
    mask = tf.logical_and(causal[None], present[:, None, :])
    for i in range(LAYERS):
        with tf1.variable_scope(f"layer{i}"):
            x = x + attention(tf.keras.layers.LayerNormalization()(x), mask)
            hidden = tf1.layers.dense(tf.keras.layers.LayerNormalization(epsilon=1e-6)(x), 4 * WIDTH)
            x = x + tf1.layers.dense(tf.nn.gelu(hidden, approximate=i == 1), WIDTH)
    logits = tf.einsum("blw,vw->blv", tf.keras.layers.LayerNormalization()(x), table)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    weights = tf.cast(tf.not_equal(targets, 0), tf.float32)
    loss = tf.reduce_sum(each * weights) / tf.reduce_sum(weights)
    sequences = rng.integers(1, VOCABULARY, (batch, length + 1)).astype(np.int32)
    sequences[::2, -3:] = 0
    return minimised(name, loss, {words: sequences}, tf1.train.AdamOptimizer(0.002))


MODELS = {"transformer_einsum": lambda: transformer("transformer_einsum", by_einsum),
          "transformer_matmul": lambda: transformer("transformer_matmul", by_products)}
