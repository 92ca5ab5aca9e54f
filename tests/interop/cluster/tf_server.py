"""A TensorFlow server, started as `tutti server` is: --cluster JSON, or --ps_hosts and --worker_hosts, or TF_CONFIG."""
import argparse
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow.compat.v1 as tf  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster")
    parser.add_argument("--ps_hosts")
    parser.add_argument("--worker_hosts")
    parser.add_argument("--job_name")
    parser.add_argument("--task_index", type=int)
    args = parser.parse_args()
    if args.cluster:
        spec = json.loads(args.cluster)
    elif args.worker_hosts:
        spec = {"ps": args.ps_hosts.split(","), "worker": args.worker_hosts.split(",")}
    else:
        config = json.loads(os.environ["TF_CONFIG"])
        spec, args.job_name, args.task_index = config["cluster"], config["task"]["type"], config["task"]["index"]
    tf.train.Server(tf.train.ClusterSpec(spec), job_name=args.job_name, task_index=args.task_index).join()


if __name__ == "__main__":
    main()
