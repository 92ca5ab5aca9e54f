"""Draws cases for every row of the op table, runs them in real TensorFlow and writes them for drawn_runner:

  op_table_dump | generate.py OUT [--seed 1] [--cases 3] [--at-least 1] [--only OP[,OP]] [--case NUMBER]

Fails when a row has neither a recipe nor an exception that says what compares it instead, and when fewer cases of an op
than --at-least could be drawn.
"""
import argparse
import json
import multiprocessing.pool
import os
import sys
import time
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import tensorflow as tf  # noqa: E402  (after the environment)
from tensorflow.python.framework import op_def_registry  # noqa: E402

import recipes  # noqa: E402
import recipes_array  # noqa: E402,F401
import recipes_files  # noqa: E402,F401
import recipes_image  # noqa: E402,F401
import recipes_io  # noqa: E402,F401
import recipes_layout  # noqa: E402,F401
import recipes_math  # noqa: E402,F401
import recipes_nn  # noqa: E402,F401
import recipes_parse  # noqa: E402,F401
import recipes_random  # noqa: E402,F401
import recipes_recurrent  # noqa: E402,F401
import recipes_sparse  # noqa: E402,F401
import recipes_text  # noqa: E402,F401
import recipes_update  # noqa: E402,F401
import recipes_state as state  # noqa: E402
import rewrites  # noqa: E402
from drawing import Draw  # noqa: E402
from compared_otherwise import COMPARED_OTHERWISE, types_left_out  # noqa: E402
from script import Case, Script, Skip, build_node, spoil  # noqa: E402

SPOILED = 0.2  # of the cases have an argument that is likely wrong
ATTEMPTS = 40  # to draw something that says anything


# How far TensorFlow's own result may be from its result with more digits: half of what the runner allows. Of a case
# that is less well conditioned neither result says anything about the other.
OWN_ERROR = {"half": 5e-3, "bfloat16": 5e-3, "float": 5e-6, "complex64": 5e-6}


def draw_case(seed, op, number, attempt):
    types = recipes.draw_types(Draw(seed, op, number * 100 + attempt), op)
    if types_left_out(op, types):
        raise Skip(types_left_out(op, types))
    case = run_case(seed, op, number, attempt, types)
    wide = recipes.widened(op, types)
    if wide is None or case.kind == "error":
        return case
    try:
        precise = run_case(seed, op, number, attempt, wide)
    except Skip:  # TensorFlow has it with these digits only
        return case
    if not case.is_near(precise, max(OWN_ERROR.get(t, 0) for t in types.values())):
        raise Skip("ill-conditioned")
    return case


def run_case(seed, op, number, attempt, types):
    draw = Draw(seed, op, number * 100 + attempt)
    recipes.draw_types(draw, op)  # the draws after it are the same whatever the types
    spoiled = draw.chance(SPOILED) and number > 0
    script = Script(draw, static=draw.chance(0.5) and not spoiled)
    script.spoiled = spoiled
    with tf.Graph().as_default() as graph:
        tf.compat.v1.set_random_seed(seed)
        xs = []
        try:
            if op in recipes.SCRIPTS:
                xs = recipes.SCRIPTS[op](script, op, types) or []
            else:
                arguments = recipes.ARGUMENTS[op](draw, op, types)
                if spoiled and arguments.inputs and arguments.spoilable:
                    spoil(draw, arguments)
                xs = build_node(script, op, arguments)
        except (ValueError, TypeError) as error:  # refused while the graph is built: there is nothing to run
            raise Skip(f"{type(error).__name__}: {error}") from error
        if op in rewrites.IMAGES and not spoiled and Draw(seed, op + " in another format", number).chance(0.5):
            script.rewrites.append(rewrites.channels_first)
        case = Case(op, number, script, graph, exact=op in recipes.MADE_OF_BITS)
        case.run(xs)
        return case


def write_cases(op, seed, numbers, first_attempt, out, progress):
    """`first_attempt`: of the first number; earlier ones killed TensorFlow."""
    for number in numbers:
        reasons = []
        for attempt in range(first_attempt if number == numbers[0] else 0, ATTEMPTS):
            progress(number, attempt)
            try:
                case = draw_case(seed, op, number, attempt)
            except Skip as skip:
                reasons.append(str(skip))
                continue
            case.write(out)
            break
        else:
            reason = max(reasons, key=reasons.count, default="TensorFlow died")
            print(f"{op}: case {number} not drawn: {reason[:200]}")


def count_cases(path):
    """How many lie in a file; script.py says how."""
    count = 0
    with open(path, "rb") as file:
        while line := file.readline():
            file.seek(sum(json.loads(line)["blobs"]), os.SEEK_CUR)
            count += 1
    return count


def run_child(op, seed, numbers, first_attempt, path, notes):
    """All cases of an op in a process of its own: TensorFlow may abort on what it is given."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        with open(path, "ab") as out, open(notes, "w", encoding="utf-8") as note:
            def progress(number, attempt):
                note.seek(0)
                note.write(f"{number:8d} {attempt:8d}")
                note.flush()
                out.flush()
            write_cases(op, seed, numbers, first_attempt, out, progress)
            status = 0
    except BaseException as error:  # noqa: BLE001  (the parent must hear of it)
        import traceback
        traceback.print_exc()
        print(f"{op}: {type(error).__name__}: {error}")
    finally:
        sys.stdout.flush()
        os._exit(status)


def generate_op(op, options, folder):
    """How many draws killed TensorFlow, and how many cases there are."""
    path = os.path.join(folder, op + ".cases")
    notes = os.path.join(folder, op + ".note")
    numbers = [options.case] if options.case is not None else list(range(options.cases))
    open(path, "wb").close()
    aborted = first_attempt = 0
    while numbers:
        pid = run_child(op, options.seed, numbers, first_attempt, path, notes)
        _, status = os.waitpid(pid, 0)
        if status == 0:
            break
        if os.WIFEXITED(status):  # it said why
            return aborted, 0
        with open(notes, encoding="utf-8") as note:
            reached, attempt = (int(word) for word in note.read().split())
        print(f"{op}: TensorFlow itself died (signal {os.WTERMSIG(status)}) of case {reached}; another is drawn")
        aborted += 1
        numbers, first_attempt = [n for n in numbers if n >= reached], attempt + 1
    os.remove(notes)
    return aborted, count_cases(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=3)
    parser.add_argument("--at-least", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--case", type=int)
    options = parser.parse_args()
    tf.get_logger().setLevel("ERROR")
    warnings.simplefilter("ignore")  # v1 is deprecated, and meant
    tf.compat.v1.disable_v2_behavior()

    rows = [row["name"] for row in json.load(sys.stdin)]
    state.KNOWN_OPS.update(rows)
    uncovered = [op for op in rows if not recipes.has_recipe(op) and op not in COMPARED_OTHERWISE]
    for op in uncovered:
        print(f"{op}: has neither a recipe in tests/interop/drawn nor an exception that says what compares it")
    gone = [op for op in COMPARED_OTHERWISE if op not in rows]
    for op in gone:
        print(f"{op}: an exception for an op that is not in the table")
    only = set(options.only.split(",")) if options.only else None
    chosen = [op for op in rows if recipes.has_recipe(op) and op_def_registry.get(op) is not None]
    chosen = [op for op in chosen if only is None or op in only]
    os.makedirs(options.out, exist_ok=True)
    for name in os.listdir(options.out):
        if name.endswith((".cases", ".note")):
            os.remove(os.path.join(options.out, name))
    start = time.time()
    with multiprocessing.pool.ThreadPool(os.cpu_count()) as pool:  # each waits for a process of its own
        results = pool.map(lambda op: generate_op(op, options, options.out), chosen, chunksize=1)
    aborted = sum(a for a, _ in results)
    counts = {op: count for op, (_, count) in zip(chosen, results)}
    too_few = [op for op in chosen if counts[op] < options.at_least]
    fewest = min(chosen, key=counts.get, default=None)
    print(f"{len(chosen)} ops drawn from seed {options.seed} by TensorFlow {tf.__version__} in "
          f"{time.time() - start:.0f} s; {len(rows) - len(chosen) - len(uncovered)} rows are compared otherwise, "
          f"{aborted} draws killed TensorFlow; {sum(counts.values())} cases, the fewest {counts.get(fewest)} of {fewest}")
    for op in too_few:
        print(f"{op}: {counts[op]} cases drawn, wanted at least {options.at_least}")
    return 1 if uncovered or gone or too_few else 0


if __name__ == "__main__":
    sys.exit(main())
