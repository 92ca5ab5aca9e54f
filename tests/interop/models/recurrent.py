"""Text classifiers: an embedding, a recurrent network, a dense layer."""
import numpy as np
import tensorflow as tf

from model import minimised, rng_for, tf1

VOCABULARY, WIDTH, UNITS, CLASSES = 500, 32, 48, 4


def text(name, batch, length):
    """Placeholders of words, lengths and labels with a batch for them."""
    rng = rng_for(name)
    words = tf1.placeholder(tf.int32, [None, length], "words")
    lengths = tf1.placeholder(tf.int32, [None], "lengths")
    labels = tf1.placeholder(tf.int64, [None], "labels")
    feeds = {words: rng.integers(1, VOCABULARY, (batch, length)).astype(np.int32),
             lengths: rng.integers(length // 3, length + 1, batch).astype(np.int32),
             labels: rng.integers(0, CLASSES, batch)}
    return words, lengths, labels, feeds


def classified(name, state, labels, feeds, optimiser):
    logits = tf1.layers.dense(state, CLASSES)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    return minimised(name, loss, feeds, optimiser)


def embedded(words):
    table = tf1.get_variable("embedding", [VOCABULARY, WIDTH], initializer=tf1.random_uniform_initializer(-1, 1))
    return tf.nn.embedding_lookup(table, words)


def lstm_classifier(batch=16, length=20):
    """Two layers by dynamic_rnn: v1 loops, TensorArrays, stacks."""
    tf1.set_random_seed(7)
    words, lengths, labels, feeds = text("lstm_classifier", batch, length)
    cells = tf1.nn.rnn_cell.MultiRNNCell([tf1.nn.rnn_cell.BasicLSTMCell(UNITS), tf1.nn.rnn_cell.LSTMCell(
        UNITS, use_peepholes=True, cell_clip=5.0, num_proj=24)])
    _, state = tf1.nn.dynamic_rnn(cells, embedded(words), sequence_length=lengths, dtype=tf.float32)
    return classified("lstm_classifier", state[-1].h, labels, feeds, tf1.train.AdamOptimizer(0.01))


def gru_bidirectional(batch=16, length=20):
    """Both ways, through ReverseSequence; gradients clipped by their global norm."""
    tf1.set_random_seed(7)
    words, lengths, labels, feeds = text("gru_bidirectional", batch, length)
    outputs, states = tf1.nn.bidirectional_dynamic_rnn(
        tf1.nn.rnn_cell.GRUCell(UNITS), tf1.nn.rnn_cell.GRUCell(UNITS), embedded(words), sequence_length=lengths,
        dtype=tf.float32)
    pooled = tf.reduce_max(tf.concat(outputs, -1), 1)
    return classified("gru_bidirectional", tf.concat([pooled, *states], -1), labels, feeds,
                      tf1.train.RMSPropOptimizer(0.01))


def keras_recurrent(name, make, batch=16, length=20):
    """Keras layers: lists and While, in functions that name what they implement."""
    tf1.set_random_seed(7)
    words, _, labels, feeds = text(name, batch, length)
    feeds[words][:, length - 5:] *= np.arange(batch)[:, None] % 2 == 0  # half of the rows end in padding
    tf.keras.backend.set_learning_phase(1)
    inputs = tf.keras.layers.Input(tensor=words)
    hidden = tf.keras.layers.Embedding(VOCABULARY, WIDTH, mask_zero=True)(inputs)
    return classified(name, make()(hidden), labels, {k: v for k, v in feeds.items() if "lengths" not in k.name},
                      tf1.train.AdamOptimizer(0.01))


def keras_lstm():
    return keras_recurrent("keras_lstm", lambda: tf.keras.layers.LSTM(UNITS))


def keras_gru():
    return keras_recurrent("keras_gru", lambda: tf.keras.layers.Bidirectional(tf.keras.layers.GRU(UNITS)))


MODELS = {"lstm_classifier": lstm_classifier, "gru_bidirectional": gru_bidirectional}
# Those that want functional control flow and version 2 of Keras's layers.
FUNCTIONAL = {"keras_lstm": keras_lstm, "keras_gru": keras_gru}
