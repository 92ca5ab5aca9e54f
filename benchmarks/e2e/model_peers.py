"""A training step of a whole model in PyTorch or TensorFlow, for benchmarks/run; model_graphs.py says what they are.

  model_peers.py torch|tensorflow MODEL FOLDER THREADS

TensorFlow runs the graphs in FOLDER. Speaks the protocol of peers.py.
"""
import json
import os
import pathlib
import sys

FRAMEWORK, MODEL, FOLDER, THREADS = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4])
os.environ["OMP_NUM_THREADS"] = str(THREADS)
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np  # noqa: E402
from model_data import CLASSES, FIELDS, NUMBERS, ROWS, UNITS, VOCABULARY, WIDTH, WORD  # noqa: E402
from model_data import image_batch, text_batch, wide_deep_batch  # noqa: E402
from stepping import checked, serve, session_config  # noqa: E402


def torch_steps():
    import torch
    from torch import nn
    from torch.nn import functional

    torch.set_num_threads(THREADS)
    torch.set_flush_denormal(True)

    class Block(nn.Module):
        """1x1, 3x3, 1x1 convolutions beside a shortcut, as Keras's ResNet-50 has them."""

        def __init__(self, inputs, width, stride, projected):
            super().__init__()
            def layer(a, b, kernel, step=1):
                return nn.Sequential(nn.Conv2d(a, b, kernel, step, kernel // 2), nn.BatchNorm2d(b, eps=1.001e-5))
            self.first, self.second = layer(inputs, width, 1, stride), layer(width, width, 3)
            self.third = layer(width, 4 * width, 1)
            self.shortcut = layer(inputs, 4 * width, 1, stride) if projected else None

        def forward(self, x):
            beside = x if self.shortcut is None else self.shortcut(x)
            x = functional.relu(self.first(x))
            return functional.relu(self.third(functional.relu(self.second(x))) + beside)

    def resnet50():
        layers = [nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64, eps=1.001e-5), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        inputs = 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                layers.append(Block(inputs, width, stride if i == 0 else 1, i == 0))
                inputs = 4 * width
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))

    def make_resnet50(channels_last, compiled):
        images, labels = (torch.from_numpy(a) for a in image_batch(MODEL))
        images = images.permute(0, 3, 1, 2)
        network = resnet50()
        if channels_last:
            network = network.to(memory_format=torch.channels_last)
        else:
            images = images.contiguous()
        loss = lambda: functional.cross_entropy(network(images), labels)  # noqa: E731
        return stepping(torch.compile(loss) if compiled else loss,
                        torch.optim.SGD(network.parameters(), 0.0005, momentum=0.9, foreach=True))

    class Text(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(VOCABULARY, WORD, sparse=True)
            self.lstm = nn.LSTM(WORD, UNITS, batch_first=True)
            self.dense = nn.Linear(UNITS, CLASSES)

        def forward(self, words):
            return self.dense(self.lstm(self.table(words))[1][0][0])

    def make_lstm(compiled):
        words, labels = text_batch()
        words, labels = torch.from_numpy(words.astype(np.int64)), torch.from_numpy(labels)
        network = Text()
        loss = lambda: functional.cross_entropy(network(words), labels)  # noqa: E731
        return stepping(torch.compile(loss) if compiled else loss,
                        torch.optim.Adagrad(network.parameters(), 0.01))

    class WideDeep(nn.Module):
        def __init__(self):
            super().__init__()
            def tables(width):
                return nn.ModuleList([nn.Embedding(ROWS, width, sparse=True) for _ in range(FIELDS)] +
                                     [nn.EmbeddingBag(ROWS, width, mode="mean", sparse=True)])
            self.wide, self.deep = tables(1), tables(WIDTH)
            self.bias = nn.Parameter(torch.zeros(1))
            self.dense = nn.Sequential(nn.Linear((FIELDS + 1) * WIDTH + NUMBERS, 128), nn.ReLU(), nn.Linear(128, 64),
                                       nn.ReLU(), nn.Linear(64, 1))

        def forward(self, ids, bag, offsets, numbers):
            def looked_up(tables):
                return [tables[i](ids[:, i]) for i in range(FIELDS)] + [tables[FIELDS](bag, offsets)]
            deep = self.dense(torch.cat([*looked_up(self.deep), numbers], 1))
            return sum(looked_up(self.wide)) + self.bias + deep

    def make_wide_deep(compiled):
        arrays = wide_deep_batch()
        offsets = np.concatenate([[0], np.cumsum(arrays["bag_counts"])[:-1]])
        inputs = [torch.from_numpy(a) for a in (arrays["ids"], arrays["bag_ids"], offsets, arrays["numbers"])]
        labels, network = torch.from_numpy(arrays["labels"]), WideDeep()
        loss = lambda: functional.binary_cross_entropy_with_logits(network(*inputs), labels)  # noqa: E731
        return stepping(torch.compile(loss) if compiled else loss,
                        torch.optim.Adagrad(network.parameters(), 0.01))

    def stepping(forward, optimiser):
        def step():
            optimiser.zero_grad(set_to_none=True)
            loss = forward()
            loss.backward()
            optimiser.step()
            return loss
        return step

    if MODEL.startswith("resnet50"):
        yield "eager, channels last", lambda: make_resnet50(True, False)
        yield "eager", lambda: make_resnet50(False, False)
        yield "compiled, channels last", lambda: make_resnet50(True, True)
    else:
        make = {"lstm": make_lstm, "lstm_block": make_lstm, "wide_deep": make_wide_deep}[MODEL]
        yield "eager", lambda: make(False)
        yield "compiled", lambda: make(True)


def tensorflow_steps():
    import tensorflow as tf

    tf1 = tf.compat.v1

    def make(inter_op_threads):
        folder = FOLDER / MODEL
        model = json.loads((folder / "model.json").read_text())
        graph = tf.Graph()
        with graph.as_default():
            definition = tf1.GraphDef()
            definition.ParseFromString((folder / "graph.pb").read_bytes())
            tf.import_graph_def(definition, name="")
            session = tf1.Session(graph=graph, config=session_config(tf1, THREADS, inter_op_threads))
            session.run(model["init"])
            call = session.make_callable([model["loss"], *model["train"]], list(model["feeds"]))
        arrays = [np.load(folder / file) for file in model["feeds"].values()]
        return lambda: call(*arrays)[0]

    for threads in sorted({1, THREADS}):
        yield f"session, callable, {threads} inter-op", lambda threads=threads: make(threads)


if __name__ == "__main__":
    steps = {"torch": torch_steps, "tensorflow": tensorflow_steps}[FRAMEWORK]()
    serve((name, lambda make=make: checked(make)) for name, make in steps)
