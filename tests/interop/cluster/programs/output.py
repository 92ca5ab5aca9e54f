"""What servers tell of a step: traces, partition graphs, printed lines, summaries."""
import json

import numpy as np
import tensorflow.compat.v1 as tf

from harness import wait_until
from programs import check
from registry import program


def chain():
    with tf.device("/job:ps/task:0"):
        a = tf.get_variable("a", initializer=tf.ones([64, 64]))
    with tf.device("/job:worker/task:1"):
        b = tf.matmul(a, a, name="product")
    with tf.device("/job:worker/task:2"):
        return a, tf.reduce_sum(b, name="total")


@program
def trace_full(cluster):
    """FULL_TRACE gives step stats of every task that took part, and a Timeline reads them."""
    from tensorflow.python.client import timeline
    a, total = chain()
    metadata = tf.RunMetadata()
    with tf.Session(cluster.target()) as sess:
        sess.run(a.initializer)
        sess.run(total, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
    stats = {device.device: {n.node_name for n in device.node_stats} for device in metadata.step_stats.dev_stats}
    for task, node in (("worker/replica:0/task:1", "product"), ("worker/replica:0/task:2", "total")):
        nodes = {name.rsplit("/", 1)[-1] for device, names in stats.items() if task in device for name in names}
        check.that(node in nodes, f"{node} is not among the nodes of {task}: {sorted(nodes)} of {sorted(stats)}")
    check.that(any("/job:ps/replica:0/task:0" in d for d in stats), f"devices {sorted(stats)}")
    for device in metadata.step_stats.dev_stats:
        for n in device.node_stats:
            check.that(n.all_start_micros > 0, f"start of {n.node_name}")
            check.that(n.all_end_rel_micros >= n.op_end_rel_micros >= 0, f"times of {n.node_name}")
    events = json.loads(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format())["traceEvents"]
    check.that(any(e.get("args", {}).get("op") == "MatMul" for e in events), "MatMul is not in the timeline")


@program
def trace_partition_graphs(cluster):
    """output_partition_graphs gives one graph a device, with sends and receives between them."""
    a, total = chain()
    metadata = tf.RunMetadata()
    with tf.Session(cluster.target()) as sess:
        sess.run(a.initializer)
        sess.run(total, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    graphs = metadata.partition_graphs
    devices = {node.device for graph in graphs for node in graph.node}
    for task in ("/job:ps/replica:0/task:0", "/job:worker/replica:0/task:1", "/job:worker/replica:0/task:2"):
        check.that(any(d.startswith(task) for d in devices), f"{task} is not among {sorted(devices)}")
    for graph in graphs:
        tasks = {d.rsplit("/device", 1)[0] for d in (node.device for node in graph.node) if d}
        check.that(len(tasks) == 1, f"a partition has nodes of {tasks}")
    ops = {node.op for graph in graphs for node in graph.node}
    check.that(any(op.endswith("Send") for op in ops) and any(op.endswith("Recv") for op in ops), f"ops {sorted(ops)}")


@program
def trace_none(cluster):
    """Without a trace level there are no stats."""
    a, total = chain()
    metadata = tf.RunMetadata()
    with tf.Session(cluster.target()) as sess:
        sess.run(a.initializer)
        sess.run(total, run_metadata=metadata)
    check.that(not metadata.step_stats.dev_stats and not metadata.partition_graphs, "stats that nobody asked for")


@program
def print_ops(cluster):
    """Print and tf.print write to the standard error of the task that runs them."""
    with tf.device("/job:ps/task:1"):
        x = tf.Print(tf.constant([1.5, 2.5]), [tf.constant([7, 8, 9])], message="old print: ")
        with tf.control_dependencies([tf.print("new print:", x, tf.constant("text"))]):
            y = x * 2
    with tf.Session(cluster.target()) as sess:
        check.equal(sess.run(y), np.array([3, 5], np.float32))
    task = cluster.task("ps", 1)
    wait_until(lambda: "old print: [7 8 9]" in task.log() and "new print: [1.5 2.5] \"text\"" in task.log(), 10,
               "the printed lines in the task's log")
    check.that("print:" not in cluster.task("ps", 0).log(), "another task printed too")


@program
def summaries(cluster):
    """Scalar, histogram, image and text summaries made on a worker and parsed by the client."""
    with tf.device("/job:worker/task:1"):
        x = tf.placeholder(tf.float32, [4])
        tf.summary.scalar("average", tf.reduce_mean(x))
        tf.summary.histogram("values", x)
        tf.summary.image("picture", tf.ones([1, 4, 4, 3]))
        merged = tf.summary.merge_all()
    with tf.Session(cluster.target()) as sess:
        summary = tf.Summary.FromString(sess.run(merged, {x: [1, 2, 3, 6]}))
    values = {v.tag.rsplit("/", 1)[-1] if "picture" not in v.tag else "picture": v for v in summary.value}
    check.that(values["average"].simple_value == 3.0, f"{values['average']}")
    check.that(values["values"].histo.num == 4 and values["values"].histo.sum == 12, f"{values['values']}")
    check.that((values["picture"].image.width, values["picture"].image.height) == (4, 4), "the picture")
    check.that(values["picture"].image.encoded_image_string.startswith(b"\x89PNG"), "the picture is no PNG")
