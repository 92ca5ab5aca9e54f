"""ResNet-50 and Inception v3 as Keras has them, in training mode, on small images.

Fresh weights under batch normalisation make rounding grow from layer to layer: TensorFlow's own gradients, with oneDNN
and without, are a few percent apart, and so are its losses after a step. Only the loss before it is compared.
"""
import tensorflow as tf

from model import minimised, rng_for, tf1

CLASSES = 10


def application(name, make, batch, side, rate):
    rng = rng_for(name)
    tf1.set_random_seed(7)
    tf.keras.backend.set_learning_phase(1)
    x = tf1.placeholder(tf.float32, [batch, side, side, 3], "images")
    y = tf1.placeholder(tf.int64, [batch], "labels")
    network = make(weights=None, input_tensor=x, classes=CLASSES, classifier_activation=None)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=network.output))
    feeds = {x: rng.standard_normal((batch, side, side, 3)).astype("float32"), y: rng.integers(0, CLASSES, batch)}
    return minimised(name, loss, feeds, tf1.train.MomentumOptimizer(rate, 0.9), also=network.updates,
                     compared=1)


def resnet50(batch=8, side=64):
    return application("resnet50", tf.keras.applications.ResNet50, batch, side, 0.0005)


def inception_v3(batch=16, side=75):
    return application("inception_v3", tf.keras.applications.InceptionV3, batch, side, 0.0005)


MODELS = {"resnet50": resnet50, "inception_v3": inception_v3}
