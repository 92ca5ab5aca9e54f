"""Trajectories of Tutti's optimisers beside TensorFlow's, slots and names included; schedules, clipping, moving averages
and partitioned variables. check_optimizers.py TOOL"""
import os
import subprocess
import sys
from collections import defaultdict

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

tf.get_logger().setLevel("ERROR")
v1 = tf.compat.v1
train = v1.train
legacy = tf.keras.optimizers.legacy

STEPS = 6
TOLERANCE = {"float": 1e-5, "double": 1e-9}
NUMPY = {"float": np.float32, "double": np.float64}


# The numbers of the problem, as the tool makes them.
def numbers(shape, dtype, element):
    return np.array([element(i) for i in range(int(np.prod(shape)))], dtype).reshape(shape)


def weight(i):
    return ((3 * i) % 7 - 3) / 2


def slope(step):
    return lambda i: ((7 * i + 3 * step) % 11 - 5) / 4


def row_slope(step):
    return lambda i: ((5 * i + 2 * step) % 13 - 6) / 8


def rows_of(step):
    return np.array([step % 4, 2, step % 4, 0], np.int32)


# Numbers that floats do not have exactly are given in the type of the variable: TensorFlow would make them floats.
V1 = {
    "sgd": lambda s, t: train.GradientDescentOptimizer(0.25),
    "momentum": lambda s, t: train.MomentumOptimizer(0.25, 0.75),
    "nesterov": lambda s, t: train.MomentumOptimizer(0.25, 0.75, use_nesterov=True),
    "adam": lambda s, t: train.AdamOptimizer(0.125, 0.75, 0.875, 0.0625),
    "adam_default": lambda s, t: train.AdamOptimizer(t(0.001), t(0.9), t(0.999), t(1e-8)),
    "rmsprop": lambda s, t: train.RMSPropOptimizer(0.125, t(0.9), t(0), t(1e-10)),
    "rmsprop_momentum": lambda s, t: train.RMSPropOptimizer(0.125, 0.75, 0.5, 0.125),
    "rmsprop_centered": lambda s, t: train.RMSPropOptimizer(0.125, 0.75, 0.5, 0.125, centered=True),
    "adagrad": lambda s, t: train.AdagradOptimizer(0.25, 0.5),
    "adadelta": lambda s, t: train.AdadeltaOptimizer(0.5, 0.75, 0.125),
    "ftrl": lambda s, t: train.FtrlOptimizer(0.25, l1_regularization_strength=0.25, l2_regularization_strength=0.5),
    "ftrl_shrinkage": lambda s, t: train.FtrlOptimizer(0.25, l2_shrinkage_regularization_strength=0.125),
    "ftrl_beta": lambda s, t: train.FtrlOptimizer(0.25, beta=0.5),
    "proximal_gradient_descent": lambda s, t: train.ProximalGradientDescentOptimizer(0.25, 0.25, 0.5),
    "proximal_adagrad": lambda s, t: train.ProximalAdagradOptimizer(0.25, 0.5, 0.25, 0.5),
    "adagrad_da": lambda s, t: train.AdagradDAOptimizer(0.25, s, 0.5, 0.125, 0.25),
}
# Of these TensorFlow makes the learning rate a float whatever the variable is, and then refuses it.
FLOAT_ONLY = {"proximal_gradient_descent", "proximal_adagrad"}
KERAS = {
    "amsgrad": lambda: legacy.Adam(0.125, 0.75, 0.5, 0.0625, amsgrad=True),
    "adamw": lambda: tf.keras.optimizers.AdamW(0.125, 0.25, 0.75, 0.875, 0.0625, jit_compile=False),
    "adamax": lambda: legacy.Adamax(0.125, 0.75, 0.875, 0.0625),
    "nadam": lambda: legacy.Nadam(0.125, 0.75, 0.875, 0.0625),
}


def v1_trajectory(make, dtype):
    """Gives {name of variable: value} after every step."""
    with tf.Graph().as_default(), v1.Session() as session:
        w = v1.get_variable("w", initializer=numbers((2, 3), dtype, weight), use_resource=True)
        table = v1.get_variable("table", initializer=numbers((4, 2), dtype, weight), use_resource=True)
        step = train.get_or_create_global_step()
        g, rows, row_g = (v1.placeholder(t) for t in (dtype, tf.int32, dtype))
        g.set_shape((2, 3))
        loss = tf.reduce_sum(w * g) + tf.reduce_sum(tf.gather(table, rows) * row_g)
        train_op = make(step, dtype).minimize(loss, global_step=step)
        session.run(v1.global_variables_initializer())
        for t in range(STEPS):
            session.run(train_op, {g: numbers((2, 3), dtype, slope(t)), rows: rows_of(t),
                                   row_g: numbers((4, 2), dtype, row_slope(t))})
            yield {v.op.name: session.run(v) for v in v1.global_variables()}


def keras_trajectory(make, dtype):
    """Keras names its slots otherwise: the weights only."""
    w = tf.Variable(numbers((2, 3), dtype, weight), name="w")
    table = tf.Variable(numbers((4, 2), dtype, weight), name="table")
    optimizer = make()
    for t in range(STEPS):
        rows = tf.IndexedSlices(tf.constant(numbers((4, 2), dtype, row_slope(t))), tf.constant(rows_of(t)),
                                tf.constant([4, 2]))
        optimizer.apply_gradients([(tf.constant(numbers((2, 3), dtype, slope(t))), w), (rows, table)])
        yield {"w": w.numpy(), "table": table.numpy()}


class Check:
    def __init__(self):
        self.count = self.failures = 0

    def that(self, ok, what):
        self.count += 1
        if not ok:
            self.failures += 1
            print("FAILED:", what)

    def close(self, got, want, tolerance, what):
        got, want = np.asarray(got, np.float64).ravel(), np.asarray(want, np.float64).ravel()
        ok = got.shape == want.shape
        error = np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-3) if ok else float("inf")
        self.that(ok and error <= tolerance, f"{what}: {got} instead of {want}, error {error:.3g}")


def check_optimizers(lines, check):
    found = defaultdict(dict)
    for name, dtype, step, variable, *values in lines:
        found[name, dtype, int(step)][variable] = values
    seen = {name for name, _, _ in found}
    check.that(seen == set(V1) | set(KERAS), f"optimisers {sorted(seen ^ (set(V1) | set(KERAS)))} on one side only")
    for name in sorted(seen):
        for dtype, tolerance in TOLERANCE.items():
            if dtype == "double" and name in FLOAT_ONLY:
                continue
            steps = (v1_trajectory(V1[name], NUMPY[dtype]) if name in V1
                     else keras_trajectory(KERAS[name], NUMPY[dtype]))
            for t, want in enumerate(steps):
                got = found[name, dtype, t]
                where = f"{name} {dtype} step {t}"
                if name in V1:
                    check.that(set(got) == set(want), f"{where}: variables {sorted(got)}, TensorFlow's {sorted(want)}")
                for variable in set(got) & set(want):
                    check.close(got[variable], want[variable], tolerance, f"{where} {variable}")


def schedules(step):
    return {
        "exponential": train.exponential_decay(0.5, step, 10, 0.75),
        "exponential_staircase": train.exponential_decay(0.5, step, 10, 0.75, staircase=True),
        "natural_exp": train.natural_exp_decay(0.5, step, 10, 0.75),
        "natural_exp_staircase": train.natural_exp_decay(0.5, step, 10, 0.75, staircase=True),
        "inverse_time": train.inverse_time_decay(0.5, step, 10, 0.75),
        "inverse_time_staircase": train.inverse_time_decay(0.5, step, 10, 0.75, staircase=True),
        "piecewise": train.piecewise_constant(step, [10, 20, 50], [1.0, 0.5, 0.25, 0.125]),
        "polynomial": train.polynomial_decay(0.5, step, 20, 0.125, power=2),
        "polynomial_cycle": train.polynomial_decay(0.5, step, 20, 0.125, cycle=True),
        "cosine": train.cosine_decay(0.5, step, 30, 0.25),
        "cosine_restarts": train.cosine_decay_restarts(0.5, step, 10, 2.0, 0.5, 0.125),
        "cosine_restarts_equal": train.cosine_decay_restarts(0.5, step, 10, 1.0),
        "linear_cosine": train.linear_cosine_decay(0.5, step, 30, 2, 0.125, 0.0625),
    }


def check_schedules(lines, check):
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.placeholder(tf.int64, [])
        rates = schedules(step)
        check.that(set(rates) == {line[0] for line in lines}, "schedules on one side only")
        for name, at, value in lines:
            check.close([value], session.run(rates[name], {step: int(at)}), 1e-5, f"schedule {name} at {at}")


def check_clipping(lines, check):
    x, y = numbers((2, 3), np.float64, weight), numbers((4,), np.float64, slope(1))
    rows = tf.IndexedSlices(tf.constant(numbers((4, 2), np.float64, row_slope(0))), tf.constant(rows_of(1)))
    tight, norm = tf.clip_by_global_norm([x, y, rows], 0.5)
    want = {
        "clip_by_value": tf.clip_by_value(x, -0.75, 0.25),
        "clip_by_norm": tf.clip_by_norm(x, 0.5),
        "clip_by_norm_loose": tf.clip_by_norm(x, 50),
        "clip_by_norm_axis": tf.clip_by_norm(x, 0.5, 1),
        "clip_by_average_norm": v1.clip_by_average_norm(x.astype(np.float32), 0.125),  # it refuses doubles
        "global_norm": tf.linalg.global_norm([x, y, rows]),
        "clip_by_global_norm_x": tight[0],
        "clip_by_global_norm_rows": tight[2].values,
        "clip_by_global_norm_loose": tf.clip_by_global_norm([x, y, rows], 50)[0][1],
        "clip_by_global_norm_norm": norm,
    }
    check.that(set(want) == {line[0] for line in lines}, "clippings on one side only")
    for name, *values in lines:
        check.close(values, want[name], 1e-9 if want[name].dtype == tf.float64 else 1e-6, name)


def average_trajectory(dtype, with_updates):
    with tf.Graph().as_default(), v1.Session() as session:
        w = v1.get_variable("w", initializer=numbers((3,), dtype, weight), use_resource=True)
        x = v1.placeholder(dtype, [3], name="x")
        count = v1.placeholder(tf.int64, [])
        updates = count if with_updates else None
        averages = tf.train.ExponentialMovingAverage(0.9, updates)
        unbiased = tf.train.ExponentialMovingAverage(0.9, updates, zero_debias=True, name="Unbiased")
        change = w.assign_add(x)
        with tf.control_dependencies([change]):
            moves = [averages.apply([w]), averages.apply([x]), unbiased.apply([x])]
        session.run(v1.global_variables_initializer())
        for t in range(STEPS):
            session.run(moves, {x: numbers((3,), dtype, slope(t)), count: 3 * t})
            yield {v.op.name: session.run(v) for v in v1.global_variables()}


def check_averages(lines, check):
    found = defaultdict(dict)
    for name, step, variable, *values in lines:
        found[name, int(step)][variable] = values
    for name, dtype, with_updates in (("float", "float", False), ("double", "double", False),
                                      ("updates", "float", True)):
        for t, want in enumerate(average_trajectory(NUMPY[dtype], with_updates)):
            got = found[name, t]
            check.that(set(got) == set(want), f"average {name}: variables {sorted(got)}, TensorFlow's {sorted(want)}")
            for variable in set(got) & set(want):
                check.close(got[variable], want[variable], TOLERANCE[dtype], f"average {name} step {t} {variable}")


def check_parts(lines, check):
    with tf.Graph().as_default():
        rows = v1.get_variable("rows", [5, 2], partitioner=v1.fixed_size_partitioner(3), use_resource=True)
        columns = v1.get_variable("columns", [2, 7], partitioner=v1.fixed_size_partitioner(2, 1), use_resource=True)
        with tf.name_scope("train"):
            train.AdamOptimizer().minimize(tf.reduce_sum(rows.as_tensor() ** 2) + tf.reduce_sum(columns.as_tensor() ** 2))
        want = {}
        for variable in v1.global_variables():
            info = variable._save_slice_info
            want[variable.op.name] = (info.full_name, *info.spec.split()) if info else ("-",)
    got = {name: tuple(rest) for name, *rest in lines}
    check.that(got == want, f"parts {got}, TensorFlow's {want}")


def check_partitioners(lines, check):
    want = {
        "fixed": v1.fixed_size_partitioner(3),
        "min_max": v1.min_max_variable_partitioner(20, min_slice_size=1000),
        "axis_size": v1.variable_axis_size_partitioner(1000),
        "axis_size_capped": v1.variable_axis_size_partitioner(1000, max_shards=4),
    }
    check.that(set(want) == {line[0] for line in lines}, "partitioners on one side only")
    for name, *counts in lines:
        expected = []
        for n in range(1, 201, 7):
            expected.append(want[name](shape=tf.TensorShape([n, 33]), dtype=tf.float32)[0])
            expected.append(want[name](shape=tf.TensorShape([n]), dtype=tf.string)[0])
        check.that([int(c) for c in counts] == expected, f"partitioner {name}: {counts}, TensorFlow's {expected}")


def main():
    output = subprocess.run([sys.argv[1]], check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout
    lines = defaultdict(list)
    for line in output.splitlines():
        kind, *rest = line.split()
        lines[kind].append(rest)
    check = Check()
    for kind, function in (("optimizer", check_optimizers), ("schedule", check_schedules), ("value", check_clipping),
                           ("average", check_averages), ("part", check_parts), ("partitioner", check_partitioners)):
        check.that(bool(lines[kind]), f"the tool printed nothing about {kind}")
        function(lines[kind], check)
    print(f"optimisers: {check.count} comparisons with TensorFlow, {check.failures} failures")
    sys.exit(1 if check.failures else 0)


if __name__ == "__main__":
    main()
