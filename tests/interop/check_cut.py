"""Loops, branches and their gradients as TensorFlow builds them, spread at random over three tasks and cut: the values
are those of TensorFlow in one piece. check_cut.py CUT_RUNNER [--graphs N] [--seed S]"""
import argparse
import os
import random
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1


def step(draw, a, b, w, x):
    """One iteration's next `a`."""
    kind = draw.randrange(5)
    if kind == 0:
        return tf.tanh(a * w + b)
    if kind == 1:
        return v1.cond(a < 0.8, lambda: a * w + 0.1, lambda: tf.sin(a) * b)
    if kind == 2:
        return v1.while_loop(lambda j, c: j < 3, lambda j, c: (j + 1, tf.tanh(c * w + a)), [0, a])[1]
    if kind == 3:
        return v1.while_loop(lambda j, c: j < 2, lambda j, c: (j + 1, v1.cond(
            c > 0.5, lambda: c * w * a, lambda: tf.sin(c) + x)), [0, a])[1]
    return v1.cond(b > 0.5, lambda: v1.while_loop(
        lambda j, c: j < 2, lambda j, c: (j + 1, c * w + a), [0, a])[1], lambda: a - b)


def build(seed):
    """A GraphDef with devices, and the values of "out" and "grad"."""
    draw = random.Random(seed)
    graph = tf.Graph()
    with graph.as_default():
        x, w = tf.constant(draw.uniform(0.3, 1.2)), tf.constant(0.7)
        rounds = draw.randint(0, 5)
        _, a, b = v1.while_loop(lambda i, a, b: i < rounds,
                                lambda i, a, b: (i + 1, step(draw, a, b, w, x), b * 0.9 + a),
                                [0, x, tf.constant(0.4)], parallel_iterations=draw.choice([1, 2, 10]))
        out = tf.identity(a + b, name="out")
        by_w, by_x = v1.gradients(out, [w, x], unconnected_gradients="zero")
        tf.identity(by_w + 2 * by_x, name="grad")
    with v1.Session(graph=graph) as session:
        values = session.run(["out:0", "grad:0"])
    graph_def = graph.as_graph_def()
    for node in graph_def.node:
        node.attr.pop("_class", None)  # so that devices can be drawn freely
        if draw.random() < 0.5:
            node.device = f"/job:{draw.choice('abc')}/task:0"
    return graph_def, values


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("runner")
    parser.add_argument("--graphs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    v1.disable_eager_execution()
    v1.disable_control_flow_v2()
    wanted, nodes = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(args.graphs):
            path = f"{folder}/{args.seed * 100000 + i}.pb"
            graph_def, wanted[path] = build(args.seed * 100000 + i)
            nodes += len(graph_def.node)
            with open(path, "wb") as f:
                f.write(graph_def.SerializeToString())
        out = subprocess.run([args.runner, *wanted], check=True, text=True, capture_output=True, timeout=300).stdout
    different = 0
    lines = out.splitlines()
    for line in lines:
        path, *rest = line.split(" ", 1)
        try:
            got = [float(v) for v in rest[0].split()]
        except ValueError:
            got = []
        if len(got) != 2 or any(abs(g - w) > 1e-4 * max(1, abs(w)) for g, w in zip(got, wanted[path])):
            different += 1
            print(f"graph {os.path.basename(path)}: TensorFlow {wanted[path]}, Tutti {rest[0]}")
    print(f"cut loops: {len(lines)} graphs, {nodes} nodes, {different} differences")
    sys.exit(1 if different or len(lines) != args.graphs else 0)


if __name__ == "__main__":
    main()
