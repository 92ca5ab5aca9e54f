"""What programs compare with."""
import contextlib

import numpy as np
import tensorflow.compat.v1 as tf


def equal(got, want, what=""):
    """Same dtype, shape and bits (NaN equals NaN)."""
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        raise AssertionError(f"{what}: got {got.dtype}{got.shape}, want {want.dtype}{want.shape}")
    if got.dtype == object:
        same = got.tolist() == want.tolist()
    else:
        same = got.tobytes() == want.tobytes()
    if not same:
        raise AssertionError(f"{what}: got {got}, want {want}")


def close(got, want, what="", rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=what)


def that(condition, what):
    if not condition:
        raise AssertionError(what)


@contextlib.contextmanager
def raises(kind, op=None, text=""):
    """The block ends in exactly this class of tf.errors, raised for an op of this name (its last part), with this text
    in its message."""
    try:
        yield
    except tf.errors.OpError as e:
        if type(e) is not kind:
            raise AssertionError(f"want {kind.__name__}, got {type(e).__name__}: {e.message}") from e
        if text.lower() not in e.message.lower():
            raise AssertionError(f"{kind.__name__} without {text!r}: {e.message}") from e
        if op is not None and (e.op is None or e.op.name.rsplit("/", 1)[-1] != op):
            named = None if e.op is None else e.op.name
            raise AssertionError(f"{kind.__name__} for op {named}, want {op}: {e.message}") from e
        return
    raise AssertionError(f"want {kind.__name__}, got no error")


def local_run(build):
    """What build(session) gives on a local session, in a graph of its own."""
    with tf.Graph().as_default(), tf.Session() as session:
        return build(session)
