"""Scripts of staging areas and barriers."""
import numpy as np
import tensorflow as tf
from state_scripts import CANCELLED, INVALID, OUT_OF_RANGE, R, open_value, script

EXHAUSTED = 8


def area_ops(dtypes, **attrs):
    inputs = [open_value(dtype) for dtype in dtypes]
    index = open_value(tf.int32)
    put = R.Stage(values=inputs, **attrs)
    attrs["dtypes"] = dtypes
    return dict(put=put, get=list(R.Unstage(**attrs)), peek=list(R.StagePeek(index=index, **attrs)),
                size=R.StageSize(**attrs), clear=R.StageClear(**attrs), inputs=inputs, index=index)


def staging_scripts():
    with script("staging_area") as s:
        a = area_ops([tf.float32, tf.string], shared_name="area", capacity=2)
        row = lambda i: dict(zip(a["inputs"], (np.array([i, -i], np.float32), f"item {i}")))
        s.run(a["put"], row(1))
        s.run(a["size"])
        s.run(a["peek"], {a["index"]: 0})
        s.start("second", a["peek"], {a["index"]: 1})
        s.run(a["put"], row(2))
        s.wait("second")
        s.start("full", a["put"], row(3))
        s.run(a["get"])
        s.wait("full")
        s.run(a["size"])
        s.run(a["clear"])
        s.run(a["size"])
        s.start("empty", a["get"])
        s.run(a["put"], row(4))
        s.wait("empty")
        yield s
    with script("staging_area_bytes") as s:
        a = area_ops([tf.float32], shared_name="bytes", memory_limit=16)
        s.run(a["put"], {a["inputs"][0]: np.zeros(3, np.float32)})
        s.run(a["put"], {a["inputs"][0]: np.zeros(5, np.float32)}, expect=EXHAUSTED, message=False)
        s.start("full", a["put"], {a["inputs"][0]: np.ones(2, np.float32)})
        s.run(a["get"])
        s.wait("full")
        s.run(a["get"])
        s.run(a["size"])
        yield s


def barrier_ops(name, **attrs):
    handle = R.Barrier(component_types=[tf.float32, tf.string], shapes=[[2], []], shared_name=name, **attrs)
    keys, n = open_value(tf.string), open_value(tf.int32)
    pairs, words = open_value(tf.float32), open_value(tf.string)
    take = lambda **kw: list(sum(([x] if isinstance(x, tf.Tensor) else list(x) for x in R.BarrierTakeMany(
        handle=handle, num_elements=n, component_types=[tf.float32, tf.string], **kw)), []))
    return dict(keys=keys, n=n, pairs=pairs, words=words, take=take(), fewer=take(allow_small_batch=True),
                put_pairs=R.BarrierInsertMany(handle=handle, keys=keys, values=pairs, component_index=0),
                put_words=R.BarrierInsertMany(handle=handle, keys=keys, values=words, component_index=1),
                put_wrong=R.BarrierInsertMany(handle=handle, keys=keys, values=words, component_index=0),
                put_outside=R.BarrierInsertMany(handle=handle, keys=keys, values=words, component_index=2),
                sizes=[R.BarrierReadySize(handle=handle), R.BarrierIncompleteSize(handle=handle)],
                close=R.BarrierClose(handle=handle), drop=R.BarrierClose(handle=handle, cancel_pending_enqueues=True))


def barrier_scripts():
    numbers = lambda *ks: np.array([[k, 10 * k] for k in ks], np.float32)
    with script("barrier") as s:
        b = barrier_ops("whole")
        pairs = lambda keys, *ks, **kw: s.run(b["put_pairs"], {b["keys"]: np.array(keys, object),
                                                               b["pairs"]: numbers(*ks)}, message=False, **kw)
        words = lambda keys, **kw: s.run(b["put_words"], {b["keys"]: np.array(keys, object),
                                                          b["words"]: np.array([k * 2 for k in keys], object)},
                                         message=False, **kw)
        pairs(["a", "b", "c"], 1, 2, 3)
        s.run(b["sizes"])
        words(["c", "b"])
        s.run(b["sizes"])
        pairs(["a"], 9, expect=INVALID)
        s.run(b["put_wrong"], {b["keys"]: np.array(["e"], object), b["words"]: np.array(["e"], object)},
              expect=INVALID, message=False)
        s.run(b["put_outside"], {b["keys"]: np.array(["e"], object), b["words"]: np.array(["e"], object)},
              expect=INVALID, message=False)
        s.run(b["take"], {b["n"]: 1})
        s.start("two", b["take"], {b["n"]: 2})
        words(["a"])
        s.wait("two")
        pairs(["f", "g"], 4, 5)
        s.run(b["close"])
        s.run(b["close"], expect=CANCELLED, message=False)
        pairs(["h"], 6, expect=CANCELLED)
        words(["f"])
        words(["g"])
        s.run(b["fewer"], {b["n"]: 5})
        s.run(b["fewer"], {b["n"]: 5}, expect=OUT_OF_RANGE, message=False)
        s.run(b["take"], {b["n"]: 1}, expect=OUT_OF_RANGE, message=False)
        yield s
    with script("barrier_dropped") as s:
        b = barrier_ops("dropped")
        s.run(b["put_pairs"], {b["keys"]: np.array(["a"], object), b["pairs"]: numbers(1)})
        s.start("waiter", b["take"], {b["n"]: 1})
        s.run(b["drop"])
        s.wait("waiter", expect=OUT_OF_RANGE, message=False)
        s.run(b["put_words"], {b["keys"]: np.array(["a"], object), b["words"]: np.array(["aa"], object)},
              expect=CANCELLED, message=False)
        s.run(b["sizes"])
        yield s


def scripts():
    yield from staging_scripts()
    yield from barrier_scripts()
