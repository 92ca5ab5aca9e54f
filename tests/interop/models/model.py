"""A model: a graph that real TensorFlow wrote, with one batch, and what TensorFlow gets for it.

A model is a folder:
  graph.pb     GraphDef
  model.json   {"name", "init": [targets], "train": [targets], "feeds": {tensor: file}, "loss": tensor,
                "gradients": [tensors], "fall", "compared", and from evaluate.py "losses", "gradient_files",
                "other_gradient_files", "own_difference"}
  *.npy        arrays
To check it: run `init`; fetch loss and gradients and compare; then run `train` with the loss as often as asked for on
the same batch: the first `compared` losses are TensorFlow's, and the last ones lie below `fall` times the first.
"""
import json
import os
import shutil
import zlib

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def rng_for(name):
    """Numbers that depend on the name only."""
    return np.random.default_rng(zlib.crc32(name.encode()))


class Model:
    """Made inside its graph, once that is complete."""

    def __init__(self, name, *, feeds, loss, gradients, train, fall=0.8, compared=2):
        self.name = name
        self.graph = tf1.get_default_graph()
        self.feeds = feeds  # placeholder -> array
        self.loss = loss
        self.gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]  # also those of some rows
        self.train = train
        self.fall = fall
        self.compared = compared
        self.init = tf.group(tf1.global_variables_initializer(), tf1.tables_initializer(), name="init_all")

    def write(self, root):
        folder = os.path.join(root, self.name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        with open(os.path.join(folder, "graph.pb"), "wb") as out:
            out.write(self.graph.as_graph_def().SerializeToString())
        files = {}
        for i, (tensor, array) in enumerate(self.feeds.items()):
            files[tensor.name] = f"feed_{i}.npy"
            np.save(os.path.join(folder, files[tensor.name]), array)
        description = {
            "name": self.name,
            "init": [self.init.name],
            "train": [op.name for op in self.train],
            "feeds": files,
            "loss": self.loss.name,
            "gradients": [gradient.name for gradient in self.gradients],
            "fall": self.fall,
            "compared": self.compared,
        }
        with open(os.path.join(folder, "model.json"), "w", encoding="utf-8") as out:
            json.dump(description, out, indent=1)
        return folder


def minimised(name, loss, feeds, optimiser, also=(), **options):
    """The model of `loss` over all trainable variables; `also` are run with the step."""
    pairs = optimiser.compute_gradients(loss)
    train = optimiser.apply_gradients(pairs)
    return Model(name, feeds=feeds, loss=loss, gradients=[g for g, _ in pairs if g is not None], train=[train, *also],
                 **options)
