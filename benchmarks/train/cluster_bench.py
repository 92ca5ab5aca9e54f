#!/usr/bin/env python3
"""What becomes of a training job on parameter servers when there are many workers, slow ones, and dead ones.

  cluster_bench.py [cpu] [straggler] [save] [recovery] [--seconds 5] [--rounds 3]

  cpu        CPU time of all tasks for each global step, asynchronous, with 1 to 8 workers
  straggler  global steps/s of synchronous jobs of three workers, one of which is slowed to a fifth: it is stopped for
             four fifths of each quarter of a second, so never for as long as a lease. With a backup worker (two of
             three gradients make a step) the job keeps at least 85 % of its speed; without, it waits for the slow one.
             Beside it two workers alone, and which part of each worker's gradients came too late
  save       global steps/s of an asynchronous job of two workers that saves every 50 steps, beside one that saves
             nothing, in turns: saving costs at most 2 %
  recovery   seconds from kill -9 until every worker trains again, for each kind of task, under `tutti run --restarts`

The job is examples/distributed_mnist (784-500-500-10, Adam, batch 32) on drawn digits, two ps, checkpoints every 25
steps where tasks are killed.
"""
import argparse
import os
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build/release/bin"
STEP_LINE = re.compile(r"\[worker (\d+)\] Train step (\d+), loss")
BEGIN_LINE = re.compile(r"\[worker (\d+)\] Session begins at step")
TASK = re.compile(rb'"type": "([a-z]+)", "index": (\d+)')
TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE = 120  # seconds: after these something is broken
STRAGGLER_BUDGET = 0.85
SAVE_STEPS, SAVE_BUDGET = 50, 0.02
GRADIENTS_LINE = re.compile(r"Gradients of /job:worker/task:(\d+) at step \d+: (\d+) applied, (\d+) stale")


class Job:
    """`tutti run` with its output read; the processes of its tasks are known by a mark in their environment."""

    def __init__(self, workers, *flags, restarts=0, log_steps=5, train_steps=1000000000):
        self.folder = tempfile.TemporaryDirectory(prefix="cluster_bench_")
        self.mark = f"TUTTI_CLUSTER_BENCH={self.folder.name}"
        name, value = self.mark.split("=", 1)
        command = [BIN / "tutti", "run", "--ps", 2, "--workers", workers, "--restarts", restarts, "--threads", 1,
                   BIN / "distributed_mnist", "--digits=3000", f"--train_steps={train_steps}", "--no-evaluate",
                   f"--log_steps={log_steps}", *flags]
        environment = {key: text for key, text in os.environ.items() if key not in ("TF_CONFIG", "TUTTI_DATA_DIR")}
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env={**environment, name: value})
        self.changed = threading.Condition()
        self.steps = []  # (when, worker, global step)
        self.begins = []  # (when, worker): a session
        self.other = []  # the last lines of other kinds
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                if match := STEP_LINE.search(line):
                    self.steps.append((time.monotonic(), int(match[1]), int(match[2])))
                elif match := BEGIN_LINE.search(line):
                    self.begins.append((time.monotonic(), int(match[1])))
                else:
                    self.other = self.other[-20:] + [line]
                self.changed.notify_all()

    def wait(self, condition):
        with self.changed:
            if not self.changed.wait_for(condition, PATIENCE):
                raise SystemExit("the job does not go on:\n" + "".join(self.other))

    def wait_steps(self, since, workers):
        """Until each of the workers has told of a step after that moment; gives when the last of them did."""
        first = {}

        def all_there():
            first.clear()
            for when, worker, _ in self.steps:
                if when > since:
                    first.setdefault(worker, when)
            return all(worker in first for worker in workers)

        self.wait(all_there)
        return max(first[worker] for worker in workers)

    def wait_begins(self, since, workers):
        """Until each of the workers has a session that began after that moment; gives when the last of them did."""
        self.wait(lambda: set(workers) <= {worker for when, worker in self.begins if when > since})
        return max(min(when for when, worker in self.begins if worker == one and when > since) for one in workers)

    def global_step(self):
        with self.changed:
            return max((step for _, _, step in self.steps), default=0)

    def processes(self):
        """Of the tasks, by name ("ps 0"): the leaders, not what they have started."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                environment = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
            except OSError:
                continue
            if self.mark.encode() + b"\0" in environment and (match := TASK.search(environment)):
                found[f"{match[1].decode()} {match[2].decode()}"] = int(entry.name)
        return found

    def cpu_seconds(self):
        total = 0
        for process in self.processes().values():
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICKS

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.folder.cleanup()


class Slowed:
    """A process that runs for a fifth of the time."""

    PERIOD, SHARE = 0.25, 0.2

    def __init__(self, process):
        self.process = process
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            while not self.ended.is_set():
                os.kill(self.process, signal.SIGSTOP)
                self.ended.wait(self.PERIOD * (1 - self.SHARE))
                os.kill(self.process, signal.SIGCONT)
                self.ended.wait(self.PERIOD * self.SHARE)
        except ProcessLookupError:  # its job has ended
            pass

    def end(self):
        self.ended.set()
        self.thread.join()


def steps_per_second(job, seconds):
    begin, first = time.monotonic(), job.global_step()
    time.sleep(seconds)  # the time over which is measured
    return (job.global_step() - first) / (time.monotonic() - begin)


def cpu(args):
    print("CPU time of all tasks for a global step, asynchronous, 2 ps", flush=True)
    for workers in (1, 2, 4, 8):
        with Job(workers, log_steps=50) as job:
            job.wait_steps(0, range(workers))
            before, first, begin = job.cpu_seconds(), job.global_step(), time.monotonic()
            time.sleep(args.seconds)
            steps = job.global_step() - first
            used = job.cpu_seconds() - before
            print(f"  {workers} workers: {1e3 * used / max(steps, 1):7.3f} ms of CPU a step, "
                  f"{steps / (time.monotonic() - begin):8.1f} global steps/s", flush=True)


def straggler_ratio(workers, aggregate, args):
    """(steps/s with all workers well, steps/s with the last one slowed)"""
    well, slow = [], []
    with Job(workers, "--is_sync", f"--replicas_to_aggregate={aggregate}") as job:
        job.wait_steps(0, range(workers - 1))
        victim = job.processes()[f"worker {workers - 1}"]
        for _ in range(args.rounds):
            well.append(steps_per_second(job, args.seconds))
            slowed = Slowed(victim)
            try:
                time.sleep(1)  # for what was under way
                slow.append(steps_per_second(job, args.seconds))
            finally:
                slowed.end()
            time.sleep(0.5)
    return statistics.median(well), statistics.median(slow)


def stale_shares(workers, aggregate, args):
    """By worker: which part of its gradients came too late, with the last worker slowed."""
    steps = int(400 * args.seconds)
    with Job(workers, "--is_sync", f"--log_gradients={steps}", f"--replicas_to_aggregate={aggregate}",
             train_steps=steps) as job:
        job.wait_steps(0, range(workers - 1))
        slowed = Slowed(job.processes()[f"worker {workers - 1}"])
        try:
            job.process.wait(timeout=PATIENCE)
        finally:
            slowed.end()
        job.reader.join()
        counts = {int(match[1]): (int(match[2]), int(match[3])) for line in job.other
                  if (match := GRADIENTS_LINE.search(line))}  # the last of each: at the end
    return {worker: stale / max(1, applied + stale) for worker, (applied, stale) in sorted(counts.items())}


def rate_alone(workers, args):
    with Job(workers, "--is_sync") as job:
        job.wait_steps(0, range(workers))
        return statistics.median(steps_per_second(job, args.seconds) for _ in range(args.rounds))


def straggler(args):
    print("One of three synchronous workers slowed to a fifth (SIGSTOP for 200 of 250 ms); global steps/s", flush=True)
    for aggregate in (2, 3):
        well, slow = straggler_ratio(3, aggregate, args)
        ratio = slow / well
        verdict = f", budget {STRAGGLER_BUDGET:.0%}{'' if ratio >= STRAGGLER_BUDGET else ' MISSED'}" if aggregate < 3 else ""
        print(f"  {aggregate} of 3 gradients make a step: {well:7.1f} well, {slow:7.1f} slowed: {ratio:.0%}{verdict}",
              flush=True)
    print(f"  two workers alone, both well:    {rate_alone(2, args):7.1f}", flush=True)
    for aggregate in (2, 3):
        shares = ", ".join(f"worker {worker} {share:.1%}" for worker, share in stale_shares(3, aggregate, args).items())
        print(f"  {aggregate} of 3, worker 2 slowed, gradients that came too late: {shares}", flush=True)


def save(args):
    print(f"Saving every {SAVE_STEPS} steps, asynchronous, 2 ps and 2 workers; global steps/s", flush=True)
    rates = {False: [], True: []}
    for _ in range(args.rounds):
        for saving in rates:
            with tempfile.TemporaryDirectory(prefix="cluster_bench_") as folder:
                flags = (f"--checkpoint_dir={folder}", f"--save_steps={SAVE_STEPS}") if saving else ()
                with Job(2, *flags, log_steps=10) as job:
                    job.wait_steps(0, range(2))
                    rates[saving].append(steps_per_second(job, args.seconds))
                saved = any(name.endswith(".index") for name in os.listdir(folder))
                if saved != saving:
                    raise SystemExit(f"checkpoints in {folder}: {os.listdir(folder)}")
    plain, saving = (statistics.median(values) for values in rates.values())
    cost = 1 - saving / plain
    print(f"  {plain:7.1f} without, {saving:7.1f} with: saving costs {cost:.1%}, budget {SAVE_BUDGET:.0%} "
          f"{'met' if cost <= SAVE_BUDGET else 'MISSED'}", flush=True)


def recovery(args):
    print("Seconds from kill -9 until every worker trains again, 2 ps and 2 workers, a checkpoint every 25 steps",
          flush=True)
    kinds = {"a worker": ["worker 1"], "the chief": ["worker 0"], "a ps": ["ps 0"],
             "all": ["ps 0", "ps 1", "worker 0", "worker 1"]}
    for mode in ((), ("--is_sync",)):
        with tempfile.TemporaryDirectory(prefix="cluster_bench_") as checkpoints, \
                Job(2, f"--checkpoint_dir={checkpoints}", "--save_steps=25", *mode, restarts=1000) as job:
            job.wait_steps(0, range(2))
            job.wait(lambda: max(step for _, _, step in job.steps) > 60)
            for kind, tasks in kinds.items():
                times = []
                for _ in range(args.rounds):
                    running = job.processes()
                    killed = time.monotonic()
                    for task in tasks:
                        os.kill(running[task], signal.SIGKILL)
                    # Who lost a ps makes a new session, too.
                    lost_ps = any(task.startswith("ps") for task in tasks)
                    affected = range(2) if lost_ps else [int(task.split()[1]) for task in tasks]
                    begun = job.wait_begins(killed, affected)
                    times.append(job.wait_steps(begun, range(2)) - killed)
                    job.wait_steps(time.monotonic() + 0.5, range(2))
                print(f"  {'synchronous ' if mode else 'asynchronous'} {kind:10s} median {statistics.median(times):6.2f} s, "
                      f"longest {max(times):6.2f} s", flush=True)


WHAT = {"cpu": cpu, "straggler": straggler, "save": save, "recovery": recovery}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="*", choices=[*WHAT, []])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    for what in args.what or WHAT:
        WHAT[what](args)


if __name__ == "__main__":
    main()
