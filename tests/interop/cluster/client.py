"""Runs client programs in one process, so that TensorFlow is imported once.

  client.py OPTIONS_JSON             each line of standard input names a program; answers are lines of JSON
  client.py --call MODULE:F SPEC ARGS   calls one function and prints what it returned: a program's second client
"""
import faulthandler
import importlib
import json
import os
import signal
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
faulthandler.register(signal.SIGUSR1, all_threads=True)
# Answers go to the real standard output; what programs print goes to standard error.
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

import tensorflow.compat.v1 as tf  # noqa: E402

from harness import Cluster, ClusterView, Options  # noqa: E402

tf.disable_v2_behavior()
SPLIT = "\n----\n"  # between the short and the long part of a failure


def answer(**fields):
    answers.write(json.dumps(fields) + "\n")


def run_in_scope(program, cluster):
    """A graph of its own, and names that no other program on the same cluster uses."""
    tf.disable_control_flow_v2()
    with tf.Graph().as_default(), tf.variable_scope(program.name):
        program.run(cluster)


def explain(error, cluster):
    """What failed in a few lines: the error, the program's line, what servers wrote meanwhile; then the whole trace."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f"{os.sep}programs{os.sep}" in f.filename]
    where = "; ".join(f"{os.path.basename(f.filename)}:{f.lineno}: {f.line}" for f in frames[:3])
    message = getattr(error, "message", "") or str(error)
    short = "\n".join(line for line in message.splitlines() if line.strip() and not line.lstrip().startswith("File "))
    lines = [f"{type(error).__name__}: {short[:1500]}", f"at {where}"]
    if cluster is not None:
        lines += [f"{task} wrote: {text[-1000:]}" for task, text in cluster.new_logs().items()]
    return "\n".join(lines) + SPLIT + "".join(traceback.format_exception(error))


class Runner:
    def __init__(self, options):
        import registry
        self.options = options
        self.jobs = registry.SHARED_JOBS
        self.programs = registry.load()
        self.shared = None

    def run(self, name):
        """"" or why it failed."""
        program = self.programs[name]
        if program.jobs is not None:
            with Cluster(self.options.with_flags(program.tutti_flags), program.jobs, how=program.how) as cluster:
                return self.run_on(program, cluster)
        if self.shared is None:
            self.shared = Cluster(self.options, self.jobs)
        return self.run_on(program, self.shared)

    def run_on(self, program, cluster):
        answer(event="begin", name=program.name)
        cluster.new_logs()
        try:
            run_in_scope(program, cluster)
            return ""
        except BaseException as error:
            return explain(error, cluster)

    def check_servers(self):
        """Why the shared cluster cannot be used any more, and drops it; or nothing."""
        if self.shared is None or self.shared.alive():
            return ""
        dead = self.shared.dead()
        self.shared.stop()
        self.shared = None
        return f"servers died: {dead}\n"

    def loop(self):
        try:
            for line in sys.stdin:
                name = line.strip()
                start = time.monotonic()
                try:
                    error = self.run(name)
                except BaseException as e:
                    error = explain(e, None)
                error = self.check_servers() + error
                answer(event="end", name=name, error=error, seconds=time.monotonic() - start)
        finally:
            if self.shared is not None:
                self.shared.stop()


def call(name, spec, arguments):
    module, function = name.split(":")
    result = getattr(importlib.import_module(module), function)(ClusterView(json.loads(spec)), *json.loads(arguments))
    answers.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "--call":
        call(*sys.argv[2:])
    else:
        Runner(Options.from_json(sys.argv[1])).loop()
