"""distributed_mnist on two hosts, which are network namespaces of this machine: network_test.py PROGRAMS

With certificates and a secret, and with --insecure; without either it says what to give. Making a network namespace
takes root: as another user the test is skipped (exit code 77).
"""

import os
import re
import subprocess
import sys
import tempfile

LIMIT = 120
PS = "10.77.0.1:2222"
WORKERS = "10.77.0.1:2223,10.77.0.2:2223"
CLUSTER = [f"--ps_hosts={PS}", f"--worker_hosts={WORKERS}"]


class Host:
    """A network namespace, and what runs in it: it lasts as long as the process that holds it."""

    def __init__(self):
        # `read` ends with this test, however that ends.
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo ready; read line"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "ready\n":
            sys.exit("no network namespace could be made")

    def command(self, *words):
        return ["nsenter", "--target", str(self.holder.pid), "--net", *words]

    def run(self, *words):
        subprocess.run(self.command(*words), check=True)

    def start(self, *words):
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("TF_CONFIG", "TUTTI_"))}
        return subprocess.Popen(self.command(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=environment)

    def close(self):
        self.holder.stdin.close()
        self.holder.wait(LIMIT)


def connect(first, second):
    subprocess.run(["ip", "link", "add", "tutti0", "netns", str(first.holder.pid), "type", "veth",
                    "peer", "name", "tutti1", "netns", str(second.holder.pid)], check=True)
    for host, device, address in ((first, "tutti0", "10.77.0.1"), (second, "tutti1", "10.77.0.2")):
        host.run("ip", "addr", "add", f"{address}/24", "dev", device)
        host.run("ip", "link", "set", device, "up")
        host.run("ip", "link", "set", "lo", "up")


def train(hosts, program, flags_of, directory):
    """One ps and one worker on the first host, one worker on the second. What the workers said."""
    common = [program, *CLUSTER, "--train_steps=400", "--digits=2000", "--learning_rate=1e-3",
              f"--checkpoint_dir={directory}"]
    tasks = [(hosts[0], "ps", 0), (hosts[0], "worker", 0), (hosts[1], "worker", 1)]
    started = [host.start(*common, f"--job_name={job}", f"--task_index={index}", *flags_of(job, index))
               for host, job, index in tasks]
    try:
        texts = [task.communicate(timeout=LIMIT)[0] for task in started[1:]]
    finally:
        for task in started:
            task.kill()
    for task, text in zip(started[1:], texts):
        print(text)
        if task.wait(LIMIT) != 0:
            sys.exit(f"a worker ended with {task.returncode}")
    if not re.search(r"^test accuracy \d+\.\d %$", texts[0], flags=re.MULTILINE):
        sys.exit("worker 0 did not end with an accuracy")
    if "Train step" not in texts[1]:
        sys.exit("worker 1, on the other host, made no step")
    if not any(name.startswith("model.ckpt-4") for name in os.listdir(directory)):
        sys.exit(f"no checkpoint of the last step among {os.listdir(directory)}")


def main(folder):
    if os.geteuid() != 0:
        print("network namespaces take root: skipped")
        sys.exit(77)
    program = os.path.join(folder, "distributed_mnist")
    hosts = [Host(), Host()]
    try:
        connect(*hosts)
        refused = hosts[0].start(program, *CLUSTER, "--job_name=ps", "--task_index=0")
        text = refused.communicate(timeout=LIMIT)[0]
        print(text)
        if refused.returncode == 0 or "--insecure" not in text:
            sys.exit("a task that anyone could reach does not say what it wants")
        with tempfile.TemporaryDirectory() as directory:
            certificates, token = os.path.join(directory, "certs"), os.path.join(directory, "token")
            subprocess.run([os.path.join(folder, "tutti"), "certs", *CLUSTER, "--out", certificates], check=True)
            with open(token, "w", encoding="utf-8") as file:
                file.write("open sesame\n")
            train(hosts, program,
                  lambda job, index: [f"--ca={certificates}/ca.pem", f"--cert={certificates}/{job}-{index}.pem",
                                      f"--key={certificates}/{job}-{index}.key", f"--join_token_file={token}"],
                  os.path.join(directory, "secure"))
            train(hosts, program, lambda job, index: ["--insecure"], os.path.join(directory, "insecure"))
    finally:
        for host in hosts:
            host.close()


main(sys.argv[1])
