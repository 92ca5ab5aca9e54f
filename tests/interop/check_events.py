"""Compares event files with TensorBoard and TensorFlow, both ways: check_events.py EVENT_TOOL

1. Every kind of event that Tutti writes, as TensorBoard's readers and the providers behind its pages see it.
2. Files of TensorFlow's writers of both generations, as Tutti reads them; written again they are the same bytes.
3. A file that is cut anywhere: both sides read the same events.
"""
import os
import struct
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from checks import check, report, run_parts, run_tool, same  # noqa: E402
from tensorboard import context  # noqa: E402
from tensorboard.backend.event_processing import (data_provider, event_accumulator,  # noqa: E402
                                                  event_file_loader, plugin_event_multiplexer)
from tensorboard.plugins import base_plugin  # noqa: E402
from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups  # noqa: E402
from tensorboard.util import tensor_util  # noqa: E402

tf1 = tf.compat.v1

TOOL = sys.argv[1]


def tool(*args):
    return run_tool(TOOL, *args)


def event_files(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if "tfevents" in name)


# --- 1. Tutti writes, TensorBoard reads ---

def run_metadata():
    metadata = tf1.RunMetadata()
    metadata.step_stats.dev_stats.add(device="/cpu:0").node_stats.add(node_name="a", all_start_micros=5)
    return metadata


def write_ours(folder):
    with open(f"{folder}/run_metadata", "wb") as out:
        out.write(run_metadata().SerializeToString())
    tool("write", f"{folder}/logs", f"{folder}/run_metadata")
    return f"{folder}/logs"


def check_histogram(value, step, what):
    data = np.arange(100.0) * step - 50
    same((value.min, value.max, value.num, value.sum, value.sum_squares),
         (data.min(), data.max(), 100.0, data.sum(), (data ** 2).sum()), what)
    same(sum(value.bucket), 100.0, f"{what}, counts")
    cuts = [-np.inf, *value.bucket_limit]
    same([np.sum((data >= low) & (data < high)) for low, high in zip(cuts, cuts[1:])], list(value.bucket),
         f"{what}, buckets")


def check_accumulator(folder):
    """The reader that programs use."""
    logs = write_ours(folder)
    every = {key: 0 for key in event_accumulator.DEFAULT_SIZE_GUIDANCE}
    events = event_accumulator.EventAccumulator(logs, size_guidance=every)
    events.Reload()
    tags = events.Tags()
    same(set(tags["scalars"]), {"loss"}, "tags of scalars")
    same((tags["histograms"], tags["images"], tags["audio"]), (["weights"], ["picture"], ["sound"]), "tags")
    same(set(tags["tensors"]), {"note", "vector", "accuracy"}, "tags of tensors")
    same((tags["graph"], tags["run_metadata"]), (True, ["step 3"]), "graph and run metadata")
    same([(e.step, e.value) for e in events.Scalars("loss")], [(s, float(np.float32(1 / s))) for s in range(1, 5)],
         "scalars")
    for event in events.Histograms("weights"):
        old = event.histogram_value
        check_histogram(tf1.HistogramProto(min=old.min, max=old.max, num=old.num, sum=old.sum,
                                           sum_squares=old.sum_squares, bucket_limit=old.bucket_limit,
                                           bucket=old.bucket), event.step, f"histogram at {event.step}")
    for event in events.Images("picture"):
        pixels = tf.io.decode_png(event.encoded_image_string).numpy().ravel().tolist()
        same((event.width, event.height, pixels), (2, 2, [255, 0, 0, 0, 255, 0, 0, 0, 255, 1, 2, event.step]), "image")
    for event in events.Audio("sound"):
        sound, rate = tf.audio.decode_wav(event.encoded_audio_string)
        same((event.sample_rate, event.length_frames, event.content_type, int(rate)), (8000.0, 4, "audio/wav", 8000),
             "audio")
        check(np.allclose(np.ravel(sound), [0, 0.5, -0.5, 1], atol=1e-4), "samples of the audio")
    same([tensor_util.make_ndarray(e.tensor_proto).tolist() for e in events.Tensors("vector")],
         [[1.5, float(s)] for s in range(1, 5)], "tensors")
    same([(e.step, tensor_util.make_ndarray(e.tensor_proto).item().decode()) for e in events.Tensors("note")],
         [(s, f"step **{s}** é") for s in range(1, 5)], "text")
    plugin = events.SummaryMetadata("vector").plugin_data
    same((plugin.plugin_name, plugin.content), ("mine", b"content"), "metadata of a plugin")
    same(sorted(node.op for node in events.Graph().node), ["AddV2", "Const", "Const"], "graph")
    same(events.RunMetadata("step 3").SerializeToString(), run_metadata().SerializeToString(), "run metadata")
    logs_of = [e.session_log for path in event_files(logs)
               for e in event_file_loader.EventFileLoader(path).Load() if e.HasField("session_log")]
    same([(log.status, log.checkpoint_path, log.msg) for log in logs_of],
         [(1, "", ""), (3, "/x/model-3", ""), (2, "", "done")], "session logs")
    first = next(event_file_loader.EventFileLoader(event_files(logs)[0]).Load())
    same(first.file_version, "brain.Event:2", "file version")


def provider_of(folder):
    multiplexer = plugin_event_multiplexer.EventMultiplexer(
        tensor_size_guidance={name: 100 for name in ("images", "audio", "text", "histograms", "mine")})
    multiplexer.AddRunsFromDirectory(folder)
    multiplexer.Reload()
    return data_provider.MultiplexerDataProvider(multiplexer, folder)


def check_pages(folder):
    """What TensorBoard's pages ask for."""
    logs = write_ours(folder)
    provider = provider_of(logs)
    ctx = context.RequestContext()
    where = {"ctx": ctx, "experiment_id": ""}
    check({"scalars", "histograms", "images", "audio", "text", "mine"} <= set(provider.list_plugins(**where)),
          f"plugins {provider.list_plugins(**where)}")
    scalars = provider.read_scalars(**where, plugin_name="scalars", downsample=100)["."]
    same({tag: [(p.step, p.value) for p in points] for tag, points in scalars.items()},
         {"loss": [(s, np.float32(1 / s)) for s in range(1, 5)], "accuracy": [(s, s / 8) for s in range(1, 5)]},
         "page of scalars")
    shown = provider.list_scalars(**where, plugin_name="scalars")["."]["accuracy"]
    same((shown.display_name, shown.description), ("how good", "of *all*"), "description of a scalar")
    histograms = provider.read_tensors(**where, plugin_name="histograms", downsample=100)["."]["weights"]
    same([(p.step, p.numpy[:, 2].sum()) for p in histograms], [(s, 100.0) for s in range(1, 5)], "page of histograms")
    notes = provider.read_tensors(**where, plugin_name="text", downsample=100)["."]["note"]
    same([p.numpy.item().decode() for p in notes], [f"step **{s}** é" for s in range(1, 5)], "page of text")
    images = provider.read_blob_sequences(**where, plugin_name="images", downsample=100)["."]["picture"]
    same(len(images), 4, "page of images")
    for point in images:
        width, height, png = [provider.read_blob(ctx=ctx, blob_key=v.blob_key) for v in point.values]
        same((width, height, tf.io.decode_png(png).shape.as_list()), (b"2", b"2", [2, 2, 3]), "an image of the page")
    graphs = provider.read_blob_sequences(**where, plugin_name="graphs", downsample=100)["."]
    graph = tf1.GraphDef.FromString(provider.read_blob(
        ctx=ctx, blob_key=graphs["__run_graph__"][0].values[0].blob_key))
    same(len(graph.node), 3, "page of graphs")


def check_hparams(folder):
    tool("experiment", folder)
    rates = (0.25, 0.5)
    for rate in rates:
        tool("trial", f"{folder}/trial_{rate}", str(rate))
    provider = provider_of(folder)
    ctx = context.RequestContext()
    backend = backend_context.Context(base_plugin.TBContext(data_provider=provider))
    metadata = backend.hparams_metadata(ctx, "")
    experiment = backend.experiment_from_metadata(ctx, "", True, metadata, None)
    same({info.name: info.display_name for info in experiment.hparam_infos},
         {"rate": "learning rate", "bn": "", "optimiser": ""}, "experiment")
    shown = get_experiment.Handler(ctx, backend, "", api_pb2.GetExperimentRequest()).run()
    same([(m.name.tag, m.display_name) for m in shown.metric_infos], [("accuracy", "how good")], "metrics")
    request = api_pb2.ListSessionGroupsRequest(
        allowed_statuses=[api_pb2.STATUS_SUCCESS], start_index=0, slice_size=10,
        col_params=[api_pb2.ColParams(hparam="rate", order=api_pb2.ORDER_ASC)])
    groups = list_session_groups.Handler(ctx, backend, "", request).run().session_groups
    same([(g.hparams["rate"].number_value, g.hparams["bn"].bool_value, g.hparams["optimiser"].string_value,
           g.metric_values[0].value, g.sessions[0].start_time_secs, g.sessions[0].end_time_secs) for g in groups],
         [(rate, True, "adam", rate * 2, 100.0, 160.0) for rate in rates], "trials")


# --- 2. TensorFlow writes, Tutti reads ---

def write_v1(folder):
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.summary.scalar("scalar", tf.constant(0.25))
        tf1.summary.histogram("histogram", tf.constant([1.0, -2.0, 3.5]))
        tf1.summary.image("image", tf.zeros([2, 3, 4, 1]))
        tf1.summary.audio("audio", tf.zeros([1, 8, 2]), 100.0)
        tf1.summary.text("text", tf.constant(["a", "é"]))
        tf1.summary.tensor_summary("tensor", tf.constant([[1, 2], [3, 4]]))
        merged = tf1.summary.merge_all()
        writer = tf1.summary.FileWriter(folder, graph)
        for step in range(3):
            writer.add_summary(session.run(merged), step)
        writer.add_run_metadata(run_metadata(), "run é", 2)
        writer.add_session_log(tf1.SessionLog(status=tf1.SessionLog.CHECKPOINT, checkpoint_path="/m-2", msg="é"), 2)
        writer.close()


def write_v2(folder):
    writer = tf.summary.create_file_writer(folder)
    with writer.as_default():
        for step in range(3):
            tf.summary.scalar("scalar", 0.5 * step, step, description="d")
            tf.summary.histogram("histogram", [1.0, 2.0, 3.0], step)
            tf.summary.image("image", tf.zeros([1, 4, 4, 3]), step)
            tf.summary.audio("audio", tf.zeros([1, 8, 1]), 100, step)
            tf.summary.text("text", ["a", "b"], step)
            tf.summary.write("tensor", tf.constant([1.0, 2.0]), step)
    writer.close()


def as_hex(value):
    return "x" + (value.encode() if isinstance(value, str) else value).hex()


def number(value):
    return repr(float(value)).removesuffix(".0")


def value_text(value):
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return "scalar"
    if kind == "histo":
        return "histogram"
    if kind == "image":
        image = value.image
        return f"image {image.height} {image.width} {image.colorspace} {as_hex(image.encoded_image_string)}"
    if kind == "audio":
        audio = value.audio
        return f"audio {number(audio.sample_rate)} {audio.num_channels} {audio.length_frames} " \
               f"{as_hex(audio.encoded_audio_string)}"
    return f"tensor {as_hex(value.tensor.SerializeToString(deterministic=True))}" if kind == "tensor" else "nothing"


def numbers_of(value):
    if value.WhichOneof("value") == "simple_value":
        return [value.simple_value]
    histo = value.histo
    pairs = [x for pair in zip(histo.bucket_limit, histo.bucket) for x in pair]
    return [histo.min, histo.max, histo.num, histo.sum, histo.sum_squares, *pairs]


def event_text(event):
    kind = event.WhichOneof("what")
    texts = {"file_version": lambda: f"version {event.file_version}", "graph_def": lambda: f"graph {as_hex(event.graph_def)}",
             "meta_graph_def": lambda: f"meta_graph {as_hex(event.meta_graph_def)}", "summary": lambda: "summary",
             "session_log": lambda: f"session {event.session_log.status} {as_hex(event.session_log.checkpoint_path)} "
                                    f"{as_hex(event.session_log.msg)}",
             "tagged_run_metadata": lambda: f"run {as_hex(event.tagged_run_metadata.tag)} "
                                            f"{as_hex(event.tagged_run_metadata.run_metadata)}"}
    return texts[kind]()


def check_read(path):
    """Line by line, as event_tool prints it."""
    lines = iter(tool("read", path).splitlines())
    count = 0
    for record in records(path):
        event = tf1.Event.FromString(record[12:-4])
        count += 1
        time, step, text = next(lines, "0 0 nothing").split(" ", 2)
        same((float(time), int(step), text), (event.wall_time, event.step, event_text(event)), "event")
        for value in event.summary.value:
            _, tag, plugin, content, text = next(lines, "value x x x nothing").split(" ", 4)
            data = value.metadata.plugin_data
            same((tag, plugin, content), (as_hex(value.tag), as_hex(data.plugin_name), as_hex(data.content)), "value")
            if value.WhichOneof("value") in ("simple_value", "histo"):
                kind, *numbers = text.split()
                same(kind, value_text(value), value.tag)
                check(np.allclose(np.array(numbers, float), numbers_of(value), rtol=1e-6), f"numbers of {value.tag}")
            else:
                same(text, value_text(value), value.tag)
    same(next(lines, None), None, "lines left")
    check(count >= 4, f"only {count} events")


def records(path):
    with open(path, "rb") as file:
        raw = file.read()
    at, found = 0, []
    while at < len(raw):
        (size,) = struct.unpack_from("<Q", raw, at)
        found.append(raw[at:at + size + 16])
        at += size + 16
    return found


def check_theirs(folder):
    for name, write in (("v1", write_v1), ("v2", write_v2)):
        write(f"{folder}/{name}")
        (path,) = event_files(f"{folder}/{name}")
        check_read(path)
        tool("copy", path, f"{folder}/{name}_copy")
        (copied,) = event_files(f"{folder}/{name}_copy")
        same(len(records(copied)), len(records(path)), f"events of the copy ({name})")
        check(records(copied)[1:] == records(path)[1:], f"the copy of TensorFlow's {name} file differs")


# --- 3. Cut files ---

def check_cut(folder):
    logs = write_ours(folder)
    whole = event_files(logs)[0]
    with open(whole, "rb") as file:
        raw = file.read()
    ends = np.cumsum([0] + [len(r) for r in records(whole)])
    for size in sorted({*(int(e) for e in ends), *(int(e) + 5 for e in ends[:-1]), *(int(e) - 1 for e in ends[1:])}):
        path = f"{folder}/cut.tfevents"
        with open(path, "wb") as file:
            file.write(raw[:size])
        ours = [line for line in tool("read", path).splitlines() if not line.startswith("value ")]
        theirs = list(event_file_loader.RawEventFileLoader(path).Load())
        same(len(ours), len(theirs), f"events of {size} bytes")


def main():
    run_parts((check_accumulator, check_pages, check_hparams, check_theirs, check_cut))
    return report("event files")


if __name__ == "__main__":
    sys.exit(main())
