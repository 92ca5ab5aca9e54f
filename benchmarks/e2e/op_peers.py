"""One op in PyTorch or TensorFlow, for benchmarks/run: the peers of op_step_bench.cc, which lists the ops.

  op_peers.py torch|tensorflow OP THREADS

Speaks the protocol of peers.py.
"""
import os
import sys

FRAMEWORK, OP, THREADS = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.environ["OMP_NUM_THREADS"] = str(THREADS)
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np  # noqa: E402
from stepping import serve  # noqa: E402

WEIGHTS = 648010
ROWS, WIDTH, IDS = 200000, 64, 26 * 1024
BATCH, CLASSES, SEGMENTS = 1024, 1000, 20000
RNG = np.random.default_rng(1)


def numbers(*shape):
    return RNG.random(shape, np.float32)


def ids(limit, count):
    return RNG.integers(0, limit, count)


def bags():
    """For each id the bag that it is in: BATCH of them, equally large."""
    return np.arange(IDS) // (IDS // BATCH)


def torch_steps():
    import torch
    from torch.nn import functional

    torch.set_num_threads(THREADS)
    torch.set_flush_denormal(True)

    def tensor(array):
        return torch.from_numpy(array)

    def adam(**options):
        weights = torch.nn.Parameter(tensor(numbers(WEIGHTS)))
        weights.grad = tensor(numbers(WEIGHTS))
        return torch.optim.Adam([weights], 1e-4, **options).step

    def sparse_adagrad():
        table = torch.nn.Parameter(tensor(numbers(ROWS, WIDTH)))
        table.grad = torch.sparse_coo_tensor(tensor(ids(ROWS, IDS))[None], tensor(numbers(IDS, WIDTH)), (ROWS, WIDTH))
        return torch.optim.Adagrad([table], 0.01).step

    def gather():
        table, rows = tensor(numbers(ROWS, WIDTH)), tensor(ids(ROWS, IDS))
        return lambda: functional.embedding(rows, table)

    def embedding_bag(gradient=False):
        table = tensor(numbers(ROWS, WIDTH)).requires_grad_(gradient)
        rows, starts = tensor(ids(ROWS, IDS)), tensor(np.arange(BATCH) * (IDS // BATCH))

        def step():
            return functional.embedding_bag(rows, table, starts, mode="mean", sparse=gradient)
        if not gradient:
            return step
        out, above = step(), tensor(numbers(BATCH, WIDTH))
        # Coalesced, as TensorFlow's and Tutti's are: each row once.
        return lambda: torch.autograd.grad(out, table, above, retain_graph=True)[0].coalesce()

    def segment_sum():
        rows, segments = tensor(numbers(IDS, WIDTH)), tensor(ids(SEGMENTS, IDS))
        return lambda: torch.zeros(SEGMENTS, WIDTH).index_add_(0, segments, rows)

    def softmax_xent():
        logits, labels = tensor(numbers(BATCH, CLASSES)).requires_grad_(), tensor(ids(CLASSES, BATCH))

        def step():
            logits.grad = None
            functional.cross_entropy(logits, labels, reduction="sum").backward()
        return step

    def pool(function, last, gradient=False):
        images = tensor(numbers(128, 32, 28, 28))
        images = images.to(memory_format=torch.channels_last if last else torch.contiguous_format)
        if not gradient:
            return lambda: function(images, 2)
        out = function(images.requires_grad_(), 2)
        above = torch.rand_like(out)
        return lambda: torch.autograd.grad(out, images, above, retain_graph=True)

    def compiled(make):
        return lambda: torch.compile(make())

    ways = {
        "adam": {"fused": lambda: adam(fused=True), "foreach": lambda: adam(foreach=True)},
        "sparse_adagrad": {"eager": sparse_adagrad},
        "gather": {"eager": gather, "compiled": compiled(gather)},
        "embedding_bag": {"eager": embedding_bag},
        "embedding_bag_grad": {"eager": lambda: embedding_bag(True)},
        "segment_sum": {"eager": segment_sum},
        "softmax_xent": {"eager": softmax_xent, "compiled": compiled(softmax_xent)},
    }
    for op, function, gradient in (("max_pool", functional.max_pool2d, False), ("avg_pool", functional.avg_pool2d, False),
                                   ("max_pool_grad", functional.max_pool2d, True)):
        ways[op] = {layout: lambda f=function, last=last, g=gradient: pool(f, last, g)
                    for layout, last in (("channels last", True), ("channels first", False))}
    return ways[OP]


def tensorflow_steps():
    import tensorflow as tf

    raw = tf.raw_ops
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(1)

    def adam():
        weights, m, v, gradient = (tf.Variable(numbers(WEIGHTS)) for _ in range(4))
        return lambda: raw.ResourceApplyAdam(
            var=weights.handle, m=m.handle, v=v.handle, beta1_power=0.5, beta2_power=0.5, lr=1e-4, beta1=0.9,
            beta2=0.999, epsilon=1e-7, grad=gradient)

    def sparse_adagrad():
        table, sums = (tf.Variable(numbers(ROWS, WIDTH)) for _ in range(2))
        gradient, rows = tf.Variable(numbers(IDS, WIDTH)), tf.Variable(ids(ROWS, IDS))
        return lambda: raw.ResourceSparseApplyAdagradV2(var=table.handle, accum=sums.handle, lr=0.01, epsilon=1e-7,
                                                        grad=gradient, indices=rows)

    def gather():
        table, rows = tf.Variable(numbers(ROWS, WIDTH)), tf.Variable(ids(ROWS, IDS))
        return lambda: raw.ResourceGather(resource=table.handle, indices=rows, dtype=tf.float32).op

    def embedding_bag():
        table, rows, segments = tf.Variable(numbers(ROWS, WIDTH)), tf.Variable(ids(ROWS, IDS)), tf.Variable(bags())
        return lambda: raw.SparseSegmentMean(data=table, indices=rows, segment_ids=segments).op

    def embedding_bag_grad():
        above, rows, segments = tf.Variable(numbers(BATCH, WIDTH)), tf.Variable(ids(ROWS, IDS)), tf.Variable(bags())
        return lambda: raw.SparseSegmentMeanGradV2(grad=above, indices=rows, segment_ids=segments,
                                                   dense_output_dim0=ROWS).output.op

    def segment_sum():
        rows, segments = tf.Variable(numbers(IDS, WIDTH)), tf.Variable(ids(SEGMENTS, IDS))
        return lambda: raw.UnsortedSegmentSum(data=rows, segment_ids=segments, num_segments=SEGMENTS).op

    def softmax_xent():
        logits, labels = tf.Variable(numbers(BATCH, CLASSES)), tf.Variable(ids(CLASSES, BATCH))
        return lambda: raw.SparseSoftmaxCrossEntropyWithLogits(features=logits, labels=labels).loss.op

    window = dict(ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")

    def pool(function, name):
        images = tf.Variable(numbers(128, 28, 28, 32))
        return lambda: function(**{name: images}, **window).op

    def max_pool_grad():
        pixels = numbers(128, 28, 28, 32)
        images, above = tf.Variable(pixels), tf.Variable(numbers(128, 14, 14, 32))
        pooled = tf.Variable(pixels.reshape(128, 14, 2, 14, 2, 32).max((2, 4)))
        return lambda: raw.MaxPoolGrad(orig_input=images, orig_output=pooled, grad=above, **window).op

    build = {"adam": adam, "sparse_adagrad": sparse_adagrad, "gather": gather,
             "embedding_bag": embedding_bag, "embedding_bag_grad": embedding_bag_grad, "segment_sum": segment_sum,
             "softmax_xent": softmax_xent,
             "max_pool": lambda: pool(raw.MaxPool, "input"), "avg_pool": lambda: pool(raw.AvgPool, "value"),
             "max_pool_grad": max_pool_grad}[OP]

    def session():
        tf1 = tf.compat.v1
        with tf.Graph().as_default() as graph:
            tf1.enable_resource_variables()
            op = build()()
            init = tf1.global_variables_initializer()
            opened = tf1.Session(graph=graph)
            opened.run(init)
            return opened.make_callable(op)

    return {"session, callable": session}


if __name__ == "__main__":
    serve({"torch": torch_steps, "tensorflow": tensorflow_steps}[FRAMEWORK]().items())
