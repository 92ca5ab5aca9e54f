"""Recipes of Examples, lines of values and serialised tensors."""
import numpy as np
import tensorflow as tf

from drawing import tf_type
from recipes import scripts
from script import raw

LISTS = {"float": "float_list", "int64": "int64_list", "string": "bytes_list"}


def _fill(draw, feature, dtype, count):
    values = {"float": lambda: float(draw.values("float", ())),
              "string": lambda: bytes(draw.values("string", ()).item()),
              "int64": lambda: draw.choice([0, 1, -1, 127, 128, 2 ** 40, -2 ** 63, 2 ** 63 - 1])}[dtype]
    getattr(feature, LISTS[dtype]).value.extend(values() for _ in range(count))
    if not count:
        getattr(feature, LISTS[dtype]).SetInParent()


class Features:
    """What an op is asked for, and examples that have it, mostly."""

    def __init__(self, script, ragged):
        draw = self.draw = script.draw
        kinds = list(LISTS)
        self.sparse = [(f"sparse/{i}", draw.choice(kinds)) for i in range(draw.integer(0, 3))]
        self.ragged = [(f"r{i}", draw.choice(kinds), draw.choice(["int32", "int64"]))
                       for i in range(draw.integer(0, 2) if ragged else 0)]
        self.dense = []
        for i in range(draw.integer(0, 3)):
            shape = draw.choice([[], [2], [2, 2], [None], [None, 2]])
            variable = shape[:1] == [None]
            dtype = draw.choice(kinds)
            default = () if variable else tuple(shape) if draw.chance(0.5) else (0,)
            self.dense.append((f"a longer name of a dense feature {i}", dtype, shape, draw.values(dtype, default)))
        self.spoiled = script.spoiled

    def fill(self, features):
        draw = self.draw
        if self.spoiled and draw.chance(0.5):
            features.feature["sparse/0"].float_list.value.append(1)
            features.feature["sparse/0"].int64_list.value.append(1)
        for key, dtype in self.sparse + [(k, t) for k, t, _ in self.ragged]:
            if draw.chance(0.8):
                _fill(draw, features.feature[key], dtype, draw.integer(0, 4))
        for key, dtype, shape, default in self.dense:
            count = int(np.prod([draw.integer(0, 3) if d is None else d for d in shape]))
            if self.spoiled and draw.chance(0.3):
                count += 1
            if draw.chance(0.7) or (default.size == 0 and not self.spoiled):
                _fill(draw, features.feature[key], dtype, count)
        for i in range(draw.integer(0, 3)):
            _fill(draw, features.feature[f"unasked {i}"], "int64", i)

    def example(self):
        example = tf.train.Example()
        self.fill(example.features)
        return example.SerializeToString()

    def attrs(self):
        return {"sparse_types": [tf_type(t) for _, t in self.sparse], "dense_shapes": [s for _, _, s, _ in self.dense]}


def _strings(values):
    return np.array(list(values), object) if values else np.array([], object)


@scripts("ParseExample", "ParseExampleV2", "ParseSingleExample")
def parse_example(script, op, types):
    draw = script.draw
    features = Features(script, ragged=op == "ParseExampleV2")
    single = op == "ParseSingleExample" or (op == "ParseExampleV2" and draw.chance(0.3))
    examples = [features.example() for _ in range(1 if single else draw.integer(0, 5))]
    serialized = script.feed(np.array(examples[0], object) if single else _strings(examples))
    defaults = [script.feed(d, dtype=None if t == "string" else tf_type(t)) for _, t, _, d in features.dense]
    attrs = features.attrs()
    sparse, dense = [k for k, _ in features.sparse], [k for k, _, _, _ in features.dense]
    if op == "ParseSingleExample":
        outputs = raw(op, name="op", serialized=serialized, dense_defaults=defaults, num_sparse=len(sparse),
                      sparse_keys=sparse, dense_keys=dense, **attrs)
    elif op == "ParseExample":
        outputs = raw(op, name="op", serialized=serialized, names=tf.constant([], tf.string),
                      sparse_keys=[tf.constant(k) for k in sparse], dense_keys=[tf.constant(k) for k in dense],
                      dense_defaults=defaults, **attrs)
    else:
        outputs = raw(op, name="op", serialized=serialized, names=tf.constant([], tf.string),
                      sparse_keys=tf.constant(sparse, tf.string), dense_keys=tf.constant(dense, tf.string),
                      ragged_keys=tf.constant([k for k, _, _ in features.ragged], tf.string), dense_defaults=defaults,
                      num_sparse=len(sparse), ragged_value_types=[tf_type(t) for _, t, _ in features.ragged],
                      ragged_split_types=[tf_type(s) for _, _, s in features.ragged], **attrs)
    outputs = [t for part in outputs for t in (part if isinstance(part, (list, tuple)) else [part])]
    if outputs:
        script.step(fetch=outputs)
    else:
        script.step(run=[tf.compat.v1.get_default_graph().get_operation_by_name("op")])


CSV_FIELDS = {"int32": [b"1", b"-7", b" 12 ", b"", b'"5"', b"NA"], "int64": [b"1", b"2000000000000", b"", b"-3"],
              "float": [b"1.5", b"-2e3", b"", b"inf", b" .5 "], "double": [b"1e-3", b"0", b'"7.25"'],
              "string": [b"text", b"", b'"a, ""b"""', b" spaced ", b"NA", b"\xc3\xa9"]}
CSV_WRONG = [b"x", b'a"b', b'"open', b'"a"b', b"a\nb", b"1,2", b"99999999999999999999"]


@scripts("DecodeCSV")
def decode_csv(script, op, types):
    draw = script.draw
    columns = [draw.choice(list(CSV_FIELDS)) for _ in range(draw.integer(1, 4))]
    selected = sorted(draw.rng.permutation(len(columns))[:draw.integer(1, len(columns))]) if draw.chance(0.4) else []
    delimiter = draw.choice([b",", b";", b"\t"])

    def record():
        fields = [draw.choice(CSV_FIELDS[c]) for c in columns]
        if script.spoiled and draw.chance(0.5):
            fields[draw.integer(0, len(fields) - 1)] = draw.choice(CSV_WRONG)
        return delimiter.join(fields)

    shape = draw.shape(max_rank=2)
    records = np.array([record() for _ in range(int(np.prod(shape)))], object).reshape(shape)
    kept = [columns[i] for i in selected] if selected else columns
    required = 0.1 if script.spoiled else 0.0
    defaults = [script.feed(draw.values(c, (0,) if draw.chance(required) else draw.choice([(1,), ()])), fixed=True)
                for c in kept]
    outputs = raw(op, name="op", records=script.feed(records), record_defaults=defaults, field_delim=delimiter,
                  use_quote_delim=draw.chance(0.8), na_value=draw.choice(["", "NA"]),
                  select_cols=[int(i) for i in selected])
    script.step(fetch=list(outputs))


@scripts("ParseTensor", "SerializeTensor")
def serialised_tensor(script, op, types):
    draw = script.draw
    dtype = types.get("T") or draw.choice(["float", "int64", "string", "bool", "half", "complex64"])
    value = draw.values(dtype, draw.shape())
    if op == "SerializeTensor":
        tensor = script.feed(value, dtype=None if dtype == "string" else tf_type(dtype))
        return script.step(fetch=[raw(op, name="op", tensor=tensor)])
    data = tf.make_tensor_proto(value, tf_type(dtype)).SerializeToString()
    if script.spoiled:
        data = draw.choice([data[:len(data) // 2], b"", b"\xff\xff", data])
        dtype = draw.choice([dtype, "int32"])
    serialized = script.feed(np.array(data, object))
    return script.step(fetch=[raw(op, name="op", serialized=serialized, out_type=tf_type(dtype))])


class Lists:
    """Feature lists that an op is asked for, and that sequences have, mostly."""

    def __init__(self, script, ragged):
        draw = self.draw = script.draw
        kinds = list(LISTS)
        self.spoiled = script.spoiled
        self.sparse = [(f"list {i}", draw.choice(kinds)) for i in range(draw.integer(0, 2))]
        self.ragged = [(f"ragged {i}", draw.choice(kinds), draw.choice(["int32", "int64"]))
                       for i in range(draw.integer(0, 2) if ragged else 0)]
        self.dense = [(f"dense {i}", draw.choice(kinds), draw.choice([[], [2], [2, 1]]), draw.chance(0.5))
                      for i in range(draw.integer(0, 2))]

    def fill(self, lists):
        draw = self.draw
        for key, dtype in self.sparse + [(k, t) for k, t, _ in self.ragged]:
            if draw.chance(0.8):
                for _ in range(draw.integer(0, 3)):
                    _fill(draw, lists.feature_list[key].feature.add(), dtype, draw.integer(0, 3))
        for key, dtype, shape, missing in self.dense:
            if missing and draw.chance(0.3):
                continue
            lists.feature_list[key].SetInParent()
            for _ in range(draw.integer(0, 3)):
                count = int(np.prod(shape)) + int(self.spoiled and draw.chance(0.3))
                if self.spoiled and draw.chance(0.2):
                    dtype = draw.choice(list(LISTS))
                _fill(draw, lists.feature_list[key].feature.add(), dtype, count)


@scripts("ParseSequenceExample", "ParseSequenceExampleV2", "ParseSingleSequenceExample")
def parse_sequence(script, op, types):
    draw = script.draw
    newer, one = op.endswith("V2"), op.startswith("ParseSingle")
    context, lists = Features(script, ragged=newer), Lists(script, ragged=newer)
    # Open dimensions are not for contexts, and defaults must be there.
    context.dense = [(k, t, [d for d in s if d is not None], draw.values(t, tuple(d for d in s if d is not None)))
                     for k, t, s, _ in context.dense]
    # TensorFlow leaves the splits of a single example undefined.
    single = one or (draw.chance(0.3) and not context.ragged and not lists.ragged)

    def sequence():
        message = tf.train.SequenceExample()
        context.fill(message.context)
        lists.fill(message.feature_lists)
        return message.SerializeToString()

    data = [sequence() for _ in range(1 if single else draw.integer(1, 4))]
    serialized = script.feed(np.array(data[0], object) if single else _strings(data))
    keys = {"context_sparse_keys": [k for k, _ in context.sparse],
            "context_dense_keys": [k for k, *_ in context.dense],
            "feature_list_sparse_keys": [k for k, _ in lists.sparse],
            "feature_list_dense_keys": [k for k, *_ in lists.dense]}
    missing = [k for k, _, _, m in lists.dense if m]
    attrs = {"context_sparse_types": [tf_type(t) for _, t in context.sparse],
             "feature_list_dense_types": [tf_type(t) for _, t, _, _ in lists.dense],
             "context_dense_shapes": [s for _, _, s, _ in context.dense],
             "feature_list_sparse_types": [tf_type(t) for _, t in lists.sparse],
             "feature_list_dense_shapes": [s for _, _, s, _ in lists.dense]}
    defaults = [script.feed(d, dtype=None if t == "string" else tf_type(t)) for _, t, _, d in context.dense]
    common = {"serialized": serialized, "context_dense_defaults": defaults, **attrs}
    numbers = {"Ncontext_sparse": len(context.sparse), "Nfeature_list_sparse": len(lists.sparse),
               "Nfeature_list_dense": len(lists.dense)}
    nothing = tf.constant([], tf.string)
    if one:
        outputs = raw(op, name="op", feature_list_dense_missing_assumed_empty=tf.constant(missing, tf.string),
                      debug_name=tf.constant("", tf.string),
                      **{name: [tf.constant(k) for k in value] for name, value in keys.items()}, **common)
    elif newer:
        outputs = raw(op, name="op", debug_name=nothing,
                      feature_list_dense_missing_assumed_empty=tf.constant([m for *_, m in lists.dense], tf.bool),
                      context_ragged_keys=tf.constant([k for k, *_ in context.ragged], tf.string),
                      feature_list_ragged_keys=tf.constant([k for k, *_ in lists.ragged], tf.string),
                      context_ragged_value_types=[tf_type(t) for _, t, _ in context.ragged],
                      context_ragged_split_types=[tf_type(s) for _, _, s in context.ragged],
                      feature_list_ragged_value_types=[tf_type(t) for _, t, _ in lists.ragged],
                      feature_list_ragged_split_types=[tf_type(s) for _, _, s in lists.ragged],
                      **{name: tf.constant(value, tf.string) for name, value in keys.items()}, **numbers, **common)
    else:
        outputs = raw(op, name="op", debug_name=nothing, feature_list_dense_missing_assumed_empty=missing,
                      Ncontext_dense=len(context.dense), **keys, **numbers, **common)
    outputs = [t for part in outputs for t in (part if isinstance(part, (list, tuple)) else [part])]
    if outputs:
        script.step(fetch=outputs)
    else:
        script.step(run=[tf.compat.v1.get_default_graph().get_operation_by_name("op")])
