"""Recipes of ops with state: variables, queues, accumulators, tables, lists, stacks."""
import numpy as np
import tensorflow as tf

from drawing import NUMPY, tf_type
from recipes import scripts
from recipes_array import shape_into, slice_within
from recipes_io import write_file
from recipes_update import Variables
from script import Skip, raw

# --- Variables. ---


@scripts("VariableV2", "Variable", "IsVariableInitialized")
def ref_variable(script, op, types):
    draw = script.draw
    value = draw.values(types["dtype"], draw.shape())  # without elements it is initialised from the start
    kind = op if op != "IsVariableInitialized" else "VariableV2"
    shape = value.shape if kind == "VariableV2" or value.ndim else ()
    variable = raw(kind, name="var", dtype=tf_type(types["dtype"]), shape=shape)
    assign = raw("Assign", ref=variable, value=script.feed(value), validate_shape=kind == "VariableV2").op
    initialised = raw("IsVariableInitialized", ref=variable)
    script.step(fetch=[initialised])
    if script.spoiled:
        script.step(fetch=[raw("Identity", input=variable)])  # has no value yet
    script.step(run=[assign])
    script.step(fetch=[raw("Identity", input=variable), initialised])


@scripts("VarHandleOp", "ReadVariableOp", "VarIsInitializedOp", "VariableShape", "DestroyResourceOp")
def resource_variable(script, op, types):
    draw = script.draw
    dtype = types.get("dtype", "float")
    value = draw.values(dtype, draw.shape())
    variables = Variables(script, resources=True)
    handle = variables.add(value, "var")
    initialised = raw("VarIsInitializedOp", resource=handle)
    script.step(fetch=[initialised])
    if script.spoiled:
        script.step(fetch=variables.reads())  # has no value yet
    variables.initialise()
    script.step(fetch=[initialised, raw("VariableShape", input=handle, out_type=tf_type(types.get("out_type", "int32"))),
                       *variables.reads()])
    if op == "DestroyResourceOp":
        destroy = raw("DestroyResourceOp", resource=handle, ignore_lookup_error=draw.chance(0.5))
        script.step(run=[destroy])
        script.step(fetch=[initialised])
        script.step(run=[destroy])


@scripts("ResourceGather")
def resource_gather(script, op, types):
    draw = script.draw
    variables = Variables(script, resources=True)
    table = draw.values(types["dtype"], draw.shape(min_rank=1, empty=False))
    handle = variables.add(table, "var")
    batch = draw.integer(0, table.ndim - 1) if draw.chance(0.3) else 0
    indices = draw.integers(0, table.shape[batch] - 1, table.shape[:batch] + draw.shape(max_rank=2), types["Tindices"])
    if script.spoiled and indices.size and not batch:  # inside a batch TensorFlow does not look
        indices.reshape(-1)[0] = table.shape[0]
    rows = raw("ResourceGather", name="op", resource=handle, indices=script.feed(indices, fixed=True),
               dtype=tf_type(types["dtype"]), batch_dims=batch)
    variables.initialise()
    script.step(fetch=[rows])


@scripts("CountUpTo", "ResourceCountUpTo")
def count_up_to(script, op, types):
    resources = op == "ResourceCountUpTo"
    variables = Variables(script, resources=resources)
    handle = variables.add(np.array(script.draw.integer(0, 3), NUMPY[types["T"]]), "var")
    if resources:
        count = raw("ResourceCountUpTo", name="op", resource=handle, limit=5, T=tf_type(types["T"]))
    else:
        count = raw("CountUpTo", name="op", ref=handle, limit=5)
    variables.initialise()
    for _ in range(script.draw.integer(1, 6)):
        script.step(fetch=[count])


@scripts("TemporaryVariable", "DestroyTemporaryVariable")
def temporary_variable(script, op, types):
    draw = script.draw
    dtype = types.get("dtype", types.get("T"))
    value = draw.values(dtype, draw.shape())
    variable = raw("TemporaryVariable", shape=value.shape, dtype=tf_type(dtype), var_name="temporary")
    assigned = raw("Assign", ref=variable, value=script.feed(value))
    script.step(fetch=[raw("DestroyTemporaryVariable", ref=assigned, var_name="temporary")])


@scripts("ScatterNdUpdate", "ScatterNdAdd", "ScatterNdSub", "ResourceScatterNdUpdate", "ResourceScatterNdAdd",
         "ResourceScatterNdSub", "ResourceScatterNdMin", "ResourceScatterNdMax", "ScatterNdMin", "ScatterNdMax")
def scatter_nd_variable(script, op, types):
    draw = script.draw
    variables = Variables(script, resources=op.startswith("Resource"))
    shape = draw.shape(min_rank=1, max_rank=3, empty=False)
    handle = variables.add(draw.values(types["T"], shape), "var")
    rows = draw.rng.permutation(shape[0])[:draw.integer(0, shape[0])]
    indices = rows.reshape((-1, 1)).astype(NUMPY[types["Tindices"]])
    updates = draw.values(types["T"], (len(rows),) + shape[1:])
    if script.spoiled and indices.size:
        indices[0, 0] = shape[0]
    node = raw(op, name="op", ref=handle, indices=script.feed(indices, fixed=True), updates=script.feed(updates))
    variables.initialise()
    script.step(run=[node if isinstance(node, tf.Operation) else node.op])
    script.step(fetch=variables.reads())


@scripts("StridedSliceAssign", "ResourceStridedSliceAssign")
def strided_slice_assign(script, op, types):
    draw = script.draw
    variables = Variables(script, resources=op.startswith("Resource"))
    shape = draw.shape(empty=False)
    handle = variables.add(draw.values(types["T"], shape), "var")
    where, masks, inner = slice_within(draw, shape, types["Index"])
    inner = shape_into(draw, inner)
    value = script.feed(draw.values(types["T"], inner + (2,) if script.spoiled else inner))
    where = {name: script.feed(edge, fixed=True) for name, edge in where.items()}
    node = raw(op, name="op", ref=handle, **where, value=value, **masks)
    variables.initialise()
    script.step(run=[node if isinstance(node, tf.Operation) else node.op])
    script.step(fetch=variables.reads())


# --- Queues: operations that never have to wait, on a queue whose size is followed here. ---

QUEUES = ("FIFOQueue", "FIFOQueueV2", "PaddingFIFOQueue", "PaddingFIFOQueueV2", "PriorityQueue", "PriorityQueueV2",
          "RandomShuffleQueue", "RandomShuffleQueueV2")
QUEUE_OPERATIONS = ("QueueEnqueue", "QueueEnqueueMany", "QueueDequeue", "QueueDequeueMany", "QueueDequeueUpTo",
                    "QueueSize", "QueueIsClosed", "QueueClose")


class _Queue:
    def __init__(self, script, kind):
        self.script, self.draw = script, script.draw
        self.version = "V2" if kind.endswith("V2") else ""
        self.kind = kind[:len(kind) - len(self.version)]
        self.types = [self.draw.choice(["float", "int32", "string", "double"]) for _ in range(self.draw.integer(1, 3))]
        self.shapes = [self.draw.shape(max_rank=2) for _ in self.types]
        self.capacity = self.draw.integer(3, 8)
        self.size, self.closed = 0, False
        self.handle = raw(kind, name="queue", **self._attrs())
        if self.kind == "PriorityQueue":
            self.types.insert(0, "int64")
            self.shapes.insert(0, ())

    def _attrs(self):
        attrs = {"component_types": [tf_type(t) for t in self.types], "shapes": list(self.shapes),
                 "capacity": self.capacity}
        if self.kind == "RandomShuffleQueue":
            attrs.update(min_after_dequeue=0, seed=self.draw.integer(1, 99), seed2=self.draw.integer(1, 99))
        return attrs

    def _values(self, count=None):
        outer = () if count is None else (count,)
        shapes = [outer + tuple(s) for s in self.shapes]
        if self.script.spoiled and self.draw.chance(0.3):
            shapes[-1] = shapes[-1] + (2,)
        values = [self.draw.values(t, s) for t, s in zip(self.types, shapes)]
        if self.kind == "PriorityQueue":  # equal priorities come out in no particular order
            values[0] = self.draw.rng.permutation(10 ** 6)[:count or 1].reshape(outer).astype(np.int64)
        return [self.script.feed(v) for v in values]

    def _op(self, name, **arguments):
        return raw(name + self.version, handle=self.handle, **arguments)

    def enqueue(self):
        if self.size < self.capacity or self.closed:
            self.script.step(run=[self._op("QueueEnqueue", components=self._values())])
            self.size += 1

    def enqueue_many(self):
        count = self.draw.integer(0, max(self.capacity - self.size, 0))
        self.script.step(run=[self._op("QueueEnqueueMany", components=self._values(count))])
        self.size += count

    def dequeue(self):
        if self.size or self.closed:
            self._take("QueueDequeue", 1)

    def dequeue_many(self, op="QueueDequeueMany"):
        # TensorFlow's priority queue loses what a dequeue had taken that then fails.
        more = 2 if self.closed and self.kind != "PriorityQueue" else 0
        count = self.draw.integer(0, self.size + more)
        self._take(op, count, n=tf.constant(count))

    def dequeue_up_to(self):
        self.dequeue_many("QueueDequeueUpTo")

    def _take(self, op, count, **arguments):
        values = self._op(op, component_types=[tf_type(t) for t in self.types], **arguments)
        self.script.step(fetch=values if isinstance(values, list) else [values])
        self.size -= count

    def close(self):
        self.script.step(run=[self._op("QueueClose", cancel_pending_enqueues=self.draw.chance(0.5))])
        self.closed = True

    def look(self):
        looks = [self._op("QueueSize")]
        if op_exists("QueueIsClosed" + self.version):
            looks.append(self._op("QueueIsClosed"))
        self.script.step(fetch=looks)


def op_exists(op):
    return op in KNOWN_OPS if KNOWN_OPS else True


KNOWN_OPS = set()  # the rows of the table; filled before anything is drawn


@scripts(*QUEUES, *QUEUE_OPERATIONS, *(op + "V2" for op in QUEUE_OPERATIONS))
def queue(script, op, types):
    draw = script.draw
    version = "V2" if op.endswith("V2") else ""
    kind = op
    if op not in QUEUES:
        kinds = [k for k in QUEUES if k.endswith("V2") == bool(version) and op_exists(k)]
        kind = draw.choice(kinds)
    it = _Queue(script, kind)
    actions = {"QueueEnqueue": it.enqueue, "QueueEnqueueMany": it.enqueue_many, "QueueDequeue": it.dequeue,
               "QueueDequeueMany": it.dequeue_many, "QueueDequeueUpTo": it.dequeue_up_to, "QueueSize": it.look,
               "QueueIsClosed": it.look, "QueueClose": it.close}
    possible = [a for a in actions if op_exists(a + version) and a != "QueueClose"]
    it.enqueue()
    for _ in range(draw.integer(3, 8)):
        actions[draw.choice(possible)]()
    wanted = op[:len(op) - len(version)] if version else op
    if wanted in actions:
        actions[wanted]()
    if draw.chance(0.5):
        it.close()
        for _ in range(3):
            actions[draw.choice(possible)]()
    it.look()


# --- Accumulators of gradients. ---


@scripts("ConditionalAccumulator", "AccumulatorApplyGradient", "AccumulatorTakeGradient", "AccumulatorSetGlobalStep",
         "AccumulatorNumAccumulated", "ResourceConditionalAccumulator", "ResourceAccumulatorApplyGradient",
         "ResourceAccumulatorTakeGradient", "ResourceAccumulatorSetGlobalStep", "ResourceAccumulatorNumAccumulated")
def accumulator(script, op, types):
    draw = script.draw
    prefix = "Resource" if op.startswith("Resource") else ""
    dtype = types.get("dtype", "float")
    shape = draw.shape(max_rank=2)
    handle = raw(prefix + "ConditionalAccumulator", name="accumulator", dtype=tf_type(dtype), shape=shape,
                 shared_name="accumulator", reduction_type=draw.choice(["MEAN", "SUM"]))
    count = raw(prefix + "AccumulatorNumAccumulated", handle=handle)
    for round_ in range(draw.integer(1, 3)):
        fresh = 0
        for _ in range(draw.integer(1, 4)):
            local_step = draw.integer(round_ - 1, round_ + 1)
            fresh += local_step >= round_
            given = shape + (2,) if script.spoiled and draw.chance(0.3) else shape
            gradient = script.feed(draw.values(dtype, given), name="gradient")
            script.step(run=[raw(prefix + "AccumulatorApplyGradient", handle=handle, local_step=np.int64(local_step),
                                 gradient=gradient)])
        script.step(fetch=[count])
        if not fresh:
            break
        take = raw(prefix + "AccumulatorTakeGradient", handle=handle, num_required=draw.integer(1, fresh),
                   dtype=tf_type(dtype))
        script.step(fetch=[take])
    script.step(run=[raw(prefix + "AccumulatorSetGlobalStep", handle=handle, new_global_step=np.int64(7))])
    script.step(fetch=[count])
    if script.spoiled:
        script.step(fetch=[raw(prefix + "AccumulatorTakeGradient", handle=handle, num_required=0, dtype=tf_type(dtype))])


@scripts("SparseConditionalAccumulator", "SparseAccumulatorApplyGradient", "SparseAccumulatorTakeGradient")
def sparse_accumulator(script, op, types):
    draw = script.draw
    dtype = types.get("dtype", "float")
    shape = draw.shape(min_rank=1, max_rank=2, empty=False)
    handle = raw("SparseConditionalAccumulator", name="accumulator", dtype=tf_type(dtype), shape=shape,
                 shared_name="accumulator", reduction_type=draw.choice(["MEAN", "SUM"]))
    applied = draw.integer(1, 4)
    for _ in range(applied):
        rows = np.sort(draw.rng.permutation(shape[0])[:draw.integer(1, shape[0])]).astype(np.int64)
        values = draw.values(dtype, (len(rows),) + shape[1:])
        if script.spoiled and draw.chance(0.5):
            rows = rows + shape[0] if draw.chance(0.5) else rows[:-1]
        script.step(run=[raw("SparseAccumulatorApplyGradient", handle=handle, local_step=np.int64(0),
                             gradient_indices=script.feed(rows, fixed=True), gradient_values=script.feed(values),
                             gradient_shape=script.feed(np.array(shape, np.int64), fixed=True), has_known_shape=True)])
    script.step(fetch=list(raw("SparseAccumulatorTakeGradient", handle=handle, num_required=draw.integer(1, applied),
                               dtype=tf_type(dtype))))


# --- Tables. ---

KEYS_AND_VALUES = [("string", "int64"), ("int64", "string"), ("string", "float"), ("int64", "int64"), ("int64", "float"),
                   ("string", "bool"), ("int32", "int32"), ("int32", "float"), ("int64", "double")]


def _table(script, kind):
    draw = script.draw
    key, value = draw.choice(KEYS_AND_VALUES)
    handle = raw(kind, name="table", key_dtype=tf_type(key), value_dtype=tf_type(value), shared_name="table")
    words = draw.values(key, (20,), 0, 40)
    keys = np.array(sorted(set(words.tolist())), dtype=words.dtype)
    return handle, keys, draw.values(value, keys.shape), value


@scripts("HashTable", "HashTableV2", "InitializeTable", "InitializeTableV2", "LookupTableFind", "LookupTableSize")
def hash_table(script, op, types):
    draw = script.draw
    v2 = op.endswith("V2")
    handle, keys, values, value_type = _table(script, "HashTableV2" if v2 else "HashTable")
    suffix = "V2" if v2 else ""
    find = raw("LookupTableFind" + suffix, table_handle=handle,
               keys=script.feed(np.concatenate([draw.values(_name(keys), draw.shape()).reshape(-1), keys])),
               default_value=script.feed(draw.values(value_type, ())))
    size = raw("LookupTableSize" + suffix, table_handle=handle)
    if script.spoiled and draw.chance(0.5):
        script.step(fetch=[find])  # not initialised
    if script.spoiled and draw.chance(0.5):
        keys = np.concatenate([keys, keys[:1]])  # a key twice, with another value
        values = np.concatenate([values, draw.values(value_type, (1,))])
    script.step(run=[raw("InitializeTable" + suffix, table_handle=handle, keys=script.feed(keys),
                         values=script.feed(values))])
    script.step(fetch=[find, size])


@scripts("InitializeTableFromTextFile", "InitializeTableFromTextFileV2")
def table_from_file(script, op, types):
    draw = script.draw
    suffix = "V2" if op.endswith("V2") else ""
    whole_line, line_number = -2, -1
    by_column = draw.chance(0.5)
    key, value = ("string", "int64") if not by_column else draw.choice([("string", "int64"), ("int64", "float")])
    handle = raw("HashTable" + suffix, name="table", key_dtype=tf_type(key), value_dtype=tf_type(value),
                 shared_name="table")
    keys = [b"%d" % i for i in draw.rng.permutation(9)[:draw.integer(1, 5)]]
    lines = [k + b"," + b"%d" % draw.integer(0, 99) for k in keys] if by_column else keys
    too_few = script.spoiled and draw.chance(0.3)
    if script.spoiled and not too_few:
        lines.append(draw.choice([b"word", lines[0], b"1,2,3"]))
    path = write_file(script, b"\n".join(lines) + (b"\n" if draw.chance(0.5) else b""))
    columns = {"key_index": 0, "value_index": 1} if by_column else {"key_index": whole_line, "value_index": line_number}
    size = len(lines) + 2 if too_few else draw.choice([-1, -1, len(lines), len(lines) - 1 or 1])
    script.step(run=[raw(op, table_handle=handle, filename=path, vocab_size=size, delimiter=",", **columns)])
    asked = np.array(keys, object) if key == "string" else np.array([int(k) for k in keys], np.int64)
    script.step(fetch=[raw("LookupTableFind" + suffix, table_handle=handle, keys=script.feed(asked),
                           default_value=script.feed(np.array(-1, NUMPY[value]))),
                       raw("LookupTableSize" + suffix, table_handle=handle)])


def _name(array):
    from drawing import short_name
    return "string" if array.dtype == object else short_name(array.dtype)


@scripts("MutableHashTable", "MutableHashTableV2", "LookupTableInsert", "LookupTableInsertV2", "LookupTableRemoveV2",
         "LookupTableFindV2", "LookupTableSizeV2", "LookupTableImport", "LookupTableImportV2")
def mutable_hash_table(script, op, types):
    draw = script.draw
    suffix = "V2" if op.endswith("V2") else ""
    handle, keys, values, value_type = _table(script, "MutableHashTable" + suffix)
    find = raw("LookupTableFind" + suffix, table_handle=handle, keys=script.feed(keys),
               default_value=script.feed(draw.values(value_type, ())))
    size = raw("LookupTableSize" + suffix, table_handle=handle)
    script.step(fetch=[find, size])
    script.step(run=[raw("LookupTableInsert" + suffix, table_handle=handle, keys=script.feed(keys[::2]),
                         values=script.feed(values[::2]))])
    script.step(fetch=[find, size])
    if suffix and op_exists("LookupTableRemoveV2"):
        script.step(run=[raw("LookupTableRemoveV2", table_handle=handle, keys=script.feed(keys[:3]))])
        script.step(fetch=[find, size])
    if op_exists("LookupTableImport" + suffix):
        given = values[:-1] if script.spoiled and len(values) else values
        script.step(run=[raw("LookupTableImport" + suffix, table_handle=handle, keys=script.feed(keys),
                             values=script.feed(given))])
        script.step(fetch=[find, size])


@scripts("LookupTableExport", "LookupTableExportV2")
def lookup_table_export(script, op, types):
    """One entry: in which order more come out is nobody's promise."""
    draw = script.draw
    suffix = "V2" if op.endswith("V2") else ""
    handle, keys, values, value_type = _table(script, "MutableHashTable" + suffix)
    script.step(run=[raw("LookupTableInsert" + suffix, table_handle=handle, keys=script.feed(keys[:1]),
                         values=script.feed(values[:1]))])
    script.step(fetch=list(raw(op, table_handle=handle, Tkeys=tf_type(_name(keys)), Tvalues=tf_type(value_type))))


# --- Tensor lists, tensor arrays and stacks: what loops keep their values in. ---


@scripts("EmptyTensorList", "TensorListPushBack", "TensorListPopBack", "TensorListLength", "TensorListElementShape")
def tensor_list_ends(script, op, types):
    draw = script.draw
    dtype = types.get("element_dtype", "float")
    shape = draw.shape(max_rank=2)
    any_shape = tf.constant(-1)
    handle = raw("EmptyTensorList", element_shape=np.array(shape, np.int32), max_num_elements=draw.choice([-1, 4]),
                 element_dtype=tf_type(dtype))
    xs = [script.feed(draw.values(dtype, shape)) for _ in range(draw.integer(1, 5))]
    for x in xs:
        handle = raw("TensorListPushBack", input_handle=handle, tensor=x)
    popped = []
    for _ in range(draw.integer(1, len(xs) + (1 if script.spoiled else 0))):
        handle, value = raw("TensorListPopBack", input_handle=handle, element_shape=any_shape,
                            element_dtype=tf_type(dtype))
        popped.append(value)
    script.step(fetch=popped + [raw("TensorListLength", input_handle=handle)])
    script.step(fetch=[raw("TensorListElementShape", input_handle=handle, shape_type=tf.int64)])
    return [x for x in xs if x.dtype.is_floating]


@scripts("TensorListFromTensor", "TensorListReserve", "TensorListSetItem", "TensorListGetItem", "TensorListStack")
def tensor_list_items(script, op, types):
    draw = script.draw
    dtype = types.get("element_dtype", "float")
    shape = draw.shape(min_rank=1, max_rank=3, empty=False)
    x, item = script.feed(draw.values(dtype, shape)), script.feed(draw.values(dtype, shape[1:]))
    element_shape = np.array(shape[1:], np.int32)
    handle = raw("TensorListFromTensor", tensor=x, element_shape=element_shape)
    index = draw.integer(0, shape[0] - 1) + (shape[0] if script.spoiled else 0)
    handle = raw("TensorListSetItem", input_handle=handle, index=index, item=item)
    got = raw("TensorListGetItem", input_handle=handle, index=draw.integer(0, shape[0] - 1),
              element_shape=element_shape, element_dtype=tf_type(dtype))
    stacked = raw("TensorListStack", input_handle=handle, element_shape=element_shape, element_dtype=tf_type(dtype))
    script.step(fetch=[got, stacked])
    reserved = raw("TensorListReserve", element_shape=element_shape, num_elements=draw.integer(0, 3),
                   element_dtype=tf_type(dtype))
    script.step(fetch=[raw("TensorListLength", input_handle=reserved)])
    return [t for t in (x, item) if t.dtype.is_floating]


@scripts("TensorArrayV3", "TensorArrayWriteV3", "TensorArrayReadV3", "TensorArrayScatterV3", "TensorArrayGatherV3",
         "TensorArrayConcatV3", "TensorArraySplitV3", "TensorArraySizeV3", "TensorArrayCloseV3", "TensorArrayGradV3")
def tensor_array(script, op, types):
    draw = script.draw
    dtype = types.get("dtype", types.get("T", "float"))
    shape = (draw.integer(1, 3),) + draw.shape(max_rank=1, empty=False)
    count = draw.integer(1, 4)
    handle, flow = raw("TensorArrayV3", size=count, dtype=tf_type(dtype), clear_after_read=False,
                       dynamic_size=draw.chance(0.3))
    x = script.feed(draw.values(dtype, (count,) + shape))
    way = draw.integer(0, 2)
    if way == 0:
        flow = raw("TensorArrayScatterV3", handle=handle, indices=np.arange(count, dtype=np.int32), value=x, flow_in=flow)
    elif way == 1:
        lengths = np.full((count,), shape[0], np.int64)
        if script.spoiled:
            lengths[0] += 1
        joined = raw("Reshape", tensor=x, shape=np.array((count * shape[0],) + shape[1:], np.int32))
        flow = raw("TensorArraySplitV3", handle=handle, value=joined, lengths=lengths, flow_in=flow)
    else:
        for i in range(count):
            part = raw("StridedSlice", input=x, begin=[i], end=[i + 1], strides=[1], shrink_axis_mask=1)
            flow = raw("TensorArrayWriteV3", handle=handle, index=i, value=part, flow_in=flow)
    order = draw.rng.permutation(count).astype(np.int32)
    index = draw.integer(0, count - 1) + (count if script.spoiled else 0)
    script.step(fetch=[
        raw("TensorArrayGatherV3", handle=handle, indices=order, flow_in=flow, dtype=tf_type(dtype)),
        raw("TensorArrayReadV3", handle=handle, index=index, flow_in=flow, dtype=tf_type(dtype)),
        *raw("TensorArrayConcatV3", handle=handle, flow_in=flow, dtype=tf_type(dtype)),
        raw("TensorArraySizeV3", handle=handle, flow_in=flow)])
    return [x] if x.dtype.is_floating and not script.spoiled else []


@scripts("StackV2", "StackPushV2", "StackPopV2", "StackCloseV2")
def stack(script, op, types):
    draw = script.draw
    dtype = types.get("elem_type", types.get("T", "float"))
    handle = raw("StackV2", max_size=draw.choice([-1, 2]) if script.spoiled else -1, elem_type=tf_type(dtype),
                 stack_name="stack")
    before, popped = [], []
    for _ in range(draw.integer(1, 3)):
        with tf.control_dependencies(before):
            before = [raw("StackPushV2", handle=handle, elem=script.feed(draw.values(dtype, draw.shape()))).op]
    for _ in range(draw.integer(1, 3 if script.spoiled else 1)):
        with tf.control_dependencies(before):
            popped.append(raw("StackPopV2", handle=handle, elem_type=tf_type(dtype)))
            before = [popped[-1].op]
    with tf.control_dependencies(before):
        close = raw("StackCloseV2", handle=handle)
    script.step(run=[close], fetch=popped)


# --- Optional values. ---


@scripts("OptionalFromValue", "OptionalGetValue", "OptionalHasValue", "OptionalNone")
def optional(script, op, types):
    draw = script.draw
    kinds = [draw.choice(["float", "int32", "string"]) for _ in range(draw.integer(1, 3))]
    values = [draw.values(k, draw.shape()) for k in kinds]
    some = raw("OptionalFromValue", components=[script.feed(v) for v in values])
    none = raw("OptionalNone")
    script.step(fetch=[raw("OptionalHasValue", optional=some), raw("OptionalHasValue", optional=none)])
    got = raw("OptionalGetValue", optional=none if script.spoiled else some, output_types=[tf_type(k) for k in kinds],
              output_shapes=[None] * len(kinds))
    script.step(fetch=got)
