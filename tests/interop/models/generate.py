"""Writes models with real TensorFlow, and what it gets for them: generate.py ROOT [PART_OF_A_NAME]"""
import os
import shutil
import subprocess
import sys
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf  # noqa: E402  (after the environment)

import attention  # noqa: E402
import convolutional  # noqa: E402
import embedding  # noqa: E402
import recurrent  # noqa: E402


def write(makers, root, part):
    count = 0
    for name, make in makers.items():
        if part in name:
            with tf.Graph().as_default():
                make().write(root)
            count += 1
    return count


def main():
    root, part = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    tf.get_logger().setLevel("ERROR")
    warnings.simplefilter("ignore")  # v1 is deprecated, and meant
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    # First what wants version 2: it cannot be had back.
    count = write(recurrent.FUNCTIONAL, root, part)
    tf.compat.v1.disable_v2_behavior()
    for module in (convolutional, recurrent, embedding, attention):
        count += write(module.MODELS, root, part)
    for onednn in ("on", "off"):
        subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "evaluate.py"), root, onednn], check=True)
    print(f"{count} models by TensorFlow {tf.__version__} in {root}")


if __name__ == "__main__":
    main()
