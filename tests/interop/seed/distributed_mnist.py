"""The seed's distributed_mnist.py (row C9), run as it is printed there, and what it leaves behind.

  distributed_mnist.py [--servers tutti] [--steps 2000] [--mode async|sync] [--seeds FOLDER] [--min-accuracy 0.9]

Takes the listing from the documents in FOLDER, changes the import of TensorFlow to tf.compat.v1, the import of the data
reader to mnist_reader.py's, has every step printed, lets sessions close quickly and, for Tutti's workers, changes its own
Server to the address of one that runs; starts two parameter servers and two workers, waits until both workers have
ended, and tests the weights in the last checkpoint on MNIST's test images.
--servers is as for cluster/run.py: "tutti", "tensorflow", or "ps=tutti,worker=tensorflow", where the workers keep their
Server line and run in a mixed cluster.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]

from harness import Cluster, Options, die_with_parent, quiet_environment  # noqa: E402

WORKERS = 2
GRACE_SECONDS = 2
STEP_LINE = re.compile(r"Train step (\d+), loss: ([\d.]+)")


def find_listing(folder):
    """The Python listing that defines the flag is_sync."""
    for path in sorted(Path(folder).glob("*.txt")):
        for listing in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
            if '"is_sync"' in listing:
                return listing
    raise SystemExit(f"no document in {folder} has the listing distributed_mnist.py")


def replace_once(text, old, new):
    changed, count = re.subn(old, new, text, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"{count} places in the listing match {old!r}, not one")
    return changed


def adapted(listing, own_server, steps, print_steps):
    text = replace_once(listing, r"import tensorflow as tf\n",
                        "import tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()\n")
    text = replace_once(text, r"from tensorflow\.contrib\S+ import", "from mnist_reader import RunningServer,")
    text = replace_once(text, r"last_step=2000", f"last_step={steps}")
    text = replace_once(text, r"step % 100 == 0", f"step % {print_steps} == 0")
    # The chief's thread that averages gradients ends with the session only, and a coordinator waits for it for 120 s.
    text = replace_once(text, r"hooks=hooks\)", f"hooks=hooks, stop_grace_period_secs={GRACE_SECONDS})")
    if not own_server:
        text = replace_once(text, r"tf\.train\.Server\(.*?\)", "RunningServer(worker_hosts[FLAGS.task_index])")
    return text


class Worker:
    """A worker's process; `lines` are (seconds, step, loss) as they were printed."""

    def __init__(self, program, cluster, index, is_sync, folder, python):
        hosts = [f"--{job}_hosts={','.join(addresses)}" for job, addresses in cluster.spec.items()]
        env = dict(quiet_environment(), PYTHONPATH=str(HERE), WORKER_SEED=str(index + 1))
        if index > 0:
            env["WAIT_FOR_FILE"] = os.path.join(folder, "checkpoint_dir", "checkpoint")
        self.index = index
        self.lines = []
        self.errors = open(Path(folder) / f"worker_{index}.log", "w+b")
        self.process = subprocess.Popen(
            [python, program, *hosts, "--job_name=worker", f"--task_index={index}", f"--is_sync={is_sync}"],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=env,
            preexec_fn=die_with_parent)
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self):
        for line in self.process.stdout:
            if match := STEP_LINE.match(line):
                self.lines.append((time.monotonic(), int(match[1]), float(match[2])))

    def check_alive(self):
        if self.process.poll() not in (None, 0):
            raise SystemExit(f"worker {self.index} ended with {self.process.returncode}:\n{self.written()}")

    def written(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")[-3000:]

    def wait_end(self, deadline):
        """Until it has ended by itself, and well."""
        try:
            self.process.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise SystemExit(f"worker {self.index} made its steps and does not end:\n{self.written()}") from None
        self.check_alive()
        self.thread.join()

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.thread.join()
        self.errors.close()


class Job:
    """The program on a cluster of two parameter servers and two workers, which print every so many steps."""

    def __init__(self, servers, is_sync, steps, seeds, python=sys.executable, print_steps=100):
        self.folder = tempfile.TemporaryDirectory(prefix="seed_")
        options = Options(servers, server_python=python)
        own_server = options.kind("worker") == "tensorflow"
        # Workers that keep their Server line are servers themselves.
        self.cluster = Cluster(options, {"ps": 2, "worker": WORKERS}, start=False, folder=self.folder.name)
        self.workers = []
        try:
            started = [task for task in self.cluster.tasks.values() if task.job == "ps" or not own_server]
            for task in started:
                task.start()
            for task in started:
                task.wait_listening()
            program = Path(self.folder.name) / "distributed_mnist.py"
            program.write_text(adapted(find_listing(seeds), own_server, steps, print_steps))
            self.workers = [Worker(program, self.cluster, i, is_sync, self.folder.name, python)
                            for i in range(WORKERS)]
        except BaseException:
            self.stop()
            raise

    def checkpoint_folder(self):
        return os.path.join(self.folder.name, "checkpoint_dir")

    def wait_checkpoint(self, step, seconds):
        """Until a checkpoint of that step is complete."""
        deadline = time.monotonic() + seconds
        while self.saved_step() < step:
            for worker in self.workers:
                worker.check_alive()
            if time.monotonic() > deadline:
                raise SystemExit(f"no checkpoint of step {step} after {seconds} s; the last is of {self.saved_step()}")
            time.sleep(0.2)

    def wait_end(self, seconds):
        deadline = time.monotonic() + seconds
        for worker in self.workers:
            worker.wait_end(deadline)

    def saved_step(self):
        """The step of the newest complete checkpoint; -1 without one."""
        try:
            state = Path(self.checkpoint_folder(), "checkpoint").read_text()
        except FileNotFoundError:
            return -1
        match = re.match(r'model_checkpoint_path: ".*-(\d+)"', state)
        return int(match[1]) if match else -1

    def stop(self):
        for worker in self.workers:
            worker.stop()
        self.cluster.stop()
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.stop()


def accuracy(folder):
    """Of the checkpoint's three layers on the test images."""
    import numpy as np
    import tensorflow as tf
    from mnist_reader import read_split

    reader = tf.train.load_checkpoint(folder)
    images, classes = read_split("t10k")
    for i, layer in enumerate(("dense", "dense_1", "dense_2")):
        images = images @ reader.get_tensor(layer + "/kernel") + reader.get_tensor(layer + "/bias")
        if i < 2:
            images = np.maximum(images, 0)
    return float((images.argmax(1) == classes).mean())


def check_lines(workers):
    """Both workers took part, in the order of steps, and losses fell."""
    for worker in workers:
        steps = [step for _, step, _ in worker.lines]
        if steps != sorted(steps) or not steps:
            raise SystemExit(f"worker {worker.index} printed steps {steps}")
    losses = [loss for _, _, loss in sorted(workers[0].lines + workers[1].lines)]
    tail = losses[-len(losses) // 10:]
    if sum(tail) / len(tail) > 0.6 * losses[0]:
        raise SystemExit(f"losses do not fall: {losses}")


def steps_with_both(workers):
    """The steps that each has printed since both are there."""
    both = max(worker.lines[0][1] for worker in workers)
    return [{step for _, step, _ in worker.lines if step >= both} for worker in workers]


def check_asynchronous(workers, last_step):
    """Every gradient is a step, and the workers take turns."""
    gradients = sum(len(worker.lines) for worker in workers)
    # A worker may learn of the last step by one more of its own.
    if not last_step <= gradients <= last_step + WORKERS:
        raise SystemExit(f"{gradients} gradients made {last_step} steps")
    owners = [owner for _, owner in sorted((step, owner) for owner, steps in enumerate(steps_with_both(workers))
                                           for step in steps)]
    turns = sum(a != b for a, b in zip(owners, owners[1:]))
    if turns < len(owners) / 20:
        raise SystemExit(f"asynchronous workers took {turns} turns in {len(owners)} steps")


def check_synchronous(workers, last_step):
    """Two gradients are a step, mostly one of each worker: the first makes both until the other is there."""
    gradients = sum(len(worker.lines) for worker in workers)
    # The last step may end a worker before it prints.
    if gradients < 2 * last_step - 1:
        raise SystemExit(f"{gradients} gradients made {last_step} steps of two")
    printed = steps_with_both(workers)
    if len(printed[0] & printed[1]) < len(printed[0] | printed[1]) / 2:
        raise SystemExit(f"synchronous workers saw different steps: {sorted(printed[0])}, {sorted(printed[1])}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", default="tutti")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--mode", choices=("async", "sync"), action="append")
    parser.add_argument("--seeds", default=ROOT.parent / "shared/seeds")
    parser.add_argument("--min-accuracy", type=float, default=0.9)
    args = parser.parse_args()
    if not Path(args.seeds).is_dir() or "TUTTI_DATA_DIR" not in os.environ:
        print("seed program: SKIPPED, needs the documents (--seeds) and MNIST (TUTTI_DATA_DIR)")
        return
    os.environ.update(quiet_environment())
    for mode in args.mode or ("async", "sync"):
        begin = time.monotonic()
        with Job(args.servers, mode == "sync", args.steps, args.seeds, print_steps=1) as job:
            job.wait_checkpoint(args.steps, 300)
            seconds = time.monotonic() - begin
            job.wait_end(120)
            check_lines(job.workers)
            (check_synchronous if mode == "sync" else check_asynchronous)(job.workers, args.steps)
            reached = accuracy(job.checkpoint_folder())
        print(f"seed program, {mode}, {args.servers}: {args.steps} steps, test accuracy {reached:.3f}, {seconds:.0f} s")
        if reached < args.min_accuracy:
            raise SystemExit(f"test accuracy {reached} is under {args.min_accuracy}")


if __name__ == "__main__":
    main()
