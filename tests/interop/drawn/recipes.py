"""The list of recipes: how to draw arguments for an op, or a script around it.

@arguments("Sum", ...): f(draw, op, types) -> Arguments of one node. `types` has the dtype of every type attribute.
@scripts("ApplyAdam", ...): f(script, op, types) adds nodes and steps.
"""
import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_registry

from drawing import TYPES, short_name
from script import Skip

ARGUMENTS = {}
SCRIPTS = {}


def arguments(*ops):
    def register(function):
        for op in ops:
            assert op not in ARGUMENTS and op not in SCRIPTS, op
            ARGUMENTS[op] = function
        return function
    return register


def scripts(*ops):
    def register(function):
        for op in ops:
            assert op not in ARGUMENTS and op not in SCRIPTS, op
            SCRIPTS[op] = function
        return function
    return register


def has_recipe(op):
    return op in ARGUMENTS or op in SCRIPTS


def draw_types(draw, op):
    """Types for which TensorFlow has a CPU kernel; those of lists are left to recipes."""
    op_def = op_def_registry.get(op)
    on_cpu = [k for k in kernels.get_registered_kernels_for_op(op).kernel
              if k.device_type in ("CPU", "DEFAULT") and not k.label]
    if not on_cpu:
        raise Skip("no kernel")
    kernel = draw.choice(on_cpu)
    types = {}
    for attr in op_def.attr:
        if attr.type != "type":
            continue
        allowed = [t for c in kernel.constraint if c.name == attr.name for t in c.allowed_values.list.type]
        allowed = allowed or list(attr.allowed_values.list.type) or [tf.as_dtype(t).as_datatype_enum for t in ALL]
        allowed = [t for t in (short_name(t) for t in allowed) if t in TYPES]
        if not allowed:
            raise Skip("a type without values")
        types[attr.name] = draw.choice(allowed)
    return types


# What these give are bits of a random generator or of a file: with more digits it is something else, not the same more
# precisely. All of them must be equal.
MADE_OF_BITS = {
    "Bitcast", "DecodePaddedRaw", "DecodeRaw", "Multinomial", "ParameterizedTruncatedNormal", "RandomGamma",
    "RandomPoissonV2", "RandomStandardNormal", "RandomUniform", "RandomUniformInt", "StatefulStandardNormalV2",
    "StatefulTruncatedNormal", "StatefulUniform", "StatefulUniformFullInt", "StatefulUniformInt", "StatelessMultinomial",
    "StatelessRandomGammaV2", "StatelessRandomGammaV3", "StatelessRandomNormal", "StatelessRandomNormalV2",
    "StatelessRandomPoisson", "StatelessRandomUniform", "StatelessRandomUniformFullInt",
    "StatelessRandomUniformFullIntV2", "StatelessRandomUniformInt", "StatelessRandomUniformIntV2",
    "StatelessRandomUniformV2", "StatelessTruncatedNormal", "StatelessTruncatedNormalV2", "TruncatedNormal",
}

WIDER = {"half": "float", "bfloat16": "float", "float": "double", "complex64": "complex128"}


def widened(op, types):
    """The same with more digits; None when there are no more, or would be others."""
    if op in MADE_OF_BITS:
        return None
    wide = {attr: WIDER.get(t, t) for attr, t in types.items()}
    return None if wide == types else wide


ALL = [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128, tf.int8, tf.int16, tf.int32,
       tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64, tf.bool, tf.string]
