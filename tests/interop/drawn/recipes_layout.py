"""Recipes of ops that arrange, sort and multiply along dimensions."""
import numpy as np

from drawing import NUMPY, tf_type
from recipes import arguments
from script import Arguments


# --- Einsum. ---

# Equations as models have them; the others are made up.
KNOWN_EQUATIONS = ["abc,cd->abd", "abc,cde->abde", "abcd,cde->abe", "aecd,abcd->acbe", "acbe,aecd->abcd", "ij,jk->ik",
                   "bhwc,hkc->bhwk", "...ij,...jk->...ik", "ij->ji", "abc->cab", "ii->i", "i->ii", "ab->", "a,b->ab",
                   "ab,ab->", "ab,ab->a", "ab,ab->ab", "...a,...a->...", "ab...->b...", "a...,a->...a"]


def _made_up_equation(draw):
    labels = "abcde"[:draw.integer(2, 5)]
    inputs = []
    for _ in range(draw.integer(1, 2)):
        term = [draw.choice(labels) for _ in range(draw.integer(0, 4))]
        inputs.append("".join(term))
    seen = sorted(set("".join(inputs)))
    kept = [label for label in seen if draw.chance(0.6)]
    output = "".join(str(label) for label in draw.rng.permutation(np.array(kept, dtype="U1"))) if kept else ""
    if output and draw.chance(0.1):
        output += output[0]
    if draw.chance(0.4):
        inputs = [_with_dots(draw, term) for term in inputs]
        output = _with_dots(draw, output)
    return ",".join(inputs) + "->" + output


def _with_dots(draw, term):
    at = draw.integer(0, len(term))
    return term[:at] + "..." + term[at:]


@arguments("Einsum")
def einsum(draw, op, types):
    equation = draw.choice(KNOWN_EQUATIONS) if draw.chance(0.5) else _made_up_equation(draw)
    sizes = {label: draw.integer(0 if draw.chance(0.05) else 1, 4) for label in "abcdehijkw"}
    dots = draw.shape(max_rank=2, max_dim=3)
    inputs = []
    for term in equation.split("->")[0].split(","):
        before, found, after = term.partition("...")
        middle = draw.smaller_shape(dots) if found else ()
        inputs.append(draw.values(types["T"], [sizes[x] for x in before] + list(middle) + [sizes[x] for x in after],
                                  -2, 2))
    return Arguments({"equation": equation}, inputs=inputs)


# --- Diagonals. ---


@arguments("MatrixDiag")
def matrix_diag(draw, op, types):
    return Arguments(diagonal=draw.values(types["T"], draw.shape(min_rank=1, max_rank=3)))


def _diagonals(draw, rows, columns):
    """k as an op has it, lower and upper."""
    lower, upper = sorted(draw.integer(1 - max(rows, 1), max(columns, 1) - 1) for _ in range(2))
    if draw.chance(0.4):
        upper = lower
    if lower == upper:
        return np.array(lower if draw.chance(0.5) else [lower], np.int32), lower, upper
    return np.array([lower, upper], np.int32), lower, upper


def _diagonal_shape(batch, rows, columns, lower, upper):
    length = min(rows + min(upper, 0), columns - max(lower, 0))
    return tuple(batch) + ((upper - lower + 1,) if upper > lower else ()) + (length,)


def _align(draw, op):
    return {"align": draw.choice(["LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"])} if op.endswith("V3") else {}


def _right_gradient(op, lower, upper):
    """TensorFlow's gradients of V2 align diagonals of several lengths as V3 does."""
    return not op.endswith("V2") or lower == upper


@arguments("MatrixDiagV2", "MatrixDiagV3")
def matrix_diag_of(draw, op, types):
    rows, columns = draw.integer(1, 4), draw.integer(1, 4)
    k, lower, upper = _diagonals(draw, rows, columns)
    diagonal = draw.values(types["T"], _diagonal_shape(draw.shape(max_rank=2), rows, columns, lower, upper))
    return Arguments(_align(draw, op), diagonal=diagonal, k=k,
                     num_rows=np.array(rows if draw.chance(0.7) else -1, np.int32),
                     num_cols=np.array(columns if draw.chance(0.7) else -1, np.int32),
                     padding_value=draw.values(types["T"], ()), fixed=["k", "num_rows", "num_cols", "padding_value"],
                     differentiable=_right_gradient(op, lower, upper))


@arguments("MatrixDiagPart")
def matrix_diag_part(draw, op, types):
    return Arguments(input=draw.values(types["T"], draw.shape(min_rank=2)))


@arguments("MatrixDiagPartV2", "MatrixDiagPartV3")
def matrix_diag_part_of(draw, op, types):
    x = draw.values(types["T"], draw.shape(min_rank=2))
    k, lower, upper = _diagonals(draw, *x.shape[-2:])
    return Arguments(_align(draw, op), input=x, k=k, padding_value=draw.values(types["T"], ()),
                     fixed=["k", "padding_value"], differentiable=_right_gradient(op, lower, upper))


@arguments("MatrixSetDiag")
def matrix_set_diag(draw, op, types):
    x = draw.values(types["T"], draw.shape(min_rank=2))
    return Arguments(input=x, diagonal=draw.values(types["T"], x.shape[:-2] + (min(x.shape[-2:]),)))


@arguments("MatrixSetDiagV2", "MatrixSetDiagV3")
def matrix_set_diag_of(draw, op, types):
    x = draw.values(types["T"], draw.shape(min_rank=2))
    k, lower, upper = _diagonals(draw, *x.shape[-2:])
    diagonal = draw.values(types["T"], _diagonal_shape(x.shape[:-2], *x.shape[-2:], lower, upper))
    return Arguments(_align(draw, op), input=x, diagonal=diagonal, k=k, fixed=["k"],
                     differentiable=_right_gradient(op, lower, upper))


@arguments("Diag")
def diag(draw, op, types):
    return Arguments(diagonal=draw.values(types["T"], draw.shape(min_rank=1, max_rank=2)))


@arguments("DiagPart")
def diag_part(draw, op, types):
    half = draw.shape(min_rank=1, max_rank=2)
    return Arguments(input=draw.values(types["T"], half + half))


# --- Sequences and patches. ---


@arguments("MirrorPadGrad")
def mirror_pad_grad(draw, op, types):
    inner = draw.shape(empty=False)
    mode = draw.choice(["REFLECT", "SYMMETRIC"])
    limits = [d - 1 if mode == "REFLECT" else d for d in inner]
    paddings = np.array([[draw.integer(0, limit), draw.integer(0, limit)] for limit in limits],
                        NUMPY[types["Tpaddings"]]).reshape((len(inner), 2))
    return Arguments({"mode": mode}, input=draw.values(types["T"], [d + sum(p) for d, p in zip(inner, paddings)]),
                     paddings=paddings, fixed=["paddings"], spoilable=False)


@arguments("ReverseSequence")
def reverse_sequence(draw, op, types):
    x = draw.values(types["T"], draw.shape(min_rank=2))
    batch, seq = (int(d) for d in draw.rng.permutation(x.ndim)[:2])
    return Arguments({"batch_dim": batch, "seq_dim": seq}, input=x,
                     seq_lengths=draw.integers(0, x.shape[seq], (x.shape[batch],), types["Tlen"]),
                     fixed=["seq_lengths"])


@arguments("Roll")
def roll(draw, op, types):
    x = draw.values(types["T"], draw.shape(min_rank=1))
    count = draw.integer(0, 3)
    shape = () if count == 1 and draw.chance(0.5) else (count,)
    return Arguments(input=x, shift=draw.integers(-7, 7, shape, types["Tshift"]),
                     axis=draw.integers(-x.ndim, x.ndim - 1, shape, types["Taxis"]), fixed=["shift", "axis"])


@arguments("ExtractImagePatches")
def extract_image_patches(draw, op, types):
    kernel, stride, rate = ([draw.integer(1, 3), draw.integer(1, 3)] for _ in range(3))
    image = [draw.integer((k - 1) * r + 1, (k - 1) * r + 4) for k, r in zip(kernel, rate)]
    attrs = {"ksizes": [1] + kernel + [1], "strides": [1] + stride + [1], "rates": [1] + rate + [1],
             "padding": draw.choice(["SAME", "VALID"])}
    return Arguments(attrs, images=draw.values(types["T"], [draw.integer(0 if draw.chance(0.1) else 1, 3)] + image +
                                               [draw.integer(1, 3)]))


# --- Bits and complex numbers. ---


@arguments("LeftShift", "RightShift")
def shift(draw, op, types):
    x_shape, y_shape = draw.broadcasting_shapes()
    return Arguments(x=draw.with_specials(draw.values(types["T"], x_shape), types["T"]),
                     y=draw.values(types["T"], y_shape, -1, 40))


@arguments("PopulationCount")
def population_count(draw, op, types):
    return Arguments(x=draw.with_specials(draw.values(types["T"], draw.shape()), types["T"]))


# TensorFlow has kernels in which T and Tout fit, and aborts on others.
WIDE = {"float": "complex64", "double": "complex128", "complex64": "float", "complex128": "double"}


@arguments("Complex")
def complex_of(draw, op, types):
    real, imag = draw.broadcasting_shapes()
    return Arguments({"Tout": tf_type(WIDE[types["T"]])}, real=draw.values(types["T"], real),
                     imag=draw.values(types["T"], imag))


@arguments("Real", "Imag", "Angle", "ComplexAbs")
def part_of_complex(draw, op, types):
    z = draw.nonzero(types["T"], draw.shape())
    return Arguments({"Tout": tf_type(WIDE[types["T"]])}, **{"x" if op == "ComplexAbs" else "input": z})


@arguments("NextAfter")
def next_after(draw, op, types):
    x_shape, y_shape = draw.broadcasting_shapes()
    return Arguments(x1=draw.values(types["T"], x_shape), x2=draw.values(types["T"], y_shape))


# --- Volumes. TensorFlow's CPU kernels have channels last and no dilation. ---


class _Volume:
    """A window over volumes: sizes, strides and padding that fit each other."""

    def __init__(self, draw):
        self.kernel = [draw.integer(1, 3) for _ in range(3)]
        self.padding = draw.choice(["SAME", "VALID"])
        # Where windows leave gaps, TensorFlow's forward kernels without oneDNN pad "SAME" by less than nothing; those
        # with it, its gradients and its own shape functions do not.
        self.stride = [draw.integer(1, k if self.padding == "SAME" else 3) for k in self.kernel]
        self.volume = [draw.integer(1 if self.padding == "SAME" else k, k + 3) for k in self.kernel]
        self.batch = draw.integer(0 if draw.chance(0.1) else 1, 2)
        self.attrs = {"strides": [1] + self.stride + [1], "padding": self.padding}

    def shape(self, channels):
        return [self.batch] + self.volume + [channels]

    def places(self):
        if self.padding == "SAME":
            return [-(-n // s) for n, s in zip(self.volume, self.stride)]
        return [(n - k) // s + 1 for n, k, s in zip(self.volume, self.kernel, self.stride)]

    def pooled_shape(self, channels):
        return [self.batch] + self.places() + [channels]

    def pool_attrs(self):
        return {**self.attrs, "ksize": [1] + self.kernel + [1]}

    def maxima(self, x):
        places = self.places()
        pads = [max((o - 1) * s + k - n, 0) // 2 if self.padding == "SAME" else 0
                for o, s, k, n in zip(places, self.stride, self.kernel, self.volume)]
        out = np.zeros([x.shape[0]] + places + [x.shape[4]], x.dtype)
        for at in np.ndindex(*places):
            start = [i * s - p for i, s, p in zip(at, self.stride, pads)]
            part = x[(slice(None),) + tuple(slice(max(b, 0), b + k) for b, k in zip(start, self.kernel))]
            out[(slice(None),) + at] = part.max(axis=(1, 2, 3)) if x.shape[0] else 0
        return out


@arguments("Conv3D")
def conv3d(draw, op, types):
    window, channels = _Volume(draw), draw.integer(1, 3)
    return Arguments(window.attrs, input=draw.values(types["T"], window.shape(channels), -2, 2),
                     filter=draw.values(types["T"], window.kernel + [channels, draw.integer(1, 3)], -2, 2),
                     spoilable=False)


@arguments("Conv3DBackpropInputV2", "Conv3DBackpropFilterV2")
def conv3d_backprop(draw, op, types):
    window, channels, out = _Volume(draw), draw.integer(1, 3), draw.integer(1, 3)
    backprop = draw.values(types["T"], window.pooled_shape(out), -2, 2)
    volume, weights = window.shape(channels), window.kernel + [channels, out]
    if op == "Conv3DBackpropInputV2":
        return Arguments(window.attrs, input_sizes=np.array(volume, NUMPY[types["Tshape"]]),
                         filter=draw.values(types["T"], weights, -2, 2), out_backprop=backprop, fixed=["input_sizes"],
                         spoilable=False)
    return Arguments(window.attrs, input=draw.values(types["T"], volume, -2, 2),
                     filter_sizes=np.array(weights, np.int32), out_backprop=backprop, fixed=["filter_sizes"],
                     spoilable=False)


@arguments("AvgPool3D", "MaxPool3D")
def pool3d(draw, op, types):
    window = _Volume(draw)
    return Arguments(window.pool_attrs(), input=draw.values(types["T"], window.shape(draw.integer(1, 3))))


@arguments("AvgPool3DGrad")
def avg_pool3d_grad(draw, op, types):
    window, channels = _Volume(draw), draw.integer(1, 3)
    return Arguments(window.pool_attrs(), orig_input_shape=np.array(window.shape(channels), np.int32),
                     grad=draw.values(types["T"], window.pooled_shape(channels)), fixed=["orig_input_shape"],
                     spoilable=False)


@arguments("MaxPool3DGrad", "MaxPool3DGradGrad")
def max_pool3d_grad(draw, op, types):
    window = _Volume(draw)
    x = draw.values(types.get("TInput", types["T"]), window.shape(draw.integer(1, 3)))
    y = window.maxima(x)
    return Arguments(window.pool_attrs(), orig_input=x, orig_output=y,
                     grad=draw.values(types["T"], y.shape if op == "MaxPool3DGrad" else x.shape), spoilable=False)


@arguments("Dilation2D", "Dilation2DBackpropInput", "Dilation2DBackpropFilter")
def dilation(draw, op, types):
    kernel, stride, rate = ([draw.integer(1, 3), draw.integer(1, 3)] for _ in range(3))
    reach = [(k - 1) * r + 1 for k, r in zip(kernel, rate)]
    image = [draw.integer(r, r + 3) for r in reach]
    padding, depth, batch = draw.choice(["SAME", "VALID"]), draw.integer(1, 3), draw.integer(1, 2)
    attrs = {"strides": [1] + stride + [1], "rates": [1] + rate + [1], "padding": padding}
    places = [-(-n // s) if padding == "SAME" else (n - r) // s + 1 for n, s, r in zip(image, stride, reach)]
    inputs = {"input": draw.values(types["T"], [batch] + image + [depth]),
              "filter": draw.values(types["T"], kernel + [depth])}
    if op != "Dilation2D":
        inputs["out_backprop"] = draw.values(types["T"], [batch] + places + [depth])
    return Arguments(attrs, **inputs, spoilable=op == "Dilation2D")


# --- Special functions. ---

# Where functions of two are defined and tame: of the first argument, and of the second.
PAIR_DOMAINS = {"Igamma": ((0.25, 4), (0.25, 6)), "Igammac": ((0.25, 4), (0.25, 6)), "IgammaGradA": ((0.25, 4), (0.25, 6)),
                "RandomGammaGrad": ((0.25, 4), (0.25, 6)),
                "Zeta": ((1.5, 5), (0.25, 5)), "Polygamma": ((1, 3), (0.25, 5))}


@arguments(*PAIR_DOMAINS)
def pair_function(draw, op, types):
    x_shape, y_shape = draw.broadcasting_shapes()
    x, y = (draw.values(types["T"], shape, *domain) for shape, domain in zip((x_shape, y_shape), PAIR_DOMAINS[op]))
    if op == "Polygamma":
        x = np.round(x)
    names = {"Zeta": ("x", "q"), "RandomGammaGrad": ("alpha", "sample")}.get(op, ("a", "x"))
    # TensorFlow has no derivative by the first argument of the last two, and gives none.
    return Arguments(**dict(zip(names, (x.astype(y.dtype), y))))


@arguments("Betainc")
def betainc(draw, op, types):
    shape = draw.shape()
    a, b, x = (draw.values(types["T"], shape if draw.chance(0.7) else (), *domain)
               for domain in ((0.25, 4), (0.25, 4), (0.125, 0.875)))
    return Arguments(a=a, b=b, x=x)


# --- Decompositions. ---


def _matrices(draw, dtype, batch, size):
    """Matrices that are far from singular."""
    x = draw.values(dtype, tuple(batch) + (size, size), -1, 1)
    return (x + 3 * np.eye(size)).astype(x.dtype)


@arguments("MatrixInverse", "MatrixDeterminant", "LogMatrixDeterminant")
def square_matrices(draw, op, types):
    x = _matrices(draw, types["T"], draw.shape(max_rank=2), draw.integer(0 if draw.chance(0.1) else 1, 4))
    return Arguments({"adjoint": draw.chance(0.5)} if op == "MatrixInverse" else {}, input=x)


@arguments("Cholesky")
def cholesky(draw, op, types):
    x = _matrices(draw, types["T"], draw.shape(max_rank=2), draw.integer(1, 4))
    return Arguments(input=(x @ np.conj(np.swapaxes(x, -1, -2))).astype(x.dtype))


@arguments("MatrixSolve", "MatrixTriangularSolve")
def solve(draw, op, types):
    size, columns = draw.integer(1, 4), draw.integer(1, 3)
    batch = draw.shape(max_rank=2, empty=False)
    other, attrs = batch, {"adjoint": draw.chance(0.5)}
    if op == "MatrixTriangularSolve":
        batch, other = draw.broadcasting_shapes(max_rank=2)
        attrs["lower"] = draw.chance(0.5)
    return Arguments(attrs, matrix=_matrices(draw, types["T"], batch, size),
                     rhs=draw.values(types["T"], tuple(other) + (size, columns)))
