"""Writes every script to a folder, with real TensorFlow: generate_scripts.py FOLDER [PART_OF_A_NAME]"""
import itertools
import os
import shutil
import sys
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf  # noqa: E402  (after the environment)

import staging_scripts  # noqa: E402
import state_scripts  # noqa: E402


def main():
    root, part = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    tf.get_logger().setLevel("ERROR")
    warnings.simplefilter("ignore")  # v1 is deprecated, and meant
    tf.compat.v1.disable_v2_behavior()
    if not part:
        shutil.rmtree(root, ignore_errors=True)
    count = 0
    for script in itertools.chain(state_scripts.scripts(root), staging_scripts.scripts()):
        if part in script.name:
            script.write(root)
            count += 1
        script.session.close()
    print(f"{count} scripts by TensorFlow {tf.__version__} in {root}")


if __name__ == "__main__":
    main()
