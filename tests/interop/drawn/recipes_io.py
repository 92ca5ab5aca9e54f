"""Recipes of readers of the queue era and of collectives in a group of one."""
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


READER_OPS = ["ReaderRead", "ReaderReadUpTo", "ReaderNumRecordsProduced", "ReaderNumWorkUnitsCompleted",
              "ReaderSerializeState", "ReaderRestoreState", "ReaderReset"]


@scripts("IdentityReaderV2", *[op + "V2" for op in READER_OPS])
def reader(script, op, types):
    draw = script.draw
    handle = raw("IdentityReaderV2", name="reader")
    queue = raw("FIFOQueueV2", name="queue", component_types=[tf.string], shapes=[[]])
    works = np.array([b"work %d" % i for i in range(draw.integer(1, 4))], object)
    fill = raw("QueueEnqueueManyV2", handle=queue, components=[script.feed(works)])
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
    for _ in range(draw.integer(1, 5)):
        kind = draw.integer(0, 5)
        if kind == 0:
            script.step(fetch=list(read))
        elif kind == 1:
            script.step(fetch=list(up_to))
        elif kind == 2:
            script.step(fetch=counts)
        elif kind == 3:
            script.step(fetch=[state])
        elif kind == 4:
            script.step(run=[raw("ReaderResetV2", reader_handle=handle)])
        else:
            script.step(run=[restore])
    script.step(fetch=counts)
