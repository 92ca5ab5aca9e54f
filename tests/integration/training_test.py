"""Runs the examples that train on clusters and reads what they print: training_test.py FOLDER WHAT

  training_five_steps   in-graph replication with hooks ends at its step limit, with a checkpoint of that step; by itself
                        and under `tutti run`
  training_ps_worker    a PSWorker and a TFCluster of a user's: loss falls, the checkpoint is there, both workers end;
                        likewise
  training_flags        distributed_mnist, told by flags instead of TF_CONFIG
  training_optimizers   distributed_mnist's flags for other ways to apply gradients
  training_async        distributed_mnist: every gradient is a step of its own, in turns of both workers
  training_sync         the same with --is_sync: a step is the mean of two gradients, mostly one of each worker
  training_straggler    one of three synchronous workers is stopped again and again: two gradients make a step, the
                        others do not wait, and what it computed for steps that are over is not applied
  demo_mnist_async      distributed MNIST, 784-500-500-10, Adam 1e-4, batch 32, 2 ps and 2 workers: 95 % by step 5,000
  demo_mnist_sync       the same with averaged gradients

The last two want MNIST's files in $TUTTI_DATA_DIR; without them they are skipped (exit status 77).
"""
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

SKIPPED = 77
SHORT_STEPS = 300
ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in ("TUTTI_DATA_DIR", "TF_CONFIG")}


def run(command, environment=None):
    done = subprocess.run(command, env=environment or ENVIRONMENT, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr, sep="")
    if done.returncode != 0:
        sys.exit(f"{command[0]}: exit status {done.returncode}")
    return done.stdout + done.stderr


def check_checkpoint(directory, name):
    with open(os.path.join(directory, "checkpoint"), encoding="utf-8") as state:
        newest = re.search(r'model_checkpoint_path: "(.*)"', state.read()).group(1)
    if os.path.basename(newest) != name:
        sys.exit(f"the newest checkpoint is {newest}, not {name}")
    files = os.listdir(directory)
    if f"{name}.index" not in files or not any(f.startswith(f"{name}.data-") for f in files):
        sys.exit(f"no checkpoint {name} among {files}")


def check_falling(losses):
    tenth = max(1, len(losses) // 10)
    first, last = sum(losses[:tenth]) / tenth, sum(losses[-tenth:]) / tenth
    if not last < 0.7 * first:
        sys.exit(f"the loss went from {first} to {last}")


def under_run(folder):
    return [f"{folder}/tutti", "run", "--ps", "1", "--workers", "2"]


def five_steps(folder):
    for start, label in (([], ""), (under_run(folder), "[worker 0] ")):
        with tempfile.TemporaryDirectory() as directory:
            text = run([*start, f"{folder}/five_steps", "150", directory])
            check_checkpoint(directory, "model.ckpt-150")
        if f"{label}ended at step 150\n" not in text or text.count("ended at step") != 1:
            sys.exit("it did not end at the limit, once")
        check_falling([float(x) for x in re.findall(r"loss = ([0-9.e+-]+)", text)])


def ps_worker(folder):
    for start, ends in (([], ["both workers have ended\n"]),
                        (under_run(folder), [f"[worker {i}] this worker has ended\n" for i in (0, 1)])):
        with tempfile.TemporaryDirectory() as directory:
            text = run([*start, f"{folder}/ps_worker", "60", f"{directory}/model"])
            check_checkpoint(directory, "model")
        for end in ends:
            if end not in text:
                sys.exit(f"no line {end!r}")
        check_falling([float(x) for x in re.findall(r"worker 0: step \d+, loss ([0-9.]+)", text)])


def flags(folder):
    text = run([f"{folder}/tutti", "run", "--ps", "1", "--workers", "2", "--host-flags", "env", "-u", "TF_CONFIG",
                f"{folder}/distributed_mnist", "--num_workers=2", "--train_steps=1000", "--log_steps=10", "--digits=4000", "--learning_rate=1e-3"])
    check_falling(steps_of(text, 0)[1])
    if not steps_of(text, 1)[0]:
        sys.exit("worker 1 made no step")
    if not re.search(r"^\[worker 0\] test accuracy \d+\.\d %$", text, flags=re.MULTILINE):
        sys.exit("no accuracy")
    check_speed(text)


def optimizers(folder):
    """What the flags ask for is in the graph of the checkpoint, and training goes on with it."""
    marks = {b"ApplyMomentum": "--optimizer=momentum", b"RandomStandardNormal": "--gradient_noise=0.01",
             b"DelayCompensation": "--delay_compensation=0.04"}
    for flags in ([], list(marks.values())):
        with tempfile.TemporaryDirectory() as directory:
            text = run([f"{folder}/tutti", "run", "--ps", "1", "--workers", "2", f"{folder}/distributed_mnist",
                        "--train_steps=300", "--log_steps=10", "--digits=4000", "--no-evaluate",
                        f"--checkpoint_dir={directory}", f"--learning_rate={0.02 if flags else 1e-3}", *flags])
            with open(glob.glob(os.path.join(directory, "*.meta"))[0], "rb") as file:
                graph = file.read()
        check_falling(steps_of(text, 0)[1])
        for mark, flag in marks.items():
            if (mark in graph) != (flag in flags):
                sys.exit(f"with {flags} the graph has {'a' if mark in graph else 'no'} {mark.decode()}")


def steps_of(text, worker):
    found = re.findall(rf"^\[worker {worker}\] Train step (\d+), loss: (\S+)$", text, flags=re.MULTILINE)
    return [int(step) for step, _ in found], [float(loss) for _, loss in found]


def every_gradient(folder, *flags):
    """What was printed, and the steps that each of two workers was at, one for each of its gradients."""
    text = run([f"{folder}/tutti", "run", "--ps", "2", "--workers", "2", f"{folder}/distributed_mnist",
                f"--train_steps={SHORT_STEPS}", "--log_steps=1", "--digits=4000", "--no-evaluate", *flags])
    reports = [steps_of(text, worker)[0] for worker in (0, 1)]
    for worker, steps in enumerate(reports):
        if not steps or steps != sorted(steps):
            sys.exit(f"worker {worker} was at the steps {steps}")
    return text, reports


def asynchronous(folder):
    _, reports = every_gradient(folder)
    gradients = sum(map(len, reports))
    # As in TensorFlow a worker may learn of the last step by one more of its own.
    if not SHORT_STEPS <= gradients <= SHORT_STEPS + 2:
        sys.exit(f"{gradients} gradients made {SHORT_STEPS} steps")
    both = max(steps[0] for steps in reports)
    owners = [worker for _, worker in sorted((step, worker) for worker in (0, 1) for step in reports[worker]
                                             if step >= both)]
    turns = sum(a != b for a, b in zip(owners, owners[1:]))
    if turns < len(owners) / 10:
        sys.exit(f"{turns} turns in the {len(owners)} steps since both workers were there: {owners}")


def told_gradients(text):
    """What the chief told of gradients: (worker, step, how many were applied, how many came too late)."""
    told = re.findall(r"^\[worker 0\] Gradients of /job:worker/task:(\d) at step (\d+): (\d+) applied, (\d+) stale, "
                      r"0 retried$", text, flags=re.MULTILINE)
    return [tuple(map(int, one)) for one in told]


def synchronous(folder):
    text, reports = every_gradient(folder, "--is_sync", f"--log_gradients={SHORT_STEPS // 3}")
    gradients = sum(map(len, reports))
    # The last step ends a worker before it can say so.
    if gradients < 2 * SHORT_STEPS - 1:
        sys.exit(f"{gradients} gradients made {SHORT_STEPS} steps of two")
    # Tokens belong to nobody: a worker that does not get to run is overtaken. Mostly both are at the same step.
    both = max(steps[0] for steps in reports)
    seen = [{step for step in steps if step >= both} for steps in reports]
    if len(seen[0] & seen[1]) < len(seen[0] | seen[1]) / 2:
        sys.exit(f"both workers saw only {len(seen[0] & seen[1])} of {len(seen[0] | seen[1])} steps")
    # Two gradients of each of six variables are a step.
    told = told_gradients(text)
    applied = {worker: count for worker, _, count, _ in told}  # the last of each
    if len(applied) != 2 or sum(applied.values()) < 12 * SHORT_STEPS:
        sys.exit(f"the workers' gradients in {SHORT_STEPS} steps: {told}")
    # The first steps, two at intervals and the end; these may be the same.
    if len({step for _, step, _, _ in told}) < 3:
        sys.exit(f"the workers' gradients were not told of at intervals: {told}")


def process_of(mark, job, index):
    """The process of this task, of the job that was started with `mark` in its environment."""
    wanted = f'"type": "{job}", "index": {index}}}'.encode()
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                environment = file.read()
        except OSError:  # it has ended, or is somebody else's
            continue
        if mark.encode() + b"\0" in environment and wanted in environment:
            return int(path.split("/")[2])
    sys.exit(f"no process of {job} {index}")


def slow_down(process, ended):
    """Stops it for 200 ms of 250, until `ended` is set or it has gone."""
    try:
        while not ended.is_set():
            os.kill(process, signal.SIGSTOP)
            ended.wait(0.2)
            os.kill(process, signal.SIGCONT)
            ended.wait(0.05)
    except ProcessLookupError:
        pass


def straggler(folder):
    steps, variables = 4000, 6
    mark = f"TUTTI_TRAINING_TEST={os.getpid()}"
    job = subprocess.Popen([f"{folder}/tutti", "run", "--ps", "1", "--workers", "3", f"{folder}/distributed_mnist",
                            f"--train_steps={steps}", "--log_steps=10", "--digits=4000", "--no-evaluate", "--is_sync",
                            "--replicas_to_aggregate=2", f"--log_gradients={steps}"],
                           env={**ENVIRONMENT, **dict([mark.split("=")])}, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    ended, slowing, lines = threading.Event(), None, []
    with job:
        try:
            for line in job.stdout:
                lines.append(line)
                if slowing is None and line.startswith("[worker 2] Train step"):
                    slowing = threading.Thread(target=slow_down, args=(process_of(mark, "worker", 2), ended))
                    slowing.start()
        except BaseException:
            job.terminate()
            raise
        finally:
            ended.set()
            if slowing is not None:
                slowing.join()
    text = "".join(lines)
    print(text)
    if job.returncode != 0:
        sys.exit(f"the job ended with {job.returncode}")
    if slowing is None:
        sys.exit("worker 2 made no step before the job ended")
    told = {worker: counts for worker, _, *counts in told_gradients(text)}  # the last of each
    if len(told) != 3:
        sys.exit(f"gradients were told of {told}")
    if sum(applied for applied, _ in told.values()) < 2 * variables * steps:
        sys.exit(f"{steps} steps of two gradients of {variables} variables each had only {told}")
    if told[2][1] == 0:
        sys.exit(f"no gradient of worker 2, which was slow, came too late: {told}")
    if told[2][0] > min(told[0][0], told[1][0]) / 2:
        sys.exit(f"worker 2, which had a fifth of the time, has its full share: {told}")


def check_speed(text):
    speed = re.search(r"^\[worker 0\] (\d+\.\d) global steps/s$", text, flags=re.MULTILINE)
    if not speed or float(speed.group(1)) <= 0:
        sys.exit("no speed")


def mnist(folder, sync):
    if not os.environ.get("TUTTI_DATA_DIR"):
        print("skipped: TUTTI_DATA_DIR is not set")
        sys.exit(SKIPPED)
    environment = {**ENVIRONMENT, "TUTTI_DATA_DIR": os.environ["TUTTI_DATA_DIR"]}
    command = [f"{folder}/tutti", "run", "--ps", "2", "--workers", "2", f"{folder}/distributed_mnist",
               "--train_steps=5000", *(["--is_sync"] if sync else [])]
    text = run(command, environment)
    reports = [steps_of(text, worker) for worker in (0, 1)]
    for worker, (steps, losses) in enumerate(reports):
        if len(steps) < 20:
            sys.exit(f"worker {worker} reports {len(steps)} times")
        check_falling(losses)
    check_speed(text)
    accuracy = float(re.search(r"^\[worker 0\] test accuracy (\d+\.\d) %$", text, flags=re.MULTILINE).group(1))
    if accuracy < 95:
        sys.exit(f"test accuracy {accuracy} % is under 95 %")


def main():
    folder, what = sys.argv[1:]
    tests = {"training_five_steps": five_steps, "training_ps_worker": ps_worker, "training_flags": flags,
             "training_optimizers": optimizers,
             "training_async": asynchronous, "training_sync": synchronous, "training_straggler": straggler,
             "demo_mnist_async": lambda f: mnist(f, False), "demo_mnist_sync": lambda f: mnist(f, True)}
    tests[what](folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
