"""Compares the dtypes of Tutti's CPU kernels (JSON from op_table_dump, on standard input) with TensorFlow's.

For every op of the table and every type attribute: what a CPU kernel of TensorFlow takes, one of Tutti's must take, and
a kernel must not be refused in a type that its row declares.
"""
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tensorflow.python.framework import dtypes, kernels, op_def_registry  # noqa: E402

SHORT_NAMES = {"float32": "float", "float64": "double", "float16": "half"}

# (op, attribute) -> (types, why Tutti leaves them out).
LEFT_OUT = {
    ("Conj", "T"): ({"variant"}, "conjugates inside batched variants, which Tutti has none of"),
    ("ResourceScatterNdAdd", "T"): ({"bool"}, "booleans have no sum"),
    ("ResourceScatterNdSub", "T"): ({"bool"}, "booleans have no difference"),
}


def left_out(op, attr):
    """The types of an exception."""
    return LEFT_OUT[op, attr][0] if (op, attr) in LEFT_OUT else set()


def short(number):
    name = dtypes.as_dtype(number).name
    return SHORT_NAMES.get(name, name)


def theirs(name):
    """Attribute -> types that some CPU kernel takes and the op allows, for attributes that every CPU kernel constrains."""
    signature = {a.name: {short(t) for t in a.allowed_values.list.type} for a in op_def_registry.get(name).attr}
    found = [k for k in kernels.get_registered_kernels_for_op(name).kernel if k.device_type == "CPU"]
    allowed = {}
    for kernel in found:
        for constraint in kernel.constraint:
            types = allowed.setdefault(constraint.name, (set(), []))
            types[0].update(short(t) for t in constraint.allowed_values.list.type)
            types[1].append(kernel)
    return {attr: types & (signature[attr] or types) for attr, (types, of) in allowed.items()
            if len(of) == len(found) and attr in signature}  # a kernel of several ops may name one of another


def ours(row):
    """Attribute -> types that some CPU kernel takes and the signature allows."""
    cpu = [k for k in row["kernels"] if k["device"] == "CPU"]
    result = {}
    for attr in row["attrs"]:
        if attr["kind"] != "type":
            continue
        taken = set()
        for kernel in cpu:
            taken |= set(kernel["types"]) if kernel["attr"] == attr["name"] else set(attr["types"])
        result[attr["name"]] = taken & set(attr["types"])
    return result


def main():
    rows = [row for row in json.load(sys.stdin) if not row["name"].startswith(("_", "Tutti"))]
    compared = missing = 0
    unused = set(LEFT_OUT)
    for row in rows:
        if op_def_registry.get(row["name"]) is None:
            continue
        mine = ours(row)
        for attr, types in theirs(row["name"]).items():
            if attr not in mine:
                continue
            compared += 1
            exceptions = left_out(row["name"], attr)
            if exceptions & (types - mine[attr]):
                unused.discard((row["name"], attr))
            lacking = types - mine[attr] - exceptions
            if lacking:
                print(f"{row['name']}: no CPU kernel for {attr} = {', '.join(sorted(lacking))}; TensorFlow has them")
                missing += 1
    for row in rows:
        for kernel in row["kernels"]:
            if kernel["refused"]:
                print(f"{row['name']}: declared for {kernel['attr']} = {', '.join(kernel['refused'])}, and refused there")
                missing += 1
    for op, attr in sorted(unused):
        print(f"{op}: {attr} is in the list of exceptions and is none")
    made = sum(len(kernel["made"]) for row in rows for kernel in row["kernels"])
    print(f"kernel types: {compared} attributes of {len(rows)} ops compared with TensorFlow, {missing} lack types; "
          f"{made} kernels made")
    return 1 if missing or unused or not compared or not made else 0


if __name__ == "__main__":
    sys.exit(main())
