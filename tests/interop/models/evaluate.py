"""What TensorFlow gets for the models in a folder, as its environment has it: evaluate.py ROOT on|off

on: with oneDNN; writes losses and gradients down. off: without, run after it; writes its gradients down, and how
far they lie from the others: the difference that TensorFlow itself shows.
"""
import json
import os
import sys

ROOT, ONEDNN = sys.argv[1], sys.argv[2]
os.environ["TF_ENABLE_ONEDNN_OPTS"] = {"on": "1", "off": "0"}[ONEDNN]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np  # noqa: E402  (after the environment)
import tensorflow as tf  # noqa: E402

tf1 = tf.compat.v1


def run(folder, model):
    """Loss before each of the steps that are compared and the gradients before the first."""
    graph = tf.Graph()
    with graph.as_default():
        definition = tf1.GraphDef()
        with open(os.path.join(folder, "graph.pb"), "rb") as file:
            definition.ParseFromString(file.read())
        tf.import_graph_def(definition, name="")
    feeds = {tensor: np.load(os.path.join(folder, file)) for tensor, file in model["feeds"].items()}
    with tf1.Session(graph=graph, config=tf1.ConfigProto(intra_op_parallelism_threads=1)) as session:
        session.run(model["init"])
        gradients = session.run(model["gradients"], feeds)
        losses = [float(session.run([model["loss"], model["train"]], feeds)[0]) for _ in range(model["compared"])]
    return losses, gradients


def distance(got, expected):
    """Of all gradients together, relative to the norm of the expected ones."""
    square = sum(float(np.sum(np.square(e, dtype=np.float64))) for e in expected)
    return (sum(float(np.sum(np.square(g.astype(np.float64) - e))) for g, e in zip(got, expected)) / square) ** 0.5


def evaluate(folder):
    path = os.path.join(folder, "model.json")
    with open(path, encoding="utf-8") as file:
        model = json.load(file)
    losses, gradients = run(folder, model)
    if not all(np.all(np.isfinite(g)) for g in gradients):
        raise ValueError(f"{model['name']}: TensorFlow itself got a gradient that is not finite")
    files = [f"gradient_{i}_{ONEDNN}.npy" for i in range(len(gradients))]
    for file, gradient in zip(files, gradients):
        np.save(os.path.join(folder, file), gradient)
    if ONEDNN == "on":
        model.update(losses=losses, gradient_files=files)
    else:
        expected = [np.load(os.path.join(folder, file)) for file in model["gradient_files"]]
        model.update(own_difference=distance(gradients, expected), other_gradient_files=files)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(model, file, indent=1)


if __name__ == "__main__":
    for name in sorted(os.listdir(ROOT)):
        if os.path.isdir(os.path.join(ROOT, name)):
            evaluate(os.path.join(ROOT, name))
