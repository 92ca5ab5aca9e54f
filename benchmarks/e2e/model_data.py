"""Sizes and batches of benchmarks/run's models, for every framework the same."""
import numpy as np

BATCHES = {"resnet50": 16, "resnet50_224": 8, "lstm": 32, "lstm_block": 32, "wide_deep": 256}
SIDES = {"resnet50": 64, "resnet50_224": 224}  # of images
CLASSES = 10  # of images and of texts
VOCABULARY, WORD, LENGTH, UNITS = 10000, 64, 40, 128
FIELDS, ROWS, WIDTH, BAG, NUMBERS = 8, 100000, 16, 10, 13


def image_batch(model):
    rng = np.random.default_rng(1)
    batch, side = BATCHES[model], SIDES[model]
    return rng.standard_normal((batch, side, side, 3)).astype(np.float32), rng.integers(0, CLASSES, batch)


def text_batch():
    rng = np.random.default_rng(1)
    batch = BATCHES["lstm"]
    return rng.integers(0, VOCABULARY, (batch, LENGTH)).astype(np.int32), rng.integers(0, CLASSES, batch)


def wide_deep_batch():
    rng = np.random.default_rng(1)
    batch = BATCHES["wide_deep"]
    counts = rng.integers(1, BAG + 1, batch)
    indices = np.array([(row, at) for row in range(batch) for at in range(counts[row])], np.int64)
    return {"ids": rng.integers(0, ROWS, (batch, FIELDS)), "numbers": rng.random((batch, NUMBERS), np.float32),
            "bag_indices": indices, "bag_ids": rng.integers(0, ROWS, len(indices)), "bag_counts": counts,
            "labels": rng.integers(0, 2, (batch, 1)).astype(np.float32)}
