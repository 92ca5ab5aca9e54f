"""Recipes of recurrent cells, of lists that are gathered, scattered and joined, and of matrix decompositions."""
import numpy as np
import tensorflow as tf

from drawing import tf_type
from recipes import arguments, scripts
from script import Arguments, raw

# --- Recurrent cells and sequences. ---


class _Lstm:
    """Sizes and parameters of an LSTM; states are [*lead, cells]."""

    def __init__(self, draw, dtype, steps=None):
        self.draw, self.dtype = draw, dtype
        self.batch, self.inputs, self.cells = draw.integer(1, 4), draw.integer(1, 5), draw.integer(1, 20)
        self.lead = (self.batch,) if steps is None else (steps, self.batch)
        self.peephole = draw.chance(0.5)

    def values(self, *shape, low=-1.0, high=1.0):
        return self.draw.values(self.dtype, shape, low, high)

    def parameters(self):
        cells = self.cells
        return {"x": self.values(*self.lead, self.inputs), "cs_prev": self.values(self.batch, cells),
                "h_prev": self.values(self.batch, cells),
                "w": self.values(self.inputs + cells, 4 * cells, low=-0.5, high=0.5),
                "wci": self.values(cells), "wcf": self.values(cells), "wco": self.values(cells),
                "b": self.values(4 * cells)}

    def states(self, names):
        return {name: self.values(*self.lead, self.cells, low=0.0 if len(name) == 1 else -1.0) for name in names}


def _forward_attrs(draw, op, lstm):
    attrs = {"use_peephole": lstm.peephole, "cell_clip": draw.choice([0.0, 0.5, 3.0])}
    if op != "BlockLSTMV2":
        attrs["forget_bias"] = draw.choice([0.0, 1.0])
    return attrs


@arguments("LSTMBlockCell")
def lstm_cell(draw, op, types):
    lstm = _Lstm(draw, types["T"])
    return Arguments(_forward_attrs(draw, op, lstm), **lstm.parameters(), differentiable=False,
                     spoilable=False)  # TensorFlow trusts the peepholes' shapes


@arguments("LSTMBlockCellGrad")
def lstm_cell_grad(draw, op, types):
    lstm = _Lstm(draw, types["T"])
    return Arguments({"use_peephole": lstm.peephole}, **lstm.parameters(),
                     **lstm.states(["i", "cs", "f", "o", "ci", "co", "cs_grad", "h_grad"]), differentiable=False, spoilable=False)


@arguments("BlockLSTM", "BlockLSTMV2")
def lstm_sequence(draw, op, types):
    steps = draw.integer(1, 4)
    lstm = _Lstm(draw, types["T"], steps)
    attrs = _forward_attrs(draw, op, lstm)
    # TensorFlow differentiates V2 as if its gates were in the order of V1; Tutti in the order that they have, which
    # tests/ops compares with numeric differences.
    return Arguments(attrs, seq_len_max=np.array(steps, np.int64), **lstm.parameters(), fixed=["seq_len_max"],
                     differentiable=op == "BlockLSTM")


@arguments("BlockLSTMGrad", "BlockLSTMGradV2")
def lstm_sequence_grad(draw, op, types):
    steps = draw.integer(1, 4)
    lstm = _Lstm(draw, types["T"], steps)
    return Arguments({"use_peephole": lstm.peephole}, seq_len_max=np.array(steps, np.int64), **lstm.parameters(),
                     **lstm.states(["i", "cs", "f", "o", "ci", "co", "h", "cs_grad", "h_grad"]), fixed=["seq_len_max"],
                     differentiable=False, spoilable=False)  # TensorFlow trusts the states' shapes


def _gru_parameters(draw):
    batch, inputs, cells = draw.integer(1, 4), draw.integer(1, 5), draw.integer(1, 20)
    return (batch, cells), {"x": draw.values("float", (batch, inputs), -1, 1),
                            "h_prev": draw.values("float", (batch, cells), -1, 1),
                            "w_ru": draw.values("float", (inputs + cells, 2 * cells), -0.5, 0.5),
                            "w_c": draw.values("float", (inputs + cells, cells), -0.5, 0.5),
                            "b_ru": draw.values("float", (2 * cells,), -1, 1),
                            "b_c": draw.values("float", (cells,), -1, 1)}


@arguments("GRUBlockCell")
def gru_cell(draw, op, types):
    return Arguments(**_gru_parameters(draw)[1], differentiable=False)


@arguments("GRUBlockCellGrad")
def gru_cell_grad(draw, op, types):
    state, parameters = _gru_parameters(draw)
    return Arguments(**parameters, r=draw.values("float", state, 0, 1), u=draw.values("float", state, 0, 1),
                     c=draw.values("float", state, -1, 1), d_h=draw.values("float", state, -1, 1), differentiable=False)


# --- Decompositions. ---


@arguments("Qr")
def qr(draw, op, types):
    rows, columns = draw.integer(1, 6), draw.integer(1, 6)
    full = draw.chance(0.5)
    values = draw.values(types["T"], draw.shape(max_rank=1, empty=False) + (rows, columns))
    values = values + 16 * np.eye(rows, columns, dtype=values.dtype)  # far from singular
    # TensorFlow has no gradient where the rest of a square q is not determined; of half it has no triangular solver.
    # A spoiled matrix may have the same row several times: then most of q is not determined either.
    return Arguments({"full_matrices": full}, input=values, spoilable=False,
                     differentiable=types["T"] != "half" and not (full and rows > columns))


# --- Lists. ---


def _differentiable(*tensors):
    return [t for t in tensors if t.dtype.is_floating]


@scripts("TensorListGather", "TensorListScatter", "TensorListScatterV2", "TensorListScatterIntoExistingList",
         "TensorListResize")
def tensor_list_scattered(script, op, types):
    draw = script.draw
    dtype = types.get("element_dtype", "float")
    shape = draw.shape(min_rank=1, max_rank=3, empty=False)
    rows, each = shape[0], np.array(shape[1:], np.int32)
    x, more = script.feed(draw.values(dtype, shape)), script.feed(draw.values(dtype, shape))
    places = draw.rng.permutation(rows + 2)[:rows].astype(np.int32)
    if script.spoiled and draw.chance(0.5):
        places[0] = -1
    if draw.chance(0.5):
        handle = raw("TensorListScatterV2", tensor=x, indices=places, element_shape=each,
                     num_elements=draw.choice([-1, rows + 2, rows + 3]))
    else:
        handle = raw("TensorListScatter", tensor=x, indices=places, element_shape=each)
    handle = raw("TensorListScatterIntoExistingList", input_handle=handle, tensor=more,
                 indices=draw.rng.permutation(rows + 3)[:rows].astype(np.int32))
    handle = raw("TensorListResize", input_handle=handle, size=draw.integer(1, rows + 4) if not script.spoiled else 1)
    wanted = draw.integers(0, rows + 3 if script.spoiled else 0, (draw.integer(1, 4),))
    got = raw("TensorListGather", input_handle=handle, indices=wanted, element_shape=each, element_dtype=tf_type(dtype))
    script.step(fetch=[got, raw("TensorListLength", input_handle=handle)])
    return _differentiable(x, more)


@scripts("TensorListSplit", "TensorListConcat", "TensorListConcatV2")
def tensor_list_split(script, op, types):
    draw = script.draw
    dtype = types.get("element_dtype", "float")
    rest = draw.shape(max_rank=2, empty=False)
    lengths = draw.integers(0, 3, (draw.integer(1, 4),), "int64")
    rows = int(lengths.sum()) + (1 if script.spoiled else 0)
    x = script.feed(draw.values(dtype, (rows,) + rest))
    element_shape = np.array((-1,) + rest, np.int32)
    handle = raw("TensorListSplit", tensor=x, element_shape=element_shape, lengths=lengths)
    if draw.chance(0.3):  # with an item that was never set
        handle = raw("TensorListResize", input_handle=handle, size=len(lengths) + 1)
        joined = raw("TensorListConcatV2", input_handle=handle, element_shape=element_shape,
                     leading_dims=np.append(lengths, 2), element_dtype=tf_type(dtype))
    elif op == "TensorListConcat":
        joined = raw("TensorListConcat", input_handle=handle, element_dtype=tf_type(dtype), element_shape=[None, *rest])
    else:
        joined = raw("TensorListConcatV2", input_handle=handle, element_shape=element_shape,
                     leading_dims=np.zeros((0,), np.int64), element_dtype=tf_type(dtype))
    script.step(fetch=list(joined))
    return _differentiable(x)


@scripts("TensorListConcatLists", "TensorListPushBackBatch")
def tensor_lists_joined(script, op, types):
    draw = script.draw
    dtype = types.get("element_dtype", "float")
    shape = draw.shape(min_rank=1, max_rank=3, empty=False)
    each = np.array(shape[1:], np.int32)
    one, other, row = (script.feed(draw.values(dtype, s)) for s in (shape, shape, (1,) + shape[1:]))
    first, second = (raw("TensorListFromTensor", tensor=x, element_shape=each) for x in (one, other))
    both = raw("TensorListConcatLists", input_a=first, input_b=second, element_dtype=tf_type(dtype))
    if op == "TensorListPushBackBatch":
        pushed = raw("TensorListPushBackBatch", input_handles=tf.reshape(both, [1]), tensor=row)
        both = tf.reshape(pushed, [])
    script.step(fetch=[raw("TensorListStack", input_handle=both, element_shape=each, element_dtype=tf_type(dtype))])
    return []


@scripts("TensorArrayGradWithShape")
def tensor_array_grad_with_shape(script, op, types):
    draw = script.draw
    shape = draw.shape(max_rank=2, empty=False)
    x = script.feed(draw.values("float", shape))
    handle, flow = raw("TensorArrayV3", size=2, dtype=tf.float32, element_shape=shape)
    flow = raw("TensorArrayWriteV3", handle=handle, index=0, value=x, flow_in=flow)
    lead = draw.integer(1, 3)
    grads, flow = raw(op, handle=handle, flow_in=flow, shape_to_prepend=np.array([lead], np.int32), source="here")
    for _ in range(2):
        flow = raw("TensorArrayWriteV3", handle=grads, index=1, value=script.feed(draw.values("float", (lead, *shape))),
                   flow_in=flow)
    script.step(fetch=[raw("TensorArrayReadV3", handle=grads, index=1, flow_in=flow, dtype=tf.float32)])
    return []


@scripts("DeviceIndex")
def device_index(script, op, types):
    names = script.draw.choice([["CPU", "GPU"], ["GPU", "CPU"], ["TPU"], []])
    script.step(fetch=[raw("DeviceIndex", device_names=names)])
    return []
