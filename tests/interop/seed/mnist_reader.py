"""What distributed_mnist.py imports in place of what TensorFlow no longer has, and of a server of its own."""
import gzip
import os
import time
from pathlib import Path

import numpy as np


class _Batches:
    """Images and one-hot labels in batches, shuffled anew for each pass."""

    def __init__(self, images, labels, rng):
        self._images, self._labels, self._rng = images, labels, rng
        self._order, self._next = rng.permutation(len(images)), 0

    def next_batch(self, count):
        if self._next + count > len(self._order):
            self._order, self._next = self._rng.permutation(len(self._images)), 0
        rows = self._order[self._next:self._next + count]
        self._next += count
        return self._images[rows], self._labels[rows]


class _DataSets:
    def __init__(self, train):
        self.train = train


def read_idx(path):
    """The array in an IDX file of bytes, gzipped or not."""
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rb") as file:
        data = file.read()
    dims = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(data[3])]
    return np.frombuffer(data, np.uint8, offset=4 + 4 * len(dims)).reshape(dims)


def read_split(name):
    """Pixels in [0, 1] as rows, and classes; from the folder mnist in TUTTI_DATA_DIR."""
    folder = Path(os.environ["TUTTI_DATA_DIR"]) / "mnist"
    images = read_idx(folder / f"{name}-images-idx3-ubyte.gz")
    return images.reshape(len(images), -1).astype(np.float32) / 255, read_idx(folder / f"{name}-labels-idx1-ubyte.gz")


def wait_for_file(path, seconds=120):
    deadline = time.monotonic() + seconds
    while not os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.05)


def read_data_sets(_, one_hot):
    assert one_hot
    # TensorFlow's workers look for what the chief initialises every 30 seconds, in which a fast chief is done alone: this
    # one looks after the chief has begun.
    if "WAIT_FOR_FILE" in os.environ:
        wait_for_file(os.environ["WAIT_FOR_FILE"])
    images, classes = read_split("train")
    rng = np.random.default_rng(int(os.environ.get("WORKER_SEED", "0")))
    return _DataSets(_Batches(images, np.eye(10, dtype=np.int32)[classes], rng))


class RunningServer:
    """Stands for a server that runs already."""

    def __init__(self, address):
        self.target = "grpc://" + address
