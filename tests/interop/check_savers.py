"""Training jobs that stop in one system and go on in the other: check_savers.py SAVER_TOOL

The same model in both: two layers, the first partitioned, Adam, a global step. Checkpoints have the same names, slots
included; a job goes on from the other's checkpoint with the steps that it would have made itself; and each system can
use the graph and the saver of the other's .meta file. A job on two parameter servers (examples/distributed_mnist, which
lies beside SAVER_TOOL) crosses as well, there and back.
"""
import os
import re
import shutil
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from checks import check, report, run_parts, run_tool  # noqa: E402

tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.logging.set_verbosity(tf1.logging.ERROR)

TOOL = sys.argv[1]
ROWS, INNER, BATCH = 7, 4, 5
STEPS = 6


def tool(*args):
    return run_tool(TOOL, *args).strip()


def ramp(shape, start):
    return (np.float32(start) + np.float32(0.01) * np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)


def build(use_resource=True):
    """The model of saver_tool.cc; gives the operation that trains it."""
    parts = tf1.get_variable(
        "hidden/w", [ROWS, INNER], use_resource=use_resource, partitioner=tf1.fixed_size_partitioner(2),
        initializer=lambda shape, dtype=None, partition_info=None: tf.constant(ramp(shape, -0.1)))
    out = tf1.get_variable("out/w", initializer=ramp((INNER, 1), 0.2), use_resource=use_resource)
    bias = tf1.get_variable("out/b", initializer=np.array([0.5], np.float32), use_resource=use_resource)
    step = tf1.train.get_or_create_global_step()
    hidden = tf.tanh(tf.matmul(tf.constant(ramp((BATCH, ROWS), 0)), tf.convert_to_tensor(parts)))
    loss = tf.reduce_mean(tf.square(tf.matmul(hidden, out) + bias - tf.constant(ramp((BATCH, 1), 1))))
    return tf1.train.AdamOptimizer(0.05).minimize(loss, global_step=step)


def values(prefix):
    reader = tf.train.load_checkpoint(prefix)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def same(ours, theirs, what, exact=False):
    a, b = values(ours), values(theirs)
    check(set(a) == set(b), f"{what}: names differ: {sorted(set(a) ^ set(b))}")
    for name in set(a) & set(b):
        good = a[name].dtype == b[name].dtype and a[name].shape == b[name].shape and (
            np.array_equal(a[name], b[name]) if exact else np.allclose(a[name], b[name], rtol=1e-5, atol=1e-6))
        check(good, f"{what}: {name}: {a[name]} and {b[name]}")


def reference(folder, steps, use_resource=True, sharded=False):
    """A job of TensorFlow's alone."""
    with tf.Graph().as_default():
        train = build(use_resource)
        saver = tf1.train.Saver(sharded=sharded)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            for _ in range(steps):
                session.run(train)
            return saver.save(session, f"{folder}/reference", global_step=steps), train.name


def check_from_tutti(folder):
    for sharded in (False, True):
        there = f"{folder}/{'sharded' if sharded else 'single'}"
        os.makedirs(there)
        path = tool("start", f"{there}/model.ckpt", STEPS, *(["sharded"] if sharded else []))
        check(tf.train.latest_checkpoint(there) == path, f"latest_checkpoint is {tf.train.latest_checkpoint(there)}")
        same(path, reference(there, STEPS)[0], "trained by each")
        for use_resource in (True, False):
            with tf.Graph().as_default():
                train = build(use_resource)
                saver = tf1.train.Saver()
                with tf1.Session() as session:
                    saver.restore(session, path)
                    check(session.run(tf1.train.get_global_step()) == STEPS, "the global step in TensorFlow")
                    for _ in range(STEPS):
                        session.run(train)
                    on = saver.save(session, f"{there}/on_{use_resource}")
            same(on, reference(there, 2 * STEPS)[0], f"begun by Tutti, continued by TensorFlow ({use_resource})")


def check_meta_of_tutti(folder):
    path = tool("start", f"{folder}/model.ckpt", STEPS, "sharded")
    with tf.Graph().as_default() as graph:
        saver = tf1.train.import_meta_graph(path + ".meta")
        names = {v.op.name for v in tf1.global_variables()}
        check({"hidden/w/part_0", "out/b", "out/w/Adam_1", "beta1_power", "global_step"} <= names,
              f"variables: {names}")
        check({v.op.name for v in tf1.trainable_variables()} ==
              {"hidden/w/part_0", "hidden/w/part_1", "out/w", "out/b"}, "trainable variables")
        with tf1.Session() as session:
            saver.restore(session, path)
            for _ in range(STEPS):
                session.run(graph.get_operation_by_name("Adam"))
            same(saver.save(session, f"{folder}/on"), reference(folder, 2 * STEPS)[0], "Tutti's graph in TensorFlow")
            # A Saver that TensorFlow makes itself of what it imported knows the parts, too.
            again = tf1.train.Saver()
            same(again.save(session, f"{folder}/again"), f"{folder}/on", "a Saver over Tutti's graph", exact=True)
            session.run(tf1.global_variables_initializer())


def check_from_tensorflow(folder):
    for sharded in (False, True):
        for use_resource in (True, False):
            there = f"{folder}/{sharded}_{use_resource}"
            os.makedirs(there)
            path, target = reference(there, STEPS, use_resource, sharded)
            tool("continue", path, STEPS, f"{there}/on")
            wanted = reference(f"{there}", 2 * STEPS)[0]
            same(f"{there}/on", wanted, "begun by TensorFlow, continued by Tutti")
            tool("continue", path, 0, f"{there}/copy")
            same(f"{there}/copy", path, "restored and saved by Tutti", exact=True)
            tool("meta", path + ".meta", path, target, STEPS, f"{there}/meta")
            same(f"{there}/meta", wanted, "TensorFlow's graph in Tutti")


def check_state(folder):
    """The file `checkpoint`, as both write it."""
    for name in ("tutti", "tensorflow"):
        os.makedirs(f"{folder}/{name}")
    tool("start", f"{folder}/tutti/m", 1)
    with tf.Graph().as_default():
        build()
        saver = tf1.train.Saver()
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            saver.save(session, f"{folder}/tensorflow/m", global_step=1)
    texts = []
    for name in ("tutti", "tensorflow"):
        with open(f"{folder}/{name}/checkpoint", encoding="utf-8") as file:
            texts.append(file.read().replace(f"{folder}/{name}", ""))
    check(texts[0] == texts[1], f"checkpoint files differ: {texts}")
    check(sorted(os.listdir(f"{folder}/tutti")) == sorted(os.listdir(f"{folder}/tensorflow")), "names of files differ")


def build_digits():
    """The model of examples/digit_training.h; gives the placeholders and the operation that trains it."""
    images, labels = tf1.placeholder(tf.float32, [None, 784]), tf1.placeholder(tf.int64, [None])
    x, width = images, 784
    for name, units in (("hidden1", 500), ("hidden2", 500), ("logits", 10)):
        kernel = tf1.get_variable(f"{name}/kernel", [width, units])
        bias = tf1.get_variable(f"{name}/bias", [units], initializer=tf1.zeros_initializer())
        x, width = tf.nn.bias_add(tf.matmul(x, kernel), bias), units
        if name != "logits":
            x = tf.nn.relu(x)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x))
    step = tf1.train.get_or_create_global_step()
    return images, labels, tf1.train.AdamOptimizer(1e-3).minimize(loss, global_step=step)


def run_ps_job(there, workers, *flags):
    """Trains with Tutti on two parameter servers; gives what it printed."""
    folder = os.path.dirname(os.path.abspath(TOOL))
    return run_tool(f"{folder}/tutti", "run", "--ps", 2, "--workers", workers, f"{folder}/distributed_mnist",
                    "--digits=2000", "--no-evaluate", f"--checkpoint_dir={there}", *flags)


def continue_in_tensorflow(there, begun, steps):
    """A MonitoredTrainingSession that finds the checkpoint `begun` by itself, and trains on."""
    rng = np.random.default_rng(1)
    with tf.Graph().as_default():
        images, labels, train = build_digits()
        variables = {v.op.name: v for v in tf1.global_variables()}
        check(set(variables) == set(begun), f"names of a ps job: {sorted(set(variables) ^ set(begun))}")
        with tf1.train.MonitoredTrainingSession(checkpoint_dir=there, log_step_count_steps=None) as session:
            for name, value in session.run(variables).items():
                check(np.array_equal(value, begun[name]), f"{name} of a ps job, restored by TensorFlow")
            for _ in range(steps):
                session.run(train, {images: rng.random((32, 784)), labels: rng.integers(0, 10, 32)})


def go_on_in_tutti(there, step, *flags):
    """One step of one worker, with learning rate 0, from a copy of `there`; gives what it saved."""
    copy = f"{there}_on"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(there, copy)
    with open(f"{copy}/checkpoint", encoding="utf-8") as file:
        state = file.read()
    with open(f"{copy}/checkpoint", "w", encoding="utf-8") as file:
        file.write(state.replace(f"{there}/", f"{copy}/"))
    text = run_ps_job(copy, 1, f"--train_steps={step}", "--learning_rate=0", *flags)
    check(re.search(rf"Session begins at step {step}$", text, re.MULTILINE), f"where Tutti goes on: {text}")
    return values(tf.train.latest_checkpoint(copy))


def one_adam_step(before, after):
    """What a step with learning rate 0 keeps: the weights stay, and the same gradient changes both moments of each.
    Gives pairs of whether it is so, and what it is."""
    yield after["global_step"] == before["global_step"] + 1, "the global step goes on"
    for name, beta in (("beta1_power", 0.9), ("beta2_power", 0.999)):
        yield np.isclose(after[name], before[name] * beta, rtol=1e-6), f"{name} goes on"
    for name in [n for n in before if n.endswith(("kernel", "bias"))]:
        yield np.array_equal(after[name], before[name]), f"{name} goes on"
        gradient = (after[f"{name}/Adam"] - 0.9 * before[f"{name}/Adam"]) / 0.1
        square = (after[f"{name}/Adam_1"] - 0.999 * before[f"{name}/Adam_1"]) / 0.001
        yield np.abs(gradient).max() > 0, f"{name} has a gradient"
        yield np.allclose(gradient**2, square, rtol=1e-2, atol=1e-5), f"moments of {name} go on"


def check_ps_job(folder):
    for mode in ((), ("--is_sync",)):
        there = f"{folder}/{len(mode)}"
        run_ps_job(there, 2, "--train_steps=60", *mode)
        begun = values(tf.train.latest_checkpoint(there))
        check(begun["global_step"] >= 60, f"a ps job ended at step {begun['global_step']}")
        continue_in_tensorflow(there, begun, STEPS)
        there_and_back = values(tf.train.latest_checkpoint(there))
        step = there_and_back["global_step"]
        check(step == begun["global_step"] + STEPS, f"TensorFlow's checkpoint of a ps job is of step {step}")
        # The first token of synchronous replicas is a gift: a worker that has it ends, and saves, while the chief may
        # still be applying the gradients. Such a job is run again.
        for _ in range(10 if mode else 1):
            found = list(one_adam_step(there_and_back, go_on_in_tutti(there, step, *mode)))
            if all(ok for ok, _ in found):
                break
        for ok, what in found:
            check(ok, what)


def main():
    run_parts((check_from_tutti, check_meta_of_tutti, check_from_tensorflow, check_state, check_ps_job))
    return report("savers")


if __name__ == "__main__":
    sys.exit(main())
