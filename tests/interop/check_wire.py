"""Compares the messages of the cluster with TensorFlow's own: check_wire.py WIRE_TOOL PROTO_FOLDER

1. Every message and enum under PROTO_FOLDER that TensorFlow has too: same numbers, types and labels.
2. Messages with every field set, written by TensorFlow's classes, fields in any order and unknown ones among them, are
   read and written again by Tutti; TensorFlow reads them back: what Tutti acts on is unchanged.
3. Lists and optionals, which have a form of their own: what TensorFlow sends becomes the same objects again.
"""
import difflib
import mmap
import os
import random
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from checks import check, report  # noqa: E402
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: E402
from tensorboard.plugins.hparams import plugin_data_pb2  # noqa: E402, F401
from tensorflow.core.framework import (device_attributes_pb2, graph_pb2, step_stats_pb2,  # noqa: E402, F401
                                       tensor_pb2)
from tensorflow.core.protobuf import (config_pb2, named_tensor_pb2, tensor_bundle_pb2,  # noqa: E402, F401
                                      tensorflow_server_pb2)
from tensorflow.core.util import event_pb2  # noqa: E402, F401

TOOL, PROTO_FOLDER = sys.argv[1:]
ROUNDS = 20
POOL = descriptor_pool.Default()


# --- The two files that the wheel has in its library only ---

def varint(raw, at):
    value = shift = 0
    while True:
        value |= (raw[at] & 127) << shift
        shift += 7
        at += 1
        if raw[at - 1] < 128:
            return value, at


def top_fields(raw):
    """(number, bytes of the field with its tag) of a message, for wire types 0, 1, 2 and 5."""
    at = 0
    while at < len(raw):
        start = at
        tag, at = varint(raw, at)
        if tag & 7 == 0:
            _, at = varint(raw, at)
        elif tag & 7 == 2:
            size, at = varint(raw, at)
            at += size
        else:
            at += {1: 8, 5: 4}[tag & 7]
        yield tag >> 3, raw[start:at]


def embedded_file(library, name):
    """The FileDescriptorProto that lies in a library; its last field is the syntax (12)."""
    start = library.find(b"\x0a" + bytes([len(name)]) + name.encode())
    size = 0
    for number, field in top_fields(library[start:start + 200000]):
        size += len(field)
        if number == 12:
            break
    return descriptor_pb2.FileDescriptorProto.FromString(library[start:start + size])


def load_services():
    path = os.path.join(os.path.dirname(tf.__file__), "libtensorflow_cc.so.2")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library:
        for name in ("master", "worker"):
            POOL.Add(embedded_file(library, f"tensorflow/core/protobuf/{name}.proto"))


# --- 1. Declarations ---

def tutti_files():
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "set")
        root = os.path.dirname(os.path.abspath(PROTO_FOLDER))
        names = sorted(f"proto/{name}" for name in os.listdir(PROTO_FOLDER) if name.endswith(".proto"))
        subprocess.run(["protoc", f"-I{root}", f"--descriptor_set_out={out}", *names], check=True, timeout=60)
        with open(out, "rb") as file:
            return descriptor_pb2.FileDescriptorSet.FromString(file.read()).file


# From here on fields are Tutti's own, which TensorFlow skips as unknown: they must not collide with any of its own.
OWN_FIELDS = 1000


def check_field(where, ours, theirs):
    if ours.number >= OWN_FIELDS:
        check(theirs is None, f"{where}: TensorFlow has a field {ours.number} too")
        return
    if theirs is None:
        check(False, f"{where}: TensorFlow has no field {ours.number}")
        return
    delimited = (ours.TYPE_STRING, ours.TYPE_BYTES, ours.TYPE_MESSAGE)
    same = ours.type == theirs.type or (ours.type == ours.TYPE_BYTES and theirs.type in delimited)
    check(same and ours.label == theirs.label and ours.name == theirs.name,
          f"{where}: {ours.name} = {ours.number}, in TensorFlow {theirs.name}")
    if ours.type == ours.TYPE_MESSAGE and theirs.message_type is not None:
        check(ours.type_name == "." + theirs.message_type.full_name, f"{where}: {ours.name} is {ours.type_name}")


def check_message(name, ours):
    try:
        theirs = POOL.FindMessageTypeByName(name)
    except KeyError:
        print(f"not in this TensorFlow: {name}")
        return
    for field in ours.field:
        check_field(name, field, theirs.fields_by_number.get(field.number))
    for inner in ours.nested_type:
        check_message(f"{name}.{inner.name}", inner)
    for enum in ours.enum_type:
        check_enum(f"{name}.{enum.name}", enum)


def check_enum(name, ours):
    try:
        theirs = POOL.FindEnumTypeByName(name)
    except KeyError:
        print(f"not in this TensorFlow: {name}")
        return
    for value in ours.value:
        other = theirs.values_by_name.get(value.name)
        # Types of later versions are known here already.
        check(other is None or other.number == value.number, f"{name}.{value.name} = {value.number}")


def check_declarations():
    for file in tutti_files():
        for message in file.message_type:
            check_message(f"{file.package}.{message.name}", message)
        for enum in file.enum_type:
            check_enum(f"{file.package}.{enum.name}", enum)


# --- 2. Messages ---

# What Tutti acts on of messages that it does not carry whole.
CARRIED = {
    "ConfigProto": ["device_filters", "allow_soft_placement", "log_device_placement", "use_per_session_threads",
                    "graph_options", "operation_timeout_in_ms", "cluster_def", "isolate_session_state"],
    "GraphOptions": ["optimizer_options"],
    "OptimizerOptions": ["opt_level"],
    "RunOptions": ["trace_level", "timeout_in_ms", "output_partition_graphs"],
    "RunMetadata": ["step_stats", "partition_graphs"],
    "CallableOptions": ["feed", "fetch", "target", "run_options"],
    "DeviceAttributes": ["name", "device_type", "memory_limit", "incarnation", "physical_device_desc"],
    "ServerDef": ["cluster", "job_name", "task_index"],
    "RegisterGraphRequest": ["session_handle", "graph_def", "graph_options", "create_worker_session_called",
                             "config_proto"],
    "RunGraphResponse": ["recv", "step_stats", "partition_graph", "status_code", "status_error_message"],
    "ExecutorOpts": ["record_timeline", "record_partition_graphs"],
    "RecvTensorRequest": ["step_id", "rendezvous_key", "request_id"],
    "RecvTensorResponse": ["tensor", "is_dead", "send_start_micros"],
    "CreateWorkerSessionRequest": ["session_handle", "server_def", "isolate_session_state",
                                   "cluster_device_attributes", "master_task", "master_incarnation"],
    "NodeExecStats": ["node_name", "all_start_micros", "op_end_rel_micros", "all_end_rel_micros", "timeline_label",
                      "scheduled_micros", "thread_id", "all_start_nanos", "op_end_rel_nanos", "all_end_rel_nanos",
                      "scheduled_nanos"],
    "DeviceStepStats": ["device", "node_stats"],
}
# Of the same messages where they lie inside one that knows less of them.
CARRIED_INSIDE = {("RegisterGraphRequest", "ConfigProto"): ["graph_options"]}
# Refused, or of no use when filled at random.
LEFT_OUT = {"tensor_connection", "custom_optimizers"}
DTYPES = [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16,
          tf.uint32, tf.uint64, tf.bool, tf.complex64, tf.complex128, tf.string]
WORDS = ["", "a", "x:0", "été", "/job:ps/replica:0/task:1", "long " * 100]
MAX_DEPTH = 8


def draw_tensor(rng, tensor):
    dtype = rng.choice(DTYPES)
    shape = rng.choice([(), (0,), (3,), (2, 0, 4), (2, 3, 4), (1000,)])
    if dtype == tf.string:
        values = np.array([rng.choice([b"", b"a\0b", "é".encode(), b"x" * 300])] * int(np.prod(shape)),
                          dtype=object).reshape(shape)
    else:
        values = np.array(rng.randrange(100)).astype(dtype.as_numpy_dtype) * np.ones(shape, dtype.as_numpy_dtype)
    tensor.CopyFrom(tf.make_tensor_proto(values, dtype=dtype, shape=shape))
    if int(np.prod(shape)) > 1 and rng.random() < 0.3:
        tensor.CopyFrom(tf.make_tensor_proto(values.flat[0], dtype=dtype, shape=shape))  # one value, repeated


def draw_node_stats(rng, stats):
    start, duration = rng.randrange(1, 10**15), rng.randrange(1, 10**6)
    stats.node_name = f"n{rng.randrange(100)}"
    stats.timeline_label = f"{stats.node_name} = MatMul()"
    stats.thread_id = rng.randrange(1, 2**32)
    stats.all_start_micros = stats.scheduled_micros = start
    stats.op_end_rel_micros = stats.all_end_rel_micros = duration
    stats.all_start_nanos = stats.scheduled_nanos = start * 1000 + 5
    stats.op_end_rel_nanos = stats.all_end_rel_nanos = duration * 1000 + 7


def draw_scalar(rng, field):
    if field.name == "trace_level":
        return 3
    if field.name == "status_code":
        return rng.randrange(1, 17)
    if field.type == field.TYPE_ENUM:
        return rng.choice([value.number for value in field.enum_type.values if value.number != 0])
    if field.type == field.TYPE_BOOL:
        return True
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return rng.random()
    if field.type == field.TYPE_STRING:
        return rng.choice(WORDS[1:] if field.label != field.LABEL_REPEATED else WORDS)
    if field.type == field.TYPE_BYTES:
        return rng.randbytes(5)
    bits = 31 if field.type in (field.TYPE_INT32, field.TYPE_UINT32) else 63
    signed = field.type == field.TYPE_INT64 and not field.name.endswith("_in_ms")
    return rng.choice([1, 300, 2**bits - 1] + ([-1, -2**63] if signed else []))


def draw(rng, message, depth=0):
    """Every field set."""
    name = message.DESCRIPTOR.name
    if name == "TensorProto":
        return draw_tensor(rng, message)
    if name == "NodeExecStats":
        return draw_node_stats(rng, message)
    if depth > MAX_DEPTH:
        return None
    for field in message.DESCRIPTOR.fields:
        if field.name not in LEFT_OUT:
            draw_field(rng, message, field, depth)
    return None


def draw_field(rng, message, field, depth):
    entry = field.message_type if field.message_type and field.message_type.GetOptions().map_entry else None
    if entry:
        key, value = (entry.fields_by_name[part] for part in ("key", "value"))
        for _ in range(2):
            at = draw_scalar(rng, key)
            if value.message_type:
                draw(rng, getattr(message, field.name)[at], depth + 1)
            else:
                getattr(message, field.name)[at] = draw_scalar(rng, value)
    elif field.label == field.LABEL_REPEATED:
        for i in range(rng.randrange(1, 3)):
            if field.message_type:
                item = getattr(message, field.name).add()
                draw(rng, item, depth + 1)
                if item.DESCRIPTOR.name in ("DeviceStepStats", "JobDef"):  # Tutti groups by these, jobs sorted
                    setattr(item, item.DESCRIPTOR.fields[0].name, f"name{i}")
            else:
                getattr(message, field.name).append(draw_scalar(rng, field))
    elif field.message_type:
        draw(rng, getattr(message, field.name), depth + 1)
    else:
        setattr(message, field.name, draw_scalar(rng, field))


def project(message, outer=""):
    """Leaves what is carried, tensors in one form."""
    name = message.DESCRIPTOR.name
    if name == "TensorProto":
        # Typed and packed values, brought to one form.
        values = tf.make_ndarray(message)
        message.CopyFrom(tf.make_tensor_proto(values, dtype=message.dtype, shape=values.shape))
        return
    if name == "GraphDef":
        return
    kept = CARRIED_INSIDE.get((outer, name), CARRIED.get(name))
    for field, value in message.ListFields():
        if kept is not None and field.name not in kept:
            message.ClearField(field.name)
        elif field.message_type and not field.message_type.GetOptions().map_entry:
            for item in value if field.label == field.LABEL_REPEATED else [value]:
                project(item, name if outer != "RegisterGraphRequest" else outer)


def shuffled(rng, raw):
    """The same fields, those of one number in their order, with one that nobody knows among them."""
    groups = {}
    for number, field in top_fields(raw):
        groups.setdefault(number, []).append(field)
    groups[10000] = [b"\x82\xf1\x04\x03new"]
    order = sorted(groups)
    rng.shuffle(order)
    return b"".join(b"".join(groups[number]) for number in order)


class Tool:
    def __init__(self):
        self.process = subprocess.Popen([TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def rewrite(self, name, raw):
        """The bytes, or None and the error."""
        self.process.stdin.write(f"{name} {len(raw)}\n".encode() + raw)
        self.process.stdin.flush()
        verdict, _, rest = self.process.stdout.readline().decode().strip().partition(" ")
        return (self.process.stdout.read(int(rest)), "") if verdict == "ok" else (None, rest)

    def close(self):
        self.process.stdin.close()
        check(self.process.wait(timeout=10) == 0, "the tool's exit")


def check_round(tool, rng, descriptor):
    message = message_factory.GetMessageClass(descriptor)()
    draw(rng, message)
    raw, error = tool.rewrite(descriptor.name, shuffled(rng, message.SerializeToString()))
    if raw is None:
        check(False, f"{descriptor.name}: {error}")
        return
    back = type(message).FromString(raw)
    project(message)
    project(back)
    check(message == back, f"{descriptor.name}: sent and got back:\n" + "\n".join(
        difflib.unified_diff(str(message).splitlines(), str(back).splitlines(), lineterm="", n=8)))


def check_messages():
    rng = random.Random(1)
    tool = Tool()
    for file in ("master", "worker"):
        for descriptor in POOL.FindFileByName(f"tensorflow/core/protobuf/{file}.proto").message_types_by_name.values():
            if tool.rewrite(descriptor.name, b"")[1].startswith("NotFound"):
                continue
            for _ in range(ROUNDS):
                check_round(tool, rng, descriptor)
    tool.close()


def check_variants():
    raw = tf.raw_ops
    rows = raw.TensorListFromTensor(tensor=tf.random.normal([3, 40]), element_shape=[40])
    some = raw.TensorListSetItem(index=1, item=rows, input_handle=raw.TensorListReserve(
        element_shape=-1, num_elements=3, element_dtype=tf.variant))
    values = raw.OptionalFromValue(components=[tf.constant(-7, tf.int64), tf.constant(["a", ""]), some])
    response = message_factory.GetMessageClass(POOL.FindMessageTypeByName("tensorflow.RecvTensorResponse"))
    tool = Tool()
    for variant in (rows, some, values, raw.OptionalNone(), tf.stack([rows, values])):
        sent = tf.io.serialize_tensor(variant).numpy()
        message = response(tensor=tensor_pb2.TensorProto.FromString(sent))
        back, error = tool.rewrite("RecvTensorResponse", message.SerializeToString())
        if back is None:
            check(False, f"a variant: {error}")
            continue
        tensor = response.FromString(back).tensor.SerializeToString()
        check(tf.io.serialize_tensor(raw.ParseTensor(serialized=tensor, out_type=tf.variant)) == sent,
              "a variant comes back as another")
    unknown = response(tensor=tensor_pb2.TensorProto(dtype=tf.variant.as_datatype_enum, variant_val=[
        tensor_pb2.VariantTensorDataProto(type_name="tensorflow::Nobody")]))
    error = tool.rewrite("RecvTensorResponse", unknown.SerializeToString())[1]
    check("Unimplemented" in error and "tensorflow::Nobody" in error, f"an unknown variant: {error}")
    tool.close()


load_services()
check_declarations()
check_messages()
check_variants()
sys.exit(report("wire"))
