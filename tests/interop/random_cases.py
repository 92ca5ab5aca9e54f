"""Random ops with seeds: the same numbers as TensorFlow's, step after step."""
import tensorflow as tf

from case import Case, tf1

STEPS = 5
SHAPE = [37, 11]  # not a multiple of any block of the generators


def uniform_cases():
    """Made of integer arithmetic alone: the same bits."""
    with tf.Graph().as_default():
        tf1.set_random_seed(123)
        each = [
            tf.random.uniform(SHAPE, dtype=tf.float32, name="float"),
            tf.random.uniform(SHAPE, dtype=tf.float64, name="double"),
            tf.random.uniform(SHAPE, dtype=tf.float16, seed=5, name="half"),
            tf.random.uniform(SHAPE, -3, 1000, dtype=tf.int32, seed=6, name="int32"),
            tf.random.uniform(SHAPE, -3, 2**40, dtype=tf.int64, seed=7, name="int64"),
            tf.random.shuffle(tf.range(101), seed=8, name="shuffle"),
        ]
        yield Case("random_uniform", tf1.get_default_graph(), each=each, tolerance=0, steps=STEPS)


def normal_cases():
    """Logarithms and sines come from other libraries: equal up to their last bits."""
    for dtype, tolerance in ((tf.float32, 1e-6), (tf.float64, 1e-14)):
        with tf.Graph().as_default():
            tf1.set_random_seed(123)
            each = [
                tf.random.normal(SHAPE, dtype=dtype, name="normal"),
                tf.random.truncated_normal(SHAPE, dtype=dtype, seed=9, name="truncated"),
                tf.random.normal([1], dtype=dtype, seed=10, name="one"),
            ]
            yield Case(f"random_normal_{dtype.name}", tf1.get_default_graph(), each=each, tolerance=tolerance, steps=STEPS)


def cases():
    yield from uniform_cases()
    yield from normal_cases()
