"""A script: runs of one graph, one after the other or at the same time, with what TensorFlow answered to each.

Where a case (case.py) trains, a script talks to state: queues, accumulators, tables. It is a folder:
  graph.pb     GraphDef
  script.json  {"name", "tolerance", "actions": [...]}
An action is {"do": "run" | "start" | "wait", "id", "feeds": {tensor: value}, "fetches": [tensors],
"targets": [nodes], "answer": {"values": [...]} or {"code", "message"}, "unordered"}. "start" begins a run that waits
for something, and "wait" gives its answer. "message" is part of the message, or null where only the code
counts. "unordered": the fetches are keys and values, row by row, in any order. A value is {"dtype", "shape",
"data"}, flat.
"""
import json
import os
import shutil
import threading
import time

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

# A run that is started has reached its wait by then, in TensorFlow and in Tutti.
SETTLE_SECONDS = 0.2
NAMES = {"float32": "float", "float64": "double", "float16": "half"}


def encode(array):
    array = np.asarray(array)
    if array.dtype.kind in "OSU":
        data = [x.decode("latin-1") if isinstance(x, bytes) else str(x) for x in array.reshape(-1)]
        return {"dtype": "string", "shape": list(array.shape), "data": data}
    data = array.reshape(-1)
    data = data.astype(np.float32).tolist() if array.dtype == np.float16 else data.tolist()
    return {"dtype": NAMES.get(array.dtype.name, array.dtype.name), "shape": list(array.shape), "data": data}


def cast(value, dtype):
    """As a session converts what it is fed."""
    return np.asarray(value, dtype=object if dtype == tf.string else dtype.as_numpy_dtype)


def message_of(error):
    """The line that the kernel wrote: the one before the first mention of its node."""
    lines = error.message.split("\n")
    for i, line in enumerate(lines):
        if line.strip().startswith("[[{{node"):
            return lines[i - 1].strip()
    return None


class Script:
    def __init__(self, name, tolerance=0.0):
        self.name = name
        self.tolerance = tolerance
        self.actions = []
        self.session = tf1.Session(config=tf1.ConfigProto(inter_op_parallelism_threads=4))
        self.started = {}

    def ask(self, fetches, feeds):
        single = not isinstance(fetches, (list, tuple))
        wanted = [fetches] if single else list(fetches)
        tensors = [t for t in wanted if isinstance(t, tf.Tensor)]
        targets = [t for t in wanted if not isinstance(t, tf.Tensor)]
        action = {"feeds": {t.name: encode(cast(v, t.dtype)) for t, v in feeds.items()}, "fetches": [t.name for t in tensors],
                  "targets": [t.name for t in targets]}

        def answer():
            try:
                values, _ = self.session.run([tensors, targets], feeds)
                return {"values": [encode(v) for v in values]}
            except tf.errors.OpError as error:
                return {"code": error.error_code, "message": message_of(error)}

        return action, answer

    def run(self, fetches, feeds=None, unordered=False, message=True, expect=None):
        """expect: a code, so that a script does not record what it did not mean to."""
        action, answer = self.ask(fetches, feeds or {})
        got = answer()
        if (got.get("code") or 0) != (expect or 0):
            raise ValueError(f"{self.name}: {fetches} {feeds}: TensorFlow answered {got}")
        if not message and "message" in got:
            got["message"] = None
        self.actions.append({"do": "run", **action, "answer": got, "unordered": unordered})
        return got

    def start(self, name, fetches, feeds=None):
        action, answer = self.ask(fetches, feeds or {})
        box = []
        thread = threading.Thread(target=lambda: box.append(answer()))
        thread.start()
        self.started[name] = (thread, box)
        self.actions.append({"do": "start", "id": name, **action})
        time.sleep(SETTLE_SECONDS)

    def wait(self, name, message=True, expect=None):
        thread, box = self.started.pop(name)
        thread.join(timeout=20)
        if not box or (box[0].get("code") or 0) != (expect or 0):
            raise ValueError(f"{self.name}: {name}: TensorFlow answered {box}")
        got = box[0]
        if not message and "message" in got:
            got["message"] = None
        self.actions.append({"do": "wait", "id": name, "answer": got, "unordered": False})

    def write(self, root):
        if self.started:
            raise ValueError(f"{self.name}: {list(self.started)} still wait")
        folder = os.path.join(root, self.name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        with open(os.path.join(folder, "graph.pb"), "wb") as out:
            out.write(self.session.graph.as_graph_def().SerializeToString())
        with open(os.path.join(folder, "script.json"), "w", encoding="utf-8") as out:
            json.dump({"name": self.name, "tolerance": self.tolerance, "actions": self.actions}, out, indent=1)
