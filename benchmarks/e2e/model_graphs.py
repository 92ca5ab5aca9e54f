"""Writes the graphs of benchmarks/run's models with real TensorFlow: model_graphs.py FOLDER

  resnet50    Keras's, in training mode; 16 images of 64x64, momentum; resnet50_224 with 8 of 224x224
  lstm        text classifier: words of 64 numbers, 40 of them, 128 units by dynamic_rnn, batch 32; Adagrad
  lstm_block  the same by the one op that has the whole sequence, BlockLSTM
  wide_deep   8 fields and a bag of up to 10 out of 100,000 rows each, 16 numbers a row, and 13 plain numbers into a dense
              128-64-1 beside a linear part; batch 256; Adagrad, and Ftrl for the linear part

Each is a folder of graph.pb, the batch as .npy files and model.json, as tests/interop/models/model.py writes them.
"""
import os
import pathlib
import sys
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/interop/models"))

import tensorflow as tf  # noqa: E402  (after the environment)

import convolutional  # noqa: E402
from model import Model, minimised, tf1  # noqa: E402
from model_data import BAG, BATCHES, CLASSES, FIELDS, LENGTH, ROWS, SIDES, UNITS, VOCABULARY, WIDTH, WORD  # noqa: E402
from model_data import text_batch, wide_deep_batch  # noqa: E402


def resnet50(name="resnet50"):
    model = convolutional.resnet50(BATCHES[name], SIDES[name])
    model.name = name
    return model


def resnet50_224():
    return resnet50("resnet50_224")


def text_inputs():
    words, labels = text_batch()
    x, y = tf1.placeholder(tf.int32, words.shape, "words"), tf1.placeholder(tf.int64, labels.shape, "labels")
    table = tf1.get_variable("embedding", [VOCABULARY, WORD], initializer=tf1.random_uniform_initializer(-1, 1))
    return tf.nn.embedding_lookup(table, x), y, {x: words, y: labels}


def text_model(name, state, y, feeds):
    logits = tf1.layers.dense(state, CLASSES)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    return minimised(name, loss, feeds, tf1.train.AdagradOptimizer(0.01))


def lstm():
    embedded, y, feeds = text_inputs()
    _, state = tf1.nn.dynamic_rnn(tf1.nn.rnn_cell.BasicLSTMCell(UNITS), embedded, dtype=tf.float32)
    return text_model("lstm", state.h, y, feeds)


def lstm_block():
    embedded, y, feeds = text_inputs()
    weights = tf1.get_variable("kernel", [WORD + UNITS, 4 * UNITS])
    bias = tf1.get_variable("bias", [4 * UNITS], initializer=tf1.zeros_initializer())
    state, peephole = tf.zeros([BATCHES["lstm"], UNITS]), tf.zeros([UNITS])
    steps = tf.raw_ops.BlockLSTM(seq_len_max=tf.constant(LENGTH, tf.int64), x=tf.transpose(embedded, [1, 0, 2]),
                                 cs_prev=state, h_prev=state, w=weights, wci=peephole, wcf=peephole, wco=peephole, b=bias,
                                 cell_clip=0.0)
    return text_model("lstm_block", steps.h[-1], y, feeds)


def wide_deep():
    arrays = wide_deep_batch()
    ids = tf1.placeholder(tf.int64, arrays["ids"].shape, "ids")
    numbers = tf1.placeholder(tf.float32, arrays["numbers"].shape, "numbers")
    bag_indices = tf1.placeholder(tf.int64, [None, 2], "bag_indices")
    bag_ids = tf1.placeholder(tf.int64, [None], "bag_ids")
    labels = tf1.placeholder(tf.float32, arrays["labels"].shape, "labels")
    bag = tf.SparseTensor(bag_indices, bag_ids, tf.constant([BATCHES["wide_deep"], BAG], tf.int64))
    fields = tf.unstack(ids, axis=1)

    def lookups(width):
        tables = [tf1.get_variable(f"table{i}", [ROWS, width], initializer=tf1.random_uniform_initializer(-0.05, 0.05))
                  for i in range(FIELDS + 1)]
        return [tf.nn.embedding_lookup(t, f) for t, f in zip(tables, fields)] + [
            tf.nn.embedding_lookup_sparse(tables[-1], bag, None, combiner="mean")]

    with tf1.variable_scope("wide"):
        wide = tf.add_n(lookups(1)) + tf1.get_variable("bias", [1], initializer=tf1.zeros_initializer())
    with tf1.variable_scope("deep"):
        deep = tf.concat([*lookups(WIDTH), numbers], 1)
        for units in (128, 64):
            deep = tf1.layers.dense(deep, units, tf.nn.relu)
        deep = tf1.layers.dense(deep, 1)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=wide + deep))
    train = [optimiser.minimize(loss, var_list=tf1.trainable_variables(scope)) for scope, optimiser in (
        ("wide", tf1.train.FtrlOptimizer(0.01)), ("deep", tf1.train.AdagradOptimizer(0.01)))]
    feeds = {ids: arrays["ids"], numbers: arrays["numbers"], bag_indices: arrays["bag_indices"],
             bag_ids: arrays["bag_ids"], labels: arrays["labels"]}
    return Model("wide_deep", feeds=feeds, loss=loss, gradients=[], train=train)


def main():
    root = sys.argv[1]
    tf.get_logger().setLevel("ERROR")
    warnings.simplefilter("ignore")  # v1 is deprecated, and meant
    tf1.disable_v2_behavior()
    tf1.enable_resource_variables()
    for make in (resnet50, resnet50_224, lstm, lstm_block, wide_deep):
        with tf.Graph().as_default():
            tf1.set_random_seed(1)
            make().write(root)
    pathlib.Path(root, "written").touch()


if __name__ == "__main__":
    main()
