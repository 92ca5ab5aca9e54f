"""Recipes of string ops, summaries, checks and file names."""
import numpy as np

from drawing import NUMPY
from recipes import arguments, scripts
from script import Arguments, raw


def _words(draw, shape=None):
    return draw.values("string", draw.shape() if shape is None else shape)


@arguments("StringJoin")
def string_join(draw, op, types):
    shape = draw.shape()
    return Arguments({"separator": draw.choice(["", ", ", "é"])},
                     inputs=[_words(draw, () if draw.chance(0.3) else shape) for _ in range(draw.integer(1, 4))])


@arguments("StringToHashBucketFast", "StringToHashBucketStrong")
def hash_bucket(draw, op, types):
    attrs = {"num_buckets": draw.choice([1, 7, 1000, 2 ** 40])}
    if op.endswith("Strong"):
        attrs["key"] = [draw.integer(0, 2 ** 40), draw.integer(0, 2 ** 40)]
    return Arguments(attrs, input=_words(draw))


@arguments("StringToHashBucket", "StringToNumber")
def of_string_tensor(draw, op, types):
    if op == "StringToHashBucket":
        return Arguments({"num_buckets": draw.choice([1, 7, 1000])}, string_tensor=_words(draw))
    numbers = [b"1", b" -2 ", b"3e2", b"0.5", b"nan", b"inf", b"-0", b"", b"7x"][:9 if draw.chance(0.3) else 4]
    if types["out_type"].startswith(("int", "uint")):
        numbers = [b"1", b"-2", b"300", b" 4 ", b"1.5", b"99999999999999999999"][:6 if draw.chance(0.3) else 4]
    shape = draw.shape()
    picked = np.array([draw.choice(numbers) for _ in range(int(np.prod(shape)))], dtype=object).reshape(shape)
    from drawing import tf_type
    return Arguments({"out_type": tf_type(types["out_type"])}, string_tensor=picked, differentiable=False)


@arguments("StringStrip", "StringLower", "StringUpper", "StringLength", "EncodeBase64")
def of_input(draw, op, types):
    attrs = {"unit": draw.choice(["BYTE", "UTF8_CHAR"])} if op == "StringLength" else {}
    if op in ("StringLower", "StringUpper"):
        attrs = {"encoding": draw.choice(["", "utf-8"])}
    words = _words(draw)
    if attrs.get("encoding") or attrs.get("unit") == "UTF8_CHAR":
        words = np.where(words == b"\x00\xff", b"\xc3\x89", words) if words.size else words
    return Arguments(attrs, input=words)


@arguments("Substr")
def substr(draw, op, types):
    shape = draw.shape()
    words = np.array([draw.choice([b"Tutti", b"abcdef", b"0123456789"]) for _ in range(int(np.prod(shape)))],
                     dtype=object).reshape(shape)
    inner = draw.choice([shape, ()])
    # Spoiled shapes would be broadcast, for which TensorFlow has no more than two dimensions.
    return Arguments({"unit": draw.choice(["BYTE", "UTF8_CHAR"])}, input=words,
                     pos=draw.integers(-5, 5, inner, types["T"]), len=draw.integers(0, 8, inner, types["T"]),
                     fixed=["pos", "len"], spoilable=len(shape) < 2)


@arguments("AsString")
def as_string(draw, op, types):
    dtype = types["T"]
    attrs = {}
    if dtype in ("float", "double", "complex64", "complex128", "half", "bfloat16"):
        attrs["precision"] = draw.choice([-1, 0, 3])
        attrs[draw.choice(["scientific", "shortest"])] = draw.chance(0.5)
    if dtype != "bool" and draw.chance(0.5):
        attrs["width"] = draw.choice([-1, 8])
        attrs["fill"] = draw.choice(["", " ", "0"]) if attrs["width"] > 0 else ""
    x = draw.values(dtype, draw.shape())
    return Arguments(attrs, input=draw.with_specials(x, dtype) if draw.chance(0.2) else x, differentiable=False)


@arguments("ReduceJoin")
def reduce_join(draw, op, types):
    words = _words(draw)
    axes = np.array(draw.axes(words.ndim), np.int32)
    return Arguments({"keep_dims": draw.chance(0.5), "separator": draw.choice(["", "-"])}, inputs=words,
                     reduction_indices=axes, fixed=["reduction_indices"])


PATTERNS = [b"a+", b"(t+)i", b"[a-z]*", b"", b"\\d+", b"^T", b".*", b"(unclosed"]


@arguments("RegexReplace", "StaticRegexReplace")
def regex_replace(draw, op, types):
    pattern, rewrite = draw.choice(PATTERNS), draw.choice([b"", b"<\\0>", b"x"])
    attrs = {"replace_global": draw.chance(0.5)}
    if op == "StaticRegexReplace":
        return Arguments({**attrs, "pattern": pattern, "rewrite": rewrite}, input=_words(draw))
    return Arguments(attrs, input=_words(draw), pattern=np.array(pattern, object), rewrite=np.array(rewrite, object))


@arguments("RegexFullMatch", "StaticRegexFullMatch")
def regex_full_match(draw, op, types):
    pattern = draw.choice(PATTERNS)
    if op == "StaticRegexFullMatch":
        return Arguments({"pattern": pattern}, input=_words(draw))
    return Arguments(input=_words(draw), pattern=np.array(pattern, object))


@arguments("StringSplit", "StringSplitV2")
def string_split(draw, op, types):
    words = _words(draw, (draw.integer(0, 5),))
    separator = np.array(draw.choice([b"", b",", b" "]), object)
    if op == "StringSplit":
        return Arguments({"skip_empty": draw.chance(0.5)}, input=words, delimiter=separator)
    return Arguments({"maxsplit": draw.choice([-1, 0, 1, 2])}, input=words, sep=separator)


@arguments("ShardedFilename")
def sharded_filename(draw, op, types):
    return Arguments(basename=np.array(b"folder/model", object), shard=draw.integers(0, 9),
                     num_shards=draw.integers(10, 99))


@arguments("ShardedFilespec")
def sharded_filespec(draw, op, types):
    return Arguments(basename=np.array(b"folder/model", object), num_shards=draw.integers(1, 99))


# --- Summaries. Histograms and images are left to their own comparison: the order of protobuf fields is theirs. ---


@arguments("ScalarSummary")
def scalar_summary(draw, op, types):
    shape = draw.shape(max_rank=1, max_dim=3)
    tags = np.array([b"tag/%d" % i for i in range(int(np.prod(shape)))], object).reshape(shape)
    return Arguments(tags=tags, values=draw.values(types["T"], shape), differentiable=False)


@arguments("HistogramSummary")
def histogram_summary(draw, op, types):
    x = draw.values(types["T"], draw.shape())
    if draw.chance(0.2):
        x = draw.with_specials(x, types["T"]) if types["T"] in ("float", "double") else x
    return Arguments(tag=np.array(b"histogram", object), values=x, differentiable=False)


@arguments("TensorSummaryV2")
def tensor_summary(draw, op, types):
    return Arguments(tag=np.array(b"t", object), tensor=draw.values(types["T"], draw.shape()),
                     serialized_summary_metadata=np.array(b"", object), differentiable=False)


@arguments("TensorSummary")
def tensor_summary_v1(draw, op, types):
    return Arguments({"description": "d", "labels": ["a"], "display_name": "n"},
                     tensor=draw.values(types["T"], draw.shape()), differentiable=False)


@arguments("DecodeBase64")
def decode_base64(draw, op, types):
    words = [b"", b"VHV0dGk", b"AP8", b"_-8", b"!bad!"][:5 if draw.chance(0.3) else 4]
    shape = draw.shape()
    return Arguments(input=np.array([draw.choice(words) for _ in range(int(np.prod(shape)))], object).reshape(shape))


@scripts("MergeSummary")
def merge_summary(script, op, types):
    draw = script.draw
    parts = [raw("ScalarSummary", tags=script.feed(np.array(b"tag/%d" % (0 if script.spoiled else i), object)),
                 values=script.feed(draw.values("float", ()))) for i in range(draw.integer(1, 4))]
    script.step(fetch=[raw("MergeSummary", name="op", inputs=parts)])


# --- Checks. ---


@arguments("Assert")
def assertion(draw, op, types):
    return Arguments({"summarize": draw.integer(1, 4)}, condition=np.array(draw.chance(0.5)),
                     data=[draw.values(draw.choice(["float", "string", "int32"]), draw.shape())], differentiable=False)


@arguments("Print")
def print_(draw, op, types):
    return Arguments({"message": "drawn", "first_n": 0}, input=draw.values(types["T"], draw.shape()),
                     data=[draw.values("float", draw.shape())])


@arguments("StringFormat")
def string_format(draw, op, types):
    return Arguments({"template": "<{}>", "placeholder": "{}", "summarize": draw.integer(1, 4)},
                     inputs=[draw.values(draw.choice(["int32", "bool"]), draw.shape())])


@arguments("DecodeRaw")
def decode_raw(draw, op, types):
    from drawing import tf_type
    width = np.dtype(NUMPY[types["out_type"]]).itemsize
    shape = draw.shape(max_rank=2)
    count = draw.integer(0, 3)
    content = np.array([bytes(range(width * count)) for _ in range(int(np.prod(shape)))], object).reshape(shape)
    return Arguments({"out_type": tf_type(types["out_type"]), "little_endian": draw.chance(0.5)}, bytes=content)
