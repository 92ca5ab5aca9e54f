"""Compares Tutti with TensorFlow over files, both ways: check_checkpoints.py CHECKPOINT_TOOL

Checkpoints of every type, slices of partitioned variables, strings, scalars, empty tensors, variants; whole Savers, run
as graphs in Tutti; the old single-file checkpoints; record files. Values must agree bit for bit, and where the order of
writing is the same, files byte for byte.
"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from checks import check, report, run_parts, run_tool  # noqa: E402
from tensorflow.python.framework import dtypes  # noqa: E402  (the small types have no public names)

tf1 = tf.compat.v1
raw = tf.raw_ops

TOOL = sys.argv[1]

PLAIN = [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16,
         tf.uint32, tf.uint64, tf.bool, tf.complex64, tf.complex128]
QUANTISED = {tf.qint8: tf.int8, tf.quint8: tf.uint8, tf.qint16: tf.int16, tf.quint16: tf.uint16, tf.qint32: tf.int32}
SMALL = [dtypes.float8_e5m2, dtypes.float8_e4m3fn, dtypes.int4, dtypes.uint4]
FOUR_BITS = (dtypes.int4, dtypes.uint4)
OLD_FORMAT = [tf.float16, tf.float32, tf.float64, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.bool,
              tf.complex64, tf.complex128, tf.qint8, tf.quint8, tf.qint32]
SHAPES = [(), (0,), (3,), (2, 0, 4), (2, 3, 4)]


def tool(*args):
    return run_tool(TOOL, *args)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def random_bits(rng, dtype, shape):
    """Any bit pattern that the type allows, NaNs included."""
    if dtype == tf.bool:
        return tf.constant(rng.integers(0, 2, shape).astype(bool))
    if dtype in QUANTISED:
        return tf.bitcast(random_bits(rng, QUANTISED[dtype], shape), dtype)
    numpy_type = dtype.as_numpy_dtype
    size = int(np.prod(shape, dtype=int)) * np.dtype(numpy_type).itemsize
    return tf.constant(np.frombuffer(rng.bytes(size), numpy_type).reshape(shape))


def strings(rng, shape):
    values = [rng.bytes(int(n)) for n in rng.integers(0, 300, int(np.prod(shape, dtype=int)))]
    return tf.constant(np.array(values, object).reshape(shape), tf.string)


def element_bytes(tensor):
    """As checkpoint_tool dumps them."""
    if tensor.dtype == tf.string:
        return b"".join(len(s).to_bytes(8, "little") + s for s in np.ravel(np.array(tensor.numpy(), object)))
    if tensor.dtype in QUANTISED:
        tensor = tf.bitcast(tensor, QUANTISED[tensor.dtype])
    return tensor.numpy().tobytes()


def all_tensors(rng):
    tensors = {}
    for i, shape in enumerate(SHAPES):
        for dtype in [*PLAIN, *QUANTISED]:
            tensors[f"{dtype.name}/{i}"] = random_bits(rng, dtype, shape)
        tensors[f"string/{i}"] = strings(rng, shape)
        for dtype in SMALL:
            whole = tf.constant(rng.integers(0, 7, shape), tf.int8)
            tensors[f"{dtype.name}/{i}"] = tf.cast(whole if dtype in FOUR_BITS else tf.cast(whole, tf.float32), dtype)
    tensors["long string"] = tf.constant(rng.bytes(200_000))
    tensors["big"] = random_bits(rng, tf.float32, (300, 1000))
    return dict(sorted(tensors.items(), key=lambda item: item[0].encode()))


def save(prefix, tensors, specs=None):
    raw.SaveV2(prefix=prefix, tensor_names=list(tensors), shape_and_slices=specs or [""] * len(tensors),
               tensors=list(tensors.values()))


def check_dump(prefix, folder, expected):
    os.makedirs(folder)
    listed = {}
    for line in tool("dump", prefix, folder).splitlines():
        number, dtype, shape, name = line.split(" ", 3)
        listed[name] = (number, dtype, shape)
    check(set(listed) == set(expected), f"dump {prefix}: {set(listed) ^ set(expected)}")
    for name, tensor in expected.items():
        if name in listed:
            number, _, shape = listed[name]
            check(shape == "[" + ",".join(str(d) for d in tensor.shape) + "]", f"{name}: shape {shape}")
            if tensor.dtype not in FOUR_BITS:  # numpy has no bytes for these; the files below do
                check(read(f"{folder}/{number}") == element_bytes(tensor), f"{name}: other bytes than TensorFlow's")


def check_loaded(prefix, expected):
    reader = tf.train.load_checkpoint(prefix)
    shapes = reader.get_variable_to_shape_map()
    check(set(shapes) == set(expected), f"load_checkpoint {prefix}: {set(shapes) ^ set(expected)}")
    for name, tensor in expected.items():
        check(shapes.get(name) == list(tensor.shape), f"{name}: shape {shapes.get(name)}")
        (restored,) = raw.RestoreV2(prefix=prefix, tensor_names=[name], shape_and_slices=[""], dtypes=[tensor.dtype])
        if tensor.dtype not in FOUR_BITS:
            check(element_bytes(restored) == element_bytes(tensor), f"{name}: TensorFlow reads other bytes")
        if tensor.dtype in PLAIN:
            check(np.asarray(reader.get_tensor(name)).tobytes() == element_bytes(tensor), f"{name}: get_tensor differs")


def check_every_type(folder):
    tensors = all_tensors(np.random.default_rng(1))
    theirs, ours = f"{folder}/theirs", f"{folder}/ours"
    save(theirs, tensors)
    check_dump(theirs, f"{folder}/dump", tensors)
    tool("copy", theirs, ours)
    check_loaded(ours, tensors)
    for suffix in (".index", ".data-00000-of-00001"):
        check(read(theirs + suffix) == read(ours + suffix), f"{suffix} differs from TensorFlow's")


def check_slices(folder):
    rng = np.random.default_rng(2)
    for dtype in [tf.float32, tf.int64, tf.string]:
        whole = strings(rng, (7, 5)) if dtype == tf.string else random_bits(rng, dtype, (7, 5))
        cut = {"7 5 0,3:-": whole[:3], "7 5 3,1:0,5": whole[3:4], "7 5 4,3:0,2": whole[4:, :2],
               "7 5 4,3:2,3": whole[4:, 2:]}
        theirs, ours = f"{folder}/slices_{dtype.name}", f"{folder}/our_slices_{dtype.name}"
        raw.SaveV2(prefix=theirs, tensor_names=["a", "w", "w", "w", "w"], shape_and_slices=["", *cut],
                   tensors=[tf.constant(1.5), *cut.values()])
        tool("copy", theirs, ours)
        expected = {"a": tf.constant(1.5), "w": whole}
        check_dump(theirs, f"{folder}/dump_{dtype.name}", expected)
        check(read(theirs + ".index") == read(ours + ".index"), f"index of {dtype.name} slices differs")
        if dtype == tf.string:
            continue  # TensorFlow writes slices of strings and cannot read them
        check_loaded(ours, expected)
        for spec, part in {**cut, "7 5 2,4:1,3": whole[2:6, 1:4], "7 5 -:-": whole}.items():
            (restored,) = raw.RestoreV2(prefix=ours, tensor_names=["w"], shape_and_slices=[spec], dtypes=[dtype])
            check(element_bytes(restored) == element_bytes(part), f"slice {spec} of {dtype.name} differs")


def variants():
    """Lists and optionals of many kinds, as TensorFlow's ops make them."""
    any_shape = tf.constant(-1)

    def reserve(count, dtype, shape=any_shape):
        return raw.TensorListReserve(element_shape=shape, num_elements=count, element_dtype=dtype)

    def put(items, index, item):
        return raw.TensorListSetItem(input_handle=items, index=index, item=item)

    rows = raw.TensorListFromTensor(tensor=tf.constant([[1., 2.], [3., 4.]]), element_shape=[2])
    some = put(reserve(3, tf.int32), 1, tf.constant([5, -6]))
    words = put(reserve(1, tf.string), 0, tf.constant(["a", "", "ccc"]))
    nested = put(put(reserve(3, tf.variant, tf.constant([], tf.int32)), 0, rows), 2, some)
    values = raw.OptionalFromValue(components=[tf.constant(1.5), tf.constant(["a", "b"]), nested])
    named = {
        "rows": rows, "some": some, "words": words, "nested": nested, "values": values, "unset": reserve(4, tf.float32),
        "deeper": put(reserve(1, tf.variant), 0, nested), "none": raw.OptionalNone(),
        "empty": raw.EmptyTensorList(element_shape=tf.constant([-1, 3]), max_num_elements=7, element_dtype=tf.string),
        "optional in optional": raw.OptionalFromValue(components=[values]), "several": tf.stack([rows, some, values]),
        "sparse": raw.SerializeSparse(sparse_indices=tf.constant([[1]], tf.int64), sparse_values=tf.constant([2.]),
                                      sparse_shape=tf.constant([3], tf.int64), out_type=tf.variant),
    }
    for dtype in PLAIN:
        value = tf.cast(tf.constant([[0, 1, 2], [3, 4, 100]]), dtype)
        named[f"list of {dtype.name}"] = raw.TensorListFromTensor(tensor=value, element_shape=[3])
    return dict(sorted(named.items()))


def check_variants(folder):
    tensors = variants()
    theirs, ours = f"{folder}/theirs", f"{folder}/ours"
    save(theirs, tensors)
    tool("copy", theirs, ours)
    for suffix in (".index", ".data-00000-of-00001"):
        check(read(theirs + suffix) == read(ours + suffix), f"variants: {suffix} differs from TensorFlow's")
    restored = raw.RestoreV2(prefix=ours, tensor_names=list(tensors), shape_and_slices=[""] * len(tensors),
                             dtypes=[tf.variant] * len(tensors))
    for name, tensor in zip(tensors, restored):
        check(tf.io.serialize_tensor(tensor) == tf.io.serialize_tensor(tensors[name]), f"variant {name} differs")
    # Tutti's ops make the variants, save them as they are and as SerializeTensor writes them, and parse those again.
    graph = tf.Graph()
    with graph.as_default():
        made = variants()
        as_bytes = {name: raw.SerializeTensor(tensor=tensor) for name, tensor in made.items()}
        parsed = [raw.ParseTensor(serialized=serialized, out_type=tf.variant) for serialized in as_bytes.values()]
        names = [*made, *[f"{name} as bytes" for name in made], *[f"{name} parsed" for name in made]]
        prefix = tf1.placeholder(tf.string, [], name="prefix")
        raw.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names),
                   tensors=[*made.values(), *as_bytes.values(), *parsed], name="save")
        # And what TensorFlow stored, used by Tutti's ops.
        rows, nested, values = raw.RestoreV2(prefix=theirs, tensor_names=["rows", "nested", "values"],
                                             shape_and_slices=[""] * 3, dtypes=[tf.variant] * 3)
        inner = raw.TensorListGetItem(input_handle=nested, index=0, element_shape=tf.constant([], tf.int32),
                                      element_dtype=tf.variant)
        got = [raw.TensorListStack(input_handle=items, element_shape=[2], element_dtype=tf.float32)
               for items in (rows, inner)]
        got += raw.OptionalGetValue(optional=values, output_types=[tf.float32, tf.string, tf.variant],
                                    output_shapes=[[], [2], []])[:2]
        raw.SaveV2(prefix=prefix, tensor_names=["rows", "inner", "number", "words"], shape_and_slices=[""] * 4,
                   tensors=got, name="use")
    with open(f"{folder}/variants.pb", "wb") as out:
        out.write(graph.as_graph_def().SerializeToString())
    tool("session", f"{folder}/variants.pb", "prefix:0", f"{folder}/made", "save")
    tool("session", f"{folder}/variants.pb", "prefix:0", f"{folder}/used", "use")
    for name, tensor in tensors.items():
        want = tf.io.serialize_tensor(tensor)
        stored, written, back = raw.RestoreV2(
            prefix=f"{folder}/made", tensor_names=[name, f"{name} as bytes", f"{name} parsed"],
            shape_and_slices=[""] * 3, dtypes=[tf.variant, tf.string, tf.variant])
        check(tf.io.serialize_tensor(stored) == want, f"{name}, made by Tutti, differs")
        check(written == want, f"SerializeTensor of {name} differs")
        check(tf.io.serialize_tensor(back) == want, f"ParseTensor of {name} differs")
    used = tf.train.load_checkpoint(f"{folder}/used")
    for name in ("rows", "inner"):
        check(np.array_equal(used.get_tensor(name), [[1, 2], [3, 4]]), f"{name} of TensorFlow's checkpoint differ")
    check(used.get_tensor("number") == 1.5 and list(used.get_tensor("words")) == [b"a", b"b"], "the optional differs")


def saver_graph(resource, sharded, version=tf1.train.SaverDef.V2):
    graph = tf.Graph()
    with graph.as_default():
        rng = np.random.default_rng(3)

        def variable(name, value, **options):
            return tf1.get_variable(name, initializer=tf.constant(value), use_resource=resource, **options)

        values = {"w": rng.normal(size=(6, 4)).astype(np.float32), "step": np.int64(17),
                  "empty": np.zeros((0, 3), np.float32), "half": rng.normal(size=3).astype(np.float16)}
        for name, value in values.items():
            variable(name, value)
        part = rng.normal(size=(7, 3)).astype(np.float32)
        values["table"] = part
        tf1.get_variable("table", shape=(7, 3), use_resource=resource, partitioner=tf1.fixed_size_partitioner(3),
                         initializer=lambda shape, dtype, partition_info: tf.constant(
                             part[partition_info.var_offset[0]:partition_info.var_offset[0] + shape[0]]))
        words = np.array([b"some", b"", b"words\x00\xff"], object)
        if not resource:  # TensorFlow has no kernel to assign string resources on every build
            values["words"] = words
            variable("words", words)
        init = tf1.global_variables_initializer()
        saver = tf1.train.Saver(sharded=sharded, write_version=version)
        scramble = tf.group(*[tf1.assign(v, tf.zeros_like(v)) for v in tf1.global_variables() if v.dtype != tf.string],
                            name="scramble")
    return graph, saver, init, scramble, values


def same_variables(prefix, values, what):
    reader = tf.train.load_checkpoint(prefix)
    check(set(reader.get_variable_to_shape_map()) == set(values), f"{what}: other variables")
    for name, value in values.items():
        dtype = tf.string if value.dtype == object else tf.as_dtype(value.dtype)
        (got,) = [t.numpy() for t in raw.RestoreV2(prefix=prefix, tensor_names=[name], shape_and_slices=[""],
                                                   dtypes=[dtype])]
        check(np.asarray(got).dtype == value.dtype and np.array_equal(got, value), f"{what}: {name} differs")


def check_savers(folder):
    for resource in (False, True):
        for sharded in (False, True):
            what = f"Saver of {'resource' if resource else 'ref'} variables{', sharded' if sharded else ''}"
            graph, saver, init, scramble, values = saver_graph(resource, sharded)
            base = f"{folder}/saver_{int(resource)}{int(sharded)}"
            pb = f"{base}.pb"
            with open(pb, "wb") as out:
                out.write(graph.as_graph_def().SerializeToString())
            definition = saver.saver_def
            save_target = definition.save_tensor_name.split(":")[0]
            # Tutti saves, TensorFlow restores.
            ours = f"{base}_ours/model"
            tool("session", pb, definition.filename_tensor_name, ours, init.name, save_target)
            same_variables(ours, values, f"{what}, saved by Tutti")
            with tf1.Session(graph=graph) as session:
                saver.restore(session, ours)
                theirs = f"{base}_theirs"
                saver.save(session, theirs, write_state=False, write_meta_graph=False)
            same_variables(theirs, values, f"{what}, saved by Tutti and restored by TensorFlow")
            # TensorFlow saves, Tutti restores over other values and saves again.
            again = f"{base}_again/model"
            os.makedirs(os.path.dirname(again))
            for suffix in [f for f in os.listdir(folder) if f.startswith(os.path.basename(theirs) + ".")]:
                os.rename(f"{folder}/{suffix}", again + suffix[len(os.path.basename(theirs)):])
            tool("session", pb, definition.filename_tensor_name, again, init.name, scramble.name,
                 definition.restore_op_name, save_target)
            same_variables(again, values, f"{what}, restored by Tutti")
            left = [f for f in os.listdir(os.path.dirname(again)) if "temp" in f]
            check(not left, f"{what}: left behind {left}")


def check_merge(folder):
    """A checkpoint in several shards, merged by each side."""
    tensors = all_tensors(np.random.default_rng(4))
    halves = [dict(list(tensors.items())[i::2]) for i in range(2)]
    for side in ("theirs", "ours"):
        os.makedirs(f"{folder}/{side}_temp")
        for i, half in enumerate(halves):
            save(f"{folder}/{side}_temp/part-{i}", half)
    raw.MergeV2Checkpoints(checkpoint_prefixes=[f"{folder}/theirs_temp/part-{i}" for i in range(2)],
                           destination_prefix=f"{folder}/theirs")
    graph = tf.Graph()
    with graph.as_default():
        raw.MergeV2Checkpoints(checkpoint_prefixes=[f"{folder}/ours_temp/part-{i}" for i in range(2)],
                               destination_prefix=tf1.placeholder(tf.string, [], name="prefix"), name="merge")
    with open(f"{folder}/merge.pb", "wb") as out:
        out.write(graph.as_graph_def().SerializeToString())
    tool("session", f"{folder}/merge.pb", "prefix:0", f"{folder}/ours", "merge")
    check(not os.path.exists(f"{folder}/ours_temp"), "the directory of the parts is still there")
    check_loaded(f"{folder}/ours", tensors)
    check_dump(f"{folder}/theirs", f"{folder}/dump", tensors)
    for suffix in (".index", ".data-00000-of-00002", ".data-00001-of-00002"):
        check(read(f"{folder}/theirs{suffix}") == read(f"{folder}/ours{suffix}"), f"merged {suffix} differs")


def check_slice_files(folder):
    rng = np.random.default_rng(5)
    tensors = {f"{dtype.name}/{i}": random_bits(rng, dtype, shape)
               for dtype in OLD_FORMAT for i, shape in enumerate(SHAPES)}
    tensors.update({f"string/{i}": strings(rng, shape) for i, shape in enumerate(SHAPES)})
    # The elements are numbers in messages: a signalling NaN does not survive being read as one.
    for name, tensor in tensors.items():
        if tensor.dtype.is_floating or tensor.dtype.is_complex:
            tensors[name] = tf.cast(tf.constant(rng.normal(size=tensor.shape)), tensor.dtype)
    theirs, ours = f"{folder}/theirs", f"{folder}/ours"
    raw.Save(filename=theirs, tensor_names=list(tensors), data=list(tensors.values()))
    tool("copy_slice_file", theirs, ours)
    check(read(theirs) == read(ours), "the slice file differs from TensorFlow's")
    for name, tensor in tensors.items():
        restored = raw.Restore(file_pattern=ours, tensor_name=name, dt=tensor.dtype)
        check(element_bytes(restored) == element_bytes(tensor), f"slice file: {name} differs")
    # A Saver of that version, both ways.
    graph, saver, init, scramble, values = saver_graph(False, False, tf1.train.SaverDef.V1)
    with open(f"{folder}/old.pb", "wb") as out:
        out.write(graph.as_graph_def().SerializeToString())
    definition = saver.saver_def
    save_target = definition.save_tensor_name.split(":")[0]
    tool("session", f"{folder}/old.pb", definition.filename_tensor_name, f"{folder}/model", init.name, save_target)
    same_variables(f"{folder}/model", values, "old Saver, saved by Tutti")
    with tf1.Session(graph=graph) as session:
        saver.restore(session, f"{folder}/model")
        saver.save(session, f"{folder}/again", write_state=False, write_meta_graph=False)
    tool("session", f"{folder}/old.pb", definition.filename_tensor_name, f"{folder}/again", init.name, scramble.name,
         definition.restore_op_name, save_target)
    same_variables(f"{folder}/again", values, "old Saver, restored by Tutti")


def check_records(folder):
    rng = np.random.default_rng(6)
    records = [b"", b"abc", rng.bytes(1_500_000), *[rng.bytes(int(n)) for n in rng.integers(0, 5000, 500)]]
    for compression in ("", "ZLIB", "GZIP"):
        theirs, ours = f"{folder}/theirs{compression}", f"{folder}/ours{compression}"
        with tf.io.TFRecordWriter(theirs, compression) as out:
            for record in records:
                out.write(record)
        tool("copy_records", theirs, compression, ours)
        back = [r.numpy() for r in tf.data.TFRecordDataset(ours)]
        check(back == records, f"records of a {compression or 'plain'} file differ")
        if not compression:
            check(read(theirs) == read(ours), "the record file differs from TensorFlow's")


def main():
    run_parts((check_every_type, check_slices, check_variants, check_merge, check_savers, check_slice_files, check_records))
    return report("checkpoints and records")


if __name__ == "__main__":
    sys.exit(main())
