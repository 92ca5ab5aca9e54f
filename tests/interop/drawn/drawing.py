"""Random values, shapes and attributes, each from one seeded generator."""
import zlib

import numpy as np
import tensorflow as tf

FLOATS = ("half", "bfloat16", "float", "double")
COMPLEXES = ("complex64", "complex128")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
# What values can be drawn of; quantised, 4-bit and 8-bit floating types are not.
TYPES = FLOATS + COMPLEXES + INTEGERS + ("bool", "string")

NUMPY = {name: tf.as_dtype({"half": "float16", "float": "float32", "double": "float64"}.get(name, name)).as_numpy_dtype
         for name in TYPES}
WORDS = [b"", b"a", b"Tutti", b"tutti", b" spaced out ", b"3.25", b"-17", b"1e3", b"a,b,,c", b"\xc3\xa9t\xc3\xa9",
         b"\x00\xff", b"x" * 40]


def short_name(dtype):
    """TensorFlow's short name of a tf.DType, numpy type or enum number."""
    name = tf.as_dtype(dtype).base_dtype.name
    return {"float16": "half", "float32": "float", "float64": "double"}.get(name, name)


def tf_type(name):
    return tf.as_dtype(NUMPY[name]) if name != "string" else tf.string


class Draw:
    """One case's source of randomness: depends on the seed, the op and the number of the case only."""

    def __init__(self, seed, op, number):
        self.rng = np.random.default_rng([seed, zlib.crc32(op.encode()), number])

    def chance(self, probability):
        return self.rng.random() < probability

    def integer(self, low, high):
        """Both ends included."""
        return int(self.rng.integers(low, high + 1))

    def choice(self, values):
        values = list(values)
        return values[self.integer(0, len(values) - 1)]

    # --- Shapes: scalars, size-1 and empty dimensions are common. ---

    def shape(self, min_rank=0, max_rank=4, max_dim=5, empty=True):
        dims = [self.integer(1, max_dim) for _ in range(self.integer(min_rank, max_rank))]
        for i in range(len(dims)):
            if self.chance(0.15):
                dims[i] = 1
        if dims and empty and self.chance(0.08):
            dims[self.integer(0, len(dims) - 1)] = 0
        return tuple(dims)

    def smaller_shape(self, shape):
        """One that broadcasts into `shape`."""
        dims = [1 if self.chance(0.3) else d for d in shape]
        return tuple(dims[self.integer(0, len(dims)):] if dims and self.chance(0.4) else dims)

    def broadcasting_shapes(self, max_rank=4):
        """Two that broadcast together."""
        whole = self.shape(max_rank=max_rank)
        kind = self.integer(0, 3)
        if kind == 0:
            return whole, whole
        if kind == 1:
            return whole, self.smaller_shape(whole)
        if kind == 2:
            return self.smaller_shape(whole), whole
        return self.smaller_shape(whole), self.smaller_shape(whole)

    # --- Values: on a coarse grid, so that sums are exact and ties happen. ---

    def values(self, dtype, shape, low=-4.0, high=4.0):
        """`low` and `high` bound floating values, and integers more loosely."""
        shape = tuple(shape)
        if dtype == "string":
            words = self.rng.integers(0, len(WORDS), shape)
            return np.array([WORDS[i] for i in np.ravel(words)], dtype=object).reshape(shape)
        if dtype == "bool":
            return np.asarray(self.rng.integers(0, 2, shape).astype(np.bool_))
        if dtype in INTEGERS:
            lowest = 0 if dtype in UNSIGNED else int(np.floor(2 * low))
            return np.asarray(self.rng.integers(max(lowest, int(np.ceil(2 * low))), int(2 * high) + 1, shape), dtype=NUMPY[dtype])
        if dtype in COMPLEXES:
            return np.asarray(self._grid(shape, low, high, 8) + 1j * self._grid(shape, low, high, 8), dtype=NUMPY[dtype])
        return np.asarray(self._grid(shape, low, high, 8), dtype=NUMPY[dtype])

    def _grid(self, shape, low, high, steps):
        return self.rng.integers(int(np.ceil(low * steps)), int(np.floor(high * steps)) + 1, shape) / steps

    def nonzero(self, dtype, shape, low=-4.0, high=4.0):
        values = self.values(dtype, shape, low, high)
        one = np.ones((), dtype=values.dtype)
        return np.where(values == 0, one, values).astype(values.dtype) if values.size else values

    def integers(self, low, high, shape=(), dtype="int32"):
        """Both ends included."""
        return np.asarray(self.rng.integers(low, high + 1, tuple(shape)), dtype=NUMPY[dtype])

    def with_specials(self, array, dtype):
        """Some elements replaced by what arithmetic treats specially."""
        if array.size == 0:
            return array
        if dtype in FLOATS:
            special = [np.nan, np.inf, -np.inf, -0.0, 0.0]
        elif dtype in INTEGERS:
            info = np.iinfo(NUMPY[dtype])
            special = [info.min, info.max, 0]
        else:
            return array
        out = array.copy().reshape(-1)
        for _ in range(self.integer(1, min(4, out.size))):
            out[self.integer(0, out.size - 1)] = self.choice(special)
        return out.reshape(array.shape)

    def axis(self, rank):
        """A valid axis, in either notation. REQUIRES: rank >= 1."""
        return self.integer(-rank, rank - 1)

    def axes(self, rank):
        """Distinct axes, in any order and notation."""
        count = self.integer(0, rank)
        return [int(a) - (rank if self.chance(0.3) else 0) for a in self.rng.permutation(rank)[:count]]
