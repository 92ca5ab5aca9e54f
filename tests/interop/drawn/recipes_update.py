"""Recipes of optimiser updates and of writes to rows: initialise variables, update, read what became of them."""
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from drawing import NUMPY
from recipes import scripts
from script import raw

UPDATES = [
    "GradientDescent", "ProximalGradientDescent", "Momentum", "KerasMomentum", "Adam", "AdamWithAmsgrad", "AdaMax",
    "RMSProp", "CenteredRMSProp", "Adagrad", "AdagradV2", "AdagradDA", "ProximalAdagrad", "Adadelta", "Ftrl", "FtrlV2",
    "AddSign", "PowerSign"]
NAMES = [name for update in UPDATES for name in (
    f"Apply{update}", f"ResourceApply{update}", f"SparseApply{update}", f"ResourceSparseApply{update}")
    if op_def_registry.get(name) is not None]
SCATTERS = [name for what in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Update") for name in (
    f"Scatter{what}", f"ResourceScatter{what}")]

# Of the scalars, those that are not just any small positive number.
SCALARS = {"momentum": (0, 0.875), "rho": (0.5, 0.875), "beta1": (0.5, 0.875),
           "beta2": (0.5, 0.875), "beta1_power": (0.25, 0.75), "beta2_power": (0.25, 0.75), "epsilon": (0.125, 0.5),
           "logbase": (1, 1), "sign_decay": (0.5, 0.5)}
# Of the rate of Ftrl; exact in half, too, or the same case with more digits would be another one.
POWERS = [-0.5, -0.75, -1, 0]
# Scalars that some forms of Ftrl and ProximalAdagrad refuse.
BAD_SCALARS = {"lr": [0, -0.5], "l1": [-0.5], "l2": [-0.25], "l2_shrinkage": [-0.25], "lr_power": [0.5]}
POSITIVE_SLOTS = {"accum", "accum_update", "v", "vhat", "ms", "gradient_squared_accumulator"}


class Variables:
    """Variables of either style, initialised in the script's first step."""

    def __init__(self, script, resources):
        self.script, self.resources = script, resources
        self.initialisers, self.handles, self.types = [], [], []

    def add(self, value, name):
        """What an op takes as its variable."""
        dtype = tf.string if value.dtype == object else tf.as_dtype(value.dtype)
        constant = tf.constant(value, dtype=dtype, shape=value.shape)
        if self.resources:
            handle = raw("VarHandleOp", name=name, dtype=dtype, shape=value.shape, shared_name=name)
            self.initialisers.append(raw("AssignVariableOp", resource=handle, value=constant))
        else:
            handle = raw("VariableV2", name=name, dtype=dtype, shape=value.shape)
            self.initialisers.append(raw("Assign", ref=handle, value=constant).op)
        self.handles.append(handle)
        self.types.append(dtype)
        return handle

    def reads(self):
        if self.resources:
            return [raw("ReadVariableOp", resource=h, dtype=t) for h, t in zip(self.handles, self.types)]
        return [raw("Identity", input=h) for h in self.handles]

    def initialise(self):
        self.script.step(run=self.initialisers)


def run_update(script, variables, op, arguments):
    """Initialises, runs the op twice, reads everything."""
    node = raw(op, name="op", **arguments)
    node = node if isinstance(node, tf.Operation) else node.op
    reads = variables.reads()
    variables.initialise()
    script.step(run=[node])
    script.step(run=[node])
    script.step(fetch=reads)


def _spoil_shape(script, shape):
    """Now and then one that does not fit."""
    return tuple(d + 1 for d in shape) if script.spoiled and script.draw.chance(0.5) else tuple(shape)


def _slot(draw, op, name, dtype, shape):
    low, high = (1, 4) if name in POSITIVE_SLOTS else (-0.875, 0.875) if name == "mg" else (-4, 4)
    if "Centered" in op and name == "ms":  # ms - mg^2 is to be no difference of two numbers that half takes for equal
        low, high = 16, 32
    value = draw.values(dtype, shape, low, high)
    return np.zeros_like(value) if "Ftrl" in op and name == "accum" and draw.chance(0.3) else value


def _scalar(script, op, name, dtype):
    draw = script.draw
    picky = "Ftrl" in op or "ProximalAdagrad" in op
    choices = POWERS if name == "lr_power" else None
    if picky and script.spoiled and name in BAD_SCALARS and draw.chance(0.3):
        choices = BAD_SCALARS[name]
    if choices:
        return np.asarray(draw.choice(choices), NUMPY[dtype])
    return draw.values(dtype, (), *SCALARS.get(name, (0.125, 0.875)))


@scripts(*NAMES)
def update(script, op, types):
    draw, dtype = script.draw, types["T"]
    op_def = op_def_registry.get(op)
    sparse = "Sparse" in op
    variables = Variables(script, resources=op.startswith("Resource"))
    shape = draw.shape(min_rank=1 if sparse else 0, max_rank=3, empty=not sparse)
    rows = draw.integer(0, 5)
    arguments = {}
    for arg in op_def.input_arg:
        if arg.is_ref or arg.type == tf.resource.as_datatype_enum:
            arguments[arg.name] = variables.add(_slot(draw, op, arg.name, dtype, shape), arg.name)
        elif arg.name in ("grad", "delta"):
            grad_shape = (rows,) + shape[1:] if sparse else shape
            arguments[arg.name] = script.feed(draw.values(dtype, _spoil_shape(script, grad_shape)), name=arg.name)
        elif arg.name == "indices":
            arguments[arg.name] = script.feed(_rows(script, shape[0], (rows,), types["Tindices"]), fixed=True)
        elif arg.name == "global_step":
            arguments[arg.name] = script.feed(np.array(draw.integer(1, 5), np.int64), fixed=True)
        else:
            arguments[arg.name] = script.feed(_scalar(script, op, arg.name, dtype), name=arg.name)
    for attr in op_def.attr:
        if attr.type == "bool" and attr.name != "use_locking":
            arguments[attr.name] = draw.chance(0.5)
    run_update(script, variables, op, arguments)


def _rows(script, count, shape, dtype):
    indices = script.draw.integers(0, count - 1, shape, dtype)
    if script.spoiled and indices.size and script.draw.chance(0.7):
        indices.reshape(-1)[script.draw.integer(0, indices.size - 1)] = script.draw.choice([count, -1, 100])
    return indices


@scripts(*SCATTERS)
def scatter(script, op, types):
    draw = script.draw
    dtype = types.get("T", types.get("dtype"))
    variables = Variables(script, resources=op.startswith("Resource"))
    shape = draw.shape(min_rank=1, max_rank=3, empty=False)
    indices = _rows(script, shape[0], draw.shape(max_rank=2), types["Tindices"])
    # TensorFlow's resource forms do not compare the shapes.
    updates = () if draw.chance(0.2) else indices.shape + shape[1:]
    if not variables.resources and indices.size:
        updates = _spoil_shape(script, updates) if updates else ()
    make = draw.nonzero if "Div" in op else draw.values
    handle = variables.add(draw.values(dtype, shape, -2, 2), "var")
    if "Update" in op and updates != ():  # of two writes to a row, either may win
        indices = draw.rng.permutation(shape[0])[:draw.integer(0, shape[0])].astype(indices.dtype)
        updates = indices.shape + shape[1:]
    arguments = {"resource" if variables.resources else "ref": handle,
                 "indices": script.feed(indices, fixed=True),
                 "updates": script.feed(make(dtype, updates, -1.5, 1.5), name="updates")}
    run_update(script, variables, op, arguments)


@scripts("Assign", "AssignAdd", "AssignSub", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
def assign(script, op, types):
    draw = script.draw
    dtype = types.get("T", types.get("dtype"))
    variables = Variables(script, resources=op.endswith("Op"))
    shape = draw.shape()
    handle = variables.add(draw.values(dtype, shape), "var")
    value = draw.values(dtype, shape if op == "AssignVariableOp" else _spoil_shape(script, shape))
    if op == "Assign":
        arguments = {"ref": handle, "value": script.feed(value), "validate_shape": script.spoiled or draw.chance(0.5)}
    elif variables.resources:
        arguments = {"resource": handle, "value": script.feed(value)}
    else:
        arguments = {"ref": handle, "value": script.feed(value)}
    run_update(script, variables, op, arguments)
