"""Recipes of files, of readers of the queue era, and of collectives in a group of one."""
import os

import numpy as np
import tensorflow as tf

from drawing import tf_type
from recipes import scripts
from script import raw

MEMBER = ("CollectiveReduce", "CollectiveGather", "CollectiveBcastSend")
MEMBER_V2 = ("CollectiveReduceV2", "CollectiveGatherV2", "CollectiveBcastSendV2")


@scripts(*MEMBER, *MEMBER_V2)
def collective(script, op, types):
    draw = script.draw
    # Keys are remembered by TensorFlow's process, over graphs.
    keys = {"group_size": 1, "group_key": draw.integer(1, 2 ** 30), "instance_key": draw.integer(1, 2 ** 30)}
    value = draw.values(types["T"], draw.shape(1, 3, empty=False))
    attrs = {}
    if "Reduce" in op:
        attrs = {"merge_op": draw.choice(["Min", "Max", "Mul", "Add"]), "final_op": draw.choice(["Id", "Div"])}
    if op in MEMBER:
        attrs.update(keys)
        attrs.update({"subdiv_offsets": [0]} if op == "CollectiveReduce" else {"shape": value.shape})
        inputs = {}
    else:
        inputs = {k: script.feed(np.array(v, np.int32)) for k, v in keys.items()}
        if op != "CollectiveBcastSendV2":
            inputs["ordering_token"] = []
    outputs = raw(op, name="op", input=script.feed(value, dtype=tf_type(types["T"])), **inputs, **attrs)
    script.step(fetch=[outputs])


# --- Files: every case writes what it reads. ---

FOLDER = os.path.join(os.path.abspath(__file__).split(os.sep + "tests" + os.sep)[0], "build", "interop", "files")


def _write(script, name, content):
    """A path, and a step that writes the file there."""
    path = os.path.join(FOLDER, name).encode()
    script.step(run=[raw("WriteFile", filename=path, contents=script.feed(np.array(content, object)))])
    return path


def _fresh_name(draw):
    return "%08x" % draw.integer(0, 2 ** 31)


def write_file(script, content):
    return _write(script, _fresh_name(script.draw), content)


@scripts("ReadFile", "WriteFile")
def read_file(script, op, types):
    draw = script.draw
    name = _fresh_name(draw)
    path = _write(script, name + "/file", b"".join(draw.values("string", (draw.integer(0, 5),))))
    if draw.chance(0.3):
        _write(script, name + "/file", b"other bytes")
    script.step(fetch=[raw("ReadFile", filename=path + (b".none" if script.spoiled else b""))])


@scripts("MatchingFiles")
def matching_files(script, op, types):
    draw = script.draw
    folder = _fresh_name(draw)
    for name in ("a1.txt", "a2.txt", "b1.txt", "b.bin", "[c].txt"):
        if draw.chance(0.8):
            _write(script, f"{folder}/{name}", b"")
    patterns = ["*", "*.txt", "a?.txt", "[ab]1.txt", "[^a]*", "a1.txt", "none", "[[]c[]].txt"]
    shape = draw.choice([(), (1,), (3,)])
    drawn = [os.path.join(FOLDER, folder, draw.choice(patterns)).encode() for _ in range(int(np.prod(shape)))]
    script.step(fetch=[raw(op, pattern=script.feed(np.array(drawn, object).reshape(shape)))])


def _line_file(draw):
    lines = [draw.choice([b"", b"a", b"some words", b"1,2"]) for _ in range(draw.integer(0, 5))]
    return draw.choice([b"\n", b"\r\n"]).join(lines) + (b"\n" if draw.chance(0.5) else b"")


def _record_file(draw, compression):
    path = os.path.join(FOLDER, _fresh_name(draw))
    os.makedirs(FOLDER, exist_ok=True)
    with tf.io.TFRecordWriter(path, compression) as out:
        for _ in range(draw.integer(0, 4)):
            out.write(bytes(draw.choice([b"", b"record", b"x" * 300])))
    with open(path, "rb") as file:
        content = file.read()
    os.remove(path)
    return content


def _reader(script, op):
    """The node of a reader, and units of work for it."""
    draw = script.draw
    count = draw.integer(1, 4)
    attrs = {}
    if op == "IdentityReaderV2":
        return raw(op, name="reader"), [b"work %d" % i for i in range(count)]
    if op == "TextLineReaderV2":
        attrs["skip_header_lines"] = draw.integer(0, 2)
        make = _line_file
    elif op == "FixedLengthRecordReaderV2":
        attrs = {"header_bytes": draw.integer(0, 2), "record_bytes": draw.integer(1, 4),
                 "footer_bytes": draw.integer(0, 2), "hop_bytes": draw.integer(0, 3)}

        def make(draw):
            return bytes(draw.rng.integers(0, 256, draw.integer(0, 24)).astype(np.uint8))
    elif op == "TFRecordReaderV2":
        attrs["compression_type"] = draw.choice(["", "ZLIB", "GZIP"])

        def make(draw):
            return _record_file(draw, attrs["compression_type"])
    else:
        def make(draw):
            return bytes(draw.choice([b"", b"whole", b"two\nlines"]))
    name = _fresh_name(draw)
    works = [_write(script, f"{name}/{i}", make(draw)) for i in range(count)]
    if script.spoiled and draw.chance(0.5):
        works[0] += b".none"
    return raw(op, name="reader", **attrs), works


READER_OPS = ["ReaderRead", "ReaderReadUpTo", "ReaderNumRecordsProduced", "ReaderNumWorkUnitsCompleted",
              "ReaderSerializeState", "ReaderRestoreState", "ReaderReset"]


READERS = ["IdentityReader", "WholeFileReader", "TextLineReader", "FixedLengthRecordReader", "TFRecordReader"]


@scripts(*[op + "V2" for op in READERS + READER_OPS])
def reader(script, op, types):
    draw = script.draw
    reader_kind = op[:-2] if op[:-2] in READERS else draw.choice(READERS)
    handle, works = _reader(script, reader_kind + "V2")
    queue = raw("FIFOQueueV2", name="queue", component_types=[tf.string], shapes=[[]])
    fill = raw("QueueEnqueueManyV2", handle=queue, components=[script.feed(np.array(works, object))])
    close = raw("QueueCloseV2", handle=queue)
    read = raw("ReaderReadV2", name="read", reader_handle=handle, queue_handle=queue)
    up_to = raw("ReaderReadUpToV2", name="up_to", reader_handle=handle, queue_handle=queue,
                num_records=script.feed(np.array(draw.integer(1, 3), np.int64)))
    counts = [raw("ReaderNumRecordsProducedV2", reader_handle=handle),
              raw("ReaderNumWorkUnitsCompletedV2", reader_handle=handle)]
    state = raw("ReaderSerializeStateV2", reader_handle=handle)
    # Two units of work started and finished, five records.
    saved = np.array(b"\xff\xff" if script.spoiled else b"\x08\x02\x10\x02\x18\x05", object)
    restore = raw("ReaderRestoreStateV2", reader_handle=handle, state=script.feed(saved))
    script.step(run=[fill])
    script.step(run=[close])
    for _ in range(draw.integer(1, 8)):
        kind = draw.integer(0, 5)
        if kind == 0:
            script.step(fetch=list(read))
        elif kind == 1:
            script.step(fetch=list(up_to))
        elif kind == 2:
            script.step(fetch=counts)
        elif kind == 3 and reader_kind == "IdentityReader":  # others keep a state of their own form, or none
            script.step(fetch=[state])
        elif kind == 4:
            script.step(run=[raw("ReaderResetV2", reader_handle=handle)])
        elif reader_kind == "IdentityReader":
            script.step(run=[restore])
    script.step(fetch=counts)
