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
from stepping import serve, session_config  # noqa: E402

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

    def momentum():
        weights = torch.nn.Parameter(tensor(numbers(WEIGHTS)))
        weights.grad = tensor(numbers(WEIGHTS))
        return torch.optim.SGD([weights], 1e-4, momentum=0.9, foreach=True).step

    def sparse_adagrad(coalesced):
        table = torch.nn.Parameter(tensor(numbers(ROWS, WIDTH)))
        table.grad = torch.sparse_coo_tensor(tensor(ids(ROWS, IDS))[None], tensor(numbers(IDS, WIDTH)), (ROWS, WIDTH))
        if coalesced:  # else each step does it
            table.grad = table.grad.coalesce()
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

    def product(function, *shapes):
        operands = [tensor(numbers(*shape)) for shape in shapes]
        return lambda: function(*operands)

    def einsum(equation):
        return lambda *operands: torch.einsum(equation, *operands)

    products = {
        "einsum_dense": lambda: product(einsum("abc,cde->abde"), (32, 128, 512), (512, 8, 64)),
        "einsum_scores": lambda: product(einsum("aecd,abcd->acbe"), (32, 128, 8, 64), (32, 128, 8, 64)),
        "batch_matmul": lambda: product(torch.bmm, (256, 128, 64), (256, 64, 128)),
        "top_k": lambda: product(lambda x: torch.topk(x, 10), (256, 32000)),
        "matmul": lambda: product(torch.matmul, (512, 1024), (1024, 1024)),
        "bias_relu": lambda: product(lambda x, bias: functional.relu_(x + bias), (16, 32, 32, 256), (256,)),
        "softmax": lambda: product(lambda x: functional.softmax(x, -1), (32768, 128)),
        "row_mean": lambda: product(lambda x: x.mean(1, keepdim=True), (4096, 512)),
        "squared_difference": lambda: product(lambda x, mean: (x - mean).square_(), (4096, 512), (4096, 1)),
        "transpose": lambda: product(lambda x: x.permute(0, 2, 1, 3).contiguous(), (32, 128, 8, 64)),
        "concat": lambda: product(lambda *blocks: torch.cat(blocks, 3), *[(16, 17, 17, 192)] * 4),
    }

    def resize_bilinear(last):
        images = tensor(numbers(32, 3, 256, 256))
        images = images.to(memory_format=torch.channels_last if last else torch.contiguous_format)
        return lambda: functional.interpolate(images, (224, 224), mode="bilinear", align_corners=False)

    def convolution(kernel, outputs, last, wanted=None):
        """The output, or the gradient of an argument: 0 the images, 1 the filter."""
        layout = torch.channels_last if last else torch.contiguous_format
        images = tensor(numbers(16, 128, 16, 16)).to(memory_format=layout)
        filters = tensor(numbers(outputs, 128, kernel, kernel)).to(memory_format=layout)
        if wanted is None:
            return lambda: functional.conv2d(images, filters, padding=kernel // 2)
        argument = (images, filters)[wanted].requires_grad_()
        out = functional.conv2d(images, filters, padding=kernel // 2)
        above = torch.rand_like(out)
        return lambda: torch.autograd.grad(out, argument, above, retain_graph=True)

    def batch_norm(last, gradient):
        images = tensor(numbers(16, 512, 16, 16))
        images = images.to(memory_format=torch.channels_last if last else torch.contiguous_format)
        scale, offset = (tensor(numbers(512)).requires_grad_() for _ in range(2))
        if not gradient:
            return lambda: functional.batch_norm(images, None, None, scale, offset, training=True)
        out = functional.batch_norm(images.requires_grad_(), None, None, scale, offset, training=True)
        above = torch.rand_like(out)
        return lambda: torch.autograd.grad(out, (images, scale, offset), above, retain_graph=True)

    def lstm(gradient):
        x, network = tensor(numbers(40, 32, 64)).requires_grad_(gradient), torch.nn.LSTM(64, 128)

        def step():
            with torch.set_grad_enabled(gradient):
                out = network(x)[0]
            if gradient:
                torch.autograd.grad(out.sum(), (x, *network.parameters()))
        return step

    def max_pool3(last):
        images = tensor(numbers(16, 64, 32, 32))
        images = images.to(memory_format=torch.channels_last if last else torch.contiguous_format)
        return lambda: functional.max_pool2d(images, 3, 2, 1)

    def conv7x7(last):
        layout = torch.channels_last if last else torch.contiguous_format
        images = tensor(numbers(16, 3, 64, 64)).to(memory_format=layout)
        filters = tensor(numbers(64, 3, 7, 7)).to(memory_format=layout)
        return lambda: functional.conv2d(images, filters, stride=2, padding=3)

    def compiled(make):
        return lambda: torch.compile(make())

    ways = {
        "adam": {"fused": lambda: adam(fused=True), "foreach": lambda: adam(foreach=True)},
        "momentum": {"foreach": momentum},
        "sparse_adagrad": {"eager": lambda: sparse_adagrad(False), "eager, coalesced": lambda: sparse_adagrad(True)},
        "gather": {"eager": gather, "compiled": compiled(gather)},
        "embedding_bag": {"eager": embedding_bag},
        "embedding_bag_grad": {"eager": lambda: embedding_bag(True)},
        "segment_sum": {"eager": segment_sum},
        "softmax_xent": {"eager": softmax_xent, "compiled": compiled(softmax_xent)},
        "resize_bilinear": {"channels last": lambda: resize_bilinear(True),
                            "channels first": lambda: resize_bilinear(False)},
    }
    for op, function, gradient in (("max_pool", functional.max_pool2d, False), ("avg_pool", functional.avg_pool2d, False),
                                   ("max_pool_grad", functional.max_pool2d, True),
                                   ("avg_pool_grad", functional.avg_pool2d, True)):
        ways[op] = {layout: lambda f=function, last=last, g=gradient: pool(f, last, g)
                    for layout, last in (("channels last", True), ("channels first", False))}
    ways.update({op: {"eager": make} for op, make in products.items()})
    for op, arguments in (("conv3x3", (3, 128)), ("conv1x1", (1, 512))):
        ways[op] = {layout: lambda a=arguments, last=last: convolution(*a, last)
                    for layout, last in (("channels last", True), ("channels first", False))}
    for op, wanted in (("conv_input_grad", 0), ("conv_filter_grad", 1)):
        ways[op] = {layout: lambda w=wanted, last=last: convolution(3, 128, last, w)
                    for layout, last in (("channels last", True), ("channels first", False))}
    for op, gradient in (("batch_norm", False), ("batch_norm_grad", True)):
        ways[op] = {layout: lambda g=gradient, last=last: batch_norm(last, g)
                    for layout, last in (("channels last", True), ("channels first", False))}
    for op, make in (("max_pool3", max_pool3), ("conv7x7", conv7x7)):
        ways[op] = {"channels last": lambda m=make: m(True), "channels first": lambda m=make: m(False)}
    for op in ("bias_relu", "softmax", "row_mean", "squared_difference"):
        ways[op]["compiled"] = compiled(products[op])
    ways["lstm_sequence"] = {"eager": lambda: lstm(False)}
    ways["lstm_training"] = {"eager": lambda: lstm(True)}
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

    def momentum():
        weights, sums, gradient = (tf.Variable(numbers(WEIGHTS)) for _ in range(3))
        return lambda: raw.ResourceApplyMomentum(var=weights.handle, accum=sums.handle, lr=1e-4, grad=gradient,
                                                 momentum=0.9)

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

    def einsum(equation, *shapes):
        operands = [tf.Variable(numbers(*shape)) for shape in shapes]
        return lambda: raw.Einsum(inputs=[o.read_value() for o in operands], equation=equation).op

    def batch_matmul():
        x, y = tf.Variable(numbers(256, 128, 64)), tf.Variable(numbers(256, 64, 128))
        return lambda: raw.BatchMatMulV2(x=x, y=y).op

    def top_k():
        x = tf.Variable(numbers(256, 32000))
        return lambda: raw.TopKV2(input=x, k=10).values.op

    def resize_bilinear():
        images = tf.Variable(numbers(32, 256, 256, 3))
        return lambda: raw.ResizeBilinear(images=images, size=[224, 224], half_pixel_centers=True).op

    def decode_jpeg():
        y, x, c = np.meshgrid(np.arange(375), np.arange(500), np.arange(3), indexing="ij")
        pixels = (3 * y + 2 * x + 60 * c + (7919 * y + 104729 * x) % 13) % 256
        with tf.Graph().as_default(), tf.compat.v1.Session() as once:
            data = once.run(raw.EncodeJpeg(image=pixels.astype(np.uint8)))
        contents = tf.Variable(data)
        return lambda: raw.DecodeJpeg(contents=contents).op

    def parse_example():
        def example(i):
            message = tf.train.Example()
            features = message.features.feature
            for k in range(13):
                features[f"dense feature {k}"].float_list.value.append(0.5 * k)
            for k in range(26):
                features[f"category {k}"].int64_list.value.append((i * 7919 + k * 104729) % 1000000)
            return message.SerializeToString()
        serialized = tf.Variable([example(i) for i in range(BATCH)])
        return lambda: raw.ParseExampleV2(
            serialized=serialized, names=tf.constant([], tf.string), sparse_keys=tf.constant([], tf.string),
            dense_keys=[f"dense feature {k}" for k in range(13)] + [f"category {k}" for k in range(26)],
            ragged_keys=tf.constant([], tf.string),
            dense_defaults=[tf.constant([], tf.float32)] * 13 + [tf.constant([], tf.int64)] * 26, num_sparse=0,
            sparse_types=[], ragged_value_types=[], ragged_split_types=[], dense_shapes=[[1]] * 39).dense_values[0].op

    images = lambda channels: tf.Variable(numbers(16, 16, 16, channels))  # noqa: E731
    filters = lambda *shape: tf.Variable(numbers(*shape))  # noqa: E731
    plain = dict(strides=[1, 1, 1, 1], padding="SAME")

    def convolution(kernel, outputs):
        x, w = images(128), filters(kernel, kernel, 128, outputs)
        return lambda: raw.Conv2D(input=x, filter=w, **plain).op

    def conv_input_grad():
        w, above = filters(3, 3, 128, 128), images(128)
        return lambda: raw.Conv2DBackpropInput(input_sizes=[16, 16, 16, 128], filter=w, out_backprop=above, **plain).op

    def conv_filter_grad():
        x, above = images(128), images(128)
        return lambda: raw.Conv2DBackpropFilter(input=x, filter_sizes=[3, 3, 128, 128], out_backprop=above, **plain).op

    def batch_norm():
        x, scale, offset = images(512), filters(512), filters(512)
        return lambda: raw.FusedBatchNormV3(x=x, scale=scale, offset=offset, mean=[], variance=[]).y.op

    def batch_norm_grad():
        x, above, scale, mean, variance = images(512), images(512), filters(512), filters(512), filters(512)
        return lambda: raw.FusedBatchNormGradV3(y_backprop=above, x=x, scale=scale, reserve_space_1=mean,
                                                reserve_space_2=variance, reserve_space_3=[0.0]).x_backprop.op

    def lstm(gradient):
        x, state, w, peephole, bias = filters(40, 32, 64), filters(32, 128), filters(192, 512), filters(128), filters(512)

        def step():
            out = raw.BlockLSTM(seq_len_max=tf.constant(40, tf.int64), x=x, cs_prev=state, h_prev=state, w=w,
                                wci=peephole, wcf=peephole, wco=peephole, b=bias, cell_clip=0.0).h
            return tf.gradients(tf.reduce_sum(out), [x, w, bias])[0].op if gradient else out.op  # one op has all three
        return step

    def elementwise(function, *shapes):
        operands = [tf.Variable(numbers(*shape)) for shape in shapes]
        return lambda: function(*operands).op

    def avg_pool_grad():
        above = tf.Variable(numbers(128, 14, 14, 32))
        return lambda: raw.AvgPoolGrad(orig_input_shape=[128, 28, 28, 32], grad=above, **window).op

    def conv7x7():
        x, w = tf.Variable(numbers(16, 64, 64, 3)), filters(7, 7, 3, 64)
        return lambda: raw.Conv2D(input=x, filter=w, strides=[1, 2, 2, 1], padding="SAME").op

    build = {"momentum": momentum, "avg_pool_grad": avg_pool_grad, "conv7x7": conv7x7,
             "max_pool3": lambda: elementwise(lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"), (16, 32, 32, 64)),
             "matmul": lambda: elementwise(tf.matmul, (512, 1024), (1024, 1024)),
             "bias_relu": lambda: elementwise(lambda x, b: tf.nn.relu(tf.nn.bias_add(x, b)), (16, 32, 32, 256), (256,)),
             "softmax": lambda: elementwise(tf.nn.softmax, (32768, 128)),
             "row_mean": lambda: elementwise(lambda x: tf.reduce_mean(x, 1, keepdims=True), (4096, 512)),
             "squared_difference": lambda: elementwise(tf.math.squared_difference, (4096, 512), (4096, 1)),
             "transpose": lambda: elementwise(lambda x: tf.transpose(x, [0, 2, 1, 3]), (32, 128, 8, 64)),
             "concat": lambda: elementwise(lambda *blocks: tf.concat(blocks, 3), *[(16, 17, 17, 192)] * 4),
             "conv3x3": lambda: convolution(3, 128), "conv1x1": lambda: convolution(1, 512),
             "conv_input_grad": conv_input_grad, "conv_filter_grad": conv_filter_grad, "batch_norm": batch_norm,
             "batch_norm_grad": batch_norm_grad, "lstm_sequence": lambda: lstm(False), "lstm_training": lambda: lstm(True),
             "einsum_dense": lambda: einsum("abc,cde->abde", (32, 128, 512), (512, 8, 64)),
             "einsum_scores": lambda: einsum("aecd,abcd->acbe", (32, 128, 8, 64), (32, 128, 8, 64)),
             "batch_matmul": batch_matmul, "top_k": top_k, "resize_bilinear": resize_bilinear,
             "decode_jpeg": decode_jpeg, "parse_example": parse_example, "adam": adam,
             "sparse_adagrad": sparse_adagrad, "gather": gather, "embedding_bag": embedding_bag,
             "embedding_bag_grad": embedding_bag_grad, "segment_sum": segment_sum, "softmax_xent": softmax_xent,
             "max_pool": lambda: pool(raw.MaxPool, "input"), "avg_pool": lambda: pool(raw.AvgPool, "value"),
             "max_pool_grad": max_pool_grad}[OP]

    def session(inter_op_threads):
        tf1 = tf.compat.v1
        with tf.Graph().as_default() as graph:
            tf1.enable_resource_variables()
            op = build()()
            init = tf1.global_variables_initializer()
            opened = tf1.Session(graph=graph, config=session_config(tf1, THREADS, inter_op_threads))
            opened.run(init)
            return opened.make_callable(op)

    return {f"session, callable, {threads} inter-op": lambda threads=threads: session(threads)
            for threads in sorted({1, THREADS})}


if __name__ == "__main__":
    serve({"torch": torch_steps, "tensorflow": tensorflow_steps}[FRAMEWORK]().items())
