"""TensorFlow's Python client against TensorFlow's servers and against Tutti's, in alternating rounds of one run.

  session_bench.py                      both, with ratios and budgets
  session_bench.py --sides tensorflow tensorflow     the same servers on both sides: what the noise is

Prints, for each side and as the ratio of the medians: the round trip of a step without fetches, steps/s of the seed's
graph of three tasks, tensor throughput between two tasks by size (Tutti's over shared memory, then over gRPC), the
servers' CPU time a step by number of tasks, and memory of a task at rest.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/interop/cluster"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow.compat.v1 as tf  # noqa: E402

from harness import Cluster, Options  # noqa: E402

tf.disable_v2_behavior()

STEP_BUDGET = 2.0  # small steps of several tasks, the same Python client on both sides
EMPTY_STEP_BUDGET = 1.3  # one task, which is mostly the client's own cost
OWN_CLIENT_BUDGET = 5.0  # the same steps, each with its own client
GRPC_BUDGET = 1.5  # throughput
SHM_BUDGET = 3.0
MEMORY_BUDGET = 30e6  # bytes of a task at rest
GROWTH_BUDGET = 1.5  # CPU time for each hop from task to task, of the longest chain, in times that of the shortest
SIZES = [1 << 10, 1 << 15, 1 << 20, 1 << 25, 1 << 30]
CHAIN_TASKS = [2, 8, 32, 64]
TENSORFLOW_TASKS = 8  # the longest chain on its servers, which take a quarter of a gigabyte each
WARM_STEPS = 20


class Side:
    """One kind of servers, with a cluster of one parameter server and `workers` workers."""

    def __init__(self, name, args, workers, tutti_flags=""):
        self.name = name
        self.cluster = Cluster(Options(name, tutti=args.tutti, tutti_flags=tutti_flags), {"ps": 1, "worker": workers})

    def session(self, graph):
        return tf.Session(self.cluster.target(), graph=graph)

    def cpu_seconds(self):
        return sum(task.cpu_seconds() for task in self.cluster.tasks.values())


def alternate(sides, measure, rounds):
    """The median of what measure(side index) gives, for each side; the order turns every round."""
    values = [[] for _ in sides]
    for r in range(rounds):
        for i in (range(len(sides)) if r % 2 == 0 else reversed(range(len(sides)))):
            values[i].append(measure(i))
    return [statistics.median(v) for v in values]


def timed_steps(call, seconds):
    """Seconds a call, over at least three."""
    count, refused, start = 0, 0, time.perf_counter()
    while True:
        begin = time.perf_counter()
        try:
            call()
        except tf.errors.AbortedError as error:
            # TensorFlow's channels send a request again now and then, which its workers then refuse, in these words.
            refused += 1
            if "request was received twice. " not in error.message or refused > 10:
                raise
            start += time.perf_counter() - begin
            continue
        count += 1
        spent = time.perf_counter() - start
        if spent >= seconds and count >= 3:
            return spent / count


def step_times(sides, graph, fetch, args, initialise=None):
    """Seconds a step of `fetch`, for each side."""
    sessions = [side.session(graph) for side in sides]
    try:
        calls = []
        for sess in sessions:
            if initialise is not None:
                sess.run(initialise)
            call = sess.make_callable(fetch)
            for _ in range(WARM_STEPS):
                call()
            calls.append(call)
        return alternate(sides, lambda i: timed_steps(calls[i], args.seconds), args.rounds)
    finally:
        for sess in sessions:
            sess.close()


class OwnClient:
    """Tutti's client in a process of its own, that steps for as long as it is told."""

    def __init__(self, kind, target):
        self.process = subprocess.Popen([ROOT / "build/release/bin/client_step_bench", kind, target], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if not self.process.stdout.readline().startswith("ready"):
            raise RuntimeError(f"client_step_bench {kind} {target} did not start")

    def step_time(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return 1 / float(self.process.stdout.readline())

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def own_client_times(sides, kind, graph, fetch, args, initialise=None):
    """Seconds a step: TensorFlow's client on the first side, Tutti's on the second."""
    client = OwnClient(kind, sides[1].cluster.target())
    try:
        with sides[0].session(graph) as sess:
            if initialise is not None:
                sess.run(initialise)
            call = sess.make_callable(fetch)
            for _ in range(WARM_STEPS):
                call()
            measures = [lambda: timed_steps(call, args.seconds), lambda: client.step_time(args.seconds)]
            return alternate(sides, lambda i: measures[i](), args.rounds)
    finally:
        client.stop()


def report(what, values, unit, better, budget=None):
    """One line; `better` is "less" or "more", and the ratio is over 1 where the second side is better."""
    if len(values) == 1:
        print(f"{what:<50} {'':>12} {values[0]:12.4g} {unit}", flush=True)
        return
    first, second = values
    ratio = first / second if better == "less" else second / first
    verdict = "" if budget is None else f", budget {budget:g}x: {'met' if ratio >= budget else 'MISSED'}"
    print(f"{what:<50} {first:12.4g} {second:12.4g} {unit:<8} {ratio:6.2f}x{verdict}", flush=True)


def empty_step(sides, args):
    graph = tf.Graph()
    with graph.as_default(), tf.device("/job:worker/task:0"):
        nothing = tf.no_op()
    what = "a step without fetches, one task"
    report(what, [t * 1e6 for t in step_times(sides, graph, nothing, args)], "us", "less",
           EMPTY_STEP_BUDGET)
    if args.sides[1] == "tutti":
        times = own_client_times(sides, "empty", graph, nothing, args)
        report(f"{what}, own clients", [t * 1e6 for t in times], "us", "less", OWN_CLIENT_BUDGET)


def seed_graph(sides, args):
    graph = tf.Graph()
    with graph.as_default():
        with tf.device("/job:ps/task:0"):
            x, y = tf.Variable(tf.ones([2, 2])), tf.Variable(tf.ones([2, 2]))
        with tf.device("/job:worker/task:0"):
            z = tf.matmul(x, y) + x
        with tf.device("/job:worker/task:1"):
            z = tf.matmul(z, x) + x
        init = tf.global_variables_initializer()
    what = "the seed's graph of three tasks"
    times = step_times(sides, graph, z, args, init)
    report(what, [1 / t for t in times], "steps/s", "more", STEP_BUDGET)
    if args.sides[1] == "tutti":
        times = own_client_times(sides, "seed", graph, z, args, init)
        report(f"{what}, own clients", [1 / t for t in times], "steps/s", "more", OWN_CLIENT_BUDGET)


def transfer_graph(size, count):
    """A graph with a step that moves `count` tensors of `size` bytes from one task to another, and the step without."""
    graph = tf.Graph()
    with graph.as_default():
        with tf.device("/job:ps/task:0"):
            sources = [tf.get_variable(f"source_{size}_{i}", initializer=tf.zeros([size // 4]), use_resource=True)
                       for i in range(count)]
            reads = [v.read_value() for v in sources]
            stay = tf.add_n([r[:1] for r in reads])
        with tf.device("/job:worker/task:1"):
            without, moving = tf.identity(stay), tf.add_n([r[:1] for r in reads])
        return graph, moving.op, without.op, tf.global_variables_initializer()


def throughput(sides, transport, budget, args):
    """Bytes over the time that a step takes longer when it moves them. Small tensors go by many in a step, else their
    time would be lost in the step's own."""
    for size in [s for s in SIZES if s <= args.largest]:
        count = 64 if size < 1 << 20 else 8 if size < 1 << 25 else 1
        graph, moving, without, init = transfer_graph(size, count)
        sessions = [side.session(graph) for side in sides]
        calls = []
        for sess in sessions:
            sess.run(init)
            calls.append([sess.make_callable(moving), sess.make_callable(without)])
            for call in calls[-1] * (WARM_STEPS if size < 1 << 25 else 2):
                call()

        def measure(i):
            return timed_steps(calls[i][0], args.seconds / 2) - timed_steps(calls[i][1], args.seconds / 2)

        seconds = alternate(sides, measure, args.rounds)
        rates = [size * count / max(s, 1e-9) / 1e9 for s in seconds]
        report(f"{transport}, {count} x {size:,} bytes", rates, "GB/s", "more", budget)
        for sess in sessions:
            sess.close()
            tf.Session.reset(sess.sess_str)


def cpu_a_step(args):
    """A chain over all tasks: the servers' CPU time a step, and their memory before the first."""
    own = {}  # Tutti's microseconds a hop, by number of tasks
    for tasks in [t for t in CHAIN_TASKS if t <= args.tasks]:
        names = [name for name in args.sides if name == "tutti" or tasks <= TENSORFLOW_TASKS]
        if not names:
            continue
        sides = [Side(name, args, tasks - 1) for name in names]
        try:
            memory = [statistics.median(t.memory_bytes() for t in s.cluster.tasks.values()) / 1e6 for s in sides]
            report(f"memory of a task at rest, {tasks} tasks", memory, "MB", "less")
            if "tutti" in names and memory[names.index("tutti")] * 1e6 > MEMORY_BUDGET:
                print(f"  budget {MEMORY_BUDGET / 1e6:g} MB: MISSED")
            graph = tf.Graph()
            with graph.as_default():
                with tf.device("/job:ps/task:0"):
                    x = tf.placeholder_with_default(tf.constant(1.0), [])
                for i in range(tasks - 1):
                    with tf.device(f"/job:worker/task:{i}"):
                        x = x + 1
            sessions = [s.session(graph) for s in sides]
            calls = [sess.make_callable(x.op) for sess in sessions]

            def measure(i):
                before, count = sides[i].cpu_seconds(), 0
                end = time.perf_counter() + args.seconds
                while time.perf_counter() < end or count < 20:
                    calls[i]()
                    count += 1
                return (sides[i].cpu_seconds() - before) / count * 1e6

            for call in calls:
                for _ in range(WARM_STEPS):
                    call()
            cost = alternate(sides, measure, args.rounds)
            report(f"servers' CPU time a step, {tasks} tasks", cost, "us", "less")
            report("  of it a task", [c / tasks for c in cost], "us", "less")
            if "tutti" in names:
                own[tasks] = cost[names.index("tutti")] / (tasks - 1)
            for sess in sessions:
                sess.close()
        finally:
            for side in sides:
                side.cluster.stop()
    if len(own) > 1:
        fewest, most = min(own), max(own)
        growth = own[most] / own[fewest]
        print(f"CPU time a step and hop, {most} tasks over {fewest}: {growth:.2f}x, budget {GROWTH_BUDGET:g}x: "
              f"{'met' if growth <= GROWTH_BUDGET else 'MISSED'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", nargs=2, default=["tensorflow", "tutti"], choices=["tensorflow", "tutti"])
    parser.add_argument("--tutti", default=ROOT / "build/release/bin/tutti", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a round")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="bytes of the largest transfer")
    parser.add_argument("--tasks", type=int, default=CHAIN_TASKS[-1], help="of the longest chain")
    args = parser.parse_args()
    print(f"TensorFlow {tf.__version__} as the client; {args.rounds} rounds of {args.seconds:g} s, medians")
    print(f"{'':<50} {args.sides[0]:>12} {args.sides[1]:>12} {'':<8} ratio (over 1: the second side is better)")
    sides = [Side(name, args, 2) for name in args.sides]
    try:
        empty_step(sides, args)
        seed_graph(sides, args)
        throughput(sides, "shared memory" if "tutti" in args.sides else "loopback", SHM_BUDGET, args)
        if args.sides[1] == "tutti":
            sides.append(Side("tutti", args, 2, "--no-shared-memory"))
            throughput([sides[0], sides[2]], "gRPC", GRPC_BUDGET, args)
    finally:
        for side in sides:
            side.cluster.stop()
    cpu_a_step(args)


if __name__ == "__main__":
    main()
