"""Writes every case to a folder, with real TensorFlow: generate_cases.py FOLDER [PART_OF_A_NAME]"""
import os
import shutil
import sys
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# Off by default where there is no AVX-512, and without it TensorFlow has no gradients of dilated convolutions.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import tensorflow as tf  # noqa: E402  (after the environment)

import control_flow_cases  # noqa: E402
import conv_cases  # noqa: E402
import embedding_cases  # noqa: E402
import random_cases  # noqa: E402
import training_cases  # noqa: E402
import v1_gradient_cases  # noqa: E402


def main():
    root, part = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    tf.get_logger().setLevel("ERROR")
    warnings.simplefilter("ignore")  # v1 is deprecated, and meant
    tf.compat.v1.disable_v2_behavior()
    if not part:
        shutil.rmtree(root, ignore_errors=True)
    count = 0
    for module in (training_cases, control_flow_cases, random_cases, conv_cases, embedding_cases,
                   v1_gradient_cases):
        for case in module.cases():
            if part in case.name:
                case.write(root)
                count += 1
    print(f"{count} cases by TensorFlow {tf.__version__} in {root}")


if __name__ == "__main__":
    main()
