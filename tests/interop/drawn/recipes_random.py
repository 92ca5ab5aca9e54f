"""Recipes of random numbers from seeds, counters and generators, and of distributions with parameters."""
import numpy as np

from drawing import NUMPY, tf_type
from recipes import arguments, scripts
from recipes_update import Variables
from script import Arguments, raw

PHILOX, ANY = 1, 3


def _shape(draw, dtype, **options):
    return np.array(draw.shape(**options), NUMPY[dtype])


def _seed(draw, dtype):
    low = 0 if dtype.startswith("u") else -1000
    return draw.integers(low, 1 << 30, (2,), dtype)


def _counter(draw):
    return dict(key=draw.integers(0, 1 << 62, (1,), "uint64"), counter=draw.integers(0, 1 << 62, (2,), "uint64"),
                alg=np.int32(draw.choice([PHILOX, ANY])))


COUNTER = ["shape", "key", "counter", "alg"]


@arguments("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal", "StatelessRandomUniformFullInt")
def stateless(draw, op, types):
    return Arguments({"dtype": tf_type(types["dtype"])}, shape=_shape(draw, types["T"]),
                     seed=_seed(draw, types["Tseed"]), fixed=["shape", "seed"])


@arguments("StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2",
           "StatelessRandomUniformFullIntV2")
def stateless_v2(draw, op, types):
    return Arguments({"dtype": tf_type(types["dtype"])}, shape=_shape(draw, types["Tshape"]), **_counter(draw),
                     fixed=COUNTER)


@arguments("StatelessRandomUniformInt")
def stateless_integers(draw, op, types):
    return Arguments(shape=_shape(draw, types["T"]), seed=_seed(draw, types["Tseed"]),
                     minval=draw.integers(-50, 10, (), types["dtype"]), maxval=draw.integers(10, 60, (), types["dtype"]),
                     fixed=["shape", "seed"])


@arguments("StatelessRandomUniformIntV2")
def stateless_integers_v2(draw, op, types):
    return Arguments(shape=_shape(draw, types["Tshape"]), **_counter(draw),
                     minval=draw.integers(-50, 10, (), types["dtype"]), maxval=draw.integers(10, 60, (), types["dtype"]),
                     fixed=COUNTER)


@arguments("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg")
def key_counter(draw, op, types):
    return Arguments(seed=_seed(draw, types["Tseed"]), fixed=["seed"])


@arguments("StatelessRandomGetAlg")
def algorithm(draw, op, types):
    return Arguments()


@arguments("StatelessMultinomial")
def stateless_multinomial(draw, op, types):
    logits = draw.values(types["T"], (draw.integer(1, 4), draw.integer(1, 6)))
    return Arguments({"output_dtype": tf_type(types["output_dtype"])}, logits=logits, num_samples=draw.integers(0, 9),
                     seed=_seed(draw, types["Tseed"]), fixed=["seed"], differentiable=False)


# --- Distributions with parameters. Gradients of gamma numbers are not written here. ---


def _seeds(draw):
    return {"seed": draw.integer(1, 1000), "seed2": draw.integer(0, 1000)}


def _alphas(draw, dtype, shape):
    return draw.values(dtype, shape, 0.125, 4)


@arguments("RandomGamma")
def random_gamma(draw, op, types):
    # Differentiated in another step it would draw other numbers; the stateless ones are.
    return Arguments(_seeds(draw), shape=_shape(draw, types["S"], max_rank=2),
                     alpha=_alphas(draw, types["T"], draw.shape(max_rank=2)), fixed=["shape"], differentiable=False)


@arguments("StatelessRandomGammaV2", "StatelessRandomGammaV3")
def stateless_gamma(draw, op, types):
    alpha = _alphas(draw, types["dtype"], draw.shape(max_rank=2, empty=False))
    shape = np.array(draw.shape(max_rank=2) + alpha.shape, NUMPY[types.get("T", types.get("shape_dtype"))])
    # Where alpha is broadcast, TensorFlow's gradient for it has the broadcast shape. In float it has up to 3e-5 of error
    # of its own: RandomGammaGrad is compared by itself, where that can be told.
    differentiable = types["dtype"] == "double"
    if op.endswith("V3"):
        return Arguments(shape=shape, **_counter(draw), alpha=alpha, fixed=[*COUNTER, "alpha"],
                         differentiable=differentiable)
    return Arguments(shape=shape, seed=_seed(draw, types["Tseed"]), alpha=alpha, fixed=["shape", "seed", "alpha"],
                     differentiable=differentiable)


def _rates(draw, dtype, shape):
    return draw.values(dtype, shape, 0.25, draw.choice([4, 30]))


@arguments("RandomPoissonV2")
def random_poisson(draw, op, types):
    rate = _rates(draw, types["R"], draw.shape(max_rank=2, empty=False))
    return Arguments({**_seeds(draw), "dtype": tf_type(types["dtype"])}, shape=_shape(draw, types["S"], max_rank=2), rate=rate, fixed=["shape"],
                     differentiable=False)


@arguments("StatelessRandomPoisson")
def stateless_poisson(draw, op, types):
    lam = _rates(draw, types["Rtype"], draw.shape(max_rank=2, empty=False))
    shape = np.array(draw.shape(max_rank=2) + lam.shape, NUMPY[types["T"]])
    return Arguments({"dtype": tf_type(types["dtype"])}, shape=shape, seed=_seed(draw, types["Tseed"]), lam=lam,
                     fixed=["shape", "seed"], differentiable=False)


@arguments("ParameterizedTruncatedNormal")
def parameterized_truncated_normal(draw, op, types):
    dtype = types["dtype"]
    shape = draw.shape(min_rank=1, max_rank=2, empty=False)
    many = (shape[0],) if draw.chance(0.5) else ()
    low = draw.values(dtype, many, -3, 1)
    # TensorFlow reads shapes as int32, whatever they are.
    return Arguments(_seeds(draw), shape=np.array(shape, np.int32), means=draw.values(dtype, (), -1, 1),
                     stdevs=draw.values(dtype, (), 0.5, 2), minvals=low,
                     maxvals=(low + draw.values(dtype, many, 0.5, 3)).astype(low.dtype), fixed=["shape"],
                     spoilable=False)


# --- Generators: a variable, used twice, and its state after that. ---


def _generator(script):
    draw = script.draw
    state = draw.integers(0, 1 << 62, (3,), "int64")
    if draw.chance(0.2):
        state[0] = -1  # the lower half is about to run over
    if script.spoiled:
        state = state[:draw.integer(1, 2)]
    variables = Variables(script, resources=True)
    return variables, variables.add(state, "var")


def _twice(script, variables, node):
    variables.initialise()
    script.step(fetch=[node])
    script.step(fetch=[node])
    script.step(fetch=variables.reads())


@scripts("StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal", "StatefulUniformFullInt")
def stateful(script, op, types):
    variables, handle = _generator(script)
    shape = script.feed(_shape(script.draw, "int64"), fixed=True)
    _twice(script, variables, raw(op, name="op", resource=handle, algorithm=np.int64(PHILOX), shape=shape,
                                  dtype=tf_type(types["dtype"])))


@scripts("StatefulUniformInt")
def stateful_integers(script, op, types):
    draw = script.draw
    variables, handle = _generator(script)
    shape = script.feed(_shape(draw, "int64"), fixed=True)
    low, high = draw.integers(-50, 10, (), types["dtype"]), draw.integers(10, 60, (), types["dtype"])
    _twice(script, variables, raw(op, name="op", resource=handle, algorithm=np.int64(PHILOX), shape=shape,
                                  minval=script.feed(low), maxval=script.feed(high)))


@scripts("RngReadAndSkip")
def rng_read_and_skip(script, op, types):
    variables, handle = _generator(script)
    delta = script.feed(script.draw.integers(0, 1 << 40, (), "uint64"))
    _twice(script, variables, raw(op, name="op", resource=handle, alg=np.int32(PHILOX), delta=delta))


@scripts("RngSkip")
def rng_skip(script, op, types):
    variables, handle = _generator(script)
    delta = script.feed(script.draw.integers(0, 1 << 40, (), "int64"))
    skip = raw(op, name="op", resource=handle, algorithm=np.int64(PHILOX), delta=delta)
    variables.initialise()
    script.step(run=[skip])
    script.step(fetch=variables.reads())
