"""Compares SyncReplicas with TensorFlow's SyncReplicasOptimizer: check_sync_replicas.py SYNC_REPLICAS_TOOL

The same small model is built by both, with dense and with sparse gradients. Every node that TensorFlow makes to keep
replicas in step must be there with its name, op, inputs, device and attributes; and training gives the same numbers.
"""
import os
import subprocess
import sys
import tempfile
import threading

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
TIME_LIMIT_S = 120
# What either side has and the other lacks, being about neither the algorithm nor the names that workers share.
ATTRIBUTES_LEFT_OUT = {"_has_manual_control_dependencies", "_output_shapes", "debug_name", "allowed_devices"}


class Model:
    def __init__(self, sparse):
        self.step = v1.train.get_or_create_global_step()
        self.w = v1.get_variable("w", initializer=tf.constant([[0.5], [-0.25]]))
        self.variables = [self.w]
        self.x = v1.placeholder(tf.float32, [None, 2], name="x")
        self.ids = v1.placeholder(tf.int32, [None], name="ids")
        y = tf.square(tf.matmul(self.x, self.w))
        if sparse:
            self.t = v1.get_variable("t", initializer=tf.reshape(tf.range(1.0, 11.0), [5, 2]))
            self.variables.append(self.t)
            y = y + tf.reduce_mean(tf.square(tf.nn.embedding_lookup(self.t, self.ids)))
        self.loss = tf.reduce_mean(y)


def theirs_as_nodes(sparse):
    """The nodes that apply_gradients and get_init_tokens_op add."""
    with tf.Graph().as_default() as graph:
        with v1.device(v1.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")):
            model = Model(sparse)
            sync = v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.5), 2, 3)
            gradients = sync.compute_gradients(model.loss)
            before = {op.name for op in graph.get_operations()}
            sync.apply_gradients(gradients, global_step=model.step)
            sync.get_init_tokens_op()
            mark_used(sync)
    nodes = {node.name: node for node in graph.as_graph_def().node}
    return {name: node for name, node in nodes.items() if name not in before and not of_others(name)}


def mark_used(sync):
    """Or TensorFlow complains of what nobody ran."""
    getattr(sync.ready_for_local_init_op, "mark_used", lambda: None)()


def of_others(name):
    """The optimiser's, or the cast of a gradient's indices and shape, which depends on how they were computed."""
    return name.split("/")[0].startswith("GradientDescent") or name.startswith("sync_replicas/Cast")


def comparable_input(name, known):
    """An input that the algorithm makes; gradients and the optimiser's nodes are others' business."""
    bare = name.lstrip("^").split(":")[0]
    return name if bare in known or bare in ("w", "t", "global_step") else "elsewhere"


def attributes(node):
    kept = {k: v.SerializeToString(deterministic=True) for k, v in node.attr.items() if k not in ATTRIBUTES_LEFT_OUT}
    if "value" in kept:
        kept["value"] = tf.make_ndarray(node.attr["value"].tensor).tolist()
    return kept


def compare_graph(tool, sparse, folder):
    path = os.path.join(folder, f"graph{sparse}.pb")
    subprocess.run([tool, "graph", path] + (["sparse"] if sparse else []), check=True, timeout=TIME_LIMIT_S)
    with open(path, "rb") as file:
        ours = {node.name: node for node in v1.GraphDef.FromString(file.read()).node}
    theirs = theirs_as_nodes(sparse)
    problems = []
    for name, node in theirs.items():
        if name not in ours:
            problems.append(f"{name} ({node.op}) is missing")
            continue
        mine = ours[name]
        inputs = [sorted(comparable_input(i, theirs) for i in n.input) for n in (mine, node)]
        for what, got, want in (("op", mine.op, node.op), ("device", mine.device, node.device),
                                ("inputs", inputs[0], inputs[1]), ("attributes", attributes(mine), attributes(node))):
            if got != want:
                problems.append(f"{name} ({node.op}): {what}: Tutti has {got}, TensorFlow {want}")
    return problems, len(theirs)


def their_steps(sparse):
    lines = []
    with tf.Graph().as_default():
        model = Model(sparse)
        sync = v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.05), 2, 1)
        train = sync.minimize(model.loss, global_step=model.step)
        tokens = sync.get_init_tokens_op(1)
        mark_used(sync)
        chief_op = sync.get_chief_queue_runner().enqueue_ops[0]
        reads = [v.read_value() for v in [model.step, sync._local_step] + model.variables]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(sync.chief_init_op)
            session.run(tokens)
            number = 0
            for _ in range(5):
                chief = threading.Thread(target=session.run, args=(chief_op,))
                chief.start()
                for _ in range(2):
                    session.run(train, {model.x: [[number, 1 - number], [0.5, 0.25 * number]],
                                        model.ids: [number % 5, (2 * number + 1) % 5]})
                    number += 1
                chief.join()
                lines.append([float(x) for value in session.run(reads) for x in value.ravel()])
    return lines


def compare_steps(tool, sparse):
    output = subprocess.run([tool, "steps"] + (["sparse"] if sparse else []), check=True, timeout=TIME_LIMIT_S,
                            capture_output=True, text=True).stdout
    ours = [[float(x) for x in line.split()] for line in output.splitlines()]
    theirs = their_steps(sparse)
    if len(ours) != len(theirs):
        return [f"{len(ours)} steps instead of {len(theirs)}"]
    problems = []
    for step, (got, want) in enumerate(zip(ours, theirs)):
        if len(got) != len(want) or any(abs(a - b) > 1e-6 * max(1, abs(b)) for a, b in zip(got, want)):
            problems.append(f"step {step}: Tutti has {got}, TensorFlow {want}")
    return problems


def main():
    tool = sys.argv[1]
    v1.disable_eager_execution()
    v1.enable_resource_variables()
    v1.logging.set_verbosity("ERROR")
    problems, nodes = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for sparse in (False, True):
            found, count = compare_graph(tool, sparse, folder)
            nodes += count
            problems += found + compare_steps(tool, sparse)
    for problem in problems:
        print(problem)
    print(f"synchronous replicas: {nodes} nodes and 10 steps compared with TensorFlow's, {len(problems)} differences")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
