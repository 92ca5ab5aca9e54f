"""The protocol of benchmarks/run, for peers written in Python: a program that steps for as long as it is told."""
import math
import sys
import time

TRY_SECONDS = 1.0


def measure(step, seconds):
    """Steps a second."""
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(4):
            step()
        steps += 4
    return steps / (time.perf_counter() - start)


def checked(make):
    """A step whose loss must be a number, looked at now and then: looking waits for it."""
    step, count = make(), [0]

    def look():
        loss = step()
        count[0] += 1
        if count[0] % 4 == 0 and not math.isfinite(float(loss)):
            raise ValueError(f"loss {float(loss)}")

    return look


def session_config(tf1, intra_op_threads, inter_op_threads):
    """Of a session of TensorFlow; without threads of its own it would run on those of the first one in the process."""
    return tf1.ConfigProto(intra_op_parallelism_threads=intra_op_threads, inter_op_parallelism_threads=inter_op_threads,
                           use_per_session_threads=True)


def serve(ways):
    """Tries each of the (name, make) pairs, where make() gives a step, keeps the fastest, prints `ready NAME`; then for each
    line of standard input, a number of seconds, steps for that long and prints steps/s."""
    best_rate, best_name, best_step = 0, None, None
    for name, make in ways:
        try:
            step = make()
            for _ in range(5):
                step()
            rate = measure(step, TRY_SECONDS)
        except Exception as error:  # a way that this machine lacks, a compiler for instance
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        if rate > best_rate:
            best_rate, best_name, best_step = rate, name, step
    print(f"ready {best_name}", flush=True)
    for line in sys.stdin:
        print(measure(best_step, float(line)), flush=True)
