"""Training on parameter servers (rows C9 and C10): two ps and two workers, 784-500-500-10, Adam, batch 32, on MNIST.

  ps_training_bench.py [--rounds 3] [--steps 1500] [--modes async sync] [--sides tutti python tensorflow]

Global steps/s, in turns, on the same cores:
  tutti       examples/distributed_mnist
  python      the seed's own Python program, a TensorFlow client, on Tutti's servers
  tensorflow  the seed's own program as it is, on TensorFlow's servers
Counted from when both workers have made progress after step 200. TensorFlow has its own settings, oneDNN on. Needs MNIST
in TUTTI_DATA_DIR and the seeds' documents.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/interop/seed"), str(ROOT / "tests/interop/cluster")]

from distributed_mnist import STEP_LINE, WORKERS, Job  # noqa: E402
from harness import die_with_parent, free_ports, quiet_environment  # noqa: E402

WARM_STEPS = 200
# To reach, in times the seed's program on TensorFlow's servers.
BUDGETS = {"tutti": 5.0, "python": 1.5}


class OwnJob:
    """The same tasks as processes of examples/distributed_mnist."""

    def __init__(self, is_sync, steps):
        self.folder = tempfile.TemporaryDirectory(prefix="own_")
        ports = iter(free_ports(2 + WORKERS))
        hosts = {job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in (("ps", 2), ("worker", WORKERS))}
        flags = [f"--{job}_hosts={','.join(addresses)}" for job, addresses in hosts.items()]
        flags += [f"--train_steps={steps}", "--no-evaluate", f"--checkpoint_dir={self.folder.name}/checkpoint_dir"]
        flags += ["--is_sync"] if is_sync else []
        self.lines, self.processes, self.threads = [[] for _ in range(WORKERS)], [], []
        for job, addresses in hosts.items():
            for i in range(len(addresses)):
                self._start([ROOT / "build/release/bin/distributed_mnist", *flags, f"--job_name={job}", f"--task_index={i}"],
                            self.lines[i] if job == "worker" else [])

    def _start(self, command, lines):
        process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, env=quiet_environment(),
                                   preexec_fn=die_with_parent)
        self.processes.append(process)
        self.threads.append(threading.Thread(target=self._read, args=(process, lines)))
        self.threads[-1].start()

    @staticmethod
    def _read(process, lines):
        for line in process.stdout:
            if match := STEP_LINE.search(line):
                lines.append((time.monotonic(), int(match[1]), float(match[2])))

    def wait(self):
        for process in self.processes[-WORKERS:]:
            if process.wait(timeout=300) != 0:
                raise SystemExit(f"a worker ended with {process.returncode}")
        return self.lines

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for process in self.processes:
            process.kill()
            process.wait()
        for thread in self.threads:
            thread.join()
        self.folder.cleanup()


def rate(workers):
    """Global steps a second, while all workers work: `workers` has each one's lines."""
    warm = [sorted(line for line in lines if line[1] >= WARM_STEPS) for lines in workers]
    begin, first, _ = max(lines[0] for lines in warm)
    end, last, _ = min(lines[-1] for lines in warm)
    return (last - first) / (end - begin)


def measure(side, is_sync, args):
    if side == "tutti":
        with OwnJob(is_sync, args.steps) as job:
            return rate(job.wait())
    with Job("tutti" if side == "python" else "tensorflow", is_sync, args.steps, args.seeds) as job:
        job.wait_checkpoint(args.steps, 600)
        return rate([worker.lines for worker in job.workers])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--modes", nargs="+", default=["async", "sync"])
    parser.add_argument("--sides", nargs="+", default=["tutti", "python", "tensorflow"])
    parser.add_argument("--seeds", default=ROOT.parent / "shared/seeds")
    args = parser.parse_args()
    for mode in args.modes:
        rates = {side: [] for side in args.sides}
        for _ in range(args.rounds):
            for side in args.sides:
                rates[side].append(measure(side, mode == "sync", args))
        medians = {side: statistics.median(values) for side, values in rates.items()}
        line = "  ".join(f"{side} {value:8.1f}" for side, value in medians.items())
        ratios = [(side, medians[side] / medians["tensorflow"], budget) for side, budget in BUDGETS.items()
                  if side in medians and "tensorflow" in medians]
        print(f"{mode:6s} {line}  global steps/s;  " +
              ", ".join(f"{side} {ratio:.2f}x, budget {budget}x{'' if ratio >= budget else ' MISSED'}"
                        for side, ratio, budget in ratios), flush=True)


if __name__ == "__main__":
    main()
