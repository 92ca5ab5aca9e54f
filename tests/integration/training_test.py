"""Runs the examples that train on clusters and reads what they print: training_test.py FOLDER WHAT

  training_five_steps   in-graph replication with hooks ends at its step limit, with a checkpoint of that step
  training_ps_worker    a PSWorker and a TFCluster of a user's: loss falls, the checkpoint is there, both workers end
  training_flags        distributed_mnist, told by flags instead of TF_CONFIG
  demo_mnist_async      distributed MNIST, 784-500-500-10, Adam 1e-4, batch 32, 2 ps and 2 workers: 95 % by step 5,000
  demo_mnist_sync       the same with averaged gradients

The last two want MNIST's files in $TUTTI_DATA_DIR; without them they are skipped (exit status 77).
"""
import os
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
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


def five_steps(folder):
    with tempfile.TemporaryDirectory() as directory:
        text = run([f"{folder}/five_steps", "150", directory])
        check_checkpoint(directory, "model.ckpt-150")
    if "ended at step 150\n" not in text:
        sys.exit("it did not end at the limit")
    check_falling([float(x) for x in re.findall(r"loss = ([0-9.e+-]+)", text)])


def ps_worker(folder):
    with tempfile.TemporaryDirectory() as directory:
        text = run([f"{folder}/ps_worker", "60", f"{directory}/model"])
        check_checkpoint(directory, "model")
    if "both workers have ended\n" not in text:
        sys.exit("it did not end")
    check_falling([float(x) for x in re.findall(r"worker 0: step \d+, loss ([0-9.]+)", text)])


def flags(folder):
    text = run([f"{folder}/tutti", "run", "--ps", "1", "--workers", "2", "--host-flags", "env", "-u", "TF_CONFIG",
                f"{folder}/distributed_mnist", "--train_steps=1000", "--log_steps=10", "--digits=4000", "--learning_rate=1e-3"])
    check_falling(steps_of(text, 0)[1])
    if not steps_of(text, 1)[0]:
        sys.exit("worker 1 made no step")
    if not re.search(r"^\[worker 0\] test accuracy \d+\.\d %$", text, flags=re.MULTILINE):
        sys.exit("no accuracy")


def steps_of(text, worker):
    found = re.findall(rf"^\[worker {worker}\] Train step (\d+), loss: (\S+)$", text, flags=re.MULTILINE)
    return [int(step) for step, _ in found], [float(loss) for _, loss in found]


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
    if sync:
        # Tokens belong to nobody: a worker that does not get to run is overtaken. Mostly both are at the same step.
        together = sum(any(abs(a - b) <= 2 for a in reports[0][0]) for b in reports[1][0])
        if together < len(reports[1][0]) / 4:
            sys.exit(f"the workers were together in {together} of {len(reports[1][0])} reports")
    accuracy = float(re.search(r"^\[worker 0\] test accuracy (\d+\.\d) %$", text, flags=re.MULTILINE).group(1))
    if accuracy < 95:
        sys.exit(f"test accuracy {accuracy} % is under 95 %")


def main():
    folder, what = sys.argv[1:]
    tests = {"training_five_steps": five_steps, "training_ps_worker": ps_worker, "training_flags": flags,
             "demo_mnist_async": lambda f: mnist(f, False), "demo_mnist_sync": lambda f: mnist(f, True)}
    tests[what](folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
