"""A case: a graph, what to feed it and what real TensorFlow got, step by step.

In a file a case is one line of JSON and, after it, the bytes that the line gives the lengths of ("blobs"):
  {"op", "case", "kind", "exact",             exact: all bits of the results must be equal
   "graph": blob, "rewritten",                 GraphDef; whether it is another than TensorFlow's (see rewrites.py)
   "feeds": {tensor: blob},                    TensorProtos, the same in every step
   "steps": [{"run": [nodes], "fetch": [tensors], "expect": [blobs], "shapes"  or  "error": code, "message"}],
   "derivative": {"ys", "xs", "grad_ys": [tensors], "expect": [blob or null]}  or absent
   "blobs": [lengths]}
To check it: one session for all steps. Where a step has an error, any step up to it, or reading the graph, may
give that error. "shapes" has what TensorFlow knew of each before the run: null, or dimensions, of which -1 is open; Tutti
must know as much, unless the graph is rewritten or drawn_runner.cc has an exception. "derivative" is what
differentiating the graph's own nodes again must give; null: no gradient.
"""
import json

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_library, op_def_registry, tensor_util

from drawing import TYPES, short_name

tf1 = tf.compat.v1


class Skip(Exception):
    """The draw says nothing; another is to be made."""


def raw(op, name=None, **arguments):
    """Adds a node of any op; attributes that are left out have their defaults, or follow from the inputs."""
    op_def = op_def_registry.get(op)
    inferred = {field for arg in op_def.input_arg for field in (arg.type_attr, arg.type_list_attr, arg.number_attr)}
    for attr in op_def.attr:
        if attr.HasField("default_value") and attr.name not in arguments and attr.name not in inferred:
            arguments[attr.name] = _default(attr)
    return op_def_library.apply_op(op, name=name, **arguments)


def _default(attr):
    value = attr.default_value
    if attr.type.startswith("list("):
        kind = {"string": "s", "int": "i", "float": "f", "bool": "b", "type": "type", "shape": "shape"}[attr.type[5:-1]]
        return list(getattr(value.list, kind))
    return getattr(value, value.WhichOneof("value"))


def tensors_of(value):
    """The tensors among what `raw` gave."""
    if value is None or isinstance(value, tf.Operation):
        return []
    return [t for part in value for t in tensors_of(part)] if isinstance(value, (list, tuple)) else [value]


def is_differentiable(tensor):
    return tensor.dtype.is_floating or tensor.dtype.is_complex


def _static_shape(tensor):
    shape = tensor.shape
    return None if shape.rank is None else [-1 if d is None else d for d in shape.as_list()]


def _reason(error):
    """What the kernel said, without where the node was made."""
    lines = [line.strip() for line in error.message.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("[[", "File ", "Detected at", "Node:", "Graph execution"))]
    return (lines or [""])[0][:300]


class Script:
    """What is to be run, in a graph that is being built."""

    def __init__(self, draw, static):
        self.draw = draw
        self.static = static  # placeholders have shapes, and arguments such as axes are constants
        self.feeds = {}  # placeholder -> array
        self.steps = []  # (operations, tensors)
        self.derivative = None  # (ys, xs, grad_ys, gradients or Nones)
        self.spoiled = False
        self.rewrites = []  # what makes of TensorFlow's graph the one that Tutti runs; see rewrites.py

    def feed(self, array, dtype=None, fixed=False, name="in"):
        """A tensor with this value. `fixed`: a shape, an axis, indices."""
        array = np.asarray(array)
        dtype = tf.string if array.dtype == object else tf.as_dtype(dtype or array.dtype)
        if self.static and fixed:
            return tf.constant(array, dtype=dtype, shape=array.shape, name=name)
        tensor = tf1.placeholder(dtype, array.shape if self.static else None, name=name)
        self.feeds[tensor] = array
        return tensor

    def step(self, run=(), fetch=()):
        self.steps.append((list(run), list(fetch)))


class Case:
    """Runs a script in TensorFlow and keeps what came out."""

    def __init__(self, op, number, script, graph, exact):
        self.op, self.number, self.graph, self.exact = op, number, graph, exact
        self.feeds = {t.name: (a, t.dtype) for t, a in script.feeds.items()}
        self.steps = []
        self.derivative = None
        self.script = script

    def run(self, differentiate):
        """`differentiate`: the tensors with respect to which the first step's fetches are."""
        config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = tf1.OptimizerOptions.L0
        config.operation_timeout_in_ms = 5000
        with tf1.Session(graph=self.graph, config=config) as session:
            outputs = None
            for run, fetch in self.script.steps:
                got = self._step(session, run, fetch)
                if got is None:
                    return
                outputs = outputs if outputs is not None else list(zip(fetch, got))
            if differentiate:
                self._differentiate(session, outputs, differentiate)

    def _step(self, session, run, fetch):
        step = {"run": [op.name for op in run], "fetch": [t.name for t in fetch]}
        self.steps.append(step)
        try:
            got, _ = session.run([fetch, run], self.script.feeds)
        except UnicodeDecodeError:
            raise Skip("the message of the error cannot be read") from None
        except tf.errors.OpError as error:
            if "No OpKernel was registered" in error.message or "No registered" in error.message:
                raise Skip(error.message) from None
            if isinstance(error, tf.errors.DeadlineExceededError):
                raise Skip("waits for ever") from None
            if isinstance(error, tf.errors.UnimplementedError) and not self.script.spoiled:
                raise Skip(error.message) from None
            step["error"], step["message"] = error.error_code, _reason(error)
            return None
        step["expect"] = [(value, tensor.dtype) for value, tensor in zip(got, fetch)]
        step["shapes"] = [_static_shape(tensor) for tensor in fetch]
        return got

    def _differentiate(self, session, outputs, xs):
        ys = [(t, v) for t, v in outputs if is_differentiable(t)]
        if not ys or not xs:
            return
        keep = [i for i in range(len(ys)) if self.script.draw.chance(0.8)] or [0]
        ys = [ys[i] for i in keep]
        with self.graph.as_default():
            grad_ys = []
            for y, value in ys:
                dtype = short_name(y.dtype)
                shape = value.shape
                grad = tf1.placeholder(y.dtype.base_dtype, shape if self.script.static else None, name="grad_y")
                self.script.feeds[grad] = self.script.draw.values(dtype, shape, -2, 2)
                grad_ys.append(grad)
            ys = [y for y, _ in ys]
            try:
                grads = tf1.gradients(ys, xs, grad_ys=grad_ys)
                grads = [None if g is None else tf.identity(tf.convert_to_tensor(g)) for g in grads]
            except (LookupError, ValueError, TypeError, NotImplementedError, AttributeError, AssertionError):
                return  # TensorFlow has no gradient here
        present = [g for g in grads if g is not None]
        try:
            values = dict(zip([g.name for g in present], session.run(present, self.script.feeds)))
        except tf.errors.OpError:
            return  # nothing to compare with
        for grad in grad_ys:
            self.feeds[grad.name] = (self.script.feeds[grad], grad.dtype)
        if present:
            self.steps.append({"run": [], "fetch": [g.name for g in present],
                               "expect": [(values[g.name], g.dtype) for g in present],
                               "shapes": [None] * len(present)})  # what its Python code knows is in no op
        self.derivative = {
            "ys": [y.name for y in ys], "xs": [x.name for x in xs], "grad_ys": [g.name for g in grad_ys],
            "expect": [None if g is None else (values[g.name], g.dtype) for g in grads]}

    def results(self):
        """All values that came out, flat, in order; of an error, nothing."""
        parts = [v for step in self.steps for v, _ in step.get("expect", [])]
        return [np.asarray(v, np.complex128).reshape(-1) for v in parts if np.asarray(v).dtype.kind not in "OSU"]

    def is_near(self, precise, limit):
        """Whether every result is as near to that of the same case with more digits."""
        mine, theirs = self.results(), precise.results()
        if [m.shape for m in mine] != [t.shape for t in theirs]:
            return False
        for m, t in zip(mine, theirs):
            finite = np.isfinite(m) & np.isfinite(t)
            if np.linalg.norm(m[finite] - t[finite]) > limit * np.linalg.norm(t[finite]):
                return False
        return True

    @property
    def kind(self):
        if any("error" in step for step in self.steps):
            return "error"
        return "gradient" if self.derivative else "value"

    def write(self, out):
        blobs = []

        def blob(data):
            blobs.append(data)
            return len(blobs) - 1

        def tensor(value_and_type):
            value, dtype = value_and_type
            dtype = dtype.base_dtype
            value = np.asarray(value, dtype=object if dtype == tf.string else None)
            return blob(tensor_util.make_tensor_proto(value, dtype, value.shape).SerializeToString())

        graph = self.graph.as_graph_def()
        here = {t: t for step in self.steps for t in step["fetch"]}  # TensorFlow's name -> that in the graph to run
        for rewrite in self.script.rewrites:
            graph, renamed = rewrite(graph)
            here = {theirs: renamed.get(name, name) for theirs, name in here.items()}

        case = {"op": self.op, "case": self.number, "kind": self.kind,
                "exact": self.exact and self.kind != "gradient",
                "graph": blob(graph.SerializeToString()), "rewritten": bool(self.script.rewrites),
                "feeds": {name: tensor(value) for name, value in self.feeds.items()},
                "steps": [{**step, "fetch": [here[name] for name in step["fetch"]],
                           **({"expect": [tensor(v) for v in step["expect"]]} if "expect" in step else {})}
                          for step in self.steps]}
        if self.derivative:
            case["derivative"] = {**self.derivative, "ys": [here[name] for name in self.derivative["ys"]],
                                  "expect": [None if v is None else tensor(v) for v in self.derivative["expect"]]}
        case["blobs"] = [len(b) for b in blobs]
        out.write(json.dumps(case).encode() + b"\n" + b"".join(blobs))


# --- Ops that are functions of their inputs: one node, made from drawn arguments. ---


class Arguments:
    """What a recipe draws for one node."""

    def __init__(self, attrs=None, *, fixed=(), differentiable=True, spoilable=True, defined_outputs=None,
                 dilated=None, **inputs):
        self.inputs = inputs  # argument -> array or list of arrays
        self.attrs = attrs or {}
        self.fixed = set(fixed)  # arguments that say what to do, rather than to what
        self.differentiable = differentiable
        self.defined_outputs = defined_outputs  # how many of the first are defined; None: all
        self.dilated = dilated  # a rewrites.Dilated, where only Tutti has the dilation
        self.spoilable = spoilable and dilated is None  # false where TensorFlow itself does not look, and reads what is not there


def spoil(draw, arguments):
    """Makes one argument likely wrong: an element out of range, another shape, another rank."""
    name = draw.choice(arguments.inputs)
    value = arguments.inputs[name]
    if isinstance(value, list):
        if not value:
            return
        index = draw.integer(0, len(value) - 1)
        value[index] = _spoiled(draw, value[index])
    else:
        arguments.inputs[name] = _spoiled(draw, value)


def _spoiled(draw, array):
    kind = draw.integer(0, 3)
    if kind == 0 and array.dtype.kind in "iu" and array.size:
        flat = array.reshape(-1).copy()
        wrong = [100, 7, flat[0]] + ([-100, -7, -1] if array.dtype.kind == "i" else [])
        flat[draw.integer(0, flat.size - 1)] = draw.choice(wrong)
        return flat.reshape(array.shape)
    if kind == 1 and array.ndim:
        shape = list(array.shape)
        shape[draw.integer(0, len(shape) - 1)] += draw.choice([1, 2])
        one = b"1" if array.dtype == object else 1
        return np.resize(array, shape) if array.size else np.full(shape, one, array.dtype)
    if kind == 2 and array.ndim and array.shape[0]:
        return array[0]
    return array[np.newaxis]


def build_node(script, op, arguments):
    """Adds the node, a step that fetches its outputs, and gives the inputs to differentiate for."""
    op_def = op_def_registry.get(op)
    inputs, xs = {}, []

    def add(array, arg):
        tensor = script.feed(array, fixed=arg in arguments.fixed, name=arg)
        if is_differentiable(tensor) and arg not in arguments.fixed:
            xs.append(tensor)
        return tensor

    for arg in op_def.input_arg:
        value = arguments.inputs[arg.name]
        inputs[arg.name] = [add(v, arg.name) for v in value] if isinstance(value, list) else add(value, arg.name)
    if arguments.dilated:
        result = arguments.dilated.build(raw, op, name="op", **inputs, **arguments.attrs)
        script.rewrites.append(arguments.dilated.rewrite)
    else:
        result = raw(op, name="op", **inputs, **arguments.attrs)
    outputs = [t for t in tensors_of(result) if short_name(t.dtype) in TYPES]
    if outputs:
        script.step(fetch=outputs[:arguments.defined_outputs])
    else:
        script.step(run=[tf1.get_default_graph().get_operation_by_name("op")])
    return xs if arguments.differentiable else []
