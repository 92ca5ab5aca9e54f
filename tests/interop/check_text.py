"""String, summary and printing ops against TensorFlow: check_text.py GRAPH_RUNNER FOLDER"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from graph_cases import GraphCase, check, unequal  # noqa: E402

r = tf.raw_ops
RNG = np.random.default_rng(20240301)
NUMBERS = ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
           "uint64", "complex64", "complex128", "bool"]
WORDS = ["", "a", "abc", " two words ", "tab\tnew\nline", "aéb€𝄞", b"\xff\x00\x80", "A" * 100]


def const(values, dtype=None):
    """A constant whose value the graph's shape rules do not see: errors then come from kernels."""
    value = tf.constant(values, dtype)
    return tf.compat.v1.placeholder_with_default(value, None)


def random_bytes(length):
    return RNG.integers(0, 256, length, dtype=np.uint8).tobytes()


def hash_cases():
    texts = [random_bytes(n) for n in list(range(0, 200)) + [255, 256, 257, 511, 512, 513, 1000, 4096, 100003]]
    for buckets in (1, 10, 2**31, 2**63 - 1):
        yield GraphCase(f"hash fast {buckets}",
                        lambda b=buckets: r.StringToHashBucketFast(input=texts, num_buckets=b))
        yield GraphCase(f"hash legacy {buckets}",
                        lambda b=buckets: r.StringToHashBucket(string_tensor=texts, num_buckets=b))
        for key in ([0, 0], [123, 456], [-1, 2**62]):
            yield GraphCase(f"hash strong {buckets} {key}", lambda b=buckets, k=key: r.StringToHashBucketStrong(
                input=texts, num_buckets=b, key=k))
    yield GraphCase("hash key", lambda: r.StringToHashBucketStrong(input=texts, num_buckets=3, key=[1]),
                    message="Key must have 2 elements")


def join_cases():
    join = lambda name, inputs, sep="": GraphCase(
        f"join {name}", lambda: r.StringJoin(inputs=[const(i) for i in inputs], separator=sep))
    yield join("scalars", ["a", "b"], "-")
    yield join("mixed", ["a", ["b", "c"], "d"], "/")
    yield join("one", [["a", ""]])
    yield join("shapes", [["a"], ["b", "c"]])
    yield join("empty", [np.zeros([0, 2], object), "x"])
    a = np.array([["a", "b", "c"], ["d", "e", "f"]])
    cube = np.array([chr(97 + i) for i in range(24)]).reshape(2, 3, 4)
    for keep in (False, True):
        for value, axes in ((a, 0), (a, [0, 1]), (a, [1, 0]), (a, [-1]), (a, []), (a, [0, 0]), (a, [2]), (a, [-3]),
                            (a, [-1, 1]), (cube, [2, 0]), (cube, [0, 2]), (cube, [1]), (cube, [2, 1, 0]), ("x", [])):
            yield GraphCase(f"reduce_join {np.shape(value)} {axes} {keep}", lambda v=value, x=axes, k=keep: r.ReduceJoin(
                inputs=const(v), reduction_indices=const(x, tf.int32), keep_dims=k, separator="-"))
    for shape, axis in (([2, 0], 1), ([0, 2], 1), ([0, 2], 0)):
        yield GraphCase(f"reduce_join empty {shape} {axis}", lambda s=shape, x=axis: r.ReduceJoin(
            inputs=const(np.zeros(s, object)), reduction_indices=x))


def substr_cases():
    for unit in ("BYTE", "UTF8_CHAR"):
        for text in ("", "abcde", "aéb€"):
            for pos in range(-7, 8):
                for length in (-2, 0, 1, 3, 100):
                    yield GraphCase(f"substr {unit} {text} {pos} {length}", lambda u=unit, t=text, p=pos, n=length:
                                    r.Substr(input=const(t), pos=const(p), len=const(n), unit=u), message="")
    for name, text, pos, length in (("same", ["abcd", "efgh"], [1, 2], [1, 2]), ("scalar", ["abcd", "efgh"], 1, 2),
                                    ("columns", ["abcd", "efgh"], [[1], [2]], [[1], [2]]),
                                    ("of scalar", "abcd", [1, 2], [1, 2]),
                                    ("shapes", ["abcd", "efgh"], [1, 2, 3], [1, 2, 3]),
                                    ("pos and len", ["abcd", "efgh"], [1, 2], 1),
                                    ("empty", np.zeros([0], object), 1, 2)):
        for dtype in (tf.int32, tf.int64):
            yield GraphCase(f"substr {name} {dtype.name}", lambda t=text, p=pos, n=length, d=dtype: r.Substr(
                input=const(t), pos=const(p, d), len=const(n, d)))


def split_cases():
    texts = ["a b  c", "", ",x;;y,", "é", " lead", "trail ", "<>1<>2<><>3", "\t x\n"]
    for delimiter in ("", " ", ",;", "x"):
        for skip in (True, False):
            yield GraphCase(f"split {delimiter!r} {skip}", lambda d=delimiter, s=skip: list(r.StringSplit(
                input=const(texts), delimiter=const(d), skip_empty=s)))
    for sep in ("", " ", "<>", ","):
        for most in (-5, -1, 0, 1, 2, 100):
            yield GraphCase(f"split_v2 {sep!r} {most}", lambda s=sep, m=most: list(r.StringSplitV2(
                input=const(texts), sep=const(s), maxsplit=m)))
    yield GraphCase("split nothing", lambda: list(r.StringSplitV2(input=const(np.zeros([0], object)), sep=" ")))
    yield GraphCase("split scalar", lambda: list(r.StringSplitV2(input=const("a"), sep=" ")),
                    message="input must be a vector")
    yield GraphCase("split delimiters", lambda: list(r.StringSplit(input=const(["a"]), delimiter=const(["a", "b"]))),
                    message="delimiter must be a scalar")


def simple_cases():
    texts = ["aÉß", "ÀÉ", "İ", "ǆ", "ﬁ", "Σς", "ŉ", "ΑΣ ΒΣΓ", "ΐ", "mixed Case 123", "", b"A\xffB\xc3", "Ω", "ǅ"]
    for encoding in ("", "utf-8"):
        for op in (r.StringLower, r.StringUpper):
            yield GraphCase(f"{op.__name__} {encoding}", lambda o=op, e=encoding: o(input=texts, encoding=e))
    yield GraphCase("lower latin-1", lambda: r.StringLower(input=["A"], encoding="latin-1"), message="utf-8")
    yield GraphCase("strip", lambda: r.StringStrip(input=WORDS + ["\x0b x \x0c\r", "\x00 a", "   "]))
    for unit in ("BYTE", "UTF8_CHAR"):
        yield GraphCase(f"length {unit}", lambda u=unit: r.StringLength(input=WORDS + [b"\xff\x80\x80"], unit=u))
    yield GraphCase("length empty", lambda: r.StringLength(input=const(np.zeros([2, 0], object))))


def regex_cases():
    texts = ["abc", "xabc", "a\nb", "", "aaa", "s3://bucket/x", "éa"]
    for pattern in ("a.*", "(?s)a.*", "", "^s3://.*", "[ab]+c", "a(", "(?i)ABC", "\\pL+"):
        shown = "Invalid pattern" if pattern == "a(" else ""
        yield GraphCase(f"match {pattern}", lambda p=pattern: r.RegexFullMatch(input=const(texts), pattern=const(p)),
                        message=shown)
        yield GraphCase(f"static match {pattern}", lambda p=pattern: r.StaticRegexFullMatch(
            input=const(texts), pattern=p), message=shown)
        for rewrite in ("", "[\\0]", "\\1", "\\\\"):
            for everywhere in (True, False):
                yield GraphCase(f"replace {pattern} {rewrite} {everywhere}", lambda p=pattern, w=rewrite, e=everywhere:
                                r.RegexReplace(input=const(texts), pattern=const(p), rewrite=const(w),
                                               replace_global=e), message=shown)
                yield GraphCase(f"static replace {pattern} {rewrite} {everywhere}",
                                lambda p=pattern, w=rewrite, e=everywhere: r.StaticRegexReplace(
                                    input=const(texts), pattern=p, rewrite=w, replace_global=e), message=shown)
    yield GraphCase("match vector", lambda: r.RegexFullMatch(input=const(texts), pattern=const(["a", "b"])),
                    message="Pattern must be scalar")


def values_of(dtype):
    dtype = tf.as_dtype(dtype)
    if dtype == tf.bool:
        return np.array([True, False])
    if dtype.is_integer:
        return np.array([0, 1, 23, dtype.max, dtype.min], dtype.as_numpy_dtype)
    if dtype.is_complex:
        return np.array([0, 1 - 2j, 1 / 3 + 1e10j, complex("nan+infj")], dtype.as_numpy_dtype)
    return np.array([0, -0.0, 1 / 3, -2.5, 1e4, 6e-5, float("nan"), float("inf"), -float("inf"),
                     1.5e-7 if dtype.size > 2 else 1], np.float64).astype(dtype.as_numpy_dtype)


def number_cases():
    options = [{}, {"precision": 2}, {"precision": 0}, {"scientific": True}, {"shortest": True}, {"fill": "0"},
               {"scientific": True, "shortest": True}, {"width": 0}, {"precision": 3, "width": 12, "fill": "0",
                                                                     "shortest": True}]
    options += [{"width": 12, "fill": fill} for fill in ("", " ", "0", "+", "-", "#", "x", "xx")]
    for dtype in NUMBERS + ["string"]:
        value = ["a", "", "xyz"] if dtype == "string" else values_of(dtype)
        for option in options:
            yield GraphCase(f"as_string {dtype} {option}", lambda v=value, d=dtype, o=option: r.AsString(
                input=const(v, tf.as_dtype(d)), **o))
    # Left out: over 31 characters, which TensorFlow refuses, and values that its threads flush to zero.
    texts = ["1", " 12 ", "-3", "+4", "1e3", "0x10", "-0xfF", "1.5", "", "abc", "99999999999999999999", "nan", "NaN",
             "inf", "-INF", "-Infinity", "1 2", "1e400", "-1e400", "1e-400", ".5", "5.", "1f", "2147483648",
             "-2147483648", "9223372036854775807", "9223372036854775808", "1e", "  ", "0b1", "1e39",
             "3.4028235e38", "3.4028236e38", "0x", "--1", "1_000", "0x1p3", "\n7\t"]
    for dtype in (tf.float32, tf.float64, tf.int32, tf.int64):
        for text in texts:
            yield GraphCase(f"to_number {dtype.name} {text:.20}", lambda t=text, d=dtype: r.StringToNumber(
                string_tensor=const([t]), out_type=d))


def byte_cases():
    yield GraphCase("encode base64", lambda: [r.EncodeBase64(input=[random_bytes(n) for n in range(20)]),
                                              r.EncodeBase64(input=["", "a", "ab", "abc", b"\xff\xfe\xfd"], pad=True)])
    for text in ("", "YQ", "YQ==", "YWI", "YWI=", "YWJj", "__79", "//79", "Y", "YQ=", "Y Q", "YR", "YQ==YQ==", "=",
                 "YWJj=", "YWI==", "====", "YWJjZGVm"):
        yield GraphCase(f"decode base64 {text}", lambda t=text: r.DecodeBase64(input=const([t])))
    raw = [bytes(range(16)), bytes(range(200, 216))]
    for dtype in ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
                  "complex64", "complex128"):
        for little in (True, False):
            yield GraphCase(f"decode_raw {dtype} {little}", lambda d=dtype, e=little: r.Bitcast(input=r.DecodeRaw(
                bytes=const(raw), out_type=tf.as_dtype(d), little_endian=e), type=tf.uint8) if d not in (
                    "int8", "uint8") else r.DecodeRaw(bytes=const(raw), out_type=tf.as_dtype(d), little_endian=e))
    for texts, dtype in ((["abc"], "int16"), (["ab", "abcd"], "uint8"), ([""], "int32"), (["", ""], "int32"),
                         (["\x00\x01"], "bool")):
        yield GraphCase(f"decode_raw {texts} {dtype}", lambda t=texts, d=dtype: r.DecodeRaw(
            bytes=const(t), out_type=tf.as_dtype(d)))
    yield GraphCase("decode_raw nothing", lambda: r.DecodeRaw(bytes=const(np.zeros([0, 2], object)), out_type=tf.int32))


def format_cases():
    tensors = [[[1, 2, 3], [4, 5, 6]], np.arange(24).reshape(2, 3, 4), 5, np.zeros([0], np.float32),
               np.zeros([2, 0], np.float32), np.zeros([0, 2], np.float32), ['a\n"b\'\\', "c"], "s\x01é\x7f", 1 + 2j,
               [[1.1, 1e10, 1e-7, float("nan"), -float("inf"), 1 / 3]], np.arange(20), np.arange(7, dtype=np.float64) / 3]
    tensors += [values_of(dtype) for dtype in NUMBERS]
    for i, tensor in enumerate(tensors):
        for limit in (-1, 1, 3, 10):
            yield GraphCase(f"format {i} {limit}", lambda t=tensor, n=limit: r.StringFormat(
                inputs=[const(t)], template="<%s>", summarize=n))
            yield GraphCase(f"assert {i} {limit}", lambda t=tensor, n=limit: r.Assert(
                condition=const(False), data=[const(t), const("and")], summarize=n), message=assert_text(tensor, limit))
    yield GraphCase("format two", lambda: r.StringFormat(inputs=[const(1), const("x")], template="a {} b {} c",
                                                         placeholder="{}"))
    yield GraphCase("format nothing", lambda: r.StringFormat(inputs=[], template="abc"))


def assert_text(tensor, limit):
    """The message that TensorFlow itself makes, to be found in Tutti's."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        try:
            session.run(r.Assert(condition=False, data=[tensor, "and"], summarize=limit))
        except tf.errors.InvalidArgumentError as error:
            text = error.message
            return text[text.index("assertion failed"):text.index(" [and]") + 6]
    raise AssertionError("TensorFlow did not fail")


def check_cases():
    bad = {"nan": [1, float("nan")], "inf": [float("inf")], "-inf": [-float("inf"), 2], "both": [float("inf"),
           -float("inf")], "all": [float("nan"), float("inf"), -float("inf")], "good": [1, 2], "empty": []}
    for name, value in bad.items():
        for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64):
            for op in (r.CheckNumerics, r.CheckNumericsV2):
                text = {"nan": "m : Tensor had NaN values", "good": "", "empty": ""}.get(name, "m : Tensor had ")
                yield GraphCase(f"{op.__name__} {name} {dtype.name}", lambda o=op, v=value, d=dtype: o(
                    tensor=const(v, d), message="m"), message=text)
    yield GraphCase("print_v2 vector", lambda: r.PrintV2(input=const(["a"])), message="expected to be scalar")
    yield GraphCase("print_v2 stream", lambda: r.PrintV2(input=const("a"), output_stream="nowhere"),
                    message="Unknown output stream: nowhere")
    yield GraphCase("print", lambda: r.Print(input=const([1, 2]), data=[], message="", first_n=0))


def same_summary(theirs, ours):
    """Messages equal; images by their pixels, since other encoders make other files."""
    a = tf.compat.v1.Summary.FromString(theirs.item())
    b = tf.compat.v1.Summary.FromString(ours.item())
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for x, y in zip(a.value, b.value):
            if x.HasField("image") and y.HasField("image"):
                pixels = session.run([tf.io.decode_png(v.image.encoded_image_string) for v in (x, y)])
                if unequal(*pixels):
                    return f"{x.tag}: {unequal(*pixels)}"
                x.image.encoded_image_string = y.image.encoded_image_string = b""
    return None if a.SerializeToString() == b.SerializeToString() else f"TensorFlow has {a}, Tutti {b}"


def summary_case(name, build, message=""):
    return GraphCase(name, build, message=message, compare=same_summary)


def summary_cases():
    for dtype in NUMBERS[:12]:
        value = np.array([0, 1, 2.5, 100, 3]).astype(tf.as_dtype(dtype).as_numpy_dtype)
        yield summary_case(f"scalar {dtype}", lambda v=value: r.ScalarSummary(tags=list("abcde"), values=const(v)))
        yield summary_case(f"histogram {dtype}", lambda v=value: r.HistogramSummary(tag="h", values=const(v)))
    yield summary_case("scalar one", lambda: r.ScalarSummary(tags="loss", values=const(float("nan"))))
    yield summary_case("scalar shapes", lambda: r.ScalarSummary(tags=const(["a", "b"]), values=const([1.0])),
                       message="tags and values are not the same shape")
    for name, value in (("normal", RNG.normal(size=1000)), ("empty", np.zeros([0])), ("wide", RNG.normal(size=100) * 1e30),
                        ("tiny", RNG.normal(size=100) * 1e-15), ("zero", np.zeros([3, 2])),
                        ("limits", [1e-12, -1e-12, 1.1e-12, 1e20, -1e20, 1e19])):
        yield summary_case(f"histogram {name}", lambda v=value: r.HistogramSummary(tag="h", values=const(v)))
    for value in ("nan", "inf", "-inf"):
        yield summary_case(f"histogram {value}", lambda v=value: r.HistogramSummary(
            tag="h", values=const([1.0, float(v)]), name="histo"), message="for: histo")
    yield from image_cases()
    yield from audio_cases()
    metadata = tf.compat.v1.SummaryMetadata(display_name="d", summary_description="s")
    metadata.plugin_data.plugin_name = "scalars"
    for value in (1.5, [1, 2], ["a", ""], np.zeros([0, 2]), True, 1j):
        yield summary_case(f"tensor v2 {value}", lambda v=value: r.TensorSummaryV2(
            tag="t", tensor=const(v), serialized_summary_metadata=metadata.SerializeToString()))
        yield summary_case(f"tensor {value}", lambda v=value: r.TensorSummary(tensor=const(v), name="node"))
    scalar = lambda tag: r.ScalarSummary(tags=tag, values=const(1.0))
    yield summary_case("merge", lambda: r.MergeSummary(inputs=[scalar("a"), scalar("b"), const("")]))
    yield summary_case("merge shapes", lambda: r.MergeSummary(inputs=[tf.stack([scalar("a"), scalar("b")])]))
    yield summary_case("merge twice", lambda: r.MergeSummary(inputs=[scalar("a"), scalar("a")]),
                       message="Duplicate tag a found in summary inputs")
    yield summary_case("merge garbage", lambda: r.MergeSummary(inputs=[const(b"\xff\xff")]),
                       message="Could not parse one of the summary inputs")


def image_cases():
    for dtype in (np.uint8, np.float16, np.float32, np.float64):
        for channels in (1, 3, 4):
            values = RNG.uniform(0, 255 if dtype == np.uint8 else 3, (5, 7, 9, channels)).astype(dtype)
            image = lambda v, **k: lambda: r.ImageSummary(tag="im", tensor=const(v), **k)
            yield summary_case(f"image {dtype.__name__} {channels}", image(values))
            yield summary_case(f"image one {dtype.__name__} {channels}", image(values, max_images=1))
            if dtype == np.uint8:
                continue
            yield summary_case(f"image signed {dtype.__name__} {channels}", image(values - dtype(2)))
            yield summary_case(f"image dark {dtype.__name__} {channels}", image(values * dtype(1e-8)))
            yield summary_case(f"image black {dtype.__name__} {channels}", image(values * dtype(0)))
            yield summary_case(f"image dim {dtype.__name__} {channels}", image(values * dtype(1e-4)))
            values[0, 1, 2, 0] = np.nan
            values[1, 2, 3, channels - 1] = np.inf
            values[2] = np.nan
            yield summary_case(f"image bad {dtype.__name__} {channels}", image(values))
            yield summary_case(f"image bad color {dtype.__name__} {channels}", image(
                values, bad_color=tf.make_tensor_proto(np.arange(channels, dtype=np.uint8))))
    yield summary_case("image none", lambda: r.ImageSummary(tag="im", tensor=const(np.zeros([0, 2, 2, 1], np.float32))))
    yield summary_case("image channels", lambda: r.ImageSummary(tag="im", tensor=const(np.zeros([1, 2, 2, 2], np.float32))),
                       message="Tensor must be 4-D with last dim 1, 3, or 4")
    yield summary_case("image rank", lambda: r.ImageSummary(tag="im", tensor=const(np.zeros([2, 2, 1], np.float32))),
                       message="Tensor must be 4-D with last dim 1, 3, or 4")
    yield summary_case("image short color", lambda: r.ImageSummary(
        tag="im", tensor=const(np.zeros([1, 2, 2, 3], np.float32)), bad_color=tf.make_tensor_proto(
            np.array([1], np.uint8))), message="bad_color")


def audio_cases():
    for shape in ((2, 50), (4, 20, 2), (1, 3, 1), (0, 5)):
        sound = RNG.uniform(-1.2, 1.2, shape).astype(np.float32)
        yield summary_case(f"audio {shape}", lambda s=sound: r.AudioSummaryV2(
            tag="s", tensor=const(s), sample_rate=const(8000.0)))
        yield summary_case(f"audio one {shape}", lambda s=sound: r.AudioSummaryV2(
            tag="s", tensor=const(s), sample_rate=const(8000.5), max_outputs=1))
    yield summary_case("audio rank", lambda: r.AudioSummaryV2(tag="s", tensor=const([1.0]), sample_rate=const(8000.0)))
    yield summary_case("audio rate", lambda: r.AudioSummaryV2(tag="s", tensor=const([[1.0]]), sample_rate=const(-1.0)))
    yield summary_case("audio silence", lambda: r.AudioSummaryV2(
        tag="s", tensor=const(np.zeros([1, 0], np.float32)), sample_rate=const(1.0)))


def cases():
    for family in (hash_cases, join_cases, substr_cases, split_cases, simple_cases, regex_cases, number_cases,
                   byte_cases, format_cases, check_cases, summary_cases):
        yield from family()


if __name__ == "__main__":
    tf.get_logger().setLevel("ERROR")
    tf.compat.v1.disable_v2_behavior()
    sys.exit(check(list(cases()), sys.argv[1], sys.argv[2], "text ops"))
