"""What Tutti runs in place of a graph that TensorFlow ran, where TensorFlow's CPU kernels lack something.

The results must be the same. TensorFlow convolves and pools images whose channels are last, so channels_first has every
such node in the other format, between transposes. It differentiates convolutions without dilation only, so Dilated gives
it filters with zeros between the weights, and Tutti the weights and the dilation.
"""
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.python.framework import tensor_util

# Op -> inputs that are images, inputs that are sizes in the order of an image's dimensions, outputs that are images.
IMAGES = {
    "Conv2D": ([0], [], [0]),
    "Conv2DBackpropInput": ([2], [0], [0]),
    "Conv2DBackpropFilter": ([0, 2], [], []),
    "DepthwiseConv2dNative": ([0], [], [0]),
    "DepthwiseConv2dNativeBackpropInput": ([2], [0], [0]),
    "DepthwiseConv2dNativeBackpropFilter": ([0, 2], [], []),
    "Conv3D": ([0], [], [0]),
    "Conv3DBackpropInputV2": ([2], [0], [0]),
    "Conv3DBackpropFilterV2": ([0, 2], [], []),
    "AvgPool": ([0], [], [0]),
    "AvgPoolGrad": ([1], [0], [0]),
    "MaxPool": ([0], [], [0]),
    "MaxPoolV2": ([0], [1, 2], [0]),
    "MaxPoolGrad": ([0, 1, 2], [], [0]),
    "MaxPoolGradV2": ([0, 1, 2], [3, 4], [0]),
    "MaxPoolGradGrad": ([0, 1, 2], [], [0]),
    "MaxPoolGradGradV2": ([0, 1, 2], [3, 4], [0]),
    "AvgPool3D": ([0], [], [0]),
    "AvgPool3DGrad": ([1], [0], [0]),
    "MaxPool3D": ([0], [], [0]),
    "MaxPool3DGrad": ([0, 1, 2], [], [0]),
    "MaxPool3DGradGrad": ([0, 1, 2], [], [0]),
    "FusedBatchNorm": ([0], [], [0]),
    "FusedBatchNormV2": ([0], [], [0]),
    "FusedBatchNormV3": ([0], [], [0]),
    "FusedBatchNormGrad": ([0, 1], [], [0]),
    "FusedBatchNormGradV2": ([0, 1], [], [0]),
    "FusedBatchNormGradV3": ([0, 1], [], [0]),
}
PER_DIMENSION = ("strides", "dilations", "ksize")  # attributes with a number for each dimension


class _Graph:
    """Nodes that are being added to a GraphDef."""

    def __init__(self, graph_def):
        self.old = {node.name: node for node in graph_def.node}
        self.result = graph_pb2.GraphDef(versions=graph_def.versions, library=graph_def.library)

    def add(self, name, op, inputs, **types):
        node = self.result.node.add(name=name, op=op, input=inputs)
        for attr, dtype in types.items():
            node.attr[attr].type = dtype
        return node

    def const(self, name, value):
        node = self.add(name, "Const", [], dtype=tf.as_dtype(value.dtype).as_datatype_enum)
        node.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(value))
        return name

    def transpose(self, name, tensor, order, dtype):
        order = self.const(name + "/order", np.array(order, np.int32))
        self.add(name, "Transpose", [tensor, order], T=dtype, Tperm=tf.int32.as_datatype_enum)
        return name

    def reorder(self, name, sizes, order, dtype):
        """The sizes in another order; of constants, a constant, which shape rules can look at."""
        given = self.old[sizes.split(":")[0]]
        if given.op == "Const":
            return self.const(name, tensor_util.MakeNdarray(given.attr["value"].tensor)[order])
        axis, order = self.const(name + "/axis", np.int32(0)), self.const(name + "/order", np.array(order, np.int32))
        int32 = tf.int32.as_datatype_enum
        self.add(name, "GatherV2", [sizes, order, axis], Tparams=dtype, Tindices=int32, Taxis=int32).attr["batch_dims"].i = 0
        return name


def _type(node, attr, otherwise):
    return node.attr[attr].type if attr in node.attr else otherwise


def _set_format(node, order):
    if "data_format" in node.attr:
        node.attr["data_format"].s = b"NCHW" if len(order) == 4 else b"NCDHW"
    for attr in PER_DIMENSION:
        if attr in node.attr:
            values = list(node.attr[attr].list.i)
            node.attr[attr].list.i[:] = [values[i] for i in order]
    if "explicit_paddings" in node.attr and node.attr["explicit_paddings"].list.i:
        values = list(node.attr["explicit_paddings"].list.i)
        node.attr["explicit_paddings"].list.i[:] = [v for i in order for v in values[2 * i:2 * i + 2]]


def channels_first(graph_def):
    """The graph, and which of its tensors have another name."""
    graph, renamed = _Graph(graph_def), {}
    inner = []  # nodes that were made around an op: they see what the op itself gives
    for old in graph_def.node:
        if old.op not in IMAGES or old.attr["data_format"].s not in (b"NHWC", b"NDHWC"):
            graph.result.node.add().CopyFrom(old)
            continue
        images, sizes, outputs = IMAGES[old.op]
        rank = 5 if old.attr["data_format"].s == b"NDHWC" else 4
        to_first = [0, rank - 1, *range(1, rank - 1)]
        to_last = [0, *range(2, rank), 1]
        node = node_def_pb2.NodeDef()
        node.CopyFrom(old)
        _set_format(node, to_first)
        dtype = old.attr["T"].type
        for i in images:
            kind = _type(old, "TInput", dtype) if i < 2 else dtype
            node.input[i] = graph.transpose(f"{old.name}/first_{i}", old.input[i], to_first, kind)
        for i in sizes:
            kind = _type(old, "Tshape", tf.int32.as_datatype_enum)
            node.input[i] = graph.reorder(f"{old.name}/sizes_{i}", old.input[i], to_first, kind)
        graph.result.node.add().CopyFrom(node)
        for i in outputs:
            last = graph.transpose(f"{old.name}/last_{i}", f"{old.name}:{i}", to_last, dtype)
            inner.append(last)
            renamed[f"{old.name}:{i}"] = last + ":0"
    for node in graph.result.node:
        if node.name not in inner:
            for i, name in enumerate(node.input):
                node.input[i] = renamed.get(name if ":" in name or name.startswith("^") else name + ":0", name)
    return graph.result, renamed


class Dilated:
    """Builds the node "op", a convolution or its gradient, for TensorFlow without dilation."""

    def __init__(self, rows, columns, kernel):
        self.dilation, self.kernel = (rows, columns), kernel
        self.original = None  # the filter, or its sizes

    def build(self, raw, op, **arguments):
        of_filter = op.endswith("BackpropFilter")
        argument = "filter_sizes" if of_filter else "filter"
        self.original = arguments[argument].name
        arguments[argument] = self._sizes(arguments[argument]) if of_filter else self._spread(arguments[argument])
        result = raw(op, **arguments)
        if not of_filter:
            return result
        sampled = tf.strided_slice(result, [0, 0, 0, 0], tf.shape(result), [*self.dilation, 1, 1])
        return tf.identity(sampled, name="sampled")

    def _sizes(self, sizes):
        return (sizes - [1, 1, 0, 0]) * [*self.dilation, 1, 1] + [1, 1, 0, 0]

    def _spread(self, weights):
        """Zeros between the weights."""
        (rows, columns), (d, e), rest = self.kernel, self.dilation, tf.shape(weights)[2:]
        apart = tf.reshape(weights, tf.concat([[rows, 1, columns, 1], rest], 0))
        padded = tf.pad(apart, [[0, 0], [0, d - 1], [0, 0], [0, e - 1], [0, 0], [0, 0]])
        spread = tf.reshape(padded, tf.concat([[rows * d, columns * e], rest], 0))
        return spread[:(rows - 1) * d + 1, :(columns - 1) * e + 1]

    def rewrite(self, graph_def):
        result = graph_pb2.GraphDef()
        result.CopyFrom(graph_def)
        node = result.node.add()
        node.CopyFrom(next(n for n in graph_def.node if n.name == "op"))
        node.name = "dilated"
        node.attr["dilations"].list.i[:] = [1, *self.dilation, 1]
        node.input[1] = self.original
        return result, {"op:0": "dilated:0", "sampled:0": "dilated:0"}
