"""Recipes of activations, losses, convolutions, pooling and normalisation."""
import numpy as np

import rewrites
from drawing import NUMPY, tf_type
from recipes import arguments
from script import Arguments, Skip


@arguments("Relu", "Relu6", "Elu", "Selu", "LeakyRelu", "Softplus", "Softsign")
def activation(draw, op, types):
    attrs = {"alpha": draw.choice([0.0, 0.25, 0.5, 1.5])} if op == "LeakyRelu" else {}
    x = draw.values(types["T"], draw.shape())
    special = draw.chance(0.2) and op != "Relu6"
    return Arguments(attrs, features=draw.with_specials(x, types["T"]) if special else x, differentiable=not special)


@arguments("ReluGrad", "Relu6Grad", "LeakyReluGrad", "SoftplusGrad", "SoftsignGrad")
def activation_grad(draw, op, types):
    attrs = {"alpha": draw.choice([0.0, 0.25, 0.5])} if op == "LeakyReluGrad" else {}
    shape = draw.shape()
    return Arguments(attrs, gradients=draw.values(types["T"], shape), features=draw.values(types["T"], shape, -3, 7))


@arguments("EluGrad", "SeluGrad")
def activation_grad_of_output(draw, op, types):
    shape = draw.shape()
    return Arguments(gradients=draw.values(types["T"], shape), outputs=draw.values(types["T"], shape, -0.875, 3))


@arguments("BiasAdd", "BiasAddV1")
def bias_add(draw, op, types):
    shape = draw.shape(min_rank=2)
    attrs = {}
    channels = shape[-1]
    if op == "BiasAdd":
        attrs["data_format"] = draw.choice(["NHWC", "NCHW"])
        channels = shape[1] if attrs["data_format"] == "NCHW" else channels
    return Arguments(attrs, value=draw.values(types["T"], shape), bias=draw.values(types["T"], (channels,)))


@arguments("BiasAddGrad")
def bias_add_grad(draw, op, types):
    return Arguments({"data_format": draw.choice(["NHWC", "NCHW"])},
                     out_backprop=draw.values(types["T"], draw.shape(min_rank=2)))


@arguments("Softmax", "LogSoftmax")
def softmax(draw, op, types):
    logits = draw.values(types["T"], draw.shape(min_rank=1))
    return Arguments(logits=logits, differentiable=logits.shape[-1] > 1)  # of one logit it is 0, and rounding errors


@arguments("SoftmaxCrossEntropyWithLogits")
def softmax_cross_entropy(draw, op, types):
    shape = draw.shape(2, 2, max_dim=6)
    labels = shape if draw.chance(0.8) else draw.choice([(1, shape[1]), (shape[0], 1)])
    return Arguments(features=draw.values(types["T"], shape), labels=draw.values(types["T"], labels, 0, 1))


@arguments("SparseSoftmaxCrossEntropyWithLogits")
def sparse_softmax_cross_entropy(draw, op, types):
    batch, classes = draw.integer(0, 5), draw.integer(1, 6)
    return Arguments(features=draw.values(types["T"], (batch, classes)),
                     labels=draw.integers(0, classes - 1, (batch,), types["Tlabels"]), fixed=["labels"])


@arguments("InTopK", "InTopKV2")
def in_top_k(draw, op, types):
    batch, classes = draw.integer(0, 5), draw.integer(1, 6)
    predictions = draw.values("float", (batch, classes), -1, 1)
    if draw.chance(0.2):
        predictions = draw.with_specials(predictions, "float")
    targets = draw.integers(0, classes - 1, (batch,), types["T"])
    k = draw.integer(0, classes + 1)
    if op == "InTopK":
        return Arguments({"k": k}, predictions=predictions, targets=targets, fixed=["targets"], differentiable=False)
    return Arguments(predictions=predictions, targets=targets, k=np.array(k, NUMPY[types["T"]]), fixed=["targets", "k"],
                     differentiable=False)


@arguments("TopKV2")
def top_k(draw, op, types):
    x = draw.values(types["T"], draw.shape(min_rank=1))
    k = draw.integer(0, x.shape[-1])
    attrs = {"sorted": True}
    if "index_type" in types:
        attrs["index_type"] = tf_type(types["index_type"])
    return Arguments(attrs, input=x, k=np.array(k, NUMPY[types.get("Tk", "int32")]), fixed=["k"])


# --- Windows: convolution and pooling. ---


def _in_format(data_format, n, h, w, c):
    return [n, c, h, w] if data_format == "NCHW" else [n, h, w, c]


class _Window:
    """A window over an image: sizes, strides, dilations and padding that fit each other."""

    def __init__(self, draw, formats, paddings, dilated, channels_last_only=False):
        self.draw = draw
        self.format = draw.choice(formats)
        self.kernel = [draw.integer(1, 4), draw.integer(1, 4)]
        self.stride = [draw.integer(1, 3), draw.integer(1, 3)]
        self.dilation = [draw.integer(1, 2), draw.integer(1, 2)] if dilated and draw.chance(0.3) else [1, 1]
        self.padding = draw.choice(paddings)
        self.reach = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation)]
        self.image = [draw.integer(r, r + 5) for r in self.reach]
        if self.padding == "SAME" and draw.chance(0.3):
            self.image = [draw.integer(1, 6), draw.integer(1, 6)]
        self.explicit = [draw.integer(0, k - 1) for k in self.kernel for _ in range(2)]
        self.batch = draw.integer(0 if draw.chance(0.1) else 1, 3)

    def attrs(self, with_dilations=True, with_explicit=True):
        attrs = {"strides": _in_format(self.format, 1, *self.stride, 1), "padding": self.padding,
                 "data_format": self.format}
        if with_dilations:
            attrs["dilations"] = _in_format(self.format, 1, *self.dilation, 1)
        if with_explicit:
            attrs["explicit_paddings"] = self.explicit_paddings() if self.padding == "EXPLICIT" else []
        return attrs

    def explicit_paddings(self):
        top, bottom, left, right = self.explicit
        pairs = _in_format(self.format, (0, 0), (top, bottom), (left, right), (0, 0))
        return [v for pair in pairs for v in pair]

    def input_shape(self, channels):
        return _in_format(self.format, self.batch, *self.image, channels)

    def output_sizes(self):
        sizes = []
        for axis in range(2):
            size, reach, stride = self.image[axis], self.reach[axis], self.stride[axis]
            if self.padding == "SAME":
                sizes.append(-(-size // stride))
                continue
            if self.padding == "EXPLICIT":
                size += sum(self.explicit[2 * axis:2 * axis + 2])
            if size < reach:
                raise Skip("the window is larger than the image")
            sizes.append((size - reach) // stride + 1)
        return sizes

    def output_shape(self, channels):
        return _in_format(self.format, self.batch, *self.output_sizes(), channels)


def _conv_window(draw):
    return _Window(draw, ["NHWC"], ["SAME", "VALID", "EXPLICIT"], dilated=True)


def _undilated(window):
    """For TensorFlow; what Tutti dilates instead, if anything."""
    rows, columns = window.dilation
    window.dilation = [1, 1]
    return rewrites.Dilated(rows, columns, window.kernel) if (rows, columns) != (1, 1) else None


def _conv_filter(draw, window):
    channels, out = draw.integer(1, 4), draw.integer(1, 4)
    return channels, window.kernel + [channels, out], out


@arguments("Conv2D")
def conv2d(draw, op, types):
    window = _conv_window(draw)
    channels, filter_shape, _ = _conv_filter(draw, window)
    window.output_sizes()
    dilated = _undilated(window) if draw.chance(0.7) else None  # TensorFlow itself can, but has no gradient of it
    return Arguments(window.attrs(), input=draw.values(types["T"], window.input_shape(channels), -2, 2),
                     filter=draw.values(types["T"], filter_shape, -2, 2), dilated=dilated)


@arguments("Conv2DBackpropInput")
def conv2d_backprop_input(draw, op, types):
    window = _conv_window(draw)
    channels, filter_shape, out = _conv_filter(draw, window)
    dilated = _undilated(window)
    return Arguments(window.attrs(), dilated=dilated, input_sizes=np.array(window.input_shape(channels), np.int32),
                     filter=draw.values(types["T"], filter_shape, -2, 2),
                     out_backprop=draw.values(types["T"], window.output_shape(out), -2, 2), fixed=["input_sizes"])


@arguments("Conv2DBackpropFilter")
def conv2d_backprop_filter(draw, op, types):
    window = _conv_window(draw)
    channels, filter_shape, out = _conv_filter(draw, window)
    dilated = _undilated(window)
    return Arguments(window.attrs(), dilated=dilated, input=draw.values(types["T"], window.input_shape(channels), -2, 2),
                     filter_sizes=np.array(filter_shape, np.int32),
                     out_backprop=draw.values(types["T"], window.output_shape(out), -2, 2), fixed=["filter_sizes"])


@arguments("DepthwiseConv2dNative")
def depthwise(draw, op, types):
    window = _conv_window(draw)
    window.stride[1] = window.stride[0]
    channels = draw.integer(1, 4)
    dilated = _undilated(window)
    return Arguments(window.attrs(), dilated=dilated, input=draw.values(types["T"], window.input_shape(channels), -2, 2),
                     filter=draw.values(types["T"], window.kernel + [channels, draw.integer(1, 3)], -2, 2))


@arguments("DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter")
def depthwise_backprop(draw, op, types):
    window = _conv_window(draw)
    window.stride[1] = window.stride[0]
    channels, multiplier = draw.integer(1, 4), draw.integer(1, 3)
    image, weights = window.input_shape(channels), window.kernel + [channels, multiplier]
    backprop = draw.values(types["T"], window.output_shape(channels * multiplier), -2, 2)
    dilated = _undilated(window)
    # Of an empty batch TensorFlow's gradient of the filter is memory that nobody wrote.
    if op.endswith("Input"):
        return Arguments(window.attrs(), dilated=dilated, input_sizes=np.array(image, np.int32),
                         filter=draw.values(types["T"], weights, -2, 2), out_backprop=backprop, fixed=["input_sizes"],
                         differentiable=backprop.size > 0)
    if backprop.size == 0:
        raise Skip("an empty batch")
    return Arguments(window.attrs(), dilated=dilated, input=draw.values(types["T"], image, -2, 2),
                     filter_sizes=np.array(weights, np.int32), out_backprop=backprop, fixed=["filter_sizes"])


def _pool_window(draw, paddings=("SAME", "VALID")):
    return _Window(draw, ["NHWC"], list(paddings), dilated=False)


def _pool_attrs(window, with_explicit):
    attrs = window.attrs(with_dilations=False, with_explicit=with_explicit)
    attrs["ksize"] = _in_format(window.format, 1, *window.kernel, 1)
    return attrs


@arguments("MaxPool")
def max_pool(draw, op, types):
    window = _pool_window(draw, ("SAME", "VALID", "EXPLICIT"))
    window.output_sizes()
    return Arguments(_pool_attrs(window, True), input=draw.values(types["T"], window.input_shape(draw.integer(1, 4))))


@arguments("MaxPoolV2")
def max_pool_v2(draw, op, types):
    window = _pool_window(draw)
    attrs = _pool_attrs(window, False)
    ksize, strides = (np.array(attrs.pop(a), np.int32) for a in ("ksize", "strides"))
    return Arguments(attrs, input=draw.values(types["T"], window.input_shape(draw.integer(1, 4))), ksize=ksize,
                     strides=strides, fixed=["ksize", "strides"])


@arguments("AvgPool")
def avg_pool(draw, op, types):
    window = _pool_window(draw)
    return Arguments(_pool_attrs(window, False), value=draw.values(types["T"], window.input_shape(draw.integer(1, 4))))


@arguments("AvgPoolGrad")
def avg_pool_grad(draw, op, types):
    window = _pool_window(draw)
    channels = draw.integer(1, 4)
    return Arguments(_pool_attrs(window, False), orig_input_shape=np.array(window.input_shape(channels), np.int32),
                     grad=draw.values(types["T"], window.output_shape(channels)), fixed=["orig_input_shape"],
                     spoilable=False)


def _pooled(window, image):
    """The largest value under each window of a channels-last image."""
    rows, columns = window.output_sizes()
    top = left = 0
    if window.padding == "SAME":
        top, left = (max((o - 1) * s + k - i, 0) // 2 for o, s, k, i in
                     zip((rows, columns), window.stride, window.kernel, window.image))
    out = np.zeros((image.shape[0], rows, columns, image.shape[3]), image.dtype)
    for y in range(rows):
        for x in range(columns):
            y0, x0 = y * window.stride[0] - top, x * window.stride[1] - left
            part = image[:, max(y0, 0):y0 + window.kernel[0], max(x0, 0):x0 + window.kernel[1], :]
            out[:, y, x, :] = part.max(axis=(1, 2)) if image.shape[0] else 0
    return out


@arguments("MaxPoolGrad", "MaxPoolGradGrad")
def max_pool_grad(draw, op, types):
    window = _pool_window(draw)
    image = draw.values(types["T"], window.input_shape(draw.integer(1, 3)))
    pooled = _pooled(window, image)
    grad = draw.values(types["T"], pooled.shape if op == "MaxPoolGrad" else image.shape)
    attrs = _pool_attrs(window, with_explicit=op == "MaxPoolGrad")
    # Of a wrong orig_output TensorFlow's second derivative is 0 where it finds it nowhere; ours looks for the maximum.
    spoilable = op == "MaxPoolGrad" and draw.chance(0.5)
    return Arguments(attrs, orig_input=image, orig_output=pooled, grad=grad, spoilable=spoilable,
                     differentiable=op == "MaxPoolGrad" and not spoilable)


@arguments("MaxPoolGradV2", "MaxPoolGradGradV2")
def max_pool_grad_v2(draw, op, types):
    drawn = max_pool_grad(draw, op[:-2], types)
    drawn.attrs.pop("explicit_paddings", None)
    for name in ("ksize", "strides"):
        drawn.inputs[name] = np.array(drawn.attrs.pop(name), np.int32)
        drawn.fixed.add(name)
    drawn.differentiable = drawn.spoilable = False
    return drawn


def _argmax_attrs(window):
    attrs = _pool_attrs(window, with_explicit=False)
    attrs.pop("data_format")
    return attrs


@arguments("MaxPoolWithArgmax")
def max_pool_with_argmax(draw, op, types):
    window = _pool_window(draw)
    image = draw.values(types["T"], window.input_shape(draw.integer(1, 3)))
    attrs = {**_argmax_attrs(window), "include_batch_in_index": draw.chance(0.5),
             "Targmax": tf_type(types["Targmax"])}
    return Arguments(attrs, input=image)


@arguments("MaxPoolGradWithArgmax")
def max_pool_grad_with_argmax(draw, op, types):
    window = _pool_window(draw)
    image = draw.values(types["T"], window.input_shape(draw.integer(1, 3)))
    pooled = window.output_shape(image.shape[3])
    grad = draw.values(types["T"], pooled)
    argmax = draw.integers(0, max(image.size // max(window.batch, 1) - 1, 0), pooled, types["Targmax"])
    return Arguments(_argmax_attrs(window), input=image, grad=grad, argmax=argmax, fixed=["argmax"],
                     differentiable=False, spoilable=False)


# --- Batch normalisation. ---


def _image(draw, op):
    """An image, or where the op takes it a volume, its format and its channels. Of only two pixels a gradient would be
    what rounding leaves of a difference."""
    n, h, w, c = draw.integer(1, 3), draw.integer(1, 4), draw.integer(3, 5), draw.integer(1, 4)
    if op.endswith("V3") and draw.chance(0.3):
        return [n, draw.integer(1, 3), h, w, c], "NDHWC", c
    return [n, h, w, c], "NHWC", c


@arguments("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def fused_batch_norm(draw, op, types):
    shape, data_format, channels = _image(draw, op)
    training = draw.chance(0.5)
    attrs = {"is_training": training, "epsilon": draw.choice([1e-4, 1e-3, 1e-2]),
             "data_format": data_format}
    attrs["exponential_avg_factor"] = draw.choice([1.0, 0.5]) if training else 1.0
    scale_type = types.get("U", types["T"])
    given = (channels,) if not training or attrs["exponential_avg_factor"] != 1 else (0,)
    return Arguments(attrs, x=draw.values(types["T"], shape), scale=draw.values(scale_type, (channels,), 0.5, 2),
                     offset=draw.values(scale_type, (channels,)), mean=draw.values(scale_type, given, -1, 1),
                     variance=draw.values(scale_type, given, 0.5, 2), fixed=["mean", "variance"],
                     defined_outputs=None if training else 3)  # it leaves the reserves undefined otherwise


@arguments("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def fused_batch_norm_grad(draw, op, types):
    shape, data_format, channels = _image(draw, op)
    attrs = {"is_training": draw.chance(0.5), "epsilon": draw.choice([1e-4, 1e-3, 1e-2]),
             "data_format": data_format}
    x = draw.values(types["T"], shape)
    u = types.get("U", "float")
    flat = x.astype(np.float64).reshape((-1, channels))
    reserve = {"reserve_space_1": flat.mean(0).astype(NUMPY[u]), "reserve_space_2": flat.var(0).astype(NUMPY[u])}
    if op.endswith("V3"):
        reserve["reserve_space_3"] = np.zeros((0,), NUMPY[u])
    return Arguments(attrs, y_backprop=draw.values(types["T"], shape), x=x,
                     scale=draw.values(u if op != "FusedBatchNormGrad" else types["T"], (channels,), 0.5, 2), **reserve,
                     differentiable=False)


@arguments("LRNGrad")
def lrn_grad(draw, op, types):
    shape = (draw.integer(1, 2), 2, 2, draw.integer(1, 6))
    x = draw.values(types["T"], shape, 0.25, 3)
    return Arguments({"depth_radius": 2, "bias": 1.0, "alpha": 0.5, "beta": 1.0},
                     input_grads=draw.values(types["T"], shape), input_image=x, output_image=(x / 2).astype(x.dtype),
                     differentiable=False, spoilable=False)


@arguments("LRN")
def lrn(draw, op, types):
    return Arguments({"depth_radius": draw.integer(1, 3), "bias": 1.0, "alpha": 0.5, "beta": 0.5},
                     input=draw.values(types["T"], (draw.integer(1, 2), 2, 2, draw.integer(1, 6))))
