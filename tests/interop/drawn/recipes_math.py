"""Recipes of element-wise ops, products, reductions, random numbers."""
import numpy as np

from drawing import COMPLEXES, FLOATS, INTEGERS, NUMPY, UNSIGNED, tf_type
from recipes import arguments
from script import Arguments, Skip

# Where a function is defined and tame, when that is not everywhere.
DOMAINS = {
    "Sqrt": (0.125, 4), "Rsqrt": (0.125, 4), "Log": (0.125, 4), "Log1p": (-0.875, 4), "Tan": (-1.25, 1.25),
    "Acos": (-0.875, 0.875), "Asin": (-0.875, 0.875), "Atanh": (-0.875, 0.875), "Acosh": (1.125, 4),
    "Lgamma": (0.25, 4), "Digamma": (0.25, 4), "SqrtGrad": (0.25, 4), "RsqrtGrad": (0.25, 2), "Igamma": (0.25, 4),
    "Igammac": (0.25, 4), "Zeta": (1.25, 4), "Polygamma": (1, 4), "Ndtri": (0.125, 0.875), "Erfinv": (-0.875, 0.875),
}
NONZERO = {"Inv", "Reciprocal", "ReciprocalGrad", "InvGrad"}
DIVIDES = {"Div", "RealDiv", "FloorDiv", "TruncateDiv", "FloorMod", "Mod", "TruncateMod"}
# Complex ones have branch cuts: on them the sign of a zero decides, which no two libraries agree on.
NO_SPECIALS = DIVIDES | {"Pow", "Cast", "Sin", "Cos", "Tan"}

UNARY = ("Abs Ceil Cos Erf Exp Expm1 Floor Inv IsFinite IsInf IsNan Log Log1p LogicalNot Neg OnesLike Reciprocal Rint "
         "Round Rsqrt Sigmoid Sign Sin Sqrt Square Tan Tanh ZerosLike Acos Acosh Asin Asinh Atan Atanh Cosh Sinh Erfc "
         "Lgamma Digamma Erfinv Ndtri Invert").split()
BINARY = ("Add AddV2 Div DivNoNan Equal FloorDiv FloorMod Greater GreaterEqual Less LessEqual LogicalAnd LogicalOr "
          "Maximum Minimum Mod Mul MulNoNan NotEqual Pow RealDiv SquaredDifference Sub TruncateDiv TruncateMod Xdivy "
          "Xlogy Xlog1py Atan2 BitwiseAnd BitwiseOr BitwiseXor").split()
DERIVATIVES = "SigmoidGrad TanhGrad SqrtGrad RsqrtGrad ReciprocalGrad InvGrad".split()


def _domain(op):
    return DOMAINS.get(op, (-4, 4))


def _maybe_specials(draw, op, dtype, *arrays):
    """With special values there is no gradient to compare: what 0 * inf gives depends on the formula."""
    if op in NO_SPECIALS or not draw.chance(0.25):
        return arrays, True
    return tuple(draw.with_specials(a, dtype) for a in arrays), False


@arguments(*UNARY)
def unary(draw, op, types):
    dtype = types.get("T", "bool")
    make = draw.nonzero if op in NONZERO else draw.values
    (x,), smooth = _maybe_specials(draw, op, dtype, make(dtype, draw.shape(), *_domain(op)))
    return Arguments(x=x, differentiable=smooth)


@arguments("Conj")
def conj(draw, op, types):
    return Arguments(input=draw.values(types["T"], draw.shape()))


@arguments(*BINARY)
def binary(draw, op, types):
    dtype = types.get("T", "bool")
    x_shape, y_shape = draw.broadcasting_shapes()
    if op == "Pow":
        x, y = _power(draw, dtype, x_shape, y_shape)
    else:
        low = 0.125 if op in ("Xlogy", "Xlog1py") else -4
        x = draw.values(dtype, x_shape)
        y = (draw.nonzero if op in DIVIDES else draw.values)(dtype, y_shape, low, 4)
    attrs = {"incompatible_shape_error": draw.chance(0.5)} if op in ("Equal", "NotEqual") else {}
    # An equality that may fail is only built of shapes that are not known: its own shape is not.
    (x, y), smooth = _maybe_specials(draw, op, dtype, x, y)
    return Arguments(attrs, x=x, y=y, differentiable=smooth)


def _power(draw, dtype, x_shape, y_shape):
    if dtype in INTEGERS:
        return draw.values(dtype, x_shape, -2, 2), draw.integers(0, 3, y_shape, dtype)
    return draw.values(dtype, x_shape, 0.125, 3), draw.values(dtype, y_shape, -2, 2)


@arguments(*DERIVATIVES)
def derivative(draw, op, types):
    shape = draw.shape()
    make = draw.nonzero if op in NONZERO else draw.values
    return Arguments(y=make(types["T"], shape, *_domain(op)), dy=draw.values(types["T"], shape), spoilable=False)


@arguments("AddN")
def add_n(draw, op, types):
    shape = draw.shape()
    return Arguments(inputs=[draw.values(types["T"], shape) for _ in range(draw.integer(1, 5))])


@arguments("Cast")
def cast(draw, op, types):
    source, target = types["SrcT"], types["DstT"]
    low = 0 if target in UNSIGNED or target == "bool" else -4  # what does not fit has no defined value
    return Arguments({"DstT": tf_type(target), "Truncate": draw.chance(0.3)}, x=draw.values(source, draw.shape(), low, 4))


@arguments("Bitcast")
def bitcast(draw, op, types):
    source = types["T"]
    targets = [t for t in FLOATS + COMPLEXES + INTEGERS]
    target = draw.choice(targets)
    wide, narrow = np.dtype(NUMPY[source]).itemsize, np.dtype(NUMPY[target]).itemsize
    shape = draw.shape()
    if narrow > wide:
        shape = shape + (narrow // wide,)
    # Integers below: every pattern of bits is a number then, and not a NaN of which the bits may differ.
    return Arguments({"type": tf_type(target)}, input=draw.values(source, shape), differentiable=False)


@arguments("ClipByValue")
def clip_by_value(draw, op, types):
    dtype, shape = types["T"], draw.shape()
    bounds = draw.choice([shape, ()])
    low = 0 if dtype in UNSIGNED else -2
    return Arguments(t=draw.values(dtype, shape), clip_value_min=draw.values(dtype, bounds, low, 0.5),
                     clip_value_max=draw.values(dtype, bounds, 0.5, 3))


@arguments("Select")
def select(draw, op, types):
    shape = draw.shape()
    conditions = [shape, ()] + ([shape[:1]] if shape else [])
    return Arguments(condition=draw.values("bool", draw.choice(conditions)), t=draw.values(types["T"], shape),
                     e=draw.values(types["T"], shape))


@arguments("SelectV2")
def select_v2(draw, op, types):
    shape = draw.shape()
    return Arguments(condition=draw.values("bool", draw.smaller_shape(shape)),
                     t=draw.values(types["T"], draw.smaller_shape(shape)),
                     e=draw.values(types["T"], draw.smaller_shape(shape)))


@arguments("L2Loss")
def l2_loss(draw, op, types):
    return Arguments(t=draw.values(types["T"], draw.shape()))


# --- Reductions. ---


@arguments("Sum", "Mean", "Prod", "Min", "Max", "All", "Any", "EuclideanNorm")
def reduction(draw, op, types):
    dtype = types.get("T", "bool")
    low, high = (-1.5, 1.5) if op == "Prod" else (-4, 4)
    if op == "EuclideanNorm":
        low, high = (0.25, 4) if dtype in FLOATS else (0, 0.5)  # sums of squares of small integers fit
    x = draw.values(dtype, draw.shape(max_dim=4 if op == "Prod" else 5), low, high)
    axes = draw.axes(x.ndim)
    axes = np.array(axes[0] if len(axes) == 1 and draw.chance(0.5) else axes, dtype=NUMPY[types["Tidx"]])
    return Arguments({"keep_dims": draw.chance(0.4)}, input=x, reduction_indices=axes, fixed=["reduction_indices"],
                     spoilable=op != "EuclideanNorm" or dtype not in INTEGERS)


@arguments("ArgMax", "ArgMin")
def arg_extremum(draw, op, types):
    if types["Tidx"] == "int16":
        raise Skip("TensorFlow reads it as if it were wider")
    x = draw.values(types["T"], draw.shape(min_rank=1))
    axis = np.array(draw.axis(x.ndim), dtype=NUMPY[types["Tidx"]])
    return Arguments({"output_type": tf_type(types["output_type"])}, input=x, dimension=axis, fixed=["dimension"])


@arguments("Cumsum", "Cumprod", "CumulativeLogsumexp")
def cumulative(draw, op, types):
    bound = 1.5 if op == "Cumprod" else 4
    x = draw.values(types["T"], draw.shape(min_rank=1), -bound, bound)
    axis = np.array(draw.axis(x.ndim), dtype=NUMPY[types["Tidx"]])
    return Arguments({"exclusive": draw.chance(0.4), "reverse": draw.chance(0.4)}, x=x, axis=axis, fixed=["axis"])


@arguments("ListDiff")
def list_diff(draw, op, types):
    return Arguments({"out_idx": tf_type(types["out_idx"])}, x=draw.values(types["T"], (draw.integer(0, 9),), -2, 2),
                     y=draw.values(types["T"], (draw.integer(0, 5),), -2, 2), differentiable=False)


def _segments(draw, dtype):
    shape = draw.shape(min_rank=1)
    ids = np.sort(draw.integers(0, max(shape[0] - 1, 0), shape[:1]))
    return draw.values(dtype, shape), ids


@arguments("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMin", "SegmentMax")
def segment(draw, op, types):
    data, ids = _segments(draw, types["T"])
    return Arguments(data=data, segment_ids=ids.astype(NUMPY[types["Tindices"]]), fixed=["segment_ids"])


@arguments("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMin", "UnsortedSegmentMax")
def unsorted_segment(draw, op, types):
    data = draw.values(types["T"], draw.shape(), -2, 2)
    count = draw.integer(1, 6)
    ids = draw.integers(-1, count - 1, data.shape[:draw.integer(0, data.ndim)], types["Tindices"])
    return Arguments(data=data, segment_ids=ids, num_segments=np.array(count, NUMPY[types["Tnumsegments"]]),
                     fixed=["segment_ids", "num_segments"])


# --- Products. ---


@arguments("MatMul")
def matmul(draw, op, types):
    m, k, n = draw.shape(3, 3, max_dim=7)
    a_transposed, b_transposed = draw.chance(0.5), draw.chance(0.5)
    return Arguments({"transpose_a": a_transposed, "transpose_b": b_transposed},
                     a=draw.values(types["T"], (k, m) if a_transposed else (m, k)),
                     b=draw.values(types["T"], (n, k) if b_transposed else (k, n)))


@arguments("SparseTensorDenseMatMul")
def sparse_matmul(draw, op, types):
    m, k, n = draw.shape(3, 3, max_dim=7)
    a_adjoint, b_adjoint = draw.chance(0.5), draw.chance(0.5)
    a_shape = (k, m) if a_adjoint else (m, k)
    count = draw.integer(0, 8) if m and k else 0
    indices = np.stack([draw.integers(0, max(d - 1, 0), (count,), types["Tindices"]) for d in a_shape], -1)
    return Arguments({"adjoint_a": a_adjoint, "adjoint_b": b_adjoint}, a_indices=indices,
                     a_values=draw.values(types["T"], (count,)), a_shape=np.array(a_shape, np.int64),
                     b=draw.values(types["T"], (n, k) if b_adjoint else (k, n)), fixed=["a_indices", "a_shape"])


@arguments("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(draw, op, types):
    m, k, n = draw.shape(3, 3)
    x_adjoint, y_adjoint = draw.chance(0.5), draw.chance(0.5)
    batch = draw.shape(max_rank=2, max_dim=3)
    x_batch, y_batch = (batch, batch)
    if op != "BatchMatMul":
        x_batch, y_batch = draw.broadcasting_shapes(max_rank=2)
    x_type = types.get("Ta", types.get("T"))
    attrs = {"adj_x": x_adjoint, "adj_y": y_adjoint}
    if "Tout" in types:
        attrs["Tout"] = tf_type(types["Tout"])
    return Arguments(attrs, x=draw.values(x_type, x_batch + ((k, m) if x_adjoint else (m, k))),
                     y=draw.values(types.get("Tb", x_type), y_batch + ((n, k) if y_adjoint else (k, n))))


# --- Random numbers: those of the first step, from given seeds. ---


def _seeds(draw):
    return {"seed": draw.integer(1, 1000), "seed2": draw.integer(0, 1000)}


@arguments("RandomUniform", "RandomStandardNormal", "TruncatedNormal")
def random(draw, op, types):
    shape = np.array(draw.shape(), NUMPY[types["T"]])
    return Arguments({**_seeds(draw), "dtype": tf_type(types["dtype"])}, shape=shape, fixed=["shape"])


@arguments("RandomUniformInt")
def random_uniform_int(draw, op, types):
    shape = np.array(draw.shape(), NUMPY[types["T"]])
    low, high = draw.integers(-50, 10, (), types["Tout"]), draw.integers(10, 60, (), types["Tout"])
    return Arguments(_seeds(draw), shape=shape, minval=low, maxval=high, fixed=["shape"])


@arguments("RandomShuffle")
def random_shuffle(draw, op, types):
    return Arguments(_seeds(draw), value=draw.values(types["T"], draw.shape()), differentiable=False)


@arguments("Multinomial")
def multinomial(draw, op, types):
    logits = draw.values(types["T"], (draw.integer(1, 4), draw.integer(1, 6)))
    return Arguments({**_seeds(draw), "output_dtype": tf_type(types["output_dtype"])}, logits=logits,
                     num_samples=draw.integers(0, 9), differentiable=False)
