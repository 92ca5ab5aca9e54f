"""Where TensorFlow's master puts the nodes of drawn graphs, and where ours does: as placed, by the log, and of graphs
without state also once cut, by the partition graphs. check_placement.py TOOL [--graphs N] [--seed S]. A cluster of two
parameter servers and two workers in this process; sessions of the first worker."""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

LOGGED = re.compile(r"^(?:.*\] )?(\S+): \((\w+)\): (/job:\S+)$")
JOBS = {"ps": 2, "worker": 2}
REQUESTS = ["", "", "", "/job:ps", "/job:ps/task:0", "/job:ps/task:1", "/job:worker", "/job:worker/task:1",
            "/job:worker/replica:0/task:0/device:CPU:0", "/device:CPU:0", "/task:1", "/job:ps/device:CPU:0"]
ODD_REQUESTS = ["/job:worker/device:GPU:0", "/device:GPU:0", "/job:nowhere", "/job:ps/task:7", "/device:CPU:3",
                "/job:ps/task:1/device:GPU:1"]


MOVED = {"Switch", "Exit", "Enter", "NextIteration"}


class Silence:
    """Keeps what anybody in this process prints."""

    def __enter__(self):
        sys.stdout.flush()
        self.file = tempfile.TemporaryFile()
        self.kept = [os.dup(fd) for fd in (1, 2)]
        for fd in (1, 2):
            os.dup2(self.file.fileno(), fd)
        return self

    def __exit__(self, *unused):
        sys.stdout.flush()
        for fd in (1, 2):
            os.dup2(self.kept[fd - 1], fd)
            os.close(self.kept[fd - 1])
        self.file.seek(0)
        self.text = self.file.read().decode(errors="replace")
        self.file.close()


with Silence():
    import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
r = tf.raw_ops


def start_cluster():
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "cluster"))
    from harness import free_ports  # pylint: disable=import-outside-toplevel
    ports = free_ports(sum(JOBS.values()))
    spec, i = {}, 0
    for job, tasks in JOBS.items():
        spec[job] = [f"127.0.0.1:{port}" for port in ports[i:i + tasks]]
        i += tasks
    config = v1.ConfigProto(device_count={"GPU": 0}, intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    return [v1.train.Server(spec, job_name=job, task_index=task, config=config)
            for job, tasks in JOBS.items() for task in range(tasks)]


class Drawing:
    """One graph. All values are float scalars."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.cut = self.draw.random() < 0.25
        self.soft = not self.cut and self.draw.random() < 0.4
        self.odd = not self.cut and self.draw.random() < 0.3
        self.graph = tf.Graph()
        self.values, self.ops = [], []
        with self.graph.as_default():
            self.add(self.source())
            for _ in range(self.draw.randint(3, 14)):
                self.draw.choice(self.makers())()
            for op in self.graph.get_operations():
                self.change(op)
            with tf.control_dependencies([v.op for v in self.values] if self.cut else []):
                self.end = tf.no_op(name="end")

    @property
    def flag(self):
        return "c" if self.cut else "s" if self.soft else "h"

    def source(self):
        return tf.constant(0.5) if self.cut else v1.placeholder(tf.float32, [])

    def makers(self):
        plain = [self.generator, self.arithmetic, self.arithmetic, self.metadata, self.branch, self.loop, self.control]
        return plain if self.cut else plain + [self.ref_variable, self.resource_variable, self.queue]

    def add(self, value):
        self.values.append(value)
        return value

    def pick(self):
        return self.draw.choice(self.values)

    def generator(self):
        self.add(self.draw.choice([
            lambda: tf.constant(1.0), self.source,
            lambda: tf.reshape(v1.random_uniform([]), [])])())

    def arithmetic(self):
        self.add(self.draw.choice([lambda: tf.negative(self.pick()), lambda: tf.add(self.pick(), self.pick()),
                                   lambda: tf.identity(self.pick()), lambda: tf.identity_n([self.pick()])[0],
                                   lambda: tf.reduce_sum(self.pick())])())

    def metadata(self):
        made = self.draw.choice([lambda: r.Size(input=self.pick()), lambda: r.Rank(input=self.pick()),
                                 lambda: tf.reduce_sum(r.Shape(input=self.pick())),
                                 lambda: tf.reduce_sum(r.ShapeN(input=[self.pick(), self.pick()])[0])])()
        self.add(tf.cast(made, tf.float32))

    def ref_variable(self):
        v = r.VariableV2(shape=[], dtype=tf.float32)
        r.Assign(ref=v, value=self.pick())
        self.add(tf.identity(v))
        if self.draw.random() < 0.5:
            self.add(r.AssignAdd(ref=v, value=self.pick()))

    def resource_variable(self):
        handle = r.VarHandleOp(dtype=tf.float32, shape=[], shared_name=f"v{len(self.values)}")
        if self.draw.random() < 0.7:
            r.AssignVariableOp(resource=handle, value=self.pick())
        for _ in range(self.draw.randint(0, 2)):
            self.add(r.ReadVariableOp(resource=handle, dtype=tf.float32))

    def queue(self):
        queue = r.FIFOQueueV2(component_types=[tf.float32], shapes=[[]])
        r.QueueEnqueueV2(handle=queue, components=[self.pick()])
        if self.draw.random() < 0.5:
            self.add(r.QueueDequeueV2(handle=queue, component_types=[tf.float32])[0])

    def branch(self):
        pred = tf.less(self.pick(), self.pick())
        no, yes = r.Switch(data=self.pick(), pred=pred)
        self.add(r.Merge(inputs=[tf.negative(no), tf.identity(yes)])[0])

    def loop(self):
        limit = self.pick()
        self.add(v1.while_loop(lambda i: tf.less(i, limit), lambda i: tf.add(i, 1.0), [self.pick()], name="loop"))

    def control(self):
        before = [self.pick().op for _ in range(self.draw.randint(1, 2))]
        with tf.control_dependencies(before):
            if self.draw.random() < 0.5:
                tf.no_op()
            else:
                self.add(tf.constant(2.0))

    def change(self, op):
        """What the user asks for: mostly nothing, sometimes a device or company."""
        draw = self.draw
        if draw.random() < 0.35:
            op._set_device(draw.choice(ODD_REQUESTS if self.odd and draw.random() < 0.1 else REQUESTS))
        if draw.random() < 0.08:
            other = draw.choice(self.graph.get_operations())
            op._set_attr("_class", v1.AttrValue(list=v1.AttrValue.ListValue(s=[b"loc:@" + other.name.encode()])))


def depends_on_order(op):
    """Whether cutting moves it to the device of a node that is moved too: where it ends is then a matter of which comes
    first, and TensorFlow visits nodes depth first."""
    if op.type not in MOVED:
        return False
    others = [op.inputs[0].op] if op.type in ("Switch", "Exit") else op.outputs[0].consumers()
    return any(other.type in MOVED for other in others)


def place_with_tensorflow(target, drawing):
    """By node name; or the error's text."""
    config = v1.ConfigProto(allow_soft_placement=drawing.soft, log_device_placement=True)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    error = None
    metadata = v1.RunMetadata()
    with Silence() as log:
        try:
            with v1.Session(target, graph=drawing.graph, config=config) as session:
                options = v1.RunOptions(output_partition_graphs=drawing.cut, timeout_in_ms=20000)
                session.run(drawing.end, options=options, run_metadata=metadata)
        except tf.errors.InvalidArgumentError as e:
            error = e.message
    if error is not None:
        return error
    if drawing.cut:
        return {node.name: node.device for part in metadata.partition_graphs for node in part.node}
    placed = {}
    for line in log.text.splitlines():
        if match := LOGGED.match(line.strip()):
            placed[match.group(1)] = match.group(3)
    return placed


def place_with_tutti(tool, folder, drawings):
    for i, drawing in enumerate(drawings):
        with open(f"{folder}/{i}.pb", "wb") as f:
            f.write(drawing.graph.as_graph_def().SerializeToString())
    jobs = " ".join(f"{job}={tasks}" for job, tasks in JOBS.items())
    flags = "".join(d.flag for d in drawings)
    out = subprocess.run([tool, folder, flags, "/job:worker/replica:0/task:0", *jobs.split()], check=True, text=True,
                         capture_output=True).stdout
    results = [{} for _ in drawings]
    for line in out.splitlines():
        index, name, device = line.split(" ", 2)
        if name == "!":
            results[int(index)] = device
        else:
            results[int(index)][name] = device
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--graphs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=10)
    args = parser.parse_args()
    v1.disable_eager_execution()
    v1.disable_control_flow_v2()
    with Silence():
        servers = start_cluster()
    target = next(s.target for s in servers if s.server_def.job_name == "worker" and s.server_def.task_index == 0)
    with Silence():
        drawings = [Drawing(args.seed * 100000 + i) for i in range(args.graphs)]
    theirs = [place_with_tensorflow(target, d) for d in drawings]
    with tempfile.TemporaryDirectory() as folder:
        ours = place_with_tutti(args.tool, folder, drawings)
    compared = errors = different = cut = 0
    for i, drawing in enumerate(drawings):
        want, got = theirs[i], ours[i]
        problems = []
        cut += drawing.cut
        if isinstance(want, str) or isinstance(got, str):
            errors += 1
            if isinstance(want, str) != isinstance(got, str):
                problems.append(f"TensorFlow: {want if isinstance(want, str) else 'placed'}; "
                                f"Tutti: {got if isinstance(got, str) else 'placed'}")
        else:
            for op in drawing.graph.get_operations():
                if drawing.cut and (depends_on_order(op) or (op.name not in want and op.name not in got)):
                    continue  # or not needed by what runs
                compared += 1
                if want.get(op.name) != got.get(op.name):
                    problems.append(f"{op.name} ({op.type}, asks for '{op.device}'): "
                                    f"TensorFlow {want.get(op.name)}, Tutti {got.get(op.name)}")
        different += len(problems)
        for problem in problems[:3]:
            if args.show > 0:
                print(f"graph {args.seed * 100000 + i}: {problem}")
                args.show -= 1
    print(f"placement: {args.graphs} graphs, {cut} of them cut, {compared} nodes compared, {errors} refused, "
          f"{different} differences")
    sys.stdout.flush()
    if compared == 0:
        print("nothing was compared")
    os._exit(1 if different or compared == 0 else 0)  # servers have no stop


if __name__ == "__main__":
    main()
