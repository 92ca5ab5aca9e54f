"""A case: a graph that real TensorFlow wrote, what to feed it, and what TensorFlow got.

A case is a folder:
  graph.pb     GraphDef
  case.json    {"name", "steps", "init": [targets], "train": [targets], "tolerance",
                "feeds": {tensor: file}, "each": {tensor: file}, "final": {tensor: file},
                "gradients": {"ys": [tensors], "xs": {tensor: file}}}
  *.npy        arrays; those of "feeds", "each" and "gradients" have a leading dimension of `steps`
To check it: where there are `gradients`, which the graph does not have, differentiate; run `init`; then `steps` times feed row t of each feed, run `train` and compare the fetches
of `each` and the gradients with row t; at the end compare the fetches of `final`. `tolerance` is relative to the norm of
the expected array; 0 asks for the same bits.
"""
import json
import os
import shutil
import zlib

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

FLOAT_TOLERANCE = 1e-5
DOUBLE_TOLERANCE = 1e-9


def tolerance_for(dtype):
    return DOUBLE_TOLERANCE if np.dtype(dtype) == np.float64 else FLOAT_TOLERANCE


def rng_for(name):
    """Numbers that depend on the name only."""
    return np.random.default_rng(zlib.crc32(name.encode()))


class Case:
    def __init__(self, name, graph, *, feeds=None, train=(), each=None, final=None, init=None, gradients=((), ()),
                 tolerance, steps=50):
        self.name = name
        self.graph = graph
        self.feeds = feeds or {}  # placeholder -> array [steps, ...]
        self.train = [op.name for op in train]
        self.each = each or []  # tensors
        self.final = final or []  # tensors
        self.init = [init.name] if init is not None else []
        self.ys, self.xs = gradients
        self.tolerance = tolerance
        self.steps = steps

    def run(self):
        """What TensorFlow gets: (list per `each`, then per gradient, list per `final`)."""
        fetches = self.each + self.gradients()
        config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        seen = [[] for _ in fetches]
        with tf1.Session(graph=self.graph, config=config) as session:
            if self.init:
                session.run(self.init)
            for step in range(self.steps):
                feed = {tensor: rows[step] for tensor, rows in self.feeds.items()}
                fetched, _ = session.run([fetches, self.train], feed)
                for values, value in zip(seen, fetched):
                    values.append(value)
            return [np.stack(v) for v in seen], session.run(self.final)

    def gradients(self):
        if not self.xs:
            return []
        with self.graph.as_default():
            return [tf.convert_to_tensor(g) for g in tf.gradients(self.ys, self.xs)]

    def write(self, root):
        folder = os.path.join(root, self.name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        with open(os.path.join(folder, "graph.pb"), "wb") as out:
            out.write(self.graph.as_graph_def().SerializeToString())
        each, final = self.run()
        for values in (*each, *final):
            if np.issubdtype(values.dtype, np.floating) and not np.all(np.isfinite(values)):
                raise ValueError(f"{self.name}: TensorFlow itself got a value that is not finite")

        def save(kind, tensors, arrays):
            files = {}
            for i, (tensor, array) in enumerate(zip(tensors, arrays)):
                files[tensor.name] = f"{kind}_{i}.npy"
                np.save(os.path.join(folder, files[tensor.name]), np.ascontiguousarray(array) if np.ndim(array) else array)
            return files

        description = {
            "name": self.name,
            "steps": self.steps,
            "init": self.init,
            "train": self.train,
            "tolerance": self.tolerance,
            "feeds": save("feed", self.feeds.keys(), self.feeds.values()),
            "each": save("each", self.each, each),
            "final": save("final", self.final, final),
            "gradients": {
                "ys": [y.name for y in self.ys],
                "xs": save("gradient", [getattr(x, "handle", x) for x in self.xs], each[len(self.each):]),
            },
        }
        with open(os.path.join(folder, "case.json"), "w", encoding="utf-8") as out:
            json.dump(description, out, indent=1)
