"""Runs the demo as a user does and reads what it prints: demo_test.py PROGRAM drawn|mnist

Drawn digits: above 97 % test accuracy. MNIST's files from $TUTTI_DATA_DIR: at least 97 % within 3 epochs; without
them the test is skipped (exit status 77).
"""
import os
import re
import subprocess
import sys

SKIPPED = 77


def run(program, epochs, environment):
    done = subprocess.run([program, str(epochs)], env=environment, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr, sep="")
    if done.returncode != 0:
        sys.exit(f"exit status {done.returncode}")
    lines = done.stdout.splitlines()
    if "\r" in done.stdout:
        sys.exit("a progress bar where no terminal is")
    reports = [line for line in lines if line.startswith("epoch ")]
    if len(reports) != epochs:
        sys.exit(f"{len(reports)} epochs reported, {epochs} asked for")
    last = re.fullmatch(r"test accuracy (\d+\.\d) %  (\d+) steps/s", lines[-1])
    if not last:
        sys.exit(f"the last line is {lines[-1]!r}")
    return float(last.group(1))


def main():
    program, kind = sys.argv[1:]
    environment = {k: v for k, v in os.environ.items() if k != "TUTTI_DATA_DIR"}
    if kind == "mnist":
        if not os.environ.get("TUTTI_DATA_DIR"):
            print("skipped: TUTTI_DATA_DIR is not set")
            return SKIPPED
        environment = os.environ
    accuracy = run(program, 3, environment)
    if accuracy < 97.0:
        sys.exit(f"test accuracy {accuracy} % is under 97 %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
