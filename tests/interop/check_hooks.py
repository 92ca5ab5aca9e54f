"""Compares what hooks are told with TensorFlow's MonitoredTrainingSession: check_hooks.py HOOKS_TOOL

Each scenario runs in both. The calls of hooks in their order, with the global step that each saw, the checkpoints that
are left, and the events in the directory's files, with their steps, must be the same.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf  # noqa: E402

tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.logging.set_verbosity(tf1.logging.ERROR)

TOOL = sys.argv[1]
TIMEOUT_S = 120
ATTEMPTS = 3

# Those in one list share a directory: the later ones go on where the earlier ones ended.
SCENARIOS = [["first", "again", "late"], ["input_ends"], ["abort"], ["nan"], ["nan_stops"], ["listener"], ["profile"]]


class Recorder(tf1.train.SessionRunHook):
    def __init__(self, name, step, lines, abort_at=None):
        self.name, self.step, self.lines, self.abort_at = name, step, lines, abort_at

    def note(self, what, session):
        self.lines.append(f"{self.name} {what} {session.run(self.step)}")

    def begin(self):
        self.lines.append(f"{self.name} begin")

    def after_create_session(self, session, coord):
        self.note("after_create_session", session)

    def before_run(self, run_context):
        self.note("before_run", run_context.session)

    def after_run(self, run_context, run_values):
        self.note("after_run", run_context.session)
        if run_context.session.run(self.step) == self.abort_at:
            self.abort_at = None
            raise tf.errors.AbortedError(None, None, "as asked")

    def end(self, session):
        self.note("end", session)


class Listener(tf1.train.CheckpointSaverListener):
    def __init__(self, lines):
        self.lines = lines

    def begin(self):
        self.lines.append("listener begin")

    def before_save(self, session, global_step_value):
        self.lines.append(f"listener before_save {global_step_value}")

    def after_save(self, session, global_step_value):
        self.lines.append(f"listener after_save {global_step_value}")
        return global_step_value >= 4

    def end(self, session, global_step_value):
        self.lines.append(f"listener end {global_step_value}")


def train(scenario, directory):
    lines = []
    with tf.Graph().as_default():
        step = tf1.train.get_or_create_global_step()
        w = tf1.get_variable("w", initializer=10.0, use_resource=True)
        tf1.summary.scalar("weight", w)
        counter = tf1.get_variable("counter", initializer=tf.constant(0, tf.int64), use_resource=True, trainable=False)
        count = tf.raw_ops.ResourceCountUpTo(resource=counter.handle, limit=3, T=tf.int64)
        nan = tf.constant(0.0) / tf.constant(0.0)
        targets = [tf1.assign_add(step, 1).op]
        options = {"save_checkpoint_steps": 3}
        hooks = [Recorder("user", step, lines, 5 if scenario == "abort" else None)]
        if scenario == "input_ends":
            targets.append(count.op)
        if scenario in ("nan", "nan_stops"):
            hooks.append(tf1.train.NanTensorHook(nan, fail_on_nan_loss=scenario == "nan"))
        if scenario == "again":
            hooks.append(tf1.train.StopAtStepHook(num_steps=4))
        if scenario == "late":
            hooks.append(tf1.train.StopAtStepHook(last_step=5))
        if scenario in ("first", "abort"):
            hooks.append(tf1.train.StopAtStepHook(last_step=10))
        if scenario == "profile":
            hooks.append(tf1.train.ProfilerHook(save_steps=4, output_dir=directory))
            hooks.append(tf1.train.StopAtStepHook(last_step=10))
        scaffold = tf1.train.Scaffold()
        if scenario == "listener":
            options = {"save_checkpoint_steps": None, "save_checkpoint_secs": None}
            hooks.append(tf1.train.CheckpointSaverHook(directory, save_steps=2, scaffold=scaffold,
                                                       listeners=[Listener(lines)]))
        try:
            with tf1.train.MonitoredTrainingSession(
                    checkpoint_dir=directory, scaffold=scaffold, hooks=hooks, save_summaries_steps=2,
                    chief_only_hooks=[Recorder("chief", step, lines)], log_step_count_steps=4, **options) as session:
                while not session.should_stop():
                    session.run(targets)
        except Exception as error:  # pylint: disable=broad-except
            lines.append(f"error {error}")
    tf1.summary.FileWriterCache.clear()
    # TensorFlow names event files after the second in which they are begun, and writes over one of the same name.
    time.sleep(1.1)
    return lines


def run_tool(scenario, directory):
    done = subprocess.run([TOOL, scenario, directory], capture_output=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        return [done.stderr.decode(errors="replace").strip()]
    return done.stdout.decode().splitlines()


def events(directory):
    found = []
    for path in sorted(glob.glob(os.path.join(directory, "events*"))):
        for event in tf1.train.summary_iterator(path):
            kind = event.WhichOneof("what")
            if kind == "session_log":
                kind = tf1.SessionLog.SessionStatus.Name(event.session_log.status)
            if kind == "summary":
                kind = " ".join(value.tag for value in event.summary.value)
            if kind == "tagged_run_metadata":
                stats = tf1.RunMetadata.FromString(event.tagged_run_metadata.run_metadata).step_stats
                kind = f"{event.tagged_run_metadata.tag} ({'with' if stats.dev_stats else 'without'} times)"
            if kind != "file_version":
                found.append(f"event {kind} at {event.step}")
    # TensorFlow's writer puts the graph into a file that it opens, and then the hook does so again.
    graph = ["event graph_def at 0", "event meta_graph_def at 0"]
    for i in reversed(range(len(found))):
        if found[i:i + 4] == 2 * graph:
            del found[i:i + 2]
    return found


def files(directory):
    names = [name for name in os.listdir(directory) if not name.startswith("events")]
    # Data files are named after the number of tasks that write: one here, as there.
    return sorted(f"file {name}" for name in names)


def state(directory):
    with open(os.path.join(directory, "checkpoint"), encoding="utf-8") as file:
        return re.findall(r"model_checkpoint_path: \"(.*/)?([^\"/]*)\"", file.read())


def left(directory):
    return events(directory) + files(directory) + [f"state {name}" for _, name in state(directory)]


def compare(scenarios):
    """Both systems through these, one after the other; gives (scenario, TensorFlow's lines, Tutti's lines) of each."""
    with tempfile.TemporaryDirectory() as theirs, tempfile.TemporaryDirectory() as ours:
        return [(scenario, train(scenario, theirs) + left(theirs), run_tool(scenario, ours) + left(ours))
                for scenario in scenarios]


def main():
    failures = 0
    checks = 0
    for scenarios in SCENARIOS:
        # TensorFlow's hooks fetch the global step beside the operation that counts it, and take it for the step before:
        # now and then it is the step after, and they save or write one step later. What differs is run again.
        for _ in range(ATTEMPTS):
            compared = compare(scenarios)
            if all(expected == got for _, expected, got in compared):
                break
        for scenario, expected, got in compared:
            checks += len(expected)
            if expected == got:
                continue
            failures += 1
            print(f"FAILED: {scenario}")
            for i in range(max(len(expected), len(got))):
                pair = [lines[i] if i < len(lines) else "" for lines in (expected, got)]
                print(f"  {'  ' if pair[0] == pair[1] else '!='} {pair[0]:40} {pair[1]}")
    print(f"hooks: {checks} lines compared, {failures} scenarios differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
