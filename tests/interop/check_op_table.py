"""Compares Tutti's op table (JSON from op_table_dump, on standard input) with TensorFlow's registry.

Every row must have TensorFlow's name, argument names and types, attributes and defaults. Tutti may accept fewer
types than TensorFlow, never others. Rows whose name starts with `_` or `Tutti` are Tutti's own and are left out.
"""
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tensorflow.python.framework import dtypes, op_def_registry, tensor_util  # noqa: E402

# op -> attributes that Tutti's row leaves out: harmless ones that only some TensorFlow versions have.
ATTRIBUTES_LEFT_OUT = {}
# op -> attributes that Tutti's row has and TensorFlow 2.15 lacks: newer clients send them.
ATTRIBUTES_ADDED = {}
# Rows that TensorFlow 2.15's Python registry does not know by this name.
UNKNOWN_TO_PYTHON = set()


def type_name(number):
    return dtypes.as_dtype(number).name if number < 100 else dtypes.as_dtype(number - 100).name


SHORT_NAMES = {"float32": "float", "float64": "double", "float16": "half"}


def short(number):
    name = type_name(number)
    return SHORT_NAMES.get(name, name)


def arg(a):
    """The fields that say where an argument's type comes from."""
    out = {"name": a.name}
    if a.is_ref:
        out["is_ref"] = True
    if a.type:
        out["type"] = short(a.type)
    for field in ("type_attr", "type_list_attr", "number_attr"):
        if getattr(a, field):
            out[field] = getattr(a, field)
    return out


def shape(s):
    return None if s.unknown_rank else [d.size for d in s.dim]


def value(v):
    kind = v.WhichOneof("value")
    if kind == "s":
        return v.s.decode("latin-1")
    if kind in ("i", "b"):
        return getattr(v, kind)
    if kind == "f":
        return v.f
    if kind == "type":
        return short(v.type)
    if kind == "shape":
        return shape(v.shape)
    if kind == "func":
        return v.func.name
    if kind == "tensor":  # as Tutti's Tensor::to_string has it
        array = tensor_util.MakeNdarray(v.tensor)
        return f"{short(v.tensor.dtype)} [{','.join(map(str, array.shape))}] {{{', '.join(map(str, array.ravel()))}}}"
    if kind == "list":
        lists = v.list
        for field, read in (("s", lambda s: s.decode("latin-1")), ("i", int), ("f", float), ("b", bool),
                            ("type", short), ("shape", shape)):
            if len(getattr(lists, field)):
                return [read(x) for x in getattr(lists, field)]
        return []
    return f"<{kind}>"


def same_value(ours, theirs):
    if isinstance(theirs, float) and isinstance(ours, (int, float)):
        return abs(ours - theirs) <= 1e-7 * max(1.0, abs(theirs))
    if isinstance(theirs, bool) or isinstance(ours, bool):
        return ours is theirs or (isinstance(ours, bool) and isinstance(theirs, bool) and ours == theirs)
    return ours == theirs


def compare_attr(ours, theirs):
    if ours["kind"] != theirs.type:
        yield f"is {ours['kind']}, TensorFlow has {theirs.type}"
        return
    has_default = theirs.HasField("default_value")
    if ("default" in ours) != has_default:
        yield f"{'has' if 'default' in ours else 'lacks'} a default, TensorFlow {'has' if has_default else 'lacks'} one"
    elif has_default and not same_value(ours["default"], value(theirs.default_value)):
        yield f"defaults to {ours['default']!r}, TensorFlow to {value(theirs.default_value)!r}"
    if theirs.has_minimum and "minimum" in ours and ours["minimum"] > theirs.minimum:
        yield f"minimum {ours['minimum']}, TensorFlow {theirs.minimum}"
    if "types" in ours and theirs.HasField("allowed_values"):
        extra = set(ours["types"]) - {short(t) for t in theirs.allowed_values.list.type}
        if extra:
            yield f"accepts types that TensorFlow refuses: {', '.join(sorted(extra))}"
    if "strings" in ours:
        allowed = {s.decode() for s in theirs.allowed_values.list.s}
        if set(ours["strings"]) - allowed:
            yield f"accepts {sorted(ours['strings'])}, TensorFlow {sorted(allowed)}"


def compare(row, op):
    for side, theirs in (("inputs", op.input_arg), ("outputs", op.output_arg)):
        if row[side] != [arg(a) for a in theirs]:
            yield f"{side} {row[side]}, TensorFlow has {[arg(a) for a in theirs]}"
    ours = {a["name"]: a for a in row["attrs"]}
    theirs = {a.name: a for a in op.attr}
    missing = set(theirs) - set(ours) - set(ATTRIBUTES_LEFT_OUT.get(row["name"], ()))
    added = set(ours) - set(theirs) - set(ATTRIBUTES_ADDED.get(row["name"], ()))
    if missing:
        yield f"lacks the attributes {', '.join(sorted(missing))}"
    if added:
        yield f"has attributes that TensorFlow lacks: {', '.join(sorted(added))}"
    for name in sorted(set(ours) & set(theirs)):
        for difference in compare_attr(ours[name], theirs[name]):
            yield f"attribute {name} {difference}"
    if op.is_stateful and not row["stateful"]:
        yield "is stateful in TensorFlow"


def main():
    rows = [row for row in json.load(sys.stdin) if not row["name"].startswith(("_", "Tutti"))]
    differences = 0
    for row in rows:
        op = op_def_registry.get(row["name"])
        if op is None:
            found = [] if row["name"] in UNKNOWN_TO_PYTHON else ["is not an op of TensorFlow"]
        else:
            found = list(compare(row, op))
        for text in found:
            print(f"{row['name']}: {text}")
        differences += len(found)
    print(f"op table: {len(rows)} rows, {differences} differences from TensorFlow")
    return 1 if differences or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
