"""A training step in PyTorch or TensorFlow, for benchmarks/run.

  peers.py torch|tensorflow mlp|cnn BATCH THREADS

mlp is 784-500-500-10; cnn has three 3x3 convolutions of 32, 64 and 128 channels on 28x28 images, each with bias, ReLU
and 2x2 pool, and a dense layer. Adam, float. Each way of writing the step that the framework offers is tried
(stepping.py).
"""
import os
import sys

FRAMEWORK, MODEL, BATCH, THREADS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
os.environ["OMP_NUM_THREADS"] = str(THREADS)
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np  # noqa: E402
from stepping import checked, serve, session_config  # noqa: E402

ROWS = max(4096, BATCH)
SIZES = (784, 500, 500, 10)
CHANNELS = (1, 32, 64, 128)
FLAT = 3 * 3 * CHANNELS[-1]


def data():
    rng = np.random.default_rng(1)
    return rng.random((ROWS, SIZES[0]), np.float32), rng.integers(0, SIZES[-1], ROWS)


def batches():
    starts = range(0, ROWS - BATCH + 1, BATCH)
    while True:
        yield from starts


def torch_steps():
    import torch
    from torch import nn

    torch.set_num_threads(THREADS)
    torch.set_flush_denormal(True)  # as TensorFlow and Tutti do; without it Adam's moments make it several times slower
    images, labels = (torch.from_numpy(a) for a in data())

    def mlp():
        layers = []
        for inputs, outputs in zip(SIZES, SIZES[1:]):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    def cnn():
        layers = [nn.Unflatten(1, (1, 28, 28))]
        for inputs, outputs in zip(CHANNELS, CHANNELS[1:]):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(FLAT, 10))

    def make(compiled, channels_last=False, **adam):
        torch.manual_seed(1)
        model = {"mlp": mlp, "cnn": cnn}[MODEL]()
        if channels_last:
            model = model.to(memory_format=torch.channels_last)
        optimiser = torch.optim.Adam(model.parameters(), 1e-4, **adam)
        forward = torch.compile(lambda x, y: nn.functional.cross_entropy(model(x), y)) if compiled else (
            lambda x, y: nn.functional.cross_entropy(model(x), y))
        order = batches()

        def step():
            at = next(order)
            optimiser.zero_grad(set_to_none=True)
            loss = forward(images[at:at + BATCH], labels[at:at + BATCH])
            loss.backward()
            optimiser.step()
            return loss

        return step

    yield "eager, fused Adam", lambda: make(False, fused=True)
    yield "eager, foreach Adam", lambda: make(False, foreach=True)
    yield "compiled, fused Adam", lambda: make(True, fused=True)
    if MODEL == "cnn":
        yield "eager, channels last", lambda: make(False, channels_last=True, fused=True)
        yield "compiled, channels last", lambda: make(True, channels_last=True, fused=True)


def tensorflow_steps():
    import tensorflow as tf

    tf1 = tf.compat.v1
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    images, labels = data()

    if MODEL == "mlp":
        shapes = list(zip(SIZES, SIZES[1:]))
    else:
        shapes = [(3, 3, *pair) for pair in zip(CHANNELS, CHANNELS[1:])] + [(FLAT, 10)]

    def network(x, y, variables):
        if MODEL == "cnn":
            x = tf.reshape(x, [-1, 28, 28, 1])
        for i in range(0, len(variables), 2):
            if len(variables[i].shape) == 4:
                x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, variables[i], 1, "SAME"), variables[i + 1]))
                x = tf.nn.max_pool2d(x, 2, 2, "VALID")
                continue
            if len(x.shape) == 4:
                x = tf.reshape(x, [-1, FLAT])
            x = tf.matmul(x, variables[i]) + variables[i + 1]
            x = tf.nn.relu(x) if i + 2 < len(variables) else x
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x))

    def make_session(inter_op_threads):
        graph = tf.Graph()
        with graph.as_default():
            x, y = tf1.placeholder(tf.float32, [BATCH, SIZES[0]]), tf1.placeholder(tf.int64, [BATCH])
            variables = []
            for shape in shapes:
                variables.append(tf1.get_variable(f"w{len(variables)}", shape))
                variables.append(tf1.get_variable(f"b{len(variables)}", [shape[-1]]))
            loss = network(x, y, variables)
            train = tf1.train.AdamOptimizer(1e-4).minimize(loss)
            init = tf1.global_variables_initializer()
        session = tf1.Session(graph=graph, config=session_config(tf1, THREADS, inter_op_threads))
        session.run(init)
        with graph.as_default():
            call = session.make_callable([loss, train], [x, y])
        order = batches()

        def step():
            at = next(order)
            return call(images[at:at + BATCH], labels[at:at + BATCH])[0]

        return step

    def make_function(compiled):
        tf.random.set_seed(1)
        variables = []
        for shape in shapes:
            variables.append(tf.Variable(tf.random.normal(shape, stddev=0.05)))
            variables.append(tf.Variable(tf.zeros([shape[-1]])))
        optimiser = tf.keras.optimizers.legacy.Adam(1e-4)

        optimiser._create_all_weights(variables)  # in a compiled function no variable can be made

        @tf.function(jit_compile=compiled)
        def train(x, y):
            with tf.GradientTape() as tape:
                loss = network(x, y, variables)
            optimiser.apply_gradients(zip(tape.gradient(loss, variables), variables))
            return loss

        inputs = [(tf.constant(images[at:at + BATCH]), tf.constant(labels[at:at + BATCH]))
                  for at in range(0, ROWS - BATCH + 1, BATCH)]
        count = [0]

        def step():
            count[0] += 1
            return train(*inputs[count[0] % len(inputs)])

        return step

    for threads in sorted({1, THREADS}):
        yield f"session, callable, {threads} inter-op", lambda threads=threads: make_session(threads)
    yield "tf.function", lambda: make_function(False)
    yield "tf.function, XLA", lambda: make_function(True)


if __name__ == "__main__":
    steps = {"torch": torch_steps, "tensorflow": tensorflow_steps}[FRAMEWORK]()
    serve((name, lambda make=make: checked(make)) for name, make in steps)
