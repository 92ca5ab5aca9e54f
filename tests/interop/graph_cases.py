"""Small graphs run in TensorFlow and, by graph_runner, in Tutti; results and errors side by side."""
import os
import shutil
import subprocess

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

tf1 = tf.compat.v1


class Failure:
    """How a run failed: TensorFlow's code and the message."""

    def __init__(self, code, message):
        self.code = code
        self.message = message

    def __repr__(self):
        return f"error {self.code}: {self.message}"


class GraphCase:
    def __init__(self, name, build, message="", compare=None):
        """`build` makes the graph and gives the tensors (or ops) to run; `message`: a part of the error that both must
        show; `compare(theirs, ours)` returns what differs, or None, in place of equality."""
        self.name = name
        self.build = build
        self.message = message
        self.compare = compare
        self.theirs = None
        self.ours = None

    def run_theirs(self, folder):
        with tf.Graph().as_default() as graph:
            fetches = self.build()
            fetches = list(fetches) if isinstance(fetches, (list, tuple)) else [fetches]
            names = [f.name for f in fetches]
            tensors = [f for f in fetches if isinstance(f, tf.Tensor)]
            os.makedirs(folder)
            with open(os.path.join(folder, "graph.pb"), "wb") as out:
                out.write(graph.as_graph_def().SerializeToString())
            with open(os.path.join(folder, "fetches.txt"), "w", encoding="utf-8") as out:
                out.write("\n".join(names))
            try:
                with tf1.Session(graph=graph) as session:
                    results, _ = session.run([tensors, [f for f in fetches if not isinstance(f, tf.Tensor)]])
                self.theirs = [np.array(r, object if isinstance(r, bytes) else None) for r in results]
            except tf.errors.OpError as error:
                self.theirs = Failure(error.error_code, error.message)

    def read_ours(self, folder):
        error = os.path.join(folder, "error.txt")
        if os.path.exists(error):
            with open(error, encoding="utf-8", errors="replace") as file:
                code, message = file.read().split("\n", 1)
            self.ours = Failure(int(code), message)
            return
        self.ours = []
        while os.path.exists(path := os.path.join(folder, f"{len(self.ours)}.pb")):
            with open(path, "rb") as file:
                self.ours.append(tf.make_ndarray(tensor_pb2.TensorProto.FromString(file.read())))

    def difference(self):
        theirs, ours = self.theirs, self.ours
        if isinstance(theirs, Failure) or isinstance(ours, Failure):
            if not (isinstance(theirs, Failure) and isinstance(ours, Failure)):
                return f"TensorFlow gives {theirs!r:.300}, Tutti {ours!r:.300}"
            if theirs.code != ours.code:
                return f"TensorFlow fails with {theirs!r:.300}, Tutti with {ours!r:.300}"
            for side, failure in (("TensorFlow", theirs), ("Tutti", ours)):
                if self.message not in failure.message:
                    return f"{side}'s message lacks {self.message!r}: {failure.message:.300}"
            return None
        if len(theirs) != len(ours):
            return f"TensorFlow has {len(theirs)} results, Tutti {len(ours)}"
        for i, (a, b) in enumerate(zip(theirs, ours)):
            found = self.compare(a, b) if self.compare else unequal(a, b)
            if found:
                return f"output {i}: {found}"
        return None


def bits(array):
    return array.view(np.uint8) if array.dtype != object and array.size else array


def unequal(theirs, ours):
    """Exact: type, shape and every element (NaN equals NaN)."""
    if theirs.dtype != ours.dtype or theirs.shape != ours.shape:
        return f"TensorFlow has {theirs.dtype}{theirs.shape}, Tutti {ours.dtype}{ours.shape}"
    same = np.array_equal(theirs, ours) if theirs.dtype == object else np.array_equal(
        theirs, ours, equal_nan=theirs.dtype.kind in "fc")
    return None if same else f"TensorFlow has {theirs!r:.300}, Tutti {ours!r:.300}"


def close(tolerance):
    """Norm-relative."""

    def compare(theirs, ours):
        if theirs.dtype != ours.dtype or theirs.shape != ours.shape:
            return unequal(theirs, ours)
        a, b = theirs.astype(np.complex128), ours.astype(np.complex128)
        if np.linalg.norm(a - b) <= tolerance * max(np.linalg.norm(a), 1e-30):
            return None
        return f"TensorFlow has {theirs!r:.300}, Tutti {ours!r:.300}"

    return compare


def check(cases, runner, folder, what):
    """Runs and compares all; prints differences and a summary; the exit status."""
    shutil.rmtree(folder, ignore_errors=True)
    for i, case in enumerate(cases):
        case.run_theirs(os.path.join(folder, f"{i:05}"))
    subprocess.run([runner, folder], check=True, timeout=600)
    failed = 0
    for i, case in enumerate(cases):
        case.read_ours(os.path.join(folder, f"{i:05}"))
        found = case.difference()
        if found:
            print(f"FAIL {case.name}: {found}")
            failed += 1
    print(f"{what}: {len(cases)} graphs, {failed} differences from TensorFlow {tf.__version__}")
    return 1 if failed or not cases else 0
